//! Waiting for the end of a child.

use std::{
    io,
    os::{
        fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd},
        unix::process::ExitStatusExt as _,
    },
    process::{Child, ExitStatus},
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid},
    unistd::Pid,
};

/// Waits for at most `within` until `child` has ended, and reaps it. `None` if it still runs.
///
/// # Errors
/// The error of `waitpid`.
pub fn ended_within(child: &mut Child, within: Duration) -> io::Result<Option<ExitStatus>> {
    let until = Instant::now() + within;
    loop {
        let ended = child.try_wait()?;
        let remaining = until.saturating_duration_since(Instant::now());
        if ended.is_some() || remaining.is_zero() {
            return Ok(ended);
        }
        await_end(child.id(), remaining)?;
    }
}

/// Waits for at most `within` until `child` has ended, then kills it; reaps it either way. `None` if it
/// was killed.
pub fn end_within(child: &mut Child, within: Duration) -> Option<ExitStatus> {
    let ended = ended_within(child, within).ok().flatten();
    if ended.is_none() {
        // Fails only if it has ended meanwhile.
        let _ = child.kill();
        let _ = child.wait();
    }
    ended
}

/// Sleeps until a child of this process has ended, for `within` at most. Does not reap the child, so that it can run while
/// another thread holds its handle.
///
/// # Errors
/// The error of `poll`, or of a thread.
pub fn await_end(process: u32, within: Duration) -> io::Result<()> {
    let ended = match descriptor(process) {
        Some(process) => process,
        None => pipe_of(process)?,
    };
    readable(&[ended.as_fd()], Some(within)).map(drop)
}

/// Returns a pipe that ends with a child of this process: another thread waits for the child and holds the pipe's other
/// end.
fn pipe_of(child: u32) -> io::Result<OwnedFd> {
    let (ended, held) = io::pipe()?;
    on_end(child, move || drop(held))?;
    Ok(ended.into())
}

/// Calls a function on another thread when a child of this process has ended, and has not been reaped.
///
/// # Errors
/// The error of the thread.
pub fn on_end(child: u32, call: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let wait = move || {
        let _ = wait_without_reaping(Pid::from_raw(child.cast_signed()));
        call();
    };
    let thread = std::thread::Builder::new().name("child-end".into());
    thread.spawn(wait).map(drop)
}

/// Returns a descriptor of a child of this process; `None` before Linux 5.3, or under a filter of system calls.
#[must_use]
pub fn descriptor(child: u32) -> Option<OwnedFd> {
    // SAFETY: takes numbers only.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, child, 0) };
    // SAFETY: the kernel has just opened it, for nobody else.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Sleeps until one of `files` can be read or has ended, for `within` at most; returns whether one
/// is.
///
/// # Errors
/// The error of `poll`.
pub fn readable(files: &[BorrowedFd<'_>], within: Option<Duration>) -> io::Result<bool> {
    let until = within.and_then(|within| Instant::now().checked_add(within));
    let mut polled: Vec<_> = files
        .iter()
        .map(|file| PollFd::new(*file, PollFlags::POLLIN))
        .collect();
    loop {
        let timeout = until.map_or(PollTimeout::NONE, |until| {
            let remaining = until.saturating_duration_since(Instant::now());
            // Rounded up, or a wait of less than a millisecond would spin.
            PollTimeout::try_from(remaining.as_micros().div_ceil(1000)).unwrap_or(PollTimeout::MAX)
        });
        match poll(&mut polled, timeout) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits for the end of a child without reaping it, so that its number stays its own.
///
/// # Errors
/// The error of `waitid`: somebody else has waited for the child.
pub(crate) fn wait_without_reaping(process: Pid) -> nix::Result<WaitStatus> {
    loop {
        match waitid(
            Id::Pid(process),
            WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT,
        ) {
            Err(Errno::EINTR) => {}
            result => return result,
        }
    }
}

/// Waits for the end of a child, and reaps every other child of this process that ends meanwhile.
///
/// # Errors
/// The error of `waitpid`.
pub fn wait_and_reap(child: u32) -> io::Result<ExitStatus> {
    let child = Pid::from_raw(child.cast_signed());
    loop {
        match waitpid(None, None) {
            Ok(WaitStatus::Exited(ended, code)) if ended == child => {
                return Ok(ExitStatus::from_raw(code << 8));
            }
            Ok(WaitStatus::Signaled(ended, signal, _)) if ended == child => {
                return Ok(ExitStatus::from_raw(signal as i32));
            }
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_wait_returns_the_status_or_times_out() {
        let mut cat = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        assert_eq!(
            ended_within(&mut cat, Duration::from_millis(20)).unwrap(),
            None
        );
        drop(cat.stdin.take());
        let status = ended_within(&mut cat, Duration::from_secs(60)).unwrap();
        assert!(status.unwrap().success());
    }

    #[test]
    fn a_pipe_ends_with_a_child_that_has_no_descriptor() {
        let mut cat = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pipe = pipe_of(cat.id()).unwrap();
        assert!(!readable(&[pipe.as_fd()], Some(Duration::ZERO)).unwrap());
        drop(cat.stdin.take());
        assert!(readable(&[pipe.as_fd()], None).unwrap());
        // The thread has not reaped it.
        assert!(cat.wait().unwrap().success());
        // A process that is no child cannot be waited for.
        assert!(readable(&[pipe_of(cat.id()).unwrap().as_fd()], None).unwrap());
    }

    #[test]
    fn a_child_that_does_not_end_is_killed() {
        let mut cat = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        assert_eq!(end_within(&mut cat, Duration::ZERO), None);
        assert!(!cat.wait().unwrap().success());
    }

    #[test]
    fn a_wait_without_reaping_leaves_the_status() {
        let mut child = Command::new("sh").args(["-c", "exit 7"]).spawn().unwrap();
        let pid = Pid::from_raw(child.id().cast_signed());
        assert_eq!(wait_without_reaping(pid), Ok(WaitStatus::Exited(pid, 7)));
        assert_eq!(child.wait().unwrap().code(), Some(7));
        assert_eq!(wait_without_reaping(pid), Err(Errno::ECHILD));
    }
}
