//! Control messages of a flow, sent in the flow: opening and end.

use regatta_model::reason;

use super::Trial;
use crate::{
    clock::MonotonicTime,
    content::acknowledgement::{TOTALS_BYTES, decode_totals, encode_totals},
    delivered::Delivered,
    error::{Result, TransportError},
    message::{Arrival, MessageFlow},
    opening::{self, OPENING_BYTES, Purpose},
};

/// Length of a control message, in bytes.
pub(crate) const CONTROL_BYTES: usize = HEAD_BYTES + TOTALS_BYTES;

/// Beginning of a control message: a sequence number that no data has.
const MARK: [u8; 4] = [0xff; 4];

/// Place of a control message's code, which the mark and the opening precede.
const CODE_AT: usize = MARK.len() + OPENING_BYTES;

/// Length of what precedes the totals in a control message: mark, opening and code.
const HEAD_BYTES: usize = CODE_AT + 1;

/// A message about a flow. Any of them may be lost, so each is repeated until it is answered, or
/// answers one that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Control {
    /// First message of a flow, with its index among those of its purpose; answered by `Opened`, or by
    /// the flow's first data.
    Open(u16),
    /// The flow is admitted.
    Opened,
    /// Everything is sent, with the totals; answered by `Acknowledgement`.
    End(Delivered),
    /// Everything is counted, with the totals.
    Acknowledgement(Delivered),
    /// The acknowledgement has arrived.
    Done,
}

impl Control {
    const fn code(self) -> u8 {
        match self {
            Self::Open(_) => 1,
            Self::Opened => 2,
            Self::End(_) => 3,
            Self::Acknowledgement(_) => 4,
            Self::Done => 5,
        }
    }

    /// Encodes a message of the flow with this purpose.
    pub(crate) fn encode(self, trial: &Trial, purpose: Purpose) -> [u8; CONTROL_BYTES] {
        let mut counts = Delivered::default();
        match self {
            Self::Open(index) => counts.messages = index.into(),
            Self::End(totals) | Self::Acknowledgement(totals) => counts = totals,
            Self::Opened | Self::Done => {}
        }
        let opening = opening::encode(trial.token, purpose);
        let head = [&MARK[..], &opening, &[self.code()]].concat();
        encode_totals(&head, counts, &[])
    }

    /// Reads a control message of this trial; `None` for data and for anything else.
    #[inline]
    pub(crate) fn decode(trial: &Trial, message: &[u8]) -> Option<(Purpose, Self)> {
        // Data goes through here as well, and leaves at its first comparison.
        if message.len() != CONTROL_BYTES || !message.starts_with(&MARK) {
            return None;
        }
        Self::decode_marked(trial, message)
    }

    #[cold]
    fn decode_marked(trial: &Trial, message: &[u8]) -> Option<(Purpose, Self)> {
        let opening = message[MARK.len()..CODE_AT].try_into().ok()?;
        let purpose = opening::decode(opening, trial.token)?;
        let counts = decode_totals(message, HEAD_BYTES)?;
        let control = match message[CODE_AT] {
            1 => Self::Open(u16::try_from(counts.messages).ok()?),
            2 => Self::Opened,
            3 => Self::End(counts),
            4 => Self::Acknowledgement(counts),
            5 => Self::Done,
            _ => return None,
        };
        Some((purpose, control))
    }
}

/// Sends one control message.
pub(crate) async fn send<F: MessageFlow>(
    trial: &Trial,
    flow: &mut F,
    purpose: Purpose,
    control: Control,
) -> Result<()> {
    let message = control.encode(trial, purpose);
    flow.send_batch(&message, message.len()).await
}

/// Opens a flow with this purpose and index: repeats the opening until the other end answers, or until `take`, which
/// gets everything else that comes, returns whether it belongs to the flow.
pub(crate) async fn open<F: MessageFlow>(
    trial: &Trial,
    flow: &mut F,
    (purpose, index): (Purpose, u16),
    until: MonotonicTime,
    take: &mut (impl FnMut(&[u8]) -> bool + Send),
) -> Result<()> {
    let begun = MonotonicTime::now();
    let mut again_after = trial.retransmission_timeout();
    let mut opened = false;
    while !opened {
        if until.has_passed() {
            let what = reason::answer_to_opening(purpose.phrase());
            return Err(TransportError::timed_out_since(what, begun));
        }
        if trial.stop.is_stopped() {
            return Err(TransportError::Cancelled);
        }
        send(trial, flow, purpose, Control::Open(index)).await?;
        let left = MonotonicTime::now();
        let again = until.min(left + again_after.get());
        while !opened {
            let mut handle = |arrival: Arrival<'_>| {
                let control = Control::decode(trial, arrival.data);
                opened |= control == Some((purpose, Control::Opened)) || take(arrival.data);
            };
            if flow.receive_batch(again, &mut handle).await? == 0 {
                break;
            }
        }
        again_after.lost(left, again);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use regatta_control::Role;

    #[test]
    fn control_messages_round_trip_and_reject_bit_flips() {
        let order = testing::order_for(Role::Sender, "udp", 1000, 100);
        let trial = Trial::new(&order, testing::trial_context().0).expect("a trial");
        let counts = Delivered {
            bytes: 7,
            messages: 9,
        };
        for control in [
            Control::Open(0),
            Control::Open(3),
            Control::Opened,
            Control::End(counts),
            Control::Acknowledgement(counts),
            Control::Done,
        ] {
            let bytes = control.encode(&trial, Purpose::Transfer);
            assert_eq!(
                Control::decode(&trial, &bytes),
                Some((Purpose::Transfer, control))
            );
            for bit in 0..CONTROL_BYTES * 8 {
                let mut damaged = bytes;
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Control::decode(&trial, &damaged), None);
            }
        }
    }
}
