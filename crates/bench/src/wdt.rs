//! Comparison of `wdt` with `tcp` with as many flows: the cost of blocks, files and the queue, and
//! that of encrypting each connection.

use std::{collections::BTreeMap, path::Path};

use regatta_model::OptionValue;

use crate::{
    Amounts, LOOPBACK_MTU_BYTES, MESSAGE_BYTES,
    agents::{self, Race},
    alternate, cubic,
    report::Report,
    rounds::Gate,
};

/// Least goodput of unencrypted `wdt` over that of `tcp`.
const LEAST: f64 = 0.9;

fn options(encryption: &str, connections: u32) -> BTreeMap<String, OptionValue> {
    let mut options = cubic();
    options.extend([
        (
            "encryption".to_owned(),
            OptionValue::Text(encryption.to_owned()),
        ),
        (
            "connections".to_owned(),
            OptionValue::Number(connections.into()),
        ),
    ]);
    options
}

/// Compares both encryption modes with `tcp`, over one connection and over as many as are the
/// default.
pub fn compare(executable: &Path, amounts: Amounts, report: &mut Report) {
    for (encryption, gate) in [("none", Some(Gate::AtLeast(LEAST))), ("aes128-gcm", None)] {
        for connections in [1, 8] {
            let tcp = Race {
                driver: "tcp",
                options: cubic(),
                bytes: amounts.wdt_bytes,
                message: MESSAGE_BYTES,
                flows: connections,
                path: agents::loopback(LOOPBACK_MTU_BYTES),
            };
            let wdt = Race {
                driver: "wdt",
                options: options(encryption, connections),
                flows: 1,
                ..tcp.clone()
            };
            let name = format!("wdt {encryption} / tcp, {connections} connections");
            let pairs = alternate(
                &name,
                amounts.rounds,
                report,
                || agents::race(&wdt, executable),
                || agents::race(&tcp, executable),
            );
            crate::compare(&name, &pairs, gate, None, report);
        }
    }
}
