//! Readings of the offset between the monotonic clocks of two hosts, by exchanges over their sessions.
//!
//! A session is not shaped and takes no part in the transfer, so that its exchanges are often faster than those over
//! the path, and can be made during a trial. The offset of each host's clock is bounded against this machine's; the
//! bounds of both add up.

use std::time::Duration;

use regatta_stats::clocks::{OffsetInterval, OffsetReading};

use crate::{path_daemon, session::Session};

/// Longest time for the exchanges of one reading with one host.
const WITHIN: Duration = Duration::from_secs(2);

/// Returns the time of this machine's monotonic clock, in nanoseconds.
pub(crate) fn monotonic_ns() -> i64 {
    path_daemon::monotonic_ns().cast_signed()
}

/// Monotonic clocks of hosts a and b, which can be read from any thread.
#[derive(Debug, Clone)]
pub struct HostClocks {
    /// Session with each host; `None` for a host whose clock is this machine's.
    pub(crate) sessions: [Option<Session>; 2],
}

impl HostClocks {
    /// Reads the offset of host b's clock against host a's by this number of exchanges with each; `None` if a host
    /// does not answer.
    #[must_use]
    pub fn read(&self, exchanges: usize) -> Option<OffsetReading> {
        let began_ns = monotonic_ns();
        let offset_of = |session: &Option<Session>| -> Option<OffsetInterval> {
            let Some(session) = session else {
                return Some(OffsetInterval::SAME);
            };
            let answered = session.exchange_clocks(exchanges, WITHIN);
            let span_ns = [began_ns, monotonic_ns()];
            // A late answer to an earlier reading says nothing of this span.
            let answered = answered.into_iter().filter(|times| times[0] >= began_ns);
            let intervals = answered.map(OffsetInterval::of_exchange);
            Some(OffsetReading::of_exchanges(span_ns, intervals)?.offset)
        };
        let [a, b] = &self.sessions;
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
