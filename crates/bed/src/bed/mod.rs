//! The controller's side of a bed.

mod ends;
mod two_ends;

use std::{fs::File, net::IpAddr, path::Path, time::Duration};

use nix::sched::CloneFlags;
use regatta_control::Host;
use regatta_forwarder::{CompetingFlow, FlowCounters};
use regatta_model::{
    BedKind, Condition, Emulator, PathCheck, PathSetup, Placement, PortRange, Problem, ProblemKind,
    Text, reason,
};
use regatta_path_daemon::{
    ADDRESSES, USE_KERNEL, USE_OTHER_EMULATOR, check, fingerprint,
    messages::{End, HostPlacement, PathCounters, PathForm, ToDaemon},
};
use regatta_process::{OnStop, StopRequest};
use regatta_stats::clocks::OffsetReading;
use serde::de::DeserializeOwned;

use self::ends::StartingEnd;
use crate::{
    capture::{CaptureOrder, CaptureSummary},
    clocks::HostClocks,
    daemon_process::{DaemonProcess, OnDaemonEnd},
    error::BedError,
    guest::PATH_WIRE,
    hosts::{self, HostEnd, Shaping},
    launch::{self, AGENT, Errors, Launched, Launcher, Local},
    program::{Program, ProgramOrder},
    second_guest,
    test_bed::TestBed,
};

/// Command of the process that samples a host.
pub const HOST_MONITOR: &str = "host-monitor";

/// Longest time that the daemon may take for a request other than a path check.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest time that writing the rest of a capture may take, on a slow disk.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// Longest time that a path check may take beside twice its estimate.
const CHECK_TIMEOUT: Duration = Duration::from_secs(60);

/// Hint for a condition that cannot be had between two machines.
const OTHER_CONDITION: &str = "change the condition, or run the study with `--bed netns`";

/// Two hosts and the path between them.
///
/// Dropping the bed ends it. The daemons and the agents also end with the *thread* that started
/// them, since the kernel ties a process to the thread of its parent: make the bed and call
/// [`TestBed::spawn_agent`] on a thread that lives as long as the run.
#[derive(Debug)]
pub struct Bed {
    /// Launchers of hosts a and b.
    hosts: [Box<dyn Launcher>; 2],
    /// One daemon of the whole path, or one of each end: that of host a first.
    daemons: Vec<DaemonProcess>,
    path: PathForm,
    /// Addresses of hosts a and b on the path.
    addresses: [IpAddr; 2],
    /// Hosts of the bed `hosts`, to reach them again.
    remote: Option<Remote>,
    /// Seed of path checks that the controller carries out.
    seed: u64,
    checks: u64,
    /// Stop that ends path checks.
    stop: StopRequest,
    on_daemon_end: Option<OnDaemonEnd>,
    /// First check of a path that is used as it is, with which later ones are compared.
    pub(crate) first_check: Option<PathCheck>,
}

/// Hosts of the bed `hosts`, and the order for their path daemons.
#[derive(Debug)]
struct Remote {
    ends: [HostEnd; 2],
    path: PathSetup,
    run_id: String,
}

impl Bed {
    /// Makes a bed of two network namespaces of this machine: starts `executable path-daemon` and
    /// waits until its namespaces exist. The file is held open: the agents are started from it, even
    /// if its name does not exist by then or is that of another program.
    ///
    /// Where the emulator is free to choose, netem is not chosen for conditions of which it cannot
    /// emulate one; conditions that are set later must be among those given here, or they may be
    /// refused.
    ///
    /// # Errors
    /// [`BedError::Refused`] with a hint where this machine or user lacks what it takes; the others
    /// when the daemon cannot be started or ends.
    pub fn up(
        kind: BedKind,
        path: PathSetup,
        conditions: &[Condition],
        executable: &Path,
        run_id: &str,
    ) -> Result<Self, BedError> {
        // A guest has its bed inside, and what runs inside makes it; hosts have one of their own.
        if kind != BedKind::Netns {
            let reason = "that one is made in another way";
            return Err(BedError::refused("stand in for another bed", reason, ""));
        }
        let path = with_emulator_for(path, conditions)?;
        let mut local = Local::new(launch::open(executable)?);
        let (daemon, reply, [a, b]) = ends::start(&mut local, path, run_id, None)?;
        let host = |file: i32| -> Result<Box<dyn Launcher>, BedError> {
            let mut namespaces = Vec::new();
            if reply.user_namespace {
                let user = namespace(daemon.id(), "user namespace", "ns/user")?;
                namespaces.push((user, CloneFlags::CLONE_NEWUSER));
            }
            namespaces.push(network_namespace(daemon.id(), file)?);
            Ok(Box::new(local.within(namespaces)))
        };
        let hosts = [host(a)?, host(b)?];
        Ok(Self::new(hosts, vec![daemon], reply.path, run_id))
    }

