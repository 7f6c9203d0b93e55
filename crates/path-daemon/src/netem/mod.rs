//! Path made of the kernel's queueing disciplines.
//!
//! Between the hosts stand three routers, namespaces joined by virtual Ethernets. A direction's
//! packets meet at the first router the bottleneck's queue (a token bucket with a drop-tail queue or
//! CoDel), at the second its rate (netem's, which serialises exactly and catches up when a timer
//! was late), at the third loss, corruption, duplication and delay (netem). So each has counters
//! of its own, and the order is that of [`regatta_model::Link`]. One netem for all of it would lose
//! packets before they use the rate, and its limit would hold the queue and what is under way
//! together.
//!
//! With [`regatta_model::Placement::Ends`] there are no routers, and a netem on either host's own interface does
//! it all, as in published experiments.

mod chain;
mod installed;
mod interface;
mod iptables;
mod offload;
mod plan;
mod sampler;
mod schedule;
mod veth;

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use regatta_forwarder::LinkCounters;
use regatta_model::{Condition, Emulator, Link, LossBy, PathSetup};

pub(super) use self::chain::Chain;
pub use self::interface::{
    COMMAND as INTERFACE_GUARD_COMMAND, ShapedInterface, main as interface_guard_main,
    shaped_interfaces,
};
pub use self::plan::refusal;
use self::{installed::Installed, plan::Stages, schedule::Schedule};
use super::{
    Path, attributes,
    error::{DaemonError, InterfaceError},
    kernel_release,
    namespaces::Namespace,
    netlink,
    qdisc::{self, Netem, Qdisc},
    tun::MTU_RANGE,
};
use crate::messages::{End, PathForm, Shaping};

/// The path.
pub(super) struct NetemPath {
    setup: PathSetup,
    seeded: bool,
    installed: Arc<Mutex<Installed>>,
    /// Steps of the condition's schedule: their times since it begins, and the disciplines from then on.
    steps: Vec<(Duration, [Stages; 2])>,
    schedule: Option<Schedule>,
    /// Dropped last, as it restores an interface of the host that is shaped.
    chain: Chain,
}

impl NetemPath {
    /// Creates the namespaces and interfaces of the path and tries every discipline that a
    /// condition may ask for; `run` is a number of the run. The calling thread changes its namespace.
    ///
    /// # Errors
    /// [`DaemonError::NoNetem`] if the kernel lacks a discipline or interface type; [`DaemonError::OneEnd`] if `end` names
    /// nothing to shape; errors of the interfaces.
    pub(super) fn up(setup: PathSetup, end: Option<&End>, run: u64) -> Result<Self, DaemonError> {
        let chain = match end {
            Some(end) => match &end.shaping {
                Shaping::Interface { name, .. } if setup.loss_by == LossBy::Iptables => {
                    Err(DaemonError::interface(name, InterfaceError::Iptables))
                }
                Shaping::Interface { name, ssh_ports } => {
                    Chain::lay_interface(end, name, ssh_ports)
                }
                Shaping::Wire { name } => Chain::lay_end(end, name),
                Shaping::Macvlan { parent, prefix } => {
                    Chain::lay_macvlan(end, (parent, *prefix), run)
                }
                Shaping::None => Err(DaemonError::OneEnd),
            },
            None => Chain::lay(setup),
        }
        .map_err(|error| match error {
            DaemonError::Netem { step, source } => missing("veth", step)(source),
            other => other,
        })?;
        let seeded = probe(&chain)?;
        let installed = Installed::new(chain.directions.clone(), setup)?;
        if setup.loss_by == LossBy::Iptables {
            for direction in chain.directions.iter().flatten() {
                direction.rule.set(0.0)?;
            }
        }
        Ok(Self {
            setup,
            seeded: seeded && setup.loss_by == LossBy::Emulator,
            installed: Arc::new(Mutex::new(installed)),
            steps: Vec::new(),
            schedule: None,
            chain,
        })
    }
}

impl Path for NetemPath {
    /// Restores the interface of the host, if it is shaped.
    fn end(&mut self) {
        self.schedule = None;
        self.chain.shaping = None;
    }

    fn form(&self) -> PathForm {
        PathForm {
            setup: PathSetup {
                emulator: Emulator::Netem,
                ..self.setup
            },
            kernel: kernel_release(),
            seeded: self.seeded,
            is_real: false,
        }
    }

    fn hosts(&self) -> Vec<&Namespace> {
        self.chain.hosts()
    }

