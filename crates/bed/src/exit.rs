//! Ends of processes, and which of them somebody else has caused.

use std::{fmt, os::unix::process::ExitStatusExt as _, process::ExitStatus};

use regatta_model::{Text, reason};
use regatta_process::out_of_memory_kills;
use serde::{Deserialize, Serialize};

/// Signals with which somebody ends a process that is well; a process that crashes gets others.
const OF_SOMEBODY: [i32; 4] = [libc::SIGKILL, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// End of a process, as the process that waited for it knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// Killed after a signal of somebody else had stopped it (`SIGSTOP`).
    Stopped,
    /// Ended by itself, or by a signal.
    Ended {
        /// Status of `waitpid`.
        status: i32,
        /// Whether the kernel killed a process for want of memory meanwhile, which was this one if a signal killed it.
        out_of_memory: bool,
    },
    /// The exit is unknown, for this reason: the process was not started, or the session with its host has ended.
    Unknown(Text),
}

impl Exit {
    /// Creates the exit of a process from its wait status. `kills_before` is
    /// [`out_of_memory_kills`](regatta_process::out_of_memory_kills) from when it was started: where the number has grown, a
    /// process that was killed may have been killed for its memory.
    pub(crate) fn new(status: ExitStatus, kills_before: u64) -> Self {
        let was_killed = status.signal() == Some(libc::SIGKILL);
        Self::Ended {
            status: status.into_raw(),
            out_of_memory: was_killed && out_of_memory_kills() > kills_before,
        }
    }

    /// Whether the process ended by itself with the exit status 0.
    #[must_use]
    pub const fn is_success(&self) -> bool {
        matches!(self, Self::Ended { status: 0, .. })
    }

    /// Whether somebody else has ended or stopped the process: by a signal that no crash sends, and not for want of memory.
    #[must_use]
    pub fn is_from_outside(&self) -> bool {
        match self {
            Self::Stopped => true,
            Self::Ended {
                status,
                out_of_memory,
            } => {
                let signal = ExitStatus::from_raw(*status).signal();
                !out_of_memory && signal.is_some_and(|signal| OF_SOMEBODY.contains(&signal))
            }
            Self::Unknown(_) => false,
        }
    }

    /// Returns the end for people.
    #[must_use]
    pub fn text(&self) -> Text {
        match self {
            Self::Stopped => reason::stopped_by_signal().into(),
            Self::Ended {
                status,
                out_of_memory,
            } => {
                let status = ExitStatus::from_raw(*status).to_string();
                match out_of_memory {
                    true => reason::killed_for_memory(&status).into(),
                    false => status.into(),
                }
            }
            Self::Unknown(reason) => reason.clone(),
        }
    }
}

/// In English.
impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_of_somebody_else_is_told_from_a_crash() {
        for (signal, expected) in [
            (libc::SIGKILL, true),
            (libc::SIGTERM, true),
            (libc::SIGSEGV, false),
            (libc::SIGABRT, false),
            (libc::SIGBUS, false),
        ] {
            let exit = Exit::new(ExitStatus::from_raw(signal), u64::MAX);
            assert_eq!(exit.is_from_outside(), expected, "{exit}");
        }
        let failed = Exit::new(ExitStatus::from_raw(101 << 8), u64::MAX);
        assert_eq!(failed.to_string(), "exit status: 101");
        assert!(!failed.is_from_outside() && !failed.is_success());
        assert!(Exit::Stopped.is_from_outside());
        // The words of somebody else decide nothing.
        assert!(!Exit::Unknown("killed (SIGKILL)".into()).is_from_outside());
    }

    #[test]
    fn a_process_killed_for_want_of_memory_is_not_killed_by_somebody() {
        let exit = Exit::Ended {
            status: libc::SIGKILL,
            out_of_memory: true,
        };
        assert!(!exit.is_from_outside());
        assert_eq!(
            exit.to_string(),
            "signal: 9 (SIGKILL), as the kernel killed a process for want of memory"
        );
    }

    #[test]
    fn an_exit_is_the_same_after_it_was_sent() {
        for exit in [
            Exit::Stopped,
            Exit::new(ExitStatus::from_raw(libc::SIGSEGV), u64::MAX),
            Exit::Unknown("no such file".into()),
        ] {
            let json = serde_json::to_string(&exit).unwrap();
            assert_eq!(serde_json::from_str::<Exit>(&json).unwrap(), exit);
        }
    }
}
