//! The datagrams of a connection (RFC 9221) as a [`MessageFlow`], one connection for each flow.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use regatta_control::TrialOrder;
use regatta_model::Warning;
use regatta_transport::{
    Arrival, MessageEndpoint, MessageFlow, MonotonicTime, Purpose, StatisticsSource,
    StreamEndpoint, TransportError, stop::Stop,
};

use super::{
    connection::{Halter, Link, Owner},
    end::End,
    endpoint::QuicheEndpoint,
    options::Options,
    state::ID_BYTES,
    statistics::Statistics,
};
use crate::{
    executor::Tokio,
    path::{LEAST_PAYLOAD_BYTES, Sizes},
    wait::{timed_out, within},
};

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

/// Longest packet that quiche writes.
const LONGEST_PACKET_BYTES: usize = 16_383;

/// End of a trial in datagram mode.
pub struct QuicheDatagrams {
    endpoint: QuicheEndpoint,
    longest: usize,
    /// Maximum duration of a handshake.
    patience: Duration,
    /// Connections that have not received a message of the trial yet.
    unadmitted: Mutex<Vec<Owner>>,
}

impl QuicheDatagrams {
    /// Makes the end of a trial that the order describes.
    ///
    /// # Errors
    /// As [`QuicheEndpoint::new`].
    pub fn new(order: &TrialOrder) -> Result<Self, TransportError> {
        let endpoint = QuicheEndpoint::new(order)?;
        let options = Options::read(&order.transport.options);
        Ok(Self {
            longest: longest(&endpoint.sizes, &options),
            patience: order.connect_deadline,
            unadmitted: Mutex::default(),
            endpoint,
        })
    }

    fn flow(&self, owner: Owner, stop: &Stop) -> QuicheFlow {
        let statistics = self.endpoint.statistics(&owner.link);
        let halter = Halter::of(&owner.link);
        stop.on_stop(&halter);
        QuicheFlow {
            facts: self.endpoint.facts.clone(),
            statistics,
            arrived: Vec::new(),
            settled: false,
            owner,
            _halter: halter,
        }
    }

    /// Accepts new connections, and returns one whose next message `admit` accepts, if there is
    /// one.
    fn look(
        &self,
        context: &Context<'_>,
        admit: &mut (impl FnMut(&[u8]) -> bool + Send),
    ) -> Option<Owner> {
        let mut unadmitted = self
            .unadmitted
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        {
            let mut state = self.endpoint.shared.lock();
            while let Some((_, begun)) = state.accept() {
                if let Ok(id) = begun {
                    let link = Link::new(&self.endpoint.shared, id);
                    link.changed();
                    unadmitted.push(Owner::unstopped(link));
                }
            }
            state.acceptor = Some(context.waker().clone());
        }
        let mut admitted = None;
        unadmitted.retain(|owner| {
            // A connection that has ended before it said anything is of no use.
            owner
                .link
                .with(|entry| {
                    entry.wait(context);
                    entry.end.is_none() || entry.quiche.dgram_recv_queue_len() > 0
                })
                .unwrap_or(false)
        });
        for (index, owner) in unadmitted.iter().enumerate() {
            let next = || owner.link.with(|entry| entry.take_datagram());
            while let Some(message) = next().flatten() {
                if admit(&message) {
                    admitted = Some(index);
                    break;
                }
            }
            if admitted.is_some() {
                break;
            }
        }
        Some(unadmitted.remove(admitted?))
    }
}

/// Returns the longest message that fits one packet, in bytes.
fn longest(sizes: &Sizes, options: &Options) -> usize {
    let packet = if options.common.mtu_discovery {
        // Longer ones have to be found first.
        usize::from(LEAST_PAYLOAD_BYTES)
    } else {
        usize::from(sizes.payload_bytes).min(LONGEST_PACKET_BYTES)
    };
    packet - OVERHEAD_BYTES - ID_BYTES
}

impl MessageEndpoint for QuicheDatagrams {
    type Flow = QuicheFlow;
    type Executor = Tokio;

    fn executor(&self) -> &Tokio {
        self.endpoint.executor()
    }

    fn listen_address(&self) -> Option<SocketAddr> {
        self.endpoint.listens_at()
    }

    fn longest_message(&self) -> usize {
        self.longest
    }

    async fn connect(
        &self,
        peer: SocketAddr,
        _purpose: Purpose,
        stop: &Stop,
    ) -> Result<QuicheFlow, TransportError> {
        let within = MonotonicTime::now() + self.patience;
        // What stops the flow does not close the connection: what waits is sent first.
        let never = Stop::new();
        let connected = self.endpoint.connected(peer, within, &never);
        let owner = stop.unless_raised(connected).await?;
        Ok(self.flow(owner, stop))
    }

