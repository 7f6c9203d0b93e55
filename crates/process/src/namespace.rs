//! Process namespaces.

use std::{
    io,
    os::fd::{AsRawFd as _, RawFd},
};

use nix::{
    sched::{CloneFlags, unshare},
    sys::{
        signal::{SigHandler, SigSet, Signal, kill, signal},
        wait::waitpid,
    },
    unistd::{ForkResult, Pid, fork},
};

use crate::own::{die_with_parent, set_name};

/// First process of a process namespace, which reaps what others leave. When it ends, the kernel kills all processes of the
/// namespace. It ends when this is dropped, with the thread that created it, or with this process.
///
/// A program that was this process itself would ignore signals without a handler, such as the `SIGABRT` of a failed
/// assertion.
#[derive(Debug)]
pub struct NamespaceInit {
    process: Pid,
    /// Pipe whose other end the process reads: closing this end ends the process.
    _alive: io::PipeWriter,
}

impl NamespaceInit {
    /// Creates a namespace, in which all further children of the calling thread start. The thread can start nothing
    /// any more when the first process has ended.
    ///
    /// # Errors
    /// The system allows no namespace, no process or no pipe.
    pub fn new() -> io::Result<Self> {
        let (held, alive) = io::pipe()?;
        unshare(CloneFlags::CLONE_NEWPID)?;
        // SAFETY: the child makes system calls alone: it allocates nothing and takes no lock.
        match unsafe { fork() }? {
            ForkResult::Parent { child } => Ok(Self {
                process: child,
                _alive: alive,
            }),
            ForkResult::Child => be_first(held.as_raw_fd()),
        }
    }

    /// Returns the number of the first process, as this process sees it.
    #[must_use]
    pub fn id(&self) -> i32 {
        self.process.as_raw()
    }

    /// Kills all processes of the namespace, without waiting for their ends.
    pub fn kill(&self) {
        // It is reaped when this is dropped, so that its number is its own.
        let _ = kill(self.process, Signal::SIGKILL);
    }
}

impl Drop for NamespaceInit {
    /// Waits for the ends of all processes of the namespace, so that this process must have reaped its own children among them.
    fn drop(&mut self) {
        self.kill();
        let _ = waitpid(self.process, None);
    }
}

/// Runs the first process of a namespace: reaps children until the other end of the pipe `alive` is closed, then exits.
fn be_first(alive: RawFd) -> ! {
    // No error of these changes what there is to do.
    let _ = die_with_parent();
    let _ = SigSet::all().thread_block();
    // SAFETY: installs no handler. The kernel reaps the children of a process that ignores this.
    let _ = unsafe { signal(Signal::SIGCHLD, SigHandler::SigIgn) };
    set_name(c"regatta-init");
    close_all_but(alive);
    let mut byte = 0_u8;
    loop {
        // SAFETY: reads at most one byte to where there is room for one.
        let read = unsafe { libc::read(alive, (&raw mut byte).cast(), 1) };
        if read >= 0 || nix::errno::Errno::last() != nix::errno::Errno::EINTR {
            // SAFETY: ends this process without a call of functions that its parent has registered.
            unsafe { libc::_exit(0) };
        }
    }
}

/// Closes every file but one: another process may wait for the end of a pipe.
fn close_all_but(kept: RawFd) {
    let ranges = [(0, kept - 1), (kept + 1, RawFd::MAX)];
    for (first, last) in ranges {
        // SAFETY: takes numbers only; no value of this process uses these files any more.
        let closed = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        if closed != 0 {
            // Before Linux 5.9.
            for file in first..=last.min(1 << 16) {
                // SAFETY: as above.
                unsafe { libc::close(file) };
            }
        }
    }
}
