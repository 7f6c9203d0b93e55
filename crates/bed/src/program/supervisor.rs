//! Process between the controller and a program.

use std::{
    env,
    ffi::OsString,
    fs::File,
    io::{self, IsTerminal as _, Read},
    os::{
        fd::{AsFd, FromRawFd, OwnedFd, RawFd},
        unix::process::CommandExt as _,
    },
    process::{Command, ExitCode},
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, FdFlag, fcntl},
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
    sys::{
        signal::{SigSet, Signal, kill},
        signalfd::{SfdFlags, SignalFd},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};

use regatta_process::{NamespaceInit, Preparation, descendants, descriptor, readable};

use super::{shown, terminal_signals};

/// Exit status for a program that was not found, as of a shell.
const NOT_FOUND: u8 = 127;

/// Exit status for a program that cannot be run, as of a shell.
const NOT_RUNNABLE: u8 = 126;

/// Number that shells add to the signal that ended a program, for its exit status.
const BY_SIGNAL: u8 = 128;

/// Time that a program has to end after `SIGTERM`.
const GRACE: Duration = Duration::from_secs(1);

/// Longest time for ending all processes; the kernel needs milliseconds.
const END_LIMIT: Duration = Duration::from_secs(5);

/// Starts the program that its arguments name, waits for it and ends the processes that it leaves.
/// The body of `regatta path-program`, which [`super::start`] starts; the process must have no
/// other thread.
#[must_use]
pub fn main() -> ExitCode {
    let mut arguments = env::args_os().skip(2);
    let control = arguments
        .next()
        .and_then(|number| number.to_str()?.parse::<RawFd>().ok())
        .filter(|number| is_open(*number));
    let (Some(control), Some(program)) = (control, arguments.next()) else {
        eprintln!("error: this command is started by `regatta path` itself");
        return ExitCode::from(2);
    };
    match keep(control, program, arguments.collect()) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("error: cannot keep a program together: {error}");
            ExitCode::FAILURE
        }
    }
}

fn is_open(number: RawFd) -> bool {
    // SAFETY: takes numbers only.
    unsafe { libc::fcntl(number, libc::F_GETFD) >= 0 }
}

fn keep(control: RawFd, program: OsString, arguments: Vec<OsString>) -> io::Result<u8> {
    regatta_process::set_name(c"regatta");
    // SAFETY: it is open, and the controller opened it for this process alone.
    let mut control = unsafe { File::from_raw_fd(control) };
    fcntl(&control, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    terminal_signals().thread_block()?;
    let children = SigSet::from(Signal::SIGCHLD);
    children.thread_block()?;
    let ends = SignalFd::with_flags(&children, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    // What the program starts and leaves becomes this process's to wait for.
    regatta_process::become_subreaper()?;

    // A shell hands a terminal over by numbers of process groups, of which a namespace hides those outside.
    let init = match io::stdin().is_terminal() {
        true => None,
        false => NamespaceInit::new().ok(),
    };
    let mut command = Command::new(&program);
    command.args(arguments);
    // Regatta ignores SIGXFSZ and blocks other signals; a program would inherit both.
    Preparation {
        signal_mask: Some(SigSet::empty()),
        default_signals: vec![Signal::SIGXFSZ],
        ..Preparation::default()
    }
    .apply(&mut command);
    if init.is_some() {
        let prepare = || {
            mount_own_proc();
            Ok(())
        };
        // SAFETY: between fork and exec this makes system calls alone.
        unsafe { command.pre_exec(prepare) };
    }
    let child = match command.spawn() {
        Ok(child) => Pid::from_raw(child.id().cast_signed()),
        Err(error) => {
            let code = match error.kind() {
                io::ErrorKind::NotFound => NOT_FOUND,
                _ => NOT_RUNNABLE,
            };
            eprintln!(
                "error: cannot start `{}`\n  caused by: {error}\n\
                 hint: give a program of this machine, by its path or as `PATH` finds it",
                shown(&program)
            );
            return Ok(code);
        }
    };
    let mut code = None;
    while code.is_none() {
        wait(&ends, Some(&control), None)?;
        let has_children = reap(child, &mut code);
        if !has_children || code.is_some() || !obey(&mut control, child) {
            break;
        }
    }
    end_all(&ends, child, init, &mut code)?;
    Ok(code.unwrap_or(BY_SIGNAL + Signal::SIGKILL as u8))
}

/// Sleeps until a child has ended, `control` is readable, or the time is over.
fn wait(ends: &SignalFd, control: Option<&File>, within: Option<Duration>) -> io::Result<()> {
    let mut files = vec![ends.as_fd()];
    files.extend(control.map(AsFd::as_fd));
    readable(&files, within)?;
    while let Ok(Some(_)) = ends.read_signal() {}
    Ok(())
}

/// Reaps every child that has ended, and keeps the program's exit status in `code`; returns whether
/// a child is left.
fn reap(child: Pid, code: &mut Option<u8>) -> bool {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => return true,
            Ok(WaitStatus::Exited(pid, status)) if pid == child => {
                // A status has eight bits.
                *code = Some(status.cast_unsigned() as u8);
            }
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == child => {
                *code = Some(BY_SIGNAL + signal as u8);
            }
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return false,
        }
    }
}

