//! CPU time of the whole host, from `/proc/stat`.

use std::sync::LazyLock;

use nix::unistd::SysconfVar;

use crate::{file, process::system_setting};

/// Time of all cores together below which steps of 10 ms are too coarse.
const MIN_NS: i64 = 100_000_000;

/// CPU time of all cores since the host began, in steps of (mostly) 10 ms.
///
/// The kernel charges work to whatever runs when the timer ticks, so that the columns of busy time
/// miss most of what is shorter than a tick and ends before it, as the work for single packets is.
/// The kernel measures the time without work with the clock, however, so that busy time is what is left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostCpu {
    /// Idle, waiting for I/O, or taken by a hypervisor: in nanoseconds.
    pub free_ns: i64,
    /// Time in softirq, in nanoseconds; counted by ticks, thus about right over seconds at best.
    pub softirq_ns: i64,
}

impl HostCpu {
    /// Reads the line `cpu` of `/proc/stat`.
    #[must_use]
    pub fn parse(text: &[u8], tick_ns: i64) -> Option<Self> {
        let line = file::lines(text).next()?.strip_prefix(b"cpu ")?;
        let [.., idle, iowait, _irq, softirq, steal] = times(line, tick_ns)?;
        Some(Self {
            free_ns: idle + iowait + steal,
            softirq_ns: softirq,
        })
    }

    /// Returns the share of the time of all cores that was busy since an earlier reading, at most
    /// 1; `None` where the kernel's steps are too coarse for so short a time.
    #[must_use]
    pub fn busy_ratio(&self, earlier: &Self, elapsed_ns: i64, cores: u32) -> Option<f64> {
        let free = share(self.free_ns - earlier.free_ns, elapsed_ns, cores)?;
        Some((1.0 - free).clamp(0.0, 1.0))
    }

    /// Returns the share of the time of all cores that was spent in softirq since an earlier
    /// reading, at most 1; `None` as with [`HostCpu::busy_ratio`].
    #[must_use]
    pub fn softirq_ratio(&self, earlier: &Self, elapsed_ns: i64, cores: u32) -> Option<f64> {
        let softirq = share(self.softirq_ns - earlier.softirq_ns, elapsed_ns, cores)?;
        Some(softirq.clamp(0.0, 1.0))
    }
}

/// Reads the times of a line of `/proc/stat` after its name, in nanoseconds: user, nice, system, idle, iowait,
/// irq, softirq, steal. Each is so small that the sum of three fits.
#[must_use]
pub fn times(line: &[u8], tick_ns: i64) -> Option<[i64; 8]> {
    let mut ticks = file::numbers(line);
    let mut times = [0; 8];
    for time in &mut times {
        let ns = i64::try_from(ticks.next()?).ok()?.checked_mul(tick_ns)?;
        *time = Some(ns).filter(|ns| *ns <= i64::MAX / 4)?;
    }
    Some(times)
}

fn share(part_ns: i64, elapsed_ns: i64, cores: u32) -> Option<f64> {
    let all_ns = elapsed_ns.saturating_mul(cores.into());
    (all_ns >= MIN_NS).then(|| part_ns as f64 / all_ns as f64)
}

/// Reads the host's CPU time from `/proc/stat`.
pub(crate) fn read(stat: &mut file::ProcFile) -> Option<HostCpu> {
    HostCpu::parse(stat.read_start(512).ok()?, tick_ns())
}

/// Returns the unit of the times in `/proc/stat`, in nanoseconds.
#[must_use]
pub fn tick_ns() -> i64 {
    1_000_000_000 / system_setting(SysconfVar::CLK_TCK, 1) as i64
}

/// Returns the number of cores that were online at the first call; at least 1. The C library reads a file for
/// each answer, which would cost as much as a sample's other readings.
#[must_use]
pub fn cores() -> u32 {
    static CORES: LazyLock<u32> = LazyLock::new(|| {
        let online = system_setting(SysconfVar::_NPROCESSORS_ONLN, 1);
        u32::try_from(online).unwrap_or(1)
    });
    *CORES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_time_excludes_idle_iowait_and_steal() {
        let tick_ns = 10_000_000;
        let before = HostCpu::parse(b"cpu  100 10 50 9000 800 3 7 600 40 0\n", tick_ns).unwrap();
        assert_eq!(before.free_ns, (9000 + 800 + 600) * tick_ns);
        assert_eq!(before.softirq_ns, 7 * tick_ns);
        // Two cores for a second: 200 ticks, of which 120 were free, though 30 busy ones were seen.
        let after = b"cpu  120 10 59 9090 815 3 8 615 40 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        let after = HostCpu::parse(after, tick_ns).unwrap();
        assert_eq!(after.busy_ratio(&before, 1_000_000_000, 2), Some(0.4));
        assert_eq!(after.softirq_ratio(&before, 1_000_000_000, 2), Some(0.005));
        // The steps of the kernel's count are no reason for less than nothing.
        assert_eq!(after.busy_ratio(&before, 500_000_000, 2), Some(0.0));
        // Without a step the host would look as busy as can be.
        assert_eq!(before.busy_ratio(&before, 50_000_000, 2), Some(1.0));
        assert_eq!(before.busy_ratio(&before, 49_000_000, 2), None);
        assert_eq!(before.softirq_ratio(&before, 0, 2), None);
    }

    #[test]
    fn malformed_file_yields_nothing() {
        for text in [
            &b""[..],
            b"cpu",
            b"cpu  1 2",
            b"cpu  a b c d e f g",
            b"\xff\xfe",
            b"cpu 1 2 3 4 5 6 18446744073709551616",
            b"cpu 1 2 3 18446744073709551615 18446744073709551615 6 7 8",
        ] {
            assert_eq!(HostCpu::parse(text, 10_000_000), None, "{text:?}");
        }
    }

    #[test]
    fn free_time_of_this_host_is_read() {
        let mut stat = file::ProcFile::open("/proc/stat").unwrap();
        assert!(super::read(&mut stat).unwrap().free_ns > 0);
    }
}
