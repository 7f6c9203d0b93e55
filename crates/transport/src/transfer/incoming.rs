//! Received content, in parts of any size and order: counted, and compared with the content that
//! was sent.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, atomic::Ordering},
};

use regatta_model::reason;

use parking_lot::Mutex;

use super::Content;
use crate::{
    clock::MonotonicTime,
    content::{
        plan::{Plan, matches_samples},
        stream_check::encode_header,
    },
    context::LiveCounters,
    delivered::Delivered,
    error::{Result, TransportError},
    trial::{findings::Deliveries, warm_up::WarmUp, watch::ServerEnding},
};

/// Receiver of a transfer's content.
pub struct Incoming {
    plan: Plan,
    /// Whether the order has digests.
    pub(super) digest: bool,
    live: Arc<LiveCounters>,
    warm_up: Arc<WarmUp>,
    /// Transfer that ends with its last byte: closing the connections is no part of it.
    completion: Option<Arc<ServerEnding>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Parts that have arrived, by their first offset. A part that was cut stays, until it is sent
    /// again from the same offset.
    parts: BTreeMap<u64, Part>,
    /// Messages that lie in more than one part, by their number.
    edges: BTreeMap<u64, Edge>,
    corrupted: u64,
    deliveries: Option<Deliveries>,
}

/// State of a message that lies in more than one part.
#[derive(Default, Clone, Copy)]
struct Edge {
    bytes: u64,
    /// Number of parts in which the message was not what was sent.
    unsound: u32,
}

/// State of one part.
#[derive(Default)]
struct Part {
    length: u64,
    /// Bytes of the part that came in the warm-up.
    in_warm_up: u64,
    /// Number of whole messages in the part, sound or not.
    sound: u64,
    corrupted: u64,
    /// Messages that begin before the part or end after it: number, bytes here, whether these are
    /// sound.
    edges: Vec<(u64, u64, bool)>,
    digest: Option<crc32fast::Hasher>,
}

impl Incoming {
    pub(super) fn new(
        content: Content,
        live: &Arc<LiveCounters>,
        warm_up: &Arc<WarmUp>,
        completion: Option<Arc<ServerEnding>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            plan: content.plan,
            digest: content.digest,
            live: Arc::clone(live),
            warm_up: Arc::clone(warm_up),
            completion,
            state: Mutex::default(),
        })
    }

    /// Returns the size of the content, in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.plan.size
    }

    /// Makes a part of the content that arrives front to back, from offset `start` on. What had
    /// arrived before from this very offset is forgotten: it is sent again.
    #[must_use]
    pub fn part(self: &Arc<Self>, start: u64) -> IncomingPart {
        let mut state = self.state.lock();
        if let Some(part) = state.parts.remove(&start) {
            let live = &self.live;
            live.bytes_delivered
                .fetch_sub(part.length, Ordering::AcqRel);
            live.bytes_in_warm_up
                .fetch_sub(part.in_warm_up, Ordering::AcqRel);
            live.messages_delivered
                .fetch_sub(part.sound, Ordering::AcqRel);
            state.corrupted -= part.corrupted;
            for (sequence, bytes, sound) in part.edges {
                self.edge(&mut state, sequence, |edge| {
                    edge.bytes -= bytes;
                    edge.unsound -= u32::from(!sound);
                });
            }
        }
        drop(state);
        IncomingPart {
            incoming: Arc::clone(self),
            start,
            message: None,
            part: Part {
                digest: self.digest.then(crc32fast::Hasher::new),
                ..Part::default()
            },
        }
    }

    /// Changes the state of a message in several parts, and counts it when it is whole.
    fn edge(&self, state: &mut State, sequence: u64, change: impl FnOnce(&mut Edge)) {
        let length = self.plan.length(sequence) as u64;
        let edge = state.edges.entry(sequence).or_default();
        // Whole messages, sound and not.
        let counts = |edge: &Edge| match (edge.bytes == length, edge.unsound) {
            (true, 0) => (1, 0),
            (true, _) => (0, 1),
            (false, _) => (0, 0),
        };
        let (sound, unsound) = counts(edge);
        change(edge);
        let (now_sound, now_unsound) = counts(edge);
        state.corrupted = state.corrupted + now_unsound - unsound;
        let delivered = &self.live.messages_delivered;
        delivered.fetch_add(now_sound, Ordering::AcqRel);
        delivered.fetch_sub(sound, Ordering::AcqRel);
    }

    /// Returns the bytes and messages delivered, by the live counters.
    pub(super) fn delivered(&self) -> Delivered {
        self.live.received()
    }

    /// Returns the number of damaged messages, and when data came.
    pub(super) fn arrivals(&self) -> (u64, Option<Deliveries>) {
        let state = self.state.lock();
        (state.corrupted, state.deliveries)
    }

    /// Checks that the parts are the whole, each byte once; returns the CRC-32 of everything, zero
    /// where the order has no digests.
    ///
    /// # Errors
    /// [`TransportError::Protocol`] for a gap or an overlap.
    pub(super) fn finish(&self) -> Result<u64> {
        let state = self.state.lock();
        let mut digest = crc32fast::Hasher::new();
        let mut end = 0;
        for (start, part) in &state.parts {
            if *start != end {
                break;
            }
            if let Some(part) = &part.digest {
                digest.combine(part);
            }
            end += part.length;
        }
        if end != self.plan.size {
            let size = self.plan.size;
            return Err(TransportError::protocol(reason::incomplete_transfer(
                end, size,
            )));
        }
        Ok(match self.digest {
            true => digest.finalize().into(),
            false => 0,
        })
    }
}

