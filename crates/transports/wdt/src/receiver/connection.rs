//! One port of a receiver, over all connections to it.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::session::{Judgement, Partial, Session};
use crate::codec::{Allocation, Done};
use crate::codec::{Command, Decoded, FileHeader, Malformed, Reply, Settings, footer};
use crate::crypto::{CryptoError, Seal};
use crate::failure::Failure;
use crate::inbox::{Inbox, WireError};
use crate::sink::{IncomingBlock, Sink, SinkWriter};
use crate::status::Status;
use crate::{OLDEST_VERSION, VERSION};

/// How long to read on after ABORT, so that closing does not take it back.
const LINGER: Duration = Duration::from_secs(1);
/// After so many connections in a row that were not the sender's, a port is given up.
const STRANGERS: u32 = 16;
/// WAIT and HEARTBEAT come so often within the sender's read time-out.
const SIGNS_OF_LIFE: u32 = 5;

/// What a connection asks for. After it was done, and said, comes the next.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Accept a connection; say [`Connection::accepted`], or come back at this time. That may
    /// become earlier through other ports, so come back every 100 ms.
    Accept(Duration),
    /// Write [`Connection::output`]; say [`Connection::written`] or [`Connection::write_failed`].
    Write,
    /// Wait for bytes until this time; say [`Connection::received`] or
    /// [`Connection::read_failed`], or come back at that time. Coming back earlier does no harm.
    Read(Duration),
    /// Come back at this time, or when another connection [has changed
    /// something](Session::wait_for_change).
    Wait(Duration),
    /// Nothing more will be written on this connection.
    Shutdown,
    /// Close the connection.
    Disconnect,
    /// This port is done with.
    End,
}

/// One port of the transfer.
pub struct Connection<K: Sink> {
    session: Arc<Session<K>>,
    index: usize,
    port: u16,
    state: State<K::Writer>,
    /// Until when a broken connection may be made again; absent before the first.
    accept_until: Option<Duration>,
    /// A connection broke, so the next begins with a checkpoint.
    again: bool,
    strangers: u32,
    inbox: Inbox,
    seal: Option<Seal>,
    /// What goes out next; empty once it was written.
    out: Vec<u8>,
    settings: Option<Settings>,
    last_received: Duration,
    next_sign: Duration,
    /// Blocks that are whole but after the last tag: where they end in the stream, their length.
    unverified: VecDeque<(u64, u64)>,
    /// Blocks up to here in the stream were acknowledged before a tag said that they are right.
    trusted_until: u64,
    last_fault: Failure,
}

enum State<W> {
    Accepting,
    /// SETTINGS must come.
    Opening,
    Commands,
    Payload(Arriving<W>),
    /// The footer must come.
    Footer(Arriving<W>),
    /// DONE came.
    Waiting,
    /// `D` is out; the sender's `D` must come.
    Confirming,
    /// The sender's last tag must come, or there is none.
    Ending {
        ended: bool,
        answered: bool,
        shut: bool,
    },
    /// ABORT is out; what still comes is thrown away.
    Aborting {
        shut: bool,
        until: Duration,
        then: After,
    },
    Dropping(After),
    Ended,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    Accept,
    End,
}

/// The block that is coming.
struct Arriving<W> {
    header: FileHeader,
    writer: W,
    got: u64,
    crc: u32,
}

impl<K: Sink> Connection<K> {
    /// The port at `index` of the connection URL, on which somebody listens from now on.
    pub fn new(session: Arc<Session<K>>, index: usize) -> Self {
        let port = session.port(index);
        Self {
            inbox: Inbox::new(session.secret()),
            session,
            index,
            port,
            state: State::Accepting,
            accept_until: None,
            again: false,
            strangers: 0,
            seal: None,
            out: Vec::new(),
            settings: None,
            last_received: Duration::ZERO,
            next_sign: Duration::ZERO,
            unverified: VecDeque::new(),
            trusted_until: 0,
            last_fault: Failure::new(
                Status::Connection,
                format!("no sender connected to port {port} in time"),
            ),
        }
    }