    /// Makes a bed of two guests, in the first of them: host a here, host b in the other, netem on
    /// both ends of the wire between them.
    ///
    /// # Errors
    /// [`BedError`] where the other guest is not there or an end cannot be made.
    pub fn of_two_guests(
        path: PathSetup,
        executable: &Path,
        run_id: &str,
    ) -> Result<Self, BedError> {
        let mut local = Local::new(launch::open(executable)?);
        let mut second = second_guest::reach()?;
        let addresses = ADDRESSES.map(IpAddr::from);
        let start = |launcher: &mut dyn Launcher, host: Host| {
            let end = End {
                host,
                addresses,
                shaping: Shaping::Wire {
                    name: PATH_WIRE.to_owned(),
                },
            };
            ends::start(launcher, path, run_id, Some(end))
        };
        let (here, reply, [file_here]) = start(&mut local, Host::Client)?;
        let (there, _, [file_there]) = start(&mut second, Host::Server)?;
        let a = local.within([network_namespace(here.id(), file_here)?]);
        let b = second.within(there.id(), file_there);
        let hosts: [Box<dyn Launcher>; 2] = [Box::new(a), Box::new(b)];
        Ok(Self::new(hosts, vec![here, there], reply.path, run_id))
    }

    /// Makes a bed of two hosts that are reached over sessions: netem on macvlans or on interfaces of both, or the
    /// network between them as it is.
    ///
    /// # Errors
    /// [`BedError`] where a host cannot be reached or its end of the path cannot be made.
    pub fn of_hosts(
        ends: [HostEnd; 2],
        path: PathSetup,
        conditions: &[Condition],
        run_id: &str,
    ) -> Result<Self, BedError> {
        let path = PathSetup {
            emulator: Emulator::Netem,
            placement: Placement::Ends,
            ..path
        };
        if ends.iter().any(|end| end.shaping != Shaping::None) {
            netem_has(path, conditions, OTHER_CONDITION)?;
        }
        hosts::attached_alike(&ends)?;
        let addresses = [ends[0].address, ends[1].address];
        let sessions = [ends[0].connect.connect()?, ends[1].connect.connect()?];
        let [a, b] = sessions.map(|session| (session, addresses));
        let start_b = || StartingEnd::new(&ends[1], Host::Server, b, path, run_id);
        let a = StartingEnd::new(&ends[0], Host::Client, a, path, run_id)?;
        let (a, b) = if let Shaping::Interface { .. } = ends[0].shaping {
            // An interface is not touched if the other host refuses.
            (a.finish()?, start_b()?.finish()?)
        } else {
            let b = start_b()?;
            (a.finish()?, b.finish()?)
        };
        Ok(Self {
            addresses,
            remote: Some(Remote {
                ends,
                path,
                run_id: run_id.to_owned(),
            }),
            ..Self::new(
                [a.launcher, b.launcher],
                vec![a.daemon, b.daemon],
                a.path,
                run_id,
            )
        })
    }

    /// Makes a bed of its parts, with the addresses of one on this machine.
    fn new(
        hosts: [Box<dyn Launcher>; 2],
        daemons: Vec<DaemonProcess>,
        path: PathForm,
        run_id: &str,
    ) -> Self {
        Self {
            hosts,
            daemons,
            path,
            addresses: ADDRESSES.map(IpAddr::from),
            remote: None,
            seed: fingerprint(run_id),
            checks: 0,
            stop: StopRequest::default(),
            on_daemon_end: None,
            first_check: None,
        }
    }

