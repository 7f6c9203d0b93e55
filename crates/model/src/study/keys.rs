//! Keys of a condition: one row for each, which the reader of studies and the command line share.

use std::time::Duration;

use super::{draft::Draft, error::StudyError, section::Section};
use crate::{
    condition::{DeliveryTrace, GilbertElliott, Link, QueueDiscipline},
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

/// Reader of a key of a link.
#[derive(Debug, Clone, Copy)]
pub(super) enum Read {
    /// Time, with an example of one, into this field.
    Time(&'static str, fn(&mut Link) -> &mut Duration),
    /// Ratio into this field.
    Ratio(fn(&mut Link) -> &mut Ratio),
    /// Any other value.
    Other(fn(&mut Section<'_>, &mut Draft) -> Result<(), StudyError>),
}

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
    /// Name of the value in help, and the words that it can be.
    Words(&'static str, &'static [&'static str]),
    /// `true` or `false`.
    Flag,
    /// Numbers, or the name of a file with one on each line.
    Numbers,
    /// Name of a file.
    File,
    /// Table of further keys: its form in help, and the key of the first value if it stands there without.
    Table(&'static str, Option<&'static str>),
}

impl PathKey {
    const fn new(name: &'static str, kind: KeyKind) -> Self {
        Self {
            name,
            kind,
            help: "",
            in_name: "{}",
            name_position: 0,
            instead_of: None,
            read: None,
        }
    }

    const fn help(self, help: &'static str) -> Self {
        Self { help, ..self }
    }

    /// Sets the words for a value in the name of a condition, and their position there.
    const fn in_name(self, name_position: u32, in_name: &'static str) -> Self {
        Self {
            in_name,
            name_position,
            ..self
        }
    }

    const fn instead_of(self, other: &'static str) -> Self {
        Self {
            instead_of: Some(other),
            ..self
        }
    }

    const fn read(self, read: Read) -> Self {
        Self {
            read: Some(read),
            ..self
        }
    }

    /// Reads the key of a link, if it is one.
    fn read_into(&self, section: &mut Section<'_>, draft: &mut Draft) -> Result<(), StudyError> {
        match self.read {
            Some(Read::Time(example, of)) => {
                draft.put(self.name, section.duration(self.name, example)?, of);
            }
            Some(Read::Ratio(of)) => draft.put(self.name, section.parsed(self.name, "1%")?, of),
            Some(Read::Other(read)) => read(section, draft)?,
            None => {}
        }
        Ok(())
    }
}

/// Keys in the order of help. Those of a link are read in this order.
pub const PATH_KEYS: &[PathKey] = &[
    PathKey::new("rtt", KeyKind::Time)
        .help("Round-trip delay of the path, half of it each way [default without a STUDY: 30ms]"),
    PathKey::new("delay", KeyKind::Time)
        .help("One-way delay, each way, instead of a round-trip delay")
        .in_name(1, "{} each way")
        .instead_of("rtt")
        .read(Read::Time("15ms", |link| &mut link.delay)),
    PathKey::new("jitter", KeyKind::Time)
        .help("Amplitude of the random delay, each way; it changes steadily in time, so that packets keep their order")
        .in_name(10, "± {}")
        .read(Read::Time("2ms", |link| &mut link.jitter)),
    PathKey::new("jitter_distribution", KeyKind::Words("NAME", &["uniform", "normal", "pareto"]))
        .help("Distribution of the random delay: `uniform`, `normal` or `pareto` [default: uniform]")
        .in_name(11, "{}")
        .read(Read::Other(|section, draft| {
            let taken = section.choice_at("jitter_distribution")?;
            draft.put("jitter_distribution", taken, |link| {
                &mut link.jitter_distribution
            });
            Ok(())
        })),
    PathKey::new("rtt_jitter", KeyKind::Time)
        .help("Amplitude of the round trip's random delay, half of it each way, instead of `--jitter`")
        .in_name(13, "± {} of the round trip")
        .instead_of("jitter"),
    PathKey::new("jitter_reorders", KeyKind::Flag)
        .help("Let packets overtake one another through jitter, which is drawn for each packet then")
        .in_name(12, "overtaking")
        .read(Read::Other(|section, draft| {
            if let Some(value) = section.flag("jitter_reorders")? {
                draft.link.jitter_reorders = value;
            }
            Ok(())
        })),
    PathKey::new("jitter_correlation", KeyKind::Time)
        .help("Time after which the random delay is independent of its earlier value; 0s draws it for each packet [default: four times its widest deviation]")
        .in_name(14, "correlation {}")
        .read(Read::Other(|section, draft| {
            let taken = section.duration("jitter_correlation", "100ms")?;
            draft.put_some("jitter_correlation", taken, |link| {
                &mut link.jitter_correlation
            });
            Ok(())
        })),
    PathKey::new("loss", KeyKind::Ratio)
        .help("Random loss of packets, each way [default without a STUDY: none]")
        .in_name(5, "{} loss")
        .read(Read::Ratio(|link| &mut link.loss)),
    PathKey::new("loss_bursts", KeyKind::Table("KEY=RATIO:…", None))
        .help("Loss in bursts (Gilbert–Elliott), as in `to_bad=1%:to_good=30%`, with `:bad_loss=…` and `:good_loss=…` where they are not 100% and 0%")
        .in_name(21, "bursts of loss")
        .read(Read::Other(|section, draft| {
            if let Some(bursts) = section.section("loss_bursts", "loss_bursts")? {
                let span = bursts.span();
                let bursts = read_bursts(bursts)?;
                draft.put_some("loss_bursts", Some((bursts, span)), |link| {
                    &mut link.loss_bursts
                });
            }
            Ok(())
        })),
    PathKey::new("loss_list", KeyKind::Numbers)
        .help("Packets that are lost, by their number in each direction, as in `3,17`; or a file with one number a line")
        .in_name(6, "loss of {}")
        .read(Read::Other(|section, draft| {
            let taken = section.numbers("loss_list")?;
            draft.put("loss_list", taken, |link| &mut link.loss_list);
            Ok(())
        })),
    PathKey::new("reorder", KeyKind::Ratio)
        .help("Packets that skip the delay and so overtake others, each way")
        .in_name(7, "{} reordered")
        .read(Read::Ratio(|link| &mut link.reorder_ratio)),
    PathKey::new("duplicate", KeyKind::Ratio)
        .help("Packets that arrive twice, each way")
        .in_name(8, "{} duplicated")
        .read(Read::Ratio(|link| &mut link.duplicate_ratio)),
    PathKey::new("corrupt", KeyKind::Ratio)
        .help("Packets of which a bit is flipped, each way")
        .in_name(9, "{} corrupted")
        .read(Read::Ratio(|link| &mut link.corrupt_ratio)),
    PathKey::new("rate", KeyKind::Rate)
        .help("Rate of the bottleneck, each way; `unlimited` for none [default without a STUDY: 100Mbit/s]")
        .in_name(2, "{}")
        .read(Read::Other(read_rate_or_trace)),
    PathKey::new("trace", KeyKind::File)
        .help("File with times of delivery in milliseconds, as Mahimahi's `mm-link` takes it, instead of a rate")
        .in_name(4, "trace {}")
        .instead_of("rate"),
    PathKey::new("rate_of", KeyKind::Words("WHAT", &["ip", "ethernet"]))
        .help("Bytes that the rate counts: `ip` packets, or frames of an `ethernet` with preamble and gap [default: ip]")
        .in_name(3, "of {}")
        .read(Read::Other(|section, draft| {
            let taken = section.choice_at("rate_of")?;
            draft.put("rate_of", taken, |link| &mut link.rate_of);
            Ok(())
        })),
    PathKey::new("burst", KeyKind::Size)
        .help("Bytes that may pass the bottleneck at once after it was idle")
        .in_name(15, "burst {}")
        .read(Read::Other(|section, draft| {
            let taken = section.parsed("burst", "15kB")?;
            draft.put_some("burst", taken, |link| &mut link.burst_bytes);
            Ok(())
        })),
    PathKey::new("queue", KeyKind::Queue)
        .help("Limit of the bottleneck's queue, each way: `375kB`, `100 packets` or `2 BDP` [default: one bandwidth-delay product, at least 100 packets]")
        .in_name(16, "queue {}")
        .read(Read::Other(|section, draft| {
            if let Some((size, span)) = section.parsed::<QueueSize>("queue", "375kB")? {
                draft.queue = Some(size);
                draft.places.insert("queue", span);
            }
            Ok(())
        })),
    PathKey::new("discipline", KeyKind::Words("NAME", &["drop-tail", "codel"]))
        .help("Queue discipline: `drop-tail` or `codel` [default: drop-tail]")
        .in_name(17, "{}")
        .read(Read::Other(|section, draft| {
            let codel = QueueDiscipline::Codel {
                target: CODEL_TARGET,
                interval: CODEL_INTERVAL,
            };
            let choices = [("drop-tail", QueueDiscipline::DropTail), ("codel", codel)];
            let taken = section.choice_of("discipline", &choices)?;
            draft.put("discipline", taken, |link| &mut link.discipline);
            Ok(())
        })),
    PathKey::new("codel_target", KeyKind::Time)
        .help("Standing delay that CoDel accepts [default: 5ms]")
        .in_name(18, "target {}")
        .read(Read::Other(|section, draft| read_codel(section, draft, "codel_target", "5ms"))),
    PathKey::new("codel_interval", KeyKind::Time)
        .help("Interval of CoDel, within which the delay must fall below its target [default: 100ms]")
        .in_name(19, "interval {}")
        .read(Read::Other(|section, draft| read_codel(section, draft, "codel_interval", "100ms"))),
    PathKey::new("mtu", KeyKind::PacketSize)
        .help("Largest IP packet [default without a STUDY: 1500B]")
        .in_name(20, "MTU {}"),
    PathKey::new("steps", KeyKind::Table("KEY:from=…:to=…:by=…:every=…", Some("key")))
        .help("A quantity that rises or falls by equal steps, as in `rtt:from=300ms:to=50ms:by=50ms:every=20s`")
        .in_name(24, "steps {}")
        .instead_of("step"),
];

/// Reads the keys of a link that are present, over the given values.
pub(super) fn read_link(section: &mut Section<'_>, draft: &mut Draft) -> Result<(), StudyError> {
    let mut keys = PATH_KEYS.iter();
    keys.try_for_each(|key| key.read_into(section, draft))
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
    use crate::{
        condition::{DelayDistribution, RateOf},
        words::Words,
    };

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
                KeyKind::Words(_, words) => words,
                _ => &[],
            }
        };
        fn of_type<T: Words>() -> Vec<&'static str> {
            T::WORDS.iter().map(|(word, _)| *word).collect()
        }
        assert_eq!(words("jitter_distribution"), of_type::<DelayDistribution>());
        assert_eq!(words("rate_of"), of_type::<RateOf>());
    }
}
