//! The control protocol between the controller and its agents: JSON lines over standard input and output.
//!
//! Both sides open with their version; a side that does not know the other's says so and ends.
//! No control port listens anywhere: end of input ends the agent and all that it started. The messages of the path
//! daemon are in its own crate.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use regatta_model::{
    Direction, HostFacts, IpProtocol, Measurements, PortRange, Transport, Tuning, Workload,
    WorkloadKind,
    metric::EndMetrics,
    script::SentBy,
    units::{nanos, optional_nanos},
};
pub use regatta_model::{Problem, ProblemKind};
use serde::{Deserialize, Serialize};

/// Version of the messages in this crate. A change that an older peer would misread raises it.
pub const PROTOCOL_VERSION: u32 = 2;

/// Host of a trial, named after the end on it: who connects and who listens. Who sends is [`Role`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Host {
    /// Host `a`, whose end connects.
    Client,
    /// Host `b`, whose end listens.
    Server,
}

impl Host {
    /// Both hosts, that of the client first.
    pub const BOTH: [Self; 2] = [Self::Client, Self::Server];

    /// Returns `a` or `b`, as in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Client => "a",
            Self::Server => "b",
        }
    }

    /// Returns the other host.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }

    /// Returns the role of the end on this host: the client sends, unless the workload's direction is
    /// reversed.
    #[must_use]
    pub fn role(self, workload: &Workload) -> Role {
        if (self == Self::Client) == (workload.kind.direction() == Direction::Reverse) {
            Role::Receiver
        } else {
            Role::Sender
        }
    }
}

/// Role of an end in a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Sends, or asks; connects unless the workload's direction is reversed: the client of the
    /// published experiments.
    Sender,
    /// Receives, or answers; listens unless the workload's direction is reversed.
    Receiver,
}

impl Role {
    /// `sender` or `receiver`, as in series, histograms and facts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sender => "sender",
            Self::Receiver => "receiver",
        }
    }

    /// Returns the names of the metrics of this end's process.
    #[must_use]
    pub const fn metrics(self) -> EndMetrics {
        match self {
            Self::Sender => EndMetrics::SENDER,
            Self::Receiver => EndMetrics::RECEIVER,
        }
    }
}

/// Properties of the path that a driver may know: enough to size windows and to know when to stop
/// waiting.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PathHints {
    /// Longest round-trip propagation delay that the path has during the trial, without jitter and queues; of a real
    /// network the one that the last path check measured.
    #[serde(rename = "round_trip_delay_ns", with = "nanos")]
    pub round_trip_delay: Duration,
    /// Longest time that a packet can be under way in one direction: queue, propagation and jitter, at the worst moment of
    /// a trace. Bounds what may still arrive.
    #[serde(rename = "longest_one_way_ns", with = "nanos")]
    pub longest_one_way: Duration,
    /// Time of a packet in one direction behind a full queue that empties at the mean rate.
    #[serde(rename = "typical_one_way_ns", with = "nanos")]
    pub typical_one_way: Duration,
    /// Rate of the bottleneck towards the receiver; unlimited if absent.
    pub link_rate_bps: Option<u64>,
    /// Flow-control window of one flow, in bytes, the same for all drivers
    /// (`regatta_model::Condition::flow_control_window`); absent where the path has no rate.
    #[serde(default)]
    pub window_bytes: Option<u64>,
    /// Largest IP packet, in bytes.
    pub mtu_bytes: u32,
    /// Whether the path is a real network and not an emulated one: its MTU is then that of the kernel's routes.
    #[serde(rename = "is_as_it_is", default)]
    pub is_real_network: bool,
    /// Offset of this end's monotonic clock against the other's, in nanoseconds, which one-way delays are reduced by. 0
    /// where both ends read the same clock; elsewhere somewhat less than the offset, so that no delay is negative, and the
    /// controller corrects the delays afterwards. Absent if the offset is not known.
    pub clock_offset_ns: Option<i64>,
    /// Whether packets leave the path in the order in which they entered it. If so, nothing can
    /// follow an end marker, and a receiver need not wait after it.
    #[serde(default)]
    pub keeps_order: bool,
    /// Whether every packet of the idle path arrives, each after the same delay. If so, several probe messages may be
    /// under way at once, as none holds up another.
    #[serde(default)]
    pub treats_alike: bool,
    /// Settings of the hosts' kernels and sockets.
    #[serde(default)]
    pub tuning: Tuning,
    /// Whether the limits of TCP's autotuning are those that the study asks for, so that no socket goes beyond them.
    #[serde(default)]
    pub keeps_tcp_limits: bool,
}