    async fn accept(
        &self,
        moment: MonotonicTime,
        stop: &Stop,
        admit: &mut (impl FnMut(&[u8]) -> bool + Send),
    ) -> Result<QuicheFlow, TransportError> {
        let since = MonotonicTime::now();
        let admitted = poll_fn(|context| match self.look(context, admit) {
            Some(owner) => Poll::Ready(Ok(owner)),
            None => Poll::Pending,
        });
        match within(moment, stop.unless_raised(admitted)).await {
            Some(owner) => Ok(self.flow(owner?, stop)),
            None => Err(timed_out("opening of a flow", since)),
        }
    }

    fn warnings(&self, _message_bytes: usize) -> Vec<Warning> {
        self.endpoint.notes()
    }
}

/// Datagrams of one connection, which is closed when this is dropped, after all queued messages are
/// sent.
pub struct QuicheFlow {
    owner: Owner,
    statistics: Arc<Statistics>,
    facts: BTreeMap<String, String>,
    arrived: Vec<Vec<u8>>,
    /// Whether the messages queued at the time of the stop are sent or discarded.
    settled: bool,
    /// Strong reference, since a [`Stop`] holds only a weak one.
    _halter: Arc<Halter>,
}

/// Whether the other end closed the connection, done or stopped: nothing more will come from it, as
/// from a UDP peer that is gone.
fn is_gone(end: &End) -> bool {
    matches!(
        end,
        End::Done
            | End::Told {
                application: true,
                ..
            }
    )
}

fn broken(end: End) -> TransportError {
    match end {
        End::Stopped => TransportError::Cancelled,
        end => TransportError::stack("the QUIC connection broke")(end),
    }
}

impl MessageFlow for QuicheFlow {
    fn batch_messages(&self, message_bytes: usize) -> usize {
        (BATCH_BYTES / message_bytes.max(1)).clamp(1, WAITING_MESSAGES)
    }

    async fn send_batch(
        &mut self,
        batch: &[u8],
        message_bytes: usize,
    ) -> Result<(), TransportError> {
        let link = &self.owner.link;
        let mut messages = batch.chunks(message_bytes.max(1)).peekable();
        let sent = link.poll(|entry, context| {
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
                        entry.wait_to_send(context);
                        link.changed();
                        return Poll::Pending;
                    }
                    Err(error) => return Poll::Ready(Err(End::Gave(0, Some(error)))),
                }
            }
            Poll::Ready(Ok(()))
        });
        sent.await.map_err(broken)?;
        link.changed();
        Ok(())
    }

    async fn receive_batch(
        &mut self,
        moment: MonotonicTime,
        consume: &mut (impl FnMut(Arrival<'_>) + Send),
    ) -> Result<usize, TransportError> {
        let arrived = &mut self.arrived;
        let received = self.owner.link.poll(|entry, context| {
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
                Some(end) if is_gone(end) && moment != MonotonicTime::NEVER => {}
                Some(end) => return Poll::Ready(Err(end.clone())),
                None => {}
            }
            entry.wait(context);
            Poll::Pending
        });
        match within(moment, received).await {
            Some(received) => received.map_err(broken)?,
            None => return Ok(0),
        }
        let count = self.arrived.len();
        for data in self.arrived.drain(..) {
            consume(Arrival { data: &data });
        }
        Ok(count)
    }

    async fn settle(&mut self) -> u64 {
        let link = &self.owner.link;
        let left = link.poll(|entry, context| {
            if entry.has_sent_datagrams() {
                return Poll::Ready(Ok(()));
            }
            entry.wait_to_send(context);
            Poll::Pending
        });
        let _ = tokio::time::timeout(LEAVING, left).await;
        self.settled = true;
        link.with(|entry| entry.give_up_datagrams() as u64)
            .unwrap_or_default()
    }

    fn statistics(&self) -> Option<Arc<dyn StatisticsSource>> {
        Some(Arc::<Statistics>::clone(&self.statistics))
    }

    fn facts(&self) -> BTreeMap<String, String> {
        let mut facts = self.facts.clone();
        facts.extend(self.statistics.facts());
        facts
    }
}

impl Drop for QuicheFlow {
    fn drop(&mut self) {
        self.statistics.release();
        let link = &self.owner.link;
        if !self.settled && link.with(|entry| entry.halted) == Some(true) {
            link.close(End::Stopped);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use regatta_control::Role;
    use regatta_transport::testing::order_for;

    use super::*;

    #[test]
    fn the_longest_message_fills_a_packet() {
        let mut order = order_for(Role::Sender, "quic-quiche", 1, 1);
        order.path.mtu_bytes = 1500;
        let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let options = Options::read(&order.transport.options);
        let sizes = Sizes::of(&order.path, local, &options.common).expect("large enough");
        assert_eq!(longest(&sizes, &options), 1472 - 24 - 16);
    }
}
