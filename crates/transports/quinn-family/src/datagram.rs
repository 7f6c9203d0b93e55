//! Messages in DATAGRAM frames (RFC 9221): each flow is a connection of its own.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::FutureExt;
use regatta_model::Warning;
use regatta_transport::{
    Arrival, MessageEndpoint, MessageFlow, MonotonicTime, Purpose, StatisticsSource,
    StreamEndpoint as _, TransportError, Unsupported,
    stop::{Abort, Stop},
};
use tokio::sync::watch;

use regatta_transport_sockets::{
    executor::Tokio,
    wait::{timed_out, within},
};

use crate::{
    connection::{ABORTED, Closer, DONE},
    endpoint::{Attempt, QuicEndpoint},
    stack::{
        self, NAME,
        quic::{Connection, ConnectionError, SendDatagramError},
    },
    statistics::Statistics,
    watch::Watch,
};

/// Overhead of a packet beside a message, in bytes: one byte of flags, a connection identifier of 8
/// bytes, the longest packet number, the AEAD's tag, and the longest header of a DATAGRAM frame
/// (RFC 9000 §17.3.1, RFC 9221 §4).
const OVERHEAD_BYTES: usize = 1 + 8 + 4 + 16 + 9;

/// Maximum size of a batch of messages that is handed over at once, in bytes.
const BATCH_BYTES: usize = 64 << 10;

/// Maximum time for which a stopped flow waits until its queued messages are sent.
const LEAVING: Duration = Duration::from_millis(500);

/// Maximum number of messages that are passed on before another task has its turn.
const MOST_AT_ONCE: usize = 256;

/// Returns the largest message that packets with this payload carry, in bytes.
pub(crate) const fn longest_message(payload_bytes: u16) -> usize {
    (payload_bytes as usize).saturating_sub(OVERHEAD_BYTES)
}

/// End of a trial that sends messages in datagrams.
#[derive(Debug)]
pub struct QuicDatagramEndpoint(QuicEndpoint);

impl QuicDatagramEndpoint {
    pub(crate) fn new(endpoint: QuicEndpoint) -> Self {
        Self(endpoint)
    }

    fn flow(
        &self,
        (connection, watch): (Connection, Arc<Watch>),
        first: Option<Bytes>,
        stop: &Stop,
    ) -> DatagramFlow {
        let statistics = Statistics::new(
            connection.clone(),
            Arc::clone(&watch),
            Arc::clone(self.0.shared()),
        );
        let (stopped, on_stop) = watch::channel(false);
        let stopper = Arc::new(Stopper(stopped));
        stop.on_stop(&stopper);
        DatagramFlow {
            closer: Closer::new(connection, watch),
            statistics,
            stopper,
            on_stop,
            end: self.0.shared().end,
            facts: self.0.facts_of_end(),
            handed_over: 0,
            left: AtomicU64::new(0),
            taken: u64::from(first.is_some()),
        }
    }
}

/// Wakes a flow that waits. Its connection stays until the flow is dropped, because messages under
/// way at a deadline still arrive.
struct Stopper(watch::Sender<bool>);

impl Abort for Stopper {
    fn abort(&self) {
        self.0.send_replace(true);
    }
}

/// The DATAGRAM frames of one connection; the connection is closed when this is dropped.
pub struct DatagramFlow {
    closer: Arc<Closer>,
    statistics: Arc<Statistics>,
    /// Strong reference, since a [`Stop`] holds only a weak one.
    stopper: Arc<Stopper>,
    on_stop: watch::Receiver<bool>,
    end: &'static str,
    facts: BTreeMap<String, String>,
    /// Number of messages that the stack has taken.
    handed_over: u64,
    /// Number of messages that were left in the stack when the flow was stopped, as far as they are
    /// counted.
    left: AtomicU64,
    /// Number of messages received from this flow.
    taken: u64,
}

impl Drop for DatagramFlow {
    fn drop(&mut self) {
        self.statistics.release();
        if *self.stopper.0.borrow() {
            self.closer.close(ABORTED, b"stopped");
        } else {
            self.closer.close(DONE, b"done");
        }
    }
}

fn broken(error: ConnectionError) -> TransportError {
    TransportError::stack("the QUIC connection broke")(error)
}

/// Whether the other end closed the connection, done or stopped: nothing more will come from it, as
/// from a UDP peer that is gone.
fn is_gone(error: &ConnectionError) -> bool {
    matches!(error, ConnectionError::ApplicationClosed(_))
}

impl DatagramFlow {
    fn connection(&self) -> &Connection {
        &self.closer.connection
    }

    async fn send(&mut self, message: Bytes) -> Result<(), TransportError> {
        let length = message.len();
        let sent = tokio::select! {
            biased;
            _ = self.on_stop.wait_for(|stopped| *stopped) => return Err(TransportError::Cancelled),
            sent = self.closer.connection.send_datagram_wait(message) => sent,
        };
        match sent {
            Ok(()) => {
                self.handed_over += 1;
                Ok(())
            }
            Err(SendDatagramError::TooLarge) => {
                let most = self.connection().max_datagram_size().unwrap_or_default();
                Err(Unsupported {
                    reason: format!(
                        "a message of `{length} B` is longer than the other end, or the path, takes"
                    ),
                    hint: format!("choose a message of at most {most} B"),
                }
                .into())
            }
            Err(SendDatagramError::ConnectionLost(error)) => Err(broken(error)),
            Err(error) => Err(TransportError::stack("cannot send a QUIC datagram")(error)),
        }
    }

    /// Returns the number of messages that wait in the stack to be sent.
    fn waiting(&self) -> u64 {
        let sent = stack::figures(self.connection()).datagram_frames_sent;
        self.handed_over.saturating_sub(sent)
    }