impl PathHints {
    /// Returns the time after which a message without an answer is sent again for the first time: the time-out of RFC
    /// 6298 §2.2 for a first round trip as on the idle path, three times that, but no more than
    /// [`PathHints::longest_round_trip`] and at least 25 ms.
    #[must_use]
    pub fn first_timeout(&self) -> Duration {
        const LEAST: Duration = Duration::from_millis(25);
        let estimated = self.round_trip_delay.saturating_mul(3);
        estimated.min(self.longest_round_trip()).max(LEAST)
    }

    /// Returns the longest time that a packet and its answer can be under way, with 20 ms for the hosts to act.
    #[must_use]
    pub fn longest_round_trip(&self) -> Duration {
        self.round_trip_of(self.longest_one_way)
    }

    /// Returns the time of a packet and its answer through full queues that empty at their mean rates, with 20 ms for
    /// the hosts to act.
    #[must_use]
    pub fn typical_round_trip(&self) -> Duration {
        self.round_trip_of(self.typical_one_way)
    }

    fn round_trip_of(&self, one_way: Duration) -> Duration {
        const HOSTS: Duration = Duration::from_millis(20);
        let both = one_way.saturating_mul(2).max(self.round_trip_delay);
        both.saturating_add(HOSTS)
    }

    /// Returns the bandwidth-delay product, in bytes; `None` where the path has no rate.
    #[must_use]
    pub fn bandwidth_delay_product(&self) -> Option<u64> {
        let bit_nanoseconds = u128::from(self.link_rate_bps?) * self.round_trip_delay.as_nanos();
        Some(u64::try_from(bit_nanoseconds / 8_000_000_000).unwrap_or(u64::MAX))
    }
}

/// A certificate made for the run; the connecting end accepts this one and no other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsMaterial {
    /// The certificate, DER, base64.
    pub certificate_der_base64: String,
    /// Private key of the certificate, PKCS #8 DER, base64; only the listening end gets it.
    pub key_der_base64: Option<String>,
    /// Name in the certificate.
    pub server_name: String,
}

/// All that an end needs to know of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialOrder {
    /// Position in the plan.
    pub trial: u32,
    /// Role of this end.
    pub role: Role,
    /// Driver and options.
    pub transport: Transport,
    /// Workload of the trial.
    pub workload: Workload,
    /// 16 random bytes, hexadecimal: data flows of this trial open with it, others are refused.
    pub token: String,
    /// Seed of random data.
    pub seed: u64,
    /// Longest that the transfer may take, from the moment when its connection can carry data.
    #[serde(rename = "deadline_ns", with = "nanos")]
    pub deadline: Duration,
    /// Longest that a connection may take to be made.
    #[serde(rename = "connect_deadline_ns", with = "nanos")]
    pub connect_deadline: Duration,
    /// Time between samples.
    #[serde(rename = "sample_interval_ns", with = "nanos")]
    pub sample_interval: Duration,
    /// This end's address on the path.
    pub local: IpAddr,
    /// The other end's address on the path; nothing else is accepted.
    pub peer: IpAddr,
    /// Ports on which this end may listen; absent at the connecting end, and where any port will do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<PortRange>,
    /// Properties of the path.
    pub path: PathHints,
    /// Number of processors on which this end may run; all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// Whether the connecting end reports the beginning of its transfer with [`FromAgent::Began`],
    /// for a path that changes from then on.
    #[serde(rename = "tells_beginning", default)]
    pub reports_start: bool,
    /// Whether other transports use this end's interface at the same time, so that its counters tell nothing of this one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub beside_others: bool,
    /// Time between two messages [`FromAgent::Progress`] of this end; absent if nobody reads them.
    #[serde(
        rename = "progress_interval_ns",
        with = "optional_nanos",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub progress_interval: Option<Duration>,
    /// Certificate, and the key at the listening end, for transports that encrypt.
    pub tls: TlsMaterial,
    /// Directory on this end's host for files that the transport's options ask for, such as key
    /// logs; absent if nothing may be left there.
    #[serde(default)]
    pub files: Option<PathBuf>,
}

