//! Workload `kind = "script"`: flows of steps that a study describes.
//!
//! A flow is one stream. Client and server carry out its steps in the same order, each its part. The sender of a message goes
//! on when the transport has taken it, the receiver when all of it has arrived. The sender of the next message does the
//! waiting. Flows run at the same time.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Direction, Spread};
use crate::{
    metric::{DelayMetrics, id},
    named::named,
    units::{Bytes, nanos},
};

/// Sender of a message: the client, which connects, or the server, which listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SentBy {
    /// Client.
    #[default]
    Client,
    /// Server.
    Server,
}

named!(SentBy: "client" => Client, "server" => Server);

/// Distribution of the intervals of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IntervalDistribution {
    /// Constant.
    #[default]
    Constant,
    /// Exponential, drawn from the trial's seed: a Poisson process.
    Exponential,
}

named!(IntervalDistribution: "constant" => Constant, "exponential" => Exponential);

/// Flows of a workload `kind = "script"`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Script {
    /// Distribution of the flows over streams and connections.
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
    /// Event at which the flow begins; `None` for the beginning of the transfer.
    #[serde(default)]
    pub after: Option<Event>,
    /// Time from the event to the beginning of the flow.
    #[serde(rename = "delay_ns", with = "nanos")]
    pub delay: Duration,
    /// Steps, one after another.
    pub steps: Vec<Step>,
}

/// Event at the client that lets other flows begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// End of all flows of a description, by its index in the script.
    FlowsEnded(usize),
    /// End of a step of all flows of a description: the indices of the flow, and of the step in its list.
    StepEnded(usize, usize),
}

impl Event {
    /// Returns the index of the flow whose event it is.
    #[must_use]
    pub const fn flow(self) -> usize {
        match self {
            Self::FlowsEnded(flow) | Self::StepEnded(flow, _) => flow,
        }
    }
}

/// Step of a flow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Message, wait or repetition.
    #[serde(flatten)]
    pub action: Action,
    /// Whether the client measures the time of the step.
    #[serde(default)]
    pub measured: bool,
    /// Name by which other flows begin after the step.
    #[serde(default)]
    pub name: Option<String>,
}

/// Message, wait or repetition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum Action {
    /// One message.
    Send {
        /// Sender.
        by: SentBy,
        /// Size.
        #[serde(rename = "message_bytes")]
        size: Bytes,
    },
    /// A wait of the sender of the next message; after the last message of the client.
    Wait {
        /// Time from the end of the step before.
        #[serde(rename = "time_ns", with = "nanos")]
        time: Duration,
    },
    /// Steps one after another, once or several times.
    Repeat {
        /// Number of times.
        times: u64,
        /// Interval of the schedule on which each time begins; `None` for one directly after the other.
        every: Option<Interval>,
        /// The steps.
        steps: Vec<Step>,
    },
}

/// Interval of a schedule. What is due while the step before is under way begins when that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Mean of the interval.
    #[serde(rename = "mean_ns", with = "nanos")]
    pub mean: Duration,
    /// Distribution of the interval.
    #[serde(default)]
    pub distribution: IntervalDistribution,
}

/// Largest number of operations of a script, over all flows: messages, waits, repetitions and measurements, each of which
/// takes memory at both ends.
pub const MAX_OPERATIONS: u64 = 4_000_000;

/// Largest number of flows.
pub const MAX_FLOWS: u32 = 1024;

/// Largest number of steps inside one another.
pub const MAX_DEPTH: usize = 8;

/// Sizes of a message, in bytes, both allowed. Each end holds one message of the largest size.
pub const MESSAGE_SIZES: [u64; 2] = [1, 64 << 20];

impl Action {
    /// Returns the steps of a repetition.
    fn inner(&self) -> &[Step] {
        match self {
            Self::Repeat { steps, .. } => steps,
            Self::Send { .. } | Self::Wait { .. } => &[],
        }
    }

