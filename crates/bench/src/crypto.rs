//! Libraries of the encryption, compared over the drivers that let them be chosen: a driver's default
//! is the one with which it is faster.

use std::path::Path;

use regatta_model::OptionValue;

use crate::{
    Amounts, ETHERNET_MTU_BYTES, LOOPBACK_MTU_BYTES, MESSAGE_BYTES,
    agents::{self, Race},
    alternate, compare, cubic,
    report::Report,
};

/// Drivers with the option `crypto`, and the largest packet of their path.
const DRIVERS: &[(&str, u32)] = &[
    ("quic-quinn", ETHERNET_MTU_BYTES),
    ("quic-noq", ETHERNET_MTU_BYTES),
    ("tcp-tls", LOOPBACK_MTU_BYTES),
];

/// Compares ring with AWS-LC.
pub fn compare_libraries(executable: &Path, amounts: Amounts, report: &mut Report) {
    for &(driver, mtu_bytes) in DRIVERS {
        let race = |library: &str| {
            let mut options = cubic();
            let library = OptionValue::Text(library.to_owned());
            options.insert("crypto".to_owned(), library);
            Race {
                driver,
                options,
                bytes: amounts.quic_bytes,
                message: MESSAGE_BYTES,
                flows: 1,
                path: agents::loopback(mtu_bytes),
            }
        };
        let (ring, aws_lc) = (race("ring"), race("aws-lc"));
        let name = format!("{driver}, ring / aws-lc");
        let pairs = alternate(
            &name,
            amounts.rounds,
            report,
            || agents::race(&ring, executable),
            || agents::race(&aws_lc, executable),
        );
        compare(&name, &pairs, None, None, report);
    }
}
