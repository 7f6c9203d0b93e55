//! Bed of two guests: host a and the engine in one, host b in the other, netem on both ends of the
//! wire between them.

use std::{
    fs::File,
    io,
    net::{IpAddr, TcpStream},
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    time::Duration,
};

use nix::sched::CloneFlags;
use regatta_model::{Condition, PathCheck, PathSetup};

use crate::{
    bed::{AGENT, ANSWER_WITHIN, Host, unexpected},
    error::BedError,
    guest::PATH_WIRE,
    messages::{DAEMON_PROTOCOL_VERSION, End, FromDaemon, PathCounters, PathForm, Probe, ToDaemon},
    path_daemon::{
        ADDRESSES,
        check::{self, TrainResult},
        fingerprint, unix_ns,
    },
    process::{self, DaemonProcess, Executable, Given, PATH_DAEMON},
    second_guest::{SecondGuest, SecondGuestProcess, SecondGuestStreams},
};

/// Longest time that one request of a path check may take.
const PART_WITHIN: Duration = Duration::from_secs(30);

/// Agent in one of two guests.
pub enum AgentOfTwo {
    /// Agent on host a, its standard input, output and error piped.
    Here(Child),
    /// Agent on host b.
    InSecondGuest(SecondGuestProcess, SecondGuestStreams),
}

/// Daemon of one end, and the file of its host's network namespace.
#[derive(Debug)]
struct Side {
    daemon: DaemonProcess,
    namespace: i32,
}

/// Two guests and the path between them, for the first of them. The path ends when this is dropped.
#[derive(Debug)]
pub struct TwoGuests {
    executable: Executable,
    /// Ends of the path at hosts a and b.
    sides: [Side; 2],
    far: SecondGuest,
    path: PathForm,
    seed: u64,
    checks: u64,
}

impl TwoGuests {
    /// Reaches the other guest and makes both ends of the path.
    ///
    /// # Errors
    /// [`BedError`] where the other guest is not there or an end cannot be made.
    pub fn up(path: PathSetup, executable: &Path, run_id: &str) -> Result<Self, BedError> {
        let executable = Executable::open(executable)?;
        let mut far = SecondGuest::reach()?;
        let (process, stream): (SecondGuestProcess, TcpStream) = far.start_daemon(PATH_DAEMON)?;
        let there = DaemonProcess::far(process, stream.into()).map_err(BedError::SecondGuest)?;
        let here = DaemonProcess::start(&executable)?;
        let mut form = None;
        let mut greet = |mut daemon: DaemonProcess, host: usize| {
            let hello = ToDaemon::Hello {
                protocol: DAEMON_PROTOCOL_VERSION,
                run_id: run_id.to_owned(),
                path,
                end: Some(End {
                    host,
                    wire: PATH_WIRE.to_owned(),
                }),
            };
            let answer = daemon.ask(&hello, "be made", ANSWER_WITHIN)?;
            match answer {
                FromDaemon::Up {
                    protocol: DAEMON_PROTOCOL_VERSION,
                    ref namespaces,
                    ref path,
                    ..
                } if namespaces.len() == 1 => {
                    form = Some(path.clone());
                    let namespace = namespaces[0];
                    Ok(Side { daemon, namespace })
                }
                other => Err(unexpected(&other)),
            }
        };
        let sides = [greet(here, 0)?, greet(there, 1)?];
        let Some(path) = form else {
            return Err(BedError::SecondGuest(io::ErrorKind::NotFound.into()));
        };
        Ok(Self {
            executable,
            sides,
            far,
            path,
            seed: fingerprint(run_id),
            checks: 0,
        })
    }

    /// Returns the bed's emulator, placement and kernel as text, for the header of the run.
    #[must_use]
    pub fn description(&self) -> String {
        let PathForm { kernel, seeded, .. } = &self.path;
        let seeded = if *seeded { "seeded" } else { "not seeded" };
        format!(
            "two guests, netem on both ends, where TCP's small queues meet it (Linux {kernel}, {seeded})"
        )
    }

    /// Starts an agent on a host. May be called again after one ended.
    ///
    /// # Errors
    /// [`BedError`] where it cannot be started, or the other guest does not answer.
    pub fn spawn_agent(&mut self, host: Host) -> Result<AgentOfTwo, BedError> {
        let Side { daemon, namespace } = &self.sides[host as usize];
        match host {
            Host::A => {
                let place = PathBuf::from(format!("/proc/{}/fd/{namespace}", daemon.pid()));
                let file = File::open(place).map_err(|source| BedError::Namespace {
                    what: "network namespace",
                    source,
                })?;
                let given = Given {
                    entries: vec![(file.as_raw_fd(), CloneFlags::CLONE_NEWNET)],
                    ..Given::pipes(Stdio::piped())
                };
                process::spawn(&self.executable, AGENT, given).map(AgentOfTwo::Here)
            }
            Host::B => {
                let (process, streams) = self.far.start_agent(AGENT, daemon.pid(), *namespace)?;
                Ok(AgentOfTwo::InSecondGuest(process, streams))
            }
        }
    }

    /// Returns the address of a host on the path.
    #[must_use]
    pub fn address(&self, host: Host) -> IpAddr {
        ADDRESSES[host as usize].into()
    }

