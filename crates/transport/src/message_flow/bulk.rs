//! Bulk transfer over messages, of a size or a duration, with an optional warm-up.

use std::time::Duration;

use regatta_control::TrialOrder;
use regatta_model::{BulkOptions, Bytes, Direction, Pattern, WorkloadKind, reason};

use super::{Content, Work};
use crate::{
    content::{message_check::MAX_MESSAGES, part::Part, plan::Plan},
    error::{Result, TransportError},
};

/// The messages of all flows.
#[derive(Debug)]
pub(crate) struct Bulk {
    /// Messages of each flow, in the order of their indices; of a transfer with a duration as many as
    /// can be numbered.
    parts: Vec<Part>,
    /// Time since the first connect call during which messages are sent; if absent, all are sent.
    pub duration: Option<Duration>,
}

impl Bulk {
    /// Makes the workload of an order.
    ///
    /// # Errors
    /// [`TransportError::Order`] for an order that cannot be carried out,
    /// [`TransportError::Unsupported`] for what only streams can do.
    pub(super) fn work(order: &TrialOrder) -> Result<Work> {
        let mut all_messages = Plan::new(order)?;
        let WorkloadKind::Bulk {
            amount,
            message,
            pattern,
            options,
        } = order.workload.kind
        else {
            // Making the plan has refused it.
            return Err(for_streams());
        };
        let (size, duration) = (amount.bytes(), amount.time());
        let BulkOptions { finish, verify, .. } = BulkOptions::default();
        let of_messages = BulkOptions {
            finish,
            verify,
            ..options
        };
        if options != of_messages || pattern == Pattern::File {
            return Err(for_streams());
        }
        if duration.is_some() {
            // A message is not cut to a size that does not count.
            let all = Bytes(message.0.saturating_mul(MAX_MESSAGES));
            all_messages = Plan::of(order, "", all, message, pattern)?;
        }
        let parts = Part::of_bulk(&options, size.0, |part, index| match duration {
            None => all_messages.part(part, index),
            Some(_) => all_messages.part(all_messages.size, index),
        })?;
        if let Some(part) = parts.iter().find(|part| part.plan.count > MAX_MESSAGES) {
            let what = reason::too_many_messages(part.plan.count);
            return Err(TransportError::order(what));
        }
        let directions = 1 + u64::from(options.direction == Direction::Both);
        Ok(Work {
            flows: parts.iter().map(|part| part.sent_by).collect(),
            size: size.0 * directions,
            has_goodput: true,
            longest_message: all_messages.message,
            warm_up: options.warm_up,
            content: Content::Bulk(Self { parts, duration }),
        })
    }

    /// Returns the messages of a flow.
    pub(super) fn part(&self, flow: u16) -> &Part {
        &self.parts[usize::from(flow)]
    }
}

/// Returns the error for options that only streams have.
fn for_streams() -> TransportError {
    TransportError::unsupported(reason::not_bulk_over_messages(), reason::leave_keys_out())
}
