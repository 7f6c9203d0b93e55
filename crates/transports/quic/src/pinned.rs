//! TLS 1.3 with a certificate made for the run: the connecting end accepts this one and no other.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use regatta_control::TlsMaterial;
use regatta_transport::TransportError;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, PeerMisbehaved, ServerConfig,
    SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs},
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime},
};

/// Application protocol of every QUIC connection between two ends (RFC 7301).
pub const ALPN: &[u8] = b"regatta";

/// The one cipher suite that is offered, so that every stack encrypts alike: the one that QUIC
/// cannot do without, as it protects Initial packets (RFC 9001 §5.2).
pub const CIPHER_SUITE: &str = "TLS13_AES_128_GCM_SHA256";

/// Accepts one certificate, byte by byte, from an end that proves to have its key.
#[derive(Debug)]
struct Pinned {
    certificate: CertificateDer<'static>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // The certificate was told over control for this run alone, so that its name and dates add
        // nothing to its bytes.
        if *end_entity == self.certificate && intermediates.is_empty() {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(CertificateError::UnknownIssuer.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

fn provider() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: vec![aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256],
        ..aws_lc_rs::default_provider()
    }
}

fn decode(base64: &str, what: &str) -> Result<Vec<u8>, TransportError> {
    BASE64.decode(base64).map_err(|_| TransportError::Order {
        what: format!("the {what} of the run is not base64"),
    })
}

fn certificate(material: &TlsMaterial) -> Result<CertificateDer<'static>, TransportError> {
    decode(&material.certificate_der_base64, "certificate").map(Into::into)
}

fn stack(error: Error) -> TransportError {
    TransportError::stack("cannot set up TLS")(error)
}

/// Configuration of the connecting end.
///
/// # Errors
/// [`TransportError::Order`] for a certificate that cannot be read.
pub fn client(material: &TlsMaterial) -> Result<ClientConfig, TransportError> {
    let provider = provider();
    let verifier = Pinned {
        certificate: certificate(material)?,
        algorithms: provider.signature_verification_algorithms,
    };
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(stack)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![ALPN.to_vec()];
    // Every connection of a trial makes a full handshake: none may profit from another.
    config.resumption = rustls::client::Resumption::disabled();
    Ok(config)
}

/// Configuration of the listening end.
///
/// # Errors
/// [`TransportError::Order`] for a certificate or key that is absent or cannot be read,
/// [`TransportError::Stack`] if they do not belong together.
pub fn server(material: &TlsMaterial) -> Result<ServerConfig, TransportError> {
    let key = material
        .key_der_base64
        .as_deref()
        .ok_or_else(|| TransportError::Order {
            what: "the listening end was given no key".to_owned(),
        })?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(decode(key, "key")?));
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(stack)?
        .with_no_client_auth()
        .with_single_cert(vec![certificate(material)?], key)
        .map_err(stack)?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.send_tls13_tickets = 0;
    Ok(config)
}
