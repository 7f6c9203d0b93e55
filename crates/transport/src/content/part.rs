//! Parts of a bulk transfer, one for each flow.

use regatta_control::Role;
use regatta_model::{BulkOptions, Direction, reason};

use super::plan::Plan;
use crate::error::{Result, TransportError};

/// One direction's part on one flow.
#[derive(Debug)]
pub(crate) struct Part {
    /// Index of the flow, sent with its opening, so that both ends mean the same part.
    pub index: u16,
    pub sent_by: Role,
    pub plan: Plan,
    /// Offset of the part in the file, in bytes.
    pub offset: u64,
}

impl Part {
    /// Makes the part that a flow from the client is alone.
    pub(crate) const fn from_client(index: u16, plan: Plan) -> Self {
        Self {
            index,
            sent_by: Role::Sender,
            plan,
            offset: 0,
        }
    }

    /// Divides `size` bytes each way among the flows of a bulk transfer; `plan` makes the messages of a
    /// part from its size in bytes and its flow's index.
    ///
    /// # Errors
    /// [`TransportError::Order`] for more than 65536 flows.
    pub(crate) fn of_bulk(
        options: &BulkOptions,
        size: u64,
        plan: impl Fn(u64, u32) -> Plan,
    ) -> Result<Vec<Self>> {
        let senders: &[Role] = match options.direction {
            Direction::Forward | Direction::Reverse => &[Role::Sender],
            Direction::Both => &[Role::Sender, Role::Receiver],
        };
        let per_direction = u64::from(options.flows.max(1));
        let mut parts = Vec::new();
        for sent_by in senders {
            let mut offset = 0;
            for number in 0..per_direction {
                // The first ones have one byte more where it does not divide.
                let part = size / per_direction + u64::from(number < size % per_direction);
                let index = index_of(parts.len())?;
                parts.push(Self {
                    index,
                    sent_by: *sent_by,
                    plan: plan(part, index.into()),
                    offset,
                });
                offset += part;
            }
        }
        Ok(parts)
    }
}

/// Returns a flow's index.
///
/// # Errors
/// [`TransportError::Order`] for more than 65536 flows.
pub(crate) fn index_of(number: usize) -> Result<u16> {
    u16::try_from(number).map_err(|_| TransportError::order(reason::too_many_flows()))
}
