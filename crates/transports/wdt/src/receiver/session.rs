//! State of the whole transfer at the receiver, shared by its connections.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::codec::{Abort, Checkpoint, Done, FileChunks, Reply};
use crate::crypto::DEFAULT_TAG_INTERVAL_BYTES;
use crate::failure::{Failure, PortReport, Report};
use crate::sink::Sink;
use crate::status::Status;
use crate::url::ConnectionUrl;
use crate::waker::Wakers;

/// Options of a receiver; the defaults are the reference's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes between two tags of AES-GCM in the receiver's messages.
    pub tag_interval_bytes: u32,
    /// Maximum wait for bytes of the sender.
    pub read_timeout: Duration,
    /// Maximum wait for room in the connection's send buffer.
    pub write_timeout: Duration,
    /// Maximum wait for the first connection of the transfer.
    pub first_connection: Duration,
    /// Maximum wait for the other ports after the first connection.
    pub other_connections: Duration,
    /// Time added to the longer of the two time-outs for the wait for a reconnection.
    pub reconnection_grace: Duration,
    /// Time in which a connection must prove that it belongs to the transfer.
    pub admission: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            tag_interval_bytes: DEFAULT_TAG_INTERVAL_BYTES,
            read_timeout: Duration::from_secs(5),
            write_timeout: Duration::from_secs(5),
            first_connection: Duration::from_secs(50),
            other_connections: Duration::from_secs(2),
            reconnection_grace: Duration::from_secs(1),
            admission: Duration::from_secs(1),
        }
    }
}

/// One transfer, from the receiver's side.
pub struct Session<K> {
    pub(super) sink: K,
    options: Options,
    pub(super) url: ConnectionUrl,
    payload_bytes: AtomicU64,
    /// Size in bytes from SIZE; `u64::MAX` before that arrived.
    size: AtomicU64,
    state: Mutex<State>,
    wakers: Wakers,
}

#[derive(Default)]
struct State {
    ports: Vec<Port>,
    /// Time of the transfer's first connection.
    began: Option<Duration>,
    /// Checkpoints of the ports that were given up, in that order.
    lost: Vec<Checkpoint>,
    chunks: Chunks,
    done: Option<Done>,
    /// Whether the sink has checked that the blocks make whole files.
    checked: bool,
    failure: Option<Failure>,
    /// Reason of the last refusal of a connection that looked like a sender with a wrong URL.
    turned_away: Option<Failure>,
}

#[derive(Default)]
struct Port {
    /// Current outcome; its blocks are the whole ones that count.
    report: PortReport,
    phase: Phase,
    /// Bytes that count, those of partial blocks included.
    bytes: u64,
    /// Number of whole blocks that no tag has verified yet.
    unverified_blocks: u64,
    unverified_bytes: u64,
    /// The block in which the connection broke, until the sender has seen the checkpoint; the rest of the
    /// checkpoint is not used.
    partial: Checkpoint,
    /// Number of lost ports that the sender has certainly read on this port.
    seen: usize,
    /// Number of lost ports that were sent on its connection.
    offered: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Not connected, or receiving blocks.
    #[default]
    Running,
    /// DONE has arrived.
    Waiting,
    /// `D` was sent.
    Closing,
    Ended,
}

/// Progress in telling the sender which chunks an earlier transfer has left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Chunks {
    #[default]
    NotRequested,
    /// The port at this index is sending them.
    Sending(usize),
    /// They were sent, but the sender's answer did not come.
    Unacknowledged,
    Acknowledged,
}

impl<K: Sink> Session<K> {
    /// Returns a session that receives into `sink` from the sender that is given `url`.
    pub fn new(sink: K, url: &ConnectionUrl, options: Options) -> Self {
        let ports = url.ports.iter().map(|port| Port {
            report: PortReport::new(*port),
            ..Port::default()
        });
        Self {
            sink,
            options,
            url: url.clone(),
            payload_bytes: AtomicU64::new(0),
            size: AtomicU64::new(u64::MAX),
            state: Mutex::new(State {
                ports: ports.collect(),
                ..State::default()
            }),
            wakers: Wakers::default(),
        }
    }

    /// Returns the options of the session.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Returns the bytes of payload received so far; for a progress bar.
    pub fn payload_bytes(&self) -> u64 {
        self.payload_bytes.load(Ordering::Relaxed)
    }

    /// Returns the size of all files in bytes, once the sender has sent it.
    pub fn total_bytes(&self) -> Option<u64> {
        Some(self.size.load(Ordering::Relaxed)).filter(|size| *size != u64::MAX)
    }

