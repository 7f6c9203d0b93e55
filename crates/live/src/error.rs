//! Errors of the views.

use std::{io, net::SocketAddr, path::PathBuf};

/// Errors of starting a view.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The standard error stream is no terminal of this process's group.
    #[error("`--live` draws on the terminal of standard error, which is {0}")]
    NoTerminal(&'static str),
    /// The terminal cannot be set up.
    #[error("cannot set up the terminal")]
    Terminal(#[source] io::Error),
    /// An address cannot be listened on.
    #[error("cannot listen on `{address}` for `{option}`")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Option that asks for it.
        option: &'static str,
        /// Error of the system.
        source: io::Error,
    },
    /// The directory of the text file cannot be written.
    #[error("cannot write `{}` for `--prometheus-textfile`", path.display())]
    Textfile {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A thread or its executor cannot be started.
    #[error("cannot start a thread for the views of the run")]
    Thread(#[source] io::Error),
    /// No run answers in a directory.
    #[error("no run answers in `{}`", dir.display())]
    NoRun {
        /// The directory.
        dir: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

impl LiveError {
    /// Returns a hint on what to type; empty if there is none.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::NoTerminal(_) => {
                "leave `--live` out, and run `regatta attach DIR` on a terminal; or use `--web`"
            }
            Self::Listen { .. } => "choose another port, or 0 for one that is free",
            Self::Textfile { .. } => {
                "name a file in the directory of node_exporter's `--collector.textfile.directory`, which this user may write"
            }
            Self::Terminal(_) | Self::Thread(_) | Self::NoRun { .. } => "",
        }
    }
}
