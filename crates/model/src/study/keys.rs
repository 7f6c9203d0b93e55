//! Keys of a condition: one row for each, which the reader of studies and the command line share.

use std::time::Duration;

use super::{error::StudyError, path::Draft, section::Section};
use crate::{
    condition::{DelayDistribution, DeliveryTrace, GilbertElliott, QueueDiscipline, RateOf},
    units::{BitRate, QueueSize, Ratio, UnitError},
};

/// Acceptable standing delay and interval of CoDel where a study names none: RFC 8289 §4.3.
const CODEL_TARGET: Duration = Duration::from_millis(5);
const CODEL_INTERVAL: Duration = Duration::from_millis(100);

/// Key of a condition.
#[derive(Debug)]
pub struct PathKey {
    /// Name in a study; with hyphens that of the command line's option.
    pub name: &'static str,
    /// Values that the key takes.
    pub kind: KeyKind,
    /// Help of the command line's option.
    pub help: &'static str,
    /// Words for a value, which `{}` stands for, in the name of a condition of the command line.
    pub in_name: &'static str,
    /// Position of these words in the name.
    pub name_position: u32,
    /// Key that cannot be given beside this one.
    pub instead_of: Option<&'static str>,
    /// Reads the key of a link into the draft; `None` for the keys of a whole path, and for those that
    /// another row reads.
    pub(super) read: Option<Read>,
}

type Read = fn(&mut Section<'_>, &mut Draft) -> Result<(), StudyError>;

/// Kind of values that a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// A time with its unit.
    Time,
    /// A ratio with its unit.
    Ratio,
    /// A rate with its unit, or `unlimited`.
    Rate,
    /// A size with its unit.
    Size,
    /// The size of a packet, or a number of bytes.
    PacketSize,
    /// A size, a number of packets or of bandwidth-delay products.
    Queue,
    /// One of these words.
    Words {
        /// Words of a study.
        words: &'static [&'static str],
        /// Name of the value in help.
        value_name: &'static str,
    },
    /// `true` or `false`.
    Flag,
    /// Numbers, or the name of a file with one on each line.
    Numbers,
    /// Name of a file.
    File,
    /// Table of further keys.
    Table {
        /// Name of the value in help.
        value_name: &'static str,
        /// Key of the first value, which stands there without it.
        first: Option<&'static str>,
    },
}

/// Row without words of its own, for the rows of [`PATH_KEYS`].
const KEY: PathKey = PathKey {
    name: "",
    kind: KeyKind::Flag,
    help: "",
    in_name: "{}",
    name_position: 0,
    instead_of: None,
    read: None,
};

