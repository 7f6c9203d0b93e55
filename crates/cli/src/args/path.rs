//! Options that describe a path; every command that makes one takes them.

use std::time::Duration;

use clap::Args;
use regatta_model::{BitRate, Bytes, Emulator, Placement, Ratio};

use super::{duration, quantity};

/// The path: what is not given is a study's, or the default.
#[derive(Debug, Clone, Default, Args)]
pub struct PathArgs {
    /// Round-trip delay of the path, half of it each way [default without a STUDY: 30ms]
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Path")]
    pub rtt: Option<Duration>,
    /// Random loss of packets, each way [default without a STUDY: none]
    #[arg(long, value_name = "RATIO", value_parser = quantity::<Ratio>, help_heading = "Path")]
    pub loss: Option<Ratio>,
    /// Rate of the bottleneck, each way; `unlimited` for none [default without a STUDY: 100Mbit/s]
    #[arg(long, value_name = "RATE", value_parser = rate, help_heading = "Path")]
    pub rate: Option<Limit>,
    /// Amplitude of the random delay, each way; packets keep their order, so the later ones of a
    /// dense flow wait for the earlier ones
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Path")]
    pub jitter: Option<Duration>,
    /// Limit of the bottleneck's queue, each way [default: one bandwidth-delay product, at least
    /// 100 packets]
    #[arg(long, value_name = "SIZE", value_parser = quantity::<Bytes>, help_heading = "Path")]
    pub queue: Option<Bytes>,
    /// Largest IP packet [default without a STUDY: 1500B]
    #[arg(long, value_name = "SIZE", value_parser = quantity::<Bytes>, help_heading = "Path")]
    pub mtu: Option<Bytes>,

    /// Who emulates the path: `netem` of the kernel, `userspace` for Regatta's own, or `auto`,
    /// netem where the kernel has it [default without a STUDY: auto]
    #[arg(long, value_name = "EMULATOR", value_parser = emulator, help_heading = "Path")]
    pub emulator: Option<Emulator>,
    /// Where netem stands: `between` the hosts, or on both `ends` as in published experiments
    /// [default without a STUDY: between]
    #[arg(long, value_name = "WHERE", value_parser = placement, help_heading = "Path")]
    pub placement: Option<Placement>,
}

impl PathArgs {
    /// Whether something of the condition is given.
    pub fn describes_a_condition(&self) -> bool {
        let Self {
            rtt,
            loss,
            rate,
            jitter,
            queue,
            mtu,
            // Who emulates it changes nothing of what the path is.
            emulator: _,
            placement: _,
        } = self;
        rtt.is_some()
            || loss.is_some()
            || rate.is_some()
            || jitter.is_some()
            || queue.is_some()
            || mtu.is_some()
    }
}

/// A rate, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit(pub Option<BitRate>);

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

fn emulator(text: &str) -> Result<Emulator, String> {
    word(text, Emulator::WORDS)
}

fn placement(text: &str) -> Result<Placement, String> {
    word(text, Placement::WORDS)
}

fn word<T: Copy>(text: &str, words: &[(&'static str, T)]) -> Result<T, String> {
    let known = words.iter().find(|(word, _)| *word == text);
    known.map(|(_, value)| *value).ok_or_else(|| {
        let words: Vec<_> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
        format!("it is one of {}", words.join(", "))
    })
}
