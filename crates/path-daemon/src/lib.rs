//! Daemon that owns the path: namespaces, the path in one of its two forms, counters, path check.
//!
//! It serves one controller over its standard input and output and ends with it. [`messages`] are what they exchange; the
//! controller's side is the crate of the bed.

mod attributes;
pub mod check;
mod error;
pub mod messages;
mod namespaces;
mod netem;
mod netlink;
mod qdisc;
mod real;
mod tun;
mod userspace;

use std::{
    io::{self, BufRead},
    net::{IpAddr, Ipv4Addr},
    os::fd::AsRawFd,
    process::ExitCode,
    thread::{self, JoinHandle},
};

use check::{LossPosition, PauseWatch};
pub use error::{
    DaemonError, InterfaceError, OTHER_ADDRESS, Refusal, USE_KERNEL, USE_OTHER_EMULATOR,
};
use messages::{
    Answer, DAEMON_PROTOCOL_VERSION, End, HelloReply, PathCounters, PathForm, Probe, Shaping,
    ToDaemon,
};
use namespaces::Namespace;
pub use namespaces::enter_user_namespace;
use netem::{Chain, NetemPath};
pub use netem::{
    INTERFACE_GUARD_COMMAND, ShapedInterface, interface_guard_main, shaped_interfaces,
};
pub use netem::{refusal, wire_up};
pub use netlink::loopback_up;
use real::RealPath;
use regatta_control::Host;
use regatta_forwarder::{
    CaptureOrder, CaptureSummary, CompetingFlow, FlowCounters, ForwarderError, LinkCounters, clock,
};
use regatta_model::{Condition, Emulator, HostTuning, Offloads, PathCheck, PathSetup, Text};
use regatta_process::{die_with_parent, write_line};
use serde::Serialize;
use serde_json::Value;
use userspace::UserspacePath;

/// Hidden subcommand of `regatta` that is the path daemon.
pub const COMMAND: &str = "path-daemon";

/// Addresses of the two hosts on the path, a and b, on one /30.
pub const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 60, 0, 1), Ipv4Addr::new(10, 60, 0, 2)];

/// Returns a host's second address on the path, for transports that use several: the same in the
/// next /24.
fn second(address: Ipv4Addr) -> Ipv4Addr {
    let [a, b, c, d] = address.octets();
    Ipv4Addr::new(a, b, c.wrapping_add(1), d)
}

/// Serves the controller until the end of standard input. The body of `regatta path-daemon`; the
/// process must have no other thread yet.
#[must_use]
pub fn main() -> ExitCode {
    // It is started from an open file, whose number would be its name in lists of processes.
    regatta_process::set_name(c"regatta");
    let mut daemon = None;
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let answer = match serve(&mut daemon, &line) {
            Ok(result) => Answer::Done { result },
            Err(error) => Answer::Failed(error.problem()),
        };
        if write_line(&mut io::stdout().lock(), &answer).is_err() {
            break;
        }
    }
    // A capture that goes on gets its end; a failure cannot be reported any more.
    if let Some(daemon) = &mut daemon {
        let _ = daemon.path.end_capture();
        daemon.path.end();
    }
    // Not by returning: the forwarding thread need not end first, and the devices and namespaces
    // end with the process.
    ExitCode::SUCCESS
}

/// Converts a result for the controller.
fn json(result: impl Serialize) -> Value {
    serde_json::to_value(result).expect("results are plain data")
}

