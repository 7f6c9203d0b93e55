//! Lateness of packets: the time that they wait in a device before they are read, and the time by
//! which they leave after they were due.

use std::{fs::File, os::unix::fs::FileExt, time::Duration};

use regatta_model::units::nanoseconds;

/// Shortest wait that counts as sleep: in a shorter one a packet may have been there already.
const SHORTEST_SLEEP_NS: u64 = 50_000;

/// Lateness of the packets of one direction.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Lateness {
    pub(crate) sum_ns: u64,
    pub(crate) max_ns: u64,
    pub(crate) late: u64,
    /// Time after which a delivered packet counts as late, in nanoseconds.
    late_after_ns: u64,
    /// Lag of the last packet; see [`Lateness::enter`].
    lag_ns: u64,
    /// Time of reading the last packet that lagged: packets that arrived before it may have waited
    /// in the device behind that packet.
    lagging_until: u64,
}

impl Lateness {
    pub(crate) fn new(late_after: Duration) -> Self {
        Self {
            late_after_ns: nanoseconds(late_after),
            ..Self::default()
        }
    }

    /// Returns the lag of a packet that arrived at the device at `arrived` or later and was read at
    /// `read`: an upper bound of the time by which the bottleneck begins to send it later than if
    /// it had been read on arrival. Packets that may have waited behind it in the device are as
    /// late. `free` is when the bottleneck can send it; without a bottleneck the device is the
    /// queue, and nothing lags. All times are in nanoseconds.
    pub(crate) fn enter(&mut self, arrived: u64, read: u64, free: Option<u64>) -> u64 {
        let Some(free) = free else { return 0 };
        if arrived >= self.lagging_until {
            self.lag_ns = 0;
        }
        let starts = read.max(free);
        let lost = starts - free.max(arrived).min(starts);
        if lost > 0 {
            self.lag_ns = (self.lag_ns + lost).min(starts - arrived.min(starts));
            self.lagging_until = read;
        }
        self.lag_ns
    }

    /// Counts a packet that leaves `after_due_ns` after the due time that follows from the time at
    /// which it was read.
    pub(crate) fn leave(&mut self, after_due_ns: u64, lag_ns: u64) {
        let late = after_due_ns + lag_ns;
        self.sum_ns += late;
        self.max_ns = self.max_ns.max(late);
        self.late += u64::from(late > self.late_after_ns);
    }
}

/// Times, for each device, after which a packet that is read from it must have arrived.
#[derive(Debug)]
pub(crate) struct Arrivals {
    /// File with the kernel's account of the time for which the thread waited for a processor;
    /// `None` where it keeps none.
    account: Option<File>,
    waited_ns: u64,
    empty_at: [u64; 2],
}

impl Arrivals {
    /// Creates the state for the devices that the calling thread reads.
    pub(crate) fn new() -> Self {
        let mut arrivals = Self {
            account: File::open("/proc/thread-self/schedstat").ok(),
            waited_ns: 0,
            empty_at: [0; 2],
        };
        arrivals.waited();
        arrivals
    }

    /// Returns the time that the thread has waited for a processor since the last call, in
    /// nanoseconds.
    fn waited(&mut self) -> u64 {
        let mut text = [0; 64];
        let total = self.account.as_ref().and_then(|file| {
            let length = file.read_at(&mut text, 0).ok()?;
            let text = std::str::from_utf8(&text[..length]).ok()?;
            text.split_ascii_whitespace().nth(1)?.parse().ok()
        });
        let before = self.waited_ns;
        self.waited_ns = total.unwrap_or(before);
        self.waited_ns.saturating_sub(before)
    }

    /// Notes that a device was empty at `now`.
    pub(crate) fn empty(&mut self, device: usize, now: u64) {
        self.empty_at[device] = self.empty_at[device].max(now);
    }

    /// Notes that the thread waited from `from` until `now` for a packet of either device. If it
    /// slept, the first packet woke it, and the time since then was spent waiting for a processor.
    pub(crate) fn woke(&mut self, from: u64, now: u64) {
        let woken = now.saturating_sub(self.waited());
        if woken > from + SHORTEST_SLEEP_NS {
            self.empty(0, woken);
            self.empty(1, woken);
        }
    }

    /// Returns the earliest time at which a packet that is read from a device now can have arrived.
    pub(crate) fn earliest(&self, device: usize) -> u64 {
        self.empty_at[device]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_packet_that_waits_for_an_idle_bottleneck_lags() {
        let mut lateness = Lateness::default();
        // Read 3 ms after it arrived, at a bottleneck that was free before.
        assert_eq!(lateness.enter(10 * MS, 13 * MS, Some(9 * MS)), 3 * MS);
        // One that stood behind it is sent behind it, as late, whether others wait or not.
        assert_eq!(lateness.enter(10 * MS, 13 * MS, Some(14 * MS)), 3 * MS);
        assert_eq!(lateness.enter(12 * MS, 13 * MS, Some(u64::MAX)), 3 * MS);
        // One that came after it had been read is not.
        assert_eq!(lateness.enter(13 * MS, 14 * MS, Some(u64::MAX)), 0);
    }

    #[test]
    fn a_bottleneck_that_idles_again_and_again_adds_to_the_lag() {
        let mut lateness = Lateness::default();
        assert_eq!(lateness.enter(10 * MS, 12 * MS, Some(9 * MS)), 2 * MS);
        assert_eq!(lateness.enter(10 * MS, 14 * MS, Some(13 * MS)), 3 * MS);
        // Never more than the time since it arrived.
        assert_eq!(lateness.enter(13 * MS, 15 * MS, Some(14 * MS)), 2 * MS);
    }

    #[test]
    fn a_wait_that_the_queue_covers_is_no_lag() {
        let mut lateness = Lateness::default();
        // Sending of those before it goes on until 20 ms.
        assert_eq!(lateness.enter(10 * MS, 15 * MS, Some(20 * MS)), 0);
        // The bottleneck ran empty at 22 ms, while a packet waited since 18 ms.
        assert_eq!(lateness.enter(18 * MS, 24 * MS, Some(22 * MS)), 2 * MS);
        // Without a bottleneck the device is the queue.
        assert_eq!(lateness.enter(18 * MS, 24 * MS, None), 0);
    }

    #[test]
    fn waits_before_and_after_reading_are_added() {
        let mut lateness = Lateness::new(Duration::from_millis(2));
        lateness.leave(MS, MS);
        assert_eq!((lateness.late, lateness.max_ns), (0, 2 * MS));
        lateness.leave(MS, MS + 1);
        assert_eq!((lateness.late, lateness.sum_ns), (1, 4 * MS + 1));
    }

    #[test]
    fn a_packet_arrives_after_the_last_empty_read_of_its_device() {
        let mut arrivals = Arrivals {
            account: None,
            waited_ns: 0,
            empty_at: [0; 2],
        };
        arrivals.empty(0, 5 * MS);
        // No sleep: what is there came since then.
        arrivals.woke(6 * MS, 6 * MS + SHORTEST_SLEEP_NS);
        assert_eq!(arrivals.earliest(0), 5 * MS);
        arrivals.woke(7 * MS, 9 * MS);
        assert_eq!([arrivals.earliest(0), arrivals.earliest(1)], [9 * MS; 2]);
    }

    #[test]
    fn the_kernel_reports_the_processor_wait_of_a_thread() {
        let mut arrivals = Arrivals::new();
        assert!(arrivals.account.is_some());
        assert!(arrivals.waited_ns > 0 || arrivals.waited() < 1_000 * MS);
    }
}
