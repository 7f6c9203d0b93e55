//! TLS 1.3 with a certificate made for the run, for every driver whose stack takes its TLS from
//! rustls: the connecting end accepts this certificate and no other, and all encrypt alike.

mod key_log;
mod pinned;
mod tickets;
mod watch;

use std::sync::{Arc, OnceLock};

pub use key_log::key_log;
pub use watch::HandshakeWatch;

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use pinned::PinnedCertificate;
use regatta_control::TlsMaterial;
use regatta_model::{Handshake, Phrase, Problem, Text, fact, reason};
use regatta_transport::{
    Result, TransportError,
    options::{Choice, TypedOption},
};
use rustls::{
    ClientConfig, ServerConfig, SupportedProtocolVersion,
    client::Resumption,
    crypto::{CryptoProvider, aws_lc_rs, ring},
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
    version::TLS13,
};
use strum::{EnumString, VariantNames};
use tickets::Tickets;

/// Application protocol of every QUIC connection between two ends (RFC 7301).
pub const ALPN: &[u8] = b"regatta";

/// The one cipher suite that is offered, so that every stack encrypts alike: the one that QUIC
/// cannot do without, as it protects Initial packets (RFC 9001 §5.2).
pub const CIPHER_SUITE: &str = "TLS13_AES_128_GCM_SHA256";

/// The one group of key exchange that is offered: others take more computation, or a second Initial packet.
pub const KEY_EXCHANGE: &str = "X25519";

/// Kinds of keys in certificates, by their object identifiers in DER (RFC 5480 §2.1.1, RFC 8410 §3, RFC 8017 A.1).
const KEY_KINDS: &[(&[u8], &str)] = &[
    (b"\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07", "ECDSA P-256"),
    (b"\x06\x05\x2b\x81\x04\x00\x22", "ECDSA P-384"),
    (b"\x06\x03\x2b\x65\x70", "Ed25519"),
    (b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01", "RSA"),
];

/// The only version that is supported.
const VERSIONS: &[&SupportedProtocolVersion] = &[&TLS13];

/// Early data that a listening end takes over QUIC: RFC 9001 §4.6.1 knows no other size, as
/// QUIC's own flow control limits it.
const QUIC_EARLY_DATA_BYTES: u32 = u32::MAX;

/// Tickets that a listening end gives for each handshake. A connection uses one and gets this many,
/// a round trip after its early data was answered: meanwhile others can begin.
const TICKETS: usize = 4;

/// Returns the definition of the option that chooses the library of the encryption, of a driver whose
/// stack leaves the choice.
#[must_use]
pub const fn crypto_option(default: Crypto) -> TypedOption<Crypto> {
    TypedOption::new(
        "crypto",
        default.name(),
        "library that encrypts handshakes and data, through rustls; the fact `crypto.sender` states it",
    )
}

/// Library that encrypts, for stacks that leave the choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum Crypto {
    /// AWS-LC.
    AwsLc,
    /// ring.
    Ring,
}

impl Choice for Crypto {
    const NAMES: &'static [&'static str] = Self::VARIANTS;
}

impl Crypto {
    /// Returns the name, as written in a study and in facts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::VARIANTS[self as usize]
    }

    /// Returns the provider for rustls, with the one cipher suite and the one group of key exchange, seeded.
    ///
    /// # Errors
    /// The system gives no random numbers.
    fn provider(self) -> Result<Arc<CryptoProvider>> {
        static AWS_LC: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
        static RING: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
        let provider = match self {
            Self::AwsLc => AWS_LC.get_or_init(|| {
                Arc::new(CryptoProvider {
                    cipher_suites: vec![aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256],
                    kx_groups: vec![aws_lc_rs::kx_group::X25519],
                    ..aws_lc_rs::default_provider()
                })
            }),
            Self::Ring => RING.get_or_init(|| {
                Arc::new(CryptoProvider {
                    cipher_suites: vec![ring::cipher_suite::TLS13_AES_128_GCM_SHA256],
                    kx_groups: vec![ring::kx_group::X25519],
                    ..ring::default_provider()
                })
            }),
        };
        seed(provider)?;
        Ok(Arc::clone(provider))
    }
}

/// Whether connections with this handshake use tickets of earlier ones (RFC 8446 §2.2).
#[must_use]
pub const fn uses_tickets(handshake: Handshake) -> bool {
    matches!(handshake, Handshake::Resumed | Handshake::EarlyData)
}

/// Seeds the random number generator of `provider`.
///
/// AWS-LC does that when a process first needs a random number, from the CPU's jitter, which takes
/// some 20 to 50 ms: within a handshake they would count as the transport's. Threads that start
/// later seed theirs from it in microseconds.
fn seed(provider: &CryptoProvider) -> Result<()> {
    let mut number = [0; 16];
    provider.secure_random.fill(&mut number).map_err(|_| {
        let why = Problem::failed(reason::no_random_numbers(), "");
        TransportError::stack(reason::cannot_set_up_tls())(why)
    })
}

