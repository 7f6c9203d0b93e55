//! Load of the machine during a test that needs a quiet one, and the length of tests that repeat one
//! idea.
//!
//! A test that needs a quiet machine begins with
//!
//! ```ignore
//! let _load = regatta_test_support::machine::MachineLoad::watch();
//! ```
//!
//! and its failure ends with one line about the load of the machine meanwhile.

use std::{fs, time::Instant};

use regatta_telemetry::{
    host_cpu::{cores, tick_ns, times},
    process::ProcessCpu,
    tree::Tree,
};

/// Environment variable that asks for the long form of tests, as `.ci/slice` does: `1`.
pub const LONG_TESTS: &str = "REGATTA_LONG_TESTS";

/// Repetitions of a test that repeats one idea: `short` for each change, `long` where
/// [`LONG_TESTS`] is set.
#[must_use]
pub fn repetitions(short: u64, long: u64) -> u64 {
    match std::env::var_os(LONG_TESTS) {
        Some(set) if set == "1" => long,
        _ => short,
    }
}

/// Load of the machine since a moment; printed when this is dropped by a panic.
#[derive(Debug)]
pub struct MachineLoad {
    begun: Instant,
    before: Reading,
}

/// Shares of the time of all processors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadShares {
    /// Time that a hypervisor gave to other machines.
    pub steal: f64,
    /// Time in which something ran.
    pub busy: f64,
    /// Time in which something ran that was neither this process nor one of its descendants. A
    /// process that outlived its parent is no descendant.
    pub others: f64,
}

/// CPU time of the machine, in nanoseconds of all processors together.
#[derive(Debug, Clone, Copy)]
struct Reading {
    all_ns: i64,
    steal_ns: i64,
    busy_ns: i64,
    /// Time of this process, its descendants, and those descendants that were waited for.
    own_ns: i64,
    /// Processes that run or wait for a processor.
    runnable: i64,
}

impl MachineLoad {
    /// Begins to watch the machine.
    #[must_use]
    pub fn watch() -> Self {
        Self {
            begun: Instant::now(),
            before: Reading::now(),
        }
    }

    /// Returns the shares since [`MachineLoad::watch`].
    #[must_use]
    pub fn shares(&self) -> LoadShares {
        self.before.shares_until(&Reading::now())
    }

    /// Returns one line about the machine since [`MachineLoad::watch`].
    #[must_use]
    pub fn line(&self) -> String {
        let now = Reading::now();
        let shares = self.before.shares_until(&now);
        let average = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let average = average.split_whitespace().next().unwrap_or("unknown");
        format!(
            "the machine in these {:.1} s: {:.1} % of its time withheld by a hypervisor (steal), {:.1} % busy, \
             {:.1} % used by other processes; load average {average}; runnable now {}, {} processors",
            self.begun.elapsed().as_secs_f64(),
            shares.steal * 100.0,
            shares.busy * 100.0,
            shares.others * 100.0,
            now.runnable,
            cores(),
        )
    }
}

impl Drop for MachineLoad {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.line());
        }
    }
}

impl Reading {
    /// Zeros for what cannot be read: this only explains a failure.
    fn now() -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let own = Tree::new(std::process::id().cast_signed()).read();
        let own = own.map_or_else(ProcessCpu::now, |own| own.cpu);
        Self::parse(&stat, tick_ns(), own.total_ns)
    }

    /// Reads the text of `/proc/stat`, whose unit is `tick_ns`.
    fn parse(stat: &str, tick_ns: i64, own_ns: i64) -> Self {
        let of = |name| stat.lines().find_map(|line| line.strip_prefix(name));
        let all = of("cpu ").and_then(|line| times(line.as_bytes(), tick_ns));
        let all = all.unwrap_or_default();
        // What follows these in the file is counted in them.
        let [user, nice, system, _idle, _iowait, irq, softirq, steal] = all;
        let runnable = of("procs_running ").and_then(|number| number.trim().parse().ok());
        Self {
            all_ns: all.iter().sum(),
            steal_ns: steal,
            busy_ns: user + nice + system + irq + softirq,
            own_ns,
            runnable: runnable.unwrap_or(0),
        }
    }

    fn shares_until(&self, later: &Self) -> LoadShares {
        let all = (later.all_ns - self.all_ns).max(1) as f64;
        let share = |ns: i64| (ns as f64 / all).clamp(0.0, 1.0);
        let busy_ns = later.busy_ns - self.busy_ns;
        LoadShares {
            steal: share(later.steal_ns - self.steal_ns),
            busy: share(busy_ns),
            others: share(busy_ns - (later.own_ns - self.own_ns)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK_NS: i64 = 10_000_000;

    #[test]
    fn shares_are_of_the_time_of_all_processors() {
        let before = Reading::parse("cpu  100 0 50 800 10 5 5 30 7 0\n", TICK_NS, 0);
        // Of 200 ticks 20 were withheld and 80 busy, of which this process had 50.
        let text = "cpu  160 0 60 900 10 10 10 50 9 0\ncpu0 1 2 3 4 5 6 7 8 9 0\nprocs_running 3\n";
        let after = Reading::parse(text, TICK_NS, 50 * TICK_NS);
        let expected = LoadShares {
            steal: 0.1,
            busy: 0.4,
            others: 0.15,
        };
        assert_eq!(before.shares_until(&after), expected);
        assert_eq!(after.runnable, 3);
    }

    #[test]
    fn the_line_reports_the_load_of_this_machine() {
        let load = MachineLoad::watch();
        let line = load.line();
        assert!(
            line.contains("steal") && !line.contains("unknown"),
            "{line}"
        );
        let shares = load.shares();
        for share in [shares.steal, shares.busy, shares.others] {
            assert!((0.0..=1.0).contains(&share), "{shares:?}");
        }
    }
}