impl TrialOrder {
    /// Returns the longest time from the first connect call to the end of the transfer.
    #[must_use]
    pub fn longest_transfer(&self) -> Duration {
        self.connect_deadline.saturating_add(self.deadline)
    }

    /// Whether this end sends most of the payload. With the same bytes in both directions both ends do.
    #[must_use]
    pub fn sends_most(&self) -> bool {
        match &self.workload.kind {
            WorkloadKind::Script(_) => {
                (self.workload.kind.main_sender() == SentBy::Client) == self.connects()
            }
            _ => self.role == Role::Sender || self.workload.kind.direction() == Direction::Both,
        }
    }

    /// Whether this end connects; the other one listens.
    #[must_use]
    pub fn connects(&self) -> bool {
        self.role == Host::Client.role(&self.workload)
    }
}

/// Results of one end of a trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SideReport {
    /// Monotonic clock of this end at the first connect call (client) or the acceptance of the
    /// first flow (server), in nanoseconds.
    pub started_monotonic_ns: i64,
    /// Monotonic clock at the end of the transfer: arrival of the acknowledgement, or deadline.
    pub ended_monotonic_ns: i64,
    /// Times of the agent's own, where the other times of the report are those that an external program states.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_times: Option<AgentTimes>,
    /// Measurements of this end, with times of samples on its monotonic clock.
    #[serde(flatten)]
    pub measurements: Measurements,
}

/// Times at which an agent saw the events of an external program, on the agent's monotonic clock, in nanoseconds. They
/// bound the times that the program states: none can be later, and the connect call not earlier than its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentTimes {
    /// Order to connect, and arrival of the program's `connected`; absent at the listening end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connecting_ns: Option<[i64; 2]>,
    /// Arrival of the program's `done`, or the deadline.
    pub ended_ns: i64,
    /// Shortest time from a departure to its answer that the program states, of the workload's messages and of the
    /// probe's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortest_answer_ns: Option<i64>,
}

/// Counters of one end since the beginning of its transfer. Counts that the end or its stack does not keep are zero, or
/// absent where the field is optional.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Time since the beginning of the transfer, in nanoseconds.
    pub elapsed_ns: u64,
    /// Whether the transfer has ended at this end.
    pub has_ended: bool,
    /// Bytes that the application of this end got.
    pub bytes_delivered: u64,
    /// Answers to messages of the probe under load.
    pub probe_answers: u64,
    /// Sum of their delays, in nanoseconds.
    pub probe_delay_ns: u64,
    /// Packets that the stack of this end sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retransmitted_packets: Option<u64>,
    /// Congestion window of this end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion_window_bytes: Option<u64>,
    /// Smoothed round-trip time of this end's stack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smoothed_rtt_ns: Option<u64>,
    /// Bytes that this end sent and that are neither acknowledged nor lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_in_flight: Option<u64>,
    /// CPU time of this end's process; only differences between two messages mean something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ns: Option<u64>,
}

/// Messages from the controller to an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToAgent {
    /// First line.
    Hello {
        /// [`PROTOCOL_VERSION`] of the controller.
        protocol: u32,
        /// The run that this agent serves.
        run_id: String,
        /// `a` or `b`, for logs and errors.
        host: String,
        /// Whether the agent forks: a child process serves from this `hello` to the next.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        fork: bool,
    },
    /// Order to get ready for a trial; the agent answers [`FromAgent::Ready`] or [`FromAgent::Failed`].
    Prepare {
        /// Order of the trial.
        order: Box<TrialOrder>,
    },
    /// Order to the client, once both ends are ready, to connect.
    Start {
        /// Position in the plan.
        trial: u32,
        /// Address on which the server listens.
        peer: SocketAddr,
    },
    /// Note of the other end of this trial, passed on unread.
    Note {
        /// Position in the plan.
        trial: u32,
        /// The note, as in [`FromAgent::Note`].
        note: Note,
    },
    /// Order to end this trial now and report nothing; the agent answers [`FromAgent::Aborted`].
    Abort {
        /// Position in the plan.
        trial: u32,
    },
}

