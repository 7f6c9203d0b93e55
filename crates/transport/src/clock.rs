//! Monotonic clock of all measurements.

use std::{
    ops::{Add, Sub},
    time::Duration,
};

use nix::time::ClockId;
use regatta_model::units::signed_nanoseconds;

/// A moment on this host's `CLOCK_MONOTONIC`, in nanoseconds.
///
/// Two processes on one host read the same clock, in different namespaces too, so their moments
/// compare; moments of two hosts do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MonotonicTime(pub i64);

impl MonotonicTime {
    /// A moment that never comes.
    pub const NEVER: Self = Self(i64::MAX);

    /// Returns the current moment.
    #[must_use]
    pub fn now() -> Self {
        // Cannot fail for this clock.
        let now = ClockId::CLOCK_MONOTONIC.now();
        Self(now.map_or(0, |now| now.tv_sec() * 1_000_000_000 + now.tv_nsec()))
    }

    /// Returns the time from `earlier` to this moment; zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or_default())
    }

    /// Returns the time from now until this moment; zero if it has passed.
    #[must_use]
    pub fn remaining(self) -> Duration {
        self.since(Self::now())
    }

    /// Whether this moment has come.
    #[must_use]
    pub fn has_passed(self) -> bool {
        self <= Self::now()
    }
}

impl Add<Duration> for MonotonicTime {
    type Output = Self;

    /// Saturates at [`MonotonicTime::NEVER`].
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(signed_nanoseconds(span)))
    }
}

impl Sub for MonotonicTime {
    type Output = i64;

    /// Returns the signed difference in nanoseconds.
    fn sub(self, other: Self) -> i64 {
        self.0.saturating_sub(other.0)
    }
}