fn serve(daemon: &mut Option<Daemon>, line: &str) -> Result<Value, DaemonError> {
    let request = serde_json::from_str(line).map_err(|source| DaemonError::Request {
        line: line.to_owned(),
        source,
    })?;
    let wrong_time = || DaemonError::Order {
        line: line.to_owned(),
    };
    match (request, daemon.as_mut()) {
        (
            ToDaemon::Hello {
                protocol: theirs,
                run_id,
                path,
                end,
            },
            None,
        ) => {
            let ours = DAEMON_PROTOCOL_VERSION;
            if theirs != ours {
                return Err(DaemonError::Version { theirs, ours });
            }
            let started = Daemon::up(&run_id, path, end)?;
            Ok(json(daemon.insert(started).hello_reply()))
        }
        (ToDaemon::SetCondition { condition, seed }, Some(daemon)) => {
            daemon.set(&condition.with_kernel_queues(), seed).map(json)
        }
        (ToDaemon::Begin, Some(daemon)) => daemon.path.begin().map(json),
        (ToDaemon::SetFlows { flows }, Some(daemon)) => daemon.path.set_flows(&flows).map(json),
        (ToDaemon::FlowCounters, Some(daemon)) => daemon.path.flow_counters().map(json),
        (ToDaemon::Counters, Some(daemon)) => daemon.counters().map(json),
        (ToDaemon::StopSampling, Some(daemon)) => {
            daemon.path.stop_sampling();
            Ok(json(()))
        }
        (ToDaemon::StartCapture { order }, Some(daemon)) => {
            daemon.path.start_capture(order).map(json)
        }
        (ToDaemon::EndCapture, Some(daemon)) => daemon.path.end_capture().map(json),
        (ToDaemon::Check { condition }, Some(daemon)) => {
            daemon.check(&condition.with_kernel_queues()).map(json)
        }
        (ToDaemon::Probe { probe }, Some(daemon)) => {
            let [host] = daemon.path.hosts()[..] else {
                return Err(wrong_time());
            };
            if let Probe::Close = probe {
                let links = daemon.path.counters()?;
                return Ok(json(daemon.part.close(&links)));
            }
            let losses = LossPosition::of(&daemon.path.form());
            daemon.part.serve(probe, losses, host)
        }
        (ToDaemon::Hello { .. }, Some(_)) | (_, None) => Err(wrong_time()),
    }
}

/// Path between the hosts, or one end of it.
trait Path {
    fn form(&self) -> PathForm;

    /// Returns the namespaces of the hosts: one, or both.
    fn hosts(&self) -> Vec<&Namespace>;

    /// Sets the path to a condition: empty queues, counters at zero.
    fn set(&mut self, condition: &Condition, seed: u64) -> Result<(), DaemonError>;

    /// Begins the condition's schedule.
    fn begin(&mut self) -> Result<(), DaemonError> {
        Ok(())
    }

    /// Captures every packet from now on.
    fn start_capture(&mut self, _order: CaptureOrder) -> Result<(), DaemonError> {
        Err(DaemonError::NotCaptured)
    }

    /// Ends the capture and returns its summary; `None` if no capture was started.
    fn end_capture(&mut self) -> Result<Option<CaptureSummary>, DaemonError> {
        Ok(None)
    }

    /// Returns the counters of both directions since the condition was set.
    fn counters(&mut self) -> Result<[LinkCounters; 2], DaemonError> {
        Ok(Default::default())
    }

    /// Tells these flows apart until the next condition is set. A path that cannot is the same for all.
    fn set_flows(&mut self, _flows: &[CompetingFlow]) -> Result<(), DaemonError> {
        Ok(())
    }

    /// Returns the counters of each flow; none where the path does not tell them apart.
    fn flow_counters(&mut self) -> Result<Vec<FlowCounters>, DaemonError> {
        Ok(Vec::new())
    }

    /// Ends the sampling of the queues until the next condition is set.
    fn stop_sampling(&mut self) {}

    /// Restores what the path has changed of the host and does not end with this process.
    fn end(&mut self) {}
}

/// Sets up netem where it is requested, or where the choice is free and the kernel has it; otherwise
/// the user-space emulator.
fn path(setup: PathSetup, end: Option<&End>, run: u64) -> Result<Box<dyn Path>, DaemonError> {
    let network = |link, emulator, offloads| -> Result<Box<dyn Path>, DaemonError> {
        let setup = PathSetup {
            emulator,
            offloads,
            ..PathSetup::default()
        };
        Ok(Box::new(RealPath { link, setup }))
    };
    if end.is_some_and(|end| end.shaping == Shaping::None) {
        return network(Chain::own()?, Emulator::None, Offloads::On);
    }
    if end.is_none() && setup.emulator.is_absent() {
        return network(Chain::lay(setup)?, setup.emulator, setup.offloads);
    }
    if end.is_none() && setup.emulator == Emulator::Userspace {
        return Ok(Box::new(UserspacePath::up()?));
    }
    match NetemPath::up(setup, end, run) {
        Ok(path) => Ok(Box::new(path)),
        Err(DaemonError::NoNetem { .. }) if end.is_none() && setup.needs_netem().is_none() => {
            Ok(Box::new(UserspacePath::up()?))
        }
        Err(error) => Err(error),
    }
}

