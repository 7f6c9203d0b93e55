//! A transfer in simulated time: both ends' state machines with pipes between them that delay, have
//! limited room, deliver in pieces, and break at given points.

mod pipe;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::memory::{MemorySink, MemorySource};
use pipe::Pipe;
use wdt_protocol::codec::{FileChunks, FileHeader};
use wdt_protocol::files::DirectorySink;
use wdt_protocol::sink::{Sink, SinkWriter};
use wdt_protocol::url::ConnectionUrl;
use wdt_protocol::{Failure, Report, receiver, sender};

use crate::random::Random;

/// Time longer than any transfer here may take, whatever breaks.
const NEVER: Duration = Duration::from_secs(600);

/// Break of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// Index of the port.
    pub port: usize,
    /// Index of its connection, from 0.
    pub connection: usize,
    /// Whether `after` counts the sender's bytes or the receiver's.
    pub of_sender: bool,
    /// Number of bytes before the break.
    pub after: u64,
    /// Whether no end gets a reset: all bytes vanish.
    pub silent: bool,
}

/// Refusal of connections to a port.
#[derive(Clone, Copy, Debug)]
pub struct Refusal {
    pub port: usize,
    /// Index of the first connection that is refused.
    pub from: usize,
}

/// Sink that puts everything into memory and into a directory: both must get whole files from the
/// same blocks.
#[derive(Clone)]
pub struct Tee(pub MemorySink, pub DirectorySink);

type WriterOf<K> = <K as Sink>::Writer;

impl Sink for Tee {
    type Writer = TeeWriter;

    fn begin(&self, block: &FileHeader) -> io::Result<TeeWriter> {
        Ok(TeeWriter(self.0.begin(block)?, self.1.begin(block)?))
    }

    fn held(&self) -> Vec<FileChunks> {
        self.1.held()
    }

    fn forget(&self) -> io::Result<()> {
        self.1.forget()
    }

    fn gone(&self, file: &FileHeader) -> io::Result<()> {
        self.1.gone(file)
    }

    fn counted(&self, block: &FileHeader) {
        self.1.counted(block);
    }

    fn check(&self, bytes: u64) -> io::Result<()> {
        self.1.check(bytes)
    }
}

pub struct TeeWriter(WriterOf<MemorySink>, WriterOf<DirectorySink>);

impl SinkWriter for TeeWriter {
    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)?;
        self.1.write(offset, data)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.0.finish()?;
        self.1.finish()
    }
}

pub struct Simulation {
    pub delay: Duration,
    pub cuts: Vec<Cut>,
    pub refusals: Vec<Refusal>,
    pub random: Random,
}

/// Outcome of a transfer, and its duration.
pub struct Outcome {
    pub sent: Result<Report, Failure>,
    pub received: Result<Report, Failure>,
    pub took: Duration,
    pub bytes: u64,
}

struct Port {
    sender: sender::Connection<MemorySource>,
    receiver: receiver::Connection<Tee>,
    pipe: Option<Pipe>,
    /// Time of a connection that the sender has made and the receiver has not accepted yet.
    backlog: Option<Duration>,
    connections: usize,
    connected_at: Option<Duration>,
    sending: Vec<u8>,
    replying: Vec<u8>,
    write_since: Option<Duration>,
    sender_ended: bool,
    receiver_ended: bool,
}

/// Progress of one end.
enum Did {
    Something,
    /// None before this time, or before the other end does something.
    Blocked(Duration),
    Ended,
}