    /// Returns the sender of the first message.
    fn first_sender(&self) -> Option<SentBy> {
        match self {
            Self::Send { by, .. } => Some(*by),
            _ => self
                .inner()
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
                let mut last = self.inner().iter().rev();
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

    /// Returns the number of steps inside one another.
    fn depth(&self) -> usize {
        let inner = self.inner().iter().map(|step| step.action.depth());
        inner.max().map_or(0, |inner| inner + 1)
    }

    /// Whether each repetition, message and wait has a size that a study may have.
    fn is_sound(&self) -> bool {
        match self {
            Self::Send { size, .. } => {
                let [least, most] = MESSAGE_SIZES;
                (least..=most).contains(&size.0)
            }
            Self::Wait { .. } => true,
            Self::Repeat { times, steps, .. } => {
                *times > 0 && !steps.is_empty() && steps.iter().all(|step| step.action.is_sound())
            }
        }
    }

    fn volume(&self) -> Volume {
        let one = Volume {
            operations: 1,
            ..Volume::default()
        };
        match self {
            Self::Send { by, size } => one.and(Volume::of(*by, size.0)),
            Self::Wait { .. } => one,
            Self::Repeat { times, steps, .. } => volume(steps).and(one).times(*times),
        }
    }
}

/// Numbers of operations, messages, measured steps and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Volume {
    /// Operations of both ends.
    pub operations: u64,
    /// Messages from both hosts.
    pub messages: u64,
    /// Measured steps.
    pub measured: u64,
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
            operations: 0,
            messages: 1,
            measured: 0,
            from_client,
            from_server,
        }
    }

    const fn times(self, times: u64) -> Self {
        Self {
            operations: self.operations.saturating_mul(times),
            messages: self.messages.saturating_mul(times),
            measured: self.measured.saturating_mul(times),
            from_client: self.from_client.saturating_mul(times),
            from_server: self.from_server.saturating_mul(times),
        }
    }

    const fn and(self, other: Self) -> Self {
        Self {
            operations: self.operations.saturating_add(other.operations),
            messages: self.messages.saturating_add(other.messages),
            measured: self.measured.saturating_add(other.measured),
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
    let volumes = steps.iter().map(|step| {
        let measured = Volume {
            operations: 2,
            measured: 1,
            ..Volume::default()
        };
        let volume = step.action.volume();
        if step.measured {
            volume.and(measured)
        } else {
            volume
        }
    });
    volumes.fold(Volume::default(), Volume::and)
}

/// Delay of the path, and time that it takes for each byte.
#[derive(Debug, Clone, Copy)]
struct Pace {
    one_way: Duration,
    nanoseconds_per_byte: f64,
}

impl Pace {
    /// Returns the time of steps that follow a message of `last`, and the sender of their last message.
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
                    let interval = every.map_or(Duration::ZERO, |interval| interval.mean);
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

    /// Returns the load of a page over six flows: a document on the first, and then five objects on each.
    #[must_use]
    pub fn page_load() -> Self {
        let objects = || Step::repeat(5, Step::exchange(500, 25_000));
        let flow = |name: &str, count, after, steps| ScriptFlow {
            name: name.to_owned(),
            count,
            after,
            delay: Duration::ZERO,
            steps,
        };
        let document = Step {
            name: Some("document".to_owned()),
            ..Step::exchange(500, 30_000)
        };
        Self {
            spread: Spread::Either,
            rank_by: id::TRANSFER_TIME_NS.to_owned(),
            flows: vec![
                flow("first", 1, None, vec![document, objects()]),
                flow("others", 5, Some(Event::StepEnded(0, 0)), vec![objects()]),
            ],
        }
    }

    /// Whether a script is one that a study may have: for orders, which come from other programs too.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let is_sound = |(index, flow): (usize, &ScriptFlow)| {
            let after = flow.after.is_none_or(|event| match event {
                Event::FlowsEnded(of) => of < index,
                Event::StepEnded(of, step) => of < index && step < self.flows[of].steps.len(),
            });
            after
                && flow.count > 0
                && (flow.steps.iter())
                    .all(|step| step.action.depth() <= MAX_DEPTH && step.action.is_sound())
        };
        self.flow_count() <= MAX_FLOWS
            && self.volume().operations <= MAX_OPERATIONS
            && !self.flows.is_empty()
            && self.flows.iter().enumerate().all(is_sound)
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

    /// Returns both directions where the server sends messages, else the forward one.
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
        self.message_sizes().max().unwrap_or_default()
    }

    /// Returns the smallest message.
    #[must_use]
    pub fn smallest_message(&self) -> Bytes {
        self.message_sizes().min().unwrap_or_default()
    }

    /// Returns the sizes of the messages, each once for every step that it is in.
    fn message_sizes(&self) -> impl Iterator<Item = Bytes> {
        fn add(steps: &[Step], sizes: &mut Vec<Bytes>) {
            for step in steps {
                match &step.action {
                    Action::Send { size, .. } => sizes.push(*size),
                    action => add(action.inner(), sizes),
                }
            }
        }
        let mut sizes = Vec::new();
        self.flows.iter().for_each(|it| add(&it.steps, &mut sizes));
        sizes.into_iter()
    }

    /// Whether the time of a step is measured.
    #[must_use]
    pub fn measures(&self) -> bool {
        fn measures(steps: &[Step]) -> bool {
            steps
                .iter()
                .any(|step| step.measured || measures(step.action.inner()))
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
        let (mut starts, mut ends) = (Vec::<Duration>::new(), Vec::<Duration>::new());
        for flow in &self.flows {
            let begins = match flow.after {
                Some(Event::StepEnded(of, step)) => {
                    let steps = self.flows[of].steps.get(..=step).unwrap_or_default();
                    let (time, _) = pace.time_of(steps, Some(SentBy::Client));
                    starts[of].saturating_add(time).saturating_add(pace.one_way)
                }
                Some(Event::FlowsEnded(of)) => ends[of],
                None => Duration::ZERO,
            };
            let begins = begins.saturating_add(flow.delay);
            starts.push(begins);
            let (time, last) = pace.time_of(&flow.steps, Some(SentBy::Client));
            let answer = match last {
                Some(SentBy::Server) => Duration::ZERO,
                _ => pace.one_way,
            };
            let steps = [time, pace.one_way, answer];
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
        let messages = match messages {
            1 => "1 message".to_owned(),
            many => format!("{many} messages"),
        };
        format!("{}: {messages}, {bytes}", flows.join(", "))
    }
}

impl ScriptFlow {
    /// Returns the messages and bytes of one flow.
    #[must_use]
    pub fn volume(&self) -> Volume {
        volume(&self.steps)
    }
}

/// Whether steps that follow a wait of the server begin with a measured one: its beginning is not known to the client.
#[must_use]
pub fn begin_unseen(steps: &[Step]) -> bool {
    for step in steps {
        let by = step.action.first_sender();
        if step.measured && by == Some(SentBy::Server) || begin_unseen(step.action.inner()) {
            return true;
        }
        if by.is_some() {
            return false;
        }
    }
    false
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
    /// Makes a step of an action, which is not measured.
    #[must_use]
    pub const fn new(action: Action) -> Self {
        Self {
            action,
            measured: false,
            name: None,
        }
    }

    /// Makes a message of this size in bytes.
    #[must_use]
    pub const fn send(by: SentBy, size: u64) -> Self {
        let size = Bytes(size);
        Self::new(Action::Send { by, size })
    }

    /// Makes a request of the client and its response, of these sizes in bytes.
    #[must_use]
    pub fn exchange(request: u64, response: u64) -> Self {
        Self::new(Action::Repeat {
            times: 1,
            every: None,
            steps: vec![
                Self::send(SentBy::Client, request),
                Self::send(SentBy::Server, response),
            ],
        })
    }

    /// Repeats a step, each time directly after the one before.
    #[must_use]
    pub fn repeat(times: u64, step: Self) -> Self {
        Self::new(Action::Repeat {
            times,
            every: None,
            steps: vec![step],
        })
    }

    /// Returns the step, measured.
    #[must_use]
    pub fn measured(self) -> Self {
        Self {
            measured: true,
            ..self
        }
    }

    /// Checks whether the client sees when a measured step begins and ends; `waits` says whether a wait comes before it.
    ///
    /// # Errors
    /// [`NotMeasurable`], which says whether the beginning or the end is not seen.
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
