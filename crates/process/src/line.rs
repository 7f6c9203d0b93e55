//! Messages between processes as lines of JSON, and lines of text.

use std::{
    collections::VecDeque,
    io::{self, BufRead, Write},
};

use regatta_model::{Text, reason, shell::printable};
use serde::{Serialize, de::DeserializeOwned, de::Error as _};

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

/// Reader of messages that another process writes as lines of JSON.
#[derive(Debug)]
pub struct JsonLines<R> {
    reader: R,
    /// Longest line that is read, in bytes with its line feed.
    longest: u64,
    /// Whether the rest of a line that is too long comes next.
    is_inside_line: bool,
}

/// Line that is not the expected message.
#[derive(Debug)]
pub struct MalformedLine {
    /// The line without the space around it; its beginning if it is too long.
    pub line: Vec<u8>,
    /// Whether the line is longer than its reader permits.
    pub is_too_long: bool,
    /// Error of the JSON parser, or that the line is too long.
    pub source: serde_json::Error,
}

impl<R: BufRead> JsonLines<R> {
    /// Creates a reader of lines of at most `longest` bytes.
    pub const fn new(reader: R, longest: u64) -> Self {
        Self {
            reader,
            longest,
            is_inside_line: false,
        }
    }

    /// Waits for the next line and returns its message; `None` at the end.
    ///
    /// # Errors
    /// Errors of reading.
    pub fn receive<T: DeserializeOwned>(&mut self) -> io::Result<Option<Result<T, MalformedLine>>> {
        if std::mem::take(&mut self.is_inside_line) {
            self.reader.skip_until(b'\n')?;
        }
        let mut line = Vec::new();
        if read_part(&mut self.reader, self.longest.saturating_add(1), &mut line)? == 0 {
            return Ok(None);
        }
        let is_too_long = line.len() as u64 > self.longest;
        self.is_inside_line = is_too_long && !line.ends_with(b"\n");
        let parsed = match is_too_long {
            true => {
                let limit = self.longest;
                Err(serde_json::Error::custom(format_args!(
                    "longer than {limit} bytes"
                )))
            }
            false => serde_json::from_slice(line.trim_ascii()),
        };
        Ok(Some(parsed.map_err(|source| MalformedLine {
            line: line.trim_ascii().to_vec(),
            is_too_long,
            source,
        })))
    }

    /// Returns the reader, with the bytes that it has buffered.
    pub fn into_reader(self) -> R {
        self.reader
    }
}

impl MalformedLine {
    /// Returns the line as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.line).into_owned()
    }

    /// Returns the first characters of the line, for messages.
    #[must_use]
    pub fn beginning(&self, characters: usize) -> String {
        self.text().chars().take(characters).collect()
    }
}

/// Appends the next line to `line`, or the next `longest` bytes of it; returns the number of bytes, 0 at the end.
fn read_part(reader: &mut impl BufRead, longest: u64, line: &mut Vec<u8>) -> io::Result<usize> {
    io::Read::take(reader, longest).read_until(b'\n', line)
}

/// Last lines of the output of a process, which explain its end.
#[derive(Debug)]
pub struct LastLines {
    lines: VecDeque<String>,
    most: usize,
    /// Prefix of the lines on standard error if logs are enabled.
    prefix: &'static str,
}

impl LastLines {
    /// Creates an empty tail of at most `most` lines, which have this prefix in logs.
    #[must_use]
    pub const fn new(most: usize, prefix: &'static str) -> Self {
        Self {
            lines: VecDeque::new(),
            most,
            prefix,
        }
    }

    /// Keeps a line instead of the oldest, and copies it to this process's standard error if logs are enabled.
    pub fn keep(&mut self, line: String) {
        if std::env::var_os("REGATTA_LOG").is_some() {
            eprintln!("{}{}", self.prefix, printable(&line));
        }
        if self.lines.len() == self.most {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    /// Returns the lines as one text, if there are any.
    #[must_use]
    pub fn description(&self) -> Option<Text> {
        let lines: Vec<&str> = self.lines.iter().map(String::as_str).collect();
        (!lines.is_empty()).then(|| reason::last_lines(&lines.join(" / ")).into())
    }
}

/// Passes each line of an output to `take` until the output ends. A line of more than `longest` bytes is passed in parts.
///
/// # Errors
/// The output cannot be read.
pub fn each_line(
    mut output: impl BufRead,
    longest: u64,
    mut take: impl FnMut(String),
) -> io::Result<()> {
    let mut line = Vec::new();
    while read_part(&mut output, longest, &mut line)? > 0 {
        take(String::from_utf8_lossy(&line).trim_end().to_owned());
        line.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_message_or_malformed() {
        let text = b"1\n two \r\n\n123456789\n12\n3";
        let mut lines = JsonLines::new(&text[..], 9);
        let mut received = Vec::new();
        while let Some(message) = lines.receive::<u64>().unwrap() {
            received.push(message.map_err(|it| (it.text(), it.is_too_long)));
        }
        let malformed = |text: &str, is_too_long| Err((text.to_owned(), is_too_long));
        assert_eq!(
            received,
            [
                Ok(1),
                malformed("two", false),
                malformed("", false),
                malformed("123456789", true),
                Ok(12),
                Ok(3)
            ]
        );
    }

    #[test]
    fn the_rest_of_a_line_that_is_too_long_is_skipped() {
        let mut lines = JsonLines::new(&b"1234567890 2\n3\n"[..], 4);
        let malformed = lines.receive::<u64>().unwrap().unwrap().unwrap_err();
        assert_eq!(malformed.beginning(3), "123");
        assert_eq!(malformed.source.to_string(), "longer than 4 bytes");
        assert_eq!(lines.receive::<u64>().unwrap().unwrap().unwrap(), 3);
        assert!(lines.receive::<u64>().unwrap().is_none());
    }

    #[test]
    fn the_last_lines_are_kept_and_long_ones_divided() {
        let mut last_lines = LastLines::new(2, "");
        each_line(&b"first\nabcdef\r\n"[..], 4, |line| last_lines.keep(line)).unwrap();
        let text = last_lines.description().unwrap();
        assert_eq!(text.to_string(), "its last lines of output: abcd / ef");
    }
}
