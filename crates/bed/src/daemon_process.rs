//! Handle of a path daemon.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    os::fd::AsFd,
    time::Duration,
};

use regatta_path_daemon::{
    COMMAND,
    messages::{Answer, ToDaemon},
};
use regatta_process::{readable, write_line};
use serde::de::DeserializeOwned;

use crate::{
    error::BedError,
    launch::{Errors, Input, LaunchedProcess, Launcher},
};

/// Time that a daemon has to end by itself before it is killed.
const EXIT_LIMIT: Duration = Duration::from_millis(500);

/// Path daemon, for the controller. Dropping this ends the daemon.
#[derive(Debug)]
pub(crate) struct DaemonProcess {
    process: Box<dyn LaunchedProcess>,
    requests: Option<Box<dyn Input>>,
    answers: BufReader<File>,
}

impl DaemonProcess {
    pub(crate) fn start(launcher: &mut dyn Launcher) -> Result<Self, BedError> {
        let launched = launcher.launch(COMMAND, Errors::Inherit)?;
        Ok(Self {
            process: launched.process,
            requests: Some(launched.input),
            answers: BufReader::new(launched.output.into()),
        })
    }

    /// Returns the daemon's number at its launcher's host.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
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
        let Some(requests) = &mut self.requests else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        write_line(requests, request)
    }

    /// Waits for the result of a request; `sent` is the result of [`DaemonProcess::put`].
    pub(crate) fn answer<T: DeserializeOwned>(
        &mut self,
        sent: io::Result<()>,
        what: &'static str,
        within: Duration,
    ) -> Result<T, BedError> {
        let line = match sent.and_then(|()| self.line(within)) {
            Ok(Some(line)) => line,
            Ok(None) => {
                // An answer that comes later would be taken for that of the next request: there is none.
                self.requests = None;
                return Err(BedError::TimedOut(within));
            }
            Err(source) => {
                let exit = self.process.ended(EXIT_LIMIT);
                return Err(BedError::DaemonEnded { exit, source });
            }
        };
        match serde_json::from_str(&line) {
            Ok(Answer::Done { result }) => Ok(result),
            Ok(Answer::Failed(source)) => Err(BedError::Refused { what, source }),
            Err(_) => Err(BedError::Protocol { line }),
        }
    }

    /// Returns the line of the answer, or `None` if none came in time.
    fn line(&mut self, within: Duration) -> io::Result<Option<String>> {
        let answers = &mut self.answers;
        // The daemon writes a line at once, so that one that has begun will end.
        if !readable(&[answers.get_ref().as_fd()], Some(within))? {
            return Ok(None);
        }
        let mut line = String::new();
        if answers.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        line.truncate(line.trim_end().len());
        Ok(Some(line))
    }
}

impl Drop for DaemonProcess {
    fn drop(&mut self) {
        // End of input ends it.
        self.requests = None;
        if self.process.ended(EXIT_LIMIT).is_none() {
            self.process.kill();
        }
    }
}
