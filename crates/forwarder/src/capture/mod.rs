//! Captures of the path: every packet, with its outcome.
//!
//! The forwarder reports to a [`CaptureSender`]; a thread of its own takes the reports every [`INTERVAL`],
//! puts them into order ([`sequence`]) and writes blocks ([`pcapng`]). The queue between the two is
//! bounded: a packet that does not fit is counted and not in the file.

mod pcapng;
mod sequence;

use std::{
    fs::File,
    io::{self, Write},
    net::Ipv4Addr,
    path::PathBuf,
    sync::{
        Arc,
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread::JoinHandle,
    time::Duration,
};

use parking_lot::Mutex;
use regatta_model::{Text, reason};
use serde::{Deserialize, Serialize};

pub(crate) use self::sequence::{
    AHEAD, BLEACHED, CAPTURED, COPY, CORRUPTED, MARKED, REMARKED, Verdict,
};
use self::sequence::{CapturedPacket, Event, Sequence};
use crate::{
    ForwarderError, HEADER_BYTES,
    clock::{monotonic_ns, unix_ns},
    corruption, spawn,
};

/// Prefix of the comment of every packet that left the path at its other end.
pub const PASSED: &str = "passed";

/// Request for a capture: its file, and how much of each packet goes into it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureOrder {
    /// Path of the file; an existing file is replaced.
    pub file: PathBuf,
    /// Bytes of each packet that are kept, counted from the IP header; all of them if absent.
    pub snap_bytes: Option<u32>,
    /// Title of the capture, stored as its comment.
    pub title: String,
}

/// Totals of a finished capture.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureSummary {
    /// Packets in the file.
    pub packets: u64,
    /// Packets that are not in the file, because writing did not keep up or failed.
    pub missed: u64,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Cause of a failed write, if one failed; the file holds what was written before.
    pub failure: Option<Text>,
}

/// Time between two looks at the forwarder's reports: waking this thread would cost the forwarder a system call for each
/// packet.
const INTERVAL: Duration = Duration::from_millis(50);

/// Maximum number of bytes that wait to be written: half a second of the fastest path with whole packets.
const ROOM_BYTES: usize = 128 << 20;

/// Bytes that an event takes beside those of its packet.
const EVENT_BYTES: usize = size_of::<Event>();

/// Events in order, and the bytes of the packets that entered or were copied.
#[derive(Debug, Default)]
struct Batch {
    events: Vec<Event>,
    bytes: Vec<u8>,
    /// Packets of each direction that did not fit into the queue.
    missed: [u64; 2],
}

impl Batch {
    fn size(&self) -> usize {
        self.bytes.len() + self.events.len() * EVENT_BYTES
    }

    fn append(&mut self, other: &mut Self) {
        self.events.append(&mut other.events);
        self.bytes.append(&mut other.bytes);
        add(&mut self.missed, std::mem::take(&mut other.missed));
    }
}

/// Adds the counts of both directions.
fn add(counts: &mut [u64; 2], more: [u64; 2]) {
    for (sum, more) in counts.iter_mut().zip(more) {
        *sum += more;
    }
}

/// The forwarder's end of a capture.
#[derive(Debug)]
pub struct CaptureSender {
    batch: Batch,
    shared: Arc<Mutex<Batch>>,
    /// Bytes that waited when the shared batch was last accessed.
    waiting: usize,
    snap_bytes: usize,
    next: u32,
}

impl CaptureSender {
    /// Records that a packet entered the path. `frame` is the packet as the device gives it: its
    /// header, then the IP packet. Returns its number if it is captured.
    pub(crate) fn entered(&mut self, direction: u8, at: u64, frame: &[u8]) -> Option<u32> {
        let packet = self.capture(direction, at, frame)?;
        self.batch.events.push(Event::Entered(packet));
        let number = self.next;
        self.next = number.wrapping_add(1);
        Some(number)
    }

    /// Records the outcome of a packet. Unlike other events it is never left out: later packets
    /// wait for it.
    pub(crate) fn ended(&mut self, number: u32, at: u64, verdict: Verdict, marks: u16) {
        self.batch.events.push(Event::Ended {
            number,
            at,
            verdict,
            marks,
        });
    }