    /// Ends the transfer with `failure`, unless it has failed before; the sender gets its status.
    pub fn fail(&self, failure: Failure) {
        let mut state = self.state.lock();
        if state.failure.is_none() {
            state.failure = Some(failure);
            self.wakers.wake();
        }
    }

    /// Returns the reason why the transfer failed, if it did.
    pub fn failure(&self) -> Option<Failure> {
        self.state.lock().failure.clone()
    }

    /// Returns the outcome, once every connection has ended.
    ///
    /// # Errors
    /// The reason of the failure, also if not every block came by the sender's own count.
    pub fn finish(&self) -> Result<Report, Failure> {
        let state = self.state.lock();
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        let ports: Vec<_> = state.ports.iter().map(|port| port.report.clone()).collect();
        let blocks = ports.iter().map(|port| port.blocks).sum();
        let bytes = state.ports.iter().map(|port| port.bytes).sum();
        state.complete(blocks, bytes).map_err(|incomplete| {
            let refused = state.turned_away.as_ref().filter(|_| state.began.is_none());
            let failure = refused.map(|refused| {
                let only = "no sender of this transfer came, only others";
                Failure::new(refused.status, format!("{only}; {}", refused.detail))
            });
            let failure = failure.or_else(|| ports.iter().find_map(|port| port.failure.clone()));
            failure.unwrap_or(incomplete)
        })?;
        Ok(Report {
            blocks,
            bytes,
            payload_bytes: self.payload_bytes(),
            ports,
        })
    }

    /// Returns the wakers of the threads of the connections, which are woken by every change for
    /// which a waiting connection may go on.
    pub fn wakers(&self) -> &Wakers {
        &self.wakers
    }

    pub(crate) fn failed(&self) -> bool {
        self.state.lock().failure.is_some()
    }

    pub(super) fn abort(&self, version: u32, status: Status) -> Abort {
        let state = self.state.lock();
        let blocks = state.ports.iter().map(|port| port.report.blocks);
        Abort {
            version,
            code: status.code(),
            blocks: blocks.sum(),
        }
    }

    /// Returns the deadline for the first connection to a port.
    pub(super) fn first_connection_until(&self) -> Duration {
        match self.state.lock().began {
            Some(began) => began + self.options.other_connections,
            None => self.options.first_connection,
        }
    }

    pub(super) fn has_begun(&self) -> bool {
        self.state.lock().began.is_some()
    }

    /// Reports SETTINGS of this transfer; by then the sender has read the last checkpoint of this
    /// port.
    pub(super) fn settled(&self, index: usize, now: Duration) {
        let mut state = self.state.lock();
        state.began.get_or_insert(now);
        let port = &mut state.ports[index];
        port.report.connections += 1;
        port.partial = Checkpoint::default();
        self.wakers.wake();
    }

    /// Records the refusal of a connection that does not belong to the transfer.
    pub(super) fn turned_away(&self, why: &Failure) {
        self.state.lock().turned_away = Some(why.clone());
    }

