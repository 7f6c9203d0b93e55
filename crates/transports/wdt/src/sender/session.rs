//! State of the whole transfer at the sender, shared by its connections.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::history::History;
use super::throttle::{RateLimit, Throttle};
use crate::codec::{Allocation, Checkpoint, Done, FileChunks, FileHeader, Settings};
use crate::crypto::{Cipher, DEFAULT_TAG_INTERVAL_BYTES};
use crate::failure::{Failure, PortReport, Report};
use crate::path::RelativePath;
use crate::queue::{Block, Queue};
use crate::source::Source;
use crate::status::Status;
use crate::url::ConnectionUrl;
use crate::waker::Wakers;
use crate::{OLDEST_VERSION, VERSION};

/// Options of a sender; the defaults are the reference's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The longest block, in bytes; 0 for one block a file.
    pub block_bytes: u64,
    /// Whether a CRC-32C follows each block.
    pub checksum: bool,
    /// Bytes between two tags of AES-GCM.
    pub tag_interval_bytes: u32,
    /// Maximum wait for bytes of the receiver.
    pub read_timeout: Duration,
    /// Maximum wait for room in the connection's send buffer.
    pub write_timeout: Duration,
    /// Maximum duration of one attempt to connect.
    pub connect_timeout: Duration,
    /// Maximum number of attempts to connect.
    pub connect_attempts: u32,
    /// Time between two attempts to connect.
    pub connect_interval: Duration,
    /// Number of reconnections in a row without any progress after which a port is given up.
    pub reconnections_without_progress: u32,
    /// Limit of the rate of payload; `None` for no limit.
    pub rate_limit: Option<RateLimit>,
    /// Whether the receiver is asked to show that it is alive while it takes in a block.
    pub heartbeats: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            block_bytes: 16 << 20,
            checksum: false,
            tag_interval_bytes: DEFAULT_TAG_INTERVAL_BYTES,
            read_timeout: Duration::from_secs(5),
            write_timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(1),
            connect_attempts: 20,
            connect_interval: Duration::from_millis(50),
            reconnections_without_progress: 3,
            rate_limit: None,
            heartbeats: true,
        }
    }
}

/// One transfer, from the sender's side.
pub struct Session<S> {
    pub(super) source: S,
    options: Options,
    pub(super) url: ConnectionUrl,
    payload_bytes: AtomicU64,
    throttle: Option<Mutex<Throttle>>,
    wakers: Wakers,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    queue: Queue,
    /// Whether the receiver has sent the chunks of an earlier transfer.
    is_resumed: bool,
    /// State of each file at the receiver; empty where nothing is held there.
    allocations: Vec<Allocation>,
    /// Files that only the receiver has.
    gone: Vec<RelativePath>,
    ports: Vec<Port>,
    /// Failure that ended the whole transfer.
    failure: Option<Failure>,
    /// The source failed, or this end was stopped: nothing more is sent but DONE with this status.
    given_up: Option<Failure>,
    /// The receiver has confirmed everything on one connection.
    confirmed: Option<Instant>,
    version: u32,
    /// Counter raised when all connections must begin again with another version.
    generation: u32,
}

#[derive(Default)]
struct Port {
    /// Current outcome, without its blocks, which the history counts.
    report: PortReport,
    history: History,
    /// Whether the receiver has given the port up.
    dead: bool,
}

impl<S: Source> Session<S> {
    /// Returns a session that sends everything in `source` to the receiver of `url`.
    ///
    /// # Errors
    /// [`Status::VersionIncompatible`] for a receiver that is too old.
    pub fn new(source: S, url: &ConnectionUrl, options: Options) -> Result<Self, Failure> {
        let version = url.version.unwrap_or(VERSION).min(VERSION);
        if version < OLDEST_VERSION {
            return Err(too_old(version));
        }
        let ports = url.ports.iter().map(|port| Port {
            report: PortReport::new(*port),
            ..Port::default()
        });
        let queue = Queue::new(source.files(), options.block_bytes);
        let throttle = options.rate_limit.map(Throttle::new);
        Ok(Self {
            url: url.clone(),
            payload_bytes: AtomicU64::new(0),
            throttle: throttle.map(Mutex::new),
            wakers: Wakers::default(),
            state: Mutex::new(State {
                queue,
                ports: ports.collect(),
                version,
                ..State::default()
            }),
            source,
            options,
        })
    }