    /// Records that a copy that the path made has left it.
    pub(crate) fn copied(&mut self, direction: u8, at: u64, frame: &[u8]) {
        let packet = self.capture(direction, at, frame);
        self.batch.events.extend(packet.map(Event::Copied));
    }

    /// Keeps the beginning of a packet, as it would be on a wire; `None` where there is no room.
    fn capture(&mut self, direction: u8, at: u64, frame: &[u8]) -> Option<CapturedPacket> {
        let packet = frame.get(HEADER_BYTES..)?;
        let captured_bytes = packet.len().min(self.snap_bytes);
        if self.waiting + self.batch.size() + captured_bytes > ROOM_BYTES {
            self.batch.missed[usize::from(direction)] += 1;
            return None;
        }
        let begin = self.batch.bytes.len();
        self.batch
            .bytes
            .extend_from_slice(&packet[..captured_bytes]);
        if let Some((at, checksum)) = corruption::offloaded_checksum(frame)
            && let Some(field) = self.batch.bytes.get_mut(begin + at..begin + at + 2)
        {
            field.copy_from_slice(&checksum);
        }
        Some(CapturedPacket {
            direction,
            at,
            size: packet.len() as u32,
            captured_bytes: captured_bytes as u32,
        })
    }

    /// Hands the reports over, unless the writing thread holds the lock; they are handed over the
    /// next time then.
    pub(crate) fn hand_over(&mut self) {
        if self.batch.events.is_empty() && self.batch.missed == [0, 0] {
            return;
        }
        let Some(mut shared) = self.shared.try_lock() else {
            return;
        };
        if shared.events.is_empty() && shared.missed == [0, 0] {
            std::mem::swap(&mut *shared, &mut self.batch);
        } else {
            shared.append(&mut self.batch);
        }
        self.waiting = shared.size();
    }

    /// Hands the last reports over.
    pub(crate) fn finish(mut self) {
        let shared = Arc::clone(&self.shared);
        shared.lock().append(&mut self.batch);
    }
}

/// Handle of the thread of a running capture.
#[derive(Debug)]
pub struct Recorder {
    stop: Sender<()>,
    thread: JoinHandle<CaptureSummary>,
}

impl Recorder {
    /// Creates the file, which must not exist, in a directory that does, and starts the thread. The
    /// first packet will have the number `next`. `hosts` are the addresses of the connecting and the listening host,
    /// `system` names the operating system.
    ///
    /// # Errors
    /// [`ForwarderError::Capture`], [`ForwarderError::Thread`].
    pub fn start(
        order: &CaptureOrder,
        next: u32,
        hosts: [Ipv4Addr; 2],
        system: &str,
    ) -> Result<(Self, CaptureSender), ForwarderError> {
        let failed = |source| ForwarderError::Capture {
            path: order.file.clone(),
            source,
        };
        // Nothing that has this name already is written to: no file, no link, no FIFO.
        let file = File::create_new(&order.file).map_err(failed)?;
        let shared = Arc::new(Mutex::new(Batch::default()));
        let tap = CaptureSender {
            batch: Batch::default(),
            shared: Arc::clone(&shared),
            waiting: 0,
            snap_bytes: order.snap_bytes.map_or(usize::MAX, |snap| snap as usize),
            next,
        };
        let mut writer = Writer {
            file,
            written: 0,
            sequence: Sequence::new(next),
            unix_offset_ns: unix_ns().saturating_sub(monotonic_ns()),
            blocks: Vec::new(),
            packets: [0; 2],
            missed: [0; 2],
            failure: None,
        };
        writer.begin(order, hosts, system);
        if let Some(source) = writer.failure.take() {
            return Err(failed(source));
        }
        let (stop, stopped) = mpsc::channel();
        let thread = spawn("capture", move || writer.run(&shared, &stopped))?;
        Ok((Self { stop, thread }, tap))
    }

