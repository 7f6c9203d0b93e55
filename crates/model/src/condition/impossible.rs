//! Checks for conditions that no path can have, whichever emulator carries them.

use std::time::Duration;

use super::{Condition, Link, QueueDiscipline, RateOf};
use crate::units::{Ratio, format_duration};

/// Maximum number of packets in a list of losses.
const LONGEST_LIST: usize = 1_000_000;

/// Place of a mistake in a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Initial setting, from the connecting host to the listening one.
    Forward,
    /// Initial setting, from the listening host to the connecting one.
    Reverse,
    /// Step of the schedule with this index, from the connecting host to the listening one.
    StepForward(usize),
    /// Step of the schedule with this index, from the listening host to the connecting one.
    StepReverse(usize),
}

/// Error of a condition that no path can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Impossible {
    /// Place of the mistake.
    pub place: Place,
    /// Key of the study that is at fault.
    pub key: &'static str,
    /// Description of the mistake.
    pub message: String,
    /// Suggestion of a valid value.
    pub hint: String,
}

/// Mistake in one link: key, message, hint.
type Fault = (&'static str, String, String);

impl Condition {
    /// Checks that a path can have this condition.
    ///
    /// # Errors
    /// The first thing that cannot be, with the key of a study that says so.
    pub fn check(&self) -> Result<(), Impossible> {
        let mut before = Duration::ZERO;
        for (number, setting) in self.settings().enumerate() {
            let places = match number.checked_sub(1) {
                None => [Place::Forward, Place::Reverse],
                Some(step) => [Place::StepForward(step), Place::StepReverse(step)],
            };
            if number > 0 && setting.at <= before {
                return Err(Impossible {
                    place: places[0],
                    key: "at",
                    message: format!(
                        "this step at {} does not come after {}",
                        format_duration(setting.at),
                        if before.is_zero() {
                            "the start".to_owned()
                        } else {
                            format!("the one before it, at {}", format_duration(before))
                        }
                    ),
                    hint: "list the steps in the order of time, the first one after `0s`"
                        .to_owned(),
                });
            }
            before = setting.at;
            if setting.at > Self::LONGEST_TIME {
                return Err(Impossible {
                    place: places[0],
                    key: "at",
                    message: "this step comes after more than 30 days".to_owned(),
                    hint: "write a time such as `20s`".to_owned(),
                });
            }
            for (place, link) in places.into_iter().zip([setting.forward, setting.reverse]) {
                if let Some((key, message, hint)) = self.fault(link) {
                    return Err(Impossible {
                        place,
                        key,
                        message,
                        hint,
                    });
                }
            }
        }
        Ok(())
    }

    fn fault(&self, link: &Link) -> Option<Fault> {
        delays(link)
            .or_else(|| losses(link))
            .or_else(|| bottleneck(link, u64::from(self.mtu_bytes)))
    }
}

fn fault(key: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Option<Fault> {
    Some((key, message.into(), hint.into()))
}

fn delays(link: &Link) -> Option<Fault> {
    for (key, value) in [
        ("delay", link.delay),
        ("jitter", link.jitter),
        (
            "jitter_correlation",
            link.jitter_correlation.unwrap_or_default(),
        ),
    ] {
        if value > Condition::LONGEST_TIME {
            return fault(key, "this time is longer than 30 days", "write `15ms`");
        }
    }
    if link.jitter > link.delay {
        return fault(
            "jitter",
            "`jitter` is larger than the one-way delay that it varies",
            "write a jitter of at most the delay: a packet cannot arrive before it was sent",
        );
    }
    if let Some(correlation) = link.jitter_correlation {
        if link.jitter.is_zero() {
            return fault(
                "jitter_correlation",
                "a correlation of the jitter, but no `jitter`",
                "add `jitter = \"2ms\"`",
            );
        }
        if link.jitter_reorders && !correlation.is_zero() {
            return fault(
                "jitter_correlation",
                "jitter that lets packets overtake is drawn for each of them",
                "leave out `jitter_correlation` or `jitter_reorders`",
            );
        }
    }
    if link.jitter.is_zero() && link.jitter_distribution.reach() > 1 {
        return fault(
            "jitter_distribution",
            "a distribution of the jitter, but no `jitter`",
            "add `jitter = \"2ms\"`",
        );
    }
    if link.reorder_ratio.0 > 0.0 && link.delay.is_zero() {
        return fault(
            "reorder",
            "`reorder` lets packets skip the delay, and there is no delay to skip",
            "add `delay = \"15ms\"`",
        );
    }
    None
}

fn losses(link: &Link) -> Option<Fault> {
    let bursts = link.loss_bursts.map_or([Ratio::ZERO; 4], |bursts| {
        [
            bursts.to_bad_ratio,
            bursts.to_good_ratio,
            bursts.bad_loss_ratio,
            bursts.good_loss_ratio,
        ]
    });
    let ratios = [
        ("loss", link.loss),
        ("reorder", link.reorder_ratio),
        ("duplicate", link.duplicate_ratio),
        ("corrupt", link.corrupt_ratio),
    ]
    .into_iter()
    .chain(bursts.map(|ratio| ("loss_bursts", ratio)));
    for (key, ratio) in ratios {
        if !(0.0..=1.0).contains(&ratio.0) {
            return fault(
                key,
                format!("`{}` is not between 0 % and 100 %", ratio.0),
                "write a ratio from `0%` to `100%`",
            );
        }
    }
    let list = &link.loss_list;
    if list.first() == Some(&0) || list.windows(2).any(|pair| pair[0] >= pair[1]) {
        return fault(
            "loss_list",
            "the packets of `loss_list` do not rise from 1",
            "list each packet once, in order, as in `[3, 17]`; the first packet is 1",
        );
    }
    if list.len() > LONGEST_LIST {
        return fault(
            "loss_list",
            format!("`loss_list` names more than {LONGEST_LIST} packets"),
            "use `loss` or `loss_bursts`",
        );
    }
    None
}

fn bottleneck(link: &Link, mtu: u64) -> Option<Fault> {
    if link.rate_of != RateOf::Ip && link.rate.is_none() {
        return fault(
            "rate_of",
            "what the rate counts, but no `rate`",
            "add `rate = \"1Gbit/s\"`",
        );
    }
    if link.rate.is_some_and(|rate| rate.0 == 0) {
        return fault(
            "rate",
            "a rate of zero carries nothing",
            "write a rate above zero, or leave `rate` out for a path without a limit",
        );
    }
    if let Some(trace) = &link.trace {
        if link.rate.is_some() {
            return fault(
                "trace",
                "`trace` and `rate` both say how fast the link is",
                "leave one of them out",
            );
        }
        if trace.period_ms() == 0 || !trace.opportunities_ms.is_sorted() {
            return fault(
                "trace",
                format!("the times of the trace `{}` do not rise", trace.name),
                "name a trace as `mm-link` takes it",
            );
        }
    }
    if link.queue.is_some_and(|queue| queue.0 < mtu) {
        return fault(
            "queue",
            format!("a queue smaller than one packet of {mtu} bytes carries nothing"),
            "write a larger `queue`, or leave it out to have it sized from the path",
        );
    }
    if let Some(packets) = link.queue_packets {
        if packets == 0 {
            return fault(
                "queue",
                "a queue of no packet carries nothing",
                "write a `queue` of at least `1 packet`",
            );
        }
        if !link.has_bottleneck() {
            return fault(
                "queue",
                "a queue in packets, but nothing that packets wait for: the link has no rate",
                "add `rate = \"100Mbit/s\"`",
            );
        }
    }
    if let Some(burst) = link.burst_bytes {
        if link.rate.is_none() {
            return fault(
                "burst",
                "`burst` is the depth of the bottleneck's token bucket, and the link has no rate",
                "add `rate = \"100Mbit/s\"`",
            );
        }
        if burst.0 < mtu {
            return fault(
                "burst",
                format!("a burst smaller than one packet of {mtu} bytes lets none pass"),
                "write a larger `burst`, such as `15kB`",
            );
        }
    }
    if let QueueDiscipline::Codel { target, interval } = link.discipline {
        if !link.has_bottleneck() {
            return fault(
                "discipline",
                "CoDel on a link without a rate: nothing waits there that it could drop",
                "add `rate = \"100Mbit/s\"`",
            );
        }
        if target.is_zero() || target >= interval || interval > Condition::LONGEST_TIME {
            return fault(
                "codel_target",
                "CoDel's target is not between zero and its interval",
                "write `codel_target = \"5ms\"` and `codel_interval = \"100ms\"`, RFC 8289 §4.3",
            );
        }
    }
    None
}
