//! Readings of the offset between the monotonic clocks of two hosts, by exchanges over their sessions.
//!
//! A session is not shaped and takes no part in the transfer, so that its exchanges are often faster than those over
//! the path, and can be made during a trial. The offset of each host's clock is bounded against this machine's; the
//! bounds of both add up.

use std::{fmt::Debug, sync::Arc, time::Duration};

use regatta_forwarder::clock;
use regatta_stats::clocks::{OffsetInterval, OffsetReading};

/// Longest time for the exchanges of one reading with one host.
const WITHIN: Duration = Duration::from_secs(2);

/// Returns the time of this machine's monotonic clock, in nanoseconds.
pub(crate) fn monotonic_ns() -> i64 {
    clock::monotonic_ns().cast_signed()
}

/// Monotonic clock of another host.
pub trait RemoteClock: Debug + Send + Sync {
    /// Exchanges the time with the host, several times one after the other. Returns for each exchange the times of
    /// departure here, arrival and answer there, and arrival here; fewer if they take longer than `within` in all,
    /// none if the host cannot be reached. One reading at a time.
    fn exchange(&self, count: usize, within: Duration) -> Vec<[i64; 4]>;
}

/// Monotonic clocks of hosts a and b, which can be read from any thread.
#[derive(Debug, Clone)]
pub struct HostClocks {
    /// Clock of each host; `None` for one whose clock is this machine's.
    pub(crate) clocks: [Option<Arc<dyn RemoteClock>>; 2],
}

impl HostClocks {
    /// Reads the offset of host b's clock against host a's by this number of exchanges with each; `None` if a host
    /// does not answer.
    #[must_use]
    pub fn read(&self, exchanges: usize) -> Option<OffsetReading> {
        let began_ns = monotonic_ns();
        let offset_of = |clock: &Option<Arc<dyn RemoteClock>>| -> Option<OffsetInterval> {
            let Some(clock) = clock else {
                return Some(OffsetInterval::SAME);
            };
            let answered = clock.exchange(exchanges, WITHIN);
            let span_ns = [began_ns, monotonic_ns()];
            // A late answer to an earlier reading is not of this span.
            let answered = answered.into_iter().filter(|times| times[0] >= began_ns);
            let intervals = answered.map(OffsetInterval::of_exchange);
            Some(OffsetReading::of_exchanges(span_ns, intervals)?.offset)
        };
        let [a, b] = &self.clocks;
        let a = offset_of(a)?;
        let a_until_ns = monotonic_ns();
        let b = offset_of(b)?;
        let span_ns = [began_ns, monotonic_ns()];
        Some(OffsetReading {
            span_ns,
            offset: b.against(a.after((span_ns[1] - a_until_ns) as f64)),
        })
    }
}