    /// What to do now.
    pub fn step(&mut self, now: Duration) -> Step {
        if self.session.failed() {
            self.abort_if_open(now);
        }
        if !self.out.is_empty() && !matches!(self.state, State::Dropping(_) | State::Ended) {
            return Step::Write;
        }
        let read_until = self.last_received + self.session.options().read_timeout;
        let reads = matches!(
            self.state,
            State::Commands | State::Payload(_) | State::Footer(_)
        );
        if reads && now < read_until && self.sign_due(now) {
            self.reply(&Reply::Heartbeat);
            return Step::Write;
        }
        match &mut self.state {
            State::Accepting => self.accept(now),
            State::Waiting => self.wait(now),
            State::Opening | State::Commands | State::Payload(_) | State::Footer(_)
                if now >= read_until =>
            {
                let detail = format!("the sender was silent on port {}", self.port);
                self.lost(Status::Timeout, detail, now);
                self.step(now)
            }
            State::Confirming | State::Ending { ended: false, .. } if now >= read_until => {
                let detail = format!("the sender did not end port {}", self.port);
                self.lost(Status::Timeout, detail, now);
                self.step(now)
            }
            State::Opening
            | State::Commands
            | State::Payload(_)
            | State::Footer(_)
            | State::Confirming
            | State::Ending { ended: false, .. } => Step::Read(read_until),
            State::Ending {
                answered: answered @ false,
                ..
            } => {
                *answered = true;
                if let Some(Err(_)) = self.seal.as_mut().map(|seal| seal.finish(&mut self.out)) {
                    self.state = State::Dropping(After::End);
                }
                self.step(now)
            }
            State::Ending {
                shut: shut @ false, ..
            } => {
                *shut = true;
                Step::Shutdown
            }
            State::Ending { .. } => {
                self.session.ended(self.index, None);
                self.state = State::Dropping(After::End);
                self.step(now)
            }
            State::Aborting {
                shut: shut @ false,
                until,
                ..
            } => {
                *shut = true;
                *until = now + LINGER;
                Step::Shutdown
            }
            State::Aborting { until, .. } if now < *until => Step::Read(*until),
            State::Aborting { then, .. } => {
                self.state = State::Dropping(*then);
                self.step(now)
            }
            State::Dropping(after) => {
                self.state = match after {
                    After::Accept => State::Accepting,
                    After::End => State::Ended,
                };
                self.out.clear();
                Step::Disconnect
            }
            State::Ended => Step::End,
        }
    }

    /// A sender, or somebody else, has connected.
    pub fn accepted(&mut self, now: Duration) {
        self.inbox = Inbox::new(self.session.secret());
        self.out.clear();
        self.settings = None;
        self.last_received = now;
        self.state = State::Opening;
        match Seal::new(
            self.session.secret(),
            self.session.options().tag_interval_bytes,
        ) {
            Ok(seal) => self.seal = Some(seal),
            Err(error) => return self.fail(Status::Encryption, error.to_string()),
        }
        if self.again {
            self.reply(&Reply::LocalCheckpoint(self.session.checkpoint(self.index)));
        }
    }

    /// What [`Step::Write`] writes.
    pub fn output(&self) -> &[u8] {
        &self.out
    }

    /// What [`Connection::output`] gave is written.
    pub fn written(&mut self) {
        self.out.clear();
    }

    /// Writing failed.
    pub fn write_failed(&mut self, error: &io::Error, now: Duration) {
        let detail = format!("writing to port {} failed ({error})", self.port);
        self.lost(Status::SocketWrite, detail, now);
    }

    /// The connection was closed or broke.
    pub fn read_failed(&mut self, error: &io::Error, now: Duration) {
        let detail = format!("reading from port {} failed ({error})", self.port);
        self.lost(Status::SocketRead, detail, now);
    }

