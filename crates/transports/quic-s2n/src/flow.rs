//! The datagrams of a connection as a [`MessageFlow`], and the admission of such flows at an end.

use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    sync::Arc,
    task::Poll,
    time::Duration,
};

use bytes::Bytes;
use regatta_model::Facts;
use regatta_transport::{
    Arrival, MessageFlow, MonotonicTime, Result, StatisticsSource, stop::Stop,
};
use regatta_transport_sockets::endpoints::{ConnectionRole, Incoming, MessageEnd};
use s2n_quic::Connection;
use tokio::runtime::Handle;

use crate::{
    connection::S2nConnection,
    datagram::{End, OVERHEAD_BYTES, Queues, queues},
    end::is_done,
    endpoint::{Listening, S2nEndpoint},
};
use regatta_transport_quic_common::facts::of_end;
use regatta_transport_sockets::{timer, wait::within};

/// Preferred size of a batch that is handed to a flow, in bytes.
const BATCH_BYTES: usize = 32 << 10;

/// Maximum time for which a stopped or finished flow waits until its queued messages are sent.
const LINGER: Duration = Duration::from_millis(500);

/// Maximum lateness of the runtime's own timer; the rest of a wait is left to a more exact one.
const COARSE: Duration = Duration::from_millis(2);

/// Makes an end whose messages are QUIC datagrams.
pub(crate) fn datagrams<R: ConnectionRole>(
    endpoint: S2nEndpoint<R>,
) -> MessageEnd<S2nEndpoint<R>, S2nFlow> {
    let end = endpoint.end.clone();
    let longest = usize::from(end.sizes.payload_bytes).saturating_sub(OVERHEAD_BYTES);
    let make = move |connection, stop: &Stop| {
        let queues = queues(&connection)?;
        // What stops the flow does not close the connection: what waits is sent first.
        let connection = S2nConnection::new(connection, &end, &Stop::new())?;
        stop.on_stop(&queues);
        Ok(S2nFlow {
            connection: Some(connection),
            queues,
            taken: VecDeque::new(),
            side: end.side,
        })
    };
    MessageEnd::new(endpoint, longest, false, make)
}

/// Datagrams of one connection, which is closed after the flow is dropped and all queued messages
/// are sent.
pub(crate) struct S2nFlow {
    /// Connection of the flow, taken when the flow is dropped.
    connection: Option<S2nConnection>,
    queues: Arc<Queues>,
    taken: VecDeque<Bytes>,
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
            .map_err(End::error)
    }

    async fn receive_batch(
        &mut self,
        moment: MonotonicTime,
        consume: &mut (impl FnMut(Arrival<'_>) + Send),
    ) -> Result<usize> {
        let (queues, taken) = (&self.queues, &mut self.taken);
        let arrived = poll_fn(|context| match queues.poll_arrived(taken, context) {
            // One that closed in good order sends no more: nothing comes until the moment.
            Poll::Ready(Err(End::Closed(error)))
                if is_done(&error) && moment != MonotonicTime::NEVER =>
            {
                Poll::Pending
            }
            arrived => arrived,
        });
        match until_exactly(moment, arrived).await {
            Some(Ok(())) => {}
            Some(Err(end)) => return Err(end.error()),
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

    fn facts(&self) -> Facts {
        let statistics = self.statistics();
        let mut facts = statistics.map_or_else(Facts::default, |statistics| statistics.facts());
        let (too_long, not_taken) = self.queues.dropped();
        let dropped = [
            ("quic.datagrams_too_long", too_long),
            ("quic.datagrams_not_taken", not_taken),
        ];
        facts.extend(of_end(self.side, dropped));
        facts
    }
}

impl Incoming for S2nEndpoint<Listening> {
    async fn next(&self) -> Result<Connection> {
        loop {
            if let Ok(connection) = self.attempted(&mut |_| true).await? {
                return Ok(connection);
            }
        }
    }

    async fn message(connection: &Connection) -> Result<Vec<u8>> {
        let queues = queues(connection)?;
        let message = poll_fn(|context| queues.poll_message(context)).await;
        message.map(Vec::from).map_err(End::error)
    }
}