    /// Does the same as [`crate::Bed::set_condition`], for both ends.
    ///
    /// # Errors
    /// [`BedError::Refused`] for a condition that cannot be emulated.
    pub fn set_condition(&mut self, condition: &Condition, seed: u64) -> Result<(), BedError> {
        let request = ToDaemon::SetCondition {
            condition: condition.clone(),
            seed,
        };
        for answer in self.both([&request, &request], "set the condition", ANSWER_WITHIN)? {
            let FromDaemon::Set = answer else {
                return Err(unexpected(&answer));
            };
        }
        Ok(())
    }

    /// Does the same as [`crate::Bed::begin`]. Both ends are told at once, and begin within the
    /// time that a message takes to the other guest, a fraction of a millisecond on an idle
    /// machine.
    ///
    /// # Errors
    /// [`BedError`] when a daemon does not answer.
    pub fn begin(&mut self) -> Result<(), BedError> {
        let request = ToDaemon::Begin;
        for answer in self.both([&request, &request], "begin the schedule", ANSWER_WITHIN)? {
            let FromDaemon::Begun = answer else {
                return Err(unexpected(&answer));
            };
        }
        Ok(())
    }

    /// Returns the counters since [`TwoGuests::set_condition`]; each end counts the packets that it
    /// sends.
    ///
    /// # Errors
    /// [`BedError`] when a daemon does not answer.
    pub fn counters(&mut self) -> Result<PathCounters, BedError> {
        let request = ToDaemon::Counters;
        let answers = self.both([&request, &request], "tell its counters", ANSWER_WITHIN)?;
        match answers {
            [
                FromDaemon::Counters { counters: a },
                FromDaemon::Counters { counters: b },
            ] => Ok(PathCounters {
                forward: a.forward,
                reverse: b.reverse,
                cpu_ns: a.cpu_ns + b.cpu_ns,
            }),
            [other, _] => Err(unexpected(&other)),
        }
    }

    /// Does the same as [`crate::Bed::check_path`], with both ends.
    ///
    /// # Errors
    /// [`BedError::Refused`] for a condition that cannot be emulated.
    pub fn check_path(&mut self, condition: &Condition) -> Result<PathCheck, BedError> {
        self.checks += 1;
        self.set_condition(condition, self.seed.wrapping_add(self.checks))?;
        let checked_unix_ns = i64::try_from(unix_ns()).unwrap_or(i64::MAX);
        let [a, b] = match self.probe([Probe::Open, Probe::Open])? {
            [
                FromDaemon::Opened { port: a },
                FromDaemon::Opened { port: b },
            ] => [a, b],
            [other, _] => return Err(unexpected(&other)),
        };
        self.probe([Probe::Meet { port: b }, Probe::Meet { port: a }])?;
        let asked = || condition.clone();
        let round_trips = match self.probe([
            Probe::RoundTrips { condition: asked() },
            Probe::Return { condition: asked() },
        ])? {
            [FromDaemon::RoundTrips { delays_ns }, FromDaemon::Probed] => delays_ns,
            [other, _] => return Err(unexpected(&other)),
        };
        let mut results = <[TrainResult; 2]>::default();
        for (direction, result) in results.iter_mut().enumerate() {
            let mut parts = [
                Probe::Send {
                    condition: asked(),
                    direction,
                },
                Probe::Receive {
                    condition: asked(),
                    direction,
                },
            ];
            if direction == 1 {
                parts.reverse();
            }
            let mut answers = self.probe(parts)?;
            if direction == 1 {
                answers.reverse();
            }
            *result = match answers {
                [
                    FromDaemon::Sent { departures },
                    FromDaemon::Train { arrivals },
                ] => TrainResult {
                    departures,
                    arrivals,
                },
                [other, _] => return Err(unexpected(&other)),
            };
        }
        let spoiled = match self.probe([Probe::Close, Probe::Close])? {
            [
                FromDaemon::Closed { spoiled: a },
                FromDaemon::Closed { spoiled: b },
            ] => a.or(b),
            [other, _] => return Err(unexpected(&other)),
        };
        let mut check = check::judge(
            (condition, check::LossPlace::of(&self.path)),
            checked_unix_ns,
            &round_trips,
            &results,
        );
        check.spoiled = spoiled.filter(|_| !check.within);
        Ok(check)
    }

    fn probe(&mut self, parts: [Probe; 2]) -> Result<[FromDaemon; 2], BedError> {
        let [a, b] = parts.map(|probe| ToDaemon::Probe { probe });
        self.both([&a, &b], "check its path", PART_WITHIN)
    }

    /// Sends a request to each daemon, to that of the other guest first, and waits for both
    /// answers.
    fn both(
        &mut self,
        requests: [&ToDaemon; 2],
        what: &'static str,
        within: Duration,
    ) -> Result<[FromDaemon; 2], BedError> {
        let [here, there] = &mut self.sides;
        let asked_there = there.daemon.put(requests[1]);
        let asked_here = here.daemon.put(requests[0]);
        // Both are heard before either is judged, so that no answer is left for the next request.
        let heard_here = here.daemon.answer(asked_here, what, within);
        let heard_there = there.daemon.answer(asked_there, what, within);
        Ok([heard_here?, heard_there.map_err(far)?])
    }
}

/// Converts the error of a silent or missing daemon in the other guest: it is the guest that does
/// not answer.
fn far(error: BedError) -> BedError {
    match error {
        BedError::TimedOut(within) => BedError::SecondGuest(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("its path daemon gave no answer within {within:?}"),
        )),
        BedError::Gone { source, .. } => BedError::SecondGuest(source),
        other => other,
    }
}
