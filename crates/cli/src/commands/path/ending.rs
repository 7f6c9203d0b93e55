//! Return to the terminal's foreground after a program that had it.

use std::{
    io::{self, IsTerminal},
    os::fd::AsRawFd,
};

use nix::{
    libc,
    sys::signal::{SigSet, Signal},
    unistd::{Pid, getpgrp},
};

/// Process group in the terminal's foreground.
#[derive(Debug, Clone, Copy)]
pub struct Foreground(Option<Pid>);

impl Foreground {
    /// Returns this process's group, if it is in the foreground now.
    pub fn now() -> Self {
        let own = getpgrp();
        let input = io::stdin();
        // SAFETY: takes a descriptor that is open.
        let foreground = || unsafe { libc::tcgetpgrp(input.as_raw_fd()) };
        let is_foreground = input.is_terminal() && foreground() == own.as_raw();
        Self(is_foreground.then_some(own))
    }

    /// Puts that group into the foreground again: a shell that was killed leaves the terminal to a
    /// group that no longer exists.
    pub fn restore(self) {
        let Some(own) = self.0 else { return };
        // Whoever is not in the foreground is stopped for this, unless it holds the signal back.
        let held = SigSet::from(Signal::SIGTTOU);
        if held.thread_block().is_ok() {
            // An error of a closed terminal is ignored.
            // SAFETY: takes numbers only.
            let _ = unsafe { libc::tcsetpgrp(io::stdin().as_raw_fd(), own.as_raw()) };
            let _ = held.thread_unblock();
        }
    }
}
