//! The monotonic clock.

/// Returns this host's `CLOCK_MONOTONIC`, in nanoseconds: the clock of every edge and every sample.
#[must_use]
pub fn monotonic_ns() -> i64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Returns the time of `clock`, any of the kernel's clocks, in nanoseconds.
pub(crate) fn clock_ns(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for one timespec. The call cannot fail for the clocks that
    // this crate asks for; the time stays zero if it does.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