impl Simulation {
    pub fn run(
        mut self,
        source: MemorySource,
        sink: Tee,
        url: &ConnectionUrl,
        sender_url: &ConnectionUrl,
        options: (sender::Options, receiver::Options),
    ) -> Outcome {
        let sender = match sender::Session::new(source, sender_url, options.0) {
            Ok(session) => Arc::new(session),
            Err(failure) => panic!("{failure}"),
        };
        let receiver = Arc::new(receiver::Session::new(sink, url, options.1));
        let mut ports: Vec<Port> = (0..url.ports.len())
            .map(|index| Port {
                sender: sender::Connection::new(sender.clone(), index).expect("a connection"),
                receiver: receiver::Connection::new(receiver.clone(), index),
                pipe: None,
                backlog: None,
                connections: 0,
                connected_at: None,
                sending: Vec::new(),
                replying: Vec::new(),
                write_since: None,
                sender_ended: false,
                receiver_ended: false,
            })
            .collect();
        let mut now = Duration::ZERO;
        let mut bytes = 0;
        let mut idle_rounds = 0;
        loop {
            let mut next = NEVER;
            let mut moved = false;
            let mut running = false;
            let first = self.random.below(ports.len() as u64) as usize;
            for turn in 0..ports.len() {
                let index = (first + turn) % ports.len();
                for end in [true, false] {
                    let port = &mut ports[index];
                    let did = match end {
                        true => self.sender_turn(index, port, &sender, now, &mut bytes),
                        false => self.receiver_turn(port, now),
                    };
                    match did {
                        Did::Something => (moved, running) = (true, true),
                        Did::Blocked(until) => {
                            running = true;
                            next = next.min(until);
                        }
                        Did::Ended => {}
                    }
                }
            }
            if !running {
                break;
            }
            idle_rounds = if moved { 0 } else { idle_rounds + 1 };
            assert!(idle_rounds < 3, "nothing moves at {now:?}");
            if !moved {
                assert!(next < NEVER, "the transfer hangs at {now:?}");
                if next > now {
                    now = next;
                    idle_rounds = 0;
                }
            }
        }
        Outcome {
            sent: sender.finish(),
            received: receiver.finish(),
            took: now,
            bytes,
        }
    }

    /// Begins the next connection of a port, or refuses it.
    fn connects(&self, index: usize, port: &mut Port, now: Duration) {
        let connection = port.connections;
        port.connections += 1;
        let refused = self
            .refusals
            .iter()
            .any(|refusal| refusal.port == index && connection >= refusal.from);
        if refused || port.receiver_ended {
            port.sender
                .connect_failed(&io::ErrorKind::ConnectionRefused.into(), now);
        } else {
            let cut = self
                .cuts
                .iter()
                .find(|cut| cut.port == index && cut.connection == connection);
            // The receiver may not have noticed yet that the one before has ended.
            port.pipe = Some(Pipe::new(self.delay, cut.copied()));
            port.backlog = Some(now + self.delay);
            port.connected_at = Some(now + 2 * self.delay);
        }
    }

    fn sender_turn(
        &mut self,
        index: usize,
        port: &mut Port,
        session: &sender::Session<MemorySource>,
        now: Duration,
        bytes: &mut u64,
    ) -> Did {
        if port.sender_ended {
            return Did::Ended;
        }
        if let Some(at) = port.connected_at {
            if now < at {
                return Did::Blocked(at);
            }
            port.connected_at = None;
            if port.receiver_ended {
                port.pipe = None;
                port.backlog = None;
                port.sender
                    .connect_failed(&io::ErrorKind::ConnectionRefused.into(), now);
            } else {
                port.sender.connected(now);
            }
            return Did::Something;
        }
        if !port.sending.is_empty() {
            return self.sender_writes(port, session, now, bytes);
        }
        match port.sender.step(now) {
            sender::Step::Connect => {
                self.connects(index, port, now);
                Did::Something
            }
            sender::Step::Sleep(until) => Did::Blocked(until),
            sender::Step::Write => {
                match port.sender.output() {
                    Ok(output) => port.sending = [output.head, output.body].concat(),
                    Err(error) => port.sender.source_failed(&error),
                }
                port.write_since = Some(now);
                if port.sending.is_empty() {
                    port.sender.written();
                }
                Did::Something
            }
            sender::Step::Read(until) => {
                let Some(pipe) = &mut port.pipe else {
                    port.sender
                        .read_failed(&io::ErrorKind::ConnectionReset.into());
                    return Did::Something;
                };
                match pipe.to_sender.take(now, self.random.below(200) + 1) {
                    Ok(Some(mut bytes)) => {
                        port.sender.received(&mut bytes, now);
                        Did::Something
                    }
                    Ok(None) if now >= until => {
                        let undelivered = pipe.to_receiver.undelivered(now);
                        port.sender.read_timed_out(undelivered, now);
                        Did::Something
                    }
                    Ok(None) => Did::Blocked(until.min(pipe.to_sender.next(now))),
                    Err(error) => {
                        port.sender.read_failed(&error);
                        Did::Something
                    }
                }
            }
            sender::Step::Shutdown => {
                if let Some(pipe) = &mut port.pipe {
                    pipe.to_receiver.close(now);
                }
                Did::Something
            }
            sender::Step::Disconnect => {
                port.sending.clear();
                if let Some(pipe) = &mut port.pipe {
                    pipe.to_receiver.close(now);
                    pipe.to_sender.reset(now);
                }
                Did::Something
            }
            sender::Step::End => {
                port.sender_ended = true;
                Did::Something
            }
        }
    }

