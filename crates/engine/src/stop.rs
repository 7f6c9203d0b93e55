//! Handle that stops a run from outside, for example on Ctrl-C.

use std::sync::mpsc::Sender;

use regatta_bed::StopRequest;

use crate::agent::Signal;

/// Handle that stops a run: the trial under way is given up, everything before it is kept.
#[derive(Debug, Clone)]
pub struct Stopper {
    pub(crate) stop: StopRequest,
    pub(crate) wake: Sender<Signal>,
}

impl Stopper {
    /// Asks the run to stop, which it does within a few seconds. A second call does no harm.
    pub fn stop(&self) {
        self.stop.ask();
        // Nobody hears it once the run is over, and then nothing is left to stop.
        let _ = self.wake.send(Signal::Stop);
    }
}
