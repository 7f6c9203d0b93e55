//! State machine of one port of a sender, from the first attempt to connect to the last byte.

mod faults;

use std::io;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use self::faults::OTHER_KEY;
use super::answer_timer::AnswerTimer;
use super::outgoing::{Current, Outgoing, Output};
use super::session::{PortStatus, Session};
use crate::codec::{Abort, Allocation, Checkpoint, Command, FileChunks, Reply, decode_frame};
use crate::failure::Failure;
use crate::inbox::Inbox;
use crate::source::{Source, SourceReader as _};
use crate::status::Status;

/// Longest payload, in bytes, that is sent together with the commands around it.
const SMALL_BYTES: u64 = 16 << 10;
/// Bytes of commands and small payloads that are collected before they are written.
const COLLECTED_BYTES: usize = 64 << 10;
/// Highest version of the protocol that a receiver is believed to speak.
const MAX_VERSION: u32 = 9999;

/// Next action that a [`Connection`] asks for; the caller does it and reports the result.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Connect to the port within [`Options::connect_timeout`](super::Options::connect_timeout);
    /// call [`Connection::connected`] or [`Connection::connect_failed`].
    Connect,
    /// Come back at this time, or when another connection [has changed
    /// something](Session::wakers).
    Sleep(Duration),
    /// Write [`Connection::output`]; call [`Connection::written`] or [`Connection::write_failed`].
    Write,
    /// Wait for bytes until this time; call [`Connection::received`], [`Connection::read_failed`],
    /// or, once it is that late, [`Connection::read_timed_out`]; or come back when another
    /// connection has changed something. Coming back earlier does no harm.
    Read(Duration),
    /// Shut down the sending direction of the connection.
    Shutdown,
    /// Close the connection.
    Disconnect,
    /// This port has no more work.
    End,
}

/// One port of the transfer.
pub struct Connection<S: Source> {
    session: Arc<Session<S>>,
    index: usize,
    port: u16,
    state: State,
    generation: u32,
    /// Whether the next connection must begin with the receiver's checkpoint.
    again: bool,
    /// Number of failed connections in a row without progress.
    failures_without_progress: u32,
    last_fault: Failure,
    /// Bytes of payload written since the rate limit was last applied.
    uncounted: u64,
    /// Time at which the rate limit allows more payload.
    payload_at: Duration,
    outgoing: Outgoing<S::Reader>,
    inbox: Inbox,
    /// Whether a message of the receiver was decoded on this connection.
    understood: bool,
    /// Whether one was decoded on any connection to the port.
    answered: bool,
}

enum State {
    Connecting {
        attempt: u32,
        at: Duration,
    },
    /// Waits for the receiver's checkpoint, until the given time; nothing is sent before.
    Checkpoint {
        until: Duration,
    },
    /// Waits for the receiver's chunks of an earlier transfer, on this connection or another.
    Resuming {
        until: Duration,
        /// Chunks received so far, and the number of files announced.
        chunks: Vec<FileChunks>,
        files: Option<u64>,
    },
    Sending,
    AwaitingAnswer(AnswerTimer),
    /// `D` arrived; the last bytes are sent, and with tags the receiver's last tag must come.
    Closing {
        ended: bool,
        /// Deadline for that tag, once the sending direction is shut down.
        until: Option<Duration>,
    },
    /// The connection is closed next; then comes the action given here.
    Dropping(After),
    Ended,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    Reconnect,
    Begin,
    End,
}

impl<S: Source> Connection<S> {
    /// Returns the state machine of the port at `index` of the connection URL, not connected yet.
    pub fn new(session: Arc<Session<S>>, index: usize) -> Result<Self, Failure> {
        let port = session.url.ports[index];
        Ok(Self {
            outgoing: Outgoing::new(&session)?,
            inbox: Inbox::new(session.url.secret.as_ref()),
            session,
            index,
            port,
            state: State::Connecting {
                attempt: 0,
                at: Duration::ZERO,
            },
            generation: 0,
            again: false,
            failures_without_progress: 0,
            understood: false,
            answered: false,
            uncounted: 0,
            payload_at: Duration::ZERO,
            last_fault: Failure::new(Status::Connection, format!("port {port} was not reached")),
        })
    }

