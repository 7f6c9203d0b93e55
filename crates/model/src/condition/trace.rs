//! Delivery opportunities, as Mahimahi records them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::units::{BitRate, UnitError, beginning};

/// Opportunities to deliver a packet, as Mahimahi's traces list them: at each of these times the
/// link carries up to 1504 bytes. The list is repeated from its beginning when it ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryTrace {
    /// Name of the source file, for display.
    pub name: String,
    /// Milliseconds since the beginning, never decreasing; the last one is the period.
    pub opportunities_ms: Vec<u32>,
}

impl DeliveryTrace {
    /// Maximum number of bytes that one opportunity carries.
    pub const OPPORTUNITY_BYTES: u64 = 1504;

    /// Number of bytes that each packet counts beside its own: the header with which Mahimahi's
    /// device hands packets over, so that one opportunity carries exactly one packet of 1500 bytes.
    pub const PACKET_HEADER_BYTES: u64 = 4;

    /// Maximum number of opportunities in one trace.
    pub const MAX: usize = 1_000_000;

    /// Parses a trace: one whole number of milliseconds per line, never decreasing, the last one
    /// above zero. `name` is for display.
    ///
    /// # Errors
    /// [`UnitError`] with the line that is wrong.
    pub fn parse(name: &str, text: &str) -> Result<Self, UnitError> {
        const HINT: &str = "a trace has one whole number of milliseconds a line, as `mm-link` takes it: when a packet can be delivered";
        let wrong = |message| UnitError::new(message, HINT);
        let mut opportunities_ms = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let number = number + 1;
            let Ok(at) = line.trim().parse::<u32>() else {
                let shown = beginning(line);
                return Err(wrong(format!(
                    "line {number} of the trace `{name}` is no time in milliseconds: `{shown}`"
                )));
            };
            let last = opportunities_ms.last().copied().unwrap_or(0);
            if at < last {
                return Err(wrong(format!(
                    "line {number} of the trace `{name}` goes back in time, from {last} to {at}"
                )));
            }
            if opportunities_ms.len() == Self::MAX {
                return Err(wrong(format!(
                    "the trace `{name}` has more than {} lines",
                    Self::MAX
                )));
            }
            opportunities_ms.push(at);
        }
        match opportunities_ms.last() {
            None => Err(wrong(format!("the trace `{name}` is empty"))),
            Some(0) => Err(wrong(format!(
                "the trace `{name}` lasts no time: its last line is 0"
            ))),
            Some(_) => Ok(Self {
                name: name.to_owned(),
                opportunities_ms,
            }),
        }
    }

    /// Returns the time after which the trace repeats, in milliseconds.
    #[must_use]
    pub fn period_ms(&self) -> u32 {
        self.opportunities_ms.last().copied().unwrap_or(0)
    }

    /// Returns the mean rate of the trace, if every opportunity carries a packet of 1500 bytes.
    #[must_use]
    pub fn mean_rate(&self) -> BitRate {
        let bytes = Self::OPPORTUNITY_BYTES - Self::PACKET_HEADER_BYTES;
        let bits = self.opportunities_ms.len() as u64 * bytes * 8;
        BitRate(bits * 1000 / u64::from(self.period_ms().max(1)))
    }

    /// Returns the number of opportunities from the beginning of the trace until `time` after it.
    #[must_use]
    pub fn opportunities_by(&self, time: Duration) -> u64 {
        let time_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let period_ms = u64::from(self.period_ms()).max(1);
        let rest = time_ms % period_ms;
        let of_rest = self
            .opportunities_ms
            .partition_point(|at| u64::from(*at) <= rest);
        let count = self.opportunities_ms.len() as u64;
        let of_periods = (time_ms / period_ms).saturating_mul(count);
        of_periods.saturating_add(of_rest as u64)
    }

    /// Returns the largest number of opportunities within `time`, from any moment on.
    #[must_use]
    pub fn most_opportunities_in(&self, time: Duration) -> u64 {
        let count = self.opportunities_ms.len();
        let time_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let period_ms = u64::from(self.period_ms()).max(1);
        let rest = time_ms % period_ms;
        let at = |index: usize| {
            let periods = (index / count) as u64;
            u64::from(self.opportunities_ms[index % count]) + periods * period_ms
        };
        let mut most = 0;
        let mut end = 0;
        // The best moment to begin is that of an opportunity.
        for first in 0..count {
            while end < 2 * count && at(end) - at(first) <= rest {
                end += 1;
            }
            most = most.max(end - first);
        }
        let of_periods = (time_ms / period_ms).saturating_mul(count as u64);
        of_periods.saturating_add(most as u64)
    }

    /// Returns the longest time that this number of opportunities takes to come, from any moment on.
    #[must_use]
    pub fn longest_time_of(&self, opportunities: u64) -> Duration {
        let count = self.opportunities_ms.len() as u64;
        // The moment of an opportunity, counted on from one repetition to the next.
        let at = |number: u64| {
            let of_period = self.opportunities_ms[(number % count) as usize];
            let periods = u64::from(self.period_ms()).saturating_mul(number / count);
            periods.saturating_add(of_period.into())
        };
        // The worst moment to begin is just after an opportunity.
        let times = (0..count).map(|missed| at(missed.saturating_add(opportunities)) - at(missed));
        Duration::from_millis(times.max().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_time_of_opportunities_is_that_of_the_worst_moment() {
        let trace = DeliveryTrace::parse("t", "0\n0\n5\n10\n40\n").unwrap();
        let times =
            [0, 1, 2, 3, 4, 5, 6, 10].map(|number| trace.longest_time_of(number).as_millis());
        // The worst moments for one to four of them are after 10, 5, 0 and 0 ms; five take a period.
        assert_eq!(times, [0, 30, 35, 40, 40, 40, 70, 80]);
        assert!(trace.longest_time_of(u64::MAX) > Duration::from_secs(1 << 40));
    }

    #[test]
    fn opportunities_are_counted_from_the_beginning_and_from_the_best_moment() {
        let trace = DeliveryTrace::parse("t", "0\n0\n5\n10\n40\n").unwrap();
        let times = [0, 4, 10, 39, 40, 45, 80].map(Duration::from_millis);
        let by = times.map(|time| trace.opportunities_by(time));
        assert_eq!(by, [2, 2, 4, 4, 7, 8, 12]);
        let most = times.map(|time| trace.most_opportunities_in(time));
        // At 40 ms the last opportunity of a repetition and the first two of the next come at once.
        assert_eq!(most, [3, 3, 5, 5, 8, 9, 13]);
    }

    #[test]
    fn a_trace_is_read_as_mahimahi_reads_it() {
        let trace = DeliveryTrace::parse("t", "0\n0\n5\n10\n").unwrap();
        assert_eq!(trace.opportunities_ms, [0, 0, 5, 10]);
        // Four packets in 10 ms.
        assert_eq!(trace.mean_rate(), BitRate(4_800_000));
        for (text, expected) in [
            ("", "is empty"),
            ("0\n0\n", "lasts no time"),
            ("5\n4\n", "line 2 of the trace `t` goes back in time"),
            ("5\n\n", "line 2 of the trace `t` is no time"),
            ("1\n-2\n", "is no time"),
            ("\u{0}\u{1}PNG", "is no time"),
        ] {
            let error = DeliveryTrace::parse("t", text).unwrap_err();
            assert!(error.message.contains(expected), "{error}");
        }
    }
}
