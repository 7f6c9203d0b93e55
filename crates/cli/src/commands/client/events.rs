//! Events of a measurement by `regatta client`. Both ends have the same events, and write the same lines of them.

use std::{fmt::Write as _, time::Duration};

use regatta_engine::unix_ns;
use regatta_model::{
    BitRate, Bytes, Outcome, Text, TrialRecord, Warning, metric::id, shell::printable,
    units::format_duration,
};
use serde::{Deserialize, Serialize};

use super::hints;
use crate::{
    args::rate_unit::{RateUnit, rate},
    output::{counted, in_lines},
};

/// Version of the events' form.
pub const SCHEMA_VERSION: u32 = 2;

/// Event of a measurement, a line of `--json-stream`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum ClientEvent {
    /// Both ends are ready for a trial.
    Started(Started),
    /// Part of a trial under way.
    Interval(Interval),
    /// The trial has ended.
    Ended(Box<Ended>),
    /// The measurement has ended with an error.
    Failed(Failed),
}

/// Beginning of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Started {
    pub schema_version: u32,
    /// Number of the trial, from 0.
    pub trial: u32,
    /// Trials in all.
    pub trials: u32,
    pub time_unix_ns: i64,
    /// Label of the transport.
    pub transport: String,
    /// Description of the workload.
    pub workload: String,
    /// Address of the client.
    pub from: String,
    /// Address and port of the server.
    pub server: String,
}

/// Bytes that arrived in one direction during an interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Delivered {
    pub bytes: u64,
    pub goodput_bps: f64,
}

/// Part of a trial under way, counted at the receiver. What is not known is absent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    pub trial: u32,
    /// Time by the client's clock when the interval was counted; 0 of an older client.
    #[serde(default)]
    pub time_unix_ns: i64,
    /// Beginning and end since the beginning of the transfer.
    pub from_ns: u64,
    pub to_ns: u64,
    /// From the client to the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward: Option<Delivered>,
    /// From the server to the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse: Option<Delivered>,
    /// Mean round-trip delay of the probe beside the transfer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_delay_mean_ns: Option<f64>,
    /// Packets that the senders sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retransmitted_packets: Option<u64>,
    /// Congestion window at the end of the interval, of all connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion_window_bytes: Option<u64>,
    /// Whether the interval lies in the time that the results leave out.
    pub omitted: bool,
    /// Whether data goes in both directions: the counters of one can be late.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_both_ways: bool,
}

/// Error that ended the measurement, also one of connecting to the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    pub time_unix_ns: i64,
    /// Error with its causes.
    pub message: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hint: String,
}

/// Result of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    pub trial: u32,
    /// Time by the client's clock when the trial had ended; 0 of an older client.
    #[serde(default)]
    pub time_unix_ns: i64,
    pub transport: String,
    pub outcome: Outcome,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hint: String,
    /// Metrics by name, as `regatta list metrics` defines them.
    pub metrics: regatta_model::MetricValues,
    /// Round trips per minute under load: 60 s over the median round-trip delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trips_per_minute: Option<f64>,
    /// The same before the transfer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_round_trips_per_minute: Option<f64>,
    /// Facts read back from the stacks.
    pub facts: std::collections::BTreeMap<String, String>,
    pub warnings: Vec<Warning>,
}

fn per_minute(delay_ns: Option<&f64>) -> Option<f64> {
    let delay_ns = delay_ns.filter(|delay| **delay > 0.0);
    delay_ns.map(|delay| 60e9 / delay)
}

impl From<&TrialRecord> for Ended {
    fn from(record: &TrialRecord) -> Self {
        let measurements = &record.measurements;
        let metrics = &measurements.metrics;
        Self {
            trial: record.index,
            time_unix_ns: unix_ns(),
            transport: record.transport.to_string(),
            outcome: record.outcome,
            reasons: record.reasons.iter().map(Text::to_string).collect(),
            hint: hints::of_client(&record.hint),
            metrics: metrics.clone(),
            round_trips_per_minute: per_minute(metrics.get(id::ROUND_TRIP_DELAY_P50_NS)),
            idle_round_trips_per_minute: per_minute(metrics.get(id::ROUND_TRIP_DELAY_IDLE_P50_NS)),
            facts: (measurements.facts.iter())
                .map(|(name, value)| (name.clone(), value.to_string()))
                .collect(),
            warnings: hints::in_warnings(&measurements.warnings),
        }
    }
}

/// Header of the lines of intervals.
const HEADER: &str = "  interval   delivered         goodput   mean round trip  resent      cwnd\n";
const HEADER_BOTH: &str =
    "  interval         to server         to client   mean round trip  resent\n";

impl ClientEvent {
    /// Returns the lines of the event for people; `verbose` adds what the stacks read back. Rates have the unit, if one
    /// is given.
    pub fn text(&self, verbose: bool, unit: Option<RateUnit>) -> String {
        match self {
            Self::Started(started) => started.text(),
            Self::Interval(interval) => interval.text(unit),
            Self::Ended(ended) => ended.text(verbose, unit),
            // Standard error has it.
            Self::Failed(_) => String::new(),
        }
    }
}