    /// Starts any program on a host, as `executable path-program` keeps it together. Where the bed
    /// has a user namespace of its own, the program is root in it and this user outside.
    ///
    /// # Errors
    /// [`BedError::Spawn`]. A program that cannot be started ends with the exit code of a shell.
    pub fn start_program(&self, host: Host, order: ProgramOrder) -> Result<Program, BedError> {
        self.hosts[host as usize].start_program(order)
    }

    /// Returns the process identifier of the first path daemon, to watch its CPU time.
    #[must_use]
    pub fn daemon_pid(&self) -> u32 {
        self.daemons[0].id()
    }

    /// Returns the path as it was set up.
    pub(crate) const fn form(&self) -> &PathForm {
        &self.path
    }

    /// Returns the launcher of a host's processes.
    pub(crate) fn launcher(&mut self, host: Host) -> &mut dyn Launcher {
        &mut *self.hosts[host as usize]
    }

    /// Whether each end of the path has a daemon of its own.
    fn has_two_daemons(&self) -> bool {
        self.daemons.len() > 1
    }

    /// Sends a request to every daemon and returns their results.
    fn request_all<T: DeserializeOwned>(
        &mut self,
        request: &ToDaemon,
        what: &'static str,
    ) -> Result<Vec<T>, BedError> {
        let requests = vec![request; self.daemons.len()];
        self.request_each(&requests, what, ANSWER_TIMEOUT)
    }

    /// Sends a request to each daemon, to that of host b first, and returns their results.
    pub(crate) fn request_each<T: DeserializeOwned>(
        &mut self,
        requests: &[&ToDaemon],
        what: &'static str,
        within: Duration,
    ) -> Result<Vec<T>, BedError> {
        let daemons = self.daemons.iter_mut().zip(requests);
        let sent: Vec<_> = daemons
            .rev()
            .map(|(daemon, request)| daemon.put(request))
            .collect();
        // All answers are read before one is judged, so that none is left for the next request.
        let daemons = self.daemons.iter_mut().zip(sent.into_iter().rev());
        let results: Vec<_> = daemons
            .map(|(daemon, sent)| daemon.answer(sent, what, within))
            .collect();
        let results = results.into_iter().zip(&self.hosts);
        results
            .map(|(result, host)| result.map_err(|error| host.daemon_error(error)))
            .collect()
    }

    /// Sends a request without a result to every daemon.
    fn request(&mut self, request: &ToDaemon, what: &'static str) -> Result<(), BedError> {
        self.request_all::<()>(request, what).map(drop)
    }

    /// Sends a request to the one daemon of the path.
    fn request_one<T: DeserializeOwned>(
        &mut self,
        request: &ToDaemon,
        what: &'static str,
        within: Duration,
    ) -> Result<T, BedError> {
        self.daemons[0].request(request, what, within)
    }
}

impl TestBed for Bed {
    fn description(&self) -> Text {
        let placement = match (&self.remote, self.has_two_daemons()) {
            (Some(remote), _) => match remote.ends[0].shaping {
                Shaping::Interface { .. } => HostPlacement::TwoInterfaces,
                _ => HostPlacement::TwoMachines,
            },
            (None, true) => HostPlacement::TwoGuests,
            (None, false) => HostPlacement::OneMachine,
        };
        self.path.description(placement).into()
    }

    /// Two machines do not, nor do two guests: the clock of each counts from its own boot.
    fn shares_clock(&self) -> bool {
        !self.has_two_daemons()
    }

    fn name(&self, host: Host) -> &str {
        let remote = self.remote.as_ref();
        remote.map_or(host.name(), |remote| &remote.ends[host as usize].name)
    }

    fn has_names(&self) -> bool {
        self.remote.is_some()
    }

    fn clocks(&self) -> Option<HostClocks> {
        let clocks = self.hosts.each_ref().map(|host| host.clock());
        self.has_two_daemons().then_some(HostClocks { clocks })
    }

