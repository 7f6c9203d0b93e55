//! Limit of the bytes in flight, besides the option `window_messages`.

use std::time::{Duration, Instant};

/// Multiplicative decrease factor β of RFC 9438 §4.6.
const BETA: f64 = 0.7;

/// Aggressiveness C of RFC 9438 §5, in datagrams per second cubed.
const C: f64 = 0.4;

/// Additive increase factor α of the Reno-friendly region (RFC 9438 §4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// CUBIC in bytes; its unit is the largest datagram that was sent.
///
/// Slow start, congestion avoidance and decrease as in RFC 9438, with the initial window and the
/// one decrease in a round trip of RFC 9002 §7; without HyStart++.
#[derive(Debug, Clone)]
pub(crate) struct Cubic {
    /// Bytes that may be in flight.
    window: f64,
    threshold: f64,
    /// W_max of the last decrease.
    most: f64,
    /// Window that Reno would have by now, in bytes.
    reno: f64,
    /// Start of this stage of congestion avoidance.
    began: Option<Instant>,
    /// K: time from `began` until the window is back at `most`, in seconds.
    back_after: f64,
    /// Time of the last decrease: losses of datagrams sent before it belong to the same event.
    answered: Option<Instant>,
    /// Number of congestion events.
    pub events: u64,
}

impl Cubic {
    /// Returns the state with the initial window of RFC 9002 §7.2 for datagrams of `unit` bytes.
    pub(crate) fn new(unit: usize) -> Self {
        let unit = unit as f64;
        Self {
            window: (10.0 * unit).min((2.0 * unit).max(14_720.0)),
            threshold: f64::INFINITY,
            most: 0.0,
            reno: 0.0,
            began: None,
            back_after: 0.0,
            answered: None,
            events: 0,
        }
    }

    fn avoid(&mut self, now: Instant, bytes: f64, unit: f64, round_trip: Duration) {
        let began = match self.began {
            Some(began) => began,
            None => {
                self.began = Some(now);
                self.reno = self.window;
                self.most = self.most.max(self.window);
                self.back_after = ((self.most - self.window) / unit / C).cbrt();
                now
            }
        };
        let after = now.duration_since(began).as_secs_f64() + round_trip.as_secs_f64();
        let cubic = C * (after - self.back_after).powi(3) * unit + self.most;
        // §4.3: once Reno would be back where the decrease began it grows as fast as this does.
        let alpha = if self.reno < self.most { ALPHA } else { 1.0 };
        self.reno += alpha * unit * bytes / self.window;
        let target = cubic.clamp(self.window, 1.5 * self.window);
        self.window += (target - self.window) * bytes / self.window;
        self.window = self.window.max(self.reno);
    }

    fn decrease(&mut self, now: Instant, unit: f64) {
        self.answered = Some(now);
        self.events += 1;
        // §4.7, fast convergence: a window that shrinks leaves room for others.
        self.most = match self.window < self.most {
            true => self.window * (1.0 + BETA) / 2.0,
            false => self.window,
        };
        self.threshold = (self.window * BETA).max(2.0 * unit);
        self.began = None;
    }

    /// Returns the bytes that may be in flight.
    pub(crate) const fn window(&self) -> u64 {
        self.window as u64
    }

    /// Notes that `bytes` were acknowledged, `in_flight` bytes being in flight before.
    pub(crate) fn on_acknowledged(
        &mut self,
        now: Instant,
        bytes: u64,
        in_flight: u64,
        unit: usize,
        round_trip: Duration,
    ) {
        let (bytes, in_flight, unit) = (bytes as f64, in_flight as f64, unit as f64);
        // A window that is not used shows nothing about the path (RFC 9002 §7.8). In slow start
        // half of it is enough, as the other half is what the last round trip has added.
        if self.window < self.threshold {
            if in_flight * 2.0 >= self.window {
                self.window += bytes;
            }
        } else if in_flight + unit > self.window {
            self.avoid(now, bytes, unit, round_trip);
        }
    }

