//! Machine output: one JSON value per line on standard output, the summary last.

use regatta_engine::{Event, Listener, ListenerError, unix_ns};
use serde::Serialize;

use crate::output;

/// Listener that writes each event as a line.
pub struct JsonLines;

/// Line of an event: its content and the time at which it was written.
#[derive(Serialize)]
struct Line<'a, T: Serialize> {
    #[serde(flatten)]
    event: &'a T,
    /// Time of this machine's clock.
    time_unix_ns: i64,
}

/// Last line: the directory and the summary.
#[derive(Serialize)]
struct Last<'a, S: Serialize> {
    event: &'static str,
    directory: &'a str,
    summary: &'a S,
}

fn write<T: Serialize>(event: &T) -> Result<(), ListenerError> {
    Ok(output::json_line(&Line {
        event,
        time_unix_ns: unix_ns(),
    })?)
}

impl JsonLines {
    /// Writes the last line: the place of the results, and their summary.
    ///
    /// # Errors
    /// Standard output cannot be written, for another reason than a closed reader.
    pub fn summary<S: Serialize>(&self, directory: &str, summary: &S) -> Result<(), ListenerError> {
        write(&Last {
            event: "summary",
            directory,
            summary,
        })
    }
}

impl Listener for JsonLines {
    fn on_event(&mut self, event: &Event) -> Result<(), ListenerError> {
        write(&*event.in_english())
    }
}
