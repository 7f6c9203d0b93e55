//! Bottleneck of a link: a rate, a token bucket, or the delivery opportunities of a trace.

use std::sync::Arc;

use regatta_model::DeliveryTrace;

/// Parts of a nanosecond-byte at a rate in bits per second: 8 bits × 10⁹ ns.
const PARTS_PER_BYTE: u128 = 8_000_000_000;

/// Bottleneck that sends one packet at a time at a fixed rate.
#[derive(Debug, Clone)]
pub(crate) struct Serial {
    rate_bps: u64,
    /// Time at which the last packet has been sent: whole nanoseconds here, and the rest in units
    /// of 1/`rate_bps` ns in `busy_rest`, so that rounding does not add up to another rate.
    busy_until: u64,
    busy_rest: u64,
}

impl Serial {
    fn new(rate_bps: u64) -> Self {
        Self {
            rate_bps,
            busy_until: 0,
            busy_rest: 0,
        }
    }

    #[inline]
    fn take(&mut self, start: u64, size: u64) -> u64 {
        if start > self.busy_until {
            self.busy_until = start;
            self.busy_rest = 0;
        }
        let parts = u128::from(size) * PARTS_PER_BYTE + u128::from(self.busy_rest);
        let rate = u128::from(self.rate_bps);
        self.busy_until = self
            .busy_until
            .saturating_add(u64::try_from(parts / rate).unwrap_or(u64::MAX));
        self.busy_rest = (parts % rate) as u64;
        self.busy_until
    }
}

/// Token bucket: packets that find enough tokens pass at once, the others as the bucket fills.
#[derive(Debug, Clone)]
pub(crate) struct Bucket {
    /// Account of the tokens: it is "busy" until the bucket is full again.
    account: Serial,
    depth_bytes: u64,
    /// Time at which the last packet left, in nanoseconds: no later packet overtakes it.
    last: u64,
}

impl Bucket {
    /// Returns the time at which there are enough tokens for a packet of `size` bytes, in
    /// nanoseconds.
    fn ready(&self, size: u64) -> u64 {
        let spare = self.depth_bytes.saturating_sub(size);
        let credit = u128::from(spare) * PARTS_PER_BYTE / u128::from(self.account.rate_bps);
        let credit = u64::try_from(credit).unwrap_or(u64::MAX);
        self.account
            .busy_until
            .saturating_sub(credit)
            .max(self.last)
    }

    fn take(&mut self, start: u64, size: u64) -> u64 {
        self.last = start;
        self.account.take(start, size);
        start
    }
}

/// Delivery opportunities of a trace, one after another.
///
/// An opportunity carries [`DeliveryTrace::OPPORTUNITY_BYTES`] of the packets that wait at its
/// moment. A packet that does not fit continues in the next one; what is left of an opportunity
/// when nothing waits is lost.
#[derive(Debug, Clone)]
pub(crate) struct Trace {
    opportunities_ns: Arc<[u64]>,
    period_ns: u64,
    /// Time at which this repetition of the trace began, in nanoseconds.
    base: u64,
    /// Index of the next opportunity.
    next: usize,
    /// Time of the opportunity in use; `remaining_bytes` are the bytes that it can still carry.
    current: u64,
    remaining_bytes: u64,
}

impl Trace {
    /// Begins the trace at `now`, except for opportunities that a packet under way still takes.
    fn begin(&mut self, now: u64) {
        self.base = now;
        self.next = 0;
        if self.current > now {
            self.skip_to(self.current);
        } else {
            self.remaining_bytes = 0;
        }
    }

    /// Sets the next opportunity to the first one after `now`, which does not lie before `base`.
    fn skip_to(&mut self, now: u64) {
        let since = now - self.base;
        self.base += since / self.period_ns * self.period_ns;
        let since = since % self.period_ns;
        self.next = self.opportunities_ns.partition_point(|at| *at <= since);
        self.repeat();
    }

    /// Begins the trace again after its last opportunity.
    fn repeat(&mut self) {
        if self.next == self.opportunities_ns.len() {
            self.next = 0;
            self.base = self.base.saturating_add(self.period_ns);
        }
    }

    fn next_at(&self) -> u64 {
        self.base.saturating_add(self.opportunities_ns[self.next])
    }

    fn use_next(&mut self) {
        self.current = self.next_at();
        self.remaining_bytes = DeliveryTrace::OPPORTUNITY_BYTES;
        self.next += 1;
        self.repeat();
    }

    /// Skips the opportunities up to `now`, as nothing waits, unless a packet under way takes one
    /// that is still to come.
    fn skip(&mut self, now: u64) {
        if self.current > now {
            return;
        }
        self.remaining_bytes = 0;
        if now >= self.base {
            self.skip_to(now);
        }
    }

