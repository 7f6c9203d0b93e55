//! Token of a server: address, secret and key for a client, in one command-line argument.

use aws_lc_rs::{
    constant_time, digest,
    hmac::{self, HMAC_SHA256},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use regatta_model::shell::printable;

/// Default TCP port of a server; that of iperf3.
pub const DEFAULT_PORT: u16 = 5201;

/// Bytes of the secret.
pub const SECRET_BYTES: usize = 16;

/// Bytes of SHA-256 and of an Ed25519 seed.
pub const KEY_BYTES: usize = 32;

/// Beginning of the first message, with the version of the protocol.
const MAGIC: [u8; 8] = *b"regatta1";

/// Length of the first message: magic, nonce, authentication code.
pub const FIRST_MESSAGE_BYTES: usize = MAGIC.len() + NONCE_BYTES + KEY_BYTES;

pub const NONCE_BYTES: usize = 16;

/// Secret that a server and its clients share, and the digest of the server's public key.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    pub secret: [u8; SECRET_BYTES],
    /// SHA-256 of the server's public key (SubjectPublicKeyInfo, DER).
    pub server_key_digest: [u8; KEY_BYTES],
}

impl Token {
    /// Writes the token in base64 for URLs.
    pub fn encode(&self) -> String {
        let bytes = [&self.secret[..], &self.server_key_digest].concat();
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Reads a token; `None` for what is none.
    pub fn decode(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (secret, digest) = bytes.split_first_chunk()?;
        Some(Self {
            secret: *secret,
            server_key_digest: digest.try_into().ok()?,
        })
    }
}

/// Address of a server as a client is given it: `HOST:PORT#TOKEN`.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerAddress {
    pub host: String,
    pub port: Option<u16>,
    pub token: Option<Token>,
}

impl ServerAddress {
    /// Reads `HOST`, `HOST:PORT` or `[ADDRESS]:PORT`, with or without `#TOKEN`.
    ///
    /// # Errors
    /// A sentence on what is wrong. It does not repeat the token.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (address, token) = match text.split_once('#') {
            Some((address, token)) => (address, Some(token)),
            None => (text, None),
        };
        let (host, port) = match address.strip_prefix('[') {
            Some(rest) => match rest.split_once(']') {
                Some((host, "")) => (host, None),
                Some((host, port)) => (host, Some(port.trim_start_matches(':'))),
                None => return Err("the address has `[` and no `]`".to_owned()),
            },
            // An IPv6 address without brackets has more than one colon.
            None if address.matches(':').count() > 1 => (address, None),
            None => match address.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (address, None),
            },
        };
        if host.is_empty() {
            return Err("the name or address of the server is missing".to_owned());
        }
        let port = port.map(|port| {
            let number = port.parse::<u16>().ok().filter(|port| *port != 0);
            number.ok_or_else(|| format!("`{}` is no port", printable(port)))
        });
        let token = token.map(|token| {
            Token::decode(token)
                .ok_or("what follows `#` is no whole token; copy the server's line again")
        });
        Ok(Self {
            host: host.to_owned(),
            port: port.transpose()?,
            token: token.transpose()?,
        })
    }
}

/// Returns the SHA-256 of bytes.
pub fn sha256(bytes: &[u8]) -> [u8; KEY_BYTES] {
    let digest = digest::digest(&digest::SHA256, bytes);
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// Derives a key for a purpose from the secret.
pub fn derive(secret: &[u8; SECRET_BYTES], purpose: &str) -> [u8; KEY_BYTES] {
    let tag = hmac::sign(&hmac::Key::new(HMAC_SHA256, secret), purpose.as_bytes());
    tag.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

fn first_message_key(secret: &[u8; SECRET_BYTES]) -> hmac::Key {
    hmac::Key::new(HMAC_SHA256, &derive(secret, "regatta first message"))
}

/// Makes the first message of a client. It proves to the server that the client has the secret before the server
/// computes anything for it. A server accepts each nonce once.
pub fn first_message(secret: &[u8; SECRET_BYTES], nonce: [u8; NONCE_BYTES]) -> Vec<u8> {
    let mut message = [&MAGIC[..], &nonce].concat();
    let tag = hmac::sign(&first_message_key(secret), &message);
    message.extend(tag.as_ref());
    message
}

/// Returns the nonce of the first message of a client that has the secret; `None` for any other message.
pub fn first_message_nonce(
    secret: &[u8; SECRET_BYTES],
    message: &[u8],
) -> Option<[u8; NONCE_BYTES]> {
    let (signed, tag) = message.split_at_checked(MAGIC.len() + NONCE_BYTES)?;
    let expected = hmac::sign(&first_message_key(secret), signed);
    constant_time::verify_slices_are_equal(expected.as_ref(), tag).ok()?;
    signed.strip_prefix(&MAGIC)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> Token {
        Token {
            secret: [7; SECRET_BYTES],
            server_key_digest: [9; KEY_BYTES],
        }
    }

    #[test]
    fn addresses_are_parsed_with_and_without_port_and_token() {
        let encoded = token().encode();
        for (text, host, port, has_token) in [
            (format!("lab1:5301#{encoded}"), "lab1", Some(5301), true),
            (format!("lab1#{encoded}"), "lab1", None, true),
            ("192.0.2.1".to_owned(), "192.0.2.1", None, false),
            (
                "[2001:db8::1]:5301".to_owned(),
                "2001:db8::1",
                Some(5301),
                false,
            ),
            (
                format!("[2001:db8::1]#{encoded}"),
                "2001:db8::1",
                None,
                true,
            ),
            ("2001:db8::1".to_owned(), "2001:db8::1", None, false),
        ] {
            let Ok(read) = ServerAddress::parse(&text) else {
                panic!("{text}");
            };
            assert_eq!((&*read.host, read.port), (host, port), "{text}");
            assert_eq!(read.token.is_some(), has_token, "{text}");
            assert!(read.token.is_none_or(|read| read == token()));
        }
        let cut = &encoded[..encoded.len() - 1];
        for text in ["", ":5201", "a:0", "a:x", "[::1", &format!("a#{cut}"), "a#"] {
            assert!(ServerAddress::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn first_message_requires_the_secret() {
        let message = first_message(&[1; SECRET_BYTES], [2; NONCE_BYTES]);
        assert_eq!(message.len(), FIRST_MESSAGE_BYTES);
        let nonce = |secret, message: &[u8]| first_message_nonce(&[secret; SECRET_BYTES], message);
        assert_eq!(nonce(1, &message), Some([2; NONCE_BYTES]));
        assert_eq!(nonce(3, &message), None);
        for position in 0..message.len() {
            let mut other = message.clone();
            other[position] ^= 1;
            assert_eq!(nonce(1, &other), None, "{position}");
            assert_eq!(nonce(1, &message[..position]), None);
        }
    }
}
