//! Run in a guest: the engine runs inside, and the controller receives its events.
//!
//! Inside ([`serve`]) is the ordinary run on the ordinary bed `netns`, whose events are sent to the
//! controller. Outside ([`GuestRun`]) they are treated as those of any run. The engine runs inside
//! with both clocks, so that the two differ in the clock only: with a virtual one the controller
//! could not take part, because to a guest that waits every answer from outside comes too late.

mod inside;
mod messages;
mod outside;
mod watch;

pub use inside::serve;
pub use outside::GuestRun;
use regatta_bed::guest::Order;
use regatta_model::{Direction, Study};

/// Flow-control windows that a guest has room for: two ends of eight connections, whose socket buffers are of two windows
/// each.
const WINDOWS: u64 = 32;

/// Memory of a guest beside the buffers of sockets, in MiB.
const BESIDE_MIB: u64 = 512;

/// Maximum memory of a guest, in MiB.
const MAX_MIB: u64 = 8192;

/// Returns the memory of a guest that runs a study, in MiB, of which the host provides the part that is used. Without
/// room for the buffers its kernel discards segments and closes windows, and the figures would be of that.
#[must_use]
pub fn memory_mib(study: &Study) -> u32 {
    let windows = study.conditions.iter();
    let windows = windows.filter_map(|it| it.flow_control_window(Direction::Both));
    let window = windows.map(|window| window.0).max().unwrap_or(0);
    let needed = BESIDE_MIB + window.saturating_mul(WINDOWS) / (1 << 20);
    needed.clamp(u64::from(Order::DEFAULT_MEMORY_MIB), MAX_MIB) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_has_room_for_the_buffers_of_eight_connections() {
        let study = |rtt, rate| {
            let text = format!(
                "name = \"memory\"\n[[transport]]\ndriver = \"tcp\"\n[[workload]]\nkind = \"bulk\"\nsize = \"1MB\"\n\
                 [[condition]]\nname = \"path\"\nrtt = \"{rtt}\"\nrate = \"{rate}\"\n"
            );
            Study::parse(&text, "study.toml").expect("a sound study")
        };
        assert_eq!(memory_mib(&study("30ms", "100Mbit/s")), 1024);
        // Path and queue hold 37.5 MB each.
        let large = memory_mib(&study("300ms", "1Gbit/s"));
        assert!((2600..2900).contains(&large), "{large}");
        assert_eq!(memory_mib(&study("2s", "10Gbit/s")), 8192);
    }
}
