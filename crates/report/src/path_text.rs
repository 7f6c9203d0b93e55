//! Description of a condition's path in one line.

use regatta_model::{Condition, Link, Ratio, units::format_duration};

use crate::language::{particular, quantity, render, tr};

/// Describes the path of a condition: `100 Mbit/s, RTT 30 ms, 5 % loss each way`. What has a value each way begins with
/// that of the connecting host's packets.
pub fn path_text(condition: &Condition) -> String {
    if condition.changes_nothing() {
        return tr!("the path as it is");
    }
    let links = [&condition.forward, &condition.reverse];
    let mut parts = Vec::new();
    let limited =
        |link: &Link| (link.rate.is_some() || link.trace.is_some()).then(|| link.rate_text());
    parts.extend(both(
        links,
        |link| limited(link).as_ref().map(render),
        |rate| rate,
    ));
    let delay = condition.forward.delay + condition.reverse.delay;
    if !delay.is_zero() {
        parts.push(tr!("RTT {}", quantity(format_duration(delay))));
    }
    let loss = |link: &Link| (link.loss != Ratio::ZERO).then(|| quantity(link.loss));
    parts.extend(
        both(links, loss, |loss| tr!("{} loss each way", loss)).map(|text| {
            match condition.forward.loss == condition.reverse.loss {
                true => text,
                false => tr!("loss {}", text),
            }
        }),
    );
    let further = |link: &Link| {
        let jitter = (!link.jitter.is_zero())
            .then(|| tr!("jitter ± {}", quantity(format_duration(link.jitter))));
        let further = link.particulars();
        let all: Vec<String> = jitter
            .into_iter()
            .chain(further.iter().map(particular))
            .collect();
        (!all.is_empty()).then(|| all.join(", "))
    };
    parts.extend(both(links, further, |text| text));
    if !condition.schedule.is_empty() {
        parts.push(tr!("changing in time"));
    }
    parts.join(", ")
}

/// Returns a property of both links: by `alike` if they are the same, each way otherwise; `None` if neither has it.
fn both(
    links: [&Link; 2],
    property: impl Fn(&Link) -> Option<String>,
    alike: impl Fn(String) -> String,
) -> Option<String> {
    match links.map(property) {
        [None, None] => None,
        [Some(there), Some(back)] if there == back => Some(alike(there)),
        ways => {
            let [there, back] = ways.map(|way| way.unwrap_or_else(|| tr!("none")));
            Some(tr!("{} there and {} back", there, back))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use regatta_model::BitRate;

    use super::*;

    #[test]
    fn a_path_is_described_in_one_line() {
        let link = |rate: u64, loss: f64| Link {
            rate: (rate > 0).then_some(BitRate(rate)),
            delay: Duration::from_millis(15),
            loss: Ratio(loss),
            ..Link::default()
        };
        let text = |forward: Link, reverse: Link| {
            path_text(&Condition {
                name: "a".to_owned(),
                forward,
                reverse,
                mtu_bytes: Condition::DEFAULT_MTU_BYTES,
                schedule: Vec::new(),
                tuning: regatta_model::HostTuning::default(),
            })
        };
        assert_eq!(
            text(link(100_000_000, 0.05), link(100_000_000, 0.05)),
            "100 Mbit/s, RTT 30 ms, 5 % loss each way"
        );
        assert_eq!(
            text(link(10_000_000, 0.05), link(100_000_000, 0.0)),
            "10 Mbit/s there and 100 Mbit/s back, RTT 30 ms, loss 5 % there and none back"
        );
        assert_eq!(text(link(0, 0.0), link(0, 0.0)), "RTT 30 ms");
        assert_eq!(text(Link::default(), Link::default()), "the path as it is");
    }
}
