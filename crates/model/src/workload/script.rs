//! Workload that a user describes in steps, `kind = "script"`.
//!
//! A flow is one stream on which both hosts carry out the same steps one after another: the host that sends a message goes
//! on when the transport has taken it, the other one when it has all of it. The host that sends the next message waits where
//! a step says so. Flows run side by side.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Direction, Spread};
use crate::{
    metric::{DelayMetrics, id},
    named::named,
    units::{Bytes, nanos},
};

/// Host of a script that sends a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SentBy {
    /// Host that connects.
    #[default]
    Client,
    /// Host that listens.
    Server,
}

named!(SentBy: "client" => Client, "server" => Server);

/// Distribution of the times between the beginnings of a repeated step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Spaced {
    /// All the same.
    #[default]
    Evenly,
    /// Exponential with this mean, from the trial's seed: the beginnings are a Poisson process.
    Exponentially,
}

named!(Spaced: "even" => Evenly, "exponential" => Exponentially);

/// Workload in steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Script {
    /// Connections or streams.
    pub spread: Spread,
    /// Metric by which transports are ranked: one of [`Script::RANKED_BY`].
    pub rank_by: String,
    /// Flows, in the order of the study.
    #[serde(rename = "flow")]
    pub flows: Vec<ScriptFlow>,
}

/// One or several equal flows of a script.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScriptFlow {
    /// Name, unique in the script.
    pub name: String,
    /// Number of flows with these steps.
    pub count: u32,
    /// Index of the flow that ends before this one begins; without one it begins with the transfer.
    #[serde(default)]
    pub after: Option<usize>,
    /// Time from that moment to the beginning.
    #[serde(rename = "delay_ns", with = "nanos")]
    pub delay: Duration,
    /// Steps, one after another.
    pub steps: Vec<Step>,
}

/// Step of a flow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// What is done.
    #[serde(flatten)]
    pub action: Action,
    /// Whether the client measures the time from its beginning to its end.
    #[serde(default)]
    pub measured: bool,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum Action {
    /// One message.
    Send {
        /// Host that sends it.
        by: SentBy,
        /// Its size.
        #[serde(rename = "message_bytes")]
        size: Bytes,
    },
    /// A wait of the host that sends the next message; at the end of a flow of the client.
    Wait {
        /// Time from the end of the step before.
        #[serde(rename = "time_ns", with = "nanos")]
        time: Duration,
    },
    /// Steps as one, any number of times.
    Repeat {
        /// Number of times.
        times: u64,
        /// Schedule of the beginnings, if there is one.
        every: Option<Every>,
        /// The steps.
        steps: Vec<Step>,
    },
}

/// Schedule of a repeated step: each time begins at its moment, or later where the time before has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Every {
    /// Time between the beginnings, the mean where it is drawn.
    #[serde(rename = "interval_ns", with = "nanos")]
    pub interval: Duration,
    /// Distribution of it.
    #[serde(default)]
    pub spaced: Spaced,
}

/// Longest list of messages of a script, over all flows: both ends hold the lengths of all.
pub const MOST_MESSAGES: u64 = 1_000_000;

/// Most steps inside one another.
pub const DEEPEST: usize = 8;

impl Action {
    /// Returns the steps inside, and how often they are done.
    fn inner(&self) -> (&[Step], u64) {
        match self {
            Self::Repeat { times, steps, .. } => (steps, *times),
            Self::Send { .. } | Self::Wait { .. } => (&[], 0),
        }
    }

    /// Returns the sender of the first message.
    fn first_sender(&self) -> Option<SentBy> {
        match self {
            Self::Send { by, .. } => Some(*by),
            _ => self
                .inner()
                .0
                .iter()
                .find_map(|step| step.action.first_sender()),
        }
    }

    /// Returns the sender of the last message.
    #[must_use]
    pub fn last_sender(&self) -> Option<SentBy> {
        match self {
            Self::Send { by, .. } => Some(*by),
            _ => {
                let mut last = self.inner().0.iter().rev();
                last.find_map(|step| step.action.last_sender())
            }
        }
    }

    fn begins_with_wait(&self) -> bool {
        match self {
            Self::Send { .. } => false,
            Self::Wait { .. } => true,
            Self::Repeat { every, steps, .. } => {
                let first = steps.first();
                every.is_some() || first.is_some_and(|step| step.action.begins_with_wait())
            }
        }
    }

    /// Returns how many messages there are, and their bytes, from each host, that of the client first.
    fn volume(&self) -> Volume {
        match self {
            Self::Send { by, size } => Volume::of(*by, size.0),
            Self::Wait { .. } => Volume::default(),
            Self::Repeat { times, steps, .. } => volume(steps).times(*times),
        }
    }
}

