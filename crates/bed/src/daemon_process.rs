//! Handle of a path daemon.

use std::{
    fmt, io,
    sync::{
        Arc,
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    time::Duration,
};

use parking_lot::Mutex;
use regatta_path_daemon::{
    COMMAND,
    messages::{Answer, ToDaemon},
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    error::BedError,
    json_child::{ChildOutput, JsonChild},
    launch::{Errors, Launcher},
};

/// Function that another thread calls when a path daemon ends.
#[derive(Clone)]
pub struct OnDaemonEnd(Arc<dyn Fn() + Send + Sync>);

impl OnDaemonEnd {
    /// Wraps a function.
    pub fn new(call: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(call))
    }

    /// Calls the function.
    pub fn call(&self) {
        (self.0)();
    }
}

impl fmt::Debug for OnDaemonEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnDaemonEnd").finish_non_exhaustive()
    }
}

/// Longest answer of a daemon, in bytes. Departures and arrivals of all packets of a check have a few megabytes.
const LONGEST_ANSWER: u64 = 256 << 20;

/// Path daemon, for the controller. Dropping this ends the daemon.
#[derive(Debug)]
pub(crate) struct DaemonProcess {
    child: JsonChild<ToDaemon, Answer<Value>>,
    answers: Receiver<ChildOutput<Answer<Value>>>,
    /// Puts an end among the answers, which ends a wait for one.
    interrupt: Sender<ChildOutput<Answer<Value>>>,
    /// Function that is called when the daemon ends by itself.
    on_end: Arc<Mutex<Option<OnDaemonEnd>>>,
    /// Whether the end of its answers was read.
    has_ended: bool,
}

impl DaemonProcess {
    pub(crate) fn start(launcher: &mut dyn Launcher) -> Result<Self, BedError> {
        let launched = launcher.launch(COMMAND, Errors::Inherit)?;
        let (interrupt, answers) = mpsc::channel();
        let on_end: Arc<Mutex<Option<OnDaemonEnd>>> = Arc::default();
        let (put, ended) = (interrupt.clone(), Arc::clone(&on_end));
        let on_output = move |output| {
            let is_last = matches!(output, ChildOutput::Ended(_));
            let is_read = put.send(output).is_ok();
            let call = ended.lock().clone();
            if let (true, Some(call)) = (is_last, call) {
                call.call();
            }
            is_read
        };
        let child = JsonChild::start(launched, COMMAND, LONGEST_ANSWER, on_output);
        let child = child.map_err(|source| BedError::Spawn {
            what: COMMAND.to_owned(),
            source,
        })?;
        Ok(Self {
            child,
            answers,
            interrupt,
            on_end,
            has_ended: false,
        })
    }

    /// Has another thread call a function when the daemon ends, unless that is by dropping this.
    pub(crate) fn on_end(&self, call: OnDaemonEnd) {
        *self.on_end.lock() = Some(call);
    }

    /// Returns a function that ends a wait for an answer, after which the daemon is of no use.
    pub(crate) fn interrupt(&self) -> impl Fn() + Send + Sync + 'static {
        let interrupt = self.interrupt.clone();
        move || {
            let error = Err(io::ErrorKind::Interrupted.into());
            // Nobody waits for a daemon that was dropped.
            let _ = interrupt.send(ChildOutput::Ended(error));
        }
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
            Ok(()) if self.has_ended => Err(RecvTimeoutError::Disconnected),
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
        self.has_ended = true;
        let exit = match source.kind() {
            // The daemon is still busy.
            io::ErrorKind::Interrupted => None,
            _ => self.child.exit(),
        };
        Err(BedError::DaemonEnded { exit, source })
    }
}

impl Drop for DaemonProcess {
    fn drop(&mut self) {
        // This end is meant.
        *self.on_end.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json_child::tests::Shell;

    /// A daemon without answers; its output stays open, under another number.
    const SILENT: &str = "exec cat 3>&1 >/dev/null";

    #[test]
    fn an_end_of_the_daemon_is_reported_at_once_and_a_drop_is_not() {
        let (ended_tx, ended) = mpsc::channel();
        let on_end = |daemon: &DaemonProcess| {
            let ended = ended_tx.clone();
            daemon.on_end(OnDaemonEnd::new(move || ended.send(()).unwrap()));
        };
        let mut daemon = DaemonProcess::start(&mut Shell("read line; exit 3")).unwrap();
        on_end(&daemon);
        daemon.put(&ToDaemon::Begin).unwrap();
        ended.recv().unwrap();
        let error = daemon.request::<()>(&ToDaemon::Begin, "begin", Duration::from_secs(60));
        assert!(
            matches!(error, Err(BedError::DaemonEnded { .. })),
            "{error:?}"
        );
        let daemon = DaemonProcess::start(&mut Shell(SILENT)).unwrap();
        on_end(&daemon);
        drop(daemon);
        assert!(ended.try_recv().is_err());
    }

    #[test]
    fn an_interrupt_ends_the_wait_for_an_answer() {
        let mut daemon = DaemonProcess::start(&mut Shell(SILENT)).unwrap();
        let interrupt = daemon.interrupt();
        let sent = daemon.put(&ToDaemon::Begin);
        interrupt();
        let error = daemon.answer::<()>(sent, "begin", Duration::from_secs(60));
        let Err(BedError::DaemonEnded { exit: None, source }) = error else {
            panic!("{error:?}");
        };
        assert_eq!(source.kind(), io::ErrorKind::Interrupted);
    }

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
