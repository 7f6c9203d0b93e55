//! One direction of a path.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    time::Duration,
};

use regatta_model::Condition;

use crate::draws::{Draws, Purpose};

/// What a line needs to know of a packet.
pub trait Packet {
    /// Bytes of the whole IP packet.
    fn size(&self) -> usize;
}

impl Packet for Vec<u8> {
    fn size(&self) -> usize {
        self.len()
    }
}

/// Which way a line goes; the two directions of a path draw from different random streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the connecting host to the listening one.
    Forward,
    /// From the listening host to the connecting one.
    Reverse,
}

/// Why a packet was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// It is larger than the path's largest packet.
    Mtu,
    /// The bottleneck's queue has no room for it.
    Queue,
    /// It was lost at random on the wire.
    Loss,
}

/// What became of an offered packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Offer<P> {
    /// It will come out of [`Line::poll`].
    Carried,
    /// It was dropped and is given back, for its buffer.
    Dropped {
        /// The packet.
        packet: P,
        /// Why.
        cause: Cause,
    },
}

/// A packet that leaves the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due<P> {
    /// When it was due, in nanoseconds; never after the time of the poll.
    pub at: u64,
    /// The packet.
    pub packet: P,
}

/// What happened to the packets so far.
///
/// `offered` = `delivered` + `loss_drops` + `queue_drops` + `mtu_drops` + [`Line::in_flight`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that arrived at the line.
    pub offered: u64,
    /// Packets that left it.
    pub delivered: u64,
    /// Packets lost at random.
    pub loss_drops: u64,
    /// Packets that found the queue full.
    pub queue_drops: u64,
    /// Packets larger than the largest.
    pub mtu_drops: u64,
    /// Most bytes that waited for the bottleneck at one moment, the packet under transmission not
    /// counted.
    pub queue_max_bytes: u64,
}

/// A link that cannot be emulated.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LinkError {
    /// Nothing would ever arrive.
    #[error("a link rate of `0 bit/s` carries nothing")]
    NoRate,
    /// Not a probability.
    #[error("a loss ratio of `{0}` is not between 0 and 1")]
    Loss(f64),
    /// Too long to count in nanoseconds.
    #[error("a delay of `{0:?}` is too long to emulate")]
    Delay(Duration),
}

/// A packet on its way, ordered by the time it is due, then by its arrival.
#[derive(Debug, Clone)]
struct Held<P> {
    at: u64,
    ordinal: u64,
    packet: P,
}

impl<P> PartialEq for Held<P> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.ordinal) == (other.at, other.ordinal)
    }
}

impl<P> Eq for Held<P> {}

impl<P> PartialOrd for Held<P> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> Ord for Held<P> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.ordinal).cmp(&(other.at, other.ordinal))
    }
}

/// Packets under way. Where order is kept they fall due in the order of arrival, and a plain
/// queue does.
#[derive(Debug, Clone)]
enum Wire<P> {
    InOrder(VecDeque<Held<P>>),
    Reordering(BinaryHeap<Reverse<Held<P>>>),
}

impl<P> Wire<P> {
    fn push(&mut self, held: Held<P>) {
        match self {
            Self::InOrder(queue) => queue.push_back(held),
            Self::Reordering(heap) => heap.push(Reverse(held)),
        }
    }

    fn next(&self) -> Option<u64> {
        match self {
            Self::InOrder(queue) => queue.front().map(|held| held.at),
            Self::Reordering(heap) => heap.peek().map(|held| held.0.at),
        }
    }

    fn pop(&mut self) -> Option<Held<P>> {
        match self {
            Self::InOrder(queue) => queue.pop_front(),
            Self::Reordering(heap) => heap.pop().map(|held| held.0),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::InOrder(queue) => queue.len(),
            Self::Reordering(heap) => heap.len(),
        }
    }
}

