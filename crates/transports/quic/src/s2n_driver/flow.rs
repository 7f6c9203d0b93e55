//! The datagrams of a connection as a [`MessageFlow`], and an end that makes such flows.

use std::{
    collections::{BTreeMap, VecDeque},
    future::{Future, poll_fn},
    net::SocketAddr,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use bytes::Bytes;
use regatta_control::TrialOrder;
use regatta_model::Warning;
use regatta_transport::{
    Arrival, MessageEndpoint, MessageFlow, MonotonicTime, Purpose, Result, StatisticsSource,
    StreamEndpoint, TransportError, stop::Stop,
};
use s2n_quic::Connection;
use tokio::{runtime::Handle, sync::Mutex};

use super::{
    connection::{S2nConnection, is_done},
    datagram::{End, Half, Queues},
    endpoint::{Listener, S2nEndpoint},
};
use crate::{
    executor::Tokio,
    facts::of_end,
    timer,
    wait::{in_time, within},
};

/// Overhead of a packet beside a message, in bytes: the short header with a connection identifier
/// of 16 bytes and the longest packet number (RFC 9000 §17.3), the tag (RFC 9001 §5.3), the frame's
/// type and length (RFC 9221 §4).
const OVERHEAD_BYTES: usize = 1 + 16 + 4 + 16 + 3;

/// Preferred size of a batch that is handed to a flow, in bytes.
const BATCH_BYTES: usize = 32 << 10;

/// Maximum time for which a stopped or finished flow waits until its queued messages are sent.
const LINGER: Duration = Duration::from_millis(500);

/// Maximum lateness of the runtime's own timer; the rest of a wait is left to a more exact one.
const COARSE: Duration = Duration::from_millis(2);

/// End of a trial whose messages are QUIC datagrams.
pub(super) struct S2nDatagrams {
    endpoint: S2nEndpoint,
    /// Connections that have not received their first message yet.
    unopened: Mutex<Vec<(Connection, Arc<Queues>)>>,
}

impl S2nDatagrams {
    /// Makes the end of a trial that the order describes.
    ///
    /// # Errors
    /// As [`S2nEndpoint::new`].
    pub fn new(order: &TrialOrder) -> Result<Self> {
        Ok(Self {
            endpoint: S2nEndpoint::new(order)?,
            unopened: Mutex::default(),
        })
    }

    fn flow(&self, connection: Connection, queues: Arc<Queues>, stop: &Stop) -> Result<S2nFlow> {
        // What stops the flow does not close the connection: what waits is sent first.
        let connection = S2nConnection::new(connection, &self.endpoint.end, &Stop::new())?;
        stop.on_stop(&queues);
        Ok(S2nFlow {
            connection: Some(connection),
            queues,
            taken: VecDeque::new(),
            facts: self.endpoint.facts(),
            side: self.endpoint.end.side,
        })
    }
}

/// Returns the queues of a connection, as long as its stack knows it.
fn queues(connection: &Connection) -> Result<Arc<Queues>> {
    connection
        .datagram_mut(|half: &mut Half| half.0.clone())
        .map_err(|error| error.to_string())
        .and_then(|queues| queues.ok_or_else(|| "they were not offered".to_owned()))
        .map_err(TransportError::stack(
            "the QUIC connection has no datagrams",
        ))
}

/// Datagrams of one connection, which is closed after the flow is dropped and all queued messages
/// are sent.
pub(super) struct S2nFlow {
    /// Connection of the flow, taken when the flow is dropped.
    connection: Option<S2nConnection>,
    queues: Arc<Queues>,
    taken: VecDeque<Bytes>,
    facts: BTreeMap<String, String>,
    side: &'static str,
}

impl Drop for S2nFlow {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else {
            return;
        };
        let queues = Arc::clone(&self.queues);
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                let sent = poll_fn(|context| queues.poll_sent(context));
                let _ = tokio::time::timeout(LINGER, sent).await;
                drop(connection);
            });
        }
    }
}

fn ended(end: End) -> TransportError {
    match end {
        End::Stopped => TransportError::Cancelled,
        End::Closed(error) if is_done(&error) => TransportError::Closed {
            flow: "QUIC connection",
        },
        End::Closed(error) => TransportError::stack("the QUIC connection broke")(error),
    }
}

/// Runs a future that may be dropped until `moment` at most, and stops little later than that: a
/// probe's message is sent when the wait for the one before is over.
async fn until_exactly<F: Future + Unpin>(
    moment: MonotonicTime,
    mut future: F,
) -> Option<F::Output> {
    if moment == MonotonicTime::NEVER {
        return Some(future.await);
    }
    if moment.remaining() > COARSE {
        let coarse = MonotonicTime(moment.0 - COARSE.as_nanos() as i64);
        if let done @ Some(_) = within(coarse, &mut future).await {
            return done;
        }
    }
    tokio::select! {
        biased;
        output = &mut future => Some(output),
        () = timer::sleep_until(moment) => None,
    }
}

impl MessageFlow for S2nFlow {
    fn batch_messages(&self, message_bytes: usize) -> usize {
        (BATCH_BYTES / message_bytes.max(1)).clamp(1, 64)
    }