    /// Notes that a datagram sent at `sent_at` is lost.
    pub(crate) fn on_lost(&mut self, now: Instant, sent_at: Instant, unit: usize) {
        if self.answered.is_some_and(|answered| sent_at <= answered) {
            return;
        }
        self.decrease(now, unit as f64);
        self.window = self.threshold;
    }

    /// Notes a retransmission time-out: nothing in flight was acknowledged.
    pub(crate) fn on_time_out(&mut self, now: Instant, unit: usize) {
        self.decrease(now, unit as f64);
        // The loss window of RFC 5681 §3.1.
        self.window = unit as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::start, *};

    const UNIT: usize = 1000;
    const ROUND_TRIP: Duration = Duration::from_millis(100);

    /// Simulates round trips in each of which a whole window is acknowledged; returns the window
    /// after each, in datagrams.
    fn rounds(congestion: &mut Cubic, from: u64, count: u64) -> Vec<f64> {
        (from..from + count)
            .map(|round| {
                let now = start() + ROUND_TRIP * round as u32;
                let window = congestion.window();
                for _ in 0..window / UNIT as u64 {
                    // The sender fills the window as it grows.
                    let in_flight = congestion.window();
                    congestion.on_acknowledged(now, UNIT as u64, in_flight, UNIT, ROUND_TRIP);
                }
                congestion.window() as f64 / UNIT as f64
            })
            .collect()
    }

    #[test]
    fn slow_start_doubles_and_loss_reduces_window_once_per_round_trip() {
        let mut congestion = Cubic::new(UNIT);
        assert_eq!(rounds(&mut congestion, 0, 3), [20.0, 40.0, 80.0]);
        let at = |ms: u64| start() + Duration::from_millis(ms);
        congestion.on_lost(at(300), at(250), UNIT);
        congestion.on_lost(at(310), at(260), UNIT);
        assert_eq!(congestion.window(), 56_000);
        congestion.on_lost(at(400), at(301), UNIT);
        assert_eq!(congestion.window(), 39_200);
        assert_eq!(congestion.events, 2);
    }

    #[test]
    fn cubic_window_recovers_after_k_and_plateaus() {
        let mut congestion = Cubic {
            window: 1000.0 * UNIT as f64,
            threshold: 0.0,
            ..Cubic::new(UNIT)
        };
        congestion.on_lost(start() + Duration::from_nanos(1), start(), UNIT);
        assert_eq!(congestion.window(), 700_000);
        // K = cbrt(300 / 0.4) = 9.09 s: 91 round trips.
        let windows = rounds(&mut congestion, 0, 100);
        assert!(windows.windows(2).all(|pair| pair[1] >= pair[0]));
        assert!((850.0..990.0).contains(&windows[45]), "{}", windows[45]);
        assert!((985.0..=1001.0).contains(&windows[90]), "{}", windows[90]);
        let around = windows[95] - windows[85];
        assert!(around < 2.0, "{around}");
    }

    #[test]
    fn timeout_resets_window_to_one_datagram_and_idle_window_does_not_grow() {
        let mut congestion = Cubic::new(UNIT);
        rounds(&mut congestion, 0, 3);
        congestion.on_time_out(start() + Duration::from_nanos(1), UNIT);
        assert_eq!(congestion.window(), UNIT as u64);
        congestion.on_acknowledged(
            start() + Duration::from_nanos(2),
            400,
            400,
            UNIT,
            ROUND_TRIP,
        );
        assert_eq!(congestion.window(), UNIT as u64);
        // Slow start until β of the window at the time-out.
        assert_eq!(rounds(&mut congestion, 1, 3), [2.0, 4.0, 8.0]);
    }

    #[test]
    fn initial_window_is_two_large_datagrams() {
        assert_eq!(Cubic::new(65_507).window(), 2 * 65_507);
        assert_eq!(Cubic::new(1400).window(), 14_000);
    }
}
