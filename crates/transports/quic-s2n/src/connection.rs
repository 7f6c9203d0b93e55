//! A connection of s2n-quic as a [`StreamConnection`].

use std::sync::Arc;

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
    end::{ABORTED, DONE, End},
    events::{Followed, Watch},
    statistics::Statistics,
    stream::{Held, S2nStream},
};
use regatta_transport_sockets::wait::{in_time, within};

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
                TransportError::stack("the QUIC connection is not followed")(error.to_string())
            })?;
        let (handle, acceptor) = connection.split();
        let closer = Arc::new(Closer(handle));
        stop.on_stop(&closer);
        Ok(Self {
            closer,
            acceptor: Mutex::new(acceptor),
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

    async fn open_stream(&self) -> Result<S2nStream> {
        self.closer
            .0
            .clone()
            .open_bidirectional_stream()
            .await
            .map(|stream| S2nStream::new(stream, self.held()))
            .map_err(TransportError::stack("cannot open a QUIC stream"))
    }

    async fn accept_stream(&self, moment: MonotonicTime) -> Result<S2nStream> {
        let accepted = async {
            let mut acceptor = self.acceptor.lock().await;
            match acceptor.accept_bidirectional_stream().await {
                Ok(Some(stream)) => Ok(S2nStream::new(stream, self.held())),
                Ok(None) => Err(TransportError::Closed {
                    flow: "QUIC connection",
                }),
                Err(error) => Err(TransportError::stack("no QUIC stream was opened")(error)),
            }
        };
        in_time(moment, "QUIC stream", accepted).await
    }

    fn statistics(&self) -> Arc<dyn StatisticsSource> {
        Arc::<Statistics>::clone(&self.statistics)
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
