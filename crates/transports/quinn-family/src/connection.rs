//! A connection of the stack as a [`StreamConnection`].

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use regatta_transport::{
    HandshakeMade, MonotonicTime, StatisticsSource, StreamConnection, TransportError,
    stop::{Abort, Stop},
};
use regatta_transport_tls::HandshakeWatch;
use tokio::{runtime::Handle, task::coop::unconstrained};

use regatta_transport_quic_common::{files::Files, path::Sizes};
use regatta_transport_sockets::wait::{timed_out, within};

use crate::{
    drops::Drops,
    migration::Migration,
    send_window::SendWindow,
    stack::{
        self,
        quic::{Connection, Side, VarInt, ZeroRttAccepted},
    },
    statistics::Statistics,
    stream::QuicStream,
    watch::Watch,
};

/// Application error code of a connection that is closed in good order.
pub(crate) const DONE: VarInt = VarInt::from_u32(0);

/// Application error code of a connection, or a stream, that was aborted, by the deadline or from
/// outside.
pub(crate) const ABORTED: VarInt = VarInt::from_u32(1);

/// State that all connections of one end share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// `sender` or `receiver`.
    pub(crate) end: &'static str,
    /// UDP payload of a connection's first packets, in bytes.
    pub(crate) initial_payload_bytes: u16,
    pub(crate) drops: Arc<Drops>,
    pub(crate) files: Files,
    /// Whether every connection begins with a Retry packet.
    pub(crate) retries: bool,
    pub(crate) sizes: Sizes,
    /// Migration, at an end that migrates.
    pub(crate) migration: Option<Migration>,
}

/// Handshake that a connection began with.
pub(crate) enum Beginning {
    /// Unknown: at a listening end, where clients may have used tickets.
    Unknown,
    /// Full handshake, as no tickets are issued.
    Full,
    /// Resumption, if there was a ticket and the other end accepted it.
    Ticket(Arc<HandshakeWatch>),
    /// Resumption with early data; the stack reports later whether that was accepted.
    EarlyData(Mutex<EarlyData>, Arc<HandshakeWatch>),
}

impl Beginning {
    pub(crate) fn early(accepted: ZeroRttAccepted, watch: Arc<HandshakeWatch>) -> Self {
        Self::EarlyData(Mutex::new(EarlyData::Sent(accepted)), watch)
    }

    /// Returns the watch on the handshake, at a connecting end that uses tickets.
    fn watch(&self) -> Option<&Arc<HandshakeWatch>> {
        match self {
            Self::Unknown | Self::Full => None,
            Self::Ticket(watch) | Self::EarlyData(_, watch) => Some(watch),
        }
    }
}

/// State of the data in the first flight.
pub(crate) enum EarlyData {
    /// Sent; the other end has not answered yet.
    Sent(ZeroRttAccepted),
    /// Accepted (`true`) or rejected by the other end.
    Answered(bool),
}

impl EarlyData {
    /// Whether early data was accepted, as far as is known now.
    fn answer(&mut self) -> Option<bool> {
        if let Self::Sent(accepted) = self {
            // Outside of the runtime's budget: a look must not find nothing for want of a turn.
            let mut accepted = unconstrained(accepted);
            match Pin::new(&mut accepted).poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(taken) => *self = Self::Answered(taken),
                Poll::Pending => return None,
            }
        }
        match self {
            Self::Answered(taken) => Some(*taken),
            Self::Sent(_) => None,
        }
    }
}

/// Closes the connection when the trial, or the transfer, is stopped.
pub(crate) struct Closer {
    pub(crate) connection: Connection,
    pub(crate) watch: Arc<Watch>,
}

impl Closer {
    pub(crate) fn new(connection: Connection, watch: Arc<Watch>) -> Arc<Self> {
        Arc::new(Self { connection, watch })
    }