    /// Returns the options of the session.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Returns the bytes of payload written so far; for a progress bar.
    pub fn payload_bytes(&self) -> u64 {
        self.payload_bytes.load(Relaxed)
    }

    /// Returns the size of all files in bytes.
    pub fn total_bytes(&self) -> u64 {
        self.state.lock().queue.bytes
    }

    /// Ends the transfer with `failure`, unless it has failed before.
    pub fn fail(&self, failure: Failure) {
        let mut state = self.state.lock();
        if state.failure.is_none() {
            state.failure = Some(failure);
            self.wakers.wake();
        }
    }

    /// Returns the wakers of the threads of the connections, which are woken by every change for
    /// which a waiting connection may go on.
    pub fn wakers(&self) -> &Wakers {
        &self.wakers
    }

    /// Returns the number of blocks of the whole transfer.
    pub fn blocks(&self) -> u64 {
        self.state.lock().queue.blocks
    }

    /// Returns the time at which the receiver first confirmed everything.
    pub fn confirmed(&self) -> Option<Instant> {
        self.state.lock().confirmed
    }

    /// Returns the reason why the transfer failed, if it did.
    pub fn failure(&self) -> Option<Failure> {
        self.state.lock().failure.clone()
    }

    /// Returns the outcome, once every connection has ended.
    ///
    /// # Errors
    /// The reason of the failure, also if the receiver never confirmed everything.
    pub fn finish(&self) -> Result<Report, Failure> {
        let state = self.state.lock();
        if let Some(failure) = state.given_up.as_ref().or(state.failure.as_ref()) {
            return Err(failure.clone());
        }
        // With tags, what went over a port is the receiver's only once that port's last tag was right.
        let cipher = self.url.secret.as_ref().map(|secret| secret.cipher);
        let mut ports = state.ports.iter();
        let unproven =
            cipher == Some(Cipher::Aes128Gcm) && !ports.all(|port| port.history.is_acknowledged());
        if state.confirmed.is_none() || unproven {
            // A receiver with another key closes every port: one port tells the key, the others only that
            // they were closed.
            let failures = || {
                state
                    .ports
                    .iter()
                    .filter_map(|port| port.report.failure.as_ref())
            };
            let failure = failures()
                .find(|failure| failure.status == Status::Encryption)
                .or_else(|| failures().next());
            let never = "the receiver never said that it has everything";
            return Err(failure.map_or_else(|| Failure::new(Status::Error, never), Failure::clone));
        }
        let ports = state.ports.iter().map(|port| PortReport {
            blocks: port.history.acknowledged(),
            ..port.report.clone()
        });
        Ok(Report {
            blocks: state.queue.blocks,
            bytes: state.queue.bytes,
            payload_bytes: self.payload_bytes(),
            ports: ports.collect(),
        })
    }

    /// Takes the chunks that the receiver holds from an earlier transfer; only the rest is sent. Those
    /// that come again, as the answer to the first was lost, are ignored.
    ///
    /// # Errors
    /// [`Status::Protocol`] if two files have one sequence id or one path.
    pub(super) fn resume(&self, chunks: Vec<FileChunks>) -> Result<(), Failure> {
        let state = &mut *self.state.lock();
        let mut there: HashMap<_, _> = chunks.iter().map(|file| (&file.path, file)).collect();
        let numbers: HashSet<_> = chunks.iter().map(|file| file.sequence).collect();
        if there.len() < chunks.len() || numbers.len() < chunks.len() {
            let detail = "the receiver contradicts itself about the earlier transfer";
            return Err(Failure::new(Status::Protocol, detail));
        }
        if std::mem::replace(&mut state.is_resumed, true) {
            return Ok(());
        }
        let mut next = numbers.into_iter().max().map_or(0, |last| last + 1);
        let files = self.source.files();
        let mut plans = Vec::with_capacity(files.len());
        state.allocations = Vec::with_capacity(files.len());
        for file in files {
            let size = file.size_bytes;
            let held = there.remove(&file.path);
            let (allocation, held) = match held {
                None => (Allocation::New, None),
                Some(held) => match held.size.cmp(&size) {
                    Ordering::Equal => (Allocation::Exists, Some(held)),
                    Ordering::Greater => (Allocation::TooLarge(held.sequence), None),
                    // The reference has the field and never sets it.
                    Ordering::Less => (Allocation::TooSmall(0), Some(held)),
                },
            };
            state.allocations.push(allocation);
            plans.push(match held {
                Some(held) => (held.sequence, gaps(held, size)),
                None => {
                    let new = next;
                    next += 1;
                    (new, vec![(0, size)])
                }
            });
        }
        state.queue = Queue::of_plans(files, plans, self.options.block_bytes);
        let mut gone: Vec<_> = there.into_values().collect();
        gone.sort_by_key(|held| &held.path);
        for held in gone {
            let file = files.len() + state.gone.len();
            state.gone.push(held.path.clone());
            state.queue.add_gone(file, held.sequence);
        }
        Ok(())
    }