    /// These bytes came. They are decrypted in place, and payload goes to the sink from there.
    pub fn received(&mut self, wire: &mut [u8], now: Duration) {
        self.last_received = now;
        let mut at = 0;
        loop {
            let more = match &mut self.state {
                State::Opening | State::Commands | State::Footer(_) => {
                    self.command(wire, &mut at, now)
                }
                State::Payload(_) => self.payload(wire, &mut at),
                State::Waiting if at < wire.len() => {
                    Err(Fault::Protocol("bytes after DONE".to_owned()))
                }
                State::Confirming => self.confirmation(wire, &mut at),
                State::Ending { ended, .. } if !*ended => match self.inbox.end(wire, &mut at) {
                    Ok(all) => {
                        *ended = all;
                        if all {
                            self.verified();
                        }
                        Ok(all)
                    }
                    Err(error) => Err(Fault::Wire(error.into())),
                },
                State::Ending { .. } if at < wire.len() => {
                    Err(Fault::Protocol("bytes after its end".to_owned()))
                }
                _ => return,
            };
            match more {
                Ok(true) => {}
                Ok(false) => return,
                Err(fault) => return self.fault(fault, wire.first().copied(), now),
            }
        }
    }

    /// Decodes one command; whether there may be more.
    fn command(&mut self, wire: &mut [u8], at: &mut usize, now: Duration) -> Result<bool, Fault> {
        let command = self.inbox.command(wire, at, Command::decode)?;
        self.verified();
        let Some(command) = command else {
            return Ok(false);
        };
        match (std::mem::replace(&mut self.state, State::Commands), command) {
            (State::Opening, Command::Settings(settings)) => self.settings(settings, now),
            (State::Opening, _) => {
                self.state = State::Opening;
                Err(Fault::Protocol("a command before SETTINGS".to_owned()))
            }
            (State::Footer(arriving), Command::Footer(crc)) => {
                if crc != arriving.crc {
                    return Err(Fault::Checksum(arriving.header.path.to_string()));
                }
                self.block_is_whole(arriving)
            }
            (State::Footer(_), _) => Err(Fault::Protocol("no footer after a block".to_owned())),
            (_, Command::Size(bytes)) => {
                self.session.size(bytes);
                Ok(true)
            }
            (_, Command::File(header)) => self.file(header),
            (_, Command::Done(done)) => self.done(done, now),
            (_, Command::Settings(_)) => Err(Fault::Protocol("SETTINGS twice".to_owned())),
            (_, Command::Footer(_)) => Err(Fault::Protocol(
                "a footer that belongs to no block".to_owned(),
            )),
        }
    }

    fn settings(&mut self, settings: Settings, now: Duration) -> Result<bool, Fault> {
        if settings.version > VERSION {
            return Ok(self.refuse(Status::VersionMismatch, now));
        }
        let (status, why) = if settings.version < OLDEST_VERSION {
            let detail = format!(
                "the sender speaks version {}, this receiver {OLDEST_VERSION} to {VERSION}",
                settings.version
            );
            (Status::VersionIncompatible, detail)
        } else if settings.transfer_id != self.session.id() {
            (
                Status::IdMismatch,
                "the sender's transfer id is not that of this receiver".to_owned(),
            )
        } else if settings.request_chunks {
            let detail = "the sender asks to resume an earlier transfer, which is left out here";
            (Status::Protocol, detail.to_owned())
        } else {
            self.session.settled(self.index, now);
            self.strangers = 0;
            self.next_sign = now + sign_interval(&settings);
            self.settings = Some(settings);
            return Ok(true);
        };
        // Once the transfer has begun, who does not belong to it cannot end it.
        if !self.session.has_begun() {
            self.session.fail(Failure::new(status, why));
        }
        Ok(self.refuse(status, now))
    }