    /// Returns the number of received messages that a stopped flow has left in the stack. The stack
    /// has no counter for them, so they are taken out to be counted.
    fn untaken(&self) -> u64 {
        if !*self.stopper.0.borrow() {
            return 0;
        }
        let mut left = self.left.load(Ordering::Relaxed);
        while let Some(Ok(_)) = self.connection().read_datagram().now_or_never() {
            left += 1;
        }
        self.left.store(left, Ordering::Relaxed);
        left
    }

    /// Waits for a message until `moment`; returns `None` at that time.
    async fn next(&mut self, moment: MonotonicTime) -> Result<Option<Bytes>, TransportError> {
        let received = async {
            tokio::select! {
                biased;
                message = self.closer.connection.read_datagram() => message.map(Some),
                _ = self.on_stop.wait_for(|stopped| *stopped) => Ok(None),
            }
        };
        match within(moment, received).await {
            Some(Ok(Some(message))) => Ok(Some(message)),
            Some(Ok(None)) => Err(TransportError::Cancelled),
            Some(Err(error)) if is_gone(&error) => {
                // Nothing more comes until then, and who is stopped must hear of it: it would ask
                // for ever.
                match within(moment, self.on_stop.wait_for(|stopped| *stopped)).await {
                    Some(_) => Err(TransportError::Cancelled),
                    None => Ok(None),
                }
            }
            Some(Err(error)) => Err(broken(error)),
            None => Ok(None),
        }
    }
}

impl MessageFlow for DatagramFlow {
    fn batch_messages(&self, message_bytes: usize) -> usize {
        (BATCH_BYTES / message_bytes.max(1)).clamp(1, MOST_AT_ONCE)
    }

    async fn send_batch(
        &mut self,
        batch: &[u8],
        message_bytes: usize,
    ) -> Result<(), TransportError> {
        // One piece of memory for all: each message is a part of it.
        let mut rest = Bytes::copy_from_slice(batch);
        while !rest.is_empty() {
            let message = rest.split_to(message_bytes.clamp(1, rest.len()));
            self.send(message).await?;
        }
        if batch.len() <= message_bytes {
            // One message, for which somebody waits: the connection has its turn at once.
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    async fn receive_batch(
        &mut self,
        moment: MonotonicTime,
        consume: &mut (impl FnMut(Arrival<'_>) + Send),
    ) -> Result<usize, TransportError> {
        let Some(first) = self.next(moment).await? else {
            return Ok(0);
        };
        consume(Arrival { data: &first });
        let mut count = 1;
        while count < MOST_AT_ONCE
            && let Some(Ok(message)) = self.closer.connection.read_datagram().now_or_never()
        {
            consume(Arrival { data: &message });
            count += 1;
        }
        self.taken += count as u64;
        Ok(count)
    }

    async fn settle(&mut self) -> u64 {
        let connection = self.connection();
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

    fn facts(&self) -> BTreeMap<String, String> {
        let mut facts = self.facts.clone();
        facts.extend(self.statistics.facts());
        let received = stack::figures(self.connection()).datagram_frames_received;
        // What came and was not taken: the stack throws the oldest away when the application is
        // late, and does not count that. What it still has it has not thrown away.
        let not_taken = received.saturating_sub(self.taken + self.untaken());
        facts.insert(
            format!("quic.datagrams_not_taken.{}", self.end),
            not_taken.to_string(),
        );
        facts
    }
}

impl MessageEndpoint for QuicDatagramEndpoint {
    type Flow = DatagramFlow;
    type Executor = Tokio;

    fn executor(&self) -> &Tokio {
        self.0.executor()
    }

    fn listen_address(&self) -> Option<SocketAddr> {
        self.0.listens()
    }

    fn longest_message(&self) -> usize {
        longest_message(self.0.least_payload_bytes())
    }

    async fn connect(
        &self,
        peer: SocketAddr,
        purpose: Purpose,
        stop: &Stop,
    ) -> Result<DatagramFlow, TransportError> {
        let moment = MonotonicTime::now() + self.0.handshake_limit();
        let (connection, watch, _) = self.0.establish(peer, moment, stop).await?;
        let most = connection.max_datagram_size().unwrap_or_default();
        if most < self.longest_message() {
            return Err(Unsupported {
                reason: format!("the other end's `{NAME}` takes messages of at most `{most} B`"),
                hint: "set `mode = \"datagram\"` at both ends".to_owned(),
            }
            .into());
        }
        let flow = self.flow((connection, watch), None, stop);
        if purpose == Purpose::Transfer {
            self.0.schedule_migration(&flow.closer);
        }
        Ok(flow)
    }

    async fn accept(
        &self,
        moment: MonotonicTime,
        stop: &Stop,
        admit: &mut (impl FnMut(&[u8]) -> bool + Send),
    ) -> Result<DatagramFlow, TransportError> {
        let since = MonotonicTime::now();
        let accepted = async {
            loop {
                // One that failed before it said anything is no flow.
                let attempt = self.0.next_attempt(stop, &mut || {}).await?;
                if let Ok(Attempt {
                    connection,
                    watch,
                    first: Some(first),
                }) = attempt
                {
                    if admit(&first) {
                        return Ok(self.flow((connection, watch), Some(first), stop));
                    }
                    self.0.await_message(connection, watch);
                }
            }
        };
        match within(moment, accepted).await {
            Some(accepted) => accepted,
            None => Err(timed_out("flow of messages", since)),
        }
    }

    fn warnings(&self, _message_bytes: usize) -> Vec<Warning> {
        self.0.warnings_of_end()
    }
}