    fn set(&mut self, condition: &Condition, seed: u64) -> Result<(), DaemonError> {
        self.schedule = None;
        if !MTU_RANGE.contains(&condition.mtu_bytes) {
            return Err(DaemonError::Mtu(condition.mtu_bytes));
        }
        // Everything is known to be possible before anything is changed.
        let settings = condition.settings().zip(0..).map(|(setting, number)| {
            // Setting netem anew sets its draws anew, so each step has its own.
            let seed = match number {
                0 => seed,
                step => seed.rotate_left(32).wrapping_add(step),
            };
            let links = [setting.forward, setting.reverse];
            let stages = stages(condition, links, self.setup, seed)?;
            Ok((setting.at, stages))
        });
        let mut settings = settings.collect::<Result<Vec<_>, DaemonError>>()?;
        let (_, stages) = settings.remove(0);
        self.installed.lock().replace(condition.mtu_bytes, stages)?;
        self.steps = settings;
        Ok(())
    }

    fn begin(&mut self) -> Result<(), DaemonError> {
        let begun = Instant::now();
        self.schedule = None;
        if self.steps.is_empty() {
            return Ok(());
        }
        let installed = Arc::clone(&self.installed);
        let take = move |stages| installed.lock().change(stages);
        self.schedule = Some(Schedule::start(begun, self.steps.clone(), take)?);
        Ok(())
    }

    fn counters(&mut self) -> Result<[LinkCounters; 2], DaemonError> {
        if let Some(schedule) = &self.schedule {
            schedule.outcome()?;
        }
        self.installed.lock().counters()
    }

    fn stop_sampling(&mut self) {
        self.installed.lock().stop_sampling();
    }
}

/// Prepares the wire for control messages to the other guest.
///
/// # Errors
/// [`DaemonError`] if it is not there.
pub fn wire_up(interface: &'static str, address: std::net::Ipv4Addr) -> Result<(), DaemonError> {
    veth::Node::first()?.wire(interface, address)
}

/// Returns the stages of both directions, which draw from different streams.
fn stages(
    condition: &Condition,
    links: [&Link; 2],
    setup: PathSetup,
    seed: u64,
) -> Result<[Stages; 2], DaemonError> {
    let stages = |link, direction, seed| {
        Stages::new(condition, link, setup, seed).map_err(|source| DaemonError::Refused {
            condition: condition.name.clone(),
            direction,
            source,
        })
    };
    let seed = seed.wrapping_mul(2);
    let reverse = stages(links[1], "reverse", seed.wrapping_add(1));
    Ok([stages(links[0], "forward", seed)?, reverse?])
}

/// Tries netem, and between the hosts the token bucket and CoDel, on the chain's interfaces;
/// returns whether netem accepts a seed.
fn probe(chain: &Chain) -> Result<bool, DaemonError> {
    let Some(direction) = chain.directions.iter().flatten().next() else {
        return Ok(false);
    };
    let wire = direction.wire();
    let try_one = |module, discipline: Qdisc| {
        let added = discipline.add(wire);
        added.map_err(missing(module, "set a queueing discipline"))
    };
    let clear = || {
        let removed = wire.remove();
        removed.map_err(failed("take a queueing discipline away"))
    };
    let netem = Netem {
        limit: 1,
        seed: 1,
        ..Netem::default()
    };
    try_one("sch_netem", Qdisc::Netem(netem))?;
    let seeded = wire.is_seeded().map_err(failed("read netem's settings"))?;
    clear()?;
    if direction.before_wire().is_some() {
        let bucket = qdisc::Bucket {
            bytes_per_second: 1_000_000,
            burst_bytes: 2000,
            waiting: qdisc::Waiting::Bytes(2000),
        };
        try_one("sch_tbf", Qdisc::Bucket(bucket))?;
        clear()?;
    }
    Ok(seeded)
}

/// Makes the error of a kernel without a discipline or a kind of interface, which returns `ENOENT`
/// or `EOPNOTSUPP`.
fn missing(module: &'static str, step: &'static str) -> impl Fn(io::Error) -> DaemonError {
    move |source| match source.raw_os_error() {
        Some(libc::ENOENT | libc::EOPNOTSUPP) => DaemonError::NoNetem { module, source },
        _ => DaemonError::Netem { step, source },
    }
}

fn failed(step: &'static str) -> impl Fn(io::Error) -> DaemonError {
    move |source| DaemonError::Netem { step, source }
}
