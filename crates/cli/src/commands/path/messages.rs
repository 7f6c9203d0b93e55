//! Text that is printed about a path before and after a command.

use std::time::Duration;

use regatta_bed::TestBed as _;
use regatta_bed::{Bed, Host, LinkCounters, PathCounters, capture::CaptureSummary};
use regatta_model::{Bytes, Condition, Link, PacketCounter, Setting, units::format_duration};

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

/// Describes the path's counters; `None` without an emulator.
pub fn ending(condition: &Condition, counters: Option<&PathCounters>) -> String {
    let Some(counters) = counters else {
        return "path: its packets are not counted, as there is no emulator".to_owned();
    };
    let late_after = condition.late_after();
    let describe = |counters, link_of: for<'c> fn(Setting<'c>) -> &'c Link| {
        link(counters, queue(condition, link_of).as_deref(), late_after)
    };
    let forward = describe(&counters.forward, |setting| setting.forward);
    let reverse = describe(&counters.reverse, |setting| setting.reverse);
    format!("path, client to server: {forward}\npath, server to client: {reverse}")
}

/// Describes the limits of the bottleneck's queue in one direction, one for each setting of the schedule. `None` for a
/// link without a bottleneck.
fn queue(condition: &Condition, link_of: for<'c> fn(Setting<'c>) -> &'c Link) -> Option<String> {
    let mut limits: Vec<String> = Vec::new();
    for link in condition.settings().map(link_of) {
        let limit = condition.queue_text(link).to_string();
        if link.has_bottleneck() && !limits.contains(&limit) {
            limits.push(limit);
        }
    }
    (!limits.is_empty()).then(|| limits.join(", then "))
}

/// Describes the capture; also returns whether it is complete.
pub fn capture(file: &str, summary: &CaptureSummary) -> (String, bool) {
    let (packets, missed) = (summary.packets, summary.missed);
    let reason = match &summary.failure {
        Some(failure) => format!("writing failed: {failure}"),
        None if missed == 0 => {
            return (format!("capture: {packets} packets in `{file}`"), true);
        }
        None => "writing did not keep up".to_owned(),
    };
    let text = format!(
        "warning: {missed} packets are not in the capture `{file}`, which has {packets}: {reason}"
    );
    (text, false)
}

fn link(counters: &LinkCounters, queue: Option<&str>, late_after: Duration) -> String {
    let (entered, delivered) = (counters.offered, counters.delivered);
    let mut text = format!("{entered} packets entered, {delivered} left");
    let unsupported = counters.unsupported;
    let mut add = |count: u64, cause: &str| {
        if count > 0 {
            text.push_str(&format!(", {count} {cause}"));
        }
    };
    for &counter in PacketCounter::ALL {
        let said = match counter {
            PacketCounter::Loss if unsupported.packets[PacketCounter::Queue] => {
                "lost or dropped by the full queue"
            }
            PacketCounter::Loss if unsupported.packets[PacketCounter::Burst] => {
                "lost at random or in bursts"
            }
            counter => counter.said(),
        };
        add(counters.packets[counter], said);
    }
    let late_after = format_duration(late_after);
    let late = format!("delivered more than {late_after} after they were due");
    add(counters.late_packets, &late);
    if let Some(limit) = queue {
        let most = Bytes(counters.queue_max_bytes);
        let most = match unsupported.queue_max_bytes {
            true => String::new(),
            false => format!("at most {most} in the "),
        };
        text.push_str(&format!(", {most}queue of {limit}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use regatta_model::PacketCounters;

    use super::*;

    #[test]
    fn without_an_emulator_no_packets_are_claimed() {
        let study = regatta_model::study::builtin("message-size").expect("a built-in study");
        let study = regatta_model::Study::parse(study.text, "message-size").expect("it is sound");
        let text = ending(&study.conditions[0], None);
        assert_eq!(
            text,
            "path: its packets are not counted, as there is no emulator"
        );
        let text = ending(&study.conditions[0], Some(&PathCounters::default()));
        assert!(
            text.contains("client to server: 0 packets entered, 0 left"),
            "{text}"
        );
    }

    #[test]
    fn counters_of_zero_are_not_printed() {
        let counters = LinkCounters {
            offered: 100,
            delivered: 97,
            packets: PacketCounters::from([(PacketCounter::Loss, 2), (PacketCounter::Queue, 1)]),
            ..LinkCounters::default()
        };
        assert_eq!(
            link(&counters, None, Duration::ZERO),
            "100 packets entered, 97 left, 2 lost at random, 1 dropped by the full queue"
        );
    }

    #[test]
    fn late_packets_and_queue_limit_are_printed() {
        let counters = LinkCounters {
            offered: 100,
            delivered: 100,
            late_packets: 4,
            queue_max_bytes: 45_000,
            ..LinkCounters::default()
        };
        assert_eq!(
            link(&counters, Some("150 kB"), Duration::from_millis(2)),
            "100 packets entered, 100 left, 4 delivered more than 2 ms after they were due, \
             at most 45 kB in the queue of 150 kB"
        );
        let text = "name = \"s\"\n[[transport]]\ndriver = \"tcp\"\n[[workload]]\n[[condition]]\nname = \"c\"\n\
                    rate = \"8Mbit/s\"\nqueue = \"30kB\"\nreverse = { rate = \"unlimited\" }\n\
                    step = [{ at = \"1s\", queue = \"60kB\" }]\n";
        let study = regatta_model::Study::parse(text, "s").expect("a study");
        let condition = &study.conditions[0];
        let forward = queue(condition, |setting| setting.forward);
        assert_eq!(forward.as_deref(), Some("30 kB, then 60 kB"));
        assert_eq!(queue(condition, |setting| setting.reverse), None);
    }
}