impl Started {
    fn text(&self) -> String {
        let which = match self.trials {
            1 => String::new(),
            trials => format!("{} of {trials}: ", self.trial + 1),
        };
        printable(&format!(
            "{which}{}, {} -> {}: {}",
            self.transport, self.from, self.server, self.workload
        )) + "\n"
    }
}

/// Formats seconds without more digits than they need.
fn seconds(ns: u64) -> String {
    let seconds = ns as f64 / 1e9;
    match (seconds * 10.0).round() / 10.0 {
        tenths if (tenths - seconds).abs() > 0.02 => format!("{seconds:.2}"),
        tenths if tenths.fract() == 0.0 => format!("{tenths:.0}"),
        tenths => format!("{tenths:.1}"),
    }
}

fn delay(ns: Option<f64>) -> String {
    let span = ns.map(|ns| Duration::from_nanos(rounded(ns)));
    span.map_or("-".to_owned(), format_duration)
}

/// Rounds to three digits.
fn rounded(value: f64) -> u64 {
    if value < 1.0 {
        return 0;
    }
    let unit = 10_f64.powf((value.log10().floor() - 2.0).max(0.0));
    ((value / unit).round() * unit) as u64
}

fn bytes(bytes: u64) -> String {
    Bytes(rounded(bytes as f64)).to_string()
}

fn percent(ratio: f64) -> String {
    format!("{:.3} %", ratio * 100.0)
}

fn count(value: Option<u64>) -> String {
    value.map_or("-".to_owned(), |value| value.to_string())
}

impl Interval {
    /// Whether data goes in both directions, as an older client shows it too.
    fn is_both_ways(&self) -> bool {
        self.is_both_ways || (self.forward.is_some() && self.reverse.is_some())
    }

    fn text(&self, unit: Option<RateUnit>) -> String {
        let span = format!("{}-{} s", seconds(self.from_ns), seconds(self.to_ns));
        let mut text = String::new();
        if self.from_ns == 0 {
            text.push_str(match self.is_both_ways() {
                true => HEADER_BOTH,
                false => HEADER,
            });
        }
        let _ = write!(text, "{span:>10}");
        let resent = count(self.retransmitted_packets);
        let delay = delay(self.round_trip_delay_mean_ns);
        if self.is_both_ways() {
            for one in [self.forward, self.reverse] {
                let one = one.map_or("-".to_owned(), |one| rate(one.goodput_bps, unit));
                let _ = write!(text, "  {one:>16}");
            }
            let _ = write!(text, "  {delay:>16}  {resent:>6}");
        } else if let Some(one) = self.forward.or(self.reverse) {
            let window = self.congestion_window_bytes.map_or("-".to_owned(), bytes);
            let (delivered, rate) = (bytes(one.bytes), rate(one.goodput_bps, unit));
            let _ = write!(
                text,
                "  {delivered:>10}  {rate:>14}  {delay:>16}  {resent:>6}  {window:>8}"
            );
        }
        if self.omitted {
            text.push_str(" omitted");
        }
        text.push('\n');
        text
    }
}

impl Ended {
    fn metric(&self, name: &str) -> Option<f64> {
        self.metrics.get(name).copied()
    }