    pub(super) fn size(&self, bytes: u64) {
        self.size.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn got_payload(&self, bytes: u64) {
        self.payload_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the port's checkpoint, with which a reconnection begins.
    pub(super) fn checkpoint(&self, index: usize) -> Checkpoint {
        self.state.lock().ports[index].checkpoint()
    }

    /// Adds a whole block; one that is not `verified` counts once a tag has verified it.
    pub(super) fn block(&self, index: usize, bytes: u64, verified: bool) {
        let mut state = self.state.lock();
        let port = &mut state.ports[index];
        port.unverified_blocks += 1;
        port.unverified_bytes += bytes;
        if verified {
            port.count(1, bytes);
        }
    }

    /// Counts blocks of this port that a tag verified, or that were acknowledged without one.
    pub(super) fn count(&self, index: usize, blocks: u64, bytes: u64) {
        self.state.lock().ports[index].count(blocks, bytes);
    }

    /// Reports a valid FILE or DONE, which shows that the sender has read the list of lost ports
    /// sent here.
    pub(super) fn lost_ports_seen(&self, index: usize) {
        let mut state = self.state.lock();
        let port = &mut state.ports[index];
        port.seen = port.offered;
    }

    /// Returns the port's answer to a sender that asks for the chunks of an earlier transfer, and
    /// the chunks that follow it: WAIT while another port is sending them, ACK after that.
    pub(super) fn listing(&self, index: usize) -> (Reply, Vec<FileChunks>) {
        let mut state = self.state.lock();
        match state.chunks {
            Chunks::Acknowledged => (Reply::Ack, Vec::new()),
            Chunks::Sending(other) if other != index => (Reply::Wait, Vec::new()),
            _ => {
                state.chunks = Chunks::Sending(index);
                let held = self.sink.held();
                let files = held.len() as u64;
                (Reply::Chunks { files }, held)
            }
        }
    }

    /// Reports the sender's answer to the chunks.
    pub(super) fn chunks_acknowledged(&self) {
        let mut state = self.state.lock();
        state.chunks = Chunks::Acknowledged;
        self.wakers.wake();
    }

    /// Reports a sender that does not request chunks: it sends everything, unless it has
    /// acknowledged them before.
    pub(super) fn chunks_not_requested(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.chunks, Chunks::Acknowledged) != Chunks::Acknowledged {
            self.sink.forget()?;
        }
        self.wakers.wake();
        Ok(())
    }

    /// Reports DONE on a port.
    pub(super) fn done(&self, index: usize, done: Done) {
        let mut state = self.state.lock();
        if state.done.is_some_and(|before| before != done) {
            let detail = "the sender's totals contradict each other";
            let failure = Failure::new(Status::Protocol, detail);
            state.failure.get_or_insert(failure);
        }
        state.done = Some(done);
        state.ports[index].phase = Phase::Waiting;
        self.wakers.wake();
    }

    /// Returns the message that is due on a port which has received DONE: the checkpoints of ports
    /// that were given up, or DONE once everything has arrived.
    pub(super) fn due_reply(&self, index: usize) -> Option<Reply> {
        let state = &mut *self.state.lock();
        let lost = state.lost.len();
        let port = &mut state.ports[index];
        if port.seen < lost {
            port.offered = lost;
            port.phase = Phase::Running;
            return Some(Reply::Errors(state.lost[port.seen..].to_vec()));
        }
        let over = |port: &Port| match port.phase {
            Phase::Running => false,
            Phase::Waiting => port.seen == lost,
            Phase::Closing | Phase::Ended => true,
        };
        if !state.ports.iter().all(over) {
            return None;
        }
        let sum = |of: fn(&Port) -> u64| state.ports.iter().map(of).sum();
        let blocks = sum(|port| port.report.blocks + port.unverified_blocks);
        let bytes = sum(|port| port.bytes + port.unverified_bytes);
        let mut result = state.complete(blocks, bytes);
        if result.is_ok() && !state.checked {
            let checked = self.sink.check(bytes);
            result = checked.map_err(|error| Failure::new(Status::Protocol, error.to_string()));
        }
        self.wakers.wake();
        if let Err(failure) = result {
            state.failure.get_or_insert(failure);
            return None;
        }
        state.checked = true;
        state.ports[index].phase = Phase::Closing;
        Some(Reply::Done)
    }

    /// Reports that a port's connection broke; `partial` has the part of a block that arrived for
    /// good, if there is one.
    pub(super) fn disconnected(&self, index: usize, partial: Checkpoint) {
        let mut state = self.state.lock();
        if state.chunks == Chunks::Sending(index) {
            state.chunks = Chunks::Unacknowledged;
        }
        let port = &mut state.ports[index];
        port.phase = Phase::Running;
        port.offered = port.seen;
        port.unverified_blocks = 0;
        port.unverified_bytes = 0;
        if partial.partial_bytes > 0 {
            port.bytes += partial.partial_bytes;
            port.partial = partial;
        }
        self.wakers.wake();
    }

    /// Reports the end of a port; if it failed, the sender is sent its checkpoint on the other
    /// ports.
    pub(super) fn ended(&self, index: usize, failure: Option<Failure>) {
        let state = &mut *self.state.lock();
        let port = &mut state.ports[index];
        if port.phase != Phase::Ended {
            port.phase = Phase::Ended;
            if failure.is_some() {
                port.report.failure = failure;
                state.lost.push(port.checkpoint());
            }
        }
        self.wakers.wake();
    }
}

impl State {
    /// Checks that these totals are those of the sender.
    fn complete(&self, blocks: u64, bytes: u64) -> Result<(), Failure> {
        match self.done {
            Some(done) if (done.blocks, done.bytes) == (blocks, bytes) => Ok(()),
            _ => {
                let detail =
                    format!("{blocks} blocks with {bytes} bytes came, which is not what was sent");
                Err(Failure::new(Status::Protocol, detail))
            }
        }
    }
}

impl Port {
    fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            port: self.report.port,
            blocks: self.report.blocks,
            ..self.partial
        }
    }

    fn count(&mut self, blocks: u64, bytes: u64) {
        self.unverified_blocks -= blocks;
        self.unverified_bytes -= bytes;
        self.report.blocks += blocks;
        self.bytes += bytes;
    }
}
