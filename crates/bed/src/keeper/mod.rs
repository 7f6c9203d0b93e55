//! The process that keeps the path: namespaces, devices, forwarding, counters, self-check.
//!
//! It serves one controller over its standard input and output and ends with it.

mod check;
mod clock;
mod corruption;
mod error;
mod forwarder;
mod namespaces;
mod tun;

use std::{
    fs::File,
    io::{self, BufRead, Write},
    net::Ipv4Addr,
    os::fd::AsRawFd,
    process::ExitCode,
};

pub(crate) use error::KeeperError;
use forwarder::Forwarder;
use namespaces::Namespace;
pub(crate) use namespaces::become_able;
use regatta_model::{Condition, PathCheck};
use tun::Tun;

use crate::messages::{FromKeeper, KEEPER_PROTOCOL_VERSION, LinkCounters, PathCounters, ToKeeper};

/// Addresses of the two hosts on the path, a and b, on one /30.
pub(crate) const ADDRESSES: [Ipv4Addr; 2] =
    [Ipv4Addr::new(10, 60, 0, 1), Ipv4Addr::new(10, 60, 0, 2)];

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
        (ToKeeper::Hello { protocol, run_id }, None) => {
            if protocol != KEEPER_PROTOCOL_VERSION {
                return Err(KeeperError::Version {
                    theirs: protocol,
                    ours: KEEPER_PROTOCOL_VERSION,
                });
            }
            let made = Keeper::up(&run_id)?;
            let answer = made.greeting();
            *keeper = Some(made);
            Ok(answer)
        }
        (ToKeeper::SetCondition { condition, seed }, Some(keeper)) => {
            keeper.set(&condition, seed)?;
            Ok(FromKeeper::Set)
        }
        (ToKeeper::Begin, Some(keeper)) => {
            keeper.forwarder.begin()?;
            Ok(FromKeeper::Begun)
        }
        (ToKeeper::Counters, Some(keeper)) => Ok(FromKeeper::Counters {
            counters: keeper.counters()?,
        }),
        (ToKeeper::Check { condition }, Some(keeper)) => Ok(FromKeeper::Checked {
            check: keeper.check(&condition)?,
        }),
        (ToKeeper::Hello { .. }, Some(_)) | (_, None) => Err(KeeperError::Order {
            line: line.to_owned(),
        }),
    }
}

/// One of the two hosts.
struct HostSide {
    namespace: Namespace,
    tun: Tun,
    /// The device's drops when the condition was set.
    dropped_before: u64,
}

impl HostSide {
    fn create(address: Ipv4Addr) -> Result<Self, KeeperError> {
        let namespace = Namespace::create()?;
        let tun = Tun::create(address)?;
        Ok(Self {
            namespace,
            tun,
            dropped_before: 0,
        })
    }

    fn handles(&self) -> Result<[File; 2], KeeperError> {
        Ok([self.tun.packets()?, self.tun.packets()?])
    }
}

struct Keeper {
    user_namespace: bool,
    hosts: [HostSide; 2],
    forwarder: Forwarder,
    cpu_before_ns: u64,
    /// From the run's name: each run, and each check in it, draws other losses.
    seed: u64,
    checks: u64,
}

impl Keeper {
    fn up(run_id: &str) -> Result<Self, KeeperError> {
        let user_namespace = become_able()?;
        die_with_parent();
        let hosts = [
            HostSide::create(ADDRESSES[0])?,
            HostSide::create(ADDRESSES[1])?,
        ];
        let forwarder = Forwarder::start([hosts[0].handles()?, hosts[1].handles()?])?;
        Ok(Self {
            user_namespace,
            hosts,
            forwarder,
            cpu_before_ns: 0,
            seed: fingerprint(run_id),
            checks: 0,
        })
    }

    fn greeting(&self) -> FromKeeper {
        FromKeeper::Up {
            protocol: KEEPER_PROTOCOL_VERSION,
            user_namespace: self.user_namespace,
            namespaces: [0, 1].map(|host: usize| self.hosts[host].namespace.file().as_raw_fd()),
        }
    }

    fn set(&mut self, condition: &Condition, seed: u64) -> Result<(), KeeperError> {
        for host in &self.hosts {
            host.tun.set_mtu(condition.mtu_bytes)?;
        }
        self.forwarder.set(condition, seed)?;
        for host in &mut self.hosts {
            host.dropped_before = host.tun.dropped()?;
        }
        self.cpu_before_ns = clock::process_cpu_ns();
        Ok(())
    }

    fn check(&mut self, condition: &Condition) -> Result<PathCheck, KeeperError> {
        self.checks += 1;
        self.set(condition, self.seed.wrapping_add(self.checks))?;
        let namespaces = [&self.hosts[0].namespace, &self.hosts[1].namespace];
        check::run(condition, namespaces, ADDRESSES)
    }

    fn counters(&mut self) -> Result<PathCounters, KeeperError> {
        let [mut forward, mut reverse] = self.forwarder.counters()?;
        let add = |link: &mut LinkCounters, host: &mut HostSide| -> Result<(), KeeperError> {
            link.refused_drops += host.tun.dropped()?.saturating_sub(host.dropped_before);
            Ok(())
        };
        let [a, b] = &mut self.hosts;
        add(&mut forward, a)?;
        add(&mut reverse, b)?;
        Ok(PathCounters {
            forward,
            reverse,
            cpu_ns: clock::process_cpu_ns().saturating_sub(self.cpu_before_ns),
        })
    }
}

/// Has the kernel end this process when the thread that started it ends. Entering a user namespace
/// undoes what was asked before.
pub(crate) fn die_with_parent() {
    // SAFETY: takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// FNV-1a of a text.
fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
