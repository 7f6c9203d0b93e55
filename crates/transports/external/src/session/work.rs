//! Work of a trial as far as the contract with programs has it.

use regatta_control::TrialOrder;
use regatta_model::{
    Amount, BulkOptions, Bytes, Direction, Finish, Opening, Pattern, WorkloadKind, reason,
};
use regatta_transport::{Result, StatedExchange, TransportError, Unsupported};

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
        check(kind).map_err(TransportError::Unsupported)?;
        if let WorkloadKind::Bulk {
            amount,
            message,
            pattern,
            options,
        } = kind
        {
            return Ok(Self {
                content: bulk((amount.bytes(), *message), *pattern, order.seed)?,
                finish: options.finish,
                exchange: None,
            });
        }
        let exchange = StatedExchange::new(order)?;
        let (message, size) = exchange.requests();
        Ok(Self {
            content: Content { message, size },
            finish: Finish::Agree,
            exchange: Some(exchange),
        })
    }
}

/// Checks whether the contract has a workload, with its options.
///
/// # Errors
/// [`Unsupported`] with the reason and a hint.
pub(crate) fn check(kind: &WorkloadKind) -> Result<(), Unsupported> {
    let (message, _) = kind.largest_message();
    if message > Bytes(LONGEST_MESSAGE) {
        let limit = Bytes(LONGEST_MESSAGE);
        return Err(Unsupported::new(
            reason::longer_than(message, limit),
            reason::message_of_at_most(LONGEST_MESSAGE),
        ));
    }
    match kind {
        WorkloadKind::Bulk {
            amount,
            pattern,
            options,
            ..
        } => check_bulk(*amount, *pattern, options),
        WorkloadKind::StopAndWait { .. } | WorkloadKind::RequestResponse { .. } => Ok(()),
        _ => Err(Unsupported::new(
            reason::not_by_programs(kind.name()),
            reason::workload_or_no_program(),
        )),
    }
}

/// Checks whether the contract has the options of a bulk transfer.
fn check_bulk(amount: Amount, pattern: Pattern, options: &BulkOptions) -> Result<(), Unsupported> {
    let unsupported = [
        (options.direction != Direction::Forward, "direction"),
        (options.flows != 1, "flows"),
        (amount.time().is_some(), "duration"),
        (!options.warm_up.is_zero(), "warm_up"),
        (options.opening == Opening::Answered, "opening"),
        (pattern == Pattern::File, "pattern = \"file\""),
    ];
    match unsupported.iter().find(|(is_set, _)| *is_set) {
        Some((_, key)) => Err(Unsupported::new(
            reason::not_in_contract(key),
            reason::leave_out_or_no_program(),
        )),
        None => Ok(()),
    }
}

/// Returns the content of a bulk transfer.
fn bulk((size, message): (Bytes, Bytes), pattern: Pattern, seed: u64) -> Result<Content> {
    if message.0 == 0 {
        return Err(TransportError::order(reason::empty_message()));
    }
    // A message is never longer than all of it.
    let longest = message.0.min(size.0.max(1));
    let length = usize::try_from(longest).unwrap_or(usize::MAX);
    Ok(Content::new(pattern, length, size.0, seed))
}