/// The bottleneck: one packet at a time at a fixed rate, the others wait.
#[derive(Debug, Clone)]
struct Bottleneck {
    rate_bps: u64,
    /// When the last accepted packet has been sent: whole nanoseconds, and the rest in units of
    /// 1/`rate_bps` ns, so that rounding does not add up to another rate.
    busy_until: u64,
    busy_rest: u64,
    /// Packets that wait: when their transmission starts, and their size.
    waiting: VecDeque<(u64, u64)>,
    waiting_bytes: u64,
}

impl Bottleneck {
    fn new(rate_bps: u64) -> Self {
        Self {
            rate_bps,
            busy_until: 0,
            busy_rest: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
        }
    }

    fn advance(&mut self, now: u64) {
        while let Some(&(start, size)) = self.waiting.front() {
            if start > now {
                break;
            }
            self.waiting.pop_front();
            self.waiting_bytes -= size;
        }
    }

    /// When a packet of `size` bytes that arrives `now` has been sent whole; `None` if it finds no
    /// room.
    fn accept(&mut self, now: u64, size: u64, limit: u64) -> Option<u64> {
        self.advance(now);
        if self.busy_until > now {
            if self.waiting_bytes + size > limit {
                return None;
            }
            self.waiting.push_back((self.busy_until, size));
            self.waiting_bytes += size;
        } else {
            // With a rest of less than a nanosecond still to send, the link counts as free.
            self.busy_until = now;
            self.busy_rest = 0;
        }
        let parts = u128::from(size) * 8_000_000_000 + u128::from(self.busy_rest);
        let rate = u128::from(self.rate_bps);
        self.busy_until = self
            .busy_until
            .saturating_add(u64::try_from(parts / rate).unwrap_or(u64::MAX));
        self.busy_rest = (parts % rate) as u64;
        Some(self.busy_until)
    }
}

/// One direction of a path.
///
/// A packet meets the parts in the order that [`regatta_model::Link`] states: largest packet, queue, rate,
/// random loss on the wire (a lost packet has used its share of the rate), propagation with its
/// jitter. Its fate is decided when it is offered.
///
/// Draws belong to the ordinal of the offer: the n-th packet offered is lost, or not, by the n-th
/// draw of the seed, whatever the queue did to it or to those before it. So a drop by the queue,
/// which depends on timing, does not shift the losses of the packets behind it.
///
/// Without a rate nothing waits; the limit of the queue then bounds the bytes under way, which
/// guards memory.
#[derive(Debug, Clone)]
pub struct Line<P> {
    bottleneck: Option<Bottleneck>,
    queue_limit: u64,
    mtu_bytes: u64,
    /// Loss happens below this draw; `None` is no loss, and `u64::MAX` every packet.
    loss_threshold: Option<u64>,
    loss: Draws,
    delay_ns: u64,
    jitter_ns: u64,
    jitter: Draws,
    wire: Wire<P>,
    wire_bytes: u64,
    latest_due: u64,
    now: u64,
    counters: Counters,
}

impl<P: Packet> Line<P> {
    /// A line for one direction of a condition.
    ///
    /// # Errors
    /// [`LinkError`] for a rate of zero, a loss that is no probability, a delay of more than 146
    /// years.
    pub fn new(condition: &Condition, direction: Direction, seed: u64) -> Result<Self, LinkError> {
        let (link, number) = match direction {
            Direction::Forward => (&condition.forward, 0),
            Direction::Reverse => (&condition.reverse, 1),
        };
        let loss = link.loss.0;
        if !(0.0..=1.0).contains(&loss) {
            return Err(LinkError::Loss(loss));
        }
        let bottleneck = match link.rate {
            Some(rate) if rate.0 == 0 => return Err(LinkError::NoRate),
            Some(rate) => Some(Bottleneck::new(rate.0)),
            None => None,
        };
        Ok(Self {
            bottleneck,
            queue_limit: condition.queue_limit(link).0,
            mtu_bytes: u64::from(condition.mtu_bytes),
            // A float below 1 times 2^64 fits; 1 saturates, and `lost` treats that as certain.
            loss_threshold: (loss > 0.0).then_some((loss * 2f64.powi(64)) as u64),
            loss: Draws::new(seed, number, Purpose::Loss),
            delay_ns: nanoseconds(link.delay)?,
            jitter_ns: nanoseconds(link.jitter)?,
            jitter: Draws::new(seed, number, Purpose::Jitter),
            wire: if link.jitter_reorders && !link.jitter.is_zero() {
                Wire::Reordering(BinaryHeap::new())
            } else {
                Wire::InOrder(VecDeque::new())
            },
            wire_bytes: 0,
            latest_due: 0,
            now: 0,
            counters: Counters::default(),
        })
    }