    fn file(&mut self, header: FileHeader) -> Result<bool, Fault> {
        if header.status != 0 {
            let detail = format!("the sender could not read `{}`", header.path);
            return Err(Fault::Fatal(Failure::new(
                Status::from_code(header.status),
                detail,
            )));
        }
        if header.allocation != Allocation::New {
            let detail = "a file of an earlier transfer, which is left out here";
            return Err(Fault::Protocol(detail.to_owned()));
        }
        self.session.heard(self.index);
        let block = IncomingBlock {
            sequence: header.sequence,
            path: header.path.clone(),
            file_size_bytes: header.file_size,
            offset: header.offset,
            length: header.length,
        };
        let writer = self
            .session
            .sink()
            .begin(&block)
            .map_err(|error| cannot_write(&header, &error))?;
        let arriving = Arriving {
            header,
            writer,
            got: 0,
            crc: 0,
        };
        self.payload_or_footer(arriving)
    }

    fn payload(&mut self, wire: &mut [u8], at: &mut usize) -> Result<bool, Fault> {
        let State::Payload(arriving) = &mut self.state else {
            return Ok(false);
        };
        let rest = usize::try_from(arriving.header.length - arriving.got).unwrap_or(usize::MAX);
        let part = self.inbox.payload(wire, at, rest)?;
        if part.is_empty() {
            self.verified();
            return Ok(false);
        }
        let offset = arriving.header.offset + arriving.got;
        arriving
            .writer
            .write(offset, part)
            .map_err(|error| cannot_write(&arriving.header, &error))?;
        let checksum = self
            .settings
            .as_ref()
            .is_some_and(|settings| settings.checksum);
        if checksum {
            arriving.crc = footer(arriving.crc, part);
        }
        arriving.got += part.len() as u64;
        self.session.got_payload(part.len() as u64);
        if arriving.got < arriving.header.length {
            return Ok(true);
        }
        match std::mem::replace(&mut self.state, State::Commands) {
            State::Payload(arriving) => self.payload_or_footer(arriving),
            other => {
                self.state = other;
                Ok(true)
            }
        }
    }

    fn payload_or_footer(&mut self, arriving: Arriving<K::Writer>) -> Result<bool, Fault> {
        if arriving.got < arriving.header.length {
            self.state = State::Payload(arriving);
        } else if self
            .settings
            .as_ref()
            .is_some_and(|settings| settings.checksum)
        {
            self.state = State::Footer(arriving);
        } else {
            self.block_is_whole(arriving)?;
        }
        Ok(true)
    }

    fn block_is_whole(&mut self, mut arriving: Arriving<K::Writer>) -> Result<bool, Fault> {
        arriving
            .writer
            .finish()
            .map_err(|error| cannot_write(&arriving.header, &error))?;
        let tags = self.inbox.open().has_tags();
        let length = arriving.header.length;
        self.session.block(self.index, length, !tags);
        if tags {
            self.unverified
                .push_back((self.inbox.open().position(), length));
        }
        self.state = State::Commands;
        Ok(true)
    }

    /// Counts what the tags that have come by now say is right.
    fn verified(&mut self) {
        let verified = self.inbox.open().verified();
        while let Some((_, length)) = self.unverified.front().filter(|(end, _)| *end <= verified) {
            self.session.count(self.index, 1, *length);
            self.unverified.pop_front();
        }
    }

    fn done(&mut self, done: Done, now: Duration) -> Result<bool, Fault> {
        if done.status != 0 {
            let status = Status::from_code(done.status);
            return Err(Fault::Fatal(Failure::new(status, "the sender gave up")));
        }
        self.session.heard(self.index);
        self.session.done(self.index, done);
        self.state = State::Waiting;
        self.next_sign = now + self.settings.as_ref().map_or(LINGER, sign_interval);
        Ok(true)
    }

    /// The sender's `D`.
    fn confirmation(&mut self, wire: &mut [u8], at: &mut usize) -> Result<bool, Fault> {
        let decode = |bytes: &[u8]| match bytes.first() {
            None => Ok(Decoded::Needs(1)),
            Some(b'D') => Ok(Decoded::Whole {
                value: (),
                length: 1,
            }),
            Some(other) => Err(Malformed::UnknownCommand(*other)),
        };
        if self.inbox.command(wire, at, decode)?.is_none() {
            return Ok(false);
        }
        let ended = !self.inbox.open().has_tags();
        self.state = State::Ending {
            ended,
            answered: false,
            shut: false,
        };
        Ok(true)
    }

