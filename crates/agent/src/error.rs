//! Errors that end an agent before its input ends.

use std::{io, io::Write};

use regatta_model::{Text, causes, reason};

/// Error that ends an agent before its input ends.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The controller speaks another version of the protocol.
    #[error(
        "the controller speaks version `{theirs}` of the protocol, this agent version `{ours}`"
    )]
    Version {
        /// Version of the controller's protocol.
        theirs: String,
        /// Version of this agent's protocol, [`regatta_control::PROTOCOL_VERSION`].
        ours: u32,
    },
    /// A line is no message of the protocol.
    #[error("line {line} of the input is not a valid message: `{text}`")]
    Malformed {
        /// Number of the line, from 1.
        line: u64,
        /// Beginning of the line.
        text: String,
        /// Error of the parser.
        source: serde_json::Error,
    },
    /// A line is longer than any message.
    #[error("line {line} of the input is longer than {limit} bytes")]
    TooLong {
        /// Number of the line, from 1.
        line: u64,
        /// Maximum length of a line, in bytes.
        limit: u64,
    },
    /// The first message is not a greeting, or there are two.
    #[error("`hello` must be the first message, and come once")]
    Greeting,
    /// Standard input cannot be read.
    #[error("cannot read the input")]
    Input(#[source] io::Error),
    /// The system starts no more threads.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
    /// The system starts no more processes.
    #[error("cannot start the process that serves")]
    Fork(#[source] io::Error),
    /// Standard output cannot be written.
    #[error("cannot write the answer")]
    Output(#[source] io::Error),
    /// A session did not end when it was aborted; only the end of the process ends it.
    #[error("the session of trial {trial} did not end within {seconds} s of its abort")]
    Stuck {
        /// Position in the plan.
        trial: u32,
        /// Time that was waited, in seconds.
        seconds: u64,
    },
}

impl AgentError {
    /// Returns the process's exit code.
    #[must_use]
    pub const fn exit_code(&self) -> i32 {
        match self {
            Self::Version { .. }
            | Self::Malformed { .. }
            | Self::TooLong { .. }
            | Self::Greeting => 2,
            Self::Input(_) | Self::Output(_) | Self::Thread(_) | Self::Fork(_) => 1,
            Self::Stuck { .. } => 3,
        }
    }

    fn hint(&self) -> Text {
        let hint = match self {
            Self::Version { .. } => "install the same version of `regatta` at both ends",
            Self::Malformed { .. } | Self::TooLong { .. } | Self::Greeting => {
                "`regatta agent` is started by `regatta run`, not by hand"
            }
            Self::Stuck { .. } => "start a new agent",
            Self::Thread(_) | Self::Fork(_) => return reason::more_threads().into(),
            Self::Input(_) | Self::Output(_) => "",
        };
        hint.into()
    }
}

/// Writes an error with its causes and its hint to standard error.
pub(crate) fn print(error: &AgentError) {
    let mut text = format!("error: {error}\n");
    for cause in &causes(error)[1..] {
        text.push_str(&format!("  caused by: {cause}\n"));
    }
    if !error.hint().is_empty() {
        text.push_str(&format!("hint: {}\n", error.hint()));
    }
    // Nothing can be done about a closed standard error.
    let _ = io::stderr().write_all(text.as_bytes());
}