    /// Offers a packet that arrives `now`. A time before an earlier one counts as that one.
    pub fn offer(&mut self, now: u64, packet: P) -> Offer<P> {
        self.now = self.now.max(now);
        let now = self.now;
        let size = packet.size() as u64;
        let ordinal = self.counters.offered;
        self.counters.offered += 1;
        let lost = self.draw_loss();
        let propagation = self.draw_propagation();
        if size > self.mtu_bytes {
            self.counters.mtu_drops += 1;
            return Offer::Dropped {
                packet,
                cause: Cause::Mtu,
            };
        }
        let Some(sent) = self.pass_bottleneck(now, size) else {
            self.counters.queue_drops += 1;
            return Offer::Dropped {
                packet,
                cause: Cause::Queue,
            };
        };
        if lost {
            self.counters.loss_drops += 1;
            return Offer::Dropped {
                packet,
                cause: Cause::Loss,
            };
        }
        let mut at = sent.saturating_add(propagation);
        if let Wire::InOrder(_) = self.wire {
            at = at.max(self.latest_due);
            self.latest_due = at;
        }
        self.wire_bytes += size;
        self.wire.push(Held {
            at,
            ordinal,
            packet,
        });
        Offer::Carried
    }

    /// The next packet that is due by `now`, if there is one. Call it until there is none.
    pub fn poll(&mut self, now: u64) -> Option<Due<P>> {
        if self.wire.next()? > now {
            return None;
        }
        let held = self.wire.pop()?;
        self.wire_bytes -= held.packet.size() as u64;
        self.counters.delivered += 1;
        Some(Due {
            at: held.at,
            packet: held.packet,
        })
    }

    /// When the next packet is due, in nanoseconds; `None` if nothing is under way.
    #[must_use]
    pub fn next(&self) -> Option<u64> {
        self.wire.next()
    }

    /// Packets accepted and not yet delivered.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.wire.len() as u64
    }

    /// What happened so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    fn pass_bottleneck(&mut self, now: u64, size: u64) -> Option<u64> {
        let Some(bottleneck) = &mut self.bottleneck else {
            return (self.wire_bytes + size <= self.queue_limit).then_some(now);
        };
        let sent = bottleneck.accept(now, size, self.queue_limit)?;
        self.counters.queue_max_bytes = self.counters.queue_max_bytes.max(bottleneck.waiting_bytes);
        Some(sent)
    }

    fn draw_loss(&mut self) -> bool {
        match self.loss_threshold {
            None => false,
            Some(u64::MAX) => true,
            Some(threshold) => self.loss.below(threshold),
        }
    }

    fn draw_propagation(&mut self) -> u64 {
        if self.jitter_ns == 0 {
            return self.delay_ns;
        }
        // A draw below zero delay is zero: nothing arrives before it was sent.
        let offset = self.jitter.up_to(2 * self.jitter_ns);
        (self.delay_ns + offset).saturating_sub(self.jitter_ns)
    }
}

/// Whole nanoseconds, with room for sums.
fn nanoseconds(value: Duration) -> Result<u64, LinkError> {
    u64::try_from(value.as_nanos())
        .ok()
        .filter(|ns| *ns <= u64::MAX / 4)
        .ok_or(LinkError::Delay(value))
}
