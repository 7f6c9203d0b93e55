//! Evidence of why processes end or stand still.

use std::fs;

/// Returns the number of processes that the kernel has killed for want of memory, of a control group or of the machine,
/// since the machine started; 0 where it does not tell.
#[must_use]
pub fn out_of_memory_kills() -> u64 {
    let counters = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let mut counts = counters
        .lines()
        .filter_map(|line| line.strip_prefix("oom_kill "));
    counts
        .next()
        .and_then(|count| count.parse().ok())
        .unwrap_or(0)
}

/// Whether a process is stopped by a signal.
#[must_use]
pub fn is_stopped(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name before it may hold anything.
    let state = stat.rsplit_once(')').map(|(_, after)| after.trim_start());
    state.is_some_and(|state| state.starts_with('T'))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use nix::{
        sys::{
            signal::{Signal, kill},
            wait::{Id, WaitPidFlag, waitid},
        },
        unistd::Pid,
    };

    use super::*;

    #[test]
    fn a_stopped_process_is_seen() {
        let mut child = Command::new("sleep")
            .arg("60")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let process = Pid::from_raw(child.id().cast_signed());
        assert!(!is_stopped(child.id()));
        kill(process, Signal::SIGSTOP).unwrap();
        waitid(Id::Pid(process), WaitPidFlag::WSTOPPED).unwrap();
        assert!(is_stopped(child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