/// Messages and bytes of each host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Volume {
    /// Number of messages from both.
    pub messages: u64,
    /// Bytes from the client.
    pub from_client: u64,
    /// Bytes from the server.
    pub from_server: u64,
}

impl Volume {
    const fn of(by: SentBy, bytes: u64) -> Self {
        let (from_client, from_server) = match by {
            SentBy::Client => (bytes, 0),
            SentBy::Server => (0, bytes),
        };
        Self {
            messages: 1,
            from_client,
            from_server,
        }
    }

    const fn times(self, times: u64) -> Self {
        Self {
            messages: self.messages.saturating_mul(times),
            from_client: self.from_client.saturating_mul(times),
            from_server: self.from_server.saturating_mul(times),
        }
    }

    const fn and(self, other: Self) -> Self {
        Self {
            messages: self.messages.saturating_add(other.messages),
            from_client: self.from_client.saturating_add(other.from_client),
            from_server: self.from_server.saturating_add(other.from_server),
        }
    }

    /// Returns the bytes of both.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.from_client.saturating_add(self.from_server)
    }
}

fn volume(steps: &[Step]) -> Volume {
    let volumes = steps.iter().map(|step| step.action.volume());
    volumes.fold(Volume::default(), Volume::and)
}

/// Pace of a script: what a path makes of it.
#[derive(Debug, Clone, Copy)]
struct Pace {
    one_way: Duration,
    nanoseconds_per_byte: f64,
}

impl Pace {
    /// Returns the time of some steps, and the sender of the last message, where `last` sent the one before.
    fn time_of(self, steps: &[Step], mut last: Option<SentBy>) -> (Duration, Option<SentBy>) {
        let mut time = Duration::ZERO;
        for step in steps {
            let more = match &step.action {
                Action::Send { by, size } => {
                    let bytes =
                        Duration::from_nanos((size.0 as f64 * self.nanoseconds_per_byte) as u64);
                    // A message waits for the one that it answers.
                    let turns = last.replace(*by).is_some_and(|last| last != *by);
                    bytes + if turns { self.one_way } else { Duration::ZERO }
                }
                Action::Wait { time } => *time,
                Action::Repeat {
                    times,
                    every,
                    steps,
                } => {
                    let (first, after) = self.time_of(steps, last);
                    let (each, after) = self.time_of(steps, after);
                    last = after;
                    let again = u32::try_from(times.saturating_sub(1)).unwrap_or(u32::MAX);
                    let interval = every.map_or(Duration::ZERO, |every| every.interval);
                    first.saturating_add(each.max(interval).saturating_mul(again))
                }
            };
            time = time.saturating_add(more);
        }
        (time, last)
    }
}

impl Script {
    /// Metrics by which a script may be ranked.
    pub const RANKED_BY: [&str; 5] = [
        id::TRANSFER_TIME_NS,
        DelayMetrics::STEP.mean,
        DelayMetrics::STEP.p50,
        DelayMetrics::STEP.p95,
        DelayMetrics::STEP.p99,
    ];

    /// Returns the load of a page: a document, and then 30 objects over six flows.
    #[must_use]
    pub fn page_load() -> Self {
        let message = |by, size| Step {
            action: Action::Send {
                by,
                size: Bytes(size),
            },
            measured: false,
        };
        let exchanges = |times, response| Step {
            action: Action::Repeat {
                times,
                every: None,
                steps: vec![
                    message(SentBy::Client, 500),
                    message(SentBy::Server, response),
                ],
            },
            measured: false,
        };
        let flow = |name: &str, count, after, step| ScriptFlow {
            name: name.to_owned(),
            count,
            after,
            delay: Duration::ZERO,
            steps: vec![step],
        };
        Self {
            spread: Spread::Either,
            rank_by: id::TRANSFER_TIME_NS.to_owned(),
            flows: vec![
                flow("document", 1, None, exchanges(1, 30_000)),
                flow("objects", 6, Some(0), exchanges(5, 25_000)),
            ],
        }
    }

