//! Frames of a session: kind, process, length, content.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::{AsFd, OwnedFd},
    sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender},
    thread,
    time::{Duration, Instant},
};

use regatta_process::{descriptor, readable};
use serde::{Deserialize, Serialize};

use crate::clocks::monotonic_ns;

/// Maximum number of bytes of content in a frame.
pub(super) const MAX_BYTES: usize = 64 << 10;

/// Length of a frame's header, in bytes: kind, process ID, length of the content.
const HEAD_BYTES: usize = 9;

/// Frames that wait to be written before those who send them wait.
const WAITING_FRAMES: usize = 64;

/// Longest line before the first frame, in bytes.
const LONGEST_LINE: usize = 4096;

/// Meaning of a frame. The first five and [`Kind::Clock`] go to the server, the others come from it; both
/// send heartbeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// Nothing: the sender lives.
    Heartbeat,
    /// Order to start a process ([`Start`], JSON).
    Start,
    /// Standard input of the process.
    Input,
    /// End of the process's standard input.
    EndOfInput,
    /// Order to kill the process.
    Kill,
    /// Standard output of the process; nothing at its end.
    Output,
    /// Standard error of the process; nothing at its end.
    Errors,
    /// Exit status of the process, as text.
    Ended,
    /// Request for the time of the server's clock, with the time at which it was written ([`Frame::times`]).
    Clock,
    /// Answer to [`Kind::Clock`], with what was in it and the times of its arrival and of the answer.
    Time,
    /// Line for whoever runs the server, in UTF-8; to the server.
    Line,
}

const KINDS: [Kind; 11] = [
    Kind::Heartbeat,
    Kind::Start,
    Kind::Input,
    Kind::EndOfInput,
    Kind::Kill,
    Kind::Output,
    Kind::Errors,
    Kind::Ended,
    Kind::Clock,
    Kind::Time,
    Kind::Line,
];

/// Unit of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    pub kind: Kind,
    /// Number of the process among those of the session.
    pub process: u32,
    pub content: Vec<u8>,
}

/// Content of [`Kind::Start`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Start {
    /// Arguments of Regatta.
    pub arguments: Vec<String>,
    /// Network namespace in which to start the process.
    pub namespace: Option<NamespaceOf>,
    /// Whether standard error has a stream of its own.
    pub has_errors: bool,
    /// Variables that the process gets beside those of the server.
    #[serde(default)]
    pub environment: Vec<(String, String)>,
}

/// Network namespace that a file of another process of the session holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NamespaceOf {
    pub process: u32,
    pub file: i32,
}

impl Frame {
    pub(super) fn new(kind: Kind, process: u32, content: impl Into<Vec<u8>>) -> Self {
        Self {
            kind,
            process,
            content: content.into(),
        }
    }

    /// Appends the current time to the content of an exchange of clocks.
    pub(super) fn stamp(&mut self) {
        self.content.extend(monotonic_ns().to_le_bytes());
    }

    /// Returns the times in the content of an exchange of clocks, `N` of them.
    pub(super) fn times<const N: usize>(&self) -> Option<[i64; N]> {
        let (times, rest) = self.content.as_chunks();
        let times = times.iter().map(|bytes| i64::from_le_bytes(*bytes));
        let times = times.collect::<Vec<_>>().try_into().ok()?;
        rest.is_empty().then_some(times)
    }

    fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + self.content.len());
        bytes.push(self.kind as u8);
        bytes.extend(self.process.to_le_bytes());
        bytes.extend((self.content.len() as u32).to_le_bytes());
        bytes.extend(&self.content);
        to.write_all(&bytes)?;
        to.flush()
    }

    /// Takes the frame at the beginning of `bytes` away; `None` if it is not whole.
    fn take(bytes: &mut Vec<u8>) -> io::Result<Option<Self>> {
        let Some((head, rest)) = bytes.split_first_chunk::<HEAD_BYTES>() else {
            return Ok(None);
        };
        let [kind, p0, p1, p2, p3, l0, l1, l2, l3] = *head;
        let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        let kind = KINDS.get(usize::from(kind)).copied();
        let (Some(kind), true) = (kind, length <= MAX_BYTES) else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the other side sent what is no frame",
            ));
        };
        let Some(content) = rest.get(..length) else {
            return Ok(None);
        };
        let frame = Self::new(kind, u32::from_le_bytes([p0, p1, p2, p3]), content);
        bytes.drain(..HEAD_BYTES + length);
        Ok(Some(frame))
    }
}

/// Stream from the other side: lines first, then frames.
#[derive(Debug)]
pub(crate) struct Incoming {
    file: File,
    /// Descriptor of the process at the other end, whose end is that of the stream: another process that has inherited the
    /// pipe may hold it open.
    process: Option<OwnedFd>,
    waiting: Vec<u8>,
}

impl Incoming {
    pub(crate) fn new(from: OwnedFd) -> Self {
        Self {
            file: from.into(),
            process: None,
            waiting: Vec::new(),
        }
    }

    /// Returns the output of a child of this process, which ends with the child.
    pub(super) fn of_child(output: OwnedFd, child: u32) -> Self {
        Self {
            process: descriptor(child),
            ..Self::new(output)
        }
    }