/// Forwards the signals that arrived on the control pipe, if any did; returns whether its
/// other end is still open.
fn obey(control: &mut File, child: Pid) -> bool {
    if !readable(&[control.as_fd()], Some(Duration::ZERO)).unwrap_or(false) {
        return true;
    }
    let mut orders = [0; 16];
    match control.read(&mut orders) {
        Ok(0) => false,
        Ok(length) => {
            for order in &orders[..length] {
                if let Ok(signal) = Signal::try_from(i32::from(*order)) {
                    // It may have ended at this moment.
                    let _ = kill(child, signal);
                }
            }
            true
        }
        Err(error) => error.kind() == io::ErrorKind::Interrupted,
    }
}

/// Ends all processes that are left below this one, and their namespace.
fn end_all(
    ends: &SignalFd,
    child: Pid,
    init: Option<NamespaceInit>,
    code: &mut Option<u8>,
) -> io::Result<()> {
    let this = Pid::this().as_raw();
    let first = init.as_ref().map(NamespaceInit::id);
    let begun = Instant::now();
    let mut is_asked = false;
    while reap(child, code) {
        let mut left = descendants(this);
        left.retain(|process| Some(*process) != first);
        let elapsed = begun.elapsed();
        if left.is_empty() || elapsed >= END_LIMIT {
            break;
        }
        let signal = |signal: Signal| {
            for process in &left {
                // It may have ended at this moment.
                let _ = kill(Pid::from_raw(*process), signal);
            }
        };
        let next = if elapsed < GRACE {
            if !is_asked {
                signal(Signal::SIGTERM);
                // A stopped process receives no other signal.
                signal(Signal::SIGCONT);
                is_asked = true;
            }
            GRACE
        } else {
            signal(Signal::SIGKILL);
            END_LIMIT
        };
        // What one of them has started unseen meanwhile is found when that one has ended.
        wait_for_one(&left, ends, next - elapsed)?;
    }
    if let Some(init) = init {
        init.kill();
        // The kernel lets the namespace end after this process has reaped its own children in it.
        while reap(child, code) && begun.elapsed() < END_LIMIT {
            wait(ends, None, Some(END_LIMIT.saturating_sub(begun.elapsed())))?;
        }
        // Reaped already.
        std::mem::forget(init);
    }
    Ok(())
}

/// Sleeps until one of `processes` that still runs has ended, or a child of this process, or the time is over.
fn wait_for_one(processes: &[i32], ends: &SignalFd, within: Duration) -> io::Result<()> {
    let descriptors = processes
        .iter()
        .filter_map(|it| descriptor(it.cast_unsigned()));
    let is_running =
        |process: &OwnedFd| !readable(&[process.as_fd()], Some(Duration::ZERO)).unwrap_or(true);
    let running: Vec<OwnedFd> = descriptors.filter(is_running).collect();
    let mut files = vec![ends.as_fd()];
    files.extend(running.iter().map(AsFd::as_fd));
    readable(&files, Some(within))?;
    while let Ok(Some(_)) = ends.read_signal() {}
    Ok(())
}

/// Gives a program a `/proc` of its own namespace, with the numbers by which it can signal its processes. Where that is not
/// allowed it has this process's.
fn mount_own_proc() {
    let flags = MsFlags::MS_REC | MsFlags::MS_SLAVE;
    let none = None::<&str>;
    let _ = unshare(CloneFlags::CLONE_NEWNS)
        .and_then(|()| mount(none, "/", none, flags, none))
        .and_then(|()| mount(Some("proc"), "/proc", Some("proc"), MsFlags::empty(), none));
}