    /// Returns the metric by which transports are ranked.
    #[must_use]
    pub fn ranked_by(&self) -> &'static str {
        let known = Self::RANKED_BY
            .into_iter()
            .find(|name| *name == self.rank_by);
        known.unwrap_or(id::TRANSFER_TIME_NS)
    }

    /// Returns the messages and bytes of all flows.
    #[must_use]
    pub fn volume(&self) -> Volume {
        let flows = self
            .flows
            .iter()
            .map(|flow| flow.volume().times(flow.count.into()));
        flows.fold(Volume::default(), Volume::and)
    }

    /// Returns the number of flows.
    #[must_use]
    pub fn flow_count(&self) -> u32 {
        self.flows
            .iter()
            .fold(0, |count, flow| count.saturating_add(flow.count))
    }

    /// Returns the directions in which messages go.
    #[must_use]
    pub fn direction(&self) -> Direction {
        match self.volume() {
            Volume { from_server: 0, .. } => Direction::Forward,
            _ => Direction::Both,
        }
    }

    /// Returns the largest message.
    #[must_use]
    pub fn largest_message(&self) -> Bytes {
        fn largest(steps: &[Step]) -> u64 {
            let of = |step: &Step| match &step.action {
                Action::Send { size, .. } => size.0,
                action => largest(action.inner().0),
            };
            steps.iter().map(of).max().unwrap_or(0)
        }
        Bytes(
            self.flows
                .iter()
                .map(|flow| largest(&flow.steps))
                .max()
                .unwrap_or(0),
        )
    }

    /// Whether the time of a step is measured.
    #[must_use]
    pub fn measures(&self) -> bool {
        fn measures(steps: &[Step]) -> bool {
            steps
                .iter()
                .any(|step| step.measured || measures(step.action.inner().0))
        }
        self.flows.iter().any(|flow| measures(&flow.steps))
    }

    /// Returns the time that the script takes over a path of this round-trip time and rate in bits per second, from the
    /// first message on, without the set-up of connections.
    #[must_use]
    pub fn time(&self, round_trip: Duration, rate: f64) -> Duration {
        let pace = Pace {
            one_way: round_trip / 2,
            nanoseconds_per_byte: 8e9 / rate,
        };
        let mut ends: Vec<Duration> = Vec::with_capacity(self.flows.len());
        for flow in &self.flows {
            let begins = flow
                .after
                .and_then(|after| ends.get(after))
                .copied()
                .unwrap_or_default();
            let (time, last) = pace.time_of(&flow.steps, Some(SentBy::Client));
            let answer = match last {
                Some(SentBy::Server) => Duration::ZERO,
                _ => pace.one_way,
            };
            let steps = [flow.delay, time, pace.one_way, answer];
            ends.push(steps.into_iter().fold(begins, Duration::saturating_add));
        }
        let all_bytes = self.volume().bytes() as f64 * pace.nanoseconds_per_byte;
        let ends = ends.into_iter().max().unwrap_or_default();
        ends.max(Duration::from_nanos(all_bytes as u64))
    }

    /// Returns the time that the script takes over any path: its waits and schedules.
    #[must_use]
    pub fn least_time(&self) -> Duration {
        self.time(Duration::ZERO, f64::INFINITY)
    }

    /// Scales how often the outermost repeated steps are done; returns whether that changed anything.
    pub(crate) fn scale(&mut self, factor: f64) -> bool {
        let steps = self.flows.iter_mut().flat_map(|flow| &mut flow.steps);
        steps.fold(false, |changed, step| match &mut step.action {
            Action::Repeat { times, .. } => {
                let scaled = ((*times as f64 * factor).round() as u64).max(1);
                std::mem::replace(times, scaled) != scaled || changed
            }
            Action::Send { .. } | Action::Wait { .. } => changed,
        })
    }

    /// Describes the script: `document, 6 of objects: 62 messages, 782 kB`.
    #[must_use]
    pub fn description(&self) -> String {
        let flows = self.flows.iter().map(|flow| match flow.count {
            1 => flow.name.clone(),
            count => format!("{count} of {}", flow.name),
        });
        let flows: Vec<_> = flows.collect();
        let volume = self.volume();
        let (messages, bytes) = (volume.messages, Bytes(volume.bytes()));
        format!("{}: {messages} messages, {bytes}", flows.join(", "))
    }
}

impl ScriptFlow {
    /// Returns the messages and bytes of one flow.
    #[must_use]
    pub fn volume(&self) -> Volume {
        volume(&self.steps)
    }
}

/// Why a step cannot be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotMeasurable {
    /// The client does not see its end: it ends with a message from the client, or has none.
    EndsElsewhere,
    /// The client does not see its beginning: the server waits for a moment before it.
    BeginsElsewhere,
}

impl Step {
    /// Checks whether the client sees when a measured step begins and ends; `waits` says whether a wait comes before it.
    ///
    /// # Errors
    /// What it does not see.
    pub fn check_measured(&self, waits: bool) -> Result<(), NotMeasurable> {
        if self.action.last_sender() != Some(SentBy::Server) {
            return Err(NotMeasurable::EndsElsewhere);
        }
        let waits = waits || self.action.begins_with_wait();
        if waits && self.action.first_sender() == Some(SentBy::Server) {
            return Err(NotMeasurable::BeginsElsewhere);
        }
        Ok(())
    }
}