    fn sender_writes(
        &mut self,
        port: &mut Port,
        session: &sender::Session<MemorySource>,
        now: Duration,
        bytes: &mut u64,
    ) -> Did {
        let Some(pipe) = &mut port.pipe else {
            port.sending.clear();
            port.sender.write_failed(&io::ErrorKind::BrokenPipe.into());
            return Did::Something;
        };
        // As the threads do: what comes while there is something to write is read, too.
        if let Ok(Some(mut bytes)) = pipe.to_sender.take(now, 200) {
            port.sender.received(&mut bytes, now);
        }
        if port.sender.is_over() {
            port.sending.clear();
            return Did::Something;
        }
        match pipe
            .to_receiver
            .put(now, &port.sending, self.random.below(5000) + 1)
        {
            Err(error) => {
                port.sending.clear();
                port.sender.write_failed(&error);
                Did::Something
            }
            Ok(0) => {
                let late = port.write_since.unwrap_or(now) + session.options().write_timeout;
                if now >= late {
                    port.sending.clear();
                    port.sender.write_failed(&io::ErrorKind::TimedOut.into());
                    return Did::Something;
                }
                Did::Blocked(
                    late.min(pipe.to_receiver.next(now))
                        .min(pipe.to_sender.next(now)),
                )
            }
            Ok(count) => {
                *bytes += count as u64;
                port.write_since = Some(now);
                port.sending.drain(..count);
                if port.sending.is_empty() {
                    port.sender.written();
                }
                Did::Something
            }
        }
    }

    fn receiver_turn(&mut self, port: &mut Port, now: Duration) -> Did {
        if port.receiver_ended {
            return Did::Ended;
        }
        if !port.replying.is_empty() {
            // A new connection of the sender means that the one this goes to has ended.
            let Some(pipe) = port.pipe.as_mut().filter(|_| port.backlog.is_none()) else {
                port.replying.clear();
                port.receiver
                    .write_failed(&io::ErrorKind::BrokenPipe.into(), now);
                return Did::Something;
            };
            match pipe
                .to_sender
                .put(now, &port.replying, self.random.below(100) + 1)
            {
                Ok(0) => return Did::Blocked(pipe.to_sender.next(now)),
                Ok(count) => {
                    port.replying.drain(..count);
                    if port.replying.is_empty() {
                        port.receiver.written();
                    }
                }
                Err(error) => {
                    port.replying.clear();
                    port.receiver.write_failed(&error, now);
                }
            }
            return Did::Something;
        }
        match port.receiver.step(now) {
            receiver::Step::Accept(until) => match port.backlog {
                Some(at) if at <= now => {
                    port.backlog = None;
                    port.receiver.accepted(now);
                    Did::Something
                }
                Some(at) => Did::Blocked(at.min(until)),
                None => Did::Blocked(until),
            },
            receiver::Step::Write => {
                port.replying = port.receiver.output().to_vec();
                Did::Something
            }
            receiver::Step::Read(until) => {
                // A new connection of the sender means that the old one has ended.
                let pipe = match (&mut port.pipe, port.backlog) {
                    (Some(pipe), None) => pipe,
                    _ => {
                        port.receiver
                            .read_failed(&io::ErrorKind::ConnectionReset.into(), now);
                        return Did::Something;
                    }
                };
                match pipe.to_receiver.take(now, self.random.below(3000) + 1) {
                    Ok(Some(mut bytes)) => {
                        port.receiver.received(&mut bytes, now);
                        Did::Something
                    }
                    Ok(None) => Did::Blocked(until.min(pipe.to_receiver.next(now))),
                    Err(error) => {
                        port.receiver.read_failed(&error, now);
                        Did::Something
                    }
                }
            }
            receiver::Step::Wait(until) => Did::Blocked(until),
            receiver::Step::Shutdown => {
                if let Some(pipe) = &mut port.pipe {
                    pipe.to_sender.close(now);
                }
                Did::Something
            }
            receiver::Step::Disconnect => {
                port.replying.clear();
                // The sender may be connecting again already; that is another pipe.
                if let Some(pipe) = port.pipe.as_mut().filter(|_| port.backlog.is_none()) {
                    pipe.to_sender.close(now);
                    pipe.to_receiver.reset(now);
                }
                Did::Something
            }
            receiver::Step::End => {
                port.receiver_ended = true;
                Did::Something
            }
        }
    }
}
