//! The thread that takes the samples of a window, on a monotonic schedule.

use std::{sync::Arc, thread::JoinHandle, time::Duration};

use parking_lot::{Condvar, Mutex};
use regatta_model::{Series, units::signed_nanoseconds};

use crate::{
    clock::monotonic_ns,
    reading::{Gauges, Reading},
    series::{FlowSample, FlowSource, SeriesBuilder},
};

/// Schedule of samples: whole multiples of the interval after the window's start.
///
/// A sample that comes late does not shift those after it, and one that was missed is not taken
/// later in a burst: the next value then covers the longer interval. No two samples are closer than half
/// an interval: a rate over the few milliseconds after a late sample would be that of a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    start_ns: i64,
    interval_ns: i64,
}

impl Schedule {
    /// Shortest time between samples: below it the sampler would measure itself.
    pub const SHORTEST: Duration = Duration::from_millis(1);

    /// Makes a schedule from `start_ns` on the monotonic clock.
    #[must_use]
    pub fn new(start_ns: i64, interval: Duration) -> Self {
        let interval = interval.max(Self::SHORTEST);
        Self {
            start_ns,
            interval_ns: signed_nanoseconds(interval),
        }
    }

    /// Returns the first moment of the schedule that is at least half an interval after `now_ns`.
    #[must_use]
    pub fn next_after(self, now_ns: i64) -> i64 {
        let nearest = now_ns.saturating_add((self.interval_ns - 1) / 2);
        let passed = nearest.saturating_sub(self.start_ns).max(0) / self.interval_ns;
        self.start_ns
            .saturating_add((passed + 1).saturating_mul(self.interval_ns))
    }
}

/// Clock of the sampler; a test simulates it.
trait Clock {
    fn now_ns(&self) -> i64;

    /// Waits for the moment; returns false if the window has begun anew or ended before, or the sampler is dropped.
    fn wait_until(&self, moment_ns: i64) -> bool;
}

/// State shared by the session's threads and the sampler's thread.
#[derive(Debug, Default)]
struct Orders {
    /// Number of times that the window has begun: it may begin again before it ends.
    begun: u64,
    start: Option<Reading>,
    end: Option<(Reading, FlowSample)>,
    /// Maximum number of bytes in flight of any sample of the window that began last.
    max_bytes_in_flight: Option<u64>,
    cancelled: bool,
}

#[derive(Debug, Default)]
struct Shared {
    orders: Mutex<Orders>,
    changed: Condvar,
}

impl Shared {
    /// Changes the orders, and wakes the sampler's thread.
    fn change(&self, change: impl FnOnce(&mut Orders)) {
        change(&mut self.orders.lock());
        self.changed.notify_all();
    }

    /// Begins a window, and forgets the one before.
    fn begin(&self, start: Reading) {
        self.change(|orders| {
            orders.begun += 1;
            orders.start = Some(start);
            orders.max_bytes_in_flight = None;
        });
    }

    /// Updates the maximum from a sample of window number `begun`. A late sample of an earlier window is ignored.
    fn observe(&self, begun: u64, sample: &FlowSample) {
        let mut orders = self.orders.lock();
        if orders.begun == begun {
            orders.max_bytes_in_flight = orders.max_bytes_in_flight.max(sample.bytes_in_flight);
        }
    }
}

/// [`FlowSource`] wrapper that tracks the maximum of bytes in flight.
struct Observed<'a> {
    flow: &'a mut dyn FlowSource,
    shared: &'a Shared,
    begun: u64,
}

impl FlowSource for Observed<'_> {
    fn sample(&mut self, reading: &Reading) -> FlowSample {
        let sample = self.flow.sample(reading);
        self.shared.observe(self.begun, &sample);
        sample
    }
}

/// The monotonic clock, waiting until the orders change.
struct RealClock<'a> {
    shared: &'a Shared,
    /// Value of `Orders::begun` that the waiting window belongs to.
    begun: u64,
}

impl Clock for RealClock<'_> {
    fn now_ns(&self) -> i64 {
        monotonic_ns()
    }

    fn wait_until(&self, moment_ns: i64) -> bool {
        let mut orders = self.shared.orders.lock();
        loop {
            if orders.cancelled || orders.end.is_some() || orders.begun != self.begun {
                return false;
            }
            let left = moment_ns - monotonic_ns();
            if left <= 0 {
                return true;
            }
            let left = Duration::from_nanos(left.unsigned_abs());
            self.shared.changed.wait_for(&mut orders, left);
        }
    }
}

/// Takes samples on the schedule until the wait is broken.
fn take_samples(
    clock: &impl Clock,
    gauges: &mut impl Gauges,
    flow: &mut dyn FlowSource,
    schedule: Schedule,
    builder: &mut SeriesBuilder,
) {
    while clock.wait_until(schedule.next_after(clock.now_ns())) {
        let reading = gauges.read();
        let sample = flow.sample(&reading);
        builder.push(reading, sample);
    }
}

/// A thread that samples one window. It sleeps until [`Sampler::begin`], takes a sample at each
/// interval until [`Sampler::end`], and gives its series to [`Sampler::finish`]. Dropped, it ends without a result.
#[derive(Debug)]
pub struct Sampler {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Vec<Series>>>,
}

