//! Search for processes by tests that check what is left running.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

/// Longest time for which a killed process may still be there, as the kernel takes it down.
const KILLED_TIMEOUT: Duration = Duration::from_secs(5);

/// Whether a process exists and is no zombie.
#[must_use]
pub fn is_running(process: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, state)| state);
    state.is_some_and(|state| !state.starts_with('Z'))
}

/// Returns the running processes whose command line contains `text`.
#[must_use]
pub fn running_with(text: &str) -> Vec<i32> {
    let is_found = |process: &i32| {
        let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(text) && is_running(*process)
    };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    processes.filter(is_found).collect()
}

/// Returns the processes whose command line contains `text` and that do not end within five seconds, after they were
/// killed.
#[must_use]
pub fn surviving_with(text: &str) -> Vec<i32> {
    let deadline = Instant::now() + KILLED_TIMEOUT;
    loop {
        let running = running_with(text);
        if running.is_empty() || Instant::now() >= deadline {
            return running;
        }
        thread::sleep(Duration::from_millis(20));
    }
}
