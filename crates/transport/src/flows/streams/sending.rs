//! Sending end of a flow.

use std::{sync::atomic::Ordering, time::Duration};

use bytes::{Bytes, BytesMut};
use regatta_model::Verify;

use super::{Shared, receiving::WELCOME};
use crate::{
    clock::MonotonicTime,
    content::{
        acknowledgement::Acknowledgement,
        part::Part,
        plan::{HEADER_BYTES, Plan},
        stream_check::encode_header,
    },
    error::{Result, TransportError},
    executor::Executor,
    options::RATE,
    stream::{ByteStream, Received, send_now},
};

/// Maximum number of bytes between two looks at the clock, where a transfer ends by it.
const CLOCK_CHECK_BYTES: u64 = 64 << 10;

/// Bytes between two looks at the clock at the lowest of these rates, of the link and of the option `rate`: those of a
/// millisecond at most.
fn clock_check_bytes(rates_bps: [Option<u64>; 2]) -> u64 {
    let lowest = rates_bps.into_iter().flatten().min();
    lowest.map_or(CLOCK_CHECK_BYTES, |rate| {
        (rate / 8 / 1000).min(CLOCK_CHECK_BYTES)
    })
}

/// Time by which a sender is ahead of the option `rate` at most. The kernel paces what it was handed, but takes up to 64 KiB
/// at once, which are a minute at 10 kbit/s.
const AHEAD: Duration = Duration::from_millis(20);

/// Moment at which this many bytes may have been handed over at a rate; `begun` is that of the first.
fn due_at_rate(begun: MonotonicTime, bytes: u64, rate_bps: u64) -> MonotonicTime {
    let nanoseconds = u128::from(bytes) * 8_000_000_000 / u128::from(rate_bps.max(1));
    let taken = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
    begun + taken.saturating_sub(AHEAD)
}

/// Sends a flow's part, and waits for its acknowledgement unless it is abandoned; returns the moment
/// of its end. `opening` leaves with the first message.
pub(super) async fn send<S: ByteStream>(
    shared: &Shared<'_>,
    executor: &impl Executor,
    flow: &Part,
    (stream, mut opening): (&mut S, &[u8]),
) -> Result<MonotonicTime> {
    let schedule = shared.flows.schedule().zip(shared.own.scheduled.get());
    if let Some((_, begun)) = schedule {
        send_now(stream, &begun.start.0.to_le_bytes()).await?;
    }
    let (plan, live) = (&flow.plan, &shared.trial.context.live);
    let options = &shared.flows.options;
    let duration = shared.flows.duration;
    let checks_clock = duration.is_some() || !options.warm_up.is_zero();
    let order = &shared.trial.order;
    let rate_bps = RATE.rate(&order.transport.options).map(|rate| rate.0);
    let clock_check_bytes = clock_check_bytes([order.path.link_rate_bps, rate_bps]);
    let until = duration.map_or(MonotonicTime::NEVER, |time| shared.started + time);
    let digests = options.verify == Verify::Digest;
    let mut digest = crc32fast::Hasher::new();
    let mut memory = BytesMut::new();
    // All messages but the last have the same payload; cutting it once saves counting references.
    let full_payload = match options.verify {
        Verify::None => plan.content.clone(),
        _ => plan.payload(plan.message),
    };
    let mut sent = 0;
    let mut next_check = 0;
    let begun = MonotonicTime::now();
    for sequence in 0..plan.count {
        if let Some(rate_bps) = rate_bps {
            let due = due_at_rate(begun, sent, rate_bps).min(until);
            if !due.has_passed() && executor.sleep_unless_stopped(due, &shared.stop).await {
                return Err(TransportError::Cancelled);
            }
        }
        if let Some((schedule, begun)) = schedule {
            let due = schedule.sends_at(*begun, flow.index, sequence);
            if !due.has_passed() && executor.sleep_unless_stopped(due, &shared.stop).await {
                return Err(TransportError::Cancelled);
            }
        }
        if checks_clock && sent >= next_check {
            let now = MonotonicTime::now();
            shared.warm_up.is_over(now);
            if now >= until {
                break;
            }
            next_check = sent + clock_check_bytes;
        }
        let length = plan.length(sequence);
        let header = match options.verify {
            Verify::None => 0,
            _ => Plan::header(length),
        };
        let head = match header {
            0 => [0; HEADER_BYTES],
            _ => encode_header(plan, sequence, length),
        };
        let part;
        let payload = match &shared.flows.noise {
            None if length == plan.message => &full_payload,
            None => {
                part = plan.content.slice(header..length);
                &part
            }
            // A transfer with a duration begins the file again.
            Some(noise) => {
                let file_bytes = shared.flows.file_bytes;
                let position = (flow.offset + sent) % file_bytes.max(1);
                let position = position.min(file_bytes.saturating_sub(length as u64));
                part = noise.read(&mut memory, position, length)?.slice(header..);
                &part
            }
        };
        if digests {
            digest.update(&head[..header]);
            digest.update(payload);
        }
        match std::mem::take(&mut opening) {
            [] => stream.send_message(&head[..header], payload).await?,
            opening => {
                let head = [opening, &head[..header]].concat();
                stream.send_message(&head, payload).await?;
            }
        }
        if schedule.is_some() {
            stream.flush().await?;
            let now = MonotonicTime::now();
            shared.own.last_left.fetch_max(now.0, Ordering::Relaxed);
        }
        sent += length as u64;
        live.messages_sent.fetch_add(1, Ordering::Relaxed);
        live.bytes_sent.fetch_add(length as u64, Ordering::Relaxed);
    }
    if !opening.is_empty() {
        stream.send_message(opening, &Bytes::new()).await?;
    }
    stream.flush().await?;
    if duration.is_some() {
        stream.finish().await?;
    }
    let digest = match digests {
        true => u64::from(digest.finalize()),
        false => 0,
    };
    shared.own.digest_sent.fetch_add(digest, Ordering::Relaxed);
    if shared.abandons() {
        return Ok(MonotonicTime::now());
    }

    let got = Acknowledgement::of(stream, Vec::new()).await?;
    let arrived = MonotonicTime::now();
    got.check_bytes(sent)?;
    got.check_digest(digest)?;
    let mut tally = shared.tally();
    tally.acknowledged = tally.acknowledged + got.delivered;
    Ok(arrived)
}

