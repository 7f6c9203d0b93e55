//! Messages of a sender, and their effect on the port.

use std::io;
use std::time::Duration;

use super::{After, Connection, State};
use crate::codec::{Allocation, Command, Decoded, Done, FileHeader, Malformed, Settings, footer};
use crate::crypto::{Cipher, CryptoError, IV_BYTES, PROLOGUE};
use crate::failure::Failure;
use crate::inbox::WireError;
use crate::sink::{Sink, SinkWriter};
use crate::status::Status;
use crate::{OLDEST_VERSION, VERSION};

/// Error detail for encrypted bytes that cannot be decoded.
pub(super) const OTHER_KEY: &str =
    "the sender encrypts with another key than that of this receiver's connection URL";

/// The block that is arriving.
pub(super) struct Arriving<W> {
    pub(super) header: FileHeader,
    /// Absent for a file that the sender no longer has.
    pub(super) writer: Option<W>,
    pub(super) got: u64,
    pub(super) crc: u32,
}

impl<K: Sink> Connection<K> {
    /// Reports received bytes. They are decrypted in place, and payload goes to the sink from
    /// there.
    pub fn received(&mut self, wire: &mut [u8], now: Duration) {
        self.last_received = now;
        let mut at = 0;
        loop {
            let more = match self.state {
                State::Opening { .. }
                | State::Listing { sent: true }
                | State::Commands
                | State::Footer(_) => self.command(wire, &mut at, now),
                State::Payload(_) => self.payload(wire, &mut at, now),
                State::Confirming => self.confirmation(wire, &mut at),
                State::Ending => self.last_tag(wire, &mut at),
                _ if at == wire.len() => return,
                State::Listing { .. } => {
                    Err(Fault::Protocol("blocks before it knew what is there"))
                }
                State::Waiting => Err(Fault::Protocol("bytes after DONE")),
                State::Answering => Err(Fault::Protocol("bytes after its end")),
                _ => return,
            };
            match more {
                Ok(true) => {}
                Ok(false) => return,
                Err(fault) => return self.fault(fault, wire, now),
            }
        }
    }

    /// Decodes one command; returns whether there may be more.
    fn command(&mut self, wire: &mut [u8], at: &mut usize, now: Duration) -> Result<bool, Fault> {
        let command = self.inbox.command(wire, at, Command::decode)?;
        self.verified();
        let Some(command) = command else {
            return Ok(false);
        };
        if let State::Opening { .. } = self.state {
            return match command {
                Command::Settings(settings) => self.settings(settings, now),
                _ => Err(Fault::Protocol("a command before SETTINGS")),
            };
        }
        match (std::mem::replace(&mut self.state, State::Commands), command) {
            (State::Listing { .. }, Command::Ack) => {
                self.session.chunks_acknowledged();
                Ok(true)
            }
            (State::Listing { .. }, _) | (_, Command::Ack) => {
                Err(Fault::Protocol("something else than ACK for the chunks"))
            }
            (State::Footer(arriving), Command::Footer(crc)) => {
                if crc != arriving.crc {
                    return Err(Fault::Checksum(arriving.header.path.to_string()));
                }
                self.complete_block(arriving)
            }
            (State::Footer(_), _) => Err(Fault::Protocol("no footer after a block")),
            (_, Command::Size(bytes)) => {
                self.session.size(bytes);
                Ok(true)
            }
            (_, Command::File(header)) => self.file(header),
            (_, Command::Done(done)) => self.done(done, now),
            (_, Command::Settings(_)) => Err(Fault::Protocol("SETTINGS twice")),
            (_, Command::Footer(_)) => Err(Fault::Protocol("a footer that belongs to no block")),
        }
    }

    fn settings(&mut self, settings: Settings, now: Duration) -> Result<bool, Fault> {
        let supported = (OLDEST_VERSION..=VERSION).contains(&settings.version);
        if !self.session.url.has_id(&settings.transfer_id) {
            // Bytes under another key may look like SETTINGS, but not of a supported version.
            if self.session.url.secret.is_some() && !supported {
                return Ok(self.disagree(Status::Protocol, OTHER_KEY));
            }
            let detail = "the sender's transfer id is not that of this receiver";
            return Ok(self.turn_away(Status::IdMismatch, detail));
        }
        if settings.version > VERSION {
            return Ok(self.refuse(Status::VersionMismatch));
        }
        if !supported {
            let status = Status::VersionIncompatible;
            // A second connection with the right id cannot end what the first has begun.
            if !self.session.has_begun() {
                let detail = format!(
                    "the sender speaks version {}, this receiver {OLDEST_VERSION} to {VERSION}",
                    settings.version
                );
                self.session.fail(Failure::new(status, detail));
            }
            return Ok(self.refuse(status));
        }
        self.session.settled(self.index, now);
        let requests_chunks = settings.request_chunks;
        self.settings = Some(settings);
        // The first WAIT of a sender that asks for chunks goes out at once.
        self.next_keep_alive = now;
        self.state = match requests_chunks {
            true => State::Listing { sent: false },
            false => State::Commands,
        };
        if !requests_chunks && let Err(error) = self.session.chunks_not_requested() {
            let detail = "what is there of an earlier transfer cannot be removed";
            let failure = Failure::new(Status::FileWrite, format!("{detail} ({error})"));
            return Err(Fault::Fatal(failure));
        }
        Ok(true)
    }

