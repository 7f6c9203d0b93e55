//! Ctrl-C and the other polite ways to end a run.

use std::time::{Duration, Instant};

use nix::{
    libc,
    sys::signal::{SigHandler, SigSet, Signal, signal},
};
use regatta_engine::Stopper;

use crate::{exit::Code, output};

/// Nobody asks again as soon as this: one wish may come twice, from the terminal and from whatever
/// started this process.
const SAME_WISH: Duration = Duration::from_millis(300);

/// Those of the signals that this process was not started to ignore, as `nohup` and `trap '' INT`
/// start it. A signal that is ignored and blocked would be queued, and heard by whoever waits for it.
pub fn heeded(signals: &[Signal]) -> SigSet {
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

/// Keeps an agent or a path keeper from being ended by the Ctrl-C that a terminal sends to all of
/// its processes: the controller hears it and ends them in good order.
pub fn ignore() {
    for ignored in [Signal::SIGINT, Signal::SIGHUP] {
        // SAFETY: no handler is installed, and no other thread exists yet.
        let set = unsafe { signal(ignored, SigHandler::SigIgn) };
        // It fails only for signals that cannot be ignored.
        debug_assert!(set.is_ok());
    }
}

/// Lets a file that may not grow any more be told as an error, where the default is to end without a
/// word. The processes that this one starts inherit it.
pub fn tell_file_limits() {
    // SAFETY: no handler is installed, and no other thread exists yet.
    let set = unsafe { signal(Signal::SIGXFSZ, SigHandler::SigIgn) };
    debug_assert!(set.is_ok());
}

/// Signals that end a run, held back until somebody waits for them; without those that are ignored.
pub struct Held(SigSet);

impl Held {
    /// Holds the signals back, in this thread and in those that it starts from now on.
    ///
    /// # Errors
    /// What the system says.
    pub fn new() -> nix::Result<Self> {
        let set = heeded(&[Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]);
        set.thread_block()?;
        Ok(Self(set))
    }

    /// Stops the run at the first signal, and ends the process if somebody asks again.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn stop_with(self, stopper: Stopper) -> std::io::Result<()> {
        let words = "stopping: the trial under way is given up, what was measured is kept";
        self.end_with(words, move || stopper.stop())
    }

    /// The same for whatever is under way: says so, and stops it.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn end_with(
        self,
        words: &'static str,
        stop: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<()> {
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                if self.0.wait().is_err() {
                    return;
                }
                let stopped = Instant::now();
                output::err(words);
                stop();
                while let Ok(signal) = self.0.wait() {
                    if is_second(signal, stopped.elapsed()) {
                        // Agents and path keeper end with this process; the results file is whole
                        // after every trial.
                        std::process::exit(Code::Failed as i32);
                    }
                }
            })?;
        Ok(())
    }
}

/// Whether a signal that comes so long after the first one asks for an end at once. A terminal that
/// is closed says so more than once, by its shell and by the kernel, and asks for nothing more.
fn is_second(signal: Signal, after: Duration) -> bool {
    signal != Signal::SIGHUP && after >= SAME_WISH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_somebody_who_asks_again_ends_the_process_at_once() {
        let soon = Duration::from_millis(20);
        let later = Duration::from_millis(500);
        for signal in [Signal::SIGINT, Signal::SIGTERM] {
            assert!(!is_second(signal, soon), "{signal}");
            assert!(is_second(signal, later), "{signal}");
        }
        assert!(!is_second(Signal::SIGHUP, later));
    }
}
