//! Contract tests of every driver for `wdt`, over loopback, and tests of its own behaviour.

use std::{collections::BTreeMap, time::Duration};

use regatta_model::OptionValue;
use regatta_transport::{Driver, testing};

fn wdt() -> &'static dyn Driver {
    regatta_transport_wdt_driver::drivers()[0]
}

regatta_test_contract::contract_tests! { wdt_driver: files => wdt() }

fn options(encryption: &str, connections: i64, checksum: bool) -> BTreeMap<String, OptionValue> {
    BTreeMap::from([
        (
            "encryption".to_owned(),
            OptionValue::Text(encryption.to_owned()),
        ),
        ("connections".to_owned(), OptionValue::Number(connections)),
        (
            "block_size".to_owned(),
            OptionValue::Text("100kB".to_owned()),
        ),
        ("checksum".to_owned(), OptionValue::Flag(checksum)),
        ("files".to_owned(), OptionValue::Number(7)),
    ])
}

regatta_test_contract::test_cases! { tree_arrives_complete_and_each_connection_is_reported:
    without_encryption_on_one_connection("none", 1, true)
    without_encryption_on_three_connections("none", 3, false)
    with_aes128_ctr_on_one_connection("aes128-ctr", 1, true)
    with_aes128_ctr_on_three_connections("aes128-ctr", 3, false)
    with_aes128_gcm_on_one_connection("aes128-gcm", 1, true)
    with_aes128_gcm_on_three_connections("aes128-gcm", 3, false)
}

fn tree_arrives_complete_and_each_connection_is_reported(
    encryption: &str,
    connections: i64,
    checksum: bool,
) {
    let what = format!("{encryption}, {connections} connections, checksum {checksum}");
    let pair = testing::run_pair(wdt(), 3_000_017, 10_000, |order| {
        order.transport.options = options(encryption, connections, checksum);
        if let regatta_model::WorkloadKind::Bulk { options, .. } = &mut order.workload.kind {
            options.verify = regatta_model::Verify::Digest;
        }
    })
    .expect("both ends can be prepared");
    let sender = pair.sender.expect(&what);
    let receiver = pair.receiver.expect(&what);
    assert_eq!(
        receiver.measurements.metrics["bytes_delivered"], 3_000_017.0,
        "{what}"
    );
    assert_eq!(
        receiver.measurements.metrics["messages_corrupted"], 0.0,
        "{what}"
    );
    assert_eq!(
        sender.measurements.facts["digest.sent"], receiver.measurements.facts["digest.delivered"],
        "{what}"
    );
    assert_eq!(
        sender.measurements.facts["wdt.encryption.sender"], encryption,
        "{what}"
    );
    assert_eq!(
        sender.measurements.facts["congestion_control.sender"], "cubic",
        "{what}"
    );
    // Seven files of some 430 kB in blocks of 100 kB.
    assert_eq!(
        sender.measurements.facts["wdt.blocks.sender"], "35",
        "{what}"
    );
    let samples = pair.sender_seen.samples();
    let window = samples.last().and_then(|last| last.congestion_window_bytes);
    assert!(window > Some(0), "{what}: {samples:?}");
    for name in ["retransmitted_packets", "smoothed_rtt_ns", "packets_sent"] {
        let each = sender
            .measurements
            .facts
            .get(&format!("connections.{name}.sender"));
        let each = each.map(|each| each.split(' ').count());
        let expected = (connections > 1).then_some(connections as usize);
        assert_eq!(each, expected, "{what}: {name}");
    }
    assert!(
        sender.measurements.warnings.is_empty(),
        "{what}: {:?}",
        sender.measurements.warnings
    );
}

#[test]
fn the_congestion_control_is_set_on_every_connection() {
    let pair = testing::run_pair(wdt(), 1000, 1000, |order| {
        let reno = OptionValue::Text("reno".to_owned());
        order.transport.options = BTreeMap::from([("cc".to_owned(), reno)]);
    })
    .expect("both ends can be prepared");
    let sender = pair.sender.expect("a report");
    let receiver = pair.receiver.expect("a report");
    assert_eq!(
        sender.measurements.facts["congestion_control.sender"],
        "reno"
    );
    assert_eq!(
        receiver.measurements.facts["congestion_control.receiver"],
        "reno"
    );
}

#[test]
fn connections_without_a_block_are_reported() {
    let pair = testing::run_pair(wdt(), 1_000_000, 10_000, |_| {}).expect("both ends");
    let sender = pair.sender.expect("a report");
    let codes: Vec<_> = sender
        .measurements
        .warnings
        .iter()
        .map(|warning| &*warning.code)
        .collect();
    assert_eq!(codes, ["wdt_few_blocks"]);
    assert_eq!(pair.receiver.expect("a report").measurements.warnings, []);
}

#[test]
fn connections_without_a_block_are_reported_at_the_deadline() {
    // Four blocks of 10 TB.
    let pair = testing::run_pair(wdt(), 40_000_000_000_000, 10_000, |order| {
        let block_size = OptionValue::Text("10TB".to_owned());
        order.transport.options = BTreeMap::from([("block_size".to_owned(), block_size)]);
        order.deadline = Duration::from_millis(400);
    });
    let sender = pair.expect("both ends").sender.expect("a report");
    let warned = |code: &str| {
        sender
            .measurements
            .warnings
            .iter()
            .any(|warning| warning.code == code)
    };
    assert!(
        warned("deadline_reached"),
        "{:?}",
        sender.measurements.warnings
    );
    assert!(
        warned("wdt_few_blocks"),
        "{:?}",
        sender.measurements.warnings
    );
}