    fn accept(&mut self, now: Duration) -> Step {
        let until = self
            .accept_until
            .unwrap_or_else(|| self.session.first_connection_until());
        if now < until && self.strangers < STRANGERS {
            return Step::Accept(until);
        }
        self.session
            .ended(self.index, Some(self.last_fault.clone()));
        self.state = State::Ended;
        Step::End
    }

    fn wait(&mut self, now: Duration) -> Step {
        match self.session.judge(self.index) {
            Judgement::Done => {
                self.reply(&Reply::Done);
                self.last_received = now;
                self.state = State::Confirming;
            }
            Judgement::Lost(list) => {
                self.acknowledge_unverified();
                self.reply(&Reply::Errors(list));
                self.last_received = now;
                self.state = State::Commands;
            }
            Judgement::Wait if self.session.failed() => return self.step(now),
            Judgement::Wait if !self.sign_is_due(now) => return Step::Wait(self.next_sign),
            Judgement::Wait => {
                // WAIT acknowledges; what no tag has authenticated is not acknowledged yet.
                let sign = if self.unverified.is_empty() {
                    Reply::Wait
                } else {
                    Reply::Heartbeat
                };
                self.reply(&sign);
            }
        }
        Step::Write
    }

    /// A global checkpoint acknowledges everything before it on its connection; the next tag must
    /// say that this was right.
    fn acknowledge_unverified(&mut self) {
        for (end, length) in self.unverified.drain(..) {
            self.session.count(self.index, 1, length);
            self.trusted_until = end;
        }
    }

    fn sign_is_due(&mut self, now: Duration) -> bool {
        let due = now >= self.next_sign;
        if due {
            self.next_sign = now + self.settings.as_ref().map_or(LINGER, sign_interval);
        }
        due
    }

    fn sign_due(&mut self, now: Duration) -> bool {
        self.settings
            .as_ref()
            .is_some_and(|settings| settings.heartbeats)
            && self.sign_is_due(now)
    }

    fn reply(&mut self, reply: &Reply) {
        let mut plain = Vec::new();
        reply.encode(&mut plain);
        let sealed = match &mut self.seal {
            Some(seal) => seal.seal(&plain, &mut self.out),
            None => Ok(()),
        };
        if let Err(error) = sealed {
            self.fail(Status::Encryption, error.to_string());
        }
    }

    fn fault(&mut self, fault: Fault, first: Option<u8>, now: Duration) {
        let port = self.port;
        match fault {
            Fault::Fatal(failure) => self.session.fail(failure),
            Fault::Checksum(path) => {
                let detail = format!("a block of `{path}` came damaged on port {port}");
                self.lost(Status::ChecksumMismatch, detail, now);
            }
            // Somebody who does not speak WDT is not the sender, and must not end the transfer.
            Fault::Wire(WireError::Malformed(_)) | Fault::Protocol(_)
                if matches!(self.state, State::Opening) =>
            {
                self.lost(
                    Status::Protocol,
                    format!("a stranger connected to port {port}"),
                    now,
                );
            }
            Fault::Wire(WireError::Crypto(CryptoError::Plaintext)) if first == Some(b'S') => {
                let detail = "the sender does not encrypt, which the connection URL asks for";
                if !self.session.has_begun() {
                    self.session.fail(Failure::new(Status::Encryption, detail));
                }
                // In clear, as what the sender reads must be what it writes.
                self.seal = Seal::new(None, 0).ok();
                self.refuse(Status::Encryption, now);
            }
            Fault::Wire(WireError::Crypto(error)) => {
                self.lost(Status::Encryption, format!("port {port}: {error}"), now);
            }
            Fault::Wire(error) => self.fail(error.status(), format!("port {port}: {error}")),
            Fault::Protocol(what) => {
                self.fail(
                    Status::Protocol,
                    format!("the sender sent {what} on port {port}"),
                );
            }
        }
    }

