//! Clocks, and waking up when they say so.

use std::time::Duration;

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for one `timespec`.
    unsafe { libc::clock_gettime(clock, &mut time) };
    // All clocks read here count up from zero or from the Unix epoch.
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The monotonic clock, in nanoseconds.
pub(crate) fn monotonic_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// The wall clock, in nanoseconds since the Unix epoch. Only to date things, and beside the
/// kernel's receive time stamps, which are on this clock.
pub(crate) fn unix_ns() -> u64 {
    read(libc::CLOCK_REALTIME)
}

/// CPU time of this process, all threads, in nanoseconds.
pub(crate) fn process_cpu_ns() -> u64 {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// A span for the kernel.
pub(crate) fn timespec(value: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: i64::try_from(value.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(value.subsec_nanos()),
    }
}

/// `struct sched_attr` of the kernel, version 0.
#[repr(C)]
struct SchedulingAttributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// Names an environment variable that replaces what [`be_punctual`] asks for, to measure what each is
/// worth: words of `slack`, `real-time`, `short-turns` and `busy-poll`, separated by commas.
const PUNCTUALITY: &str = "REGATTA_PUNCTUALITY";

fn is_asked(word: &str) -> bool {
    let words = std::env::var(PUNCTUALITY);
    let words = words.as_deref().unwrap_or("slack,real-time,short-turns");
    words.split(',').any(|asked| asked == word)
}

/// Whether the forwarder polls busily instead of sleeping: a core for it alone, which only
/// [`PUNCTUALITY`] asks for.
pub(crate) fn polls_busily() -> bool {
    is_asked("busy-poll")
}

/// Asks the kernel to wake the calling thread exactly when it asked, as far as this user may.
pub(crate) fn be_punctual() {
    if is_asked("slack") {
        // SAFETY: takes numbers only. The unit is nanoseconds; the default slack is 50 µs.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1u64) };
    }
    let real_time = is_asked("real-time") && become_real_time();
    if is_asked("short-turns") && !real_time {
        take_short_turns();
    }
}

/// Has the calling thread go before all that are not real-time ones; whether that is allowed.
fn become_real_time() -> bool {
    let lowest = libc::sched_param { sched_priority: 1 };
    // SAFETY: 0 is the calling thread and `lowest` a valid parameter.
    let done = unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &lowest)
    };
    done == 0
}

fn take_short_turns() {
    // An ordinary user may still ask for short turns, which come sooner (Linux 6.12; before that
    // the kernel overlooks it).
    let short_turns = SchedulingAttributes {
        size: size_of::<SchedulingAttributes>() as u32,
        policy: libc::SCHED_OTHER as u32,
        flags: 0,
        nice: 0,
        priority: 0,
        runtime_ns: 100_000,
        deadline_ns: 0,
        period_ns: 0,
    };
    // SAFETY: 0 is the calling thread; the structure is valid and states its size.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &short_turns, 0) };
}
