//! Probe messages over any flow.

use std::sync::atomic::Ordering;

use super::{Trial, carrier::ProbeFlow, retransmissions::Retransmissions};
use crate::{
    clock::MonotonicTime,
    error::{Result, TransportError},
    executor::Executor,
    opening::Purpose,
    probe::{Delays, MAX_IN_FLIGHT, Probed, Schedule, write_probe},
    stop::Stop,
};

/// Takes answers; returns false when the moment has come.
async fn receive<F: ProbeFlow>(
    trial: &Trial,
    flow: &mut F,
    until: MonotonicTime,
    delays: &mut Delays,
) -> Result<bool> {
    let live = &trial.context.live;
    let mut take = |answer: &[u8]| {
        if let Some(delay) = delays.answer(answer, MonotonicTime::now()) {
            let delay = u64::try_from(delay).unwrap_or(0);
            live.probe_delay_ns.fetch_add(delay, Ordering::Relaxed);
            live.probe_answers.fetch_add(1, Ordering::Relaxed);
        }
    };
    flow.receive(trial.probe.message, until, &mut take).await
}

/// Sends the messages of the idle probe one after another, each when the one before is answered or
/// lost, or after the plan's interval.
pub(crate) async fn idle<F: ProbeFlow>(
    trial: &Trial,
    flow: &mut F,
    until: MonotonicTime,
) -> Probed {
    let mut delays = Delays::default();
    let interval = trial.probe.idle_interval;
    let probing = async {
        let mut message = vec![0; trial.probe.message];
        let mut lost_at = until;
        let mut timeout = trial.retransmission_timeout();
        for _ in 0..trial.probe.idle_messages {
            if until.has_passed() || trial.stop.is_stopped() {
                break;
            }
            let now = MonotonicTime::now();
            write_probe(&mut message, delays.depart(now), now);
            flow.send(&message).await?;
            if flow.loses_messages() {
                lost_at = until.min(MonotonicTime::now() + timeout.get());
            }
            let before = delays.answers();
            let Some(interval) = interval else {
                while delays.answers() == before
                    && receive(trial, flow, lost_at, &mut delays).await?
                {}
                if delays.answers() == before {
                    timeout.lost(now, lost_at);
                } else {
                    timeout = trial.retransmission_timeout();
                }
                continue;
            };
            let next = lost_at.min(now + interval);
            while delays.unanswered() > 0 && receive(trial, flow, next, &mut delays).await? {}
            while (delays.unanswered() >= MAX_IN_FLIGHT
                || delays.unanswered() > 0 && !flow.sends_at_once())
                && receive(trial, flow, lost_at, &mut delays).await?
            {}
        }
        while interval.is_some()
            && delays.unanswered() > 0
            && receive(trial, flow, lost_at, &mut delays).await?
        {}
        if !trial.probe.keeps_flow() {
            flow.send_done(trial, Purpose::IdleProbe).await;
        }
        Ok(())
    };
    let error = probing.await.err();
    Probed {
        delays,
        retransmission: None,
        retransmitted: None,
        error,
    }
}

/// Sends messages by schedule, which began at `since`, until `over` is raised and those due by then
/// have left, then waits for those under way.
pub(crate) async fn under_load<F: ProbeFlow>(
    trial: &Trial,
    executor: &impl Executor,
    flow: &mut F,
    (since, over): (MonotonicTime, &Stop),
    (retransmissions, measured_since): (&Retransmissions, MonotonicTime),
) -> Probed {
    let mut delays = Delays::default();
    let mut schedule = Schedule::new(&trial.probe, since);
    let departing = |scheduled| {
        if scheduled < measured_since {
            retransmissions.restart();
        }
    };
    let scheduled = (over, &mut schedule);
    let probing = scheduled_messages((trial, executor), flow, scheduled, &mut delays, &departing);
    let error = probing.await.err();
    let retransmitted = Some(retransmissions.count());
    schedule.note_held_back(&mut delays);
    Probed {
        delays,
        retransmission: Some(retransmissions.fact()),
        retransmitted,
        error,
    }
}

async fn scheduled_messages<F: ProbeFlow>(
    (trial, executor): (&Trial, &impl Executor),
    flow: &mut F,
    (over, schedule): (&Stop, &mut Schedule),
    delays: &mut Delays,
    departing: &(impl Fn(MonotonicTime) + Sync),
) -> Result<()> {
    let mut message = vec![0; trial.probe.message];
    let mut has_room = true;
    let mut held_back = 0;
    // Asked also when there is no room any more: it notes the end, which bounds the wait for answers.
    while let Some(next) = schedule.next(over)
        && has_room
    {
        let receiving = receive(trial, flow, next, delays);
        let received = executor.wait_unless_stopped(over, receiving).await;
        let received = match received.unwrap_or(Ok(false)) {
            // The other end may close before this one knows that the transfer is over.
            Err(error @ TransportError::Closed { .. }) => {
                let until = MonotonicTime::now() + trial.probe.last_answers_within;
                if !executor.sleep_unless_stopped(until, over).await {
                    return Err(error);
                }
                has_room = false;
                continue;
            }
            received => received?,
        };
        if !received && next.has_passed() {
            departing(next);
            write_probe(&mut message, delays.depart(next), next);
            schedule.advance();
            // A path that delivers nothing may leave no room for it in the stack.
            match over.unless_raised(flow.send(&message)).await {
                Err(TransportError::Cancelled) if over.is_stopped() => {
                    has_room = false;
                    held_back = u64::from(flow.holds_back());
                }
                sent => sent?,
            }
        }
    }
    let until = schedule.answers_until();
    while delays.unanswered() > held_back {
        match receive(trial, flow, until, delays).await {
            Ok(true) => {}
            Ok(false) | Err(TransportError::Closed { .. }) => break,
            Err(error) => return Err(error),
        }
    }
    if has_room {
        flow.send_done(trial, Purpose::LoadProbe).await;
    }
    Ok(())
}
