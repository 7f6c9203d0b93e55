//! Messages between the controller and the path daemon: JSON lines, one answer to each request.

use std::{
    io::{self, Write},
    net::IpAddr,
};

use regatta_control::Host;
use regatta_model::{
    Condition, Emulator, LossBy, Offloads, PathCheck, PathSetup, Placement, PortRange,
};
use serde::{Deserialize, Serialize};

use crate::capture::{CaptureOrder, CaptureSummary};

/// Version of these messages. Both ends are the same binary in `regatta`; a difference means that a
/// bed was made with another binary.
pub(crate) const DAEMON_PROTOCOL_VERSION: u32 = 9;

/// Writes a message as one line of JSON.
///
/// # Errors
/// Errors of writing.
pub fn write_line(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

/// Requests of the controller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ToDaemon {
    /// First line: make the namespaces and the path.
    Hello {
        protocol: u32,
        run_id: String,
        path: PathSetup,
        /// The one end that this daemon has; `None` for a daemon of the whole path.
        #[serde(default)]
        end: Option<End>,
    },
    /// Empty the path, reset the counters and set this condition.
    SetCondition { condition: Condition, seed: u64 },
    /// Begin the condition's schedule and its traces, as the transfer starts now.
    Begin,
    /// Send the counters since the condition was set.
    Counters,
    /// Capture every packet from now on; an earlier capture is ended.
    StartCapture { order: CaptureOrder },
    /// End the capture and send its summary.
    EndCapture,
    /// Measure the path under this condition.
    Check { condition: Condition },
    /// Serve a request of a check that two daemons make together, each at its own end.
    Probe { probe: Probe },
}

/// End of a path whose other end is in another kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct End {
    /// Host at this end.
    pub(crate) host: Host,
    /// Addresses of hosts a and b on the path.
    pub(crate) addresses: [IpAddr; 2],
    pub(crate) attach: Attach,
}

/// Way in which a host is attached to a path that leads to another kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Attach {
    /// Interface that leads to the other end and to nothing else, by its name in the first network
    /// namespace. It becomes the host's own.
    Wire { name: String },
    /// The host's network as it is, without impairment.
    AsIs,
    /// Interface of its own on top of one of the host's, in a network namespace of its own. The kernel removes it
    /// with the daemon; the host's interface is not changed.
    Macvlan {
        /// Interface of the host.
        parent: String,
        /// Length of the prefix of the end's address.
        prefix: u8,
    },
    /// One of the host's interfaces, of which the packets to the other host are shaped and no others.
    Interface {
        /// Its name.
        name: String,
        /// Ports of the SSH servers, whose packets are not shaped.
        ssh_ports: Vec<u16>,
    },
}

/// Where the hosts of a path are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostPlacement {
    OneMachine,
    TwoGuests,
    TwoMachines,
    /// Two machines, on interfaces of their own.
    TwoInterfaces,
}

/// Requests to one end in a check of the path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Probe {
    /// Open a socket and send its port, which is one of `ports`.
    Open { ports: Option<PortRange> },
    /// Connect to the other end's socket, which has this port.
    Connect { port: u16 },
    /// Make round trips, at most so many.
    RoundTrips { condition: Condition, most: u64 },
    /// Send back the packets that arrive of as many.
    Return { condition: Condition, most: u64 },
    /// Send the train of packets of a direction, 0 forward.
    Send {
        condition: Condition,
        direction: usize,
    },
    /// Send the arrivals of the train of a direction.
    Receive {
        condition: Condition,
        direction: usize,
    },
    /// Send the train of the direction that begins at this end, and the arrivals of the other one.
    SendAndReceive { condition: Condition },
    /// Ask the other end for the time of its monotonic clock, several times.
    AskTime,
    /// Answer such questions.
    TellTime,
    /// End the check and report whether this machine disturbed it.
    Close,
}

/// Answers of the daemon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum FromDaemon {
    /// Answer to [`ToDaemon::Hello`]: the namespaces exist.
    Up {
        protocol: u32,
        /// Whether the namespaces belong to a user namespace of the daemon's own.
        user_namespace: bool,
        /// File descriptors of the daemon that hold the network namespaces of its hosts.
        namespaces: Vec<i32>,
        path: PathForm,
    },
    /// The condition is set.
    Set,
    /// The schedule has begun.
    Begun,
    /// The counters.
    Counters { counters: Box<PathCounters> },
    /// Packets are captured.
    Capturing,
    /// Summary of the capture; `None` if there was no capture.
    Captured { summary: Option<CaptureSummary> },
    /// Result of the path check.
    Checked { check: PathCheck },
    /// A socket for a check is open.
    Opened { port: u16 },
    /// A request of a check that has no result is done.
    Probed,
    /// Round-trip delays in nanoseconds, without transmission and the far end's own time.
    RoundTrips { delays_ns: Vec<f64> },
    /// Time at which each packet of a train was sent, by this end's clock.
    Sent { departures: Vec<u64> },
    /// Packets of a train that arrived: place in the train, and time by this end's clock.
    Train { arrivals: Vec<(u64, u64)> },
    /// Both of these of an end that has sent its train and received the other end's.
    SentAndReceived {
        departures: Vec<u64>,
        arrivals: Vec<(u64, u64)>,
    },
    /// Exchanges of the time with the other end: departure and arrival here, and the time there in between.
    Times { exchanges: Vec<[i64; 3]> },
    /// A check is over; evidence that this end's machine disturbed it, if there is some.
    Closed { spoiled: Option<String> },
    /// The request could not be served.
    Failed {
        /// The causes, outermost first.
        reasons: Vec<String>,
        /// Command or setting that helps; may be empty.
        hint: String,
    },
}

