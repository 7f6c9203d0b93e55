//! Reader of the controller's lines.

use std::io::{BufRead, Read};

use regatta_control::{PROTOCOL_VERSION, ToAgent};

use crate::error::AgentError;

/// Longest line that is read; a message has a few kilobytes.
pub(crate) const LONGEST_LINE: u64 = 4 << 20;

/// Longest part of a malformed line that an error shows, in characters.
const SHOWN: usize = 120;

/// Messages from lines, numbered for errors.
pub(crate) struct Lines<R> {
    reader: R,
    line: u64,
    hello_received: bool,
}

impl<R: BufRead> Lines<R> {
    pub(crate) const fn new(reader: R) -> Self {
        Self {
            reader,
            line: 0,
            hello_received: false,
        }
    }

    /// Returns the next message; `None` at the end of input. Empty lines are passed over.
    ///
    /// The first one must be a `hello` of this version. The version is checked before the rest
    /// of the message, which another version may have changed.
    pub(crate) fn next(&mut self) -> Result<Option<ToAgent>, AgentError> {
        loop {
            let mut text = Vec::new();
            self.line += 1;
            (&mut self.reader)
                .take(LONGEST_LINE + 1)
                .read_until(b'\n', &mut text)
                .map_err(AgentError::Input)?;
            if text.is_empty() {
                return Ok(None);
            }
            if text.len() as u64 > LONGEST_LINE {
                return Err(AgentError::TooLong {
                    line: self.line,
                    limit: LONGEST_LINE,
                });
            }
            let text = text.trim_ascii();
            if !text.is_empty() {
                return self.parse(text).map(Some);
            }
        }
    }

    fn parse(&mut self, text: &[u8]) -> Result<ToAgent, AgentError> {
        let malformed = |source| AgentError::Malformed {
            line: self.line,
            text: String::from_utf8_lossy(text).chars().take(SHOWN).collect(),
            source,
        };
        let value: serde_json::Value = serde_json::from_slice(text).map_err(malformed)?;
        let is_hello = value.get("type").is_some_and(|kind| kind == "hello");
        if let Some(theirs) = value.get("protocol").filter(|_| is_hello)
            && *theirs != PROTOCOL_VERSION
        {
            return Err(AgentError::Version {
                theirs: theirs.to_string(),
                ours: PROTOCOL_VERSION,
            });
        }
        let message = serde_json::from_value(value).map_err(malformed)?;
        if is_hello == self.hello_received {
            return Err(AgentError::Greeting);
        }
        self.hello_received = true;
        Ok(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: &str = r#"{"type":"hello","protocol":2,"run_id":"r","host":"a"}"#;
    const ABORT: &str = r#"{"type":"abort","trial":7}"#;

    fn messages(text: &[u8]) -> Result<Vec<ToAgent>, AgentError> {
        let mut lines = Lines::new(text);
        let mut messages = Vec::new();
        while let Some(message) = lines.next()? {
            messages.push(message);
        }
        Ok(messages)
    }

    #[test]
    fn messages_keep_their_order_and_empty_lines_are_skipped() {
        let text = format!("{HELLO}\n\n  \r\n{ABORT}\r\n{ABORT}");
        let messages = messages(text.as_bytes()).unwrap();
        assert_eq!(messages.len(), 3);
        assert_eq!(messages[2], ToAgent::Abort { trial: 7 });
        assert_eq!(PROTOCOL_VERSION, 2, "the texts above are of version 2");
    }

    #[test]
    fn another_version_is_not_a_malformed_line() {
        let other = br#"{"type":"hello","protocol":3,"what_is_this":[]}"#;
        assert!(matches!(
            messages(other),
            Err(AgentError::Version { ref theirs, ours: 2 }) if theirs == "3"
        ));
        let none = br#"{"type":"hello","run_id":"r","host":"a"}"#;
        assert!(matches!(
            messages(none),
            Err(AgentError::Malformed { line: 1, .. })
        ));
    }

    #[test]
    fn hello_is_first_and_only_once() {
        assert!(matches!(
            messages(ABORT.as_bytes()),
            Err(AgentError::Greeting)
        ));
        let twice = format!("{HELLO}\n{HELLO}\n");
        assert!(matches!(
            messages(twice.as_bytes()),
            Err(AgentError::Greeting)
        ));
    }

    #[test]
    fn malformed_lines_do_not_panic() {
        for wrong in [
            &b"{"[..],
            b"[]",
            b"null",
            b"\xff\xfe\n",
            b"{\"type\":\"hello\",\"protocol\":-1}",
            b"{\"type\":\"hello\",\"protocol\":1e99}",
            b"{\"type\":\"prepare\",\"order\":{}}",
        ] {
            assert!(messages(wrong).is_err(), "{wrong:?}");
        }
        let deep = "[".repeat(100_000);
        assert!(matches!(
            messages(deep.as_bytes()),
            Err(AgentError::Malformed { .. })
        ));
        let long = vec![b' '; LONGEST_LINE as usize + 5];
        assert!(matches!(
            messages(&long),
            Err(AgentError::TooLong { line: 1, .. })
        ));
    }
}
