//! Listeners to a run's events: the results file, the terminal, JSON output.

mod json;
mod progress;
mod progress_file;
mod store;

pub use json::JsonLines;
pub use progress::{Progress, bar};
pub use progress_file::{FILE_NAME as PROGRESS_FILE_NAME, ProgressFile, ShardProgress, unix_s};
use regatta_engine::{Event, Listener, ListenerError};
use regatta_live::LiveListener;
pub use store::{StoreListener, Tally};

/// All listeners of a run. The results file is the first: events that the others print are stored
/// by then.
pub struct Listeners {
    /// Listener that stores events in the results file.
    pub store: StoreListener,
    /// Listener that shows progress on the terminal.
    pub progress: Progress,
    /// Listener that writes JSON lines to standard output.
    pub json: Option<JsonLines>,
    /// Listener that writes the progress of a shard to a file.
    pub file: Option<ProgressFile>,
    /// Listener of the views of the run under way.
    pub live: LiveListener,
}

impl Listener for Listeners {
    fn on_event(&mut self, event: &Event) -> Result<(), ListenerError> {
        self.store.on_event(event)?;
        self.progress.on_event(event)?;
        if let Some(json) = &mut self.json {
            json.on_event(event)?;
        }
        if let Some(file) = &mut self.file {
            file.on_event(event)?;
        }
        self.live.on_event(event)
    }
}
