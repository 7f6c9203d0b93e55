//! Messages between processes as lines of JSON.

use std::io::{self, Write};

use serde::Serialize;

/// Writes a message as one line of JSON, and flushes it.
///
/// # Errors
/// Errors of writing.
pub fn write_line(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}
