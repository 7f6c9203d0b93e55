//! TLS by BoringSSL, which accepts the run's certificate only, and the configuration of quiche.

use boring::{
    error::ErrorStack,
    hash::hmac_sha256,
    pkey::PKey,
    ssl::{
        SslAlert, SslContext, SslContextBuilder, SslMethod, SslOptions, SslVerifyError,
        SslVerifyMode,
    },
    x509::X509,
};
use regatta_control::TrialOrder;
use regatta_model::{Handshake, reason};
use regatta_transport::{Result, TransportError};
use regatta_transport_tls as tls;

use crate::options::Options;
use regatta_transport_quic_common::path::{INITIAL_WINDOW_PACKETS, Sizes, idle_timeout};

/// Maximum number of streams that an end may open at once: more than any workload opens.
const MAX_STREAMS: u64 = 4096;

/// Connection identifiers that an end keeps for the other one: one in use, some for a new path.
const CONNECTION_IDS: u64 = 4;

/// Datagrams that quiche holds for the application and for the network. Beside streams they are a probe's.
pub(crate) const DATAGRAM_QUEUE: usize = 4096;

/// The alert of an end that does not accept the other's certificate, as QUIC carries it: 0x100 and
/// the alert `bad_certificate` (RFC 9001 §4.8).
pub(crate) const BAD_CERTIFICATE: u64 = 0x100 + 42;

fn failed(error: ErrorStack) -> TransportError {
    TransportError::stack(reason::cannot_set_up_tls())(error)
}

fn refused(error: quiche::Error) -> TransportError {
    TransportError::stack(reason::cannot_set_up_quiche())(error)
}

/// Creates the client's TLS context, which accepts the run's certificate, byte for byte. BoringSSL
/// checks that the other end has its key.
fn client(order: &TrialOrder) -> Result<SslContextBuilder> {
    let pinned = tls::certificate(&order.tls)?;
    let mut builder = SslContext::builder(SslMethod::tls()).map_err(failed)?;
    builder.set_custom_verify_callback(SslVerifyMode::PEER, move |ssl| {
        let shown = ssl
            .peer_certificate()
            .and_then(|certificate| certificate.to_der().ok());
        if shown.as_deref() == Some(pinned.as_ref()) {
            Ok(())
        } else {
            Err(SslVerifyError::Invalid(SslAlert::BAD_CERTIFICATE))
        }
    });
    Ok(builder)
}

fn server(order: &TrialOrder) -> Result<SslContextBuilder> {
    let certificate = X509::from_der(&tls::certificate(&order.tls)?).map_err(failed)?;
    let key = tls::key(&order.tls)?;
    let key = PKey::private_key_from_pkcs8(key.secret_pkcs8_der()).map_err(failed)?;
    let mut builder = SslContext::builder(SslMethod::tls()).map_err(failed)?;
    builder.set_certificate(&certificate).map_err(failed)?;
    builder.set_private_key(&key).map_err(failed)?;
    builder.check_private_key().map_err(failed)?;
    Ok(builder)
}

