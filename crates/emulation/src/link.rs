//! One direction of a path.

use std::collections::VecDeque;

use regatta_model::Condition;

use crate::{
    bottleneck::Bottleneck,
    codel::Codel,
    correlated_delay::CorrelatedDelay,
    impairments::{CORRUPTED, ImpairmentRng, PacketImpairments, SKIPS, TWICE},
    in_flight::{InFlight, InFlightPacket},
    outcome::{Cause, Counters, Discarded, Due, Offer},
    packet::Packet,
    queue::{Queue, Waiting},
    settings::{Direction, LinkError, Settings},
};

/// One direction of a path.
///
/// A packet meets the parts in the order that [`regatta_model::Link`] states: largest packet,
/// queue, bottleneck, loss on the wire (a lost packet has used its share of the rate), corruption,
/// duplication, propagation with its jitter and reordering. The random impairments of a packet are
/// drawn when it is offered; its delay is that of the moment at which it leaves the bottleneck's
/// queue. Jitter that keeps order changes in time, from the first packet on, and not from packet to
/// packet: [`regatta_model::Link::jitter_span`].
///
/// Other draws belong to the ordinal of the offer: the n-th packet offered is lost, or not, by the
/// n-th draw of the seed, whatever the queue did to it or to those before it. So a drop by the
/// queue, which depends on timing, does not shift the losses of the packets behind it.
///
/// Without a bottleneck nothing waits; the limit of the queue then bounds the bytes under way,
/// which guards memory.
///
/// A schedule begins with [`EmulatedLink::begin`]. At each of its steps the impairments of packets under
/// way stay as they were drawn, the queue keeps its packets, and the new settings hold for packets
/// that leave the queue from then on.
#[derive(Debug, Clone)]
pub struct EmulatedLink<P> {
    settings: Settings,
    /// Settings of the schedule that are still to come; `next_change` is when the first of them
    /// begins.
    schedule: VecDeque<Settings>,
    next_change: u64,
    begun: bool,
    mtu_bytes: u64,
    /// Seed and number of the direction.
    seed: (u64, u64),
    impairment_rng: ImpairmentRng,
    /// The propagation delay's draw where it changes in time, from the first packet on.
    correlated_delay: Option<CorrelatedDelay>,
    bottleneck: Bottleneck,
    queue: Queue<P>,
    codel: Option<Codel>,
    wire: InFlight<P>,
    wire_bytes: u64,
    latest_due: u64,
    now: u64,
    counters: Counters,
    discarded: Vec<Discarded<P>>,
}

impl<P: Packet> EmulatedLink<P> {
    /// Creates a link for one direction of a condition, with the condition's first settings.
    ///
    /// # Errors
    /// [`LinkError`] for a rate of zero, a ratio that is no probability, a trace without time, a
    /// delay of more than 73 years.
    pub fn new(condition: &Condition, direction: Direction, seed: u64) -> Result<Self, LinkError> {
        let mut schedule = VecDeque::from(Settings::all(condition, direction)?);
        // A condition has settings to begin with.
        let settings = schedule.pop_front().ok_or(LinkError::NoRate)?;
        let mtu_bytes = u64::from(condition.mtu_bytes);
        let seed = (seed, direction as u64);
        Ok(Self {
            next_change: u64::MAX,
            begun: false,
            mtu_bytes,
            seed,
            impairment_rng: ImpairmentRng::new(&settings.link, seed, 0, None),
            correlated_delay: None,
            bottleneck: settings.bottleneck.clone(),
            queue: Queue::new(),
            codel: settings
                .codel
                .map(|times| Codel::new(mtu_bytes).with(times)),
            wire: InFlight::new(settings.reorders()),
            wire_bytes: 0,
            latest_due: 0,
            now: 0,
            counters: Counters::default(),
            discarded: Vec::new(),
            settings,
            schedule,
        })
    }

