//! CPU time of the whole host, from `/proc/stat`.

use crate::{TelemetryError, file};

/// CPU time of all cores since the host began. The kernel counts in ticks of (mostly) 10 ms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostCpu {
    /// Everything but idle, waiting for I/O, and time that a hypervisor took: in nanoseconds.
    pub busy_ns: i64,
    /// Of it, in softirq, in nanoseconds.
    pub softirq_ns: i64,
}

impl HostCpu {
    /// Reads the line `cpu` of `/proc/stat`.
    ///
    /// Guest time is part of user time there, and is not counted twice.
    #[must_use]
    pub fn parse(text: &[u8], tick_ns: i64) -> Option<Self> {
        let line = file::lines(text)
            .next()?
            .strip_prefix(b"cpu ")?
            .trim_ascii();
        let mut ticks = file::numbers(line);
        let [user, nice, system, _idle, _iowait, irq, softirq] =
            std::array::from_fn(|_| ticks.next());
        let ns = |ticks: u64| i64::try_from(ticks).ok()?.checked_mul(tick_ns);
        // Interrupt columns are missing in kernels from before 2.6 only.
        let softirq = softirq?;
        Some(Self {
            busy_ns: ns(user? + nice? + system? + irq? + softirq)?,
            softirq_ns: ns(softirq)?,
        })
    }
}

/// The host's CPU time, read from one open file.
#[derive(Debug)]
pub(crate) struct HostCpuFile {
    file: file::ProcFile,
    tick_ns: i64,
}

impl HostCpuFile {
    pub(crate) fn open() -> Result<Self, TelemetryError> {
        // SAFETY: takes no pointer.
        let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
        Ok(Self {
            file: file::ProcFile::open("/proc/stat")?,
            tick_ns: 1_000_000_000 / per_second.max(1),
        })
    }

    pub(crate) fn read(&mut self) -> Option<HostCpu> {
        HostCpu::parse(self.file.read_start(512).ok()?, self.tick_ns)
    }
}

/// Number of cores that are online; at least 1.
#[must_use]
pub fn cores() -> u32 {
    // SAFETY: takes no pointer.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    u32::try_from(online).unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_waiting_and_stolen_time_are_not_busy_and_guests_not_counted_twice() {
        let text = b"cpu  100 10 50 9000 800 3 7 600 40 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        let cpu = HostCpu::parse(text, 10_000_000).unwrap();
        assert_eq!(cpu.busy_ns, (100 + 10 + 50 + 3 + 7) * 10_000_000);
        assert_eq!(cpu.softirq_ns, 70_000_000);
    }

    #[test]
    fn an_odd_file_gives_nothing() {
        for text in [
            &b""[..],
            b"cpu",
            b"cpu  1 2",
            b"cpu  a b c d e f g",
            b"\xff\xfe",
            b"cpu 1 2 3 4 5 6 18446744073709551616",
        ] {
            assert_eq!(HostCpu::parse(text, 10_000_000), None, "{text:?}");
        }
    }

    #[test]
    fn this_host_has_used_some() {
        assert!(HostCpuFile::open().unwrap().read().unwrap().busy_ns > 0);
    }
}