struct Daemon {
    user_namespace: bool,
    path: Box<dyn Path>,
    /// State of this end in a check of the path.
    part: check::Part,
    cpu_before_ns: u64,
    /// Seed derived from the run's name: each run, and each check in it, draws other losses.
    seed: u64,
    checks: u64,
    /// Tuning of the hosts' namespaces, which begin with the bench's.
    tuning: HostTuning,
}

impl Daemon {
    fn up(run_id: &str, setup: PathSetup, end: Option<End>) -> Result<Self, DaemonError> {
        // An end on another machine is attached to that machine's own network.
        let is_own = end
            .as_ref()
            .is_none_or(|end| matches!(end.shaping, Shaping::Wire { .. }));
        let user_namespace = is_own && enter_user_namespace()?;
        // Entering a user namespace undid the earlier call.
        let _ = die_with_parent();
        let path = path(setup, end.as_ref(), fingerprint(run_id))?;
        let (host, addresses) = end.map_or((Host::Client, ADDRESSES.map(IpAddr::from)), |end| {
            (end.host, end.addresses)
        });
        Ok(Self {
            user_namespace,
            path,
            part: check::Part::new(host, addresses),
            cpu_before_ns: 0,
            seed: fingerprint(run_id),
            checks: 0,
            tuning: HostTuning::default(),
        })
    }

    fn hello_reply(&self) -> HelloReply {
        let namespaces = self.path.hosts().into_iter();
        let files = namespaces.map(|namespace| namespace.file().as_raw_fd());
        HelloReply {
            protocol: DAEMON_PROTOCOL_VERSION,
            user_namespace: self.user_namespace,
            namespaces: files.collect(),
            path: self.path.form(),
        }
    }

    fn set(&mut self, condition: &Condition, seed: u64) -> Result<(), DaemonError> {
        if self.tuning != condition.tuning {
            for host in self.path.hosts() {
                host.tune(&condition.tuning)?;
            }
            self.tuning = condition.tuning.clone();
        }
        self.path.set(condition, seed)?;
        self.cpu_before_ns = clock::process_cpu_ns();
        Ok(())
    }

    fn check(&mut self, condition: &Condition) -> Result<PathCheck, DaemonError> {
        self.checks += 1;
        self.set(condition, self.seed.wrapping_add(self.checks))?;
        let losses = LossPosition::of(&self.path.form());
        let [a, b] = self.path.hosts()[..] else {
            // The controller has the two ends make it together.
            return Err(DaemonError::OneEnd);
        };
        let pauses = PauseWatch::start()?;
        let mut check = check::run(condition, losses, [a, b], ADDRESSES)?;
        // A disturbance widens what is found; what is within its tolerance all the same is sound.
        let evidence = pauses.finish(&self.path.counters()?);
        check.spoiled = evidence.filter(|_| !check.within).map(Text::from);
        Ok(check)
    }

    fn counters(&mut self) -> Result<PathCounters, DaemonError> {
        let [forward, reverse] = self.path.counters()?;
        Ok(PathCounters {
            forward,
            reverse,
            cpu_ns: clock::process_cpu_ns().saturating_sub(self.cpu_before_ns),
        })
    }
}

/// Returns the release of this kernel; empty if it is not known.
pub fn kernel_release() -> String {
    let names = nix::sys::utsname::uname().ok();
    let release = names.map(|names| names.release().to_string_lossy().into_owned());
    release.unwrap_or_default()
}

/// Starts a thread of the path's.
fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, DaemonError> {
    let thread = thread::Builder::new().name(name.to_owned());
    Ok(thread.spawn(work).map_err(ForwarderError::Thread)?)
}

/// Returns the FNV-1a hash of a text.
pub fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
