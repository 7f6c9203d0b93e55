//! Request to stop, which ends waits for other processes at once.

use std::{
    os::fd::{AsFd, AsRawFd, OwnedFd},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::wait::{descriptor, readable};

/// Request to stop, with the processes that it kills: whoever waits for one of them sees its end. Clones are the same
/// request.
#[derive(Debug, Clone, Default)]
pub struct StopRequest(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    asked: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_asked: bool,
    /// Descriptors of processes.
    processes: Vec<OwnedFd>,
}

impl StopRequest {
    /// Asks to stop: kills the processes, and wakes whoever [sleeps](Self::sleep).
    pub fn ask(&self) {
        let mut state = self.lock();
        state.is_asked = true;
        for process in state.processes.drain(..) {
            kill(&process);
        }
        self.0.asked.notify_all();
    }

    /// Whether a stop was asked for.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.lock().is_asked
    }

    /// Has the stop kill a child of this process that nobody has waited for yet; at once if it was asked for before.
    pub fn kills(&self, child: u32) {
        // Without descriptors of processes, before Linux 5.3, the limits of the waits end them.
        let Some(process) = descriptor(child) else {
            return;
        };
        let mut state = self.lock();
        if state.is_asked {
            kill(&process);
            return;
        }
        let is_running = |process: &OwnedFd| {
            !readable(&[process.as_fd()], Some(Duration::ZERO)).unwrap_or(false)
        };
        state.processes.retain(is_running);
        state.processes.push(process);
    }

    /// Sleeps until the stop is asked for, for `within` at most; returns whether it is.
    #[must_use]
    pub fn sleep(&self, within: Duration) -> bool {
        let waited = (self.0.asked).wait_timeout_while(self.lock(), within, |it| !it.is_asked);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.is_asked
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Kills a process, unless it has ended.
fn kill(process: &OwnedFd) {
    // SAFETY: takes numbers, and no information about the signal.
    unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            process.as_raw_fd(),
            libc::SIGKILL,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    fn cat() -> Child {
        Command::new("cat").stdin(Stdio::piped()).spawn().unwrap()
    }

    #[test]
    fn a_stop_kills_the_processes_before_and_after_it() {
        let stop = StopRequest::default();
        let mut before = cat();
        stop.kills(before.id());
        assert!(!stop.sleep(Duration::from_millis(1)));
        assert!(before.try_wait().unwrap().is_none());
        stop.ask();
        assert!(stop.is_asked() && stop.sleep(Duration::from_secs(3600)));
        let mut after = cat();
        stop.kills(after.id());
        // Their inputs are open: only a signal ends them.
        for child in [&mut before, &mut after] {
            let input = child.stdin.take();
            assert!(!child.wait().unwrap().success());
            drop(input);
        }
    }
}
