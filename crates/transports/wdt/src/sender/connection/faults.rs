//! Failures on a port of a sender, and their effect on the port.

use std::io;
use std::time::Duration;

use super::{After, Connection, State};
use crate::codec::{ABORT, Malformed};
use crate::crypto::{CryptoError, PROLOGUE};
use crate::failure::Failure;
use crate::inbox::WireError;
use crate::source::Source;
use crate::status::Status;

pub(super) const OTHER_KEY: &str =
    "the receiver encrypts with another key than that of the connection URL";

impl<S: Source> Connection<S> {
    /// Ends the connection after bytes of the receiver that cannot be decoded; gives the port up
    /// unless another connection may help.
    pub(super) fn unreadable(&mut self, error: &WireError, next: Option<&u8>) {
        let port = self.port;
        let (status, why) = match (self.disagreement(error, next), error) {
            (Some(why), _) => (Status::Encryption, why.to_owned()),
            (None, WireError::Crypto(error)) => {
                return self.lost(Status::Encryption, format!("port {port}: {error}"));
            }
            (None, WireError::Malformed(error)) => (Status::Protocol, error.to_string()),
        };
        self.give_up(Failure::new(status, format!("port {port}: {why}")));
    }

    /// Returns a disagreement of the two ends about encryption, if that explains the first bytes of
    /// a connection.
    fn disagreement(&self, error: &WireError, next: Option<&u8>) -> Option<&'static str> {
        let encrypts = self.session.url.secret.is_some();
        match error {
            _ if self.understood => None,
            // ABORT in clear: the receiver could not read SETTINGS.
            WireError::Crypto(CryptoError::Plaintext) if next == Some(&ABORT) => {
                Some("the receiver has another key than this sender's connection URL, or none")
            }
            WireError::Malformed(_) if encrypts => Some(OTHER_KEY),
            WireError::Malformed(Malformed::UnknownCommand(PROLOGUE)) => {
                Some("the receiver encrypts, and the connection URL has no key")
            }
            _ => None,
        }
    }

    /// Returns the reason why a port is given up that refuses connections.
    pub(super) fn unreachable(&self, error: &io::Error) -> Failure {
        let port = self.port;
        if !self.again {
            let detail = format!("port {port} cannot be connected to ({error})");
            return Failure::new(Status::Connection, detail);
        }
        let last = &self.last_fault;
        if !self.answered && self.session.url.secret.is_some() {
            // A receiver of the reference says nothing to a sender whose bytes it cannot read.
            let detail = format!(
                "the receiver closed port {port} without an answer, and cannot be connected to any more: it may have another key or cipher than this sender's connection URL ({})",
                last.detail
            );
            return Failure::new(Status::SocketWrite, detail);
        }
        let status = match last.status {
            Status::SocketWrite => Status::SocketWrite,
            _ => Status::Connection,
        };
        let detail = format!(
            "{}, and the port cannot be connected to again ({error})",
            last.detail
        );
        Failure::new(status, detail)
    }

    /// Returns the path of the file that is being sent.
    pub(super) fn current_path(&self) -> String {
        let Some(current) = &self.outgoing.current else {
            return String::new();
        };
        let file = &self.session.source.files()[current.block.file];
        file.path.to_string()
    }

    /// Fails the transfer, as parts of old and new content may have been sent of a file.
    pub(super) fn source_changed(&mut self, error: &io::Error) {
        let held = match self.session.url.resumption {
            true => "; first remove `.wdt-resume.part` at the receiver, which holds old parts",
            false => "",
        };
        let path = self.current_path();
        self.fail_source(format!(
            "`{path}` may be a mixture of old and new content ({error}): send it again once nothing \
             writes to it, or leave it out{held}"
        ));
    }

    pub(super) fn fail_source(&mut self, detail: String) {
        let failure = Failure::new(Status::SourceRead, detail);
        self.session.give_up(failure.clone());
        self.lost(failure.status, failure.detail);
    }

    /// This end was stopped: the receiver gets the status in place of DONE. It is in the middle of what was
    /// being sent, so that this takes another connection.
    pub fn stop(&mut self, failure: Failure) {
        self.session.give_up(failure.clone());
        // The DONE waits for no rate.
        (self.uncounted, self.payload_at) = (0, Duration::ZERO);
        if !matches!(self.state, State::Closing { .. }) {
            self.lost(failure.status, failure.detail);
        }
    }

    pub(super) fn unexpected(&mut self, what: &str) {
        let detail = format!("port {} of the receiver sent {what}", self.port);
        self.give_up(Failure::new(Status::Protocol, detail));
    }

    /// Drops a connection that failed; connects again, or gives the port up after too many failures
    /// in a row.
    pub(super) fn lost(&mut self, status: Status, detail: String) {
        if let State::Dropping(_) | State::Ended | State::Connecting { .. } = self.state {
            return;
        }
        self.last_fault = Failure::new(status, detail);
        self.failures_without_progress += 1;
        if self.failures_without_progress > self.session.options().reconnections_without_progress {
            let detail = format!(
                "port {} made no progress over {} connections, of which the last failed: {}",
                self.port, self.failures_without_progress, self.last_fault.detail
            );
            return self.give_up(Failure::new(Status::NoProgress, detail));
        }
        self.outgoing.current = None;
        self.drop_and(After::Reconnect);
    }

    pub(super) fn give_up(&mut self, failure: Failure) {
        if !matches!(self.state, State::Ended) {
            self.session.port_ended(self.index, &failure);
        }
        self.drop_and(After::End);
    }

    pub(super) fn drop_and(&mut self, after: After) {
        match (&self.state, after) {
            // Once it is over it stays so, and nothing is closed twice.
            (State::Ended, _) | (State::Dropping(After::End), _) => {}
            (State::Connecting { .. }, After::End) => self.state = State::Ended,
            (State::Connecting { .. }, _) => {}
            (_, after) => self.state = State::Dropping(after),
        }
    }
}
