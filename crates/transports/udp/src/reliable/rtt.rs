//! Round-trip time and retransmission time-out.

use std::time::Duration;

/// Minimum retransmission time-out. RFC 6298 §2.4 says one second and lets an implementation that
/// has reasons choose less; this is Linux's for TCP.
const MIN: Duration = Duration::from_millis(200);

/// Clock granularity G of RFC 6298 §2.
const GRANULARITY: Duration = Duration::from_millis(1);

/// Smoothed round-trip time, its variation, and the retransmission time-out derived from them.
///
/// Source: RFC 6298 §2.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RoundTrip {
    /// Smoothed round-trip time (SRTT), once there is a measurement.
    pub smoothed: Option<Duration>,
    variation: Duration,
    /// Minimum measurement.
    pub least: Option<Duration>,
}

impl RoundTrip {
    /// Adds a measurement.
    pub(crate) fn sample(&mut self, time: Duration) {
        self.least = Some(self.least.map_or(time, |least| least.min(time)));
        match self.smoothed {
            None => {
                self.smoothed = Some(time);
                self.variation = time / 2;
            }
            Some(smoothed) => {
                self.variation = (self.variation * 3 + smoothed.abs_diff(time)) / 4;
                self.smoothed = Some((smoothed * 7 + time) / 8);
            }
        }
    }

    /// Returns the retransmission time-out (RTO); `first` as long as nothing is measured.
    pub(crate) fn retransmission_time(&self, first: Duration) -> Duration {
        match self.smoothed {
            None => first,
            Some(smoothed) => (smoothed + GRANULARITY.max(self.variation * 4)).max(MIN),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_estimate_follows_rfc_6298() {
        let ms = Duration::from_millis;
        let mut rtt = RoundTrip::default();
        assert_eq!(rtt.retransmission_time(ms(1000)), ms(1000));
        // 2.2: SRTT = R, RTTVAR = R/2, RTO = SRTT + 4 RTTVAR.
        rtt.sample(ms(400));
        assert_eq!(rtt.smoothed, Some(ms(400)));
        assert_eq!(rtt.retransmission_time(ms(1000)), ms(1200));
        // 2.3: RTTVAR = 3/4 · 200 + 1/4 · |400 − 480| = 170; SRTT = 7/8 · 400 + 1/8 · 480 = 410.
        rtt.sample(ms(480));
        assert_eq!(rtt.smoothed, Some(ms(410)));
        assert_eq!(rtt.retransmission_time(ms(1000)), ms(410 + 4 * 170));
        assert_eq!(rtt.least, Some(ms(400)));
        let mut short = RoundTrip::default();
        short.sample(Duration::from_micros(50));
        assert_eq!(short.retransmission_time(ms(1000)), MIN);
    }
}
