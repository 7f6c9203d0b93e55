//! Statistics of a quiche connection, readable from another thread.

use std::sync::{Arc, Weak};

use boring::ssl::SslRef;
use parking_lot::Mutex;
use regatta_model::Facts;
use regatta_transport::{HandshakeMade, ProtocolSample, StatisticsSource};
use regatta_transport_tls as tls;

use crate::{
    entry::{Entry, Quiche},
    options::Options,
    protocol::Handle,
};
use regatta_transport_quic_common::{blocked::Blocked, facts::ConnectionFacts, options::Mode};
use regatta_transport_sockets::socket::Counters;

/// Cipher suite whose name quiche spells differently from other stacks (RFC 8446 §B.4).
const AES_128_GCM: u16 = 0x1301;

/// Access to a connection's statistics, and its facts after its end.
pub(crate) struct Statistics {
    handle: Weak<Handle>,
    /// `sender` or `receiver`.
    side: &'static str,
    options: Options,
    counters: Arc<Counters>,
    blocked: Blocked,
    /// Facts recorded when the connection was closed.
    closed: Mutex<Option<Facts>>,
}

impl Statistics {
    pub fn new(
        handle: &Arc<Handle>,
        side: &'static str,
        options: Options,
        counters: Arc<Counters>,
    ) -> Arc<Self> {
        Arc::new(Self {
            handle: handle.weak(),
            side,
            options,
            counters,
            blocked: Blocked::default(),
            closed: Mutex::default(),
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        self.handle.upgrade()?.with(act).ok()
    }

    /// Records the facts of a connection that is about to be closed.
    pub fn release(&self) {
        let mut closed = self.closed.lock();
        if closed.is_none() {
            *closed = self.with(|entry| self.facts_of(entry));
        }
    }

    fn facts_of(&self, entry: &mut Entry) -> Facts {
        let quiche = &mut entry.quiche;
        let stats = quiche.stats();
        let control = self.options.cc;
        // quiche does not expose which one runs, but of which of its two families it is.
        let runs = quiche.gcongestion_enabled() == Some(control.paces());
        let cipher_suite = cipher_suite(quiche);
        let facts = ConnectionFacts {
            congestion_control: runs.then(|| control.into_str()),
            cipher_suite: Some(&cipher_suite),
            alpn: Some(quiche.application_proto()),
            payload_bytes: quiche.max_send_udp_payload_size(),
            blocked_frames: Some(blocked_frames(&stats)),
            receive_buffer_drops: self.counters.receive_buffer_drops(),
        };
        let mut facts = facts.of_end(self.side);
        let mut fact = |name: &str, value: String| {
            facts.insert(format!("{name}.{}", self.side), value);
        };
        fact(
            "quic.spuriously_lost_packets",
            stats.spurious_lost.to_string(),
        );
        if self.options.common.mode == Mode::Datagram {
            fact(
                "quic.datagrams_not_taken",
                entry.datagrams_not_taken().to_string(),
            );
        }
        let handshake = match entry.handshake() {
            HandshakeMade::Full => "full",
            HandshakeMade::Resumed => "resumed",
            HandshakeMade::EarlyDataTaken => "0-RTT",
            HandshakeMade::EarlyDataRefused => "0-RTT, refused",
        };
        fact("quic.handshake", handshake.to_owned());
        if let Some(migration) = &entry.migration {
            let migration = migration.describe(&entry.quiche);
            facts.insert("migration".to_owned(), migration);
        }
        facts
    }
}

fn cipher_suite(quiche: &mut Quiche) -> String {
    let ssl: &mut SslRef = quiche.as_mut();
    match ssl.current_cipher() {
        Some(cipher) if cipher.protocol_id() == AES_128_GCM => tls::CIPHER_SUITE.to_owned(),
        Some(cipher) => cipher.standard_name().unwrap_or(cipher.name()).to_owned(),
        None => "none".to_owned(),
    }
}

/// Returns the number of frames that report to the other end that a flow-control window holds this end
/// back.
fn blocked_frames(stats: &quiche::Stats) -> u64 {
    stats.data_blocked_sent_count + stats.stream_data_blocked_sent_count
}

impl StatisticsSource for Statistics {
    fn sample(&self) -> Option<ProtocolSample> {
        let (stats, path) = self.with(|entry| {
            if entry.end.is_some() {
                return None;
            }
            let path = entry.quiche.path_stats().find(|path| path.active)?;
            Some((entry.quiche.stats(), path))
        })??;
        // quiche does not expose the bytes in flight. What was sent and is neither acknowledged nor
        // lost is more than that by the packets of acknowledgements alone, of which a sender has few.
        let left_network = stats.acked_bytes.saturating_add(stats.lost_bytes);
        let in_flight = stats.sent_bytes.saturating_sub(left_network);
        let frames = blocked_frames(&stats);
        let window = path.cwnd as u64;
        Some(ProtocolSample {
            smoothed_rtt: Some(path.rtt),
            min_rtt: path.min_rtt,
            congestion_window_bytes: Some(window),
            bytes_in_flight: Some(in_flight),
            packets_sent: Some(stats.sent as u64),
            retransmitted_packets: Some(stats.lost as u64),
            congestion_events: None,
            window_limited: Some(self.blocked.sample(frames, in_flight, window)),
        })
    }

    fn facts(&self) -> Facts {
        let closed = self.closed.lock().clone();
        closed
            .or_else(|| self.with(|entry| self.facts_of(entry)))
            .unwrap_or_default()
    }
}
