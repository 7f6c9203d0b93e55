//! Ctrl-C and the other polite ways to end a run.

use nix::sys::signal::{SigHandler, SigSet, Signal, signal};
use regatta_engine::Stopper;

use crate::{exit::Code, output};

fn polite() -> SigSet {
    SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP])
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

/// Signals that end a run, held back until somebody waits for them.
pub struct Held(SigSet);

impl Held {
    /// Holds the signals back, in this thread and in those that it starts from now on.
    ///
    /// # Errors
    /// What the system says.
    pub fn new() -> nix::Result<Self> {
        let set = polite();
        set.thread_block()?;
        Ok(Self(set))
    }

    /// Stops the run at the first signal, and ends the process at the second.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn stop_with(self, stopper: Stopper) -> std::io::Result<()> {
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                if self.0.wait().is_err() {
                    return;
                }
                output::err("stopping: the trial under way is given up, what was measured is kept");
                stopper.stop();
                if self.0.wait().is_ok() {
                    // Agents and path keeper end with this process; the results file is whole
                    // after every trial.
                    std::process::exit(Code::Failed as i32);
                }
            })?;
        Ok(())
    }
}
