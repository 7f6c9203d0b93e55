//! Paths of netem, in guests whose kernel has it. Needs User Mode Linux kernels, as
//! `scripts/need linux.uml` and `make lab-kernel` provide them.
//!
//! In virtual time everything is exact, and the kernel for it starts and runs processes with a third of the CPU time of
//! Debian's, so that most tests are there.

/// Makes one test for each of these arguments of a function, run in the guest of the function's
/// module.
macro_rules! cases {
    ($function:ident: $($case:ident($($argument:expr),* $(,)?))+) => {
        mod $function {
            $(
                #[test]
                fn $case() {
                    #[allow(unused_imports)]
                    use super::*;
                    if is_here(concat!(stringify!($function), "::", stringify!($case))) {
                        super::$function($($argument),*);
                    }
                }
            )+
        }
    };
}

mod counters;
mod interface;
mod machines;
mod macvlan;
mod path_check;
mod virtual_time;

use std::time::Duration;

use regatta_bed::{Bed, Host, TestBed as _};
use regatta_model::{Condition, Emulator, Link, LossBy, Offloads, PathSetup, Placement};

use crate::common::{self, Agent, bed_of, delays, explain};

const NETEM: PathSetup = PathSetup {
    emulator: Emulator::Netem,
    placement: Placement::Between,
    loss_by: LossBy::Emulator,
    offloads: Offloads::Off,
};

/// Applies `change` to both links of a condition.
fn with(mut condition: Condition, change: impl Fn(&mut Link)) -> Condition {
    change(&mut condition.forward);
    change(&mut condition.reverse);
    condition
}

/// A bed with an agent that pings and one that answers.
struct Pings {
    bed: Bed,
    a: Agent,
    _b: Agent,
    peer: std::net::SocketAddr,
}

impl Pings {
    fn over(path: PathSetup) -> Self {
        let mut bed = bed_of(path).unwrap_or_else(|error| panic!("{}", explain(&error)));
        let a = Agent::start(&mut bed, Host::Client);
        let mut b = Agent::start(&mut bed, Host::Server);
        let peer = b.listen("echo");
        Self {
            bed,
            a,
            _b: b,
            peer,
        }
    }

    fn set(&mut self, condition: &Condition, seed: u64) {
        self.bed
            .set_condition(condition, seed)
            .unwrap_or_else(|error| panic!("{}", explain(&error)));
    }

    /// Sends `count` datagrams in IP packets of `packet_bytes` bytes, `interval` apart, and returns
    /// the delays of those that came back, in nanoseconds.
    fn send(&mut self, count: u64, packet_bytes: u64, interval: Duration) -> Vec<u64> {
        let (peer, payload) = (self.peer, packet_bytes - 28);
        let interval = interval.as_nanos();
        self.a
            .send(&format!("ping {peer} {count} {payload} {interval}"));
        delays(&self.a.receive())
    }
}
