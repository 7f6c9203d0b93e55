//! The connection URL, which a receiver prints and a sender is given.
//!
//! The URL contains the key: nothing but [`ConnectionUrl::to_secret_string`] shows it.

use std::fmt;

use crate::codec::MAX_TRANSFER_ID_BYTES;
use crate::crypto::{Cipher, KEY_BYTES, Key, Secret};

/// Maximum number of ports taken from a URL, so that the length of a list of their checkpoints fits
/// in its 15 bits.
pub const MAX_PORTS: usize = 512;
/// Maximum length of a URL, in bytes.
pub const MAX_URL_BYTES: usize = 64 << 10;

const SCHEME: &str = "wdt://";

/// Address and parameters of a receiver, for its sender.
#[derive(Clone, PartialEq, Eq)]
pub struct ConnectionUrl {
    /// A name or an address, without brackets.
    pub host: String,
    /// The receiver's ports, each once, in the order of the connections.
    pub ports: Vec<u16>,
    /// The transfer's id.
    pub id: Vec<u8>,
    /// The receiver's version of the protocol, if given.
    pub version: Option<u32>,
    /// Encryption parameters, if the transfer is encrypted.
    pub secret: Option<Secret>,
    /// Number of bytes after which a new IV is sent, as given even where nothing is encrypted; 0
    /// for never.
    pub iv_change_bytes: u64,
    /// Whether the receiver may hold parts of an earlier transfer, which need not be sent again.
    pub resumption: bool,
}

/// Reason why a URL is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Another scheme.
    #[error("a connection URL begins with `wdt://`")]
    Scheme,
    /// Much longer than any receiver's URL.
    #[error("the connection URL is longer than {MAX_URL_BYTES} bytes")]
    TooLong,
    /// No host, or one that is not a name or an address.
    #[error("the connection URL has no valid host")]
    Host,
    /// An invalid value of this key; the value may be secret and is not shown.
    #[error("the value of `{0}` in the connection URL is not valid")]
    Value(&'static str),
    /// Neither a port nor a list of ports.
    #[error("the connection URL names no port")]
    NoPorts,
}

impl ConnectionUrl {
    /// Parses a URL.
    ///
    /// # Errors
    /// [`UrlError`].
    pub fn parse(url: &str) -> Result<Self, UrlError> {
        if url.len() > MAX_URL_BYTES {
            return Err(UrlError::TooLong);
        }
        let rest = url.trim().strip_prefix(SCHEME).ok_or(UrlError::Scheme)?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, port) = host_and_port(place.trim_end_matches('/'))?;
        let query = Query::read(query)?;
        Ok(Self {
            host,
            ports: query.ports(port)?,
            id: query.id,
            version: query.version,
            secret: query.encryption.map(|(cipher, key)| Secret {
                cipher,
                key,
                iv_change_bytes: query.iv_change_bytes,
            }),
            iv_change_bytes: query.iv_change_bytes,
            resumption: query.resumption,
        })
    }

    /// Returns the URL for the sender, with the key.
    #[must_use]
    pub fn to_secret_string(&self) -> String {
        let encryption = self.secret.as_ref().map_or(String::new(), |secret| {
            let key: String = secret
                .key
                .bytes()
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            format!("{:x}:{key}", secret.cipher.code())
        });
        self.written(&encryption)
    }

    fn written(&self, encryption: &str) -> String {
        let mut url = String::from(SCHEME);
        match self.host.contains(':') {
            true => url.extend(["[", &self.host, "]"]),
            false => url.push_str(&self.host),
        }
        let contiguous = self
            .ports
            .windows(2)
            .all(|pair| pair[0].checked_add(1) == Some(pair[1]));
        let (mut count, mut list) = (String::new(), String::new());
        if contiguous && let Some(first) = self.ports.first() {
            url.push_str(&format!(":{first}"));
            count = self.ports.len().to_string();
        } else {
            let ports: Vec<_> = self.ports.iter().map(u16::to_string).collect();
            list = ports.join(",");
        }
        let iv_change = match self.iv_change_bytes {
            0 => String::new(),
            bytes => bytes.to_string(),
        };
        let version = self
            .version
            .map_or(String::new(), |version| version.to_string());
        let mut separator = '?';
        let resumption: &[u8] = if self.resumption { b"1" } else { b"" };
        for (key, value) in [
            ("Enc", encryption.as_bytes()),
            ("dr", resumption),
            ("id", &self.id),
            ("iv_change_int", iv_change.as_bytes()),
            ("num_ports", count.as_bytes()),
            ("ports", list.as_bytes()),
            ("recpv", version.as_bytes()),
            ("tls", b"0"),
        ] {
            if !value.is_empty() {
                url.push(separator);
                url.push_str(key);
                url.push('=');
                escape(value, &mut url);
                separator = '&';
            }
        }
        url
    }
}

/// Shows everything but the key.
impl fmt::Debug for ConnectionUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written(if self.secret.is_some() {
            "(secret)"
        } else {
            ""
        }))
    }
}

