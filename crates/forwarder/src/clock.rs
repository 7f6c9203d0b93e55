//! Clocks, and settings with which the kernel wakes a thread on time.

use std::time::Duration;

use nix::{sys::time::TimeSpec, time::ClockId};
use regatta_model::units::nanoseconds;

fn read(clock: ClockId) -> u64 {
    // Every kernel has the clocks that are read here. They count up from zero or from the Unix epoch.
    let time = clock.now().unwrap_or(TimeSpec::new(0, 0));
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

/// Returns the time of the monotonic clock, in nanoseconds.
pub fn monotonic_ns() -> u64 {
    read(ClockId::CLOCK_MONOTONIC)
}

/// Whether the clock of this system is virtual, as in a guest that the kernel's parameter makes so.
#[must_use]
pub fn is_virtual() -> bool {
    let parameters = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
    parameters.contains("time-travel=inf-cpu")
}

/// Returns the time of the wall clock, in nanoseconds since the Unix epoch. Only to date things,
/// and beside the kernel's receive time stamps, which are on this clock.
pub fn unix_ns() -> u64 {
    read(ClockId::CLOCK_REALTIME)
}

/// Returns the CPU time of this process, all threads, in nanoseconds.
pub fn process_cpu_ns() -> u64 {
    read(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}

/// Returns the CPU time of the calling thread, in nanoseconds.
fn thread_cpu_ns() -> u64 {
    read(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// Environment variable that replaces the settings of [`wake_on_time`], to measure the effect of
/// each: names out of `slack`, `real-time`, `rests`, `short-slices`, `coalescing` and `busy-poll`,
/// separated by commas.
const SCHEDULING: &str = "REGATTA_FORWARDER_SCHEDULING";

fn is_enabled(setting: &str) -> bool {
    let settings = std::env::var(SCHEDULING);
    let settings = settings
        .as_deref()
        .unwrap_or("slack,real-time,rests,short-slices,coalescing");
    settings.split(',').any(|name| name == setting)
}

/// Whether the forwarder polls busily instead of sleeping. It then needs a core for itself, so it
/// does so only if [`SCHEDULING`] asks for it.
pub fn polls_busily() -> bool {
    is_enabled("busy-poll")
}

/// Reduces the timer slack of the calling thread and raises its scheduling priority, as far as this user is allowed to.
/// Returns a throttle if the thread is a real-time one now, which must sleep in each turn; `None` otherwise.
pub fn wake_on_time() -> Option<RealTimeThrottle> {
    if is_enabled("slack") {
        // SAFETY: takes numbers only. The unit is nanoseconds; the default slack is 50 µs.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1u64) };
    }
    let real_time = is_enabled("real-time") && become_real_time();
    if is_enabled("short-slices") && !real_time {
        take_short_slices();
    }
    // With a virtual clock work takes no time, and a thread's CPU time, which has the grain of a tick, jumps.
    (real_time && is_enabled("rests") && !is_virtual()).then(|| RealTimeThrottle {
        turn_began: monotonic_ns(),
        cpu_ns: thread_cpu_ns(),
    })
}

/// Rests of a real-time thread that has more to do than it has time for.
///
/// Kernels before 6.12, and later ones with `CONFIG_RT_GROUP_SCHED`, leave real-time threads 950 ms of each
/// second of a processor (`sched_rt_runtime_us`) and then stop them for 50 ms, even if the processor idles.
/// A thread that sleeps for a little more than 5 % of each short turn is never stopped.
#[derive(Debug)]
pub struct RealTimeThrottle {
    turn_began: u64,
    /// CPU time of the thread at the beginning of the turn, in nanoseconds.
    cpu_ns: u64,
}

/// Length of a turn, in nanoseconds.
const TURN_NS: u64 = 5_000_000;

/// Minimum time that a thread sleeps in each turn, in nanoseconds.
const REST_NS: u64 = 300_000;

impl RealTimeThrottle {
    /// Returns for how long the calling thread has to sleep `now`.
    pub fn due(&mut self, now: u64) -> Option<Duration> {
        let turn_ended = now >= self.turn_began + TURN_NS;
        turn_ended.then(|| self.end_turn(now, thread_cpu_ns()))?
    }

    fn end_turn(&mut self, now: u64, cpu_ns: u64) -> Option<Duration> {
        let slept = (now - self.turn_began).saturating_sub(cpu_ns - self.cpu_ns);
        let rest = REST_NS.saturating_sub(slept);
        *self = Self {
            turn_began: now + rest,
            cpu_ns,
        };
        (rest > 0).then(|| Duration::from_nanos(rest))
    }
}

/// Coalescing of a thread's wake-ups under load, as network cards coalesce interrupts.
///
/// To sleep until the next packet is due costs more than to carry the packet: in a virtual machine each
/// timer that is set is an exit to the hypervisor. A thread that carries [`BUSY_PACKETS`] or more in a
/// [`WINDOW_NS`] therefore wakes once in a time that fits the path, and packets leave by that much later at most.
#[derive(Debug, Default)]
pub struct Coalescing {
    /// Time from a coalesced wake-up to the next, in nanoseconds.
    between_ns: u64,
    window_began: u64,
    packets: u32,
    is_busy: bool,
    woke: u64,
}

/// Length of the window in which packets are counted, in nanoseconds.
const WINDOW_NS: u64 = 1_000_000;

/// Number of packets in a [`WINDOW_NS`] from which wake-ups are coalesced: 500 Mbit/s of packets of 1500 bytes.
const BUSY_PACKETS: u32 = 42;

/// Ratio of the path's one-way delay to the time between two coalesced wake-ups.
const OF_DELAY: u32 = 100;

/// Minimum and maximum of the time between two coalesced wake-ups.
const BETWEEN: [Duration; 2] = [Duration::from_micros(50), Duration::from_micros(500)];

impl Coalescing {
    /// Creates the state, unless the clock is virtual: sleep costs nothing there.
    pub fn new() -> Option<Self> {
        (is_enabled("coalescing") && !is_virtual()).then(Self::default)
    }

    /// Sets the time between wake-ups for a path with the one-way delay `delay`.
    pub fn fit(&mut self, delay: Duration) {
        let [least, most] = BETWEEN;
        self.between_ns = nanoseconds((delay / OF_DELAY).clamp(least, most));
    }

    /// Counts a packet that was read `now`.
    pub fn count(&mut self, now: u64) {
        let since = now.saturating_sub(self.window_began);
        if since >= WINDOW_NS {
            self.is_busy = self.packets >= BUSY_PACKETS && since < 2 * WINDOW_NS;
            (self.window_began, self.packets) = (now, 0);
        }
        self.packets += 1;
    }

    /// Notes that the thread woke up `now`.
    pub fn woke(&mut self, now: u64) {
        self.woke = now;
    }

    /// Returns for how long the thread has to sleep `now`, before it waits for packets.
    pub fn pause(&self, now: u64) -> Option<Duration> {
        let remaining = (self.woke + self.between_ns).saturating_sub(now);
        (self.is_busy && remaining > 0).then(|| Duration::from_nanos(remaining))
    }
}

/// Gives the calling thread the lowest real-time priority (`SCHED_FIFO`); returns whether that is
/// allowed.
fn become_real_time() -> bool {
    let lowest = libc::sched_param { sched_priority: 1 };
    // SAFETY: 0 is the calling thread and `lowest` a valid parameter.
    let done = unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &lowest)
    };
    done == 0
}

fn take_short_slices() {
    // An ordinary user may still ask for short slices, which come sooner (Linux 6.12; before that
    // the kernel overlooks it).
    // SAFETY: all zeros are a valid structure.
    let mut short_slices: libc::sched_attr = unsafe { std::mem::zeroed() };
    short_slices.size = size_of_val(&short_slices) as u32;
    short_slices.sched_policy = libc::SCHED_OTHER as u32;
    short_slices.sched_runtime = 100_000;
    // SAFETY: 0 is the calling thread; the structure is valid and states its size.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &short_slices, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wake_ups_are_coalesced_under_load_only() {
        let mut coalescing = Coalescing::default();
        coalescing.fit(Duration::from_millis(1));
        let between = 50_000;
        let mut pause_after = |from: u64, packets: u64, interval: u64| {
            (0..packets).for_each(|number| coalescing.count(from + number * interval));
            let now = from + packets * interval;
            coalescing.woke(now);
            let pauses = [now + 20_000, now + between].map(|at| coalescing.pause(at));
            assert_eq!(pauses[1], None);
            pauses[0]
        };
        // 100 Mbit/s, 1 Gbit/s, and one packet after a silence.
        assert_eq!(pause_after(0, 1000, 120_000), None);
        let remaining = Some(Duration::from_nanos(between - 20_000));
        assert_eq!(pause_after(1_000_000_000, 1000, 12_000), remaining);
        assert_eq!(pause_after(2_000_000_000, 1, 12_000), None);
    }

    #[test]
    fn wake_ups_are_rarer_on_a_longer_path() {
        let mut coalescing = Coalescing::default();
        for (delay_ms, between_us) in [(0, 50), (10, 100), (150, 500)] {
            coalescing.fit(Duration::from_millis(delay_ms));
            (0..=WINDOW_NS / 10_000)
                .for_each(|number| coalescing.count(WINDOW_NS + number * 10_000));
            let now = 2 * WINDOW_NS;
            coalescing.woke(now);
            let pause = coalescing.pause(now);
            assert_eq!(
                pause,
                Some(Duration::from_micros(between_us)),
                "{delay_ms} ms"
            );
        }
    }

    #[test]
    fn a_turn_holds_a_rest_of_six_percent() {
        let mut rests = RealTimeThrottle {
            turn_began: 0,
            cpu_ns: 70,
        };
        assert_eq!(rests.due(TURN_NS - 1), None);
        // Busy throughout; the next turn begins after the rest.
        let rest = Some(Duration::from_nanos(REST_NS));
        assert_eq!(rests.end_turn(TURN_NS, 70 + TURN_NS), rest);
        let began = TURN_NS + REST_NS;
        assert_eq!(rests.due(began + TURN_NS - 1), None);
        // What it slept by itself counts.
        let cpu_ns = 70 + 2 * TURN_NS - REST_NS + 1;
        let one = Some(Duration::from_nanos(1));
        assert_eq!(rests.end_turn(began + TURN_NS, cpu_ns), one);
        let began = began + TURN_NS + 1;
        assert_eq!(rests.end_turn(began + 2 * TURN_NS, cpu_ns + TURN_NS), None);
    }
}