/// Messages between the two ends of a trial over control, passed on by the controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum Note {
    /// The sender has handed all to the transport, or was stopped by the deadline. The receiver
    /// stops waiting for what the path has lost.
    Sent {
        /// Messages handed to the transport.
        messages: u64,
        /// Bytes handed to the transport.
        bytes: u64,
        /// Whether the deadline stopped the sender.
        deadline_reached: bool,
    },
    /// A sender that the deadline stopped has nothing more to send on a flow: the first `messages` of
    /// its messages left it. The others waited in its transport, which has given them up.
    Left {
        /// Index of the flow.
        #[serde(default)]
        flow: u16,
        /// Number of messages that left.
        messages: u64,
    },
    /// The receiver will count no more. The sender may close.
    Received {
        /// Distinct messages delivered whole.
        messages: u64,
        /// Bytes delivered.
        bytes: u64,
    },
    /// The receiver of a transfer that the deadline stopped has waited for what was under way then.
    Arrived {
        /// Distinct messages of [`Note::Left`] that arrived whole, before the deadline and after
        /// it.
        messages: u64,
    },
    /// The connecting end has closed all its connections. The packets that say so may be lost, and are
    /// not sent again.
    Closed,
}

/// Messages from an agent to the controller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromAgent {
    /// Answer to [`ToAgent::Hello`].
    Hello {
        /// [`PROTOCOL_VERSION`] of the agent.
        protocol: u32,
        /// Version of Regatta.
        version: String,
        /// Process identifier on its host.
        pid: u32,
        /// This host's monotonic clock at the moment of writing, in nanoseconds.
        monotonic_ns: i64,
        /// Facts about the host.
        facts: HostFacts,
    },
    /// Ready for the trial.
    Ready {
        /// Position in the plan.
        trial: u32,
        /// Address on which the server listens; absent for the client.
        listen: Option<SocketAddr>,
        /// Protocol of its packets; absent where the driver does not know.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ip_protocol: Option<IpProtocol>,
    },
    /// Note for the other end of this trial, to be passed on.
    Note {
        /// Position in the plan.
        trial: u32,
        /// The note.
        note: Note,
    },
    /// The connecting end is about to make the first connect call, which starts the clock. Said
    /// only where the order asks for it.
    Began {
        /// Position in the plan.
        trial: u32,
    },
    /// Counters of the transfer under way, at the interval that the order asks for, and at its end.
    Progress {
        /// Position in the plan.
        trial: u32,
        /// Counters of this end.
        progress: Progress,
    },
    /// This end has completed its part of the trial.
    Finished {
        /// Position in the plan.
        trial: u32,
        /// Results of this end.
        report: Box<SideReport>,
    },
    /// This end has no report.
    Failed {
        /// Position in the plan.
        trial: u32,
        /// The reason.
        #[serde(flatten)]
        problem: Problem,
    },
    /// Answer to [`ToAgent::Abort`].
    Aborted {
        /// Position in the plan.
        trial: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The measurements of a report are keys of the report itself, as peers of this version send and
    /// read them.
    #[test]
    fn measurements_are_keys_of_the_report() {
        let text = r#"{"started_monotonic_ns":1,"ended_monotonic_ns":3,"metrics":{"bytes_sent":10.0},"series":[],"histograms":[],"facts":{},"warnings":[]}"#;
        let report: SideReport = serde_json::from_str(text).expect("a report");
        assert_eq!(report.measurements.metrics["bytes_sent"], 10.0);
        assert_eq!(serde_json::to_string(&report).expect("JSON"), text);
    }

    /// A queue or a trace that can hold a packet for seconds makes no message wait that long to be sent again.
    #[test]
    fn the_first_timeout_is_that_of_the_idle_path() {
        let path = |round_trip_ms, longest_one_way_ms| PathHints {
            round_trip_delay: Duration::from_millis(round_trip_ms),
            longest_one_way: Duration::from_millis(longest_one_way_ms),
            typical_one_way: Duration::from_millis(longest_one_way_ms),
            link_rate_bps: None,
            window_bytes: None,
            mtu_bytes: 1500,
            is_real_network: false,
            clock_offset_ns: None,
            keeps_order: true,
            treats_alike: true,
            tuning: Tuning::default(),
            keeps_tcp_limits: false,
        };
        assert_eq!(
            path(100, 21_000).first_timeout(),
            Duration::from_millis(300)
        );
        // No packet takes longer than this.
        assert_eq!(path(100, 50).first_timeout(), Duration::from_millis(120));
        assert_eq!(path(0, 0).first_timeout(), Duration::from_millis(25));
    }
}
