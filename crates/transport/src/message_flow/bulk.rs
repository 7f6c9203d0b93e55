//! Bulk transfer over messages, of a size or a duration, with an optional warm-up.

use std::time::Duration;

use regatta_control::TrialOrder;
use regatta_model::{BulkOptions, Bytes, Direction, Pattern, WorkloadKind};

use crate::{
    content::{message_check::MOST_MESSAGES, part::Part, plan::Plan},
    driver::TransportError,
};

/// The messages of all flows.
#[derive(Debug)]
pub(crate) struct Bulk {
    /// Messages of each flow, in the order of their indices; of a transfer with a duration as many as
    /// can be numbered.
    pub parts: Vec<Part>,
    /// Size of every message but a flow's last, in bytes.
    pub message: usize,
    /// Size that was asked for, both ways, in bytes.
    pub size: u64,
    /// Time since the first connect call during which messages are sent; if absent, all are sent.
    pub duration: Option<Duration>,
    pub warm_up: Duration,
}

impl Bulk {
    /// Makes the messages of an order.
    ///
    /// # Errors
    /// [`TransportError::Order`] for an order that cannot be carried out,
    /// [`TransportError::Unsupported`] for what only streams can do.
    pub(crate) fn new(order: &TrialOrder) -> Result<Self, TransportError> {
        let mut whole = Plan::new(order)?;
        let WorkloadKind::Bulk {
            size,
            message,
            pattern,
            options,
            ..
        } = order.workload.kind
        else {
            // Making the plan has refused it.
            return Err(for_streams());
        };
        let BulkOptions {
            duration,
            warm_up,
            flows,
            direction,
            ..
        } = options;
        let here = BulkOptions {
            duration,
            warm_up,
            flows,
            direction,
            ..BulkOptions::default()
        };
        if options != here || pattern == Pattern::File {
            return Err(for_streams());
        }
        if duration.is_some() {
            // A message is not cut to a size that does not count.
            let all = Bytes(message.0.saturating_mul(MOST_MESSAGES));
            whole = Plan::of(order, "", all, message, pattern)?;
        }
        let parts = Part::of_bulk(&options, size.0, |part, index| match duration {
            None => whole.part(part, index),
            Some(_) => whole.part(whole.size, index),
        })?;
        if let Some(part) = parts.iter().find(|part| part.plan.count > MOST_MESSAGES) {
            let count = part.plan.count;
            return Err(TransportError::order(format!(
                "{count} messages are more than 2^32 - 1"
            )));
        }
        let ways = 1 + u64::from(direction == Direction::Both);
        Ok(Self {
            parts,
            message: whole.message,
            size: size.0 * ways,
            duration,
            warm_up,
        })
    }

    /// Returns the messages of a flow.
    pub(super) fn part(&self, flow: u16) -> &Part {
        &self.parts[usize::from(flow)]
    }
}

/// Returns the error for options that only streams have.
fn for_streams() -> TransportError {
    TransportError::unsupported(
        "over messages a bulk transfer has no `finish`, no `verify` and no pattern `file`: \
                 these are for streams",
        "leave these keys out, or choose a transport of streams",
    )
}
