//! Options that describe a path, common to all commands that create one.

use std::time::Duration;

use clap::Args;
use regatta_model::{
    BitRate, Bytes, DelayDistribution, Emulator, LossBy, Offloads, Placement, RateOf, Ratio,
    units::QueueSize,
};

use super::{duration, quantity};

/// The path: what is not given is a study's, or the default.
///
/// Each option but the last ones is a key of a study's `[[condition]]`, and `docs/conditions.md`
/// says precisely what it means. Quantities may begin with a hyphen, so that a negative one is
/// refused as what it is and not as an unknown option.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Path (docs/conditions.md)")]
pub struct PathArgs {
    /// Round-trip delay of the path, half of it each way [default without a STUDY: 30ms]
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub rtt: Option<Duration>,
    /// One-way delay, each way, instead of a round-trip delay
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "rtt", allow_hyphen_values = true)]
    pub delay: Option<Duration>,
    /// Amplitude of the random delay, each way; it changes steadily in time, so that packets keep
    /// their order
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub jitter: Option<Duration>,
    /// How the random delay is distributed: `uniform`, `normal` or `pareto` [default: uniform]
    #[arg(long, value_name = "NAME", value_parser = distribution)]
    pub jitter_distribution: Option<DelayDistribution>,
    /// Amplitude of the round trip's random delay, half of it each way, instead of `--jitter`
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true, conflicts_with = "jitter")]
    pub rtt_jitter: Option<Duration>,
    /// Time after which the random delay is independent of what it was; 0s draws it for each packet
    /// [default: four times its widest deviation]
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub jitter_correlation: Option<Duration>,
    /// Let packets overtake one another through jitter, which is drawn for each packet then
    #[arg(long)]
    pub jitter_reorders: bool,
    /// Random loss of packets, each way [default without a STUDY: none]
    #[arg(long, value_name = "RATIO", value_parser = quantity::<Ratio>, allow_hyphen_values = true)]
    pub loss: Option<Ratio>,
    /// Loss in bursts (Gilbert–Elliott), as in `to_bad=1%:to_good=30%`, with `:bad_loss=…` and
    /// `:good_loss=…` where they are not 100% and 0%
    #[arg(long, value_name = "KEY=RATIO:…", value_parser = assignments, allow_hyphen_values = true)]
    pub loss_bursts: Option<Assignments>,
    /// Packets that are lost, by their number in each direction, as in `3,17`; or a file with one
    /// number a line
    #[arg(long, value_name = "N,N|FILE", allow_hyphen_values = true)]
    pub loss_list: Option<String>,
    /// Packets that skip the delay and so overtake others, each way
    #[arg(long, value_name = "RATIO", value_parser = quantity::<Ratio>, allow_hyphen_values = true)]
    pub reorder: Option<Ratio>,
    /// Packets that arrive twice, each way
    #[arg(long, value_name = "RATIO", value_parser = quantity::<Ratio>, allow_hyphen_values = true)]
    pub duplicate: Option<Ratio>,
    /// Packets of which a bit is flipped, each way
    #[arg(long, value_name = "RATIO", value_parser = quantity::<Ratio>, allow_hyphen_values = true)]
    pub corrupt: Option<Ratio>,
    /// Rate of the bottleneck, each way; `unlimited` for none [default without a STUDY: 100Mbit/s]
    #[arg(long, value_name = "RATE", value_parser = rate, allow_hyphen_values = true)]
    pub rate: Option<Limit>,
    /// Bytes that the rate counts: `ip` packets, or frames of an `ethernet` with preamble and gap [default:
    /// ip]
    #[arg(long, value_name = "WHAT", value_parser = rate_of)]
    pub rate_of: Option<RateOf>,
    /// File with times of delivery in milliseconds, as Mahimahi's `mm-link` takes it, instead of a
    /// rate
    #[arg(long, value_name = "FILE", conflicts_with = "rate")]
    pub trace: Option<String>,
    /// Bytes that may pass the bottleneck at once after it was idle
    #[arg(long, value_name = "SIZE", value_parser = quantity::<Bytes>, allow_hyphen_values = true)]
    pub burst: Option<Bytes>,
    /// Limit of the bottleneck's queue, each way: `375kB`, `100 packets` or `2 BDP` [default: one
    /// bandwidth-delay product, at least 100 packets]
    #[arg(long, value_name = "SIZE", value_parser = quantity::<QueueSize>, allow_hyphen_values = true)]
    pub queue: Option<QueueSize>,
    /// Queue discipline: `drop-tail` or `codel` [default: drop-tail]
    #[arg(long, value_name = "NAME", value_parser = ["drop-tail", "codel"])]
    pub discipline: Option<String>,
    /// Standing delay that CoDel accepts [default: 5ms]
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub codel_target: Option<Duration>,
    /// Time within which CoDel wants it [default: 100ms]
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub codel_interval: Option<Duration>,
    /// Largest IP packet [default without a STUDY: 1500B]
    #[arg(long, value_name = "SIZE", value_parser = mtu, allow_hyphen_values = true)]
    pub mtu: Option<Bytes>,
    /// A key from the connecting host to the listening one alone, as in `rate=10Mbit/s`; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = assignment, allow_hyphen_values = true)]
    pub forward: Vec<Assignment>,
    /// A key the other way alone; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = assignment, allow_hyphen_values = true)]
    pub reverse: Vec<Assignment>,
    /// Change at a time of the transfer, as in `20s:rtt=250ms:reverse.rate=1Mbit/s`;
    /// repeatable
    #[arg(long, value_name = "TIME:KEY=VALUE:…", value_parser = step, allow_hyphen_values = true)]
    pub step: Vec<Step>,
    /// A quantity that climbs or falls evenly, as in `rtt:from=300ms:to=50ms:by=50ms:every=20s`
    #[arg(long, value_name = "KEY:from=…:to=…:by=…:every=…", value_parser = steps, allow_hyphen_values = true, conflicts_with = "step")]
    pub steps: Option<Assignments>,

    /// Who emulates the path: `netem` of the kernel, `userspace` for Regatta's own, or `auto`,
    /// netem where the kernel has it [default without a STUDY: auto]
    #[arg(long, value_name = "EMULATOR", value_parser = emulator)]
    pub emulator: Option<Emulator>,
    /// Where netem stands: `between` the hosts, or on both `ends` as in published experiments
    /// [default without a STUDY: between]
    #[arg(long, value_name = "WHERE", value_parser = placement)]
    pub placement: Option<Placement>,
    /// Who loses packets on netem's paths: the `emulator`, or `iptables` by its statistic match
    /// [default without a STUDY: emulator]
    #[arg(long, value_name = "WHO", value_parser = loss_by)]
    pub loss_by: Option<LossBy>,
    /// Whether the hosts' offloads stay on with netem, so that loss takes whole super-packets: `on` or
    /// `off` [default without a STUDY: off]
    #[arg(long, value_name = "WHETHER", value_parser = offloads)]
    pub offloads: Option<Offloads>,
}