    /// Whether the receiver has sent the chunks of an earlier transfer.
    pub(super) fn is_resumed(&self) -> bool {
        self.state.lock().is_resumed
    }

    pub(super) fn settings(&self) -> Settings {
        let milliseconds =
            |timeout: Duration| timeout.as_millis().clamp(1, i32::MAX as u128) as u32;
        let state = self.state.lock();
        Settings {
            version: state.version,
            read_timeout_ms: milliseconds(self.options.read_timeout),
            write_timeout_ms: milliseconds(self.options.write_timeout),
            transfer_id: self.url.id.clone(),
            checksum: self.options.checksum,
            // Also once they have come, as the answer to them may be lost.
            request_chunks: self.url.resumption,
            whole_files: self.options.block_bytes == 0,
            heartbeats: self.options.heartbeats,
        }
    }

    /// Returns the condition that ends or restarts the work of a port, whatever its state.
    pub(super) fn port_status(&self, index: usize) -> PortStatus {
        let state = self.state.lock();
        if state.failure.is_some() {
            PortStatus::Ended
        } else if state.ports[index].dead {
            PortStatus::GivenUp
        } else {
            PortStatus::Generation(state.generation)
        }
    }

    pub(super) fn connected(&self, index: usize) {
        self.state.lock().ports[index].report.connections += 1;
    }

    /// Takes the next block for a port, if there is one, and returns its header too.
    pub(super) fn next_block(&self, index: usize) -> Option<(Block, FileHeader)> {
        let mut state = self.state.lock();
        if state.given_up.is_some() || state.ports[index].dead {
            return None;
        }
        let block = state.queue.pop()?;
        state.ports[index].history.blocks.push(block);
        let files = self.source.files();
        let (path, file_size, allocation) = match files.get(block.file) {
            Some(file) => {
                let known = state.allocations.get(block.file);
                let allocation = known.copied().unwrap_or(Allocation::New);
                (&file.path, file.size_bytes, allocation)
            }
            None => {
                let path = &state.gone[block.file - files.len()];
                (path, 0, Allocation::Delete)
            }
        };
        let header = FileHeader {
            status: 0,
            path: path.clone(),
            sequence: block.sequence,
            length: block.length,
            offset: block.offset,
            file_size,
            allocation,
        };
        Some((block, header))
    }

    pub(super) fn done(&self) -> Done {
        let state = self.state.lock();
        let given_up = state.given_up.as_ref();
        Done {
            status: given_up.map_or(0, |failure| failure.status.code()),
            blocks: state.queue.blocks,
            bytes: state.queue.bytes,
        }
    }

    /// Sends nothing more but DONE with this failure's status; the first one stands.
    pub(super) fn give_up(&self, failure: Failure) {
        let mut state = self.state.lock();
        if state.given_up.is_none() {
            state.given_up = Some(failure);
            self.wakers.wake();
        }
    }

    pub(super) fn wrote_payload(&self, bytes: u64) {
        self.payload_bytes.fetch_add(bytes, Relaxed);
    }

    /// Returns the time at which more payload may be sent, after `bytes` of it were.
    pub(super) fn next_payload(&self, bytes: u64, now: Duration) -> Duration {
        let throttle = self.throttle.as_ref();
        throttle.map_or(now, |throttle| throttle.lock().sent(bytes, now))
    }

    /// Returns the maximum payload that one connection sends at a time, in bytes.
    pub(super) fn part_bytes(&self) -> usize {
        let limit = self.options.rate_limit;
        let part = limit.map(|limit| limit.part_bytes(self.url.ports.len()));
        part.map_or(usize::MAX, |part| part.try_into().unwrap_or(usize::MAX))
    }