    /// Closes a connection that sent `wire`, something else than SETTINGS of this transfer, before it
    /// proved that it belongs to it. A sender that seems to have a wrong URL is sent ABORT; others
    /// are closed without an answer.
    fn not_admitted(&mut self, fault: &Fault, wire: &[u8], now: Duration) {
        let encrypts = self.session.url.secret.is_some();
        let (detail, is_sender) = match fault {
            Fault::Wire(WireError::Crypto(CryptoError::Plaintext))
                if wire.first() == Some(&b'S') =>
            {
                let detail = "the sender does not encrypt, which the connection URL asks for";
                if self.is_ours(wire) {
                    self.disagree(Status::Encryption, detail);
                    return;
                }
                (detail, false)
            }
            Fault::Wire(WireError::Crypto(CryptoError::Prologue)) => (
                "the sender encrypts otherwise than the connection URL asks for",
                begins_encrypted(wire),
            ),
            Fault::Wire(WireError::Crypto(CryptoError::Tag) | WireError::Malformed(_))
            | Fault::Protocol(_)
                if encrypts =>
            {
                (OTHER_KEY, true)
            }
            Fault::Wire(WireError::Malformed(Malformed::UnknownCommand(PROLOGUE))) => (
                "the sender encrypts, which this receiver does not",
                begins_encrypted(wire),
            ),
            _ => {
                let detail = format!("a stranger connected to port {}", self.port);
                return self.lost(Status::Protocol, detail, now);
            }
        };
        match is_sender {
            true => self.disagree(Status::Protocol, detail),
            false => self.turn_away(Status::Encryption, detail),
        };
    }

    /// Whether bytes in clear begin with SETTINGS of this transfer.
    fn is_ours(&self, wire: &[u8]) -> bool {
        matches!(
            Command::decode(wire),
            Ok(Decoded::Whole { value: Command::Settings(settings), .. })
                if self.session.url.has_id(&settings.transfer_id)
        )
    }

    fn file(&mut self, header: FileHeader) -> Result<bool, Fault> {
        if header.status != 0 {
            let status = Status::from_code(header.status);
            let detail = format!("the sender could not read `{}`", header.path);
            return Err(Fault::Fatal(Failure::new(status, detail)));
        }
        let is_gone = header.allocation == Allocation::Delete;
        if is_gone && header.file_size > 0 {
            return Err(Fault::Protocol("the size of a file that it does not have"));
        }
        self.session.lost_ports_seen(self.index);
        let sink = &self.session.sink;
        let writer = match is_gone {
            true => sink.gone(&header).map(|()| None),
            false => sink.begin(&header).map(Some),
        };
        let writer = writer.map_err(cannot_write(&header))?;
        self.payload_or_footer(Arriving {
            header,
            writer,
            got: 0,
            crc: 0,
        })
    }

    fn payload(&mut self, wire: &mut [u8], at: &mut usize, now: Duration) -> Result<bool, Fault> {
        let State::Payload(arriving) = &mut self.state else {
            return Ok(false);
        };
        let rest = usize::try_from(arriving.header.length - arriving.got).unwrap_or(usize::MAX);
        let part = self.inbox.open.open(wire, at, rest)?;
        if part.is_empty() {
            self.verified();
            return Ok(false);
        }
        let offset = arriving.header.offset + arriving.got;
        if let Some(writer) = &mut arriving.writer {
            let written = writer.write(offset, part);
            written.map_err(cannot_write(&arriving.header))?;
        }
        if let Some(Settings { checksum: true, .. }) = self.settings {
            arriving.crc = footer(arriving.crc, part);
        }
        arriving.got += part.len() as u64;
        self.session.got_payload(part.len() as u64);
        let is_whole = arriving.got == arriving.header.length;
        self.heartbeat(now);
        if !is_whole {
            return Ok(true);
        }
        match std::mem::replace(&mut self.state, State::Commands) {
            State::Payload(arriving) => self.payload_or_footer(arriving),
            _ => Ok(true),
        }
    }