/// The message that is arriving.
#[derive(Clone, Copy)]
struct Current {
    sequence: u64,
    bytes: u64,
    sound: bool,
}

/// A part of the content, as it arrives. Dropped at any time: what has arrived of it stays.
pub struct IncomingPart {
    incoming: Arc<Incoming>,
    start: u64,
    message: Option<Current>,
    part: Part,
}

impl IncomingPart {
    /// Takes the part's next bytes.
    ///
    /// # Errors
    /// [`TransportError::Protocol`] for what lies beyond the content's end.
    pub fn take(&mut self, mut piece: &[u8]) -> Result<()> {
        let incoming = Arc::clone(&self.incoming);
        let plan = &incoming.plan;
        let received = piece.len() as u64;
        let mut at = self.start + self.part.length;
        if at.checked_add(received).is_none_or(|end| end > plan.size) {
            let what = reason::bytes_out_of_place(received, at, plan.size);
            return Err(TransportError::protocol(what));
        }
        if let Some(digest) = &mut self.part.digest {
            digest.update(piece);
        }
        self.part.length += received;
        let mut sound = 0;
        while !piece.is_empty() {
            let (sequence, within) = plan.locate(at);
            let length = plan.length(sequence);
            let taken = piece.len().min(length - within);
            let (part, rest) = piece.split_at(taken);
            let message = self.message.get_or_insert(Current {
                sequence,
                bytes: 0,
                sound: true,
            });
            message.sound &= is_right(plan, sequence, within, part);
            message.bytes += taken as u64;
            if within + taken == length {
                let message = *message;
                self.message = None;
                if message.bytes == length as u64 {
                    sound += u64::from(message.sound);
                    self.part.corrupted += u64::from(!message.sound);
                } else {
                    self.edge(message);
                }
            }
            piece = rest;
            at += taken as u64;
        }
        self.part.sound += sound;
        let now = MonotonicTime::now();
        if !incoming.warm_up.is_over(now) {
            self.part.in_warm_up += received;
        }
        let delivered = Delivered {
            bytes: received,
            messages: sound,
        };
        let all = incoming.warm_up.count(&incoming.live, now, delivered);
        Deliveries::note(&mut incoming.state.lock().deliveries, now, all);
        if all == plan.size
            && let Some(completion) = &incoming.completion
        {
            completion.complete_window(incoming.delivered());
        }
        Ok(())
    }

    fn edge(&mut self, message: Current) {
        self.part
            .edges
            .push((message.sequence, message.bytes, message.sound));
    }
}

impl Drop for IncomingPart {
    fn drop(&mut self) {
        if self.part.length == 0 {
            return;
        }
        if let Some(message) = self.message.take() {
            self.edge(message);
        }
        let part = mem::take(&mut self.part);
        let incoming = &self.incoming;
        let mut state = incoming.state.lock();
        state.corrupted += part.corrupted;
        for (sequence, bytes, sound) in &part.edges {
            incoming.edge(&mut state, *sequence, |edge| {
                edge.bytes += bytes;
                edge.unsound += u32::from(!sound);
            });
        }
        state.parts.insert(self.start, part);
    }
}

/// Whether the bytes `piece` at offset `within` of message `sequence` are what was sent, by the
/// message's header and by the first and last bytes of the rest.
fn is_right(plan: &Plan, sequence: u64, within: usize, piece: &[u8]) -> bool {
    let length = plan.length(sequence);
    let header = Plan::header(length);
    let in_header = header.saturating_sub(within).min(piece.len());
    let (head, rest) = piece.split_at(in_header);
    if in_header > 0 {
        let expected = encode_header(plan, sequence, length);
        if head != &expected[within..within + in_header] {
            return false;
        }
    }
    let from = within + in_header;
    !plan.compared || matches_samples(rest, &plan.content[from..from + rest.len()])
}