impl PathArgs {
    /// Whether something of the condition is given.
    pub fn describes_a_condition(&self) -> bool {
        let Self {
            rtt,
            delay,
            jitter,
            jitter_distribution,
            rtt_jitter,
            jitter_correlation,
            jitter_reorders,
            loss,
            loss_bursts,
            loss_list,
            reorder,
            duplicate,
            corrupt,
            rate,
            rate_of,
            trace,
            burst,
            queue,
            discipline,
            codel_target,
            codel_interval,
            mtu,
            forward,
            reverse,
            step,
            steps,
            // Who emulates it changes nothing of what the path is.
            emulator: _,
            placement: _,
            loss_by: _,
            offloads: _,
        } = self;
        let times = [
            rtt,
            delay,
            jitter,
            rtt_jitter,
            jitter_correlation,
            codel_target,
            codel_interval,
        ];
        let ratios = [loss, reorder, duplicate, corrupt];
        times.into_iter().any(Option::is_some)
            || ratios.into_iter().any(Option::is_some)
            || [burst, mtu].into_iter().any(Option::is_some)
            || [loss_list, trace, discipline]
                .into_iter()
                .any(Option::is_some)
            || [loss_bursts, steps].into_iter().any(Option::is_some)
            || [forward, reverse].into_iter().any(|keys| !keys.is_empty())
            || jitter_distribution.is_some()
            || *jitter_reorders
            || rate.is_some()
            || rate_of.is_some()
            || queue.is_some()
            || !step.is_empty()
    }
}

