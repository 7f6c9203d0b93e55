//! A connection with its only stream and its statistics.

use std::{
    collections::BTreeMap,
    os::fd::{AsRawFd, RawFd},
    sync::{
        Arc, Mutex, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
};

use regatta_model::stack;
use regatta_transport::{
    ByteStream, HandshakeMade, MonotonicTime, ProtocolSample, StatisticsSource, StreamConnection,
    TransportError,
};

use crate::{
    info,
    layer::{Layered, Opened},
    mptcp,
    socket::Connected,
};

/// A TCP connection under a `Layer`.
pub struct Connection<S> {
    statistics: Arc<Statistics>,
    /// The only stream, until it is taken.
    stream: Mutex<Option<S>>,
    opened: Arc<OnceLock<Opened>>,
}

impl<S: ByteStream> Connection<S> {
    /// Returns a connection over a socket of this end, `sender` or `receiver`. `facts` are those of
    /// the socket.
    pub(crate) fn new(
        socket: &Arc<Connected>,
        layered: Layered<S>,
        end: &'static str,
        facts: BTreeMap<String, String>,
        multipath: bool,
    ) -> Self {
        Self {
            statistics: Arc::new(Statistics {
                socket: Arc::downgrade(socket),
                opened: Arc::clone(&layered.opened),
                facts,
                subflows: multipath.then(Subflows::default),
                time_outs: Mutex::default(),
                end,
            }),
            stream: Mutex::new(Some(layered.stream)),
            opened: layered.opened,
        }
    }

    fn take(&self) -> Result<S, TransportError> {
        self.stream
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
            .ok_or_else(|| TransportError::Protocol {
                what: "a TCP connection has one stream".to_owned(),
            })
    }
}

impl<S: ByteStream> StreamConnection for Connection<S> {
    type Stream = S;

    async fn open_stream(&self) -> Result<S, TransportError> {
        self.take()
    }

    async fn accept_stream(&self, _until: MonotonicTime) -> Result<S, TransportError> {
        self.take()
    }

    fn handshake(&self) -> Option<HandshakeMade> {
        self.opened.get()?.handshake
    }

    fn statistics(&self) -> Arc<dyn StatisticsSource> {
        Arc::clone(&self.statistics) as Arc<dyn StatisticsSource>
    }

    async fn close(self, _until: MonotonicTime) {
        // Dropping the socket closes it, and the kernel goes on sending what is left.
    }
}

/// Statistics of a connection, readable while its socket is open.
struct Statistics {
    socket: Weak<Connected>,
    opened: Arc<OnceLock<Opened>>,
    facts: BTreeMap<String, String>,
    /// Subflows of an MPTCP connection.
    subflows: Option<Subflows>,
    /// Metrics of retransmission time-outs at the last sample: the connection may be closed before
    /// they are asked for.
    time_outs: Mutex<BTreeMap<&'static str, f64>>,
    end: &'static str,
}

/// Subflows of an MPTCP connection, updated at every sample.
#[derive(Default)]
struct Subflows {
    most: AtomicU8,
    last: AtomicU8,
    fell_back: AtomicBool,
}

impl Subflows {
    fn look(&self, socket: RawFd) {
        if let Some(state) = mptcp::state(socket) {
            let now = if state.fell_back {
                1
            } else {
                state.further_subflows.saturating_add(1)
            };
            self.most.fetch_max(now, Ordering::Relaxed);
            self.last.store(now, Ordering::Relaxed);
            self.fell_back.fetch_or(state.fell_back, Ordering::Relaxed);
        }
    }
}

impl StatisticsSource for Statistics {
    fn sample(&self) -> Option<ProtocolSample> {
        let socket = self.socket.upgrade()?;
        let descriptor = socket.0.as_raw_fd();
        match &self.subflows {
            None => {
                let (sample, time_outs) = info::sample_and_time_outs(descriptor)?;
                *self
                    .time_outs
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner) = time_outs;
                Some(sample)
            }
            Some(subflows) => {
                subflows.look(descriptor);
                mptcp::sample(descriptor)
            }
        }
    }

    fn metrics(&self) -> BTreeMap<&'static str, f64> {
        // The last figures of a socket that is still there.
        self.sample();
        self.time_outs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn facts(&self) -> BTreeMap<String, String> {
        let mut facts = self.facts.clone();
        facts.extend(
            self.opened
                .get()
                .into_iter()
                .flat_map(|opened| opened.facts.clone()),
        );
        let cipher = facts
            .get("tls.cipher_suite")
            .map(|suite| stack::cipher(suite));
        if let (Some(cipher), "sender") = (cipher, self.end) {
            facts.insert("cipher.sender".to_owned(), cipher);
        }
        if let Some(subflows) = &self.subflows {
            if let Some(socket) = self.socket.upgrade() {
                subflows.look(socket.0.as_raw_fd());
            }
            let mut fact = |name: &str, value: String| {
                facts.insert(format!("mptcp.{name}.{}", self.end), value);
            };
            let number = |of: &AtomicU8| of.load(Ordering::Relaxed).to_string();
            fact("subflows_most", number(&subflows.most));
            fact("subflows_at_end", number(&subflows.last));
            let fell_back = subflows.fell_back.load(Ordering::Relaxed);
            fact("fell_back_to_tcp", fell_back.to_string());
        }
        facts
    }
}
