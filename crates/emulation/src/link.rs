//! One direction of a path.

use std::collections::VecDeque;

use regatta_model::{Condition, Impairment, PacketCounter};

use crate::{
    bottleneck::Bottleneck,
    correlated_delay::CorrelatedDelay,
    discipline::{Discipline, Fates, Limit},
    flows::{Counted, FlowCounters, FlowPath, Flows},
    impairments::{ImpairmentRng, PacketImpairments},
    in_flight::{InFlight, InFlightPacket},
    outcome::{Counters, Discarded, Due, Offer},
    packet::{Ecn, Packet},
    queue::Waiting,
    rng::{LinkRng, Purpose},
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
    queue: Discipline<P>,
    wire: InFlight<P>,
    wire_bytes: u64,
    latest_due: u64,
    now: u64,
    counters: Counters,
    flows: Flows,
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
            queue: Discipline::new(
                settings.link.discipline,
                (mtu_bytes, settings.rate_bps),
                draws(seed, 0),
            ),
            wire: InFlight::new(settings.reorders()),
            wire_bytes: 0,
            latest_due: 0,
            now: 0,
            counters: Counters::default(),
            flows: Flows::none(direction),
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
    pub fn offer(&mut self, now: u64, packet: P) -> Offer<P> {
        let now = self.now.max(now);
        self.catch_up(now);
        self.now = now;
        let size = packet.size() as u64;
        let ordinal = self.counters.offered;
        self.counters.offered += 1;
        self.flows.offered(&packet);
        let impairments = self.impairment_rng.next(ordinal);
        if size > self.mtu_bytes {
            return self.dropped(packet, PacketCounter::Mtu);
        }
        let start = self.start(now, size);
        let mut waiting = Waiting {
            packet: Some(packet),
            size,
            arrived: now,
            ordinal,
            impairments,
            flow: 0,
            ecn: Ecn::NotEct,
        };
        if start.is_none()
            && let Some(cause) = self.admit(now, &mut waiting)
            && let Some(packet) = waiting.packet.take()
        {
            return self.dropped(packet, cause);
        }
        // One that is lost takes its share of queue and rate all the same.
        let mut outcome = Offer::Carried;
        let lost = impairments.lost().or_else(|| {
            let asks = |packet: &P| packet.ecn() != Ecn::NotEct;
            let is_lost =
                impairments.has(Impairment::EctLoss) && waiting.packet.as_ref().is_some_and(asks);
            is_lost.then_some(PacketCounter::EctLoss)
        });
        if let Some(cause) = lost {
            if let Some(packet) = waiting.packet.take() {
                outcome = self.dropped(packet, cause);
            }
        } else if impairments.has(Impairment::Corruption)
            && let Some(packet) = &mut waiting.packet
        {
            packet.flip_bit(self.impairment_rng.flipped_bit());
            self.counters.packets[PacketCounter::Corrupted] += 1;
        }
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

    /// Decides whether a packet may wait: returns the cause of its drop, or none.
    #[inline]
    fn admit(&mut self, now: u64, waiting: &mut Waiting<P>) -> Option<PacketCounter> {
        if self.bottleneck.is_unlimited() {
            return Some(PacketCounter::Queue);
        }
        if self.queue.reads_packets()
            && let Some(packet) = &waiting.packet
        {
            (waiting.flow, waiting.ecn) = (packet.flow(), packet.ecn());
        }
        let limit = Limit {
            bytes: self.settings.queue_bytes,
            packets: self.settings.link.queue_packets.unwrap_or(u64::MAX),
        };
        let mut fates = Fates {
            counted: Counted {
                all: &mut self.counters.packets,
                flows: &mut self.flows,
            },
            discarded: &mut self.discarded,
            ecn: self.settings.link.ecn,
        };
        self.queue.admit(now, waiting, limit, &mut fates)
    }

    #[inline]
    fn dropped(&mut self, packet: P, cause: PacketCounter) -> Offer<P> {
        self.counters.packets[cause] += 1;
        self.flows.count(&packet, cause);
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

    /// Returns a packet that the queue's discipline has dropped, if there is one. Under a discipline that drops, call
    /// it after each [`EmulatedLink::poll`] until it returns `None`: dropped packets are kept until then.
    pub fn discarded(&mut self) -> Option<Discarded<P>> {
        self.discarded.pop()
    }

    /// Returns the time at which to poll next, in nanoseconds: nothing is due before. `None` if
    /// nothing is under way.
    #[must_use]
    pub fn next(&self) -> Option<u64> {
        let wire = self.wire.next();
        let Some(start) = self.head_start() else {
            return wire;
        };
        match wire {
            // What waits leaves after what is under way.
            Some(at) if self.wire.keeps_order() => Some(at),
            at => {
                let start = start.min(self.next_change);
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

    /// Returns the packets that came in, copies included, and those that are known to have left, to have been dropped or to be
    /// under way. They are equal, unless a packet was forgotten or counted twice.
    #[must_use]
    pub fn accounts(&self) -> [u64; 2] {
        let counted = self.counters;
        let came = counted.offered + counted.packets[PacketCounter::Duplicated];
        [
            came,
            counted.delivered + counted.dropped() + self.in_flight(),
        ]
    }

    /// Tells these flows apart from now on. The delay of each is beyond the bottleneck, so that their packets meet in one
    /// queue.
    pub fn set_flows(&mut self, paths: &[FlowPath]) {
        self.flows.set(paths);
        if self.flows.reorder() {
            self.wire.allow_reordering();
        }
    }

    /// Returns the counters of the packets of each flow since it was set.
    #[must_use]
    pub fn flow_counters(&self) -> Vec<FlowCounters> {
        self.flows.counters()
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

    /// Returns the time at which the bottleneck can begin to send a waiting packet, in nanoseconds. That is not before the
    /// last offer: for a packet that came then and is ahead of a larger one, a token bucket may have had enough tokens
    /// earlier.
    #[inline]
    fn head_start(&self) -> Option<u64> {
        let size = self.queue.head()?;
        Some(self.ready(size).max(self.now))
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
        while let Some(start) = self.head_start() {
            if start > now {
                return;
            }
            let mut fates = Fates {
                counted: Counted {
                    all: &mut self.counters.packets,
                    flows: &mut self.flows,
                },
                discarded: &mut self.discarded,
                ecn: self.settings.link.ecn,
            };
            let taken = self.queue.take(start, &mut fates);
            if let Some(waiting) = taken {
                // The discipline may have taken one of another size.
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
        if impairments.has(Impairment::Reordering) {
            packet.skips_delay();
        }
        if impairments.has(Impairment::Bleaching) || impairments.has(Impairment::Remarking) {
            self.change_ecn(&mut packet, impairments);
        }
        let at = self
            .due(sent, impairments)
            .saturating_add(self.flows.delay(&packet));
        if impairments.has(Impairment::Duplication) {
            self.counters.packets[PacketCounter::Duplicated] += 1;
            self.hold(at, ordinal, size, packet.duplicate());
        }
        self.hold(at, ordinal, size, packet);
    }

    /// Clears the ECN field of a packet, or changes it from ECT(0) to ECT(1).
    #[cold]
    fn change_ecn(&mut self, packet: &mut P, impairments: PacketImpairments) {
        let (changed, counter) = match packet.ecn() {
            Ecn::NotEct => return,
            _ if impairments.has(Impairment::Bleaching) => (Ecn::NotEct, PacketCounter::Bleached),
            Ecn::Ect0 => (Ecn::Ect1, PacketCounter::Remarked),
            Ecn::Ect1 | Ecn::Ce => return,
        };
        packet.set_ecn(changed);
        self.counters.packets[counter] += 1;
    }

    #[inline]
    fn due(&mut self, sent: u64, impairments: PacketImpairments) -> u64 {
        if impairments.has(Impairment::Reordering) {
            self.counters.packets[PacketCounter::Reordered] += 1;
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
        let ordinal = self.counters.offered;
        let rng = draws(self.seed, ordinal);
        let served = (self.mtu_bytes, settings.rate_bps);
        self.queue.change(settings.link.discipline, served, rng);
        self.settings = settings;
        if self.bottleneck.is_unlimited() {
            // Nothing is left that they could wait for.
            while let Some(waiting) = self.queue.pop() {
                self.send(now, waiting);
            }
        }
    }
}

/// Returns the constructor of the random number generator of a queueing discipline, from the packet `ordinal` on.
fn draws(seed: (u64, u64), ordinal: u64) -> impl FnOnce() -> LinkRng {
    move || LinkRng::new(seed, Purpose::Discipline, ordinal)
}
