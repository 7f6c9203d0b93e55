//! Signals that end a run in good order, such as Ctrl-C.

use std::time::{Duration, Instant};

use nix::{
    libc,
    sys::signal::{SigHandler, SigSet, Signal, signal},
};
use regatta_engine::Stopper;

use crate::{exit::Code, output};

/// Time within which a second signal counts as the same request, which may arrive twice: from the
/// terminal and from the program that started this process.
const SAME_REQUEST: Duration = Duration::from_millis(300);

/// Number that shells add to the signal that ended a program, for its exit status.
const BY_SIGNAL: i32 = 128;

/// Returns those of the signals that this process was not started to ignore, as `nohup` and `trap
/// '' INT` start it. A signal that is ignored and blocked would be queued, and received by
/// `sigwait`.
pub fn not_ignored(signals: &[Signal]) -> SigSet {
    let ignored = |signal: Signal| {
        let mut action = std::mem::MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: nothing is installed; the kernel fills the action if it returns 0.
        unsafe {
            libc::sigaction(signal as libc::c_int, std::ptr::null(), action.as_mut_ptr()) == 0
                && action.assume_init().sa_sigaction == libc::SIG_IGN
        }
    };
    signals
        .iter()
        .copied()
        .filter(|signal| !ignored(*signal))
        .collect()
}

/// Makes an agent or a path daemon ignore the Ctrl-C that a terminal sends to all of its processes:
/// the controller receives it and ends them in good order.
pub fn ignore() {
    for ignored in [Signal::SIGINT, Signal::SIGHUP] {
        ignore_signal(ignored);
    }
}

/// Makes writing beyond the limit of file sizes an error, instead of the default, which ends
/// the process silently. Child processes inherit this setting.
pub fn report_file_size_limits() {
    ignore_signal(Signal::SIGXFSZ);
}

fn ignore_signal(ignored: Signal) {
    // SAFETY: no handler is installed, and no other thread exists yet.
    let set = unsafe { signal(ignored, SigHandler::SigIgn) };
    // It fails only for signals that cannot be ignored.
    debug_assert!(set.is_ok());
}

/// Signals that end a run, blocked until they are waited for; without those that are ignored.
pub struct Held(SigSet);

impl Held {
    /// Blocks the signals in this thread and in those that it starts from now on.
    ///
    /// # Errors
    /// An error of the system.
    pub fn new() -> nix::Result<Self> {
        let set = not_ignored(&[
            Signal::SIGINT,
            Signal::SIGTERM,
            Signal::SIGHUP,
            Signal::SIGQUIT,
        ]);
        set.thread_block()?;
        Ok(Self(set))
    }

    /// Stops the run at the first signal, and ends the process at a second one, after `at_once`.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn stop_with(
        self,
        stopper: Stopper,
        at_once: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<()> {
        let message = "stopping: the trial under way is given up";
        self.end_with(message, move || stopper.stop(), at_once)
    }

    /// Waits for a signal in a thread; then prints `message` and calls `stop`. A second signal, or
    /// SIGQUIT, ends the process, after `at_once`, which prints where the results are.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn end_with(
        self,
        message: &'static str,
        stop: impl FnOnce() + Send + 'static,
        at_once: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<()> {
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                let mut stop = Some(stop);
                let mut stopped = Instant::now();
                while let Ok(signal) = self.0.wait() {
                    let code = match stop.take() {
                        _ if signal == Signal::SIGQUIT => BY_SIGNAL + signal as i32,
                        Some(stop) => {
                            stopped = Instant::now();
                            output::err(message);
                            stop();
                            continue;
                        }
                        None if is_second(signal, stopped.elapsed()) => {
                            u8::from(Code::Failed).into()
                        }
                        None => continue,
                    };
                    at_once();
                    // Agents and path daemon end with this process; the results file is whole after
                    // every trial. The terminal is restored, as it is not by the default of SIGQUIT.
                    std::process::exit(code);
                }
            })?;
        Ok(())
    }
}

/// Whether a signal, `after` the first one, is a second request and ends the process at once. A
/// terminal that is closed sends SIGHUP more than once, by its shell and by the kernel, so that one
/// never counts.
fn is_second(signal: Signal, after: Duration) -> bool {
    signal != Signal::SIGHUP && after >= SAME_REQUEST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_repeated_signal_after_a_pause_ends_the_process() {
        let soon = Duration::from_millis(20);
        let later = Duration::from_millis(500);
        for signal in [Signal::SIGINT, Signal::SIGTERM] {
            assert!(!is_second(signal, soon), "{signal}");
            assert!(is_second(signal, later), "{signal}");
        }
        assert!(!is_second(Signal::SIGHUP, later));
    }
}