    fn text(&self, verbose: bool, unit: Option<RateUnit>) -> String {
        let mut text = String::new();
        if self.outcome != Outcome::Measured {
            let outcome = self.outcome.label();
            let _ = writeln!(text, "{outcome}: {}", printable(&self.reasons.join(": ")));
            if !self.hint.is_empty() {
                let _ = writeln!(text, "hint: {}", printable(&self.hint));
            }
            return text;
        }
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "{name:<14}{value}");
        };
        for (name, value) in [
            ("goodput", self.goodput(unit)),
            ("directions", self.directions(unit)),
            ("delay", self.delays()),
            ("round trips", self.round_trips()),
            ("lost", self.losses()),
            ("jitter", self.jitter()),
            ("resent", self.resent()),
            ("CPU", self.cpu()),
        ] {
            if let Some(value) = value {
                line(name, value);
            }
        }
        if verbose {
            for (name, value) in &self.metrics {
                line("metric", format!("{name} {value}"));
            }
            for (name, value) in &self.facts {
                line("fact", printable(&format!("{name} {value}")));
            }
        }
        for warning in &self.warnings {
            let _ = writeln!(text, "{}", printable(&in_lines(warning)));
        }
        text
    }

    fn goodput(&self, unit: Option<RateUnit>) -> Option<String> {
        let goodput = self.metric(id::GOODPUT_BPS)?;
        let goodput = match unit {
            Some(_) => rate(goodput, unit),
            None => BitRate(rounded(goodput)).to_string(),
        };
        // Both without the time that is left out.
        let counted = |total: &str, left_out: &str| {
            self.metric(total).unwrap_or_default() - self.metric(left_out).unwrap_or_default()
        };
        let delivered = counted(id::BYTES_DELIVERED, id::WARM_UP_BYTES);
        let between = self.metric(id::GOODPUT_TIME_NS);
        let time = between.unwrap_or_else(|| counted(id::TRANSFER_TIME_NS, id::WARM_UP_NS));
        Some(format!(
            "{goodput}: {} in {:.2} s, counted at the receiver",
            bytes(delivered as u64),
            time / 1e9
        ))
    }

    /// Returns the goodput of each direction; `None` for a transfer in one direction.
    fn directions(&self, unit: Option<RateUnit>) -> Option<String> {
        let names = [id::GOODPUT_FORWARD_BPS, id::GOODPUT_REVERSE_BPS];
        self.each_direction(names, |bps| rate(bps, unit))
    }

    /// Returns a metric of each direction, formatted by `shown`; `None` for a transfer in one direction.
    fn each_direction(&self, names: [&str; 2], shown: impl Fn(f64) -> String) -> Option<String> {
        let [forward, reverse] = names.map(|name| self.metric(name).map(&shown));
        let (forward, reverse) = (forward?, reverse?);
        Some(format!("{forward} to the server, {reverse} to the client"))
    }

    /// Joins the figures before the transfer and under load that are known.
    fn idle_and_loaded(
        idle: Option<f64>,
        loaded: Option<f64>,
        shown: impl Fn(f64) -> String,
    ) -> Option<String> {
        let idle = idle.map(|idle| format!("{} idle", shown(idle)));
        let loaded = loaded.map(|loaded| format!("{} under load", shown(loaded)));
        let known: Vec<String> = idle.into_iter().chain(loaded).collect();
        (!known.is_empty()).then(|| known.join(", "))
    }

    fn delays(&self) -> Option<String> {
        let names = [
            id::ROUND_TRIP_DELAY_IDLE_P50_NS,
            id::ROUND_TRIP_DELAY_P50_NS,
        ];
        let [idle, loaded] = names.map(|name| self.metric(name));
        let medians = Self::idle_and_loaded(idle, loaded, |ns| delay(Some(ns)))?;
        Some(match self.metric(id::ROUND_TRIP_DELAY_P95_NS) {
            Some(p95) => format!("median {medians} (95th percentile {})", delay(Some(p95))),
            None => format!("median {medians}"),
        })
    }

    fn round_trips(&self) -> Option<String> {
        let idle = self.idle_round_trips_per_minute;
        let shown = |trips| format!("{} per minute", rounded(trips));
        Self::idle_and_loaded(idle, self.round_trips_per_minute, shown)
    }

    fn losses(&self) -> Option<String> {
        let ratio = self.metric(id::MESSAGE_LOSS_RATIO)?;
        let lost = self.metric(id::MESSAGES_LOST).unwrap_or_default();
        let sent = self.metric(id::MESSAGES_SENT).unwrap_or_default();
        // A stream without losses has no line.
        if ratio <= 0.0 && !self.metrics.contains_key(id::MESSAGES_REORDERED) {
            return None;
        }
        let sent = counted(sent as usize, "message");
        let names = [
            id::MESSAGE_LOSS_FORWARD_RATIO,
            id::MESSAGE_LOSS_REVERSE_RATIO,
        ];
        let directions = self.each_direction(names, percent);
        let directions = directions.map_or(String::new(), |directions| format!(": {directions}"));
        Some(format!("{lost} of {sent} ({}){directions}", percent(ratio)))
    }

    fn jitter(&self) -> Option<String> {
        let names = [
            id::INTERARRIVAL_JITTER_FORWARD_NS,
            id::INTERARRIVAL_JITTER_REVERSE_NS,
        ];
        let jitter = self.metric(id::INTERARRIVAL_JITTER_NS);
        let jitter = jitter.map(|ns| delay(Some(ns)));
        let jitter = jitter.or_else(|| self.each_direction(names, |ns| delay(Some(ns))))?;
        let reordered = self.metric(id::MESSAGES_REORDERED).unwrap_or_default();
        let duplicated = self.metric(id::MESSAGES_DUPLICATED).unwrap_or_default();
        Some(format!(
            "{jitter}; {reordered} out of order, {duplicated} duplicated"
        ))
    }

    fn resent(&self) -> Option<String> {
        let packets = counted(self.metric(id::RETRANSMITTED_PACKETS)? as usize, "packet");
        let ratio = self.metric(id::RETRANSMIT_RATIO);
        let ratio = ratio.map_or(String::new(), |ratio| format!(" ({})", percent(ratio)));
        Some(packets + &ratio)
    }

    fn cpu(&self) -> Option<String> {
        let sender = self.metric("cpu_sender_ratio")?;
        let receiver = self.metric("cpu_receiver_ratio")?;
        // Of both directions the sender is the end that connects.
        let [first, second] = match self.metrics.contains_key(id::GOODPUT_FORWARD_BPS) {
            true => ["client", "server"],
            false => ["sender", "receiver"],
        };
        Some(format!(
            "{first} {:.1} %, {second} {:.1} % of one core",
            sender * 100.0,
            receiver * 100.0
        ))
    }
}
