//! Process that keeps the path: namespaces, the path in one of its two forms, counters, path check.
//!
//! It serves one controller over its standard input and output and ends with it.

mod capture;
pub(crate) mod check;
mod clock;
mod corruption;
mod error;
mod forwarder;
mod lateness;
mod namespaces;
mod netem;
mod tun;
mod userspace;

use std::{
    io::{self, BufRead, Write},
    net::Ipv4Addr,
    os::fd::AsRawFd,
    process::ExitCode,
};

use check::{LossPlace, PauseWatch};
pub(crate) use clock::{monotonic_ns, unix_ns};
pub(crate) use error::{KeeperError, USE_OTHER_EMULATOR};
use namespaces::Namespace;
pub(crate) use namespaces::become_able;
use netem::NetemPath;
pub(crate) use netem::{refusal, wire_up};
use regatta_model::{Condition, Emulator, PathCheck, PathSetup};
use userspace::UserspacePath;

use crate::{
    capture::{CaptureOrder, CaptureSummary},
    messages::{
        End, FromKeeper, KEEPER_PROTOCOL_VERSION, LinkCounters, PathCounters, PathForm, Probe,
        ToKeeper,
    },
};

/// Addresses of the two hosts on the path, a and b, on one /30.
pub(crate) const ADDRESSES: [Ipv4Addr; 2] =
    [Ipv4Addr::new(10, 60, 0, 1), Ipv4Addr::new(10, 60, 0, 2)];

/// Returns a host's second address on the path, for transports that use several: the same in the
/// next /24.
fn second(address: Ipv4Addr) -> Ipv4Addr {
    let [a, b, c, d] = address.octets();
    Ipv4Addr::new(a, b, c.wrapping_add(1), d)
}

/// Serves the controller until the end of standard input. The body of `regatta path-keeper`; the
/// process must have no other thread yet.
#[must_use]
pub fn main() -> ExitCode {
    // It is started from an open file, whose number would be its name in lists of processes.
    // Fails for no name that is given here.
    let _ = nix::sys::prctl::set_name(c"regatta");
    let mut keeper = None;
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let answer = match serve(&mut keeper, &line) {
            Ok(answer) => answer,
            Err(error) => failed(&error),
        };
        if say(&answer).is_err() {
            break;
        }
    }
    // A capture that goes on gets its end; there is nobody to be told of a failure.
    if let Some(keeper) = &mut keeper {
        let _ = keeper.path.end_capture();
    }
    // Not by returning: the forwarding thread needs no farewell, and the devices and namespaces
    // end with the process.
    ExitCode::SUCCESS
}

fn say(answer: &FromKeeper) -> io::Result<()> {
    let mut text = serde_json::to_string(answer)?;
    text.push('\n');
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn failed(error: &KeeperError) -> FromKeeper {
    let mut reasons = vec![error.to_string()];
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        reasons.push(next.to_string());
        cause = next.source();
    }
    FromKeeper::Failed {
        reasons,
        hint: error.hint(),
    }
}

fn serve(keeper: &mut Option<Keeper>, line: &str) -> Result<FromKeeper, KeeperError> {
    let request = serde_json::from_str(line).map_err(|source| KeeperError::Request {
        line: line.to_owned(),
        source,
    })?;
    match (request, keeper.as_mut()) {
        (
            ToKeeper::Hello {
                protocol,
                run_id,
                path,
                end,
            },
            None,
        ) => {
            if protocol != KEEPER_PROTOCOL_VERSION {
                return Err(KeeperError::Version {
                    theirs: protocol,
                    ours: KEEPER_PROTOCOL_VERSION,
                });
            }
            let made = Keeper::up(&run_id, path, end)?;
            let answer = made.greeting();
            *keeper = Some(made);
            Ok(answer)
        }
        (ToKeeper::SetCondition { condition, seed }, Some(keeper)) => {
            keeper.set(&condition, seed)?;
            Ok(FromKeeper::Set)
        }
        (ToKeeper::Begin, Some(keeper)) => {
            keeper.path.begin()?;
            Ok(FromKeeper::Begun)
        }
        (ToKeeper::Counters, Some(keeper)) => Ok(FromKeeper::Counters {
            counters: Box::new(keeper.counters()?),
        }),
        (ToKeeper::StartCapture { order }, Some(keeper)) => {
            keeper.path.start_capture(order)?;
            Ok(FromKeeper::Capturing)
        }
        (ToKeeper::EndCapture, Some(keeper)) => Ok(FromKeeper::Captured {
            summary: keeper.path.end_capture()?,
        }),
        (ToKeeper::Check { condition }, Some(keeper)) => Ok(FromKeeper::Checked {
            check: keeper.check(&condition)?,
        }),
        (ToKeeper::Probe { probe }, Some(keeper)) => {
            let [host] = keeper.path.hosts()[..] else {
                return Err(KeeperError::Order {
                    line: line.to_owned(),
                });
            };
            if let Probe::Close = probe {
                let links = keeper.path.counters()?;
                return Ok(keeper.part.close(&links));
            }
            let losses = LossPlace::of(&keeper.path.form());
            keeper.part.serve(probe, losses, host)
        }
        (ToKeeper::Hello { .. }, Some(_)) | (_, None) => Err(KeeperError::Order {
            line: line.to_owned(),
        }),
    }
}

