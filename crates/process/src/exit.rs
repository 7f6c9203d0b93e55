//! Ends of processes as text, and which of them somebody else has caused.

use std::{fs, os::unix::process::ExitStatusExt as _, process::ExitStatus};

/// Text about a process that was stopped when it had to be killed.
pub const STOPPED: &str = "it was stopped by a signal of somebody else (`SIGSTOP`)";

/// End of the text about a process that the kernel killed for want of memory.
const WANT_OF_MEMORY: &str = ", as the kernel killed a process for want of memory";

/// Signals with which somebody ends a process that is well; a process that crashes gets others.
const OF_SOMEBODY: [&str; 4] = ["(SIGKILL)", "(SIGTERM)", "(SIGHUP)", "(SIGQUIT)"];

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

/// Returns an exit status as text. `kills_before` is [`out_of_memory_kills`] from when the process was started: where the
/// number has grown, a process that was killed may have been killed for its memory.
#[must_use]
pub fn exit_text(status: ExitStatus, kills_before: u64) -> String {
    let mut text = status.to_string();
    if status.signal() == Some(libc::SIGKILL) && out_of_memory_kills() > kills_before {
        text += WANT_OF_MEMORY;
    }
    text
}

/// Whether [`exit_text`], or [`STOPPED`], says that somebody else has ended or stopped the process: a signal that no crash
/// sends, and not for want of memory.
#[must_use]
pub fn is_from_outside(exit: &str) -> bool {
    let was_killed = OF_SOMEBODY.iter().any(|signal| exit.contains(signal));
    exit == STOPPED || was_killed && !exit.ends_with(WANT_OF_MEMORY)
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
    use std::process::{Child, Command, Stdio};

    use nix::{
        sys::{
            signal::{Signal, kill},
            wait::{Id, WaitPidFlag, waitid},
        },
        unistd::Pid,
    };

    use super::*;

    fn sleeping() -> Child {
        Command::new("sleep")
            .arg("60")
            .stdin(Stdio::null())
            .spawn()
            .unwrap()
    }

    fn text_after(signal: Signal, kills_before: u64) -> String {
        let mut child = sleeping();
        kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
        exit_text(child.wait().unwrap(), kills_before)
    }

    #[test]
    fn a_signal_of_somebody_else_is_told_from_a_crash() {
        for (signal, expected) in [
            (Signal::SIGKILL, true),
            (Signal::SIGTERM, true),
            (Signal::SIGSEGV, false),
            (Signal::SIGABRT, false),
            (Signal::SIGBUS, false),
        ] {
            let text = text_after(signal, u64::MAX);
            assert_eq!(is_from_outside(&text), expected, "{text}");
        }
        assert!(!is_from_outside("exit status: 101"));
        assert!(is_from_outside(STOPPED));
    }

    #[test]
    fn a_process_killed_for_want_of_memory_is_not_killed_by_somebody() {
        let text = format!("signal: 9 (SIGKILL){WANT_OF_MEMORY}");
        assert!(!is_from_outside(&text));
    }

    #[test]
    fn a_stopped_process_is_seen() {
        let mut child = sleeping();
        let process = Pid::from_raw(child.id().cast_signed());
        assert!(!is_stopped(child.id()));
        kill(process, Signal::SIGSTOP).unwrap();
        waitid(Id::Pid(process), WaitPidFlag::WSTOPPED).unwrap();
        assert!(is_stopped(child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
