//! A connection of s2n-quic as a [`StreamConnection`].

use std::{collections::VecDeque, future::poll_fn, sync::Arc};

use regatta_model::reason;
use regatta_transport::{
    MonotonicTime, Result, StatisticsSource, StreamConnection, TransportError,
    stop::{Abort, Stop},
};
use s2n_quic::{
    Connection,
    application::Error as Code,
    connection::{Handle, StreamAcceptor},
};
use tokio::sync::Mutex;

use crate::{
    datagram::{self, OVERHEAD_BYTES, Queues, queues},
    end::{ABORTED, DONE, End},
    events::{Followed, Watch},
    statistics::Statistics,
    stream::{Held, S2nStream},
};
use regatta_transport_quic_common::options::FRAMES;
use regatta_transport_sockets::wait::{in_time, within, within_exactly};

/// Closes the connection when the trial, or the transfer, is stopped.
struct Closer(Handle);

impl Abort for Closer {
    fn abort(&self) {
        self.0.close(Code::from(ABORTED));
    }
}

/// An established connection; closed when dropped.
pub struct S2nConnection {
    closer: Arc<Closer>,
    acceptor: Mutex<StreamAcceptor>,
    queues: Arc<Queues>,
    watch: Arc<Watch>,
    statistics: Arc<Statistics>,
    end: End,
}

impl S2nConnection {
    /// Wraps a connection.
    ///
    /// # Errors
    /// [`TransportError::Stack`] if the stack has forgotten the connection.
    pub(crate) fn new(connection: Connection, end: &End, stop: &Stop) -> Result<Self> {
        let watch = connection
            .query_event_context(|followed: &Followed| Arc::clone(&followed.watch))
            .map_err(|error| {
                TransportError::stack(reason::quic_connection_not_followed())(error.to_string())
            })?;
        let queues = queues(&connection)?;
        let (handle, acceptor) = connection.split();
        let closer = Arc::new(Closer(handle));
        stop.on_stop(&closer);
        Ok(Self {
            closer,
            acceptor: Mutex::new(acceptor),
            queues,
            statistics: Arc::new(Statistics::new(Arc::clone(&watch), end.clone())),
            watch,
            end: end.clone(),
        })
    }

    fn held(&self) -> Option<Held> {
        let sizes = self.end.sizes;
        sizes.follows_congestion_window.then(|| Held {
            watch: Arc::clone(&self.watch),
            sizes,
        })
    }

    fn close_now(&self) {
        self.statistics.release();
        self.closer.0.close(Code::from(DONE));
    }
}

impl Drop for S2nConnection {
    fn drop(&mut self) {
        self.close_now();
    }
}

impl StreamConnection for S2nConnection {
    type Stream = S2nStream;

    const DATAGRAMS: &str = FRAMES;

    async fn open_stream(&self) -> Result<S2nStream> {
        self.closer
            .0
            .clone()
            .open_bidirectional_stream()
            .await
            .map(|stream| S2nStream::new(stream, self.held()))
            .map_err(TransportError::stack(reason::cannot_open_quic_stream()))
    }

    async fn accept_stream(&self, moment: MonotonicTime) -> Result<S2nStream> {
        let accepted = async {
            let mut acceptor = self.acceptor.lock().await;
            match acceptor.accept_bidirectional_stream().await {
                Ok(Some(stream)) => Ok(S2nStream::new(stream, self.held())),
                Ok(None) => Err(TransportError::Closed {
                    flow: "QUIC connection",
                }),
                Err(error) => Err(TransportError::stack(reason::no_quic_stream_opened())(
                    error,
                )),
            }
        };
        in_time(moment, reason::stream_of("QUIC"), accepted).await
    }

    fn statistics(&self) -> Arc<dyn StatisticsSource> {
        Arc::<Statistics>::clone(&self.statistics)
    }

    fn longest_datagram(&self) -> usize {
        // Both ends offer them. Where the stack searches for the packet size, both go by the first one.
        usize::from(self.end.sizes.first_payload_bytes).saturating_sub(OVERHEAD_BYTES)
    }

    fn send_datagram(&self, datagram: &[u8]) -> Result<()> {
        self.queues.send(datagram).map_err(datagram::End::error)
    }

    async fn receive_datagram(
        &self,
        until: MonotonicTime,
        consume: &mut (impl FnMut(&[u8]) + Send),
    ) -> Result<bool> {
        let mut arrived = VecDeque::new();
        let received = poll_fn(|context| self.queues.poll_arrived(&mut arrived, context));
        match within_exactly(until, received).await {
            None => return Ok(false),
            Some(received) => received.map_err(datagram::End::error)?,
        }
        arrived.iter().for_each(|message| consume(message));
        Ok(true)
    }

    async fn close(self, moment: MonotonicTime) {
        // Closing forgets what is not acknowledged. The end that sent last is the listening one,
        // so it waits for the connecting one to close, which has nothing under way any more.
        if self.end.connects {
            self.close_now();
        } else {
            let _ = within(moment, self.watch.closed()).await;
        }
    }
}
