//! Comparison of `wdt` with `tcp` with as many flows: the cost of blocks, files and the queue, and
//! that of encrypting each connection.

use regatta_model::OptionValue;

use crate::{
    Bench, LOOPBACK_MTU_BYTES,
    agents::{self, Race},
    rounds::Gate,
};

/// Minimum goodput of unencrypted `wdt` over that of `tcp`.
const MIN: f64 = 0.9;

/// Compares both encryption modes with `tcp`, over one connection and over as many as are the
/// default.
pub fn compare(bench: &mut Bench<'_>) {
    let (executable, bytes) = (bench.executable, bench.amounts.wdt_bytes);
    for (encryption, gate) in [("none", Some(Gate::AtLeast(MIN))), ("aes128-gcm", None)] {
        for connections in [1, 8] {
            let tcp = Race {
                flows: connections,
                ..Race::new("tcp", bytes, LOOPBACK_MTU_BYTES)
            };
            let mut wdt = Race::new("wdt", bytes, LOOPBACK_MTU_BYTES);
            let mode = OptionValue::Text(encryption.to_owned());
            let count = OptionValue::Number(connections.into());
            wdt.options.insert("encryption".to_owned(), mode);
            wdt.options.insert("connections".to_owned(), count);
            let name = format!("wdt {encryption} / tcp, {connections} connections");
            let tcp = || agents::race(&tcp, executable);
            bench.compare(&name, &wdt, tcp, [gate, None]);
        }
    }
}
