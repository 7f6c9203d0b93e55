//! The controller's side of a bed.

use std::{
    fs::File,
    net::IpAddr,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    time::Duration,
};

use nix::sched::CloneFlags;
use regatta_model::{
    BedKind, Condition, Emulator, LossBy, Offloads, PathCheck, PathSetup, Placement,
};

use crate::{
    capture::{CaptureOrder, CaptureSummary},
    error::{BedError, Reported},
    messages::{DAEMON_PROTOCOL_VERSION, FromDaemon, PathCounters, PathForm, ToDaemon},
    path_daemon::{self, ADDRESSES},
    process::{self, DaemonProcess, Entries, Executable, Given},
    program::{self, Program, ProgramOrder},
};

/// One of the two hosts of a bed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Host {
    /// The connecting host: the sender's.
    A,
    /// The listening host: the receiver's.
    B,
}

/// Command of the process at each end.
pub(crate) const AGENT: &str = "agent";

/// Longest time that the daemon may take for a request other than a path check.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Longest time that writing the rest of a capture may take, on a slow disk.
const WRITING_WITHIN: Duration = Duration::from_secs(60);

/// Longest time that a path check may take; its own limits are well below.
const CHECK_WITHIN: Duration = Duration::from_secs(60);

/// Two hosts and the path between them.
///
/// Dropping the bed ends it. The daemon and the agents also end with the *thread* that started
/// them, since the kernel ties a process to the thread of its parent: call [`Bed::up`] and
/// [`Bed::spawn_agent`] on a thread that lives as long as the run.
#[derive(Debug)]
pub struct Bed {
    executable: Executable,
    daemon: DaemonProcess,
    user_namespace: Option<File>,
    network_namespaces: [File; 2],
    path: PathForm,
}

