//! Tests of a client whose address changes in mid-transfer.

use std::time::Duration;

use regatta_transport::Driver;

use super::{option, pair, text};

for_both! {
    transfer_continues_after_migration_and_delivers_everything,
    transfer_that_ends_before_migration_reports_none,
}

fn transfer_continues_after_migration_and_delivers_everything(driver: &dyn Driver) {
    let name = driver.descriptor().name;
    let size = 300_000_000;
    let pair = pair(driver, size, |order| {
        option(order, "migrate_after", text("20ms"));
        order.path.mtu_bytes = 1500;
    });
    let (sender, receiver) = (pair.sender, pair.receiver);
    let (sender, receiver) = (sender.expect("a report"), receiver.expect("a report"));
    assert_eq!(
        sender.measurements.facts["migration.sender"], "to another local port after 20 ms",
        "{name}"
    );
    assert_eq!(
        receiver.measurements.facts["migration.receiver"],
        "the other end's address changed, and the connection went on",
        "{name}"
    );
    assert_eq!(
        receiver.measurements.metrics["bytes_delivered"], size as f64,
        "{name}"
    );
    assert_eq!(
        receiver.measurements.metrics["messages_corrupted"], 0.0,
        "{name}"
    );
    assert!(
        sender.measurements.metrics["transfer_time_ns"] > 20e6,
        "{name}"
    );
}

fn transfer_that_ends_before_migration_reports_none(driver: &dyn Driver) {
    let pair = pair(driver, 10_000, |order| {
        option(order, "migrate_after", text("10s"));
        order.deadline = Duration::from_secs(15);
    });
    assert_eq!(
        pair.sender.expect("a report").measurements.facts["migration.sender"],
        "not made: the transfer was over before 10 s"
    );
    let receiver = pair.receiver.expect("a report").measurements.facts;
    assert!(!receiver.contains_key("migration.receiver"));
}
