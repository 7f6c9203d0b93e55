//! Text that is printed about a path before and after a command.

use regatta_bed::TestBed as _;
use regatta_bed::{Bed, Host, LinkCounters, PathCounters, capture::CaptureSummary};
use regatta_model::{Condition, units::format_duration};

/// Describes the path.
pub fn beginning(condition: &Condition, bed: &Bed, seed: u64) -> String {
    format!(
        "path {}: {}, round-trip delay {}, seed {seed}; client {}, server {}",
        condition.name,
        bed.description(),
        format_duration(condition.round_trip_delay()),
        bed.address(Host::Client),
        bed.address(Host::Server)
    )
}

/// Describes the path's counters.
pub fn ending(counters: &PathCounters) -> String {
    format!(
        "path, client to server: {}\npath, server to client: {}",
        link(&counters.forward),
        link(&counters.reverse)
    )
}

/// Describes the capture; also returns whether it is complete.
pub fn capture(file: &str, summary: &CaptureSummary) -> (String, bool) {
    let packets = summary.packets;
    if summary.missed == 0 && summary.failure.is_none() {
        return (format!("capture: {packets} packets in `{file}`"), true);
    }
    let because = match &summary.failure {
        Some(failure) => format!("writing failed: {failure}"),
        None => "writing did not keep up".to_owned(),
    };
    let missed = summary.missed;
    let text = format!(
        "warning: {missed} packets are not in the capture `{file}`, which has {packets}: {because}"
    );
    (text, false)
}

fn link(counters: &LinkCounters) -> String {
    let mut text = format!(
        "{} packets entered, {} left",
        counters.offered, counters.delivered
    );
    let unsupported = counters.unsupported;
    let mut add = |count: u64, what: &str| {
        if count > 0 {
            text.push_str(&format!(", {count} {what}"));
        }
    };
    let at_random = match (unsupported.queue_drops, unsupported.burst_drops) {
        (true, _) => "lost or dropped by the full queue",
        (false, true) => "lost at random or in bursts",
        (false, false) => "lost at random",
    };
    add(counters.loss_drops, at_random);
    add(counters.burst_drops, "lost in bursts");
    add(counters.list_drops, "lost by list");
    add(counters.queue_drops, "dropped by the full queue");
    add(counters.codel_drops, "dropped by CoDel");
    add(counters.mtu_drops, "larger than the path's largest");
    add(
        counters.refused_drops,
        "dropped because this machine did not keep up",
    );
    add(counters.corrupted, "with a flipped bit");
    add(counters.duplicated, "sent on twice");
    add(counters.reordered, "sent ahead of others");
    if !unsupported.queue_max_bytes && counters.queue_max_bytes > 0 {
        text.push_str(&format!(
            ", at most {} B in the queue",
            counters.queue_max_bytes
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_happened_is_told() {
        let counters = LinkCounters {
            offered: 100,
            delivered: 97,
            loss_drops: 2,
            queue_drops: 1,
            ..LinkCounters::default()
        };
        assert_eq!(
            link(&counters),
            "100 packets entered, 97 left, 2 lost at random, 1 dropped by the full queue"
        );
    }
}