    pub(crate) fn close(&self, code: VarInt, reason: &[u8]) {
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
pub struct QuicConnection {
    closer: Arc<Closer>,
    statistics: Arc<Statistics>,
    beginning: Beginning,
    sizes: Sizes,
}

impl QuicConnection {
    pub(crate) fn new(
        (connection, watch): (Connection, Arc<Watch>),
        shared: Arc<Shared>,
        beginning: Beginning,
        stop: &Stop,
    ) -> Self {
        let sizes = shared.sizes;
        let statistics = Statistics::new(connection.clone(), Arc::clone(&watch), shared);
        let closer = Closer::new(connection, watch);
        stop.on_stop(&closer);
        Self {
            closer,
            statistics,
            beginning,
            sizes,
        }
    }

    pub(crate) fn closer(&self) -> &Arc<Closer> {
        &self.closer
    }

    fn connection(&self) -> &Connection {
        &self.closer.connection
    }

    fn send_window(&self) -> Option<SendWindow> {
        (self.sizes.follows_congestion_window)
            .then(|| SendWindow::new(self.connection().clone(), self.sizes))
    }
}

/// Returns the maximum time for which a finished connection waits for tickets: they follow the end
/// of the handshake, which early data does not wait for. Three probe timeouts, as elsewhere.
fn patience(rtt: Duration) -> Duration {
    3 * (2 * rtt + Duration::from_millis(25))
}

impl Drop for QuicConnection {
    fn drop(&mut self) {
        self.statistics.release();
        let tickets = self.beginning.watch().map(Arc::clone);
        if let (Some(tickets), Ok(runtime)) = (tickets, Handle::try_current())
            && self.connection().close_reason().is_none()
            && tickets
                .poll_ticket(&Context::from_waker(Waker::noop()))
                .is_pending()
        {
            // Closed now, it would take none, and the next connection had to begin without.
            let closer = Arc::clone(&self.closer);
            let within = patience(stack::figures(self.connection()).smoothed_rtt);
            runtime.spawn(async move {
                let ticket = poll_fn(|context| tickets.poll_ticket(context));
                let _ = tokio::time::timeout(within, ticket).await;
                closer.close(DONE, b"done");
            });
        } else {
            self.closer.close(DONE, b"done");
        }
    }
}

impl StreamConnection for QuicConnection {
    type Stream = QuicStream;

    async fn open_stream(&self) -> Result<QuicStream, TransportError> {
        let opened = self.connection().open_bi().await;
        let early = match &self.beginning {
            Beginning::EarlyData(..) => Some(self.connection().clone()),
            _ => None,
        };
        opened
            .map(|halves| QuicStream::new(halves, early, self.send_window()))
            .map_err(TransportError::stack("cannot open a QUIC stream"))
    }

    async fn accept_stream(&self, moment: MonotonicTime) -> Result<QuicStream, TransportError> {
        let since = MonotonicTime::now();
        match within(moment, self.connection().accept_bi()).await {
            Some(accepted) => accepted
                .map(|halves| QuicStream::new(halves, None, self.send_window()))
                .map_err(TransportError::stack("no QUIC stream was opened")),
            None => Err(timed_out("QUIC stream", since)),
        }
    }

    fn handshake(&self) -> Option<HandshakeMade> {
        match &self.beginning {
            Beginning::Unknown => None,
            Beginning::Full => Some(HandshakeMade::Full),
            Beginning::Ticket(watch) if watch.certificate_seen() => Some(HandshakeMade::Full),
            Beginning::Ticket(_) => Some(HandshakeMade::Resumed),
            Beginning::EarlyData(early, _) => {
                let answer = early
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .answer()?;
                Some(if answer {
                    HandshakeMade::EarlyDataTaken
                } else {
                    HandshakeMade::EarlyDataRefused
                })
            }
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
                let _ = within(moment, self.connection().closed()).await;
            }
            Side::Client => {
                self.statistics.release();
                self.closer.close(DONE, b"done");
                // The packet that closes leaves before another connection begins.
                tokio::task::yield_now().await;
            }
        }
    }
}
