//! A connection of the stack as a [`StreamConnection`].

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Waker},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{FutureExt as _, future::Shared as SharedFuture};
use regatta_model::reason;
use regatta_transport::{
    HandshakeMade, MonotonicTime, Result, StatisticsSource, StreamConnection, TransportError,
    stop::Stop,
};
use regatta_transport_tls::HandshakeWatch;
use tokio::{runtime::Handle, task::coop::unconstrained};

use regatta_transport_quic_common::{options::FRAMES, path::Sizes};
use regatta_transport_sockets::wait::{in_time, within, within_exactly};

use crate::{
    closer::{Closer, DONE, Shared},
    options::longest_message,
    send_window::SendWindow,
    stack::{
        self,
        quic::{ConnectionError, Side, ZeroRttAccepted},
    },
    statistics::Statistics,
    stream::QuicStream,
};

/// Handshake that a connection began with.
pub(crate) enum Beginning {
    /// Unknown: at a listening end, where clients may have used tickets.
    Unknown,
    /// Full handshake, as no tickets are issued.
    Full,
    /// Resumption, if there was a ticket and the other end accepted it.
    Ticket(Arc<HandshakeWatch>),
    /// Resumption with early data; the stack reports later whether that was accepted.
    EarlyData(SharedFuture<ZeroRttAccepted>, Arc<HandshakeWatch>),
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
        closer: Arc<Closer>,
        shared: Arc<Shared>,
        beginning: Beginning,
        stop: &Stop,
    ) -> Self {
        let sizes = shared.sizes;
        let statistics = Statistics::new(&closer, shared);
        stop.on_stop(&closer);
        Self {
            closer,
            statistics,
            beginning,
            sizes,
        }
    }

    fn send_window(&self) -> Option<SendWindow> {
        (self.sizes.follows_congestion_window)
            .then(|| SendWindow::new(self.closer.connection.clone(), self.sizes))
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
        let tickets = match &self.beginning {
            Beginning::Unknown | Beginning::Full => None,
            Beginning::Ticket(watch) | Beginning::EarlyData(_, watch) => Some(Arc::clone(watch)),
        };
        if let (Some(tickets), Ok(runtime)) = (tickets, Handle::try_current())
            && self.closer.connection.close_reason().is_none()
            && tickets
                .poll_ticket(&Context::from_waker(Waker::noop()))
                .is_pending()
        {
            // Closed now, it would take none, and the next connection had to begin without.
            let closer = Arc::clone(&self.closer);
            let within = patience(stack::stats(&self.closer.connection).1.rtt);
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

    const DATAGRAMS: &str = FRAMES;

    async fn open_stream(&self) -> Result<QuicStream> {
        let opened = self.closer.connection.open_bi().await;
        let early = match &self.beginning {
            Beginning::EarlyData(..) => Some(self.closer.connection.clone()),
            _ => None,
        };
        opened
            .map(|halves| QuicStream::new(halves, early, self.send_window()))
            .map_err(TransportError::stack(reason::cannot_open_quic_stream()))
    }

    async fn accept_stream(&self, moment: MonotonicTime) -> Result<QuicStream> {
        let accepted = async {
            let halves = self.closer.connection.accept_bi().await;
            halves.map_err(TransportError::stack(reason::no_quic_stream_opened()))
        };
        let halves = in_time(moment, reason::stream_of("QUIC"), accepted).await?;
        Ok(QuicStream::new(halves, None, self.send_window()))
    }

    fn handshake(&self) -> Option<HandshakeMade> {
        match &self.beginning {
            Beginning::Unknown => None,
            Beginning::Full => Some(HandshakeMade::Full),
            Beginning::Ticket(watch) if watch.certificate_seen() => Some(HandshakeMade::Full),
            Beginning::Ticket(_) => Some(HandshakeMade::Resumed),
            Beginning::EarlyData(early, _) => {
                // Outside of the runtime's budget: a look must not find nothing for want of a turn.
                let answer = unconstrained(early.clone()).now_or_never()?;
                Some(match answer {
                    true => HandshakeMade::EarlyDataTaken,
                    false => HandshakeMade::EarlyDataRefused,
                })
            }
        }
    }

    fn statistics(&self) -> Arc<dyn StatisticsSource> {
        Arc::<Statistics>::clone(&self.statistics)
    }

    fn longest_datagram(&self) -> usize {
        let allowed = self.closer.connection.max_datagram_size();
        // Where the stack searches for the packet size, both ends go by the first one.
        let longest = longest_message(self.sizes.first_payload_bytes);
        allowed.unwrap_or_default().min(longest)
    }

    fn send_datagram(&self, datagram: &[u8]) -> Result<()> {
        let datagram = Bytes::copy_from_slice(datagram);
        let sent = self.closer.connection.send_datagram(datagram);
        sent.map_err(TransportError::stack(reason::cannot_send_datagram_frame()))
    }

    async fn receive_datagram(
        &self,
        until: MonotonicTime,
        consume: &mut (impl FnMut(&[u8]) + Send),
    ) -> Result<bool> {
        let received = within_exactly(until, self.closer.connection.read_datagram()).await;
        let datagram = received.transpose().map_err(|error| match error {
            ConnectionError::ApplicationClosed(_) => TransportError::Closed { flow: "probe" },
            error => TransportError::stack(reason::no_datagram_frame())(error),
        })?;
        Ok(datagram.is_some_and(|datagram| {
            consume(&datagram);
            true
        }))
    }

    async fn close(self, moment: MonotonicTime) {
        // Closing forgets what is not acknowledged. The end that sent last is the listening one,
        // so it waits for the connecting one to close, which has nothing under way any more.
        match self.closer.connection.side() {
            Side::Server => {
                let _ = within(moment, self.closer.connection.closed()).await;
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