    fn ready(&self) -> u64 {
        if self.remaining_bytes > 0 {
            self.current
        } else {
            self.next_at()
        }
    }

    fn take(&mut self, size: u64) -> u64 {
        let mut rest = size + DeliveryTrace::PACKET_HEADER_BYTES;
        while rest > 0 {
            if self.remaining_bytes == 0 {
                self.use_next();
            }
            let part = rest.min(self.remaining_bytes);
            rest -= part;
            self.remaining_bytes -= part;
        }
        self.current
    }
}

/// Bottleneck of a link, with its state.
#[derive(Debug, Clone)]
pub(crate) enum Bottleneck {
    Unlimited,
    Serial(Serial),
    Bucket(Bucket),
    Trace(Trace),
}

impl Bottleneck {
    /// Creates a bottleneck that sends one packet at a time.
    pub(crate) fn rate(rate_bps: u64) -> Self {
        Self::Serial(Serial::new(rate_bps))
    }

    /// Creates a token bucket.
    pub(crate) fn bucket(rate_bps: u64, depth_bytes: u64) -> Self {
        Self::Bucket(Bucket {
            account: Serial::new(rate_bps),
            depth_bytes,
            last: 0,
        })
    }

    /// Creates a trace with these opportunities, which begins at 0.
    pub(crate) fn trace(opportunities_ns: Arc<[u64]>) -> Self {
        Self::Trace(Trace {
            period_ns: opportunities_ns.last().copied().unwrap_or(1).max(1),
            opportunities_ns,
            base: 0,
            next: 0,
            current: 0,
            remaining_bytes: 0,
        })
    }

    /// Replaces the bottleneck by an unused one at `now`. The packet under transmission is sent
    /// as it would have been; a bucket keeps the tokens that it has, as far as the new one holds
    /// them.
    pub(crate) fn change(&mut self, other: &Self, now: u64) {
        let mut missing = 0;
        let free = match self {
            Self::Unlimited => now,
            Self::Serial(serial) => serial.busy_until,
            Self::Bucket(bucket) => {
                let until_full = bucket.account.busy_until.saturating_sub(now);
                missing =
                    u128::from(until_full) * u128::from(bucket.account.rate_bps) / PARTS_PER_BYTE;
                bucket.last
            }
            Self::Trace(trace) => trace.current,
        };
        if let (Self::Trace(trace), Self::Trace(other)) = (&*self, other)
            && trace.opportunities_ns == other.opportunities_ns
        {
            return;
        }
        let free = free.max(now);
        *self = other.clone();
        match self {
            Self::Unlimited => {}
            Self::Serial(serial) => serial.busy_until = free,
            Self::Bucket(bucket) => {
                bucket.last = free;
                let missing = missing.min(u128::from(bucket.depth_bytes)) as u64;
                bucket.account.take(free, missing);
            }
            Self::Trace(trace) => (trace.base, trace.current) = (free, free),
        }
    }

    /// Begins a trace anew at `now`; does nothing for other bottlenecks.
    pub(crate) fn begin(&mut self, now: u64) {
        if let Self::Trace(trace) = self {
            trace.begin(now);
        }
    }

    /// Returns the earliest time at which a packet of `size` bytes can begin to be sent, in
    /// nanoseconds.
    #[inline]
    pub(crate) fn ready(&self, size: u64) -> u64 {
        match self {
            Self::Unlimited => 0,
            Self::Serial(serial) => serial.busy_until,
            Self::Bucket(bucket) => bucket.ready(size),
            Self::Trace(trace) => trace.ready(),
        }
    }

    /// Notes that nothing waits at `now`: opportunities of a trace pass unused.
    #[inline]
    pub(crate) fn idle(&mut self, now: u64) {
        if let Self::Trace(trace) = self {
            trace.skip(now);
        }
    }

    /// Sends a packet from `start` on, at which it is [`Bottleneck::ready`]; returns the time at
    /// which it has been sent whole, in nanoseconds.
    #[inline]
    pub(crate) fn take(&mut self, start: u64, size: u64) -> u64 {
        match self {
            Self::Unlimited => start,
            Self::Serial(serial) => serial.take(start, size),
            Self::Bucket(bucket) => bucket.take(start, size),
            Self::Trace(trace) => trace.take(size),
        }
    }