/// Waits until the receiving end knows the flow.
pub(super) async fn await_welcome<S: ByteStream>(stream: &mut S) -> Result<()> {
    let (mut scratch, mut discard) = ([0; WELCOME.len()], |_: &[u8]| {});
    let receiving = stream.receive(&mut scratch, MonotonicTime::NEVER, &mut discard);
    match receiving.await? {
        Received::Bytes(_) => Ok(()),
        Received::Closed | Received::TimedOut => Err(TransportError::Closed { flow: "transfer" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_is_read_each_millisecond_on_a_slow_link() {
        assert_eq!(clock_check_bytes([None; 2]), CLOCK_CHECK_BYTES);
        let fast = Some(10_000_000_000);
        assert_eq!(clock_check_bytes([fast, None]), CLOCK_CHECK_BYTES);
        assert_eq!(clock_check_bytes([Some(20_000_000), None]), 2500);
        assert_eq!(clock_check_bytes([Some(1000), None]), 0);
    }

    #[test]
    fn a_sender_is_ahead_of_its_rate_by_20_ms_at_most() {
        let begun = MonotonicTime(1_000_000_000);
        assert_eq!(due_at_rate(begun, 0, 10_000), begun);
        // 1250 bytes take a second at 10 kbit/s.
        let second = begun + Duration::from_millis(980);
        assert_eq!(due_at_rate(begun, 1250, 10_000), second);
        assert_eq!(due_at_rate(begun, 25_000, 10_000_000), begun);
        assert!(due_at_rate(begun, u64::MAX, 0) > second);
    }

    #[test]
    fn clock_is_read_each_millisecond_at_a_low_rate() {
        assert_eq!(clock_check_bytes([None, Some(20_000_000)]), 2500);
        let both = [Some(1_000_000_000), Some(10_000)];
        assert_eq!(clock_check_bytes(both), 1);
    }
}
