//! Keys and TLS configurations of `regatta server` and its clients: TLS 1.3 in which each end accepts one public key and
//! no other (raw public keys, RFC 7250).

use std::sync::Arc;

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig,
    SignatureScheme, SupportedProtocolVersion,
    client::{
        AlwaysResolvesClientRawPublicKeys,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{
        CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs::default_provider,
        verify_tls13_signature_with_raw_key,
    },
    pki_types::{
        CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer,
        UnixTime,
    },
    server::{
        AlwaysResolvesServerRawPublicKeys,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
    sign::CertifiedKey,
    version::TLS13,
};

use super::token::{KEY_BYTES, SECRET_BYTES, Token, derive, sha256};

const VERSIONS: &[&SupportedProtocolVersion] = &[&TLS13];

/// Beginning of an Ed25519 private key (PKCS #8), before the seed (RFC 8410 §7).
const PKCS8_BEGINNING: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// Makes the Ed25519 key of a seed, with its public key in place of a certificate.
fn key_of(seed: &[u8; KEY_BYTES], provider: &CryptoProvider) -> Result<Arc<CertifiedKey>, Error> {
    let der = [&PKCS8_BEGINNING[..], seed].concat();
    let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(der));
    let key = provider.key_provider.load_private_key(der)?;
    let public = key
        .public_key()
        .ok_or_else(|| Error::General("the key has no public part".to_owned()))?;
    let public = CertificateDer::from(public.as_ref().to_vec());
    Ok(Arc::new(CertifiedKey::new(vec![public], key)))
}

fn digest_of(key: &CertifiedKey) -> [u8; KEY_BYTES] {
    sha256(key.cert.first().map_or(&[], |public| public.as_ref()))
}

/// Secret and private key of a server.
#[derive(Clone)]
pub struct ServerKeys {
    pub secret: [u8; SECRET_BYTES],
    pub seed: [u8; KEY_BYTES],
}

impl ServerKeys {
    /// Returns the token for clients.
    ///
    /// # Errors
    /// An error of the cryptographic library.
    pub fn token(&self) -> Result<Token, Error> {
        let key = key_of(&self.seed, &default_provider())?;
        Ok(Token {
            secret: self.secret,
            server_key_digest: digest_of(&key),
        })
    }

    /// Makes the configuration of the server's end.
    ///
    /// # Errors
    /// An error of the cryptographic library.
    pub fn config(&self) -> Result<ServerConfig, Error> {
        let provider = Arc::new(default_provider());
        let key = key_of(&self.seed, &provider)?;
        let client = key_of(&client_seed(&self.secret), &provider)?;
        let verifier = PinnedKey::new(digest_of(&client), &provider);
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(VERSIONS)?
            .with_client_cert_verifier(Arc::new(verifier))
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(key)));
        config.send_tls13_tickets = 0;
        Ok(config)
    }
}

fn client_seed(secret: &[u8; SECRET_BYTES]) -> [u8; KEY_BYTES] {
    derive(secret, "regatta client key")
}

/// Makes the configuration of a client's end. The client's key follows from the secret.
///
/// # Errors
/// An error of the cryptographic library.
pub fn client_config(token: &Token) -> Result<ClientConfig, Error> {
    let provider = Arc::new(default_provider());
    let key = key_of(&client_seed(&token.secret), &provider)?;
    let verifier = PinnedKey::new(token.server_key_digest, &provider);
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(VERSIONS)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(key)));
    config.resumption = rustls::client::Resumption::disabled();
    config.enable_sni = false;
    Ok(config)
}

/// Verifier that accepts one public key, by its digest, from an end that proves that it has the private key.
#[derive(Debug)]
struct PinnedKey {
    digest: [u8; KEY_BYTES],
    algorithms: WebPkiSupportedAlgorithms,
}

impl PinnedKey {
    fn new(digest: [u8; KEY_BYTES], provider: &CryptoProvider) -> Self {
        Self {
            digest,
            algorithms: provider.signature_verification_algorithms,
        }
    }

    fn verify_key(&self, key: &CertificateDer<'_>) -> Result<(), Error> {
        if sha256(key.as_ref()) == self.digest {
            return Ok(());
        }
        Err(CertificateError::ApplicationVerificationFailure.into())
    }
}

/// Verification of signatures in TLS 1.3 by a raw public key, which servers and clients have in common.
macro_rules! signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            _message: &[u8],
            _key: &CertificateDer<'_>,
            _signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(Error::General("TLS 1.2 is not spoken".to_owned()))
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            key: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            let key = SubjectPublicKeyInfoDer::from(key.as_ref());
            verify_tls13_signature_with_raw_key(message, &key, signature, &self.algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.algorithms.supported_schemes()
        }

        fn requires_raw_public_keys(&self) -> bool {
            true
        }
    };
}

impl ServerCertVerifier for PinnedKey {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.verify_key(end_entity)
            .map(|()| ServerCertVerified::assertion())
    }

    signatures!();
}

impl ClientCertVerifier for PinnedKey {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.verify_key(end_entity)
            .map(|()| ClientCertVerified::assertion())
    }

    signatures!();
}

#[cfg(test)]
mod tests {
    use rustls::{ClientConnection, ServerConnection};

    use super::*;

    /// Carries out a handshake between a server and a client with a token.
    fn handshake(server: &ServerKeys, token: &Token) -> Result<(), Error> {
        let mut server = ServerConnection::new(Arc::new(server.config()?))?;
        let name = ServerName::try_from("regatta.invalid").expect("a name");
        let mut client = ClientConnection::new(Arc::new(client_config(token)?), name)?;
        while client.is_handshaking() || server.is_handshaking() {
            let mut bytes = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut bytes).expect("memory");
            }
            server.read_tls(&mut &*bytes).expect("memory");
            server.process_new_packets()?;
            bytes.clear();
            while server.wants_write() {
                server.write_tls(&mut bytes).expect("memory");
            }
            client.read_tls(&mut &*bytes).expect("memory");
            client.process_new_packets()?;
        }
        Ok(())
    }

    #[test]
    fn each_end_accepts_only_its_peer() {
        let keys = |secret, seed| ServerKeys {
            secret: [secret; SECRET_BYTES],
            seed: [seed; KEY_BYTES],
        };
        let server = keys(1, 2);
        let token = server.token().expect("a key");
        assert_eq!(handshake(&server, &token), Ok(()));
        let other_server = keys(1, 3);
        assert!(handshake(&other_server, &token).is_err(), "another server");
        let other_client = Token {
            secret: [4; SECRET_BYTES],
            ..token
        };
        assert!(handshake(&server, &other_client).is_err(), "another client");
    }
}
