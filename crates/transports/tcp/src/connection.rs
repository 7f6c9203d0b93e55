//! A connection with its only stream and its statistics.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock, Weak},
};

use parking_lot::Mutex;
use regatta_model::{Facts, reason, stack};
use regatta_transport::{
    ByteStream, HandshakeMade, MonotonicTime, ProtocolSample, Result, StatisticsSource,
    StreamConnection, TransportError,
};

use crate::{
    info,
    layered::{Layered, Opened},
    mptcp, settings,
    socket::Connected,
};

/// A TCP connection under a `Layer`.
pub struct Connection<S> {
    statistics: Arc<Statistics>,
    /// The only stream, until it is taken.
    stream: Mutex<Option<S>>,
}

impl<S: ByteStream> Connection<S> {
    /// Returns a connection over a socket of this end, `sender` or `receiver`. `facts` are those of
    /// the socket.
    pub(crate) fn new(
        socket: &Arc<Connected>,
        layered: Layered<S>,
        end: &'static str,
        facts: Facts,
        multipath: bool,
    ) -> Self {
        Self {
            statistics: Arc::new(Statistics {
                socket: Arc::downgrade(socket),
                opened: layered.opened,
                facts,
                subflows: multipath.then(Mutex::default),
                time_outs: Mutex::default(),
                end,
            }),
            stream: Mutex::new(Some(layered.stream)),
        }
    }

    fn take(&self) -> Result<S> {
        let stream = self.stream.lock().take();
        stream.ok_or_else(|| TransportError::protocol(reason::one_tcp_stream()))
    }
}

impl<S: ByteStream> StreamConnection for Connection<S> {
    type Stream = S;

    async fn open_stream(&self) -> Result<S> {
        self.take()
    }

    async fn accept_stream(&self, _until: MonotonicTime) -> Result<S> {
        self.take()
    }

    fn handshake(&self) -> Option<HandshakeMade> {
        self.statistics.opened.get()?.handshake
    }

    fn lift_rate(&self) {
        if let Some(socket) = self.statistics.socket.upgrade() {
            // What the kernel lets everybody set to any value.
            let _ = settings::set_rate(&socket.0, u64::MAX);
        }
    }

    fn statistics(&self) -> Arc<dyn StatisticsSource> {
        Arc::<Statistics>::clone(&self.statistics)
    }

    async fn close(self, _until: MonotonicTime) {
        // Dropping the socket closes it, and the kernel goes on sending what is left.
    }
}

/// Statistics of a connection, readable while its socket is open.
struct Statistics {
    socket: Weak<Connected>,
    opened: Arc<OnceLock<Opened>>,
    facts: Facts,
    /// Subflows of an MPTCP connection.
    subflows: Option<Mutex<Subflows>>,
    /// Metrics of retransmission time-outs at the last sample: the connection may be closed before
    /// they are asked for.
    time_outs: Mutex<BTreeMap<&'static str, f64>>,
    end: &'static str,
}

/// Numbers of subflows of an MPTCP connection, updated at every sample.
#[derive(Default)]
struct Subflows {
    most: u8,
    last: u8,
    fell_back: bool,
}

impl Subflows {
    fn update(&mut self, socket: &Connected) {
        if let Some((now, fell_back)) = mptcp::state(&socket.0) {
            self.most = self.most.max(now);
            self.last = now;
            self.fell_back |= fell_back;
        }
    }
}

impl StatisticsSource for Statistics {
    fn sample(&self) -> Option<ProtocolSample> {
        let socket = self.socket.upgrade()?;
        if let Some(subflows) = &self.subflows {
            subflows.lock().update(&socket);
            return mptcp::sample(&socket.0);
        }
        let (sample, time_outs) = info::sample_and_time_outs(&socket.0)?;
        *self.time_outs.lock() = time_outs;
        Some(sample)
    }

    fn metrics(&self) -> BTreeMap<&'static str, f64> {
        // The last figures of a socket that is still there.
        self.sample();
        self.time_outs.lock().clone()
    }

    fn facts(&self) -> Facts {
        let mut facts = self.facts.clone();
        if let Some(opened) = self.opened.get() {
            facts.extend(opened.facts.clone());
        }
        if let (Some(suite), "sender") = (facts.get("tls.cipher_suite"), self.end) {
            let cipher = stack::cipher(suite);
            facts.insert("cipher.sender".to_owned(), cipher);
        }
        if let Some(subflows) = &self.subflows {
            let mut subflows = subflows.lock();
            if let Some(socket) = self.socket.upgrade() {
                subflows.update(&socket);
            }
            let mut fact = |name: &str, value: String| {
                facts.insert(format!("mptcp.{name}.{}", self.end), value);
            };
            fact("subflows_most", subflows.most.to_string());
            fact("subflows_at_end", subflows.last.to_string());
            fact("fell_back_to_tcp", subflows.fell_back.to_string());
        }
        facts
    }
}
