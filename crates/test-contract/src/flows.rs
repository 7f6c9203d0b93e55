//! Clauses of the contract for bulk transfers other than one flow of a given size.

use std::time::Duration;

use regatta_control::{SideReport, TrialOrder};
use regatta_model::{
    Amount, BulkOptions, Bytes, Direction, Finish, Opening, Pattern, Verify, WorkloadKind,
};
use regatta_transport::Driver;

use crate::contract::{
    check_deadline_warning, check_digests, check_fact, check_metrics, check_warning, metric, pair,
};

/// Time after which the deadline ends a transfer that would take longer.
const DEADLINE: Duration = Duration::from_millis(300);

/// Both ends of a transfer.
struct Ran {
    sender: SideReport,
    receiver: SideReport,
    direction: Direction,
    what: String,
}

impl Ran {
    /// Returns the sum of a metric over the ends that have it.
    fn total(&self, name: &str) -> f64 {
        let ends = [&self.sender, &self.receiver].into_iter();
        ends.filter_map(|end| end.measurements.metrics.get(name))
            .sum()
    }

    /// Returns the report of the end that connects.
    fn connecting(&self) -> &SideReport {
        [&self.sender, &self.receiver][usize::from(self.direction == Direction::Reverse)]
    }

    /// Returns the bytes of all directions of a transfer of `size` bytes in each.
    fn in_all_directions(&self, size: u64) -> f64 {
        match self.direction {
            Direction::Both => 2.0 * size as f64,
            Direction::Forward | Direction::Reverse => size as f64,
        }
    }
}

/// Runs a transfer of a size with the options and the order that `change` sets.
fn run(
    driver: &dyn Driver,
    (size, message): (u64, u64),
    change: impl Fn(&mut BulkOptions, &mut Duration),
) -> Ran {
    run_amount(driver, (Bytes(size).into(), message), change)
}