/// Keys in the order of help. Those of a link are read in this order.
pub const PATH_KEYS: &[PathKey] = &[
    PathKey {
        name: "rtt",
        kind: KeyKind::Time,
        help: "Round-trip delay of the path, half of it each way [default without a STUDY: 30ms]",
        ..KEY
    },
    PathKey {
        name: "delay",
        kind: KeyKind::Time,
        help: "One-way delay, each way, instead of a round-trip delay",
        in_name: "{} each way",
        name_position: 1,
        instead_of: Some("rtt"),
        read: Some(|section, draft| {
            draft.put("delay", section.duration("delay", "15ms")?, |link| {
                &mut link.delay
            });
            Ok(())
        }),
    },
    PathKey {
        name: "jitter",
        kind: KeyKind::Time,
        help: "Amplitude of the random delay, each way; it changes steadily in time, so that packets keep their order",
        in_name: "± {}",
        name_position: 10,
        read: Some(|section, draft| {
            draft.put("jitter", section.duration("jitter", "2ms")?, |link| {
                &mut link.jitter
            });
            Ok(())
        }),
        ..KEY
    },
    PathKey {
        name: "jitter_distribution",
        kind: KeyKind::Words {
            words: &["uniform", "normal", "pareto"],
            value_name: "NAME",
        },
        help: "How the random delay is distributed: `uniform`, `normal` or `pareto` [default: uniform]",
        name_position: 11,
        read: Some(|section, draft| {
            let taken = section.choice_at("jitter_distribution", &DelayDistribution::NAMES)?;
            draft.put("jitter_distribution", taken, |link| {
                &mut link.jitter_distribution
            });
            Ok(())
        }),
        ..KEY
    },
    PathKey {
        name: "rtt_jitter",
        kind: KeyKind::Time,
        help: "Amplitude of the round trip's random delay, half of it each way, instead of `--jitter`",
        in_name: "± {} of the round trip",
        name_position: 13,
        instead_of: Some("jitter"),
        ..KEY
    },
    PathKey {
        name: "jitter_reorders",
        kind: KeyKind::Flag,
        help: "Let packets overtake one another through jitter, which is drawn for each packet then",
        in_name: "overtaking",
        name_position: 12,
        read: Some(|section, draft| {
            if let Some(value) = section.flag("jitter_reorders")? {
                draft.link.jitter_reorders = value;
            }
            Ok(())
        }),
        ..KEY
    },
    PathKey {
        name: "jitter_correlation",
        kind: KeyKind::Time,
        help: "Time after which the random delay is independent of what it was; 0s draws it for each packet [default: four times its widest deviation]",
        in_name: "correlation {}",
        name_position: 14,
        read: Some(|section, draft| {
            let taken = section.duration("jitter_correlation", "100ms")?;
            draft.put_some("jitter_correlation", taken, |link| {
                &mut link.jitter_correlation
            });
            Ok(())
        }),
        ..KEY
    },
    PathKey {
        name: "loss",
        kind: KeyKind::Ratio,
        help: "Random loss of packets, each way [default without a STUDY: none]",
        in_name: "{} loss",
        name_position: 5,
        read: Some(|section, draft| {
            let taken = section.parsed("loss", "1%")?;
            draft.put("loss", taken, |link| &mut link.loss);
            Ok(())
        }),
        ..KEY
    },
    PathKey {
        name: "loss_bursts",
        kind: KeyKind::Table {
            value_name: "KEY=RATIO:…",
            first: None,
        },
        help: "Loss in bursts (Gilbert–Elliott), as in `to_bad=1%:to_good=30%`, with `:bad_loss=…` and `:good_loss=…` where they are not 100% and 0%",
        in_name: "bursts of loss",
        name_position: 21,
        read: Some(|section, draft| {
            if let Some(bursts) = section.section("loss_bursts", "loss_bursts")? {
                let span = bursts.span();
                let bursts = read_bursts(bursts)?;
                draft.put_some("loss_bursts", Some((bursts, span)), |link| {
                    &mut link.loss_bursts
                });
            }
            Ok(())
        }),
        ..KEY
    },
    PathKey {
        name: "loss_list",
        kind: KeyKind::Numbers,
        help: "Packets that are lost, by their number in each direction, as in `3,17`; or a file with one number a line",
        in_name: "loss of {}",
        name_position: 6,
        read: Some(|section, draft| {
            let taken = section.numbers("loss_list")?;
            draft.put("loss_list", taken, |link| &mut link.loss_list);
            Ok(())
        }),
        ..KEY
    },
    PathKey {
        name: "reorder",
        kind: KeyKind::Ratio,
        help: "Packets that skip the delay and so overtake others, each way",
        in_name: "{} reordered",
        name_position: 7,
        read: Some(|section, draft| {
            let taken = section.parsed("reorder", "1%")?;
            draft.put("reorder", taken, |link| &mut link.reorder_ratio);
            Ok(())
        }),
        ..KEY
    },
    PathKey {
        name: "duplicate",
        kind: KeyKind::Ratio,
        help: "Packets that arrive twice, each way",
        in_name: "{} duplicated",
        name_position: 8,
        read: Some(|section, draft| {
            let taken = section.parsed("duplicate", "1%")?;
            draft.put("duplicate", taken, |link| &mut link.duplicate_ratio);
            Ok(())
        }),
        ..KEY
    },
    PathKey {
        name: "corrupt",
        kind: KeyKind::Ratio,
        help: "Packets of which a bit is flipped, each way",
        in_name: "{} corrupted",
        name_position: 9,
        read: Some(|section, draft| {
            let taken = section.parsed("corrupt", "1%")?;
            draft.put("corrupt", taken, |link| &mut link.corrupt_ratio);
            Ok(())
        }),
        ..KEY
    },
    PathKey {
        name: "rate",
        kind: KeyKind::Rate,
        help: "Rate of the bottleneck, each way; `unlimited` for none [default without a STUDY: 100Mbit/s]",
        name_position: 2,
        read: Some(read_rate_or_trace),
        ..KEY
    },
    PathKey {
        name: "trace",
        kind: KeyKind::File,
        help: "File with times of delivery in milliseconds, as Mahimahi's `mm-link` takes it, instead of a rate",
        in_name: "trace {}",
        name_position: 4,
        instead_of: Some("rate"),
        ..KEY
    },
    PathKey {
        name: "rate_of",
        kind: KeyKind::Words {
            words: &["ip", "ethernet"],
            value_name: "WHAT",
        },
        help: "Bytes that the rate counts: `ip` packets, or frames of an `ethernet` with preamble and gap [default: ip]",
        in_name: "of {}",
        name_position: 3,
        read: Some(|section, draft| {
            let taken = section.choice_at("rate_of", &RateOf::NAMES)?;
            draft.put("rate_of", taken, |link| &mut link.rate_of);
            Ok(())
        }),
        ..KEY
    },
    PathKey {
        name: "burst",
        kind: KeyKind::Size,
        help: "Bytes that may pass the bottleneck at once after it was idle",
        in_name: "burst {}",
        name_position: 15,
        read: Some(|section, draft| {
            let taken = section.parsed("burst", "15kB")?;
            draft.put_some("burst", taken, |link| &mut link.burst_bytes);
            Ok(())
        }),
        ..KEY
    },
    PathKey {
        name: "queue",
        kind: KeyKind::Queue,
        help: "Limit of the bottleneck's queue, each way: `375kB`, `100 packets` or `2 BDP` [default: one bandwidth-delay product, at least 100 packets]",
        in_name: "queue {}",
        name_position: 16,
        read: Some(|section, draft| {
            if let Some((size, span)) = section.parsed::<QueueSize>("queue", "375kB")? {
                draft.queue = Some(size);
                draft.places.insert("queue", span);
            }
            Ok(())
        }),
        ..KEY
    },
    PathKey {
        name: "discipline",
        kind: KeyKind::Words {
            words: &["drop-tail", "codel"],
            value_name: "NAME",
        },
        help: "Queue discipline: `drop-tail` or `codel` [default: drop-tail]",
        name_position: 17,
        read: Some(|section, draft| {
            let codel = QueueDiscipline::Codel {
                target: CODEL_TARGET,
                interval: CODEL_INTERVAL,
            };
            let choices = [("drop-tail", QueueDiscipline::DropTail), ("codel", codel)];
            let taken = section.choice_at("discipline", &choices)?;
            draft.put("discipline", taken, |link| &mut link.discipline);
            Ok(())
        }),
        ..KEY
    },
    PathKey {
        name: "codel_target",
        kind: KeyKind::Time,
        help: "Standing delay that CoDel accepts [default: 5ms]",
        in_name: "target {}",
        name_position: 18,
        read: Some(|section, draft| read_codel(section, draft, "codel_target", "5ms")),
        ..KEY
    },
    PathKey {
        name: "codel_interval",
        kind: KeyKind::Time,
        help: "Time within which CoDel wants it [default: 100ms]",
        in_name: "interval {}",
        name_position: 19,
        read: Some(|section, draft| read_codel(section, draft, "codel_interval", "100ms")),
        ..KEY
    },
    PathKey {
        name: "mtu",
        kind: KeyKind::PacketSize,
        help: "Largest IP packet [default without a STUDY: 1500B]",
        in_name: "MTU {}",
        name_position: 20,
        ..KEY
    },
    PathKey {
        name: "steps",
        kind: KeyKind::Table {
            value_name: "KEY:from=…:to=…:by=…:every=…",
            first: Some("key"),
        },
        help: "A quantity that climbs or falls evenly, as in `rtt:from=300ms:to=50ms:by=50ms:every=20s`",
        in_name: "steps {}",
        name_position: 24,
        instead_of: Some("step"),
        ..KEY
    },
];

