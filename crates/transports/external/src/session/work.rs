//! Work of a trial as far as the contract with programs has it.

use regatta_control::TrialOrder;
use regatta_model::{
    BulkOptions, Bytes, Direction, Finish, Opening, Pattern, WorkloadKind, reason,
};
use regatta_transport::{Result, StatedExchange, TransportError};

use crate::content::Content;

/// Longest message, in bytes; a message is held in memory.
const LONGEST_MESSAGE: u64 = 256 << 20;

/// Messages to the listening end, and the answers to them.
pub(super) struct Work {
    pub content: Content,
    pub finish: Finish,
    /// Answers; absent in a bulk transfer.
    pub exchange: Option<StatedExchange>,
}

impl Work {
    /// Reads the workload of an order.
    ///
    /// # Errors
    /// [`TransportError::Unsupported`] for a workload that the contract does not have, [`TransportError::Order`] for one
    /// that makes no sense.
    pub(super) fn new(order: &TrialOrder) -> Result<Self> {
        let kind = &order.workload.kind;
        let (message, _) = kind.largest_message();
        if message > Bytes(LONGEST_MESSAGE) {
            let limit = Bytes(LONGEST_MESSAGE);
            return Err(TransportError::unsupported(
                reason::longer_than(message, limit),
                reason::message_of_at_most(LONGEST_MESSAGE),
            ));
        }
        match kind {
            WorkloadKind::Bulk {
                size,
                message,
                pattern,
                options,
            } => Ok(Self {
                content: bulk((*size, *message), *pattern, options, order.seed)?,
                finish: options.finish,
                exchange: None,
            }),
            WorkloadKind::StopAndWait { .. } | WorkloadKind::RequestResponse { .. } => {
                let exchange = StatedExchange::new(order)?;
                let (message, size) = exchange.requests();
                Ok(Self {
                    content: Content { message, size },
                    finish: Finish::Agree,
                    exchange: Some(exchange),
                })
            }
            _ => Err(TransportError::unsupported(
                reason::not_by_programs(kind.name()),
                "",
            )),
        }
    }
}

/// Returns the content of a bulk transfer, if the contract has its options.
fn bulk(
    (size, message): (Bytes, Bytes),
    pattern: Pattern,
    options: &BulkOptions,
    seed: u64,
) -> Result<Content> {
    let unsupported = [
        (options.direction != Direction::Forward, "direction"),
        (options.flows != 1, "flows"),
        (options.duration.is_some(), "duration"),
        (!options.warm_up.is_zero(), "warm_up"),
        (options.opening == Opening::Answered, "opening"),
        (pattern == Pattern::File, "pattern = \"file\""),
    ];
    if let Some((_, key)) = unsupported.iter().find(|(is_set, _)| *is_set) {
        return Err(TransportError::unsupported(
            reason::not_in_contract(key),
            reason::leave_out_or_no_program(),
        ));
    }
    if message.0 == 0 {
        return Err(TransportError::order(reason::empty_message()));
    }
    // A message is never longer than all of it.
    let longest = message.0.min(size.0.max(1));
    let length = usize::try_from(longest).unwrap_or(usize::MAX);
    Ok(Content::new(pattern, length, size.0, seed))
}