/// Runs a transfer with the options and the order that `change` sets.
fn run_amount(
    driver: &dyn Driver,
    (amount, message): (Amount, u64),
    change: impl Fn(&mut BulkOptions, &mut Duration),
) -> Ran {
    let name = driver.descriptor().name;
    let mut options = BulkOptions::default();
    change(&mut options, &mut Duration::default());
    let size = amount.bytes().0;
    let (sender, receiver, _) = pair(driver, size, message, |order: &mut TrialOrder| {
        if let WorkloadKind::Bulk {
            amount: of_order,
            options,
            ..
        } = &mut order.workload.kind
        {
            *of_order = amount;
            change(options, &mut order.deadline);
        }
    });
    Ran {
        sender,
        receiver,
        direction: options.direction,
        what: format!("{name}, {amount:?}: {options:?}"),
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
    let ran = run(driver, (size, message), |options, _| {
        options.direction = direction;
        options.flows = flows;
        options.verify = Verify::Digest;
    });
    let (what, bytes) = (&ran.what, ran.in_all_directions(size));
    assert_eq!(ran.total("bytes_sent"), bytes, "{what}");
    assert_eq!(ran.total("bytes_delivered"), bytes, "{what}");
    let sent = ran.total("messages_sent");
    assert_eq!(sent, ran.total("messages_delivered"), "{what}");
    assert_eq!(ran.total("messages_corrupted"), 0.0, "{what}");
    assert!(metric(ran.connecting(), "transfer_time_ns") > 0.0, "{what}");
    assert!(
        metric(ran.connecting(), "set_up_time_mean_ns") > 0.0,
        "{what}"
    );
    check_digests(&ran.sender, &ran.receiver, what);
}

/// Flows whose data leaves when their opening is answered deliver everything.
pub fn an_answered_opening_delivers_everything(driver: &dyn Driver) {
    let size = 1_000_003;
    let ran = run(driver, (size, 10_000), |options, _| {
        options.opening = Opening::Answered;
        options.flows = 2;
    });
    assert_eq!(ran.total("bytes_delivered"), size as f64, "{}", ran.what);
}

/// Data at which nobody looks is counted, whether it has an end or a duration.
pub fn data_that_is_not_verified_is_counted(driver: &dyn Driver) {
    let size = Amount::Bytes(Bytes(1_000_003));
    for amount in [size, Amount::Time(Duration::from_millis(100))] {
        let ran = run_amount(driver, (amount, 10_000), |options, _| {
            options.verify = Verify::None;
            options.direction = Direction::Both;
        });
        let what = &ran.what;
        for unit in ["bytes", "messages"] {
            let [sent, delivered] =
                ["sent", "delivered"].map(|end| ran.total(&format!("{unit}_{end}")));
            assert!(
                sent > 0.0 && sent == delivered,
                "{what}: {sent} {unit}, {delivered} arrived"
            );
        }
        if amount == size {
            assert_eq!(
                ran.total("bytes_sent"),
                ran.in_all_directions(1_000_003),
                "{what}"
            );
        }
    }
}

/// A transfer with a duration takes about that time, and all that was sent arrives.
pub fn a_duration_ends_a_transfer_cleanly(driver: &dyn Driver) {
    let amount = Amount::Time(Duration::from_millis(300));
    let ran = run_amount(driver, (amount, 20_000), |options, _| {
        options.flows = 2;
    });
    let (sender, receiver, what) = (&ran.sender, &ran.receiver, &ran.what);
    assert!(metric(sender, "transfer_time_ns") >= 300e6, "{what}");
    assert!(metric(sender, "bytes_sent") >= 20_000.0, "{what}");
    assert_eq!(metric(receiver, "messages_corrupted"), 0.0, "{what}");
    for unit in ["bytes", "messages"] {
        let sent = metric(sender, &format!("{unit}_sent"));
        check_metrics(&[(receiver, &format!("{unit}_delivered"), sent)], what);
    }
}

/// Bytes that arrive during the warm-up are counted apart, and no probe message of that time is.
pub fn a_warm_up_is_excluded(driver: &dyn Driver) {
    let what = driver.descriptor().name;
    let (sender, receiver, _) = pair(driver, 1, 20_000, |order: &mut TrialOrder| {
        let probe = &mut order.workload.probe;
        probe.under_load = true;
        probe.interval = Duration::from_millis(10);
        if let WorkloadKind::Bulk {
            amount, options, ..
        } = &mut order.workload.kind
        {
            *amount = Amount::Time(Duration::from_millis(600));
            options.warm_up = Duration::from_millis(300);
        }
    });
    let (sender, receiver) = (&sender, &receiver);
    // One is due every 10 ms from the end of the warm-up to that of the transfer, of which a busy
    // machine delivers the last bytes late; programs have none.
    let due = (metric(sender, "transfer_time_ns") - 3e8) / 1e7;
    let probes = sender.measurements.metrics.get("probe_messages_sent");
    assert!(
        probes.is_none_or(|sent| *sent <= due + 2.0),
        "{what}: {probes:?} of {due}"
    );
    assert_eq!(metric(sender, "warm_up_ns"), 3e8, "{what}");
    let warm = metric(receiver, "warm_up_bytes");
    let all = metric(receiver, "bytes_delivered");
    assert!(warm > 0.0 && warm < all, "{what}: {warm} of {all}");
}

/// Flows of messages are sent for their duration, each message is delivered or lost, and bytes
/// of the warm-up are counted separately.
pub fn flows_of_messages_end_after_their_duration(
    driver: &dyn Driver,
    direction: Direction,
    flows: u32,
) {
    let amount = Amount::Time(Duration::from_millis(600));
    let ran = run_amount(driver, (amount, 1000), |options, _| {
        options.warm_up = Duration::from_millis(300);
        options.direction = direction;
        options.flows = flows;
    });
    let (connecting, what) = (ran.connecting(), &ran.what);
    assert!(metric(connecting, "transfer_time_ns") >= 600e6, "{what}");
    assert!(metric(connecting, "set_up_time_mean_ns") > 0.0, "{what}");
    assert_eq!(metric(connecting, "warm_up_ns"), 3e8, "{what}");
    let delivered = ran.total("messages_delivered");
    assert!(delivered > 0.0, "{what}");
    let (sent, lost) = (ran.total("messages_sent"), ran.total("messages_lost"));
    assert_eq!(sent, delivered + lost, "{what}");
    assert_eq!(ran.total("messages_corrupted"), 0.0, "{what}");
    let (warm, all) = (ran.total("warm_up_bytes"), ran.total("bytes_delivered"));
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
    let ran = run(driver, (size, 500), |options, _| {
        options.direction = direction;
        options.flows = flows;
    });
    let what = &ran.what;
    assert_eq!(
        ran.total("bytes_sent"),
        ran.in_all_directions(size),
        "{what}"
    );
    let (sent, lost) = (ran.total("messages_sent"), ran.total("messages_lost"));
    assert_eq!(sent, ran.total("messages_delivered") + lost, "{what}");
    assert_eq!(ran.total("messages_corrupted"), 0.0, "{what}");
    if lost == 0.0 {
        let delivered = ran.total("bytes_delivered");
        assert_eq!(delivered, ran.total("bytes_sent"), "{what}");
    }
}

/// Flows of more messages than fit into the deadline stop at both ends, which agree about what was
/// delivered.
pub fn the_deadline_ends_flows_of_messages(driver: &dyn Driver, direction: Direction, flows: u32) {
    let ran = run(driver, (1 << 40, 1000), |options, deadline| {
        options.direction = direction;
        options.flows = flows;
        *deadline = DEADLINE;
    });
    let (what, delivered) = (&ran.what, ran.total("bytes_delivered"));
    assert!(delivered > 0.0, "{what}");
    assert!(ran.total("bytes_sent") >= delivered, "{what}");
    check_deadline_warning(ran.connecting(), delivered, what);
    let loss = ran.sender.measurements.metrics.get("messages_lost");
    match (loss.copied(), direction, driver.descriptor().reliable) {
        (Some(lost), Direction::Forward, false) => {
            let (sent, arrived) = (ran.total("messages_sent"), ran.total("messages_delivered"));
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
    check_digests(&sender, &receiver, &what);
}

/// The sender closes without waiting: what arrived is known at both ends, and it is flagged.
pub fn an_abandoned_transfer_reports_delivered_bytes(driver: &dyn Driver) {
    let ran = run(driver, (3_000_000, 10_000), |options, _| {
        options.finish = Finish::Abandon;
    });
    let (sender, what) = (&ran.sender, &ran.what);
    let (sent, lost) = (
        metric(sender, "messages_sent"),
        metric(sender, "messages_lost"),
    );
    assert_eq!(sent, 300.0, "{what}");
    check_metrics(&[(&ran.receiver, "messages_delivered", sent - lost)], what);
    check_warning(sender, "abandoned", what);
    check_fact(sender, "acknowledgement", "control", what);
}

/// A transfer of more than fits into the deadline stops at both ends, which agree about what was
/// delivered.
pub fn the_deadline_ends_every_flow(driver: &dyn Driver, direction: Direction) {
    let ran = run(driver, (1 << 45, 50_000), |options, deadline| {
        options.direction = direction;
        options.flows = 2;
        *deadline = DEADLINE;
    });
    let (what, delivered) = (&ran.what, metric(&ran.receiver, "bytes_delivered"));
    assert!(delivered > 0.0, "{what}");
    assert!(metric(&ran.sender, "bytes_sent") >= delivered, "{what}");
    // From the first of the connections on; the metric is their mean.
    let (time, set_up) = (
        metric(ran.connecting(), "transfer_time_ns"),
        metric(ran.connecting(), "set_up_time_mean_ns"),
    );
    assert!(time > 300e6, "{what}");
    assert!(time < 300e6 + set_up * 2.0 + 1e9, "{what}");
    check_deadline_warning(ran.connecting(), delivered, what);
}
