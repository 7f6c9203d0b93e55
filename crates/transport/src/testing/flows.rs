//! Clauses of the contract for bulk transfers other than one flow of a given size.

use std::time::Duration;

use regatta_control::{SideReport, TrialOrder};
use regatta_model::{BulkOptions, Direction, Finish, Pattern, Verify, WorkloadKind};

use super::contract::{check_warning, metric, pair, says_the_deadline};
use crate::driver::Driver;

fn with(options: BulkOptions) -> impl Fn(&mut TrialOrder) {
    move |order| {
        if let WorkloadKind::Bulk { options: there, .. } = &mut order.workload.kind {
            *there = options;
        }
    }
}

/// Returns the sum of a metric over the ends that have it.
fn total_of<'a>(
    sender: &'a SideReport,
    receiver: &'a SideReport,
) -> impl Fn(&str) -> f64 + use<'a> {
    move |name| {
        [sender, receiver]
            .iter()
            .filter_map(|side| side.measurements.metrics.get(name))
            .sum()
    }
}

/// Returns the report of the end that connects.
fn connecting<'a>(
    sender: &'a SideReport,
    receiver: &'a SideReport,
    direction: Direction,
) -> &'a SideReport {
    [sender, receiver][usize::from(direction == Direction::Reverse)]
}

fn ways(direction: Direction) -> f64 {
    match direction {
        Direction::Both => 2.0,
        Direction::Forward | Direction::Reverse => 1.0,
    }
}

/// Sizes that do not divide, both directions, one flow and several; digests agree.
pub fn every_direction_and_number_of_flows_delivers_everything(
    driver: &dyn Driver,
    direction: Direction,
    flows: u32,
    size: u64,
    message: u64,
) {
    let name = driver.descriptor().name;
    let what = format!("{name}, {direction:?}, {flows} flows of {size} bytes");
    let options = BulkOptions {
        direction,
        flows,
        verify: Verify::Digest,
        ..BulkOptions::default()
    };
    let (sender, receiver, _) = pair(driver, size, message, with(options));
    let total = total_of(&sender, &receiver);
    let ways = ways(direction);
    assert_eq!(total("bytes_sent"), ways * size as f64, "{what}");
    assert_eq!(total("bytes_delivered"), ways * size as f64, "{what}");
    assert_eq!(
        total("messages_sent"),
        total("messages_delivered"),
        "{what}"
    );
    assert_eq!(total("messages_corrupted"), 0.0, "{what}");
    let connecting = connecting(&sender, &receiver, direction);
    assert!(metric(connecting, "transfer_time_ns") > 0.0, "{what}");
    assert!(metric(connecting, "set_up_time_ns") > 0.0, "{what}");
    assert_eq!(
        sender.measurements.facts["digest.sent"], receiver.measurements.facts["digest.delivered"],
        "{what}"
    );
}

/// A transfer with a duration takes about as long as was asked, and all that was sent arrives.
pub fn a_duration_ends_a_transfer_in_good_order(driver: &dyn Driver) {
    let what = format!("{} for a time", driver.descriptor().name);
    let options = BulkOptions {
        duration: Some(Duration::from_millis(300)),
        flows: 2,
        ..BulkOptions::default()
    };
    let (sender, receiver, _) = pair(driver, 1, 20_000, with(options));
    assert!(metric(&sender, "transfer_time_ns") >= 300e6, "{what}");
    assert!(metric(&sender, "bytes_sent") >= 20_000.0, "{what}");
    assert_eq!(metric(&receiver, "messages_corrupted"), 0.0, "{what}");
    for unit in ["bytes", "messages"] {
        assert_eq!(
            metric(&sender, &format!("{unit}_sent")),
            metric(&receiver, &format!("{unit}_delivered")),
            "{what}"
        );
    }
}

/// Bytes that arrive during the warm-up are counted apart.
pub fn a_warm_up_is_left_out(driver: &dyn Driver) {
    let what = format!("{} with a warm-up", driver.descriptor().name);
    let options = BulkOptions {
        duration: Some(Duration::from_millis(600)),
        warm_up: Duration::from_millis(300),
        ..BulkOptions::default()
    };
    let (sender, receiver, _) = pair(driver, 1, 20_000, with(options));
    assert_eq!(metric(&sender, "warm_up_ns"), 3e8, "{what}");
    let (warm, all) = (
        metric(&receiver, "warm_up_bytes"),
        metric(&receiver, "bytes_delivered"),
    );
    assert!(warm > 0.0 && warm < all, "{what}: {warm} of {all}");
}

/// Flows of messages are sent for as long as was asked, each message is delivered or lost, and what
/// arrives during the warm-up is told apart.
pub fn flows_of_messages_end_after_their_duration(
    driver: &dyn Driver,
    direction: Direction,
    flows: u32,
) {
    let name = driver.descriptor().name;
    let what = format!("{name}, {direction:?}, {flows} flows for a time");
    let options = BulkOptions {
        duration: Some(Duration::from_millis(600)),
        warm_up: Duration::from_millis(300),
        direction,
        flows,
        ..BulkOptions::default()
    };
    let (sender, receiver, _) = pair(driver, 1, 1000, with(options));
    let connecting = connecting(&sender, &receiver, direction);
    assert!(metric(connecting, "transfer_time_ns") >= 600e6, "{what}");
    assert!(metric(connecting, "set_up_time_ns") > 0.0, "{what}");
    assert_eq!(metric(connecting, "warm_up_ns"), 3e8, "{what}");
    let total = total_of(&sender, &receiver);
    let delivered = total("messages_delivered");
    assert!(delivered > 0.0, "{what}");
    let (sent, lost) = (total("messages_sent"), total("messages_lost"));
    assert_eq!(sent, delivered + lost, "{what}");
    assert_eq!(total("messages_corrupted"), 0.0, "{what}");
    let (warm, all) = (total("warm_up_bytes"), total("bytes_delivered"));
    assert_eq!(all, delivered * 1000.0, "{what}");
    assert!(warm > 0.0 && warm < all, "{what}: {warm} of {all}");
}