impl Sampler {
    /// Starts the thread, which sleeps until a window begins. `side` is the end's name in the series,
    /// `link_header_bytes` is subtracted from the mean size of packets, and memory is reserved for a window of the length
    /// `longest`. With `keeps_earlier` the series have the samples of windows that began before the last, such as a warm-up.
    ///
    /// # Errors
    /// The system's, if no thread can be made.
    pub fn spawn(
        mut gauges: impl Gauges + Send + 'static,
        mut flow: Box<dyn FlowSource>,
        interval: Duration,
        side: &'static str,
        link_header_bytes: u32,
        (longest, keeps_earlier): (Duration, bool),
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let orders = Arc::clone(&shared);
        // An hour at 100 ms; a longer series grows as it goes.
        let expected = (longest.as_nanos() / interval.as_nanos().max(1)).min(36_000) as usize + 1;
        let thread = std::thread::Builder::new().name("sampler".to_owned());
        let thread = thread.spawn(move || {
            let new_window = |start, flow, before: Option<SeriesBuilder>| match before {
                Some(mut earlier) if keeps_earlier => {
                    earlier.push(start, flow);
                    earlier
                }
                _ => SeriesBuilder::new(start, flow, link_header_bytes, expected),
            };
            let builder = run(&orders, &mut gauges, &mut *flow, interval, new_window);
            builder.map_or_else(Vec::new, |builder| builder.finish(side))
        })?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Begins the window with this reading. A second call begins it anew; what was sampled before
    /// is forgotten, unless [`Sampler::spawn`] was told to keep it.
    pub fn begin(&self, start: Reading) {
        self.shared.begin(start);
    }

    /// Ends the window with this reading and the transport's last sample, which the caller has taken: the transport may be
    /// gone when the sampler's thread runs. No sample is taken afterwards. Returns at once.
    pub fn end(&self, end: Reading, flow: FlowSample) {
        self.shared.change(|orders| {
            orders.max_bytes_in_flight = orders.max_bytes_in_flight.max(flow.bytes_in_flight);
            orders.end = Some((end, flow));
        });
    }

    /// Returns the most bytes in flight of any sample of the window so far; `None` where the
    /// transport does not report them.
    #[must_use]
    pub fn max_bytes_in_flight(&self) -> Option<u64> {
        self.shared.orders.lock().max_bytes_in_flight
    }

    /// Returns the series of the window, once it has ended; none if it never began or did not end.
    #[must_use]
    pub fn finish(mut self) -> Vec<Series> {
        self.shared
            .change(|orders| orders.cancelled = orders.end.is_none());
        // A panic of the sampler loses the series, not the trial.
        let series = self.thread.take().map(JoinHandle::join);
        series.and_then(Result::ok).unwrap_or_default()
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.shared.change(|orders| orders.cancelled = true);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Samples until a window ends, and returns the builder of its series; `None` without a window. `new_window` makes the
/// builder from the first reading and sample, and that of the window before.
fn run(
    shared: &Shared,
    gauges: &mut impl Gauges,
    flow: &mut dyn FlowSource,
    interval: Duration,
    new_window: impl Fn(Reading, FlowSample, Option<SeriesBuilder>) -> SeriesBuilder,
) -> Option<SeriesBuilder> {
    let mut window = None;
    loop {
        let mut orders = shared.orders.lock();
        while !orders.cancelled && orders.end.is_none() && orders.start.is_none() {
            shared.changed.wait(&mut orders);
        }
        if orders.cancelled {
            return None;
        }
        let (begun, start, end) = (orders.begun, orders.start.take(), orders.end);
        drop(orders);
        let mut flow = Observed {
            flow: &mut *flow,
            shared,
            begun,
        };
        if let Some(start) = start {
            window = Some(new_window(start, flow.sample(&start), window.take()));
        }
        let builder = window.as_mut()?;
        if let Some((end, last)) = end {
            // The rest of an interval is a sample of its own unless it is so short that counters
            // in ticks would only show their grain.
            let rest = end.monotonic_ns - builder.last_ns();
            let least = signed_nanoseconds(interval / 4);
            if builder.is_empty() || rest >= least {
                builder.push(end, last);
            }
            return window;
        }
        let clock = RealClock { shared, begun };
        let schedule = Schedule::new(builder.last_ns(), interval);
        take_samples(&clock, gauges, &mut flow, schedule, builder);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::process::ProcessCpu;

    struct Nothing;

    impl FlowSource for Nothing {
        fn sample(&mut self, _: &Reading) -> FlowSample {
            FlowSample::default()
        }
    }

    /// Clock whose waits end late by `lateness_ns`, in turn; after the last one the window has ended.
    struct Late<'a> {
        now_ns: &'a Cell<i64>,
        lateness_ns: &'a [i64],
        woken: Cell<usize>,
    }

    impl Clock for Late<'_> {
        fn now_ns(&self) -> i64 {
            self.now_ns.get()
        }

        fn wait_until(&self, moment_ns: i64) -> bool {
            let Some(late) = self.lateness_ns.get(self.woken.get()) else {
                return false;
            };
            self.woken.set(self.woken.get() + 1);
            self.now_ns.set(moment_ns + late);
            true
        }
    }

    /// A process that always uses half a core.
    struct HalfACore<'a>(&'a Cell<i64>);

    impl Gauges for HalfACore<'_> {
        fn read(&mut self) -> Reading {
            Reading {
                monotonic_ns: self.0.get(),
                process: ProcessCpu {
                    total_ns: self.0.get() / 2,
                    ..ProcessCpu::default()
                },
                ..Reading::default()
            }
        }
    }