    fn payload_or_footer(&mut self, arriving: Arriving<K::Writer>) -> Result<bool, Fault> {
        if arriving.got < arriving.header.length {
            self.state = State::Payload(arriving);
        } else if self.settled(|settings| settings.checksum) {
            self.state = State::Footer(arriving);
        } else {
            self.complete_block(arriving)?;
        }
        Ok(true)
    }

    fn complete_block(&mut self, mut arriving: Arriving<K::Writer>) -> Result<bool, Fault> {
        if let Some(writer) = &mut arriving.writer {
            let finished = writer.finish();
            finished.map_err(cannot_write(&arriving.header))?;
        }
        let block = arriving.header;
        // A footer suffices, as for the reference; the last tag must come all the same.
        let waits_for_tag =
            self.inbox.open.has_tags() && !self.settled(|settings| settings.checksum);
        self.session.block(self.index, block.length, !waits_for_tag);
        if waits_for_tag {
            let end = self.inbox.open.position();
            self.unverified.push_back((end, block));
        } else {
            self.session.sink.counted(&block);
        }
        self.state = State::Commands;
        Ok(true)
    }

    /// Counts the blocks that the received tags verify.
    pub(super) fn verified(&mut self) {
        let verified = self.inbox.open.verified();
        while let Some((_, block)) = self.unverified.pop_front_if(|(end, _)| *end <= verified) {
            self.session.count(self.index, 1, block.length);
            self.session.sink.counted(&block);
        }
    }

    fn done(&mut self, done: Done, now: Duration) -> Result<bool, Fault> {
        if done.status != 0 {
            let status = Status::from_code(done.status);
            return Err(Fault::Fatal(Failure::new(status, "the sender gave up")));
        }
        self.session.lost_ports_seen(self.index);
        self.session.done(self.index, done);
        self.state = State::Waiting;
        self.schedule_keep_alive(now);
        Ok(true)
    }

    /// Reads the sender's `D`.
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
        if self.inbox.open.has_tags() {
            self.state = State::Ending;
        } else {
            self.answer();
        }
        Ok(true)
    }

    /// Reads the sender's last tag.
    fn last_tag(&mut self, wire: &[u8], at: &mut usize) -> Result<bool, Fault> {
        let ended = self.inbox.open.finish(wire, at)?;
        if ended {
            self.verified();
            self.answer();
        }
        Ok(ended)
    }

    /// Ends the direction to the sender, whose own direction has ended: writes the last tag, if blocks have tags. The
    /// connection is dropped if the tag cannot be made.
    fn answer(&mut self) {
        self.state = match self.seal.finish(&mut self.out) {
            Err(_) => State::Dropping(After::End),
            Ok(()) => State::Answering,
        };
    }

    fn fault(&mut self, fault: Fault, wire: &[u8], now: Duration) {
        if let State::Opening { .. } = self.state {
            return self.not_admitted(&fault, wire, now);
        }
        let port = self.port;
        match fault {
            Fault::Fatal(failure) => self.session.fail(failure),
            Fault::Checksum(path) => {
                let detail = format!("a block of `{path}` came damaged on port {port}");
                self.lost(Status::ChecksumMismatch, detail, now);
            }
            Fault::Wire(WireError::Crypto(error)) => {
                self.lost(Status::Encryption, format!("port {port}: {error}"), now);
            }
            Fault::Wire(WireError::Malformed(error)) => {
                let detail = format!("port {port}: {error}");
                self.session.fail(Failure::new(Status::Protocol, detail));
            }
            Fault::Protocol(what) => {
                let detail = format!("the sender sent {what} on port {port}");
                self.session.fail(Failure::new(Status::Protocol, detail));
            }
        }
    }
}

/// Reason why a connection cannot go on.
enum Fault {
    Wire(WireError),
    Protocol(&'static str),
    /// Wrong checksum of a block of the file with this path.
    Checksum(String),
    /// Failure of the whole transfer.
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

/// Whether bytes begin as those of a sender that encrypts: with the command, a cipher and the length
/// of an IV.
fn begins_encrypted(wire: &[u8]) -> bool {
    matches!(wire, [PROLOGUE, cipher, iv_bytes, ..]
        if Cipher::from_code(*cipher).is_some() && usize::from(*iv_bytes) == IV_BYTES)
}

fn cannot_write(header: &FileHeader) -> impl Fn(io::Error) -> Fault {
    |error| {
        let detail = format!("`{}` cannot be written ({error})", header.path);
        Fault::Fatal(Failure::new(Status::FileWrite, detail))
    }
}
