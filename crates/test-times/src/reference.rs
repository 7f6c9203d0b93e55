//! Speed of the machine while a test runs, beside that of the machine whose figures the budgets are.
//!
//! A processor that shares its core, caches or power with other work needs more CPU time for the same work, up to twice
//! as much. Each test therefore begins with a calculation that is always the same.

use std::{hint::black_box, time::Duration};

use nix::time::{ClockId, clock_gettime};

/// CPU time of [`calculation`] on the machine whose figures the budgets are, while all tests ran there: the median of
/// a run.
const REFERENCE: Duration = Duration::from_micros(960);

/// Numbers that the calculation sorts: 1 MiB, which is more than a core's own caches hold, in memory that is new.
const NUMBERS: usize = 1 << 17;

/// Returns the CPU time of a calculation that is the same in each process.
///
/// # Errors
/// Error of the kernel if it has no clock of the thread's CPU time.
pub fn calculation() -> nix::Result<Duration> {
    let before = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?;
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut numbers: Vec<u64> = (0..NUMBERS)
        .map(|_| {
            // Marsaglia's xorshift of 64 bits.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        })
        .collect();
    // Only the smaller half is put before the larger one: a full sort would take ten times as long.
    let middle = numbers.len() / 2;
    numbers.select_nth_unstable(middle);
    black_box(&numbers);
    let after = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?;
    Ok(Duration::from(after) - Duration::from(before))
}

/// Returns how many times the CPU time of the reference machine a calculation took: the median of several.
///
/// A value below 1 is a faster machine; without calculations it is 1.
pub fn slowness(mut calculations: Vec<Duration>) -> f64 {
    calculations.sort_unstable();
    let median = calculations.get(calculations.len() / 2);
    median.map_or(1.0, |median| median.as_secs_f64() / REFERENCE.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowness_is_that_of_the_median() {
        let of = |us: &[u64]| {
            let times = us.iter().map(|us| Duration::from_micros(*us));
            slowness(times.collect())
        };
        let reference = REFERENCE.as_micros().try_into().expect("less than an hour");
        assert_eq!(of(&[9 * reference, 2 * reference, reference]), 2.0);
        assert_eq!(of(&[]), 1.0);
    }

    #[test]
    fn a_calculation_takes_cpu_time() {
        assert!(calculation().expect("a clock") > Duration::from_micros(50));
    }
}
