//! Messages in DATAGRAM frames (RFC 9221): each flow is a connection of its own.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::FutureExt;
use regatta_model::{Facts, reason};
use regatta_transport::{
    Arrival, MessageFlow, MonotonicTime, Result, StatisticsSource, TransportError,
    stop::{Abort, Stop},
};
use tokio::sync::SetOnce;

use regatta_transport_quic_common::facts::of_end;
use regatta_transport_sockets::{
    endpoints::{ConnectionRole, MessageEnd},
    wait::within,
};

use crate::{
    closer::{ABORTED, Closer, DONE},
    endpoint::{Established, QuicEndpoint},
    options::longest_message,
    stack::{
        self, NAME,
        quic::{ConnectionError, SendDatagramError},
    },
    statistics::Statistics,
};

/// Maximum size of a batch of messages that is handed over at once, in bytes.
const BATCH_BYTES: usize = 64 << 10;

/// Maximum time for which a stopped flow waits until its queued messages are sent.
const LEAVING: Duration = Duration::from_millis(500);

/// Maximum number of messages that are passed on before another task has its turn.
const MAX_AT_ONCE: usize = 256;

/// Makes an end that sends messages in datagrams.
pub(crate) fn datagrams<R: ConnectionRole>(
    end: QuicEndpoint<R>,
) -> MessageEnd<QuicEndpoint<R>, DatagramFlow> {
    let shared = Arc::clone(&end.shared);
    let longest = longest_message(shared.sizes.first_payload_bytes);
    let make = move |Established { closer, .. }, stop: &Stop| {
        let most = closer.connection.max_datagram_size().unwrap_or_default();
        if R::CONNECTS && most < longest {
            return Err(TransportError::unsupported(
                reason::other_end_takes(NAME, most as u64),
                reason::datagrams_at_both_ends(),
            ));
        }
        let stopper = Arc::new(Stopper::default());
        stop.on_stop(&stopper);
        Ok(DatagramFlow {
            statistics: Statistics::new(&closer, Arc::clone(&shared)),
            closer,
            stopper,
            end: shared.end,
            handed_over: 0,
            left: AtomicU64::new(0),
            // The first one has admitted the flow.
            taken: u64::from(!R::CONNECTS),
        })
    };
    MessageEnd::new(end, longest, false, make)
}

/// Wakes a flow that waits. Its connection stays until the flow is dropped, because messages under
/// way at a deadline still arrive.
#[derive(Default)]
struct Stopper(SetOnce<()>);

impl Abort for Stopper {
    fn abort(&self) {
        let _ = self.0.set(());
    }
}

/// The DATAGRAM frames of one connection; the connection is closed when this is dropped.
pub struct DatagramFlow {
    closer: Arc<Closer>,
    statistics: Arc<Statistics>,
    /// Strong reference, since a [`Stop`] holds only a weak one.
    stopper: Arc<Stopper>,
    end: &'static str,
    /// Number of messages that the stack has taken.
    handed_over: u64,
    /// Number of messages that were left in the stack when the flow was stopped, where they are
    /// counted.
    left: AtomicU64,
    /// Number of messages received from this flow.
    taken: u64,
}

impl Drop for DatagramFlow {
    fn drop(&mut self) {
        self.statistics.release();
        if self.stopper.0.initialized() {
            self.closer.close(ABORTED, b"stopped");
        } else {
            self.closer.close(DONE, b"done");
        }
    }
}

fn stack_error(error: ConnectionError) -> TransportError {
    TransportError::stack(reason::quic_connection_broke())(error)
}

/// Whether the other end closed the connection, done or stopped: nothing more will come from it, as
/// from a closed UDP socket.
fn is_closed_by_peer(error: &ConnectionError) -> bool {
    matches!(error, ConnectionError::ApplicationClosed(_))
}

impl DatagramFlow {
    async fn send(&mut self, message: Bytes) -> Result<()> {
        let length = message.len();
        let sent = tokio::select! {
            biased;
            _ = self.stopper.0.wait() => return Err(TransportError::Cancelled),
            sent = self.closer.connection.send_datagram_wait(message) => sent,
        };
        match sent {
            Ok(()) => {
                self.handed_over += 1;
                Ok(())
            }
            Err(SendDatagramError::TooLarge) => {
                let most = self
                    .closer
                    .connection
                    .max_datagram_size()
                    .unwrap_or_default();
                Err(TransportError::unsupported(
                    reason::longer_than_taken(regatta_model::Bytes(length as u64)),
                    reason::message_of_at_most(most as u64),
                ))
            }
            Err(SendDatagramError::ConnectionLost(error)) => Err(stack_error(error)),
            Err(error) => Err(TransportError::stack(reason::cannot_send_quic_datagram())(
                error,
            )),
        }
    }