    async fn send_batch(&mut self, batch: &[u8], message_bytes: usize) -> Result<()> {
        let (batch, mut at) = (Bytes::copy_from_slice(batch), 0);
        let size = message_bytes.max(1);
        poll_fn(|context| self.queues.poll_send(&batch, size, &mut at, context))
            .await
            .map_err(ended)
    }

    async fn receive_batch(
        &mut self,
        moment: MonotonicTime,
        consume: &mut (impl FnMut(Arrival<'_>) + Send),
    ) -> Result<usize> {
        let (queues, taken) = (&self.queues, &mut self.taken);
        let arrived = poll_fn(|context| match queues.poll_arrived(taken, context) {
            // One that closed in good order has no more to say: nothing comes until the moment.
            Poll::Ready(Err(End::Closed(error)))
                if is_done(&error) && moment != MonotonicTime::NEVER =>
            {
                Poll::Pending
            }
            arrived => arrived,
        });
        match until_exactly(moment, arrived).await {
            Some(Ok(())) => {}
            Some(Err(end)) => return Err(ended(end)),
            None => return Ok(0),
        }
        let count = self.taken.len();
        for data in self.taken.drain(..) {
            consume(Arrival { data: &data });
        }
        Ok(count)
    }

    async fn settle(&mut self) -> u64 {
        let sent = poll_fn(|context| self.queues.poll_sent(context));
        let _ = tokio::time::timeout(LINGER, sent).await;
        self.queues.give_up()
    }

    fn statistics(&self) -> Option<Arc<dyn StatisticsSource>> {
        let connection = self.connection.as_ref()?;
        Some(regatta_transport::StreamConnection::statistics(connection))
    }

    fn facts(&self) -> BTreeMap<String, String> {
        let mut facts = self.facts.clone();
        if let Some(statistics) = self.statistics() {
            facts.extend(statistics.facts());
        }
        let (too_long, not_taken) = self.queues.dropped();
        let dropped = [
            ("quic.datagrams_too_long", too_long),
            ("quic.datagrams_not_taken", not_taken),
        ];
        facts.extend(of_end(self.side, dropped));
        facts
    }
}

impl MessageEndpoint for S2nDatagrams {
    type Flow = S2nFlow;
    type Executor = Tokio;

    fn executor(&self) -> &Tokio {
        self.endpoint.executor()
    }

    fn listen_address(&self) -> Option<SocketAddr> {
        self.endpoint.listen_address()
    }

    fn longest_message(&self) -> usize {
        usize::from(self.endpoint.end.sizes.payload_bytes).saturating_sub(OVERHEAD_BYTES)
    }

    async fn connect(&self, peer: SocketAddr, _purpose: Purpose, stop: &Stop) -> Result<S2nFlow> {
        let until = MonotonicTime::now() + self.endpoint.order.connect_deadline;
        let connection = self.endpoint.connected(peer, until, stop).await?;
        let queues = queues(&connection)?;
        self.flow(connection, queues, stop)
    }

    async fn accept(
        &self,
        moment: MonotonicTime,
        stop: &Stop,
        admit: &mut (impl FnMut(&[u8]) -> bool + Send),
    ) -> Result<S2nFlow> {
        let listener = self.endpoint.listening()?;
        let opened = stop.unless_raised(self.opened(listener, admit));
        let (connection, queues) = in_time(moment, "opening of a flow", opened).await?;
        self.flow(connection, queues, stop)
    }

    fn warnings(&self, _message_bytes: usize) -> Vec<Warning> {
        StreamEndpoint::warnings(&self.endpoint)
    }
}

impl S2nDatagrams {
    /// Waits for a connection whose first message `admit` accepts. Other messages are dropped.
    async fn opened(
        &self,
        listener: &Mutex<Listener>,
        admit: &mut (impl FnMut(&[u8]) -> bool + Send),
    ) -> Result<(Connection, Arc<Queues>)> {
        // One that waits in the same end waits for the other one first.
        let mut unopened = self.unopened.lock().await;
        loop {
            unopened.retain(|(_, queues)| !queues.is_over());
            let admitted = unopened.iter().position(|(_, queues)| {
                std::iter::from_fn(|| queues.take_one()).any(|message| admit(&message))
            });
            if let Some(index) = admitted {
                return Ok(unopened.swap_remove(index));
            }
            let next = {
                let mut arrived = || ();
                let mut next = std::pin::pin!(self.endpoint.next(listener, &mut arrived));
                poll_fn(|context| {
                    let mut any = false;
                    for (_, queues) in unopened.iter() {
                        any |= queues.register(context);
                    }
                    match next.as_mut().poll(context) {
                        Poll::Ready(next) => Poll::Ready(Some(next)),
                        Poll::Pending if any => Poll::Ready(None),
                        Poll::Pending => Poll::Pending,
                    }
                })
                .await
            };
            // An attempt that failed, or whose connection is over already, brings no flow.
            if let Some(Ok(connection)) = next.transpose()?
                && let Ok(queues) = queues(&connection)
            {
                unopened.push((connection, queues));
            }
        }
    }
}
