//! TLS of both ends, as the stack takes it.

use std::sync::Arc;

use regatta_control::TrialOrder;
use regatta_model::reason;
use regatta_transport::{Result, TransportError};
use regatta_transport_quic_common::files::Files;
use regatta_transport_tls::{self as tls, Crypto};

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
) -> Result<ClientConfig> {
    let handshake = order.workload.kind.handshake();
    let mut config = tls::client(&order.tls, Some(tls::ALPN), handshake, crypto)?;
    config.key_log = files.key_log()?;
    let crypto = QuicClientConfig::try_from(config)
        .map_err(TransportError::stack(reason::cannot_set_up_tls()))?;
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
) -> Result<ServerConfig> {
    let handshake = order.workload.kind.handshake();
    let mut config = tls::server(&order.tls, Some(tls::ALPN), handshake, crypto)?;
    config.key_log = files.key_log()?;
    let crypto = QuicServerConfig::try_from(config)
        .map_err(TransportError::stack(reason::cannot_set_up_tls()))?;
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    // A token for later connections would spare them the Retry that is configured.
    let mut tokens = ValidationTokenConfig::default();
    tokens.sent(0);
    config.validation_token_config(tokens);
    Ok(config)
}