/// Emulator that carries the packets between the hosts.
enum Path {
    Userspace(UserspacePath),
    Netem(Box<NetemPath>),
}

impl Path {
    /// Sets up netem where it is asked for, or where the choice is free and the kernel has it;
    /// otherwise the user-space emulator.
    fn up(setup: PathSetup, end: Option<&End>) -> Result<Self, KeeperError> {
        if let Some(end) = end {
            return Ok(Self::Netem(Box::new(NetemPath::up(setup, Some(end))?)));
        }
        if setup.emulator == Emulator::Userspace {
            return UserspacePath::up().map(Self::Userspace);
        }
        match NetemPath::up(setup, None) {
            Ok(path) => Ok(Self::Netem(Box::new(path))),
            Err(KeeperError::NoNetem { .. }) if setup.needs_netem().is_none() => {
                UserspacePath::up().map(Self::Userspace)
            }
            Err(error) => Err(error),
        }
    }

    fn form(&self) -> PathForm {
        match self {
            Self::Userspace(_) => UserspacePath::form(),
            Self::Netem(path) => path.form(),
        }
    }

    /// Returns the namespaces of the hosts: one, or both.
    fn hosts(&self) -> Vec<&Namespace> {
        match self {
            Self::Userspace(path) => path.hosts().to_vec(),
            Self::Netem(path) => path.hosts(),
        }
    }

    fn set(&mut self, condition: &Condition, seed: u64) -> Result<(), KeeperError> {
        match self {
            Self::Userspace(path) => path.set(condition, seed),
            Self::Netem(path) => path.set(condition, seed),
        }
    }

    fn begin(&mut self) -> Result<(), KeeperError> {
        match self {
            Self::Userspace(path) => path.begin(),
            Self::Netem(path) => path.begin(),
        }
    }

    fn start_capture(&mut self, order: CaptureOrder) -> Result<(), KeeperError> {
        match self {
            Self::Userspace(path) => path.start_capture(order),
            Self::Netem(_) => Err(KeeperError::NotCaptured),
        }
    }

    fn end_capture(&mut self) -> Result<Option<CaptureSummary>, KeeperError> {
        match self {
            Self::Userspace(path) => path.end_capture(),
            Self::Netem(_) => Ok(None),
        }
    }

    fn counters(&mut self) -> Result<[LinkCounters; 2], KeeperError> {
        match self {
            Self::Userspace(path) => path.counters(),
            Self::Netem(path) => path.counters(),
        }
    }
}

struct Keeper {
    user_namespace: bool,
    path: Path,
    /// State of this end in a check of the path.
    part: check::Part,
    cpu_before_ns: u64,
    /// Seed derived from the run's name: each run, and each check in it, draws other losses.
    seed: u64,
    checks: u64,
}

impl Keeper {
    fn up(run_id: &str, setup: PathSetup, end: Option<End>) -> Result<Self, KeeperError> {
        let user_namespace = become_able()?;
        die_with_parent();
        Ok(Self {
            user_namespace,
            path: Path::up(setup, end.as_ref())?,
            part: check::Part::new(end.map_or(0, |end| end.host)),
            cpu_before_ns: 0,
            seed: fingerprint(run_id),
            checks: 0,
        })
    }

    fn greeting(&self) -> FromKeeper {
        FromKeeper::Up {
            protocol: KEEPER_PROTOCOL_VERSION,
            user_namespace: self.user_namespace,
            namespaces: self
                .path
                .hosts()
                .into_iter()
                .map(|namespace| namespace.file().as_raw_fd())
                .collect(),
            path: self.path.form(),
        }
    }

    fn set(&mut self, condition: &Condition, seed: u64) -> Result<(), KeeperError> {
        self.path.set(condition, seed)?;
        self.cpu_before_ns = clock::process_cpu_ns();
        Ok(())
    }

    fn check(&mut self, condition: &Condition) -> Result<PathCheck, KeeperError> {
        self.checks += 1;
        self.set(condition, self.seed.wrapping_add(self.checks))?;
        let losses = LossPlace::of(&self.path.form());
        let [a, b] = self.path.hosts()[..] else {
            // The controller has the two ends make it together.
            return Err(KeeperError::OneEnd);
        };
        let pauses = PauseWatch::start()?;
        let mut check = check::run(condition, losses, [a, b], ADDRESSES)?;
        // A disturbance widens what is found; what is within its tolerance all the same is sound.
        let evidence = pauses.finish(&self.path.counters()?);
        check.spoiled = evidence.filter(|_| !check.within);
        Ok(check)
    }

    fn counters(&mut self) -> Result<PathCounters, KeeperError> {
        let [forward, reverse] = self.path.counters()?;
        Ok(PathCounters {
            forward,
            reverse,
            cpu_ns: clock::process_cpu_ns().saturating_sub(self.cpu_before_ns),
        })
    }
}

/// Makes the kernel kill this process when the thread that started it ends. Entering a user
/// namespace undoes an earlier call.
pub(crate) fn die_with_parent() {
    // SAFETY: takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// Returns the FNV-1a hash of a text.
pub(crate) fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