    /// Waits until more has arrived.
    ///
    /// # Errors
    /// `UnexpectedEof` at the end, `TimedOut` once `until` has come.
    fn more(&mut self, until: Instant) -> io::Result<()> {
        loop {
            let remaining = until.saturating_duration_since(Instant::now());
            let process = self.process.as_ref().map(AsFd::as_fd);
            let both: Vec<_> = [self.file.as_fd()].into_iter().chain(process).collect();
            if !readable(&both, Some(remaining))? {
                return Err(io::ErrorKind::TimedOut.into());
            }
            // What the process wrote before its end is read first.
            if process.is_some() && !readable(&both[..1], Some(Duration::ZERO))? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let mut part = [0; 16 << 10];
            match self.file.read(&mut part) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => {
                    self.waiting.extend(&part[..length]);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads the next line, without its line feed. After [`LONGEST_LINE`] bytes without a line feed, returns what has
    /// arrived.
    ///
    /// # Errors
    /// As [`Self::more`].
    pub(super) fn line(&mut self, until: Instant) -> io::Result<Vec<u8>> {
        loop {
            let end = self.waiting.iter().position(|byte| *byte == b'\n');
            match end {
                Some(end) => {
                    let mut line: Vec<u8> = self.waiting.drain(..=end).collect();
                    line.pop();
                    return Ok(line);
                }
                None if self.waiting.len() >= LONGEST_LINE => {
                    return Ok(std::mem::take(&mut self.waiting));
                }
                None => self.more(until)?,
            }
        }
    }

    /// Reads the next frame.
    ///
    /// # Errors
    /// `TimedOut` if nothing arrives for `silence`, `UnexpectedEof` at the end of the stream, or the error of a
    /// malformed frame.
    pub(super) fn frame(&mut self, silence: Duration) -> io::Result<Frame> {
        loop {
            if let Some(frame) = Frame::take(&mut self.waiting)? {
                return Ok(frame);
            }
            self.more(Instant::now() + silence)?;
        }
    }
}

/// Stream to the other side, with heartbeats while there is nothing to send. It is closed when the
/// last of its clones is dropped.
#[derive(Debug, Clone)]
pub(super) struct Outgoing(SyncSender<Frame>);

impl Outgoing {
    /// Starts the thread that writes, with heartbeats four times in `silence`.
    pub(super) fn new(to: impl Write + Send + 'static, silence: Duration) -> io::Result<Self> {
        let (sender, frames) = mpsc::sync_channel(WAITING_FRAMES);
        thread::Builder::new()
            .name("session out".into())
            .spawn(move || write_all(to, &frames, silence / 4))?;
        Ok(Self(sender))
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// `BrokenPipe` if the stream has ended.
    pub(super) fn send(&self, frame: Frame) -> io::Result<()> {
        self.0
            .send(frame)
            .map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    /// Sends bytes of a stream of a process, in as many frames as it takes.
    pub(super) fn send_all(&self, kind: Kind, process: u32, bytes: &[u8]) -> io::Result<()> {
        bytes
            .chunks(MAX_BYTES)
            .try_for_each(|part| self.send(Frame::new(kind, process, part)))
    }
}

fn write_all(mut to: impl Write, frames: &Receiver<Frame>, pause: Duration) {
    loop {
        let frame = match frames.recv_timeout(pause) {
            // The time in it is that of its departure, and not the one at which it was queued.
            Ok(mut frame) if matches!(frame.kind, Kind::Clock | Kind::Time) => {
                frame.stamp();
                frame
            }
            Ok(frame) => frame,
            Err(RecvTimeoutError::Timeout) => Frame::new(Kind::Heartbeat, 0, []),
            Err(RecvTimeoutError::Disconnected) => return,
        };
        if frame.write(&mut to).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn complete_frames_are_read_in_order() {
        let sent = [
            Frame::new(Kind::Start, 7, *b"{}"),
            Frame::new(Kind::Output, u32::MAX, vec![b'x'; MAX_BYTES]),
            Frame::new(Kind::Heartbeat, 0, []),
        ];
        let mut bytes = Vec::new();
        for frame in &sent {
            frame.write(&mut bytes).unwrap();
        }
        let mut waiting = Vec::new();
        let mut taken = Vec::new();
        for byte in bytes {
            waiting.push(byte);
            taken.extend(Frame::take(&mut waiting).unwrap());
        }
        assert_eq!(taken, sent);
        assert!(waiting.is_empty());
    }

    #[test]
    fn malformed_frames_are_refused() {
        for head in [[11, 0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1, 0, 1, 0]] {
            assert!(Frame::take(&mut head.to_vec()).is_err(), "{head:?}");
        }
    }

    /// The pipe that this test holds open is as one that a further process of the carrier has inherited.
    #[test]
    fn the_output_of_a_child_ends_with_the_child() {
        let (from, to) = nix::unistd::pipe().unwrap();
        let mut child = Command::new("echo")
            .arg("last")
            .stdout(to.try_clone().unwrap())
            .spawn()
            .unwrap();
        let mut incoming = Incoming::of_child(from, child.id());
        let until = Instant::now() + Duration::from_secs(60);
        assert_eq!(incoming.line(until).unwrap(), b"last");
        let end = incoming.line(until).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
        child.wait().unwrap();
        drop(to);
    }

    #[test]
    fn lines_before_frames_have_a_maximum_length() {
        let (from, to) = nix::unistd::pipe().unwrap();
        let mut to = File::from(to);
        let writing = thread::spawn(move || {
            to.write_all(b"first\n").unwrap();
            to.write_all(&[b'x'; 3 * LONGEST_LINE]).unwrap();
            to.write_all(b"\nlast\n").unwrap();
            Frame::new(Kind::Kill, 3, []).write(&mut to).unwrap();
        });
        let mut incoming = Incoming::new(from);
        let until = Instant::now() + Duration::from_secs(60);
        assert_eq!(incoming.line(until).unwrap(), b"first");
        let mut length = 0;
        loop {
            let part = incoming.line(until).unwrap();
            if part == b"last" {
                break;
            }
            length += part.len();
        }
        assert_eq!(length, 3 * LONGEST_LINE);
        let frame = incoming.frame(Duration::from_secs(60)).unwrap();
        assert_eq!(frame, Frame::new(Kind::Kill, 3, []));
        writing.join().unwrap();
        let error = incoming.frame(Duration::from_secs(60)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