/// Reads the keys of a link that are present, over the given values.
pub(super) fn read_link(section: &mut Section<'_>, draft: &mut Draft) -> Result<(), StudyError> {
    let mut readers = PATH_KEYS.iter().filter_map(|key| key.read);
    readers.try_for_each(|read| read(section, draft))
}

fn read_bursts(mut section: Section<'_>) -> Result<GilbertElliott, StudyError> {
    let mut ratio = |key, example, default: Option<Ratio>| {
        let taken = section.parsed::<Ratio>(key, example)?;
        let value = taken.map(|(ratio, _)| ratio).or(default);
        section.required(key, &format!("\"{example}\""), value)
    };
    let bursts = GilbertElliott {
        to_bad_ratio: ratio("to_bad", "1%", None)?,
        to_good_ratio: ratio("to_good", "30%", None)?,
        bad_loss_ratio: ratio("bad_loss", "100%", Some(Ratio(1.0)))?,
        good_loss_ratio: ratio("good_loss", "0%", Some(Ratio::ZERO))?,
    };
    section.end()?;
    Ok(bursts)
}

/// Rate, or `None` for an unlimited link.
struct Limit(Option<BitRate>);

fn limit(text: &str) -> Result<Limit, UnitError> {
    match text.trim() {
        "unlimited" => Ok(Limit(None)),
        text => text.parse().map(|rate| Limit(Some(rate))),
    }
}

