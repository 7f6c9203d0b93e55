//! Request to stop, which ends waits for other processes at once.

use std::{
    fmt,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::{Condvar, Mutex};

use crate::wait::{descriptor, readable};

/// Request to stop, with the processes that it kills, so that whoever waits for one of them sees its end, and the functions
/// that it calls. Clones are the same request.
#[derive(Debug, Clone, Default)]
pub struct StopRequest(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_requested: bool,
    /// Descriptors of processes.
    processes: Vec<OwnedFd>,
    functions: Vec<Weak<Function>>,
}

type Function = dyn Fn() + Send + Sync;

/// Function that a stop calls, for as long as this is not dropped.
pub struct OnStop {
    _function: Arc<Function>,
}

impl fmt::Debug for OnStop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnStop").finish_non_exhaustive()
    }
}

impl StopRequest {
    /// Asks to stop: kills the processes, wakes whoever [sleeps](Self::sleep), and calls the functions.
    pub fn request(&self) {
        let mut state = self.0.state.lock();
        state.is_requested = true;
        for process in state.processes.drain(..) {
            kill(&process);
        }
        let functions = std::mem::take(&mut state.functions);
        drop(state);
        self.0.changed.notify_all();
        for function in functions.iter().filter_map(Weak::upgrade) {
            function();
        }
    }

    /// Whether a stop was asked for.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.0.state.lock().is_requested
    }

    /// Has the stop kill a child of this process that nobody has waited for yet; at once if it was asked for before.
    pub fn kills(&self, child: u32) {
        // Without descriptors of processes, before Linux 5.3, the limits of the waits end them.
        let Some(process) = descriptor(child) else {
            return;
        };
        let mut state = self.0.state.lock();
        if state.is_requested {
            kill(&process);
            return;
        }
        let is_running = |process: &OwnedFd| {
            !readable(&[process.as_fd()], Some(Duration::ZERO)).unwrap_or(false)
        };
        state.processes.retain(is_running);
        state.processes.push(process);
    }

    /// Has the first request to stop call a function, on the thread that asks; at once if there was one before.
    #[must_use]
    pub fn calls(&self, function: impl Fn() + Send + Sync + 'static) -> OnStop {
        let function: Arc<Function> = Arc::new(function);
        let mut state = self.0.state.lock();
        if state.is_requested {
            drop(state);
            function();
        } else {
            state.functions.retain(|it| it.strong_count() > 0);
            state.functions.push(Arc::downgrade(&function));
        }
        OnStop {
            _function: function,
        }
    }

    /// Sleeps until the stop is asked for, for `within` at most; returns whether it is.
    #[must_use]
    pub fn sleep(&self, within: Duration) -> bool {
        let mut state = self.0.state.lock();
        (self.0.changed).wait_while_for(&mut state, |it| !it.is_requested, within);
        state.is_requested
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
    use std::{
        process::{Child, Command, Stdio},
        sync::mpsc,
    };

    use super::*;

    #[test]
    fn a_stop_calls_each_function_once_unless_it_was_dropped() {
        let stop = StopRequest::default();
        let (called_tx, called_rx) = mpsc::channel();
        let function = |name: &'static str| {
            let called_tx = called_tx.clone();
            move || called_tx.send(name).expect("a receiver")
        };
        let _before = stop.calls(function("before"));
        drop(stop.calls(function("dropped")));
        stop.request();
        stop.request();
        let _after = stop.calls(function("after"));
        assert_eq!(
            called_rx.try_iter().collect::<Vec<_>>(),
            ["before", "after"]
        );
    }

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
        stop.request();
        assert!(stop.is_requested() && stop.sleep(Duration::from_secs(3600)));
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
