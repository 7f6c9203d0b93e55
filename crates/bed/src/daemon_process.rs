//! Handle of a path daemon.

use std::{
    io,
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::Duration,
};

use regatta_path_daemon::{
    COMMAND,
    messages::{Answer, ToDaemon},
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    error::BedError,
    json_child::{ChildOutput, JsonChild},
    launch::Launcher,
};

/// Longest answer of a daemon, in bytes. Departures and arrivals of all packets of a check have a few megabytes.
const LONGEST_ANSWER: u64 = 256 << 20;

/// Path daemon, for the controller. Dropping this ends the daemon.
#[derive(Debug)]
pub(crate) struct DaemonProcess {
    child: JsonChild<ToDaemon, Answer<Value>>,
    answers: Receiver<ChildOutput<Answer<Value>>>,
}

impl DaemonProcess {
    pub(crate) fn start(launcher: &mut dyn Launcher) -> Result<Self, BedError> {
        let (child, answers) = JsonChild::launch(launcher, COMMAND, LONGEST_ANSWER)?;
        Ok(Self { child, answers })
    }

    /// Returns the daemon's number at its launcher's host.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a request and waits for its result; `what` names the request in errors.
    pub(crate) fn request<T: DeserializeOwned>(
        &mut self,
        request: &ToDaemon,
        what: &'static str,
        within: Duration,
    ) -> Result<T, BedError> {
        let sent = self.put(request);
        self.answer(sent, what, within)
    }

    /// Sends a request whose answer is read later.
    pub(crate) fn put(&mut self, request: &ToDaemon) -> io::Result<()> {
        self.child.send(request)
    }

    /// Waits for the result of a request; `sent` is the result of [`DaemonProcess::put`].
    pub(crate) fn answer<T: DeserializeOwned>(
        &mut self,
        sent: io::Result<()>,
        what: &'static str,
        within: Duration,
    ) -> Result<T, BedError> {
        let answer = match sent {
            Ok(()) => self.answers.recv_timeout(within),
            Err(source) => Ok(ChildOutput::Ended(Err(source))),
        };
        let source = match answer {
            Ok(ChildOutput::Message(Answer::Done { result })) => {
                return T::deserialize(&result).map_err(|_| BedError::Protocol {
                    line: result.to_string(),
                });
            }
            Ok(ChildOutput::Message(Answer::Failed(source))) => {
                return Err(BedError::Refused { what, source });
            }
            Ok(ChildOutput::Malformed(line)) => {
                return Err(BedError::Protocol { line: line.text() });
            }
            Err(RecvTimeoutError::Timeout) => {
                // An answer that comes later would be taken for that of the next request: there is none.
                self.child.close_input();
                return Err(BedError::TimedOut(within));
            }
            Ok(ChildOutput::Ended(Err(source))) => source,
            Ok(ChildOutput::Ended(Ok(()))) | Err(RecvTimeoutError::Disconnected) => {
                io::ErrorKind::UnexpectedEof.into()
            }
        };
        let exit = self.child.exit();
        Err(BedError::DaemonEnded { exit, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json_child::tests::Shell;

    #[test]
    fn an_answer_that_does_not_end_is_not_waited_for() {
        // Its output is still open, under another number.
        let script = "printf '{'; exec cat 3>&1 >/dev/null";
        let within = Duration::from_millis(50);
        let mut daemon = DaemonProcess::start(&mut Shell(script)).unwrap();
        let error = daemon.request::<()>(&ToDaemon::Begin, "begin", within);
        assert!(matches!(error, Err(BedError::TimedOut(_))), "{error:?}");
        // Its input is closed.
        let error = daemon.request::<()>(&ToDaemon::Begin, "begin", within);
        assert!(
            matches!(error, Err(BedError::DaemonEnded { .. })),
            "{error:?}"
        );
    }
}
