//! Key logs and event logs.

use std::fs;

use regatta_control::{Role, TrialOrder};
use regatta_model::OptionValue;
use regatta_transport::{
    Driver, TransportError,
    testing::{order_for, run_pair, trial_context},
};

use super::{option, pair};

for_both! {
    secrets_and_events_are_written_to_the_ordered_directory,
    both_ends_know_the_same_secrets,
    a_link_in_the_place_of_a_key_log_is_not_followed,
    a_link_in_the_place_of_an_event_log_is_not_followed,
    missing_directory_for_files_is_warned_about,
}

/// Whether this build writes the events of the driver's connections.
fn logs_events(driver: &dyn Driver) -> bool {
    driver.descriptor().capabilities.contains(&"qlog")
}

fn request_files(driver: &dyn Driver, order: &mut TrialOrder) {
    option(order, "keylog", OptionValue::Flag(true));
    option(order, "qlog", OptionValue::Flag(logs_events(driver)));
}

#[test]
fn event_log_of_noq_requires_its_build_feature() {
    let noq = &regatta_transport_quic_noq::DRIVER;
    let pair = run_pair(noq, 1000, 10_000, |order| {
        option(order, "qlog", OptionValue::Flag(true));
    });
    match (pair, logs_events(noq)) {
        (Ok(_), true) => {}
        (Err(TransportError::Unsupported(unsupported)), false) => {
            assert!(unsupported.hint.contains("--features noq-qlog"));
        }
        (other, _) => panic!("{:?}", other.err()),
    }
}

fn secrets_and_events_are_written_to_the_ordered_directory(driver: &dyn Driver) {
    let name = driver.descriptor().name;
    let directory = tempfile::tempdir().expect("a directory");
    // It is there when the first file is.
    let trial_directory = directory.path().join("trial-0001");
    let pair = pair(driver, 1_000_000, |order| {
        request_files(driver, order);
        // The idle probe's connection, and the transfer's.
        order.workload.probe.idle_messages = 1;
        order.files = Some(trial_directory.clone());
    });
    for (end, report) in [("sender", pair.sender), ("receiver", pair.receiver)] {
        let report = report.expect("a report");
        assert_eq!(
            report.measurements.facts[&format!("keylog.{end}")],
            format!("{end}.keylog")
        );
        let named = report.measurements.facts.get(&format!("qlog.{end}"));
        let expected = format!("{end}.sqlog to {end}-2.sqlog");
        let named = named.map(regatta_model::Text::as_str);
        assert_eq!(named, logs_events(driver).then_some(&*expected));
        // The only message of the idle probe may come late on a busy machine.
        let warnings = report.measurements.warnings.iter();
        let of_files: Vec<_> = warnings
            .filter(|it| it.code != "idle_probe_incomplete")
            .collect();
        assert!(of_files.is_empty(), "{of_files:?}");
        let secrets =
            fs::read_to_string(trial_directory.join(format!("{end}.keylog"))).expect("a key log");
        let of_transfers = secrets
            .lines()
            .filter(|line| line.starts_with("CLIENT_TRAFFIC_SECRET_0 "));
        assert_eq!(of_transfers.count(), 2, "{name}");
        for line in secrets.lines() {
            let fields: Vec<_> = line.split(' ').collect();
            assert_eq!(fields.len(), 3, "{line}");
            assert_eq!(fields[1].len(), 64, "{line}");
        }
        let mut files = vec![format!("{end}.sqlog"), format!("{end}-2.sqlog")];
        files.retain(|_| logs_events(driver));
        for file in files {
            let events = fs::read(trial_directory.join(&file)).expect("an event log");
            // RFC 7464: each text begins with a record separator and ends with a line feed.
            assert_eq!(events.first(), Some(&0x1e), "{name}: {file}");
            assert_eq!(events.last(), Some(&b'\n'), "{name}: {file}");
            let events = String::from_utf8_lossy(&events).into_owned();
            assert!(events.contains("packet_sent"), "{name}: {file}");
        }
    }
}

fn both_ends_know_the_same_secrets(driver: &dyn Driver) {
    let directory = tempfile::tempdir().expect("a directory");
    let pair = pair(driver, 1000, |order| {
        option(order, "keylog", OptionValue::Flag(true));
        order.files = Some(directory.path().to_owned());
    });
    assert!(pair.sender.is_ok() && pair.receiver.is_ok());
    let sorted = |end: &str| {
        let path = directory.path().join(format!("{end}.keylog"));
        let text = fs::read_to_string(path).expect("a key log");
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted("sender"), sorted("receiver"));
}

/// Requests a file of the sender, in whose place is a link to another file. That stays as it was.
fn assert_link_is_not_followed(driver: &dyn Driver, requested: &str, name: &str) {
    let directory = tempfile::tempdir().expect("a directory");
    let [link, target] = [name, "target"].map(|name| directory.path().join(name));
    fs::write(&target, "content").expect("written");
    std::os::unix::fs::symlink(&target, &link).expect("a link");
    let mut order = order_for(Role::Sender, driver.descriptor().name, 1000, 1000);
    option(&mut order, requested, OptionValue::Flag(true));
    order.files = Some(directory.path().to_owned());
    // Nobody listens there: the file is created before the handshake.
    let receiver = "127.0.0.1:9".parse().expect("an address");
    let session = driver.session(&order, trial_context().0);
    let report = session.and_then(|session| session.run(Some(receiver)));
    let error = report.expect_err("it must fail");
    let reasons = error.reasons().join(": ");
    assert!(reasons.contains("it is a link"), "{reasons}");
    assert_eq!(fs::read_to_string(target).expect("a file"), "content");
}

fn a_link_in_the_place_of_a_key_log_is_not_followed(driver: &dyn Driver) {
    assert_link_is_not_followed(driver, "keylog", "sender.keylog");
}

fn a_link_in_the_place_of_an_event_log_is_not_followed(driver: &dyn Driver) {
    if logs_events(driver) {
        assert_link_is_not_followed(driver, "qlog", "sender.sqlog");
    }
}

fn missing_directory_for_files_is_warned_about(driver: &dyn Driver) {
    let pair = pair(driver, 1000, |order| request_files(driver, order));
    for report in [pair.sender, pair.receiver] {
        let report = report.expect("a report");
        let warning = report.measurements.warnings.first().expect("a warning");
        assert_eq!(warning.code, "no_place_for_files");
        let requested = match logs_events(driver) {
            true => "with `keylog`, `qlog`, but",
            false => "with `keylog`, but",
        };
        assert!(warning.message.contains(requested), "{}", warning.message);
        assert!(
            !report
                .measurements
                .facts
                .keys()
                .any(|fact| fact.starts_with("keylog"))
        );
    }
}
