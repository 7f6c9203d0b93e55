//! The clocks of the host.

use nix::time::ClockId;

/// Returns this host's `CLOCK_MONOTONIC`, in nanoseconds: the clock of every edge and every sample.
#[must_use]
pub fn monotonic_ns() -> i64 {
    clock_ns(ClockId::CLOCK_MONOTONIC)
}

/// Returns the time of `clock`, any of the kernel's clocks, in nanoseconds; zero for one that it does not have.
pub(crate) fn clock_ns(clock: ClockId) -> i64 {
    let time = clock.now();
    time.map_or(0, |time| time.tv_sec() * 1_000_000_000 + time.tv_nsec())
}

/// Whether the clock of this system is virtual, as in a guest that the kernel's parameter makes so: time stands still while
/// programs run.
pub(crate) fn is_virtual() -> bool {
    let parameters = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
    parameters.contains("time-travel=inf-cpu")
}

/// State of the wall clock, as the NTP or PTP client that steers it has set it in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Synchronisation {
    /// Whether a client steers the clock.
    pub(crate) is_synchronised: bool,
    /// Largest and estimated error, in microseconds.
    maximum_error_us: i64,
    estimated_error_us: i64,
}

impl Synchronisation {
    /// Reads the state, by adjtimex(2); `None` where the kernel does not provide it.
    pub(crate) fn read() -> Option<Self> {
        // SAFETY: all bytes of the structure may be zero; no mode is set, so that nothing is changed.
        let mut state: libc::timex = unsafe { std::mem::zeroed() };
        // SAFETY: `state` is a valid place for one timex.
        let result = unsafe { libc::adjtimex(&raw mut state) };
        (result >= 0).then_some(Self {
            is_synchronised: state.status & libc::STA_UNSYNC == 0,
            maximum_error_us: state.maxerror,
            estimated_error_us: state.esterror,
        })
    }
}

/// Names of programs that steer the clock, as `/proc/PID/comm` has them.
const CLIENTS: [&str; 6] = [
    "chronyd",
    "ntpd",
    "openntpd",
    "phc2sys",
    "ptp4l",
    "systemd-timesyn",
];

/// Describes the state of this host's clock: the kernel's, and the NTP or PTP programs that run; `None` where
/// the kernel does not provide it.
#[must_use]
pub fn synchronisation() -> Option<String> {
    Some(with_clients(Synchronisation::read()?.to_string()))
}

/// Adds the programs that steer the clock to a text, those that run and can be seen.
pub(crate) fn with_clients(text: String) -> String {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let names: std::collections::BTreeSet<String> = processes
        .filter_map(|process| std::fs::read_to_string(process.path().join("comm")).ok())
        .collect();
    let runs = |client: &&str| names.contains(&format!("{client}\n"));
    let clients: Vec<_> = CLIENTS.into_iter().filter(runs).collect();
    match clients.is_empty() {
        true => text,
        false => format!("{text} ({})", clients.join(", ")),
    }
}

impl std::fmt::Display for Synchronisation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.is_synchronised {
            return f.write_str("no NTP or PTP client steers the clock");
        }
        let [maximum, estimated] =
            [self.maximum_error_us, self.estimated_error_us].map(|error| error as f64 / 1000.0);
        write!(
            f,
            "an NTP or PTP client steers the clock: at most {maximum} ms off, by its estimate {estimated} ms"
        )
    }
}