    #[test]
    fn lateness_does_not_accumulate_and_missed_samples_are_skipped() {
        const MS: i64 = 1_000_000;
        let now = Cell::new(1_000 * MS);
        let clock = Late {
            now_ns: &now,
            lateness_ns: &[0, 30 * MS, 99 * MS, 250 * MS, 5 * MS],
            woken: Cell::new(0),
        };
        let mut gauges = HalfACore(&now);
        let mut builder = SeriesBuilder::new(gauges.read(), FlowSample::default(), 0, 8);
        let schedule = Schedule::new(now.get(), Duration::from_millis(100));
        take_samples(&clock, &mut gauges, &mut Nothing, schedule, &mut builder);
        let series = builder.finish("sender");
        let cpu = series.iter().find(|s| s.name == "cpu_ratio").unwrap();
        let at: Vec<i64> = cpu.t_ns.iter().map(|t| t / MS).collect();
        assert_eq!(at, [1100, 1230, 1399, 1750, 1805]);
        // However uneven the spacing, each value is over its own interval.
        assert!(cpu.values.iter().all(|&value| value == 0.5), "{cpu:?}");
    }

    #[test]
    fn schedule_never_returns_a_past_time() {
        let schedule = Schedule::new(5, Duration::from_millis(1));
        assert_eq!(schedule.next_after(-100), 1_000_005);
        assert_eq!(schedule.next_after(5), 1_000_005);
        assert_eq!(schedule.next_after(500_005), 1_000_005);
        assert_eq!(schedule.next_after(500_006), 2_000_005);
        assert_eq!(schedule.next_after(1_000_005), 2_000_005);
        assert_eq!(Schedule::new(0, Duration::MAX).next_after(0), i64::MAX);
    }

    #[test]
    fn max_bytes_in_flight_is_of_the_last_window() {
        let shared = Shared::default();
        let sample = |bytes| FlowSample {
            bytes_in_flight: bytes,
            ..FlowSample::default()
        };
        shared.begin(Reading::default());
        shared.observe(1, &sample(Some(900)));
        shared.begin(Reading::default());
        assert_eq!(shared.orders.lock().max_bytes_in_flight, None);
        // A sample that the thread took before the window began again.
        shared.observe(1, &sample(Some(900)));
        for bytes in [Some(10), Some(30), None, Some(20)] {
            shared.observe(2, &sample(bytes));
        }
        assert_eq!(shared.orders.lock().max_bytes_in_flight, Some(30));
    }

    /// The real thread, driven by edges: no figure here depends on how fast this host is.
    #[test]
    fn restarted_window_discards_earlier_samples() {
        struct Real;
        impl Gauges for Real {
            fn read(&mut self) -> Reading {
                Reading {
                    monotonic_ns: monotonic_ns(),
                    ..Reading::default()
                }
            }
        }
        let spawn = |interval| {
            let longest = Duration::from_secs(1);
            Sampler::spawn(
                Real,
                Box::new(Nothing),
                interval,
                "sender",
                0,
                (longest, false),
            )
            .unwrap()
        };
        let long = Duration::from_secs(3600);
        let sampler = spawn(long);
        sampler.begin(Real.read());
        let second = Real.read();
        sampler.begin(second);
        let end = Real.read();
        sampler.end(end, FlowSample::default());
        let series = sampler.finish();
        assert!(
            series
                .iter()
                .all(|series| series.t_ns == [end.monotonic_ns]),
            "{series:?}"
        );
        let never_begun = spawn(long);
        never_begun.end(Real.read(), FlowSample::default());
        assert!(never_begun.finish().is_empty());
        let never_ended = spawn(long);
        never_ended.begin(Real.read());
        assert!(never_ended.finish().is_empty());
        drop(spawn(long));

        let sampler = spawn(Duration::from_millis(5));
        let start = Real.read();
        sampler.begin(start);
        while monotonic_ns() < start.monotonic_ns + 500_000_000 {
            std::thread::sleep(Duration::from_millis(5));
        }
        sampler.end(Real.read(), FlowSample::default());
        let ended_ns = monotonic_ns();
        let series = sampler.finish();
        let times = &series[0].t_ns;
        assert!(times.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(times[0] >= start.monotonic_ns + 5_000_000);
        // At most one each 5 ms, and that of the end, which comes late where this thread is held up.
        let most = (ended_ns - start.monotonic_ns) / 5_000_000 + 1;
        assert!(times.len() > 1, "{times:?}");
        assert!(times.len() as i128 <= i128::from(most), "{times:?}: {most}");
    }
}
