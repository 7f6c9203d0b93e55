//! CPU time and memory of this process.

use std::{fs, sync::OnceLock, time::Duration};

use nix::{
    sys::{
        resource::{Usage, UsageWho, getrusage},
        time::{TimeVal, TimeValLike as _},
    },
    time::ClockId,
    unistd::{SysconfVar, sysconf},
};

use crate::{
    clock::{clock_ns, is_virtual},
    file,
};

/// CPU time that this process has used since it began, all threads, those that have ended
/// included; children are not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessCpu {
    /// Time in user mode, in nanoseconds.
    pub user_ns: i64,
    /// Time in the kernel on behalf of the process, in nanoseconds.
    pub system_ns: i64,
    /// Both together, in nanoseconds, from the scheduler's own account: exact where the kernel only
    /// estimates how it divides into user and system (by timer ticks).
    pub total_ns: i64,
}

impl ProcessCpu {
    /// Returns the CPU time used so far.
    ///
    /// The sum is `CLOCK_PROCESS_CPUTIME_ID`; user and system are `getrusage`'s. A thread that is
    /// running on another core at this moment is accounted up to its last timer tick.
    #[must_use]
    pub fn now() -> Self {
        let total_ns = clock_ns(ClockId::CLOCK_PROCESS_CPUTIME_ID);
        let usage = getrusage(UsageWho::RUSAGE_SELF);
        let ns =
            |time: fn(&Usage) -> TimeVal| usage.as_ref().map_or(0, |it| time(it).num_nanoseconds());
        Self {
            user_ns: ns(Usage::user_time),
            system_ns: ns(Usage::system_time),
            total_ns,
        }
    }

    /// Returns the CPU time used between `earlier` and this.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            user_ns: (self.user_ns - earlier.user_ns).max(0),
            system_ns: (self.system_ns - earlier.system_ns).max(0),
            total_ns: (self.total_ns - earlier.total_ns).max(0),
        }
    }
}

/// Returns the CPU time that the calling thread has used since it began, in nanoseconds.
#[must_use]
pub fn thread_cpu_ns() -> i64 {
    clock_ns(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// Maximum number of readings of a thread's CPU time until it changes: about 0.1 s on the slowest kernels that count by
/// ticks. On others it changes within a microsecond.
const MAX_READINGS: usize = 50_000;

/// Returns the smallest amount by which CPU time grows on this kernel, as found by using some; `None` if it did not grow.
/// With a virtual clock it never does, and each reading is a system call of some 20 µs, so that none is made.
///
/// Most kernels count CPU time exactly. Those without a fine clock for the scheduler, such as User Mode Linux, count one
/// timer tick for whatever runs at the tick, so that work that begins with ticks is missed or counted in full.
#[must_use]
pub fn cpu_time_step() -> Option<Duration> {
    static STEP: OnceLock<Option<Duration>> = OnceLock::new();
    *STEP.get_or_init(|| {
        if is_virtual() {
            return None;
        }
        let next = |from: i64| {
            let mut readings = std::iter::repeat_with(thread_cpu_ns).take(MAX_READINGS);
            readings.find(|now| *now > from)
        };
        let first = next(thread_cpu_ns())?;
        let second = next(first)?;
        Some(Duration::from_nanos((second - first).unsigned_abs()))
    })
}

/// Reads the resident set of a process from its `/proc/PID/statm`, in bytes.
pub(crate) fn resident_bytes(statm: &mut file::ProcFile) -> Option<u64> {
    let pages = file::numbers(statm.read_start(256).ok()?).nth(1)?;
    Some(pages * system_setting(SysconfVar::PAGE_SIZE, 4096))
}

/// Returns a setting of the system, at least 1; `otherwise` where the system does not have it.
pub(crate) fn system_setting(setting: SysconfVar, otherwise: u64) -> u64 {
    let value = sysconf(setting).ok().flatten();
    let value = value.and_then(|value| u64::try_from(value).ok());
    value.unwrap_or(otherwise).max(1)
}

/// Returns the largest resident set of this process since it began or since [`reset_peak_memory`],
/// in bytes.
#[must_use]
pub fn peak_memory_bytes() -> Option<u64> {
    file::bytes_of(&fs::read("/proc/self/status").ok()?, "VmHWM")
}

/// Makes [`peak_memory_bytes`] start again from what is resident now, after giving free memory back
/// to the kernel; so one trial's peak is not the one before's. Returns whether the kernel could do
/// it.
///
/// Source: proc_pid_clear_refs(5), value 5.
pub fn reset_peak_memory() -> bool {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointer and may be called from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
    fs::write("/proc/self/clear_refs", "5").is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_of_another_thread_is_charged_to_the_process() {
        let before = ProcessCpu::now();
        std::thread::spawn(|| {
            let start = thread_cpu_ns();
            while thread_cpu_ns() - start < 50_000_000 {
                std::hint::black_box(0);
            }
        })
        .join()
        .unwrap();
        let used = ProcessCpu::now().since(before);
        assert!(used.total_ns >= 50_000_000, "{used:?}");
        // The division is an estimate of the kernel's, its sum is the same account.
        let divided = used.user_ns + used.system_ns;
        assert!((divided - used.total_ns).abs() < 20_000_000, "{used:?}");
    }

    #[test]
    fn peak_memory_includes_freed_memory_until_reset() {
        reset_peak_memory();
        let before = peak_memory_bytes().unwrap();
        let block = std::hint::black_box(vec![1_u8; 64 << 20]);
        let mut statm = file::ProcFile::open("/proc/self/statm").unwrap();
        let resident = resident_bytes(&mut statm).unwrap();
        assert!(resident >= 64 << 20, "resident {resident}");
        drop(block);
        let peak = peak_memory_bytes().unwrap();
        assert!(peak >= before + (60 << 20), "{before} to {peak}");
        if reset_peak_memory() {
            let after = peak_memory_bytes().unwrap();
            assert!(after + (60 << 20) <= peak, "{peak} to {after}");
        }
    }
}
