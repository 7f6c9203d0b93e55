//! TLS of both ends, as the stack takes it.

use std::sync::Arc;

use regatta_control::TrialOrder;
use regatta_model::Handshake;
use regatta_transport::TransportError;
use regatta_transport_quic_common::files::Files;
use regatta_transport_tls::{self as tls, Crypto, Resumption};

use crate::stack::quic::{
    ClientConfig, ServerConfig, ValidationTokenConfig,
    crypto::rustls::{QuicClientConfig, QuicServerConfig},
};

/// Returns the configuration of a connecting end.
///
/// # Errors
/// As [`server_config`].
pub(crate) fn client_config(
    order: &TrialOrder,
    files: &Files,
    crypto: Crypto,
) -> Result<ClientConfig, TransportError> {
    let handshake = order.workload.kind.handshake();
    let mut config = tls::client(&order.tls, Some(tls::ALPN), resumption(handshake), crypto)?;
    if let Some(log) = files.key_log()? {
        config.key_log = log;
    }
    let crypto =
        QuicClientConfig::try_from(config).map_err(TransportError::stack("cannot set up TLS"))?;
    Ok(ClientConfig::new(Arc::new(crypto)))
}

/// Returns the configuration of a listening end.
///
/// # Errors
/// A certificate or key that TLS does not take, a key log that cannot be written.
pub(crate) fn server_config(
    order: &TrialOrder,
    files: &Files,
    crypto: Crypto,
) -> Result<ServerConfig, TransportError> {
    let handshake = order.workload.kind.handshake();
    let mut config = tls::server(&order.tls, Some(tls::ALPN), resumption(handshake), crypto)?;
    if let Some(log) = files.key_log()? {
        config.key_log = log;
    }
    let crypto =
        QuicServerConfig::try_from(config).map_err(TransportError::stack("cannot set up TLS"))?;
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    // A token for later connections would spare them the Retry that is asked for.
    let mut tokens = ValidationTokenConfig::default();
    tokens.sent(0);
    config.validation_token_config(tokens);
    Ok(config)
}

/// Returns the use of session tickets that a kind of handshake needs.
pub(crate) const fn resumption(handshake: Handshake) -> Resumption {
    match handshake {
        Handshake::Full | Handshake::Retry => Resumption::Off,
        Handshake::Resumed => Resumption::Tickets,
        Handshake::EarlyData => Resumption::EarlyData,
    }
}
