//! Handle that stops a run from outside, for example on Ctrl-C.

use regatta_bed::StopRequest;

/// Handle that stops a run: the trial under way is given up, everything before it is kept.
#[derive(Debug, Clone)]
pub struct Stopper(pub(crate) StopRequest);

impl Stopper {
    /// Asks the run to stop, which it does within a few seconds. A second call does no harm.
    pub fn stop(&self) {
        self.0.request();
    }
}