    /// Returns the number of messages that wait in the stack to be sent.
    fn waiting(&self) -> u64 {
        let sent = stack::stats(&self.closer.connection).0.frame_tx.datagram;
        self.handed_over.saturating_sub(sent)
    }

    /// Returns the number of received messages that a stopped flow has left in the stack. The stack
    /// has no counter for them, so they are taken out to be counted.
    fn untaken(&self) -> u64 {
        if !self.stopper.0.initialized() {
            return 0;
        }
        let mut left = self.left.load(Ordering::Relaxed);
        while let Some(Ok(_)) = self.closer.connection.read_datagram().now_or_never() {
            left += 1;
        }
        self.left.store(left, Ordering::Relaxed);
        left
    }

    /// Waits for a message until `moment`; returns `None` at that time.
    async fn next(&mut self, moment: MonotonicTime) -> Result<Option<Bytes>> {
        let received = async {
            tokio::select! {
                biased;
                message = self.closer.connection.read_datagram() => message.map(Some),
                _ = self.stopper.0.wait() => Ok(None),
            }
        };
        match within(moment, received).await {
            Some(Ok(Some(message))) => Ok(Some(message)),
            Some(Ok(None)) => Err(TransportError::Cancelled),
            Some(Err(error)) if is_closed_by_peer(&error) => {
                // Nothing more comes until then, and a stop must end the wait: the caller would
                // poll for ever.
                match within(moment, self.stopper.0.wait()).await {
                    Some(_) => Err(TransportError::Cancelled),
                    None => Ok(None),
                }
            }
            Some(Err(error)) => Err(stack_error(error)),
            None => Ok(None),
        }
    }
}

impl MessageFlow for DatagramFlow {
    fn batch_messages(&self, message_bytes: usize) -> usize {
        (BATCH_BYTES / message_bytes.max(1)).clamp(1, MAX_AT_ONCE)
    }

    async fn send_batch(&mut self, batch: &[u8], message_bytes: usize) -> Result<()> {
        // One piece of memory for all: each message is a part of it.
        let mut rest = Bytes::copy_from_slice(batch);
        while !rest.is_empty() {
            let message = rest.split_to(message_bytes.clamp(1, rest.len()));
            self.send(message).await?;
        }
        if batch.len() <= message_bytes {
            // One message, for which the other end waits: the connection has its turn at once.
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    async fn receive_batch(
        &mut self,
        moment: MonotonicTime,
        consume: &mut (impl FnMut(Arrival<'_>) + Send),
    ) -> Result<usize> {
        let Some(first) = self.next(moment).await? else {
            return Ok(0);
        };
        consume(Arrival { data: &first });
        let mut count = 1;
        while count < MAX_AT_ONCE
            && let Some(Ok(message)) = self.closer.connection.read_datagram().now_or_never()
        {
            consume(Arrival { data: &message });
            count += 1;
        }
        self.taken += count as u64;
        Ok(count)
    }

    async fn settle(&mut self) -> u64 {
        let connection = &self.closer.connection;
        let left = async {
            tokio::select! {
                () = self.closer.watch.wait_while(|| self.waiting() > 0) => {}
                _ = connection.closed() => {}
            }
        };
        let _ = within(MonotonicTime::now() + LEAVING, left).await;
        self.waiting()
    }

    fn statistics(&self) -> Option<Arc<dyn StatisticsSource>> {
        Some(Arc::<Statistics>::clone(&self.statistics))
    }

    fn facts(&self) -> Facts {
        let mut facts = self.statistics.facts();
        let received = stack::stats(&self.closer.connection).0.frame_rx.datagram;
        // What came and was not taken: the stack throws the oldest away when the application is
        // late, and does not count that. What it still has it has not thrown away.
        let not_taken = received.saturating_sub(self.taken + self.untaken());
        facts.extend(of_end(self.end, [("quic.datagrams_not_taken", not_taken)]));
        facts
    }
}