fn decode(base64: &str, wrong: fn() -> Phrase) -> Result<Vec<u8>> {
    BASE64
        .decode(base64)
        .map_err(|_| TransportError::order(wrong()))
}

/// Returns the run's certificate.
///
/// # Errors
/// [`TransportError::Order`] if it is not base64.
pub fn certificate(material: &TlsMaterial) -> Result<CertificateDer<'static>> {
    decode(
        &material.certificate_der_base64,
        reason::certificate_not_base64,
    )
    .map(Into::into)
}

/// Returns the fact `tls.certificate`: kind of the certificate's key, and size of the chain that the server sends, which
/// is this one certificate, in bytes of DER.
#[must_use]
pub fn certificate_fact(material: &TlsMaterial) -> Text {
    let Ok(certificate) = certificate(material) else {
        return fact::not_known(fact::certificate_unreadable().into()).into();
    };
    let contains = |object: &[u8]| certificate.windows(object.len()).any(|it| it == object);
    let known = KEY_KINDS.iter().find(|(object, _)| contains(object));
    let kind = known.map_or("another kind of key", |(_, kind)| kind);
    fact::certificate(kind, certificate.len() as u64).into()
}

/// Returns the key of the run's certificate, which only the listening end is given.
///
/// # Errors
/// [`TransportError::Order`] if it is absent or not base64.
pub fn key(material: &TlsMaterial) -> Result<PrivatePkcs8KeyDer<'static>> {
    let key = material
        .key_der_base64
        .as_deref()
        .ok_or_else(|| TransportError::order(reason::no_key()))?;
    decode(key, reason::key_not_base64).map(Into::into)
}

fn stack(error: rustls::Error) -> TransportError {
    TransportError::stack(reason::cannot_set_up_tls())(error)
}

fn alpn_protocols(alpn: Option<&[u8]>) -> Vec<Vec<u8>> {
    alpn.map(<[u8]>::to_vec).into_iter().collect()
}

/// Makes the configuration of the connecting end. To be made before anything is timed, as it takes
/// its time.
///
/// # Errors
/// [`TransportError::Order`] for a certificate that cannot be read.
pub fn client(
    material: &TlsMaterial,
    alpn: Option<&[u8]>,
    handshake: Handshake,
    crypto: Crypto,
) -> Result<ClientConfig> {
    let provider = crypto.provider()?;
    let verifier = PinnedCertificate::new(certificate(material)?, &provider);
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(VERSIONS)
        .map_err(stack)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = alpn_protocols(alpn);
    config.resumption = match uses_tickets(handshake) {
        true => Resumption::store(Arc::new(Tickets::default())),
        false => Resumption::disabled(),
    };
    config.enable_early_data = handshake == Handshake::EarlyData;
    Ok(config)
}

/// Makes the configuration of the listening end. To be made before anything is timed, as it takes
/// its time.
///
/// # Errors
/// [`TransportError::Order`] for a certificate or key that is absent or cannot be read,
/// [`TransportError::Stack`] if they do not belong together.
pub fn server(
    material: &TlsMaterial,
    alpn: Option<&[u8]>,
    handshake: Handshake,
    crypto: Crypto,
) -> Result<ServerConfig> {
    let provider = crypto.provider()?;
    let key = PrivateKeyDer::from(key(material)?);
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(VERSIONS)
        .map_err(stack)?
        .with_no_client_auth()
        .with_single_cert(vec![certificate(material)?], key)
        .map_err(stack)?;
    config.alpn_protocols = alpn_protocols(alpn);
    config.send_tls13_tickets = match uses_tickets(handshake) {
        true => TICKETS,
        false => 0,
    };
    if handshake == Handshake::EarlyData {
        config.max_early_data_size = QUIC_EARLY_DATA_BYTES;
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use regatta_model::OptionValue;
    use regatta_transport::OptionValues;

    use super::*;

    fn key_provider(crypto: Crypto) -> String {
        let provider = crypto.provider().expect("random numbers");
        assert_eq!(provider.cipher_suites.len(), 1);
        format!("{:?}", provider.key_provider)
    }

    #[test]
    fn crypto_option_round_trips() {
        for crypto in [Crypto::AwsLc, Crypto::Ring] {
            let option = crypto_option(crypto);
            assert_eq!(option.read(&OptionValues::new()), crypto);
            for &name in Crypto::VARIANTS {
                let value = OptionValue::Text(name.to_owned());
                let options = OptionValues::from([("crypto".to_owned(), value)]);
                assert_eq!(option.read(&options).name(), name);
            }
        }
    }

    #[test]
    fn each_library_has_its_own_provider() {
        assert_eq!(key_provider(Crypto::AwsLc), "AwsLcRs");
        assert_eq!(key_provider(Crypto::Ring), "Ring");
    }
}
