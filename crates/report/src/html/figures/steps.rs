//! Steps of a path's schedule, as panels over time and their captions show them.

use std::time::Duration;

use itertools::Itertools as _;
use regatta_model::{Condition, Setting, units::format_duration};

use crate::language::{quantity, render, tr};

/// Setting of a path, and what is different in it.
pub struct Step {
    /// Time since the first connect call.
    pub at: Duration,
    /// Quantities that change.
    pub label: String,
}

/// Returns the steps of a condition's schedule. The first is the setting at the beginning, with the quantities that
/// the schedule changes; empty without a schedule.
pub fn steps(condition: &Condition) -> Vec<Step> {
    let settings: Vec<Setting<'_>> = condition.settings().collect();
    let Some((first, further)) = settings.split_first() else {
        return Vec::new();
    };
    if further.is_empty() {
        return Vec::new();
    }
    let (mut before, own) = (quantities(first), quantities(first));
    let mut is_changed = own.each_ref().map(|_| false);
    let mut steps = vec![Step {
        at: first.at,
        label: String::new(),
    }];
    for setting in further {
        let after = quantities(setting);
        let mut changes = Vec::new();
        for (position, text) in after.iter().enumerate() {
            if *text != before[position] {
                is_changed[position] = true;
                changes.extend((!text.is_empty()).then(|| text.clone()));
            }
        }
        steps.push(Step {
            at: setting.at,
            label: match changes.is_empty() {
                true => tr!("other settings"),
                false => changes.join(", "),
            },
        });
        before = after;
    }
    let at_first = own.into_iter().zip(is_changed);
    let at_first = at_first.filter(|(text, is_changed)| *is_changed && !text.is_empty());
    steps[0].label = at_first.map(|(text, _)| text).join(", ");
    steps
}

/// Returns the quantities of a setting that labels show, in a few characters each. Those of the reverse direction are
/// empty where they are the same.
fn quantities(setting: &Setting<'_>) -> [String; 6] {
    let (forward, reverse) = (setting.forward, setting.reverse);
    let loss = |ratio| tr!("{} loss", quantity(ratio));
    let other = |forward: &str, reverse: String| match forward == reverse {
        true => String::new(),
        false => tr!("{} in reverse", reverse),
    };
    let [rate, lost] = [render(&forward.rate_text()), loss(forward.loss)];
    [
        quantity(format_duration(setting.round_trip_delay())),
        rate.clone(),
        lost.clone(),
        quantity(format!("± {}", format_duration(forward.jitter))),
        other(&rate, render(&reverse.rate_text())),
        other(&lost, loss(reverse.loss)),
    ]
}

/// Maximum number of steps that a caption lists; of longer schedules it has the ranges.
const MAX_LISTED: usize = 12;

/// Describes the steps of a condition by number, time and change in a sentence; empty without
/// steps.
pub fn description(condition: &Condition) -> String {
    let steps = steps(condition);
    let Some((first, further)) = steps.split_first() else {
        return String::new();
    };
    if further.len() > MAX_LISTED {
        return tr!(
            " `{}` has {} steps: {}.",
            condition.name,
            further.len(),
            ranges(condition)
        );
    }
    let at_first = (!first.label.is_empty()).then(|| tr!("{} at first", first.label));
    let each = (1..).zip(further).map(|(number, step)| {
        let at = quantity(format_duration(step.at));
        tr!("{} at {}: {}", number, at, step.label)
    });
    let each = at_first.into_iter().chain(each).join("; ");
    tr!(" Steps of `{}`: {}.", condition.name, each)
}

/// Returns the ranges of the quantities that a schedule changes.
fn ranges(condition: &Condition) -> String {
    let settings: Vec<Setting<'_>> = condition.settings().collect();
    let mut delays: Vec<Duration> = settings.iter().map(Setting::round_trip_delay).collect();
    delays.sort_unstable();
    let mut rates: Vec<_> = settings.iter().filter_map(|it| it.forward.rate).collect();
    rates.sort_unstable();
    let mut losses: Vec<_> = settings.iter().map(|it| it.forward.loss).collect();
    losses.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ends = |texts: Vec<String>| match &texts[..] {
        [first, .., last] if first != last => Some(tr!("{} to {}", first, last)),
        _ => None,
    };
    let delays = delays.into_iter().map(|it| quantity(format_duration(it)));
    let losses = losses.iter().map(|it| tr!("{} loss", quantity(it)));
    let parts = [
        ends(delays.collect()),
        ends(rates.iter().map(quantity).collect()),
        ends(losses.collect()),
    ];
    match parts.into_iter().flatten().join(", ") {
        parts if parts.is_empty() => tr!("other settings"),
        parts => parts,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use regatta_model::{BitRate, Link, Ratio};

    use super::*;

    #[test]
    fn a_step_describes_its_differences() {
        let link = |ms, loss| Link {
            delay: Duration::from_millis(ms),
            rate: Some(BitRate(10_000_000)),
            loss: Ratio(loss),
            ..Link::default()
        };
        let step = |s, link: Link| regatta_model::Step {
            at: Duration::from_secs(s),
            forward: link.clone(),
            reverse: link,
        };
        let condition = Condition {
            name: "c".into(),
            forward: link(150, 0.0),
            reverse: link(150, 0.0),
            mtu_bytes: 1500,
            schedule: vec![
                step(20, link(125, 0.0)),
                step(40, link(125, 0.01)),
                step(60, link(100, 0.0)),
            ],
            tuning: regatta_model::HostTuning::default(),
        };
        assert_eq!(
            description(&condition),
            " Steps of `c`: 300 ms, 0 % loss at first; 1 at 20 s: 250 ms; 2 at 40 s: 1 % loss; 3 at 60 s: 200 ms, 0 % loss."
        );
        let constant = Condition {
            schedule: Vec::new(),
            ..condition.clone()
        };
        assert_eq!(description(&constant), "");
        let mut outage = condition.clone();
        outage.schedule.truncate(1);
        outage.schedule[0].forward = outage.forward.clone();
        outage.schedule[0].reverse = Link {
            loss: Ratio(1.0),
            ..outage.reverse.clone()
        };
        assert_eq!(
            description(&outage),
            " Steps of `c`: 1 at 20 s: 100 % loss in reverse."
        );
        let mut long = condition;
        long.schedule = (1..=40).map(|n| step(n, link(150, 0.0))).collect();
        for (n, step) in long.schedule.iter_mut().enumerate() {
            step.forward.rate = Some(BitRate(1_000_000 * (n as u64 + 1)));
        }
        assert_eq!(
            description(&long),
            " `c` has 40 steps: 1 Mbit/s to 40 Mbit/s."
        );
    }
}