    fn fail(&mut self, status: Status, detail: String) {
        self.session.fail(Failure::new(status, detail));
    }

    /// The transfer has failed: the sender is told, where it can be.
    fn abort_if_open(&mut self, now: Duration) {
        match self.state {
            State::Accepting => {
                self.session.ended(self.index, None);
                self.state = State::Ended;
            }
            State::Confirming | State::Ending { .. } => {
                self.session.ended(self.index, None);
                self.state = State::Dropping(After::End);
            }
            State::Opening
            | State::Commands
            | State::Payload(_)
            | State::Footer(_)
            | State::Waiting => {
                let status = self.session.failure_status();
                self.refuse(status, now);
            }
            State::Aborting { .. } | State::Dropping(_) | State::Ended => {}
        }
    }

    /// Sends ABORT and takes nothing more on this connection; gives false, as nothing follows.
    fn refuse(&mut self, status: Status, now: Duration) -> bool {
        let over = self.session.failed();
        if over {
            self.session.ended(self.index, None);
        } else if status != Status::VersionMismatch {
            self.strangers += 1;
        }
        self.reply(&Reply::Abort(self.session.abort(VERSION, status)));
        let then = if over { After::End } else { After::Accept };
        self.state = State::Aborting {
            shut: false,
            until: now + LINGER,
            then,
        };
        false
    }

    /// The connection is of no use any more; another may be.
    fn lost(&mut self, status: Status, detail: String, now: Duration) {
        self.verified();
        let partial = match &self.state {
            State::Accepting | State::Dropping(_) | State::Ended => return,
            State::Aborting { then, .. } => {
                self.state = State::Dropping(*then);
                return;
            }
            // Both sides have said that they have it all.
            State::Ending { ended: true, .. } => {
                self.session.ended(self.index, None);
                self.state = State::Dropping(After::End);
                return;
            }
            State::Payload(arriving) if arriving.got > 0 && self.parts_count() => Some(Partial {
                bytes: arriving.got,
                sequence: arriving.header.sequence,
                offset: arriving.header.offset,
            }),
            _ => None,
        };
        if self.trusted_until > self.inbox.open().verified() {
            let detail =
                format!("{detail}, before blocks that were acknowledged could be verified");
            return self.fail(Status::Encryption, detail);
        }
        self.unverified.clear();
        self.trusted_until = 0;
        self.session.disconnected(self.index, partial);
        self.last_fault = Failure::new(status, detail);
        self.again = true;
        if self.settings.is_none() {
            self.strangers += u32::from(self.session.has_begun());
        }
        if self.session.has_begun() {
            let options = self.session.options();
            let window =
                options.read_timeout.max(options.write_timeout) + options.reconnection_grace;
            self.accept_until = Some(now + window);
        }
        self.state = State::Dropping(After::Accept);
    }

    /// Whether a part of a block is worth keeping: there is nothing that would prove the rest of it.
    fn parts_count(&self) -> bool {
        !self.inbox.open().has_tags()
            && !self
                .settings
                .as_ref()
                .is_some_and(|settings| settings.checksum)
    }
}

/// Why a connection cannot go on.
enum Fault {
    Wire(WireError),
    Protocol(String),
    /// The block's path.
    Checksum(String),
    /// The whole transfer cannot.
    Fatal(Failure),
}

impl From<WireError> for Fault {
    fn from(error: WireError) -> Self {
        Fault::Wire(error)
    }
}

impl From<CryptoError> for Fault {
    fn from(error: CryptoError) -> Self {
        Fault::Wire(error.into())
    }
}

fn cannot_write(header: &FileHeader, error: &io::Error) -> Fault {
    let detail = format!("`{}` cannot be written ({error})", header.path);
    Fault::Fatal(Failure::new(Status::FileWrite, detail))
}

fn sign_interval(settings: &Settings) -> Duration {
    Duration::from_millis(settings.read_timeout_ms.into()) / SIGNS_OF_LIFE
}