    pub(super) fn acknowledge_all(&self, index: usize) {
        self.state.lock().ports[index].history.acknowledge_all();
    }

    pub(super) fn confirm(&self, index: usize) {
        let mut state = self.state.lock();
        state.ports[index].history.acknowledge_all();
        state.confirmed.get_or_insert_with(Instant::now);
    }

    /// Applies a port's checkpoint after its connection broke; returns whether it shows progress.
    pub(super) fn local_checkpoint(
        &self,
        index: usize,
        checkpoint: &Checkpoint,
    ) -> Result<bool, Failure> {
        let state = &mut *self.state.lock();
        let port = &mut state.ports[index];
        let (number, named) = (port.report.port, checkpoint.port);
        if named != number {
            let detail = format!("the checkpoint of port {number} names port {named}");
            return Err(Failure::new(Status::Protocol, detail));
        }
        if port.dead {
            return Ok(false);
        }
        let applied = port.history.apply(checkpoint, &mut state.queue);
        applied.map_err(|why| invalid(number, why))
    }

    /// Applies the checkpoints of ports that the receiver has given up.
    pub(super) fn global_checkpoint(&self, list: &[Checkpoint]) -> Result<(), Failure> {
        let state = &mut *self.state.lock();
        for checkpoint in list {
            let mut ports = state.ports.iter_mut();
            let Some(port) = ports.find(|port| port.report.port == checkpoint.port) else {
                // A port that the connection URL does not list, on which the receiver waited in vain.
                if (checkpoint.blocks, checkpoint.partial_bytes) == (0, 0) {
                    continue;
                }
                return Err(invalid(checkpoint.port, "it is no port of this transfer"));
            };
            port.dead = true;
            self.wakers.wake();
            let applied = port.history.apply(checkpoint, &mut state.queue);
            applied.map_err(|why| invalid(checkpoint.port, why))?;
        }
        Ok(())
    }

    /// Changes to `version`, which the receiver requested on a connection of `generation`; all
    /// connections begin again with it.
    pub(super) fn renegotiate(&self, version: u32, generation: u32) -> Result<(), Failure> {
        let state = &mut *self.state.lock();
        if generation != state.generation {
            // Another connection got the request before; this one has it from the session.
            return Ok(());
        }
        if version >= state.version || version < OLDEST_VERSION {
            return Err(too_old(version));
        }
        let mut ports = state.ports.iter();
        let acknowledged = ports.any(|port| port.history.acknowledged() > 0);
        if acknowledged || state.generation > 0 {
            let detail = "the receiver changed its version in the middle of the transfer";
            return Err(Failure::new(Status::VersionMismatch, detail));
        }
        state.version = version;
        state.generation += 1;
        self.wakers.wake();
        Ok(())
    }

    /// Gives a port's blocks back, as it begins again with another version.
    pub(super) fn begin_again(&self, index: usize) {
        let state = &mut *self.state.lock();
        state.ports[index].history.give_all_back(&mut state.queue);
    }

    /// Records that a port is given up; others may still do its work.
    pub(super) fn port_ended(&self, index: usize, failure: &Failure) {
        let report = &mut self.state.lock().ports[index].report;
        report.failure.get_or_insert(failure.clone());
    }
}

/// Result of [`Session::port_status`].
pub(super) enum PortStatus {
    Ended,
    GivenUp,
    Generation(u32),
}

/// Returns the ranges of a file of `size` bytes that the receiver does not have.
fn gaps(there: &FileChunks, size: u64) -> Vec<(u64, u64)> {
    if size == 0 && there.chunks.is_empty() {
        return vec![(0, 0)];
    }
    let mut gaps = Vec::new();
    let mut from = 0;
    for (start, end) in there.chunks.iter().chain([&(size, size)]) {
        if from < *start {
            gaps.push((from, *start));
        }
        from = *end;
    }
    gaps
}

fn invalid(port: u16, why: &str) -> Failure {
    Failure::new(
        Status::InvalidCheckpoint,
        format!("the receiver's checkpoint of port {port} is refused, as {why}"),
    )
}

fn too_old(version: u32) -> Failure {
    Failure::new(
        Status::VersionIncompatible,
        format!("the receiver speaks version {version}, this sender {OLDEST_VERSION} to {VERSION}"),
    )
}
