//! Agreement of both ends on the end of a flow.

use std::time::Duration;

use super::Shared;
use crate::{
    clock::MonotonicTime,
    delivered::Delivered,
    error::{Result, TransportError},
    message::{Arrival, MessageFlow},
    opening::Purpose,
    trial::{
        Trial,
        message_control::{self, Control},
    },
};

/// End of a flow that both ends agree on.
pub(crate) struct Agreed {
    /// Whether the acknowledgement came in the flow.
    pub in_band: bool,
    /// Moment at which it came.
    pub at: MonotonicTime,
    /// Its content; that of all flows if it came over control.
    pub delivered: Delivered,
}

impl Agreed {
    /// Makes the end of an acknowledgement that came in the flow.
    pub(crate) const fn in_band(at: MonotonicTime, delivered: Delivered) -> Self {
        Self {
            in_band: true,
            at,
            delivered,
        }
    }

    /// Makes the end of an acknowledgement that came over control.
    const fn over_control(at: MonotonicTime, delivered: Delivered) -> Self {
        Self {
            in_band: false,
            at,
            delivered,
        }
    }
}

/// Takes what arrives until `until` has come, or until an acknowledgement is among it.
async fn await_acknowledgement<F: MessageFlow>(
    shared: &Shared<'_>,
    flow: &mut F,
    until: MonotonicTime,
) -> Result<Option<Delivered>> {
    let mut answer = None;
    while answer.is_none() {
        let mut take = |arrival: Arrival<'_>| {
            let control = Control::decode(shared.trial, arrival.data);
            if let Some((_, Control::Acknowledgement(delivered))) = control {
                answer.get_or_insert(delivered);
            }
        };
        if flow.receive_batch(until, &mut take).await? == 0 {
            break;
        }
    }
    Ok(answer)
}

/// Asks for the acknowledgement until it comes: in the flow, or over control, if the path back loses it or the receiver,
/// which has given it, ends the flow before it is here.
///
/// Before `over` it does not ask, and takes no acknowledgement as one: else N messages would have
/// been sent in the time of N − 1, faster than the configured rate.
pub(crate) async fn agree<F: MessageFlow>(
    shared: &Shared<'_>,
    flow: &mut F,
    sent: Delivered,
    over: MonotonicTime,
) -> Result<Agreed> {
    let agreed = agree_in_flow(shared, flow, sent, over).await;
    match shared.theirs() {
        Some((at, delivered)) if agreed.is_err() && !shared.stop.is_stopped() => {
            Ok(Agreed::over_control(at, delivered))
        }
        _ => agreed,
    }
}

/// Asks for the acknowledgement until it comes, or for [`patience`] after it has come over control.
async fn agree_in_flow<F: MessageFlow>(
    shared: &Shared<'_>,
    flow: &mut F,
    sent: Delivered,
    over: MonotonicTime,
) -> Result<Agreed> {
    let (trial, stop) = (shared.trial, &shared.stop);
    let round_trip = trial.order.path.round_trip_delay;
    let again_after = (round_trip / 4).clamp(Duration::from_millis(1), Duration::from_millis(250));
    // What a reliable flow still sends again is not lost. The receiver acknowledges without a request when
    // it has everything, which may be before the flow itself knows.
    let mut early = None;
    while early.is_none() && shared.theirs().is_none() && !flow.is_drained() && !stop.is_stopped() {
        let until = MonotonicTime::now() + again_after;
        early = await_acknowledgement(shared, flow, until).await?;
    }
    shared.has_sent();
    if let Some(delivered) = early
        && over.has_passed()
    {
        return Ok(Agreed::in_band(MonotonicTime::now(), delivered));
    }
    if !over.has_passed() {
        // A receiver that has everything acknowledges it without a request, and may have closed before one.
        let early = await_acknowledgement(shared, flow, over).await?;
        while !stop.is_stopped() && !over.has_passed() {
            flow.receive_batch(over, &mut |_| {}).await?;
        }
        if let Some(delivered) = early {
            return Ok(Agreed::in_band(MonotonicTime::now(), delivered));
        }
    }
    loop {
        if stop.is_stopped() {
            return Err(TransportError::Cancelled);
        }
        message_control::send(trial, flow, Purpose::Transfer, Control::End(sent)).await?;
        let again = MonotonicTime::now() + again_after;
        if let Some(delivered) = await_acknowledgement(shared, flow, again).await? {
            return Ok(Agreed::in_band(MonotonicTime::now(), delivered));
        }
        if let Some((at, delivered)) = shared.theirs()
            && (at + patience(trial)).has_passed()
        {
            return Ok(Agreed::over_control(at, delivered));
        }
    }
}

/// Returns for how long a sender that knows the acknowledgement by control waits for it in the flow.
pub(super) fn patience(trial: &Trial) -> Duration {
    trial.order.path.typical_round_trip() * 4 + Duration::from_millis(500)
}
