//! A connection of quinn as a [`StreamConnection`].

use std::{future::Future, sync::Arc, time::Duration};

use quinn::{Connection, Endpoint, Side, VarInt};
use regatta_transport::{
    MonotonicTime, StatisticsSource, StreamConnection, TransportError,
    stop::{Abort, Stop},
};

use super::{controller::Watch, statistics::Statistics, stream::QuinnStream};
use crate::socket::Counters;

/// Application error code of a connection that is closed in good order.
pub(super) const DONE: VarInt = VarInt::from_u32(0);

/// Application error code of a connection, or a stream, that was aborted, by the deadline or from outside.
pub(super) const ABORTED: VarInt = VarInt::from_u32(1);

/// What came of a future that had until a moment.
pub(super) enum Timed<T> {
    Done(T),
    Late,
}

/// Runs a future that may be dropped, at most until the moment. Once a moment has passed, it is
/// still polled once.
pub(super) async fn until<F: Future>(moment: MonotonicTime, future: F) -> Timed<F::Output> {
    if moment == MonotonicTime::NEVER {
        return Timed::Done(future.await);
    }
    match tokio::time::timeout(moment.remaining(), future).await {
        Ok(output) => Timed::Done(output),
        Err(_) => Timed::Late,
    }
}

/// Waiting time for an error, from the moment when the wait began.
pub(super) fn timed_out(what: impl Into<String>, since: MonotonicTime) -> TransportError {
    TransportError::TimedOut {
        what: what.into(),
        seconds: MonotonicTime::now().since(since).as_secs_f64(),
    }
}

/// Closes the connection when the trial, or the transfer, is stopped.
struct Closer {
    connection: Connection,
    watch: Arc<Watch>,
}

impl Closer {
    fn close(&self, code: VarInt, reason: &[u8]) {
        self.watch.close();
        self.connection.close(code, reason);
    }
}

impl Abort for Closer {
    fn abort(&self) {
        self.close(ABORTED, b"stopped");
    }
}

/// An established connection; closed when dropped.
pub struct QuinnConnection {
    endpoint: Endpoint,
    closer: Arc<Closer>,
    statistics: Arc<Statistics>,
}

impl QuinnConnection {
    pub(super) fn new(
        endpoint: Endpoint,
        connection: Connection,
        watch: Arc<Watch>,
        counters: Arc<Counters>,
        stop: &Stop,
    ) -> Self {
        let side = match connection.side() {
            Side::Client => "sender",
            Side::Server => "receiver",
        };
        let statistics = Statistics::new(connection.clone(), Arc::clone(&watch), side, counters);
        let closer = Arc::new(Closer { connection, watch });
        stop.on_stop(&closer);
        Self {
            endpoint,
            closer,
            statistics,
        }
    }

    fn connection(&self) -> &Connection {
        &self.closer.connection
    }
}

impl Drop for QuinnConnection {
    fn drop(&mut self) {
        self.statistics.release();
        self.closer.close(DONE, b"done");
    }
}

impl StreamConnection for QuinnConnection {
    type Stream = QuinnStream;

    async fn open_stream(&self) -> Result<QuinnStream, TransportError> {
        self.connection()
            .open_bi()
            .await
            .map(QuinnStream::new)
            .map_err(TransportError::stack("cannot open a QUIC stream"))
    }

    async fn accept_stream(&self, moment: MonotonicTime) -> Result<QuinnStream, TransportError> {
        let since = MonotonicTime::now();
        match until(moment, self.connection().accept_bi()).await {
            Timed::Done(accepted) => accepted
                .map(QuinnStream::new)
                .map_err(TransportError::stack("no QUIC stream was opened")),
            Timed::Late => Err(timed_out("QUIC stream", since)),
        }
    }

    fn statistics(&self) -> Arc<dyn StatisticsSource> {
        Arc::<Statistics>::clone(&self.statistics)
    }

    async fn close(self, moment: MonotonicTime) {
        // Closing forgets what is not acknowledged. The end that sent last is the listening one,
        // so it waits for the connecting one to close, which has nothing under way any more.
        match self.connection().side() {
            Side::Server => {
                let _ = until(moment, self.connection().closed()).await;
            }
            Side::Client => {
                let connection = self.connection();
                // Should the packet that closes be lost, it is sent again in answer to whatever
                // the other end says for three probe timeouts; RFC 9000 §10.2.
                let draining = 3 * (2 * connection.rtt() + Duration::from_millis(25));
                let moment = moment.min(MonotonicTime::now() + draining);
                self.statistics.release();
                self.closer.close(DONE, b"done");
                let _ = until(moment, self.endpoint.wait_idle()).await;
            }
        }
    }
}
