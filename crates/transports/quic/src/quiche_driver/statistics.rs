//! Statistics of a quiche connection, readable from another thread.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Instant,
};

use boring::ssl::SslRef;
use regatta_model::stack;
use regatta_transport::{HandshakeMade, ProtocolSample, StatisticsSource, WindowLimited};
use regatta_transport_tls as tls;

use super::{
    connection::Handle,
    entry::{Entry, Quiche},
    options::Options,
};
use crate::{blocked::Blocked, options::Mode, socket::Counters};

/// Cipher suite whose name quiche spells differently from other stacks (RFC 8446 §B.4).
const AES_128_GCM: u16 = 0x1301;

/// Access to a connection's statistics, and its facts after it is gone.
pub(super) struct Statistics {
    handle: Weak<Handle>,
    /// `sender` or `receiver`.
    side: &'static str,
    options: Options,
    counters: Arc<Counters>,
    blocked: Mutex<Blocked>,
    /// Facts recorded when the connection was closed.
    closed: Mutex<Option<BTreeMap<String, String>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that can panic runs under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
            blocked: Mutex::new(Blocked::new(Instant::now())),
            closed: Mutex::new(None),
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        self.handle.upgrade()?.with(act).ok()
    }

    /// Records the facts of a connection that is about to be closed.
    pub fn release(&self) {
        let mut closed = lock(&self.closed);
        if closed.is_none() {
            *closed = self.with(|entry| self.facts_of(entry));
        }
    }

    fn facts_of(&self, entry: &mut Entry) -> BTreeMap<String, String> {
        let side = self.side;
        let quiche = &mut entry.quiche;
        let stats = quiche.stats();
        let control = self.options.congestion_control;
        // quiche does not say which one runs, but of which of its two families.
        let of_bbr = quiche.gcongestion_enabled();
        let runs = if of_bbr == Some(control.paces()) {
            control.name()
        } else {
            "unknown"
        };
        let mut facts: BTreeMap<String, String> = BTreeMap::from([
            ("tls.version".to_owned(), "1.3".to_owned()),
            ("tls.cipher_suite".to_owned(), cipher_suite(quiche)),
            ("quic.version".to_owned(), "1".to_owned()),
            (
                "tls.alpn".to_owned(),
                String::from_utf8_lossy(quiche.application_proto()).into_owned(),
            ),
            (
                format!("retransmitted_packets.{side}"),
                "packets declared lost (RFC 9002); QUIC sends their content again in new packets"
                    .to_owned(),
            ),
        ]);
        let cipher = stack::cipher(&facts["tls.cipher_suite"]);
        let mut fact = |name: &str, value: String| {
            facts.insert(format!("{name}.{side}"), value);
        };
        if side == "sender" {
            fact("cipher", cipher);
        }
        fact("congestion_control", runs.to_owned());
        fact(
            "udp_payload_bytes",
            quiche.max_send_udp_payload_size().to_string(),
        );
        fact(
            "quic.flow_control_blocked_frames",
            blocked_frames(&stats).to_string(),
        );
        fact(
            "quic.spuriously_lost_packets",
            stats.spurious_lost.to_string(),
        );
        if let Some(drops) = self.counters.receive_buffer_drops() {
            fact("receive_buffer_drops", drops.to_string());
        }
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
            let migration = migration.in_words(&entry.quiche);
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

/// Returns the number of frames that tell the other end that a flow-control window holds this end
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
        // quiche does not say what is in flight. What was sent and is neither acknowledged nor
        // lost is more than that by the packets of acknowledgements alone, of which a sender has few.
        let gone = stats.acked_bytes.saturating_add(stats.lost_bytes);
        let in_flight = stats.sent_bytes.saturating_sub(gone);
        let frames = blocked_frames(&stats);
        let window = path.cwnd as u64;
        let limited = lock(&self.blocked).add(Instant::now(), frames, in_flight, window);
        Some(ProtocolSample {
            smoothed_rtt: Some(path.rtt),
            min_rtt: path.min_rtt,
            congestion_window_bytes: Some(window),
            bytes_in_flight: Some(in_flight),
            packets_sent: Some(stats.sent as u64),
            retransmitted_packets: Some(stats.lost as u64),
            congestion_events: None,
            window_limited: Some(WindowLimited {
                time: limited,
                hint: "set the transport's option `stream_window` to a larger size",
            }),
        })
    }

    fn facts(&self) -> BTreeMap<String, String> {
        let closed = lock(&self.closed).clone();
        closed
            .or_else(|| self.with(|entry| self.facts_of(entry)))
            .unwrap_or_default()
    }
}
