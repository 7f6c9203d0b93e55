//! Run of one test, whose times are recorded.

use std::{
    env,
    ffi::OsString,
    fs::{self, File},
    io::{self, Write as _},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, ExitCode},
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    sys::{
        prctl::set_dumpable,
        resource::{UsageWho, getrusage},
        signal::{SigHandler, SigSet, Signal, raise, signal},
        time::TimeVal,
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::{Pid, SysconfVar, sysconf},
};
use regatta_process::{become_subreaper, children, walk};

use crate::{
    cgroup::ControlGroup,
    record::{FILE_NAME, Record},
    reference::calculation,
};

/// Environment variable with the directory of the test run. Without it nothing is recorded.
const TEST_RUN_DIR: &str = "REGATTA_TEST_RUN_DIR";

/// Exit code for a test program that cannot be started, as of a shell.
const CANNOT_START: u8 = 126;

/// Test program, and what is known about it before it runs.
#[derive(Debug)]
pub struct Wrapped {
    /// Group of the table.
    pub group: String,
    /// Budget of the group, in seconds of CPU time.
    pub budget_s: u32,
    /// Value that is added to the nice value.
    pub nice: u32,
    /// Test program.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

/// Runs a test, records its times, and ends as the test has ended, with its exit code or by its signal.
///
/// nextest signals the process group of a test, in which wrapper and test both are. The wrapper therefore forwards no
/// signal, which the test would get twice; it outlives those that ask a process to end.
///
/// This process is a subreaper: it reaps orphans as they end, so that they are counted and are no zombies. As it ends
/// with the test, an orphan that still runs then gets the parent that it would have had without this process.
///
/// # Errors
/// Error message if the test cannot be started or its times cannot be recorded.
pub fn run(wrapped: Wrapped) -> Result<ExitCode, String> {
    add_nice(wrapped.nice);
    let mut command = Command::new(&wrapped.program);
    command.args(&wrapped.arguments);
    let program = wrapped.program.display();
    let Some(directory) = env::var_os(TEST_RUN_DIR).filter(|directory| !directory.is_empty())
    else {
        return Err(format!("cannot start `{program}`: {}", command.exec()));
    };
    become_subreaper().map_err(|error| format!("cannot become a subreaper: {error}"))?;
    let ending: SigSet = [
        Signal::SIGHUP,
        Signal::SIGINT,
        Signal::SIGQUIT,
        Signal::SIGTERM,
    ]
    .into_iter()
    .collect();
    let mask = SigSet::thread_get_mask()
        .map_err(|error| format!("cannot read the signal mask: {error}"))?;
    ending
        .thread_block()
        .map_err(|error| format!("cannot block signals: {error}"))?;
    let control_group = ControlGroup::new();
    let mut entrance = control_group
        .as_ref()
        .and_then(|group| group.entrance().ok());
    let in_child = move || {
        if let Some(entrance) = &mut entrance {
            // Without the group the CPU time is that of the processes that were waited for.
            let _ = entrance.write_all(b"0");
        }
        Ok(mask.thread_set_mask()?)
    };
    // SAFETY: the function makes two system calls, which are async-signal-safe, and uses no memory but its own.
    unsafe { command.pre_exec(in_child) };
    let calculation =
        calculation().map_err(|error| format!("cannot read the CPU time: {error}"))?;
    let begun = Instant::now();
    let child = match command.spawn() {
        Ok(child) => Pid::from_raw(child.id().cast_signed()),
        Err(error) => {
            eprintln!("error: cannot start `{program}`: {error}");
            return Ok(ExitCode::from(CANNOT_START));
        }
    };
    let status =
        reap_until(child).map_err(|error| format!("cannot wait for `{program}`: {error}"))?;
    let wall = begun.elapsed();
    let cpu = cpu_of_descendants().map_err(|error| format!("cannot read the CPU time: {error}"))?;
    // The kernel counts all processes of the control group, and the sum has those that have left it.
    let counted = control_group.as_ref().and_then(ControlGroup::cpu);
    let cpu = cpu.max(counted.unwrap_or_default());
    drop(control_group);
    let (code, signal) = match status {
        WaitStatus::Signaled(_, signal, _) => (-(signal as i32), Some(signal)),
        WaitStatus::Exited(_, code) => (code, None),
        // `waitpid` was not asked for others.
        other => return Err(format!("`{program}` has the state {other:?}")),
    };
    let variable = |name| env::var(name).unwrap_or_else(|_| "-".to_owned());
    let record = Record {
        group: wrapped.group,
        budget_s: wrapped.budget_s,
        binary: variable("NEXTEST_BINARY_ID"),
        test: variable("NEXTEST_TEST_NAME"),
        wall,
        cpu,
        calculation,
        status: code,
    };
    let file = Path::new(&directory).join(FILE_NAME);
    append(&file, &record)
        .map_err(|error| format!("cannot write to `{}`: {error}", file.display()))?;
    if let Some(signal) = signal {
        end_by(signal).map_err(|error| format!("cannot end by {signal}: {error}"))?;
    }
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}

/// Adds to the nice value of this process, which its children inherit.
fn add_nice(nice: u32) {
    if nice > 0 {
        // SAFETY: the call takes and returns numbers only. It never fails for a positive number.
        unsafe { libc::nice(nice.cast_signed()) };
    }
}

/// Reaps children of this process until `child` has ended, then those that have ended by then, and returns the status
/// of `child`.
fn reap_until(child: Pid) -> nix::Result<WaitStatus> {
    let status = loop {
        let status = waitpid(None, None)?;
        if status.pid() == Some(child) {
            break status;
        }
    };
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return Ok(status),
            Ok(_) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Returns the CPU time of all descendants of this process: those that were reaped, and those that still run.
fn cpu_of_descendants() -> nix::Result<Duration> {
    let reaped = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let running = walk(Pid::this().as_raw(), usize::MAX, children);
    // The kernel has had this value since 1991.
    let ticks_per_s = sysconf(SysconfVar::CLK_TCK)?.unwrap_or(100).cast_unsigned();
    let ticks: u64 = running.into_iter().filter_map(ticks_of).sum();
    let running = Duration::from_micros(ticks * 1_000_000 / ticks_per_s);
    Ok(duration(reaped.user_time()) + duration(reaped.system_time()) + running)
}

fn duration(time: TimeVal) -> Duration {
    let us = time.tv_sec() * 1_000_000 + time.tv_usec();
    Duration::from_micros(us.cast_unsigned())
}

/// Returns the CPU time of a process and of the children that it has reaped, in ticks; `None` if it has ended.
fn ticks_of(process: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    ticks_in(&stat)
}

/// Returns the sum of `utime`, `stime`, `cutime` and `cstime` in a line of `/proc/PID/stat`: the fields 12 to 15 after
/// the name, which stands in brackets and may hold anything.
fn ticks_in(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(") ")?;
    let times = after_name.split_ascii_whitespace().skip(11).take(4);
    times.map(|time| time.parse::<u64>().ok()).sum()
}

/// Appends a line in one write, so that lines of two tests do not mix.
fn append(file: &Path, record: &Record) -> io::Result<()> {
    let mut file = File::options().create(true).append(true).open(file)?;
    file.write_all(record.to_string().as_bytes())
}

/// Ends this process by a signal, without a memory dump of its own.
fn end_by(ending: Signal) -> nix::Result<()> {
    set_dumpable(false)?;
    if ending != Signal::SIGKILL {
        // SAFETY: the default action is no handler.
        unsafe { signal(ending, SigHandler::SigDfl) }?;
    }
    let set: SigSet = [ending].into_iter().collect();
    raise(ending)?;
    set.thread_unblock()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ticks_of_a_process_stand_after_a_name_with_brackets() {
        let stat = "7 (a) b) (c) S 1 7 7 0 -1 4194560 1 2 3 4 50 6 700 8 20 0 1 0 99 1 1 1";
        assert_eq!(ticks_in(stat), Some(50 + 6 + 700 + 8));
        assert_eq!(ticks_in("7 (a"), None);
    }
}