    /// Returns the next action.
    pub fn step(&mut self, now: Duration) -> Step {
        match self.session.port_status(self.index) {
            PortStatus::Ended => self.drop_and(After::End),
            PortStatus::GivenUp if !matches!(self.state, State::Closing { .. }) => {
                let fault = self.last_fault.clone();
                self.give_up(fault);
            }
            PortStatus::Generation(generation) if generation != self.generation => {
                self.generation = generation;
                self.session.begin_again(self.index);
                self.drop_and(After::Begin);
            }
            _ => {}
        }
        let read_until = self.read_until(now);
        match &mut self.state {
            State::Connecting { at, .. } if now < *at => Step::Sleep(*at),
            State::Connecting { .. } => Step::Connect,
            State::Checkpoint { until } => Step::Read(*until),
            State::Resuming { .. } if !self.outgoing.is_empty() => self.flush(now),
            State::Resuming { until, .. } => Step::Read(*until),
            State::Sending => {
                if self.uncounted > 0 {
                    let bytes = std::mem::take(&mut self.uncounted);
                    self.payload_at = self.session.next_payload(bytes, now);
                }
                match now < self.payload_at {
                    true => Step::Sleep(self.payload_at),
                    false => self.send_more(now),
                }
            }
            State::AwaitingAnswer(_) | State::Closing { .. } if !self.outgoing.head.is_empty() => {
                Step::Write
            }
            State::AwaitingAnswer(timer) => Step::Read(timer.until),
            State::Closing { until, .. } if until.is_none() => {
                *until = Some(read_until);
                Step::Shutdown
            }
            State::Closing {
                ended: false,
                until: Some(until),
            } => Step::Read(*until),
            State::Closing { .. } => {
                self.session.confirm(self.index);
                self.state = State::Dropping(After::End);
                self.step(now)
            }
            State::Dropping(after) => {
                self.again = *after == After::Reconnect;
                self.state = match after {
                    After::End => State::Ended,
                    After::Begin | After::Reconnect => State::Connecting {
                        attempt: 0,
                        at: now,
                    },
                };
                Step::Disconnect
            }
            State::Ended => Step::End,
        }
    }

    /// Reports that the port is connected.
    pub fn connected(&mut self, now: Duration) {
        self.session.connected(self.index);
        self.inbox = Inbox::new(self.session.url.secret.as_ref());
        self.understood = false;
        let Some(outgoing) = self.or_give_up(Outgoing::new(&self.session)) else {
            return;
        };
        self.outgoing = outgoing;
        if self.again {
            let until = self.read_until(now);
            self.state = State::Checkpoint { until };
        } else {
            self.begin(now);
        }
    }

    /// Returns the deadline for bytes of the receiver that are waited for from `now` on.
    fn read_until(&self, now: Duration) -> Duration {
        now + self.session.options().read_timeout
    }

    /// Gives the port up if `result` is a failure.
    fn or_give_up<T>(&mut self, result: Result<T, Failure>) -> Option<T> {
        result.map_err(|failure| self.give_up(failure)).ok()
    }

    /// Reports that an attempt to connect failed.
    pub fn connect_failed(&mut self, error: &io::Error, now: Duration) {
        let options = self.session.options();
        let State::Connecting { attempt, at } = &mut self.state else {
            return;
        };
        *attempt += 1;
        *at = now + options.connect_interval;
        if *attempt >= options.connect_attempts {
            let failure = self.unreachable(error);
            self.give_up(failure);
        }
    }