/// Rate, or `None` for an unlimited one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit(pub Option<BitRate>);

/// Key of a condition with its value, as a user writes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// Key as in a study; a key inside a table has a dot before it.
    pub key: String,
    pub value: String,
}

/// Several assignments, separated by colons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignments {
    /// Text as the user wrote it.
    pub text: String,
    pub each: Vec<Assignment>,
}

/// Step of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub at: Duration,
    pub becomes: Assignments,
}

fn assignment(text: &str) -> Result<Assignment, String> {
    let (key, value) = text
        .split_once('=')
        .map(|(key, value)| (key.trim(), value.trim()))
        .filter(|(key, value)| !key.is_empty() && !value.is_empty())
        .ok_or_else(|| format!("`{text}` is no key with its value; write `rate=10Mbit/s`"))?;
    Ok(Assignment {
        key: key.replace('-', "_"),
        value: value.to_owned(),
    })
}

fn assignments(text: &str) -> Result<Assignments, String> {
    Ok(Assignments {
        text: text.to_owned(),
        each: text.split(':').map(assignment).collect::<Result<_, _>>()?,
    })
}

fn steps(text: &str) -> Result<Assignments, String> {
    // What climbs stands first, without its key.
    assignments(&format!("key={text}")).map(|steps| Assignments {
        text: text.to_owned(),
        ..steps
    })
}

fn step(text: &str) -> Result<Step, String> {
    let (at, becomes) = text
        .split_once(':')
        .ok_or_else(|| format!("`{text}` says not when or not what; write `20s:rtt=250ms`"))?;
    Ok(Step {
        at: duration(at)?,
        becomes: assignments(becomes)?,
    })
}

/// A size, or a number of bytes as `mtu` of a study.
fn mtu(text: &str) -> Result<Bytes, String> {
    match text.parse() {
        Ok(bytes) => Ok(Bytes(bytes)),
        Err(_) => quantity(text),
    }
}

fn rate(text: &str) -> Result<Limit, String> {
    if text == "unlimited" {
        return Ok(Limit(None));
    }
    let rate: BitRate = quantity(text)?;
    if rate.0 == 0 {
        return Err("a rate of zero carries nothing; write `unlimited` for no limit".to_owned());
    }
    Ok(Limit(Some(rate)))
}

fn distribution(text: &str) -> Result<DelayDistribution, String> {
    word(text, &DelayDistribution::NAMES)
}

fn rate_of(text: &str) -> Result<RateOf, String> {
    word(text, &RateOf::NAMES)
}

fn emulator(text: &str) -> Result<Emulator, String> {
    word(text, Emulator::WORDS)
}

fn placement(text: &str) -> Result<Placement, String> {
    word(text, Placement::WORDS)
}

fn offloads(text: &str) -> Result<Offloads, String> {
    word(text, Offloads::WORDS)
}

fn loss_by(text: &str) -> Result<LossBy, String> {
    word(text, LossBy::WORDS)
}

fn word<T: Copy>(text: &str, words: &[(&'static str, T)]) -> Result<T, String> {
    let known = words.iter().find(|(word, _)| *word == text);
    known.map(|(_, value)| *value).ok_or_else(|| {
        let words: Vec<_> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
        format!("it is one of {}", words.join(", "))
    })
}