/// Reads `rate` and `trace`. One takes the place of the other that was said before, for both ways or an
/// earlier time.
fn read_rate_or_trace(section: &mut Section<'_>, draft: &mut Draft) -> Result<(), StudyError> {
    let rate = section.quantity("rate", "100Mbit/s", limit)?;
    let trace = section.text("trace")?;
    match (rate, trace) {
        (Some(_), Some((_, span))) => Err(section.error(
            span,
            "`trace` and `rate` both say how fast the link is",
            "leave one of them out",
        )),
        (Some((Limit(rate), span)), None) => {
            draft.put("rate", Some((rate, span)), |link| &mut link.rate);
            draft.link.trace = None;
            Ok(())
        }
        (None, Some((name, span))) => {
            let text = section.file(&name, &span)?;
            let trace = DeliveryTrace::parse(&name, &text)
                .map_err(|error| section.error(span.clone(), error.message, error.hint))?;
            draft.put_some("trace", Some((trace, span)), |link| &mut link.trace);
            draft.link.rate = None;
            Ok(())
        }
        (None, None) => Ok(()),
    }
}

/// Reads `codel_target` or `codel_interval`.
fn read_codel(
    section: &mut Section<'_>,
    draft: &mut Draft,
    key: &'static str,
    example: &str,
) -> Result<(), StudyError> {
    let Some((value, span)) = section.duration(key, example)? else {
        return Ok(());
    };
    match (&mut draft.link.discipline, key) {
        (QueueDiscipline::Codel { target, .. }, "codel_target") => *target = value,
        (QueueDiscipline::Codel { interval, .. }, _) => *interval = value,
        (QueueDiscipline::DropTail, _) => {
            return Err(section.error(
                span,
                format!("`{key}`, but the queue is not under CoDel"),
                "add `discipline = \"codel\"`",
            ));
        }
    }
    draft.places.insert(key, span);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_about_conditions_explains_every_key() {
        let page = include_str!("../../../../docs/conditions.md");
        for key in PATH_KEYS {
            assert!(page.contains(&format!("`{}`", key.name)), "{}", key.name);
        }
    }

    #[test]
    fn words_are_those_that_a_study_takes() {
        let words = |name: &str| {
            let key = PATH_KEYS.iter().find(|key| key.name == name);
            match key.expect("a key").kind {
                KeyKind::Words { words, .. } => words,
                _ => &[],
            }
        };
        let distributions = DelayDistribution::NAMES.map(|(name, _)| name);
        assert_eq!(words("jitter_distribution"), distributions);
        assert_eq!(words("rate_of"), RateOf::NAMES.map(|(name, _)| name));
    }
}
