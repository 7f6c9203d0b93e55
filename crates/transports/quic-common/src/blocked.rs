//! Estimate of the time for which flow control held a sender back, for stacks that only report how
//! often it did.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use regatta_transport::{WindowLimit, WindowLimited};

/// Estimator of the time for which flow control held a sender back.
///
/// The time between two samples counts if the stack reported in between that flow control blocked
/// it, and the congestion window has room at the end of that time: with a full congestion window
/// the path is the limit, whatever flow control reports.
#[derive(Debug)]
pub struct Blocked(Mutex<State>);

#[derive(Debug)]
struct State {
    sampled: Instant,
    frames: u64,
    total: Duration,
}

impl Default for Blocked {
    fn default() -> Self {
        Self::new(Instant::now())
    }
}

impl Blocked {
    /// Creates an estimator without samples that starts at `now`.
    fn new(now: Instant) -> Self {
        Self(Mutex::new(State {
            sampled: now,
            frames: 0,
            total: Duration::ZERO,
        }))
    }

    /// Adds a sample, taken now, and returns the time for which flow control has held the sender back so far.
    ///
    /// `frames` is the number of DATA_BLOCKED and STREAM_DATA_BLOCKED frames (RFC 9000 §19.12 f.)
    /// sent so far; `in_flight_bytes` and `window_bytes` are the state of the congestion control.
    pub fn sample(&self, frames: u64, in_flight_bytes: u64, window_bytes: u64) -> WindowLimited {
        WindowLimited {
            time: self.add(Instant::now(), frames, in_flight_bytes, window_bytes),
            by: WindowLimit::StreamWindow,
        }
    }

    fn add(&self, now: Instant, frames: u64, in_flight_bytes: u64, window_bytes: u64) -> Duration {
        let state = &mut *self.0.lock();
        if frames > state.frames && has_room(in_flight_bytes, window_bytes) {
            state.total += now.saturating_duration_since(state.sampled);
        }
        state.sampled = now;
        state.frames = frames;
        state.total
    }
}

/// Whether at least a tenth of the congestion window is free.
fn has_room(in_flight_bytes: u64, window_bytes: u64) -> bool {
    (in_flight_bytes as f64) < 0.9 * window_bytes as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_blocked_time_is_counted() {
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        let blocked = Blocked::new(begun);
        let ms = Duration::from_millis;
        assert_eq!(blocked.add(at(100), 0, 0, 100), ms(0));
        assert_eq!(blocked.add(at(200), 3, 0, 100), ms(100));
        assert_eq!(blocked.add(at(300), 3, 0, 100), ms(100));
        assert_eq!(blocked.add(at(350), 4, 89, 100), ms(150));
        // Blocked with a full congestion window: the path is the limit.
        assert_eq!(blocked.add(at(450), 9, 90, 100), ms(150));
        // Frames counted then do not count later either.
        assert_eq!(blocked.add(at(550), 9, 0, 100), ms(150));
        // Nothing is known of a window of no bytes.
        assert_eq!(blocked.add(at(650), 10, 0, 0), ms(150));
    }
}