    fn read_clocks_over_path(&mut self) -> Result<Option<OffsetReading>, BedError> {
        if !self.path.is_real {
            return Ok(None);
        }
        match two_ends::read_clocks(self) {
            // The sessions' exchanges are left.
            Err(BedError::Refused { .. }) => Ok(None),
            read => read,
        }
    }

    fn address(&self, host: Host) -> IpAddr {
        self.addresses[host as usize]
    }

    fn ports(&self, host: Host) -> Option<PortRange> {
        self.remote.as_ref()?.ends[host as usize].ports
    }

    fn is_real(&self) -> bool {
        self.path.is_real
    }

    fn restore(&mut self, stop: &StopRequest) -> Result<bool, BedError> {
        let Some(remote) = &self.remote else {
            return Ok(false);
        };
        let mut restored = false;
        for host in Host::BOTH {
            let index = host as usize;
            let daemon = &mut self.daemons[index];
            let sent = daemon.put(&ToDaemon::Counters);
            let counters = daemon.answer::<PathCounters>(sent, "tell its counters", ANSWER_TIMEOUT);
            if counters.is_ok() {
                continue;
            }
            let end = &remote.ends[index];
            let session = end.reconnect(stop)?;
            let session = (session, self.addresses);
            let started = StartingEnd::new(end, host, session, remote.path, &remote.run_id)?;
            let started = started.finish()?;
            self.hosts[index] = started.launcher;
            self.daemons[index] = started.daemon;
            if let Some(call) = &self.on_daemon_end {
                self.daemons[index].on_end(call.clone());
            }
            restored = true;
        }
        Ok(restored)
    }

    fn spawn_agent(&mut self, host: Host) -> Result<Launched, BedError> {
        self.hosts[host as usize].launch(AGENT, Errors::Pipe)
    }

    fn spawn_monitor(&mut self, host: Host) -> Result<Option<Launched>, BedError> {
        let host = self.remote.as_ref().map(|_| &mut self.hosts[host as usize]);
        host.map(|host| host.launch(HOST_MONITOR, Errors::Inherit))
            .transpose()
    }

    fn set_condition(&mut self, condition: &Condition, seed: u64) -> Result<(), BedError> {
        let request = ToDaemon::SetCondition {
            condition: condition.clone(),
            seed,
        };
        self.request(&request, "set the condition")
    }

    fn begin(&mut self) -> Result<(), BedError> {
        self.request(&ToDaemon::Begin, "begin the schedule")
    }

    fn start_capture(&mut self, order: CaptureOrder) -> Result<(), BedError> {
        let what = "capture its packets";
        if self.has_two_daemons() {
            let (reason, hint) = (reason::no_own_emulator(), reason::leave_capture_out());
            return Err(BedError::refused(what, reason, hint));
        }
        self.request(&ToDaemon::StartCapture { order }, what)
    }

    fn end_capture(&mut self) -> Result<Option<CaptureSummary>, BedError> {
        if self.has_two_daemons() {
            return Ok(None);
        }
        self.request_one(&ToDaemon::EndCapture, "end the capture", WRITE_TIMEOUT)
    }

    /// With two daemons each counts the packets that its end sends.
    fn counters(&mut self) -> Result<PathCounters, BedError> {
        let counters: Vec<PathCounters> =
            self.request_all(&ToDaemon::Counters, "tell its counters")?;
        let of = |end: Option<&PathCounters>| end.copied().unwrap_or_default();
        Ok(PathCounters {
            forward: of(counters.first()).forward,
            reverse: of(counters.last()).reverse,
            cpu_ns: counters.iter().map(|counters| counters.cpu_ns).sum(),
        })
    }

    /// Of two daemons neither sees both directions of a flow, and each has a network as it is or netem.
    fn set_flows(&mut self, flows: &[CompetingFlow]) -> Result<(), BedError> {
        let flows = flows.to_vec();
        self.request(&ToDaemon::SetFlows { flows }, "tell flows apart")
    }

    fn flow_counters(&mut self) -> Result<Vec<FlowCounters>, BedError> {
        self.request_one(&ToDaemon::FlowCounters, "tell its counters", ANSWER_TIMEOUT)
    }

