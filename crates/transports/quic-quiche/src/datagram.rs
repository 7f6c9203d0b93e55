//! The datagrams of a connection (RFC 9221) as a [`MessageFlow`], one connection for each flow.

use std::{sync::Arc, task::Poll, time::Duration};

use regatta_model::{Facts, reason};
use regatta_transport::{
    Arrival, MessageFlow, MonotonicTime, Result, StatisticsSource, TransportError,
};

use crate::{
    end::End,
    entry::{Entry, ID_BYTES, LONGEST_PACKET_BYTES},
    protocol::Handle,
    statistics::Statistics,
};
use regatta_transport_quic_common::path::Sizes;
use regatta_transport_sockets::wait::within;

/// Maximum number of messages in quiche's send queue. Small, because a message in the queue is
/// neither sent nor visible as waiting, yet enough for several calls of the kernel.
const WAITING_MESSAGES: usize = 256;

/// Maximum number of messages that are passed on at once.
const ARRIVALS: usize = 1024;

/// Maximum time for which a stopped flow waits until its queued messages are sent.
const LEAVING: Duration = Duration::from_millis(500);

/// Preferred size of a batch from the sender, in bytes: a full call of the kernel.
const BATCH_BYTES: usize = 64 << 10;

/// Overhead of a packet beside the message, in bytes: first byte and packet number (RFC 9000
/// §17.3.1), tag of AES-GCM, type and length of the frame (RFC 9221 §4); the other end's connection
/// identifier comes on top.
const OVERHEAD_BYTES: usize = 1 + 4 + 16 + 1 + 2;

/// Returns the longest message that fits one packet, in bytes.
pub(crate) fn longest(sizes: &Sizes) -> usize {
    // With a search for the packet size longer ones have to be found first.
    let packet = usize::from(sizes.first_payload_bytes).min(LONGEST_PACKET_BYTES);
    packet - OVERHEAD_BYTES - ID_BYTES
}

/// Datagrams of one connection, which is closed when this is dropped, after all queued messages are
/// sent.
pub(crate) struct QuicheFlow {
    pub handle: Arc<Handle>,
    pub statistics: Arc<Statistics>,
    pub arrived: Vec<Vec<u8>>,
    /// Whether the messages queued at the time of the stop are sent or discarded.
    pub settled: bool,
}

/// Whether the other end closed the connection, done or stopped: nothing more will come from it, as
/// from a closed UDP socket.
pub(crate) fn is_closed_by_peer(end: &End) -> bool {
    matches!(
        end,
        End::Done
            | End::ClosedByPeer {
                application: true,
                ..
            }
    )
}

fn stack_error(end: End) -> TransportError {
    match end {
        End::Stopped => TransportError::Cancelled,
        end => end.error(reason::quic_connection_broke()),
    }
}

impl MessageFlow for QuicheFlow {
    fn batch_messages(&self, message_bytes: usize) -> usize {
        (BATCH_BYTES / message_bytes.max(1)).clamp(1, WAITING_MESSAGES)
    }

    async fn send_batch(&mut self, batch: &[u8], message_bytes: usize) -> Result<()> {
        let handle = &self.handle;
        let mut messages = batch.chunks(message_bytes.max(1)).peekable();
        let sent = handle.poll(|entry, context| {
            if entry.halted {
                return Poll::Ready(Err(End::Stopped));
            }
            if let Some(end) = &entry.end {
                return Poll::Ready(Err(end.clone()));
            }
            while let Some(message) = messages.peek() {
                let full = entry.quiche.dgram_send_queue_len() >= WAITING_MESSAGES;
                let queued = if full {
                    Err(quiche::Error::Done)
                } else {
                    entry.quiche.dgram_send(message)
                };
                match queued {
                    Ok(()) => {
                        messages.next();
                    }
                    Err(quiche::Error::Done) => {
                        entry.senders.register(context);
                        handle.changed();
                        return Poll::Pending;
                    }
                    Err(error) => return Poll::Ready(Err(End::ClosedByStack(0, Some(error)))),
                }
            }
            Poll::Ready(Ok(()))
        });
        sent.await.map_err(stack_error)?;
        handle.changed();
        Ok(())
    }

    async fn receive_batch(
        &mut self,
        moment: MonotonicTime,
        consume: &mut (impl FnMut(Arrival<'_>) + Send),
    ) -> Result<usize> {
        let arrived = &mut self.arrived;
        let received = self.handle.poll(|entry, context| {
            if entry.halted {
                return Poll::Ready(Err(End::Stopped));
            }
            while arrived.len() < ARRIVALS {
                match entry.take_datagram() {
                    Some(message) => arrived.push(message),
                    None => break,
                }
            }
            if !arrived.is_empty() {
                return Poll::Ready(Ok(()));
            }
            match &entry.end {
                // Nothing more comes until the moment.
                Some(end) if is_closed_by_peer(end) && moment != MonotonicTime::NEVER => {}
                Some(end) => return Poll::Ready(Err(end.clone())),
                None => {}
            }
            entry.watchers.register(context);
            Poll::Pending
        });
        match within(moment, received).await {
            Some(received) => received.map_err(stack_error)?,
            None => return Ok(0),
        }
        let count = self.arrived.len();
        for data in self.arrived.drain(..) {
            consume(Arrival { data: &data });
        }
        Ok(count)
    }

    async fn settle(&mut self) -> u64 {
        let handle = &self.handle;
        let left = handle.poll(|entry, context| {
            if entry.has_sent_datagrams() {
                return Poll::Ready(Ok::<_, End>(()));
            }
            entry.senders.register(context);
            Poll::Pending
        });
        let _ = tokio::time::timeout(LEAVING, left).await;
        self.settled = true;
        let given_up = handle.with(Entry::give_up_datagrams);
        given_up.map_or(0, |datagrams| datagrams as u64)
    }

    fn statistics(&self) -> Option<Arc<dyn StatisticsSource>> {
        Some(Arc::<Statistics>::clone(&self.statistics))
    }

    fn facts(&self) -> Facts {
        self.statistics.facts()
    }
}

impl Drop for QuicheFlow {
    fn drop(&mut self) {
        self.statistics.release();
        let handle = &self.handle;
        if !self.settled && handle.with(|entry| entry.halted) == Ok(true) {
            let _ = handle.with(|entry| entry.close(End::Stopped));
            handle.changed();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use regatta_control::Role;
    use regatta_transport::testing::order_for;

    use super::*;
    use crate::options::Options;

    #[test]
    fn the_longest_message_fills_a_packet() {
        let mut order = order_for(Role::Sender, "quic-quiche", 1, 1);
        order.path.mtu_bytes = 1500;
        let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let options = Options::read(&order.transport.options);
        let sizes = Sizes::of(&order.path, local, &options.common).expect("large enough");
        assert_eq!(longest(&sizes), 1472 - 24 - 16);
    }
}