    /// Writes the remaining reports, after the tap has finished, and returns the summary.
    #[must_use]
    pub fn finish(self) -> CaptureSummary {
        drop(self.stop);
        self.thread.join().unwrap_or_else(|_| CaptureSummary {
            failure: Some(reason::capture_thread_ended().into()),
            ..CaptureSummary::default()
        })
    }
}

struct Writer {
    file: File,
    /// Bytes of whole blocks in the file.
    written: u64,
    sequence: Sequence,
    /// Offset of the wall clock from the monotonic clock, as they stood at the beginning.
    unix_offset_ns: u64,
    blocks: Vec<u8>,
    /// Packets in the file, and those that did not fit into the queue or could not be written, of each direction.
    packets: [u64; 2],
    missed: [u64; 2],
    failure: Option<io::Error>,
}

impl Writer {
    fn begin(&mut self, order: &CaptureOrder, [a, b]: [Ipv4Addr; 2], system: &str) {
        pcapng::section_header(&mut self.blocks, &order.title, system);
        let snap = order.snap_bytes.unwrap_or(0);
        let forward = format!(
            "from the connecting host {a} to the listening host {b}; times are those of entering the path"
        );
        let reverse = format!(
            "from the listening host {b} to the connecting host {a}; times are those of leaving the path, or of being dropped"
        );
        pcapng::interface(&mut self.blocks, "forward", &forward, snap);
        pcapng::interface(&mut self.blocks, "reverse", &reverse, snap);
        self.flush();
    }

    fn run(mut self, shared: &Mutex<Batch>, stopped: &Receiver<()>) -> CaptureSummary {
        let mut batch = Batch::default();
        loop {
            let last = stopped.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout);
            batch.events.clear();
            batch.bytes.clear();
            batch.missed = [0; 2];
            std::mem::swap(&mut *shared.lock(), &mut batch);
            self.take(&batch);
            if last {
                break;
            }
        }
        let now = monotonic_ns();
        self.sequence.close(now);
        self.take(&Batch::default());
        let at = now.wrapping_add(self.unix_offset_ns);
        for (direction, (packets, missed)) in (0..).zip(self.packets.iter().zip(self.missed)) {
            let all = packets + missed;
            pcapng::statistics(&mut self.blocks, direction, at, all, missed);
        }
        self.flush();
        CaptureSummary {
            packets: self.packets.iter().sum(),
            missed: self.missed.iter().sum(),
            bytes: self.written,
            failure: self.failure.map(|error| error.to_string().into()),
        }
    }

    /// Takes the forwarder's reports, and writes the records that are complete.
    fn take(&mut self, batch: &Batch) {
        add(&mut self.missed, batch.missed);
        let mut rest = &batch.bytes[..];
        for event in &batch.events {
            let captured_bytes = match event {
                Event::Entered(packet) | Event::Copied(packet) => packet.captured_bytes as usize,
                Event::Ended { .. } => 0,
            };
            let (bytes, remaining) = rest.split_at(captured_bytes.min(rest.len()));
            rest = remaining;
            self.sequence.take(*event, bytes);
        }
        let mut held = [0; 2];
        while let Some(record) = self.sequence.next() {
            held[usize::from(record.packet.direction)] += 1;
            if self.failure.is_none() {
                let unix_ns = record.packet.at.wrapping_add(self.unix_offset_ns);
                pcapng::packet(&mut self.blocks, &record, unix_ns);
            }
        }
        let counts = match self.flush() {
            true => &mut self.packets,
            false => &mut self.missed,
        };
        add(counts, held);
    }

    /// Writes the blocks that are there; returns whether this write and all before succeeded. A
    /// file that cannot be written any more ends with its last whole block.
    fn flush(&mut self) -> bool {
        if self.failure.is_none() {
            match self.file.write_all(&self.blocks) {
                Ok(()) => self.written += self.blocks.len() as u64,
                Err(error) => {
                    self.failure = Some(error);
                    // Readers survive a block that is cut short, too.
                    let _ = self.file.set_len(self.written);
                }
            }
        }
        self.blocks.clear();
        self.failure.is_none()
    }
}