    fn stop_sampling(&mut self) -> Result<(), BedError> {
        self.request(&ToDaemon::StopSampling, "stop sampling its queues")
    }

    fn stop_checks_with(&mut self, stop: &StopRequest) {
        self.stop = stop.clone();
    }

    fn on_daemon_end(&mut self, call: OnDaemonEnd) {
        for daemon in &self.daemons {
            daemon.on_end(call.clone());
        }
        self.on_daemon_end = Some(call);
    }

    fn check_path(&mut self, condition: &Condition) -> Result<PathCheck, BedError> {
        let interrupts = self.daemons.iter().map(DaemonProcess::interrupt);
        let _stops: Vec<OnStop> = interrupts.map(|it| self.stop.calls(it)).collect();
        if self.has_two_daemons() {
            self.checks += 1;
            self.set_condition(condition, self.seed.wrapping_add(self.checks))?;
            return match self.path.is_real {
                true => two_ends::check_real(self, condition),
                false => two_ends::check(self, condition),
            };
        }
        let takes = check::longest(condition).saturating_mul(2);
        let condition = condition.clone();
        let request = ToDaemon::Check { condition };
        self.request_one(&request, "check its path", CHECK_TIMEOUT + takes)
    }
}

/// Chooses the emulator of a path where that is free: one that can emulate all of these conditions. Whether the kernel has
/// netem is found when the bed is made.
///
/// # Errors
/// [`BedError::Refused`] if the emulator that is asked for cannot emulate one of them.
pub fn with_emulator_for(
    mut path: PathSetup,
    conditions: &[Condition],
) -> Result<PathSetup, BedError> {
    if let Some(condition) = conditions.iter().find(|it| it.needs_kernel()) {
        match path.emulator {
            Emulator::Auto => path.emulator = Emulator::Netem,
            Emulator::Userspace => return Err(lacks_discipline(condition)),
            Emulator::Netem | Emulator::None | Emulator::Loopback => {}
        }
    }
    if !path.emulator.is_absent()
        && let Err(refused) = netem_has(path, conditions, USE_OTHER_EMULATOR)
    {
        if path.needs_netem().is_some() {
            return Err(refused);
        }
        path.emulator = Emulator::Userspace;
    }
    Ok(path)
}

/// Makes the error of a condition with a discipline that the user-space emulator lacks.
fn lacks_discipline(condition: &Condition) -> BedError {
    let names = condition.links().map(|link| link.discipline);
    let name = names
        .filter(|it| it.needs_kernel())
        .map(|it| it.name())
        .next();
    let reasons = [
        format!(
            "condition `{}` is not supported by the user-space emulator",
            condition.name
        ),
        format!(
            "only the kernel has the discipline `{}`",
            name.unwrap_or_default()
        ),
    ];
    BedError::Refused {
        what: "be made",
        source: Problem::new(ProblemKind::Unsupported, reasons, USE_KERNEL),
    }
}

/// Checks that netem can emulate these conditions.
///
/// # Errors
/// [`BedError::Refused`] for the first that it cannot.
fn netem_has(path: PathSetup, conditions: &[Condition], hint: &str) -> Result<(), BedError> {
    for condition in conditions {
        if let Some(refusal) = regatta_path_daemon::refusal(condition, path) {
            let reason = format!("condition `{}` is not supported by netem", condition.name);
            let reasons = [reason, refusal.to_string()];
            let source = Problem::new(ProblemKind::Unsupported, reasons, hint);
            return Err(BedError::Refused {
                what: "be made",
                source,
            });
        }
    }
    Ok(())
}

/// Opens the network namespace that a file of the process `daemon` holds.
fn network_namespace(daemon: u32, file: i32) -> Result<(File, CloneFlags), BedError> {
    let file = namespace(daemon, "network namespace", &format!("fd/{file}"))?;
    Ok((file, CloneFlags::CLONE_NEWNET))
}

fn namespace(daemon: u32, what: &'static str, name: &str) -> Result<File, BedError> {
    File::open(format!("/proc/{daemon}/{name}"))
        .map_err(|source| BedError::Namespace { what, source })
}
