//! Messages between the controller and the path daemon: JSON lines, one answer to each request.

use std::net::IpAddr;

use regatta_control::Host;
use regatta_forwarder::{CaptureOrder, CompetingFlow, LinkCounters};
use regatta_model::{
    Condition, Emulator, LossBy, Offloads, PathSetup, Phrase, Placement, PortRange, Problem, phrase,
};
use serde::{Deserialize, Serialize};

/// Version of these messages. Both ends are the same binary in `regatta`; a difference means that a
/// bed was made with another binary.
pub const DAEMON_PROTOCOL_VERSION: u32 = 14;

/// Requests of the controller, with the types of their results; `()` where none is named.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToDaemon {
    /// First line: make the namespaces and the path ([`HelloReply`]).
    Hello {
        /// [`DAEMON_PROTOCOL_VERSION`] of the controller.
        protocol: u32,
        /// Name of the run.
        run_id: String,
        /// Emulator, and how it is set up.
        path: PathSetup,
        /// The one end that this daemon has; `None` for a daemon of the whole path.
        end: Option<End>,
    },
    /// Empty the path, reset the counters and set this condition.
    SetCondition {
        /// The condition.
        condition: Condition,
        /// Seed of losses and of all else that is drawn.
        seed: u64,
    },
    /// Begin the condition's schedule and its traces, as the transfer starts now.
    Begin,
    /// Tell these flows apart until the next condition is set.
    SetFlows {
        /// The flows.
        flows: Vec<CompetingFlow>,
    },
    /// Send the counters of each flow (`Vec<FlowCounters>`; none where the path does not tell them apart).
    FlowCounters,
    /// Send the counters since the condition was set ([`PathCounters`]).
    Counters,
    /// Do not sample the queues until the next condition is set.
    StopSampling,
    /// Capture every packet from now on; an earlier capture is ended.
    StartCapture {
        /// File of the capture, and what it keeps of each packet.
        order: CaptureOrder,
    },
    /// End the capture and send its summary (`Option<CaptureSummary>`; `None` if there was no capture).
    EndCapture,
    /// Measure the path under this condition (`PathCheck`).
    Check {
        /// The condition.
        condition: Condition,
    },
    /// Serve a request of a check that two daemons make together, each at its own end.
    Probe {
        /// The request.
        probe: Probe,
    },
}

/// End of a path whose other end is in another kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Host at this end.
    pub host: Host,
    /// Addresses of hosts a and b on the path.
    pub addresses: [IpAddr; 2],
    /// Way in which the path is shaped at this end.
    pub shaping: Shaping,
}

/// Way in which the path to another kernel is shaped at a host. Both hosts of a bed have the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Shaping {
    /// The network is used as it is.
    None,
    /// By netem on an interface that leads to the other host and to nothing else. It becomes the host's own.
    Wire {
        /// Its name in the first network namespace.
        name: String,
    },
    /// By netem on a macvlan, in a network namespace of its own. The kernel removes it with the path daemon; the host's
    /// interface is not changed.
    Macvlan {
        /// Interface of the host on top of which it is.
        parent: String,
        /// Length of the prefix of the address.
        prefix: u8,
    },
    /// By netem on an interface of the host, for packets to the other host and no others.
    Interface {
        /// Name of the interface.
        name: String,
        /// Ports of the SSH servers of both hosts: TCP from and to them is not shaped.
        ssh_ports: Vec<u16>,
    },
}

/// Placement of the hosts of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostPlacement {
    /// Both on this machine.
    OneMachine,
    /// Each in a guest.
    TwoGuests,
    /// Two machines, on a macvlan each or on the network as it is.
    TwoMachines,
    /// Two machines, on interfaces of their own.
    TwoInterfaces,
}

