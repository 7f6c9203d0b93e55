//! Libraries of the encryption, compared over the drivers that let them be chosen: a driver's default
//! is the one with which it is faster.

use regatta_model::OptionValue;

use crate::{
    Bench, ETHERNET_MTU_BYTES, LOOPBACK_MTU_BYTES,
    agents::{self, Race},
};

/// Drivers with the option `crypto`, and the largest packet of their path.
const DRIVERS: &[(&str, u32)] = &[
    ("quic-quinn", ETHERNET_MTU_BYTES),
    ("quic-noq", ETHERNET_MTU_BYTES),
    ("tcp-tls", LOOPBACK_MTU_BYTES),
];

/// Compares ring with AWS-LC.
pub fn compare_libraries(bench: &mut Bench<'_>) {
    let executable = bench.executable;
    for &(driver, mtu_bytes) in DRIVERS {
        let [ring, aws_lc] = ["ring", "aws-lc"].map(|library| {
            let mut race = Race::new(driver, bench.amounts.quic_bytes, mtu_bytes);
            let library = OptionValue::Text(library.to_owned());
            race.options.insert("crypto".to_owned(), library);
            race
        });
        let name = format!("{driver}, ring / aws-lc");
        let aws_lc = || agents::race(&aws_lc, executable);
        bench.compare(&name, &ring, aws_lc, [None, None]);
    }
}