/// Returns the quiche configuration for every connection of this end.
///
/// # Errors
/// [`TransportError::Order`] for a certificate or key that is absent or no base64,
/// [`TransportError::Stack`] if they do not belong together.
pub(crate) fn config(
    order: &TrialOrder,
    options: &Options,
    sizes: &Sizes,
) -> Result<quiche::Config> {
    let mut builder = if order.connects() {
        client(order)?
    } else {
        server(order)?
    };
    let handshake = order.workload.kind.handshake();
    if !tls::uses_tickets(handshake) {
        builder.set_options(SslOptions::NO_TICKET);
    }
    let mut config = quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, builder)
        .map_err(refused)?;
    config.set_curves_list(tls::KEY_EXCHANGE).map_err(refused)?;
    config
        .set_application_protos(&[tls::ALPN])
        .map_err(refused)?;
    if handshake == Handshake::EarlyData {
        config.enable_early_data();
    }
    config.grease(false);
    config.set_initial_congestion_window_packets(INITIAL_WINDOW_PACKETS.into());
    config.set_cc_algorithm(options.cc.algorithm());
    config.enable_hystart(options.hystart);
    config.enable_pacing(options.pacing);
    config.set_max_idle_timeout(idle_timeout(order).as_millis() as u64);
    config.set_max_recv_udp_payload_size(sizes.payload_bytes.into());
    config.set_max_send_udp_payload_size(sizes.payload_bytes.into());
    config.discover_pmtu(options.common.mtu_discovery);
    // The windows stay as they are: they hold what the path holds from the start.
    config.set_initial_max_data(sizes.windows.connection_bytes);
    config.set_max_connection_window(sizes.windows.connection_bytes);
    config.set_initial_max_stream_data_bidi_local(sizes.windows.stream_bytes);
    config.set_initial_max_stream_data_bidi_remote(sizes.windows.stream_bytes);
    config.set_max_stream_window(sizes.windows.stream_bytes);
    config.set_initial_max_streams_bidi(MAX_STREAMS);
    config.set_initial_max_streams_uni(0);
    config.set_active_connection_id_limit(CONNECTION_IDS);
    config.enable_dgram(true, DATAGRAM_QUEUE, DATAGRAM_QUEUE);
    if options.common.keylog {
        config.log_keys();
    }
    Ok(config)
}

/// Returns random bytes, for connection identifiers and keys of tokens.
///
/// # Errors
/// The system provides no random bytes.
pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    boring::rand::rand_bytes(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

/// Maker and verifier of the tokens of Retry packets (RFC 9000 §8.1.2), which prove that the other
/// end receives at its address, and carry the connection identifier that it chose first.
pub(crate) struct RetryTokens([u8; 32]);

const CODE_BYTES: usize = 32;

impl RetryTokens {
    pub fn new() -> Result<Self> {
        random().map(Self)
    }

    fn code(&self, from: std::net::SocketAddr, first: &[u8], retry: &[u8]) -> Option<[u8; 32]> {
        let mut data = from.to_string().into_bytes();
        data.push(first.len() as u8);
        data.extend_from_slice(first);
        data.extend_from_slice(retry);
        hmac_sha256(&self.0, &data).ok()
    }

    /// Returns a token for a peer that wrote to `first` and is to write to `retry`.
    pub fn make(&self, from: std::net::SocketAddr, first: &[u8], retry: &[u8]) -> Option<Vec<u8>> {
        let mut token = self.code(from, first, retry)?.to_vec();
        token.extend_from_slice(first);
        Some(token)
    }

    /// Returns the connection identifier that the peer wrote to first, if the token is authentic.
    pub fn read<'a>(
        &self,
        from: std::net::SocketAddr,
        token: &'a [u8],
        retry: &[u8],
    ) -> Option<&'a [u8]> {
        let (code, first) = token.split_at_checked(CODE_BYTES)?;
        let expected = self.code(from, first, retry)?;
        boring::memcmp::eq(code, &expected).then_some(first)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use super::*;

    #[test]
    fn retry_token_is_valid_only_for_its_address_and_connection_ids() {
        let tokens = RetryTokens::new().expect("random numbers");
        let from = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let token = tokens.make(from, b"first", b"retry").expect("a token");
        assert_eq!(tokens.read(from, &token, b"retry"), Some(&b"first"[..]));
        assert_eq!(tokens.read(from, &token, b"other"), None);
        let elsewhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 2));
        assert_eq!(tokens.read(elsewhere, &token, b"retry"), None);
        assert_eq!(tokens.read(from, &token[..20], b"retry"), None);
        assert_eq!(tokens.read(from, &[], b"retry"), None);
        for at in 0..token.len() {
            let mut changed = token.clone();
            changed[at] ^= 1;
            assert_eq!(tokens.read(from, &changed, b"retry"), None);
        }
    }
}