impl Bed {
    /// Creates the bed: starts `executable path-daemon` and waits until its namespaces exist. The
    /// file is held open: the agents are started from it, even if its name is gone by then or means
    /// another program.
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
        // A guest has its bed inside, and what runs inside makes it.
        if kind == BedKind::Uml {
            return Err(BedError::Refused {
                what: "stand in for the bed `uml`",
                source: Reported::from("that one is made inside a guest"),
                hint: String::new(),
            });
        }
        let mut path = path;
        let impossible = conditions
            .iter()
            .find_map(|condition| Some((condition, path_daemon::refusal(condition, path)?)));
        if let Some((condition, refusal)) = impossible {
            if path.needs_netem().is_some() {
                let reasons = [
                    format!("condition `{}` cannot be had from netem", condition.name),
                    refusal.to_string(),
                ];
                return Err(BedError::Refused {
                    what: "be made",
                    source: Reported::chain(&reasons).unwrap_or("netem cannot".into()),
                    hint: path_daemon::USE_OTHER_EMULATOR.to_owned(),
                });
            }
            path.emulator = Emulator::Userspace;
        }
        let executable = Executable::open(executable)?;
        let mut daemon = DaemonProcess::start(&executable)?;
        let hello = ToDaemon::Hello {
            protocol: DAEMON_PROTOCOL_VERSION,
            run_id: run_id.to_owned(),
            path,
            end: None,
        };
        let answer = daemon.ask(&hello, "be made", ANSWER_WITHIN)?;
        let FromDaemon::Up {
            protocol: DAEMON_PROTOCOL_VERSION,
            user_namespace,
            ref namespaces,
            ref path,
        } = answer
        else {
            return Err(unexpected(&answer));
        };
        let directory = PathBuf::from(format!("/proc/{}", daemon.pid()));
        let open = |what, path: String| {
            File::open(directory.join(path)).map_err(|source| BedError::Namespace { what, source })
        };
        let network = |fd: i32| open("network namespace", format!("fd/{fd}"));
        let [a, b] = namespaces[..] else {
            return Err(unexpected(&answer));
        };
        Ok(Self {
            executable,
            user_namespace: user_namespace
                .then(|| open("user namespace", "ns/user".into()))
                .transpose()?,
            network_namespaces: [network(a)?, network(b)?],
            daemon,
            path: path.clone(),
        })
    }

    /// Returns the bed's emulator, placement and kernel as text, for the header of the run.
    #[must_use]
    pub fn description(&self) -> String {
        let PathForm {
            emulator,
            placement,
            loss_by,
            offloads,
            kernel,
            seeded,
        } = &self.path;
        if *emulator == Emulator::Userspace {
            return "netns, user-space emulator".to_owned();
        }
        let place = match placement {
            Placement::Between => "between the hosts",
            Placement::Ends => "on both ends, where TCP's small queues meet it",
        };
        let loss = match loss_by {
            LossBy::Emulator => "",
            LossBy::Iptables => ", loss by iptables",
        };
        let offloads = match offloads {
            Offloads::Off => "",
            Offloads::On => ", offloads on",
        };
        let seeded = if *seeded { "seeded" } else { "not seeded" };
        format!("netns, netem {place}{loss}{offloads} (Linux {kernel}, {seeded})")
    }

    /// Starts `executable agent` on a host, its standard input, output and error piped. May be
    /// called again after an agent ended.
    ///
    /// # Errors
    /// [`BedError::Spawn`].
    pub fn spawn_agent(&mut self, host: Host) -> Result<Child, BedError> {
        let given = Given {
            entries: self.entries(host),
            ..Given::pipes(Stdio::piped())
        };
        process::spawn(&self.executable, AGENT, given)
    }

    /// Starts any program on a host, as `executable path-program` keeps it together. Where the bed
    /// has a user namespace of its own, the program is root in it and this user outside.
    ///
    /// # Errors
    /// [`BedError::Spawn`]. A program that cannot be started ends with the exit code of a shell.
    pub fn start_program(&self, host: Host, order: ProgramOrder) -> Result<Program, BedError> {
        program::start(&self.executable, order, self.entries(host))
    }

    fn entries(&self, host: Host) -> Entries {
        let mut entries = Entries::new();
        if let Some(file) = &self.user_namespace {
            entries.push((file.as_raw_fd(), CloneFlags::CLONE_NEWUSER));
        }
        let network = &self.network_namespaces[host as usize];
        entries.push((network.as_raw_fd(), CloneFlags::CLONE_NEWNET));
        entries
    }

    /// Returns the process identifier of the path daemon, to watch its CPU time.
    #[must_use]
    pub fn daemon_pid(&self) -> u32 {
        self.daemon.pid()
    }

    /// Returns the address of a host on the path.
    #[must_use]
    pub fn address(&self, host: Host) -> IpAddr {
        ADDRESSES[host as usize].into()
    }

    /// Whether both hosts read the same monotonic clock: always, as they share a kernel.
    #[must_use]
    pub fn shares_clock(&self) -> bool {
        true
    }

    /// Sets the path to `condition`: empties its queues, zeroes its counters, sets the largest
    /// packet (MTU) of both hosts' interfaces.
    ///
    /// The same seed and sequence of packets in a direction lose the same packets.
    ///
    /// # Errors
    /// [`BedError::Refused`] for a condition that cannot be emulated.
    pub fn set_condition(&mut self, condition: &Condition, seed: u64) -> Result<(), BedError> {
        let request = ToDaemon::SetCondition {
            condition: condition.clone(),
            seed,
        };
        match self
            .daemon
            .ask(&request, "set the condition", ANSWER_WITHIN)?
        {
            FromDaemon::Set => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Begins the condition's schedule and its traces, at the moment at which the transfer starts.
    ///
    /// # Errors
    /// [`BedError`] when the daemon does not answer.
    pub fn begin(&mut self) -> Result<(), BedError> {
        match self
            .daemon
            .ask(&ToDaemon::Begin, "begin the schedule", ANSWER_WITHIN)?
        {
            FromDaemon::Begun => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Captures every packet of the path from now on, in a file.
    ///
    /// # Errors
    /// [`BedError::Refused`] where the file cannot be created, or where the path is netem's, which
    /// does not report the outcome of each packet.
    pub fn start_capture(&mut self, order: CaptureOrder) -> Result<(), BedError> {
        let request = ToDaemon::StartCapture { order };
        match self
            .daemon
            .ask(&request, "capture its packets", ANSWER_WITHIN)?
        {
            FromDaemon::Capturing => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Ends the capture and returns its summary; `None` if no capture was started.
    ///
    /// # Errors
    /// [`BedError`] when the daemon does not answer.
    pub fn end_capture(&mut self) -> Result<Option<CaptureSummary>, BedError> {
        match self
            .daemon
            .ask(&ToDaemon::EndCapture, "end the capture", WRITING_WITHIN)?
        {
            FromDaemon::Captured { summary } => Ok(summary),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns the counters of both directions since [`Bed::set_condition`].
    ///
    /// # Errors
    /// [`BedError`] when the daemon does not answer.
    pub fn counters(&mut self) -> Result<PathCounters, BedError> {
        let answer = self
            .daemon
            .ask(&ToDaemon::Counters, "tell its counters", ANSWER_WITHIN)?;
        match answer {
            FromDaemon::Counters { counters } => Ok(*counters),
            other => Err(unexpected(&other)),
        }
    }

    /// Measures the path under a condition, which it sets with a seed of its own and leaves set:
    /// set the condition again before a trial.
    ///
    /// Nothing else may use the path meanwhile.
    ///
    /// # Errors
    /// [`BedError::Refused`] for a condition that cannot be emulated.
    pub fn check_path(&mut self, condition: &Condition) -> Result<PathCheck, BedError> {
        let request = ToDaemon::Check {
            condition: condition.clone(),
        };
        match self.daemon.ask(&request, "check its path", CHECK_WITHIN)? {
            FromDaemon::Checked { check } => Ok(check),
            other => Err(unexpected(&other)),
        }
    }
}

pub(crate) fn unexpected(answer: &FromDaemon) -> BedError {
    BedError::Protocol {
        line: format!("{answer:?}"),
    }
}
