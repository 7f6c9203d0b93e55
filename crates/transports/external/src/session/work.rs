//! Work of a trial as far as the contract with programs has it.

use regatta_control::TrialOrder;
use regatta_model::{BulkOptions, Bytes, Direction, Finish, Opening, Pattern, WorkloadKind};
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
                format!("a message of `{message}` is longer than `{limit}`"),
                format!("send messages of at most `{limit}`"),
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
            _ => {
                let reason = format!(
                    "external programs carry out `bulk`, `stop-and-wait` and `request-response`, and not `{}`",
                    kind.name()
                );
                Err(TransportError::unsupported(reason, ""))
            }
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
        (
            options.direction != Direction::Forward,
            "transfer to the connecting host",
        ),
        (options.flows != 1, "transfer over several flows"),
        (options.duration.is_some(), "transfer of a given duration"),
        (!options.warm_up.is_zero(), "warm-up that is left out"),
        (
            options.opening == Opening::Answered,
            "opening that is answered before data leaves",
        ),
        (
            pattern == Pattern::File,
            "file that is read during the transfer",
        ),
    ];
    if let Some((_, what)) = unsupported.iter().find(|(is_set, _)| *is_set) {
        return Err(TransportError::unsupported(
            format!("the contract with external programs has no {what}"),
            "leave it out, or use a transport that is no external program",
        ));
    }
    if message.0 == 0 {
        let reason = "a message of zero bytes cannot be sent";
        return Err(TransportError::order(reason));
    }
    // A message is never longer than all of it.
    let longest = message.0.min(size.0.max(1));
    let length = usize::try_from(longest).unwrap_or(usize::MAX);
    Ok(Content::new(pattern, length, size.0, seed))
}