/// Flows of messages of sizes that do not divide: each message is delivered or lost.
pub fn flows_of_messages_of_a_size_are_sent(
    driver: &dyn Driver,
    direction: Direction,
    flows: u32,
    size: u64,
) {
    let name = driver.descriptor().name;
    let what = format!("{name}, {direction:?}, {flows} flows of {size} bytes");
    let options = BulkOptions {
        direction,
        flows,
        ..BulkOptions::default()
    };
    let (sender, receiver, _) = pair(driver, size, 500, with(options));
    let total = total_of(&sender, &receiver);
    assert_eq!(total("bytes_sent"), ways(direction) * size as f64, "{what}");
    let (sent, lost) = (total("messages_sent"), total("messages_lost"));
    assert_eq!(sent, total("messages_delivered") + lost, "{what}");
    assert_eq!(total("messages_corrupted"), 0.0, "{what}");
    if lost == 0.0 {
        assert_eq!(total("bytes_delivered"), total("bytes_sent"), "{what}");
    }
}

/// Flows of more messages than fit into the deadline stop at both ends, which agree about what was
/// delivered.
pub fn the_deadline_ends_flows_of_messages(driver: &dyn Driver, direction: Direction, flows: u32) {
    let name = driver.descriptor().name;
    let what = format!("{name}, {direction:?}, {flows} flows at the deadline");
    let options = BulkOptions {
        direction,
        flows,
        ..BulkOptions::default()
    };
    let (sender, receiver, _) = pair(driver, 1 << 40, 1000, |order| {
        with(options)(order);
        order.deadline = Duration::from_millis(300);
    });
    let connecting = connecting(&sender, &receiver, direction);
    let total = total_of(&sender, &receiver);
    let delivered = total("bytes_delivered");
    assert!(delivered > 0.0, "{what}");
    assert!(total("bytes_sent") >= delivered, "{what}");
    says_the_deadline(connecting, delivered, &what);
    let loss = sender.measurements.metrics.get("messages_lost").copied();
    match (loss, direction, driver.descriptor().reliable) {
        (Some(lost), Direction::Forward, false) => {
            let (sent, arrived) = (total("messages_sent"), total("messages_delivered"));
            assert!(lost <= sent - arrived, "{what}: {lost} of {sent}");
        }
        // What was under way to the connecting end is not waited for.
        (loss, ..) => assert_eq!(loss, None, "{what}"),
    }
}

/// A file is made, read, and arrives as it is.
pub fn a_file_is_read_and_delivered(driver: &dyn Driver) {
    let what = format!("{} from a file", driver.descriptor().name);
    let change = |order: &mut TrialOrder| {
        if let WorkloadKind::Bulk {
            pattern, options, ..
        } = &mut order.workload.kind
        {
            *pattern = Pattern::File;
            options.verify = Verify::Digest;
            options.flows = 2;
        }
    };
    let (sender, receiver, _) = pair(driver, 1_000_001, 30_000, change);
    assert_eq!(metric(&receiver, "bytes_delivered"), 1_000_001.0, "{what}");
    assert_eq!(metric(&receiver, "messages_corrupted"), 0.0, "{what}");
    assert_eq!(
        sender.measurements.facts["digest.sent"], receiver.measurements.facts["digest.delivered"],
        "{what}"
    );
}

/// The sender closes without waiting: what arrived is known at both ends, and it is flagged.
pub fn an_abandoned_transfer_says_what_was_delivered(driver: &dyn Driver) {
    let what = format!("{} abandoned", driver.descriptor().name);
    let options = BulkOptions {
        finish: Finish::Abandon,
        ..BulkOptions::default()
    };
    let (sender, receiver, _) = pair(driver, 3_000_000, 10_000, with(options));
    let (sent, lost, delivered) = (
        metric(&sender, "messages_sent"),
        metric(&sender, "messages_lost"),
        metric(&receiver, "messages_delivered"),
    );
    assert_eq!(sent, 300.0, "{what}");
    assert_eq!(sent - lost, delivered, "{what}");
    check_warning(&sender, "abandoned", &what);
}

/// A transfer of more than fits into the deadline stops at both ends, which agree about what was
/// delivered.
pub fn the_deadline_ends_every_flow(driver: &dyn Driver, direction: Direction) {
    let what = format!("{} {direction:?} at the deadline", driver.descriptor().name);
    let options = BulkOptions {
        direction,
        flows: 2,
        ..BulkOptions::default()
    };
    let (sender, receiver, _) = pair(driver, 1 << 45, 50_000, |order| {
        with(options)(order);
        order.deadline = Duration::from_millis(300);
    });
    let delivered = metric(&receiver, "bytes_delivered");
    assert!(delivered > 0.0, "{what}");
    assert!(metric(&sender, "bytes_sent") >= delivered, "{what}");
    let connecting = connecting(&sender, &receiver, direction);
    // From the first of the connections on; their mean is what is told.
    assert!(metric(connecting, "transfer_time_ns") > 300e6, "{what}");
    let within = 300e6 + metric(connecting, "set_up_time_ns") * 2.0 + 1e9;
    assert!(metric(connecting, "transfer_time_ns") < within, "{what}");
    says_the_deadline(connecting, delivered, &what);
}