    /// Begins the schedule, and a trace anew, at `now`. A second call changes nothing.
    pub fn begin(&mut self, now: u64) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        self.catch_up(now);
        self.bottleneck.begin(now);
        for settings in &mut self.schedule {
            settings.at = settings.at.saturating_add(now);
        }
        self.next_change = self.schedule.front().map_or(u64::MAX, |next| next.at);
    }

    /// Offers a packet that arrives at `now`. A time before an earlier one counts as that one.
    pub fn offer(&mut self, now: u64, mut packet: P) -> Offer<P> {
        self.now = self.now.max(now);
        let now = self.now;
        self.catch_up(now);
        let size = packet.size() as u64;
        let ordinal = self.counters.offered;
        self.counters.offered += 1;
        let impairments = self.impairment_rng.next(ordinal);
        if size > self.mtu_bytes {
            return self.dropped(packet, Cause::Mtu);
        }
        let start = self.start(now, size);
        if start.is_none() && !self.has_room(size) {
            return self.dropped(packet, Cause::Queue);
        }
        let (carried, outcome) = match impairments.lost() {
            // It takes its share of queue and rate all the same.
            Some(cause) => (None, self.dropped(packet, cause)),
            None => {
                if impairments.has(CORRUPTED) {
                    packet.flip_bit(self.impairment_rng.flipped_bit());
                    self.counters.corrupted += 1;
                }
                (Some(packet), Offer::Carried)
            }
        };
        let waiting = Waiting {
            packet: carried,
            size,
            arrived: now,
            ordinal,
            impairments,
        };
        match start {
            Some(start) => self.send(start, waiting),
            None => {
                self.queue.push(waiting);
                let most = &mut self.counters.queue_max_bytes;
                *most = (*most).max(self.queue.bytes());
            }
        }
        outcome
    }

    #[inline]
    fn dropped(&mut self, packet: P, cause: Cause) -> Offer<P> {
        let counters = &mut self.counters;
        *match cause {
            Cause::Mtu => &mut counters.mtu_drops,
            Cause::Queue => &mut counters.queue_drops,
            Cause::Discipline => &mut counters.codel_drops,
            Cause::Loss => &mut counters.loss_drops,
            Cause::Burst => &mut counters.burst_drops,
            Cause::List => &mut counters.list_drops,
        } += 1;
        Offer::Dropped { packet, cause }
    }

    /// Returns the next packet that is due by `now`, if there is one. Call it until it returns
    /// `None`.
    pub fn poll(&mut self, now: u64) -> Option<Due<P>> {
        self.catch_up(now);
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

    /// Returns a packet that the queue's discipline has dropped, if there is one. Under CoDel, call
    /// it after each [`EmulatedLink::poll`] until it returns `None`: dropped packets are kept until then.
    pub fn discarded(&mut self) -> Option<Discarded<P>> {
        self.discarded.pop()
    }

    /// Returns the time at which to poll next, in nanoseconds: nothing is due before. `None` if
    /// nothing is under way.
    #[must_use]
    pub fn next(&self) -> Option<u64> {
        let wire = self.wire.next();
        let Some(size) = self.queue.head() else {
            return wire;
        };
        match wire {
            // What waits leaves after what is under way.
            Some(at) if self.wire.keeps_order() => Some(at),
            at => {
                let start = self.ready(size).min(self.next_change);
                Some(at.map_or(start, |at| at.min(start)))
            }
        }
    }

    /// Returns the time at which the bottleneck can begin to send a packet of `size` bytes that
    /// arrives now, in nanoseconds: `u64::MAX` if other packets wait for it, `None` without a
    /// bottleneck.
    #[must_use]
    #[inline]
    pub fn free_at(&self, size: usize) -> Option<u64> {
        if self.bottleneck.is_unlimited() {
            None
        } else if self.queue.is_empty() {
            Some(self.ready(size as u64))
        } else {
            Some(u64::MAX)
        }
    }

    /// Returns the number of packets accepted and not yet delivered.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.wire.len() as u64 + self.queue.present()
    }

    /// Returns the counters of the packets so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns the time at which a packet that arrives at `now` begins to be sent, or `None` if it
    /// has to wait. Without a bottleneck it need not wait, as long as there is memory.
    #[inline]
    fn start(&mut self, now: u64, size: u64) -> Option<u64> {
        if self.bottleneck.is_unlimited() {
            return (self.wire_bytes + size <= self.settings.queue_bytes).then_some(now);
        }
        if !self.queue.is_empty() {
            return None;
        }
        self.bottleneck.idle(now);
        (self.ready(size) <= now).then_some(now)
    }

    /// Returns the time at which the bottleneck can begin to send a packet of `size` bytes, in
    /// nanoseconds.
    #[inline]
    fn ready(&self, size: u64) -> u64 {
        self.bottleneck
            .ready(self.settings.link.rate_of.bytes_of(size))
    }

    fn has_room(&self, size: u64) -> bool {
        let most_packets = self.settings.link.queue_packets.unwrap_or(u64::MAX);
        !self.bottleneck.is_unlimited()
            && self.queue.bytes() + size <= self.settings.queue_bytes
            && self.queue.packets() < most_packets
    }

    /// Catches up with everything until `now`: packets that leave the queue, and steps of the
    /// schedule.
    #[inline]
    fn catch_up(&mut self, now: u64) {
        if !self.queue.is_empty() || self.next_change <= now {
            self.serve_until(now);
        }
    }

    fn serve_until(&mut self, now: u64) {
        // The end of time is no step.
        while self.next_change <= now && self.next_change != u64::MAX {
            let at = self.next_change;
            // What begins to be sent at the moment of the step is sent as the step says.
            self.serve(at - 1);
            self.change(at);
        }
        self.serve(now);
    }

    /// Sends the waiting packets that can begin to be sent by `now`.
    fn serve(&mut self, now: u64) {
        while let Some(size) = self.queue.head() {
            let start = self.ready(size);
            if start > now {
                return;
            }
            let taken = match &mut self.codel {
                None => self.queue.pop(),
                Some(codel) => {
                    let discarded = &mut self.discarded;
                    let drops = &mut self.counters.codel_drops;
                    codel.take(&mut self.queue, start, |waiting| {
                        // One that was to be lost has been counted and given back already.
                        if let Some(packet) = waiting.packet {
                            *drops += 1;
                            discarded.push(Discarded { at: start, packet });
                        }
                    })
                }
            };
            if let Some(waiting) = taken {
                // CoDel may have taken one of another size.
                self.send(start.max(self.ready(waiting.size)), waiting);
            }
        }
    }

    /// Sends a packet through the bottleneck from `start` on, and puts it on the wire unless it is lost
    /// there.
    // A call would copy the structure, which takes a tenth of the time of a packet.
    #[inline(always)]
    fn send(&mut self, start: u64, waiting: Waiting<P>) {
        let Waiting {
            size,
            ordinal,
            impairments,
            ..
        } = waiting;
        let bytes = self.settings.link.rate_of.bytes_of(size);
        let sent = self.bottleneck.take(start, bytes);
        let Some(mut packet) = waiting.packet else {
            return;
        };
        if impairments.has(SKIPS) {
            packet.skips_delay();
        }
        let at = self.due(sent, impairments);
        if impairments.has(TWICE) {
            self.counters.duplicated += 1;
            self.hold(at, ordinal, size, packet.duplicate());
        }
        self.hold(at, ordinal, size, packet);
    }

    #[inline]
    fn due(&mut self, sent: u64, impairments: PacketImpairments) -> u64 {
        if impairments.has(SKIPS) {
            self.counters.reordered += 1;
            return sent;
        }
        let draw = match self.settings.jitter_span {
            None => impairments.delay_draw,
            Some(span) => {
                let begin = || CorrelatedDelay::after(None, span, sent, self.seed);
                self.correlated_delay.get_or_insert_with(begin).at(sent)
            }
        };
        let mut at = sent.saturating_add(self.settings.propagation.of(draw));
        if !self.settings.link.jitter_reorders {
            // Packets wait for those before them.
            at = at.max(self.latest_due);
        }
        self.latest_due = self.latest_due.max(at);
        at
    }

    #[inline]
    fn hold(&mut self, at: u64, ordinal: u64, size: u64, packet: P) {
        self.wire_bytes += size;
        self.wire.push(InFlightPacket {
            at,
            ordinal,
            packet,
        });
    }

    /// Takes the next step of the schedule.
    #[cold]
    fn change(&mut self, now: u64) {
        let Some(settings) = self.schedule.pop_front() else {
            self.next_change = u64::MAX;
            return;
        };
        self.next_change = self.schedule.front().map_or(u64::MAX, |next| next.at);
        if settings.reorders() || settings.link.jitter_reorders {
            self.wire.allow_reordering();
        }
        self.bottleneck.change(&settings.bottleneck, now);
        self.impairment_rng = ImpairmentRng::new(
            &settings.link,
            self.seed,
            self.counters.offered,
            Some(&self.impairment_rng),
        );
        if settings.jitter_span != self.settings.jitter_span
            && let Some(span) = settings.jitter_span
        {
            self.correlated_delay = Some(CorrelatedDelay::after(
                self.correlated_delay.as_ref(),
                span,
                now,
                self.seed,
            ));
        }
        self.codel = settings.codel.map(|times| {
            let codel = self.codel.take();
            codel
                .unwrap_or_else(|| Codel::new(self.mtu_bytes))
                .with(times)
        });
        self.settings = settings;
        if self.bottleneck.is_unlimited() {
            // Nothing is left that they could wait for.
            self.codel = None;
            while let Some(waiting) = self.queue.pop() {
                self.send(now, waiting);
            }
        }
    }
}