    #[inline]
    pub(crate) fn is_unlimited(&self) -> bool {
        matches!(self, Self::Unlimited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// By hand: at 12 Mbit/s a byte takes 2/3 µs. 9000 bytes at 0 fill again by 6 ms, so that 6000 are missing at 2 ms.
    /// At 24 Mbit/s those come within 2 ms: a packet of 9000 bytes finds the other 9000 tokens, one of 10 500 waits for
    /// 1500 more.
    #[test]
    fn a_bucket_with_another_rate_keeps_the_tokens() {
        let mut bucket = Bottleneck::bucket(12_000_000, 15_000);
        assert_eq!(bucket.take(0, 9000), 0);
        bucket.change(&Bottleneck::bucket(24_000_000, 15_000), 2 * MS);
        assert_eq!(bucket.ready(9000), 2 * MS);
        assert_eq!(bucket.ready(10_500), 5 * MS / 2);
        assert_eq!(bucket.ready(15_000), 4 * MS);
    }

    /// By hand: of 4500 tokens none is there at 2 ms; 1500 come within half a millisecond.
    #[test]
    fn a_bucket_that_shrinks_misses_no_more_than_it_holds() {
        let mut bucket = Bottleneck::bucket(12_000_000, 15_000);
        bucket.take(0, 9000);
        bucket.change(&Bottleneck::bucket(24_000_000, 4500), 2 * MS);
        assert_eq!(bucket.ready(1500), 5 * MS / 2);
        assert_eq!(bucket.ready(4500), 7 * MS / 2);
    }

    /// 1500 bytes at 12 Mbit/s are under transmission until 1 ms, whatever replaces the rate meanwhile.
    #[test]
    fn a_packet_under_transmission_is_sent_at_the_rate_that_it_began_with() {
        for other in [
            Bottleneck::rate(1_000_000),
            Bottleneck::bucket(1_000_000, 1500),
        ] {
            let mut bottleneck = Bottleneck::rate(12_000_000);
            assert_eq!(bottleneck.take(0, 1500), MS);
            bottleneck.change(&other, MS / 2);
            assert_eq!(bottleneck.ready(1500), MS);
        }
    }

    /// Opportunities at 1, 5 and 10 ms carry 1504 bytes, of which four are for the header of each packet. Packets of 748
    /// and of 1500 bytes take the first one and half of the second one, up to 5 ms.
    fn half_of_the_second_opportunity() -> Bottleneck {
        let mut trace = Bottleneck::trace([1, 5, 10].map(|ms| ms * MS).into());
        assert_eq!(trace.take(MS, 748), MS);
        assert_eq!(trace.take(MS, 1500), 5 * MS);
        trace
    }

    #[test]
    fn an_opportunity_that_a_packet_takes_is_not_skipped() {
        for now in [2, 4] {
            let mut trace = half_of_the_second_opportunity();
            trace.idle(now * MS);
            assert_eq!(trace.ready(748), 5 * MS);
            assert_eq!(trace.take(5 * MS, 748), 5 * MS);
            assert_eq!(trace.ready(748), 10 * MS);
        }
    }

    #[test]
    fn the_rest_of_an_opportunity_is_lost_when_nothing_waits() {
        let mut trace = half_of_the_second_opportunity();
        trace.idle(5 * MS);
        assert_eq!(trace.ready(748), 10 * MS);
    }

    /// Begun at 2 ms, the trace has opportunities at 3, 7 and 12 ms; the packet under way takes the old one at 5 ms, after
    /// which the next is that at 7 ms.
    #[test]
    fn a_packet_under_way_keeps_its_opportunity_when_a_trace_begins() {
        let mut trace = half_of_the_second_opportunity();
        trace.begin(2 * MS);
        assert_eq!(trace.take(5 * MS, 748), 5 * MS);
        assert_eq!(trace.ready(748), 7 * MS);
    }

    #[test]
    fn a_trace_that_begins_at_an_old_opportunity_does_not_use_its_rest() {
        let mut trace = half_of_the_second_opportunity();
        trace.begin(5 * MS);
        assert_eq!(trace.ready(748), 6 * MS);
    }

    /// Opportunities at 2, 5 and 10 ms. Replaced at 3 ms by themselves they go on at 5 ms, by others they begin anew.
    #[test]
    fn a_step_with_the_same_trace_goes_on_with_it() {
        let trace = |at: &[u64]| Bottleneck::trace(at.iter().map(|ms| ms * MS).collect());
        let begun = || {
            let mut bottleneck = trace(&[2, 5, 10]);
            assert_eq!(bottleneck.take(0, 1500), 2 * MS);
            bottleneck.idle(3 * MS);
            bottleneck
        };
        let mut same = begun();
        same.change(&trace(&[2, 5, 10]), 3 * MS);
        assert_eq!(same.ready(1500), 5 * MS);
        let mut other = begun();
        other.change(&trace(&[4, 10]), 3 * MS);
        assert_eq!(other.ready(1500), 7 * MS);
    }
}