    /// Returns the bytes that [`Step::Write`] writes.
    ///
    /// # Errors
    /// The source's error, to be passed to [`Connection::source_failed`].
    pub fn output(&mut self) -> io::Result<Output<'_>> {
        self.outgoing.output()
    }

    /// Reports that the source failed: the receiver gets the status in place of DONE.
    pub fn source_failed(&mut self, error: &io::Error) {
        let path = self.current_path();
        self.fail_source(format!("`{path}` cannot be read ({error})"));
    }

    /// Whether the bytes still to be written are pointless, so that the caller shall stop writing
    /// and ask for the next step.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Dropping(_) | State::Ended) || self.session.failure().is_some()
    }

    /// Reports that [`Connection::output`] was written.
    pub fn written(&mut self) {
        let bytes = self.outgoing.written();
        self.uncounted += bytes;
        self.session.wrote_payload(bytes);
    }

    /// Reports that writing failed. Bytes that could still be read must be
    /// [reported](Connection::received) before.
    pub fn write_failed(&mut self, error: &io::Error) {
        let detail = format!("writing to port {} failed ({error})", self.port);
        self.lost(Status::SocketWrite, detail);
    }

    /// Reports that the connection was closed or broke.
    pub fn read_failed(&mut self, error: &io::Error) {
        let detail = format!("reading from port {} failed ({error})", self.port);
        self.lost(Status::SocketRead, detail);
    }

    /// Reports that nothing came until the time that [`Step::Read`] named. `undelivered` bytes are
    /// written but not acknowledged by the peer's system.
    pub fn read_timed_out(&mut self, undelivered: u64, now: Duration) {
        let timeout = self.session.options().read_timeout;
        if let State::AwaitingAnswer(timer) = &mut self.state
            && timer.may_go_on(undelivered, timeout, now)
        {
            return;
        }
        let detail = format!("the receiver's port {} did not answer in time", self.port);
        self.lost(Status::Timeout, detail);
    }

    /// Reports received bytes, also during a write. They are decrypted in place.
    pub fn received(&mut self, wire: &mut [u8], now: Duration) {
        let mut at = 0;
        loop {
            let more = match &mut self.state {
                State::Dropping(_) | State::Ended | State::Connecting { .. } => return,
                State::Closing { ended, .. } => {
                    return match self.inbox.open.finish(wire, &mut at) {
                        Ok(true) if at < wire.len() => self.unexpected("bytes after its end"),
                        Ok(all) => *ended |= all,
                        Err(error) => {
                            self.lost(Status::Encryption, format!("port {}: {error}", self.port));
                        }
                    };
                }
                State::Resuming { files: Some(_), .. } => {
                    let frame = self.inbox.command(wire, &mut at, decode_frame);
                    frame.map(|frame| frame.map(|frame| self.chunks(frame, now)))
                }
                _ => {
                    let reply = self.inbox.command(wire, &mut at, Reply::decode);
                    reply.map(|reply| reply.map(|reply| self.reply(reply, now)))
                }
            };
            match more {
                Ok(Some(())) => {}
                Ok(None) => return,
                Err(error) => return self.unreadable(&error, wire.get(at)),
            }
        }
    }

    fn reply(&mut self, reply: Reply, now: Duration) {
        let first = !mem::replace(&mut self.understood, true);
        self.answered = true;
        let read_until = self.read_until(now);
        if let State::AwaitingAnswer(timer) = &mut self.state {
            *timer = AnswerTimer::new(read_until);
        }
        match (&mut self.state, reply) {
            // Bytes under another key may look like ABORT, but not of a version that there will be.
            (_, Reply::Abort(abort))
                if first && self.session.url.secret.is_some() && abort.version > MAX_VERSION =>
            {
                let detail = format!("port {}: {OTHER_KEY}", self.port);
                self.give_up(Failure::new(Status::Encryption, detail));
            }
            (_, Reply::Abort(abort)) => self.aborted(abort),
            (State::Checkpoint { .. }, Reply::LocalCheckpoint(checkpoint)) => {
                self.begin_from(&checkpoint, now);
            }
            (
                State::Sending | State::AwaitingAnswer(_) | State::Resuming { .. },
                Reply::LocalCheckpoint(checkpoint),
            ) => {
                // The receiver had seen a connection of which nothing came to it.
                let counts = (checkpoint.port, checkpoint.blocks, checkpoint.partial_bytes);
                if counts != (self.port, 0, 0) {
                    self.unexpected("a checkpoint in the middle");
                }
            }
            (State::Sending | State::AwaitingAnswer(_), Reply::Heartbeat) => {}
            (State::Resuming { until, .. }, Reply::Wait | Reply::Heartbeat) => *until = read_until,
            (State::Resuming { .. }, Reply::Ack) if self.session.is_resumed() => {
                self.begin_blocks();
            }
            (State::Resuming { files, .. }, Reply::Chunks { files: announced }) => {
                *files = Some(announced);
                self.chunks(Vec::new(), now);
            }
            (State::AwaitingAnswer(_), Reply::Wait) => self.session.acknowledge_all(self.index),
            (State::AwaitingAnswer(_), Reply::Errors(list)) => {
                self.session.acknowledge_all(self.index);
                if let Some(()) = self.or_give_up(self.session.global_checkpoint(&list)) {
                    self.state = State::Sending;
                }
            }
            (State::AwaitingAnswer(_), Reply::Done) => self.close(),
            (_, reply) => self.unexpected(match reply {
                Reply::Done => "the end before everything was sent",
                Reply::Wait => "WAIT before everything was sent",
                Reply::Heartbeat => "a heartbeat in place of a checkpoint",
                Reply::Errors(_) => "a global checkpoint before everything was sent",
                Reply::Abort(_) | Reply::LocalCheckpoint(_) | Reply::Chunks { .. } | Reply::Ack => {
                    "a message out of place"
                }
            }),
        }
    }

    fn begin(&mut self, now: Duration) {
        let settings = self.session.settings();
        let requests_chunks = settings.request_chunks;
        self.outgoing.command(&Command::Settings(settings));
        if requests_chunks {
            self.state = State::Resuming {
                until: self.read_until(now),
                chunks: Vec::new(),
                files: None,
            };
        } else {
            self.begin_blocks();
        }
    }

    /// Adds chunks of an earlier transfer; after the last ones, goes on with the blocks.
    fn chunks(&mut self, frame: Vec<FileChunks>, now: Duration) {
        let read_until = self.read_until(now);
        let State::Resuming {
            until,
            chunks,
            files: Some(files),
        } = &mut self.state
        else {
            return;
        };
        *until = read_until;
        chunks.extend(frame);
        if (chunks.len() as u64) < *files {
            return;
        }
        let chunks = std::mem::take(chunks);
        if let Some(()) = self.or_give_up(self.session.resume(chunks)) {
            self.outgoing.command(&Command::Ack);
            self.begin_blocks();
        }
    }

    fn begin_blocks(&mut self) {
        let size = Command::Size(self.session.total_bytes());
        self.outgoing.command(&size);
        self.state = State::Sending;
    }

    fn begin_from(&mut self, checkpoint: &Checkpoint, now: Duration) {
        let applied = self.session.local_checkpoint(self.index, checkpoint);
        if let Some(progress) = self.or_give_up(applied) {
            if progress {
                self.failures_without_progress = 0;
            }
            self.begin(now);
        }
    }

    /// Collects the next bytes to send, up to a large payload or to a point where an answer is
    /// needed.
    fn send_more(&mut self, now: Duration) -> Step {
        let part = self.outgoing.part_bytes;
        while self.outgoing.plain.len() < COLLECTED_BYTES.min(part) && self.outgoing.head.is_empty()
        {
            if let Some(current) = &mut self.outgoing.current {
                let rest = current.block.length - current.sent;
                if rest == 0 {
                    if let Err(error) = current.reader.check_unchanged() {
                        self.source_changed(&error);
                        return self.step(now);
                    }
                    let crc = current.crc;
                    self.outgoing.current = None;
                    if self.session.options().checksum {
                        self.outgoing.command(&Command::Footer(crc));
                    }
                } else if rest > SMALL_BYTES.min(part as u64) {
                    break;
                } else if let Err(error) = self.outgoing.take_small() {
                    self.source_failed(&error);
                    return self.step(now);
                }
                continue;
            }
            let Some((block, header)) = self.session.next_block(self.index) else {
                self.outgoing.command(&Command::Done(self.session.done()));
                self.state = State::AwaitingAnswer(AnswerTimer::new(self.read_until(now)));
                break;
            };
            if header.allocation == Allocation::Delete {
                self.outgoing.command(&Command::File(header));
                if self.session.options().checksum {
                    self.outgoing.command(&Command::Footer(0));
                }
                continue;
            }
            let reader = match self.session.source.open(block.file) {
                Ok(reader) => reader,
                Err(error) => {
                    self.fail_source(format!("`{}` cannot be read ({error})", header.path));
                    return self.step(now);
                }
            };
            self.outgoing.command(&Command::File(header));
            self.outgoing.current = Some(Current {
                block,
                reader,
                sent: 0,
                crc: 0,
            });
        }
        self.flush(now)
    }

    /// Seals the collected bytes and has them written.
    fn flush(&mut self, now: Duration) -> Step {
        let sealed = self.outgoing.seal_plain();
        match self.or_give_up(sealed) {
            Some(()) => Step::Write,
            None => self.step(now),
        }
    }

    /// Ends a connection on which the receiver has confirmed everything; where there are tags,
    /// its last one must confirm that.
    fn close(&mut self) {
        let tags = self.inbox.open.has_tags();
        if !tags {
            self.session.confirm(self.index);
        }
        self.state = State::Closing {
            ended: !tags,
            until: None,
        };
        let sealed = self.outgoing.end();
        self.or_give_up(sealed);
    }

    fn aborted(&mut self, abort: Abort) {
        let status = match Status::from_code(abort.code) {
            Status::Ok => Status::Abort,
            status => status,
        };
        let over = match status {
            Status::VersionMismatch => self.session.renegotiate(abort.version, self.generation),
            _ => Err(Failure::new(status, "the receiver ended the transfer")),
        };
        if let Err(failure) = over {
            self.session.fail(failure);
        }
        // What follows, `step` finds out from the session.
        self.drop_and(After::Begin);
    }
}