/// Requests to one end in a check of the path, with the types of their results; `()` where none is named.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Probe {
    /// Open a socket for a check under a condition and send its port, which is one of `ports` (`u16`). Without a
    /// condition the socket is for the time alone.
    Open {
        /// Ports of which the socket gets one; `None` for any.
        ports: Option<PortRange>,
        /// Condition of the check.
        condition: Option<Box<Condition>>,
    },
    /// Connect to the other end's socket, which has this port.
    Connect {
        /// UDP port of the other end.
        port: u16,
    },
    /// Make round trips, `most` of them at most, and send their delays in nanoseconds, without transmission and the
    /// other end's own time (`Vec<f64>`).
    RoundTrips {
        /// Limit on their number.
        most: u64,
    },
    /// Send back the packets of these round trips.
    Return {
        /// Limit on their number, as in [`Probe::RoundTrips`].
        most: u64,
    },
    /// Send the train of packets of a direction and the time at which each was sent, by this end's clock
    /// (`Vec<u64>`).
    Send {
        /// 0 forward, 1 reverse.
        direction: usize,
    },
    /// Send the arrivals of the train of a direction: position in the train, and time by this end's clock
    /// (`Vec<(u64, u64)>`).
    Receive {
        /// 0 forward, 1 reverse.
        direction: usize,
    },
    /// Send the train of the direction that begins at this end, its departures, and the arrivals of the other one
    /// ([`TrainResult`]).
    SendAndReceive,
    /// Ask the other end for the time of its monotonic clock, several times: departure and arrival here, and the time
    /// there in between (`Vec<[i64; 3]>`).
    #[serde(rename = "ask_time")]
    MeasureClock,
    /// Answer such questions.
    #[serde(rename = "tell_time")]
    AnswerClock,
    /// End the check and send the evidence that this machine disturbed it, if there is some (`Option<Phrase>`).
    Close,
}

/// Packets of a train.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TrainResult {
    /// Time at which each packet was sent, in nanoseconds since the Unix epoch.
    pub departures: Vec<u64>,
    /// Position in the train and time of each that arrived, by the receiver's clock.
    pub arrivals: Vec<(u64, u64)>,
}

/// Answer of the daemon: the result of the request, whose type depends on the request, or a failure.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Answer<T> {
    /// The request is done.
    Done {
        /// Result of the type that the request names.
        result: T,
    },
    /// The request could not be served.
    Failed(Problem),
}

/// Result of [`ToDaemon::Hello`]: the namespaces exist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HelloReply {
    /// [`DAEMON_PROTOCOL_VERSION`] of the daemon.
    pub protocol: u32,
    /// Whether the namespaces belong to a user namespace of the daemon's own.
    pub user_namespace: bool,
    /// File descriptors of the daemon that hold the network namespaces of its hosts.
    pub namespaces: Vec<i32>,
    /// The path as it was set up.
    pub path: PathForm,
}

/// Emulator of a path as it was set up: the choices that a request may leave open are made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathForm {
    /// Settings as they were chosen: the emulator is never [`Emulator::Auto`].
    pub setup: PathSetup,
    /// Release of the kernel whose netem it is; empty for the user-space emulator.
    pub kernel: String,
    /// Whether the same seed gives the same losses.
    pub seeded: bool,
    /// Whether the path is a network as it is, without an emulator.
    pub is_real: bool,
}

impl PathForm {
    /// Returns a description of the emulator for people.
    #[must_use]
    pub fn description(&self, hosts: HostPlacement) -> Phrase {
        let is_one = hosts == HostPlacement::OneMachine;
        let setup = self.setup;
        let with_offloads = |layout| match setup.offloads {
            Offloads::On if is_one => phrase::offloads_on(layout),
            _ => layout,
        };
        match setup.emulator {
            Emulator::None if is_one => return with_offloads(phrase::direct_link()),
            Emulator::Loopback => return with_offloads(phrase::loopback()),
            _ => {}
        }
        if self.is_real {
            return phrase::network_of_hosts();
        }
        if setup.emulator == Emulator::Userspace {
            return phrase::userspace_emulator();
        }
        let mut layout = match (hosts, setup.placement) {
            (HostPlacement::OneMachine, Placement::Between) => phrase::netem_between_hosts(),
            (HostPlacement::OneMachine, Placement::Ends) => phrase::netem_on_both_ends(),
            (HostPlacement::TwoGuests, _) => phrase::netem_on_guests(),
            (HostPlacement::TwoMachines, _) => phrase::netem_on_macvlans(),
            (HostPlacement::TwoInterfaces, _) => phrase::netem_on_interfaces(),
        };
        if !(is_one && setup.placement == Placement::Between) {
            layout = phrase::where_small_queues_meet_it(layout);
        }
        if setup.loss_by == LossBy::Iptables && is_one {
            layout = phrase::loss_by_iptables(layout);
        }
        let seeds = match self.seeded {
            true => phrase::seeded(),
            false => phrase::not_seeded(),
        };
        phrase::netem(with_offloads(layout), &self.kernel, seeds)
    }
}

/// Counters of both directions of the path since its condition was set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct PathCounters {
    /// Direction from host a to host b.
    pub forward: LinkCounters,
    /// Direction from host b to host a.
    pub reverse: LinkCounters,
    /// CPU time of the daemon, all threads, user and system, in nanoseconds.
    ///
    /// The kernel's work on arriving packets runs on the thread that delivers them, so part of the
    /// receiving host's network stack is in this figure.
    pub cpu_ns: u64,
}
