//! Machine output: one JSON value per line on standard output, the summary last.

use regatta_engine::{Event, Listener, ListenerError};
use serde::Serialize;

use crate::output;

/// Writes each event as a line.
pub struct JsonLines;

/// The last line.
#[derive(Serialize)]
struct Last<'a, S: Serialize> {
    event: &'static str,
    directory: &'a str,
    summary: &'a S,
}

fn line<T: Serialize>(value: &T) -> Result<String, serde_json::Error> {
    let mut line = serde_json::to_string(value)?;
    line.push('\n');
    Ok(line)
}

impl JsonLines {
    /// The last line: where the results are, and what they say.
    ///
    /// # Errors
    /// If standard output cannot be written, other than because its reader has gone.
    pub fn summary<S: Serialize>(&self, directory: &str, summary: &S) -> Result<(), ListenerError> {
        output::exactly(&line(&Last {
            event: "summary",
            directory,
            summary,
        })?)?;
        Ok(())
    }
}

impl Listener for JsonLines {
    fn hear(&mut self, event: &Event) -> Result<(), ListenerError> {
        output::exactly(&line(event)?)?;
        Ok(())
    }
}
