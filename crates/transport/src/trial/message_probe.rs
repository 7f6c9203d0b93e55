//! Probe messages over a flow that may lose them.

use std::time::Duration;

use super::{
    Trial,
    message_control::{self, Control},
};
use crate::{
    clock::MonotonicTime,
    driver::TransportError,
    message::MessageFlow,
    opening::Purpose,
    probe::{Delays, Probed, Schedule, write_probe},
    stop::Stop,
};

/// Interval at which the probe under load looks whether the transfer has ended.
const LOOK: Duration = Duration::from_millis(20);

/// Sends the messages of the idle probe one after another; one without an answer is lost once
/// the path cannot hold it any longer.
pub(crate) async fn idle<F: MessageFlow>(
    trial: &Trial,
    flow: &mut F,
    until: MonotonicTime,
) -> Probed {
    let mut delays = Delays::default();
    let broken = idle_messages(trial, flow, until, &mut delays).await.err();
    Probed { delays, broken }
}

async fn idle_messages<F: MessageFlow>(
    trial: &Trial,
    flow: &mut F,
    until: MonotonicTime,
    delays: &mut Delays,
) -> Result<(), TransportError> {
    let mut message = vec![0; trial.probe.message];
    for _ in 0..trial.probe.idle_messages {
        if until.has_passed() || trial.stop.is_stopped() {
            break;
        }
        let now = MonotonicTime::now();
        write_probe(&mut message, delays.depart(now), now);
        flow.send_batch(&message, message.len()).await?;
        let lost_at = until.min(MonotonicTime::now() + trial.probe.longest_round_trip);
        let before = delays.answers();
        while delays.answers() == before && receive(flow, lost_at, delays).await? {}
    }
    say_done(trial, flow, Purpose::IdleProbe).await;
    Ok(())
}

/// Tells the other end that the probe is done, which spares it a wait. The other end may be gone
/// already, which is no error.
async fn say_done<F: MessageFlow>(trial: &Trial, flow: &mut F, purpose: Purpose) {
    let _ = message_control::send(trial, flow, purpose, Control::Done).await;
}

/// Takes answers; returns false when the moment has come.
async fn receive<F: MessageFlow>(
    flow: &mut F,
    until: MonotonicTime,
    delays: &mut Delays,
) -> Result<bool, TransportError> {
    let received = flow
        .receive_batch(until, &mut |arrival| {
            delays.answer(arrival.data, MonotonicTime::now());
        })
        .await?;
    Ok(received > 0)
}

/// Sends messages by schedule, which began at `since`, until `over` is raised and those due by then have left, then waits for
/// those under way.
pub(crate) async fn under_load<F: MessageFlow>(
    trial: &Trial,
    flow: &mut F,
    since: MonotonicTime,
    over: &Stop,
) -> Probed {
    let mut delays = Delays::default();
    let mut schedule = Schedule::new(&trial.probe, since);
    let broken = scheduled_messages(trial, flow, (over, &mut schedule), &mut delays)
        .await
        .err();
    schedule.note_held_back(&mut delays);
    Probed { delays, broken }
}

async fn scheduled_messages<F: MessageFlow>(
    trial: &Trial,
    flow: &mut F,
    (over, schedule): (&Stop, &mut Schedule),
    delays: &mut Delays,
) -> Result<(), TransportError> {
    let plan = &trial.probe;
    let mut message = vec![0; plan.message];
    let mut has_room = true;
    while has_room && let Some(next) = schedule.next(over) {
        let until = next.min(MonotonicTime::now() + LOOK);
        if !receive(flow, until, delays).await? && next.has_passed() {
            write_probe(&mut message, delays.depart(next), next);
            schedule.advance();
            let sending = flow.send_batch(&message, message.len());
            // A path that delivers nothing may leave no room for it in the stack.
            match over.unless_raised(sending).await {
                Err(TransportError::Cancelled) if over.is_stopped() => has_room = false,
                sent => sent?,
            }
        }
    }
    let until = schedule.answers_until();
    while delays.unanswered() > 0 && receive(flow, until, delays).await? {}
    if has_room {
        say_done(trial, flow, Purpose::LoadProbe).await;
    }
    Ok(())
}

/// Sends every message back, until the other end says that it is done, or for `linger` after
/// `over` is raised.
pub(crate) async fn echo<F: MessageFlow>(
    trial: &Trial,
    flow: &mut F,
    purpose: Purpose,
    over: &Stop,
    linger: Duration,
) {
    let mut until = MonotonicTime::NEVER;
    let mut back: Vec<Vec<u8>> = Vec::new();
    let mut done = false;
    while !done && !until.has_passed() && !trial.stop.is_stopped() {
        if until == MonotonicTime::NEVER && over.is_stopped() {
            until = MonotonicTime::now() + linger;
        }
        let received = flow
            .receive_batch(
                MonotonicTime::now() + LOOK,
                &mut |arrival| match Control::decode(trial, arrival.data) {
                    Some((of, Control::Open)) if of == purpose => {
                        back.push(Control::Opened.encode(trial, purpose).to_vec());
                    }
                    Some((of, Control::Done)) if of == purpose => done = true,
                    Some(_) => {}
                    None => back.push(arrival.data.to_vec()),
                },
            )
            .await;
        // The sender's end of the probe says what broke; here it only ends.
        if received.is_err() {
            return;
        }
        for message in back.drain(..) {
            if flow.send_batch(&message, message.len()).await.is_err() {
                return;
            }
        }
    }
}