/// Emulator of a path as it was set up: the choices that a request may leave open are made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PathForm {
    /// Emulator of the path, never [`Emulator::Auto`].
    pub(crate) emulator: Emulator,
    pub(crate) placement: Placement,
    pub(crate) loss_by: LossBy,
    pub(crate) offloads: Offloads,
    /// Release of the kernel whose netem it is; empty for the user-space emulator.
    pub(crate) kernel: String,
    /// Whether the same seed gives the same losses.
    pub(crate) seeded: bool,
    /// Whether the path is a network as it is, without an emulator.
    #[serde(default)]
    pub(crate) is_real: bool,
}

impl PathForm {
    /// Returns the form in words.
    pub(crate) fn in_words(&self, hosts: HostPlacement) -> String {
        let is_one = hosts == HostPlacement::OneMachine;
        if self.emulator == Emulator::None && is_one {
            let offloads = match self.offloads {
                Offloads::On => ", offloads on",
                Offloads::Off => "",
            };
            return format!("netns, direct link{offloads}");
        }
        if self.is_real {
            return "hosts, path as it is".to_owned();
        }
        if self.emulator == Emulator::Userspace {
            return "netns, user-space emulator".to_owned();
        }
        let place = match (hosts, self.placement) {
            (HostPlacement::TwoGuests, _) => {
                "two guests, netem on both ends, where TCP's small queues meet it"
            }
            (HostPlacement::TwoMachines, _) => {
                "hosts, netem on a macvlan at both ends, where TCP's small queues meet it"
            }
            (HostPlacement::TwoInterfaces, _) => {
                "hosts, netem on an interface of both, where TCP's small queues meet it"
            }
            (HostPlacement::OneMachine, Placement::Between) => "netns, netem between the hosts",
            (HostPlacement::OneMachine, Placement::Ends) => {
                "netns, netem on both ends, where TCP's small queues meet it"
            }
        };
        let loss = match self.loss_by {
            LossBy::Iptables if is_one => ", loss by iptables",
            _ => "",
        };
        let offloads = match self.offloads {
            Offloads::On if is_one => ", offloads on",
            _ => "",
        };
        let seeded = if self.seeded { "seeded" } else { "not seeded" };
        format!("{place}{loss}{offloads} (Linux {}, {seeded})", self.kernel)
    }
}

/// Counters of one direction that this emulator cannot provide.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnsupportedCounters {
    /// Packets that entered: with offloads on some counters count packets of the wire and others
    /// the larger packets that the host hands over at once.
    #[serde(default)]
    pub offered: bool,
    /// Packets that found the queue full: they are among those lost at random.
    #[serde(default)]
    pub queue_drops: bool,
    /// Packets lost in bursts: they are among those lost at random.
    pub burst_drops: bool,
    /// Packets of which a bit was flipped.
    pub corrupted: bool,
    /// Packets that were sent on twice: they are among those offered.
    pub duplicated: bool,
    /// Most bytes in the queue.
    pub queue_max_bytes: bool,
    /// Lateness of the packets that left.
    pub lateness: bool,
}

/// Counters of one direction of the path since its condition was set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkCounters {
    /// Packets that entered the path.
    pub offered: u64,
    /// Packets that left the path.
    pub delivered: u64,
    /// Packets lost at random, each on its own. Where netem loses packets both so and in bursts,
    /// all are counted here; so are, at the ends with a rate and a loss, those that found the queue
    /// full ([`UnsupportedCounters::queue_drops`]).
    pub loss_drops: u64,
    /// Packets lost in bursts.
    #[serde(default)]
    pub burst_drops: u64,
    /// Packets lost because the condition names them.
    #[serde(default)]
    pub list_drops: u64,
    /// Packets that found the bottleneck's queue full.
    pub queue_drops: u64,
    /// Packets that the queue's discipline (CoDel) dropped.
    #[serde(default)]
    pub codel_drops: u64,
    /// Packets larger than the path's largest.
    pub mtu_drops: u64,
    /// Packets that never reached the path or its far end: the sending host's device was full
    /// because the emulator did not keep up, or the receiving host's device refused them. They are
    /// no part of the asked condition.
    pub refused_drops: u64,
    /// Packets of which a bit was flipped.
    #[serde(default)]
    pub corrupted: u64,
    /// Packets that were duplicated: delivered once more than they were offered.
    #[serde(default)]
    pub duplicated: u64,
    /// Packets that skipped the propagation delay.
    #[serde(default)]
    pub reordered: u64,
    /// Most bytes that waited for the bottleneck at one moment. With netem the most that was
    /// sampled every 20 ms, or the limit of a queue that overflowed.
    pub queue_max_bytes: u64,
    /// Packets delivered later after they were due than [`Condition::late_after`].
    pub late_packets: u64,
    /// Upper bound of the mean time between a packet's being due and its delivery, in nanoseconds.
    /// It is a bound because the time that a packet waited in the sending host's device before the
    /// emulator read it is bounded, not known. That time counts by what it delays the bottleneck;
    /// without a bottleneck the device is the path's queue.
    pub lateness_mean_ns: f64,
    /// Longest time between a packet's being due and its delivery, in nanoseconds; an upper bound,
    /// too.
    pub lateness_max_ns: u64,
    /// Counters that are 0 only because this emulator cannot provide them.
    #[serde(default)]
    pub unsupported: UnsupportedCounters,
}

impl LinkCounters {
    /// Returns the packets lost on the wire, for whatever cause: at random, in bursts, by list.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.loss_drops + self.burst_drops + self.list_drops
    }

    /// Returns the packets that were dropped, for whatever cause.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.lost() + self.queue_drops + self.codel_drops + self.mtu_drops + self.refused_drops
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