fn escape(value: &[u8], out: &mut String) {
    for byte in value {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b',' | b':' | b'.' | b'_' | b'+' | b'-' => {
                out.push(char::from(*byte));
            }
            _ => out.push_str(&format!("%{byte:02x}")),
        }
    }
}

fn unescape(value: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            out.push(*first);
            continue;
        }
        let [high, low, after @ ..] = rest else {
            return None;
        };
        out.push(hex_digit(*high)? << 4 | hex_digit(*low)?);
        rest = after;
    }
    Some(out)
}

fn hex_digit(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|digit| digit as u8)
}

fn host_and_port(place: &str) -> Result<(String, Option<u16>), UrlError> {
    let (host, port) = match place.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or(UrlError::Host)?;
            match after.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if after.is_empty() => (host, None),
                None => return Err(UrlError::Host),
            }
        }
        None => match place.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        },
    };
    let allowed = |c: char| c.is_ascii_alphanumeric() || ".-_:%".contains(c);
    if host.is_empty() || !host.chars().all(allowed) {
        return Err(UrlError::Host);
    }
    let port = port.map(|port| read_port(port, "the port")).transpose()?;
    Ok((host.to_owned(), port))
}

fn read_port(text: &str, key: &'static str) -> Result<u16, UrlError> {
    match number(text, key)? {
        port @ 1.. => Ok(port),
        0 => Err(UrlError::Value(key)),
    }
}

/// Parses a number that consists of digits alone.
fn number<T: std::str::FromStr>(text: &str, key: &'static str) -> Result<T, UrlError> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(UrlError::Value(key));
    }
    text.parse().map_err(|_| UrlError::Value(key))
}

#[derive(Default)]
struct Query {
    id: Vec<u8>,
    version: Option<u32>,
    start_port: Option<u16>,
    num_ports: Option<u16>,
    list: Option<Vec<u16>>,
    encryption: Option<(Cipher, Key)>,
    iv_change_bytes: u64,
    resumption: bool,
}

impl Query {
    /// Parses the query; keys that are unknown are those of other versions and are ignored.
    fn read(text: &str) -> Result<Self, UrlError> {
        let mut query = Self::default();
        for pair in text.split('&') {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let Some(key) = [
                "id",
                "recpv",
                "start_port",
                "num_ports",
                "ports",
                "Enc",
                "dr",
            ]
            .into_iter()
            .chain(["iv_change_int"])
            .find(|known| *known == key) else {
                continue;
            };
            let value = unescape(value).ok_or(UrlError::Value(key))?;
            if key == "id" {
                if value.len() > MAX_TRANSFER_ID_BYTES {
                    return Err(UrlError::Value(key));
                }
                query.id = value;
                continue;
            }
            let value = String::from_utf8(value).map_err(|_| UrlError::Value(key))?;
            if value.is_empty() {
                continue;
            }
            match key {
                "recpv" => query.version = Some(number(&value, key)?),
                "start_port" => query.start_port = Some(read_port(&value, key)?),
                "num_ports" => query.num_ports = Some(number(&value, key)?),
                "ports" => query.list = Some(read_ports(&value)?),
                "Enc" => query.encryption = Some(read_encryption(&value)?),
                "iv_change_int" => query.iv_change_bytes = number(&value, key)?,
                _ => query.resumption = value != "0",
            }
        }
        Ok(query)
    }

    fn ports(&self, port: Option<u16>) -> Result<Vec<u16>, UrlError> {
        if let Some(list) = &self.list {
            return Ok(list.clone());
        }
        let first = port.or(self.start_port).ok_or(UrlError::NoPorts)?;
        let count = self.num_ports.unwrap_or(1);
        let last = count
            .checked_sub(1)
            .and_then(|more| first.checked_add(more));
        match last {
            Some(last) if usize::from(count) <= MAX_PORTS => Ok((first..=last).collect()),
            _ => Err(UrlError::Value("num_ports")),
        }
    }
}

fn read_ports(text: &str) -> Result<Vec<u16>, UrlError> {
    let mut ports = Vec::new();
    for part in text.split(',') {
        let port = read_port(part, "ports")?;
        // The port is the connection's name in checkpoints.
        if ports.contains(&port) || ports.len() == MAX_PORTS {
            return Err(UrlError::Value("ports"));
        }
        ports.push(port);
    }
    Ok(ports)
}

fn read_encryption(text: &str) -> Result<(Cipher, Key), UrlError> {
    const WRONG: UrlError = UrlError::Value("Enc");
    let (cipher, digits) = text.split_once(':').ok_or(WRONG)?;
    let cipher = match cipher.as_bytes() {
        [digit] => hex_digit(*digit).and_then(Cipher::from_code).ok_or(WRONG)?,
        _ => return Err(WRONG),
    };
    let digits = digits.as_bytes();
    if digits.len() != 2 * KEY_BYTES {
        return Err(WRONG);
    }
    let mut key = [0; KEY_BYTES];
    for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = hex_digit(pair[0]).ok_or(WRONG)? << 4 | hex_digit(pair[1]).ok_or(WRONG)?;
    }
    Ok((cipher, Key::new(key)))
}

#[cfg(test)]
mod tests;
