//! Who listens to a run: the results file, the terminal, a machine.

mod json;
mod progress;
mod store;

pub use json::JsonLines;
pub use progress::Progress;
use regatta_engine::{Event, Listener, ListenerError};
pub use store::{Keeper, Tally};

/// All listeners of a run. The results file hears first: what the others say is kept by then.
pub struct Listeners {
    /// The results file.
    pub keeper: Keeper,
    /// The terminal.
    pub progress: Progress,
    /// A machine on standard output.
    pub json: Option<JsonLines>,
}

impl Listener for Listeners {
    fn hear(&mut self, event: &Event) -> Result<(), ListenerError> {
        self.keeper.hear(event)?;
        self.progress.hear(event)?;
        if let Some(json) = &mut self.json {
            json.hear(event)?;
        }
        Ok(())
    }
}
