//! The connection URL, which a receiver prints and a sender is given.
//!
//! The URL contains the key: nothing but [`ConnectionUrl::to_secret_string`] shows it.

use std::fmt;

use aws_lc_sys::CRYPTO_memcmp;

use crate::codec::MAX_TRANSFER_ID_BYTES;
use crate::crypto::{Cipher, Key, Secret};

/// Maximum number of ports taken from a URL, so that the length of a list of their checkpoints fits
/// in its 15 bits.
pub const MAX_PORTS: usize = 512;
/// Maximum length of a URL, in bytes.
pub const MAX_URL_BYTES: usize = 64 << 10;

const SCHEME: &str = "wdt://";

/// Address and parameters of a receiver, for its sender.
#[derive(Clone, Default, PartialEq, Eq)]
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
        let (authority, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, port) = host_and_port(authority.trim_end_matches('/'))?;
        let query = Query::read(query)?;
        let ports = query.ports(port)?;
        let mut url = query.url;
        url.secret = query.encryption.map(|(cipher, key)| Secret {
            cipher,
            key,
            iv_change_bytes: url.iv_change_bytes,
        });
        Ok(Self { host, ports, ..url })
    }

    /// Whether another end has the id of this transfer. The id is the only secret of a transfer without encryption: the time
    /// that this takes depends on its length alone.
    pub(crate) fn has_id(&self, id: &[u8]) -> bool {
        // SAFETY: both have as many bytes as are compared.
        let differs =
            || unsafe { CRYPTO_memcmp(id.as_ptr().cast(), self.id.as_ptr().cast(), id.len()) };
        id.len() == self.id.len() && differs() == 0
    }

    /// Returns the URL for the sender, with the key.
    #[must_use]
    pub fn to_secret_string(&self) -> String {
        let encryption = self.secret.as_ref().map(|secret| {
            let key = u128::from_be_bytes(*secret.key.bytes());
            format!("{:x}:{key:032x}", secret.cipher.code())
        });
        self.written(&encryption.unwrap_or_default())
    }

    fn written(&self, encryption: &str) -> String {
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        let mut pairs = self.ports.windows(2);
        let contiguous = pairs.all(|pair| pair[0].checked_add(1) == Some(pair[1]));
        let ports: Vec<_> = self.ports.iter().map(u16::to_string).collect();
        let (first, count, list) = match ports.first() {
            Some(first) if contiguous => {
                (format!(":{first}"), ports.len().to_string(), String::new())
            }
            _ => (String::new(), String::new(), ports.join(",")),
        };
        let iv_change = match self.iv_change_bytes {
            0 => String::new(),
            bytes => bytes.to_string(),
        };
        let version = self.version.map(|version| version.to_string());
        let resumption = if self.resumption { "1" } else { "" };
        let mut url = format!("{SCHEME}{host}{first}");
        let mut separator = "?";
        for (key, value) in [
            ("Enc", encryption.as_bytes()),
            ("dr", resumption.as_bytes()),
            ("id", &self.id),
            ("iv_change_int", iv_change.as_bytes()),
            ("num_ports", count.as_bytes()),
            ("ports", list.as_bytes()),
            ("recpv", version.unwrap_or_default().as_bytes()),
            ("tls", b"0"),
        ] {
            if !value.is_empty() {
                url.extend([separator, key, "="]);
                escape(value, &mut url);
                separator = "&";
            }
        }
        url
    }
}

/// Shows everything but the key.
impl fmt::Debug for ConnectionUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let encryption = self.secret.as_ref().map_or("", |_| "(secret)");
        f.write_str(&self.written(encryption))
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
    let mut parts = value.as_bytes().split(|byte| *byte == b'%');
    let mut out = parts.next()?.to_vec();
    for part in parts {
        let (digits, after) = part.split_at_checked(2)?;
        out.push(hex_byte(digits)?);
        out.extend_from_slice(after);
    }
    Some(out)
}

/// Parses two hexadecimal digits.
fn hex_byte(digits: &[u8]) -> Option<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    match digits {
        [high, low] => Some((digit(high)? << 4 | digit(low)?) as u8),
        _ => None,
    }
}

fn host_and_port(authority: &str) -> Result<(String, Option<u16>), UrlError> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => match rest.split_once(']').ok_or(UrlError::Host)? {
            (host, "") => (host, None),
            (host, after) => (host, Some(after.strip_prefix(':').ok_or(UrlError::Host)?)),
        },
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let allowed = |c: char| c.is_ascii_alphanumeric() || ".-_:%".contains(c);
    if host.is_empty() || !host.chars().all(allowed) {
        return Err(UrlError::Host);
    }
    let port = port.map(|port| read_port(port).ok_or(UrlError::Value("the port")));
    Ok((host.to_owned(), port.transpose()?))
}

fn read_port(text: &str) -> Option<u16> {
    number(text).filter(|port| *port != 0)
}

/// Parses a number that consists of digits alone.
fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

#[derive(Default)]
struct Query {
    /// The values that a URL has as they are.
    url: ConnectionUrl,
    start_port: Option<u16>,
    num_ports: Option<u16>,
    encryption: Option<(Cipher, Key)>,
}

impl Query {
    /// Keys that are read, separated by blanks.
    const KEYS: &str = "id recpv start_port num_ports ports Enc iv_change_int dr";

    /// Parses the query; keys that are unknown are those of other versions and are ignored.
    fn read(text: &str) -> Result<Self, UrlError> {
        let mut query = Self::default();
        for pair in text.split('&') {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let Some(key) = Self::KEYS.split(' ').find(|known| *known == key) {
                query.set(key, value).ok_or(UrlError::Value(key))?;
            }
        }
        Ok(query)
    }

    /// Sets the value of one of [`Query::KEYS`]; returns `None` for a value that is not valid.
    fn set(&mut self, key: &str, value: &str) -> Option<()> {
        let value = unescape(value)?;
        if key == "id" {
            self.url.id = Some(value).filter(|id| id.len() <= MAX_TRANSFER_ID_BYTES)?;
            return Some(());
        }
        let value = String::from_utf8(value).ok()?;
        match key {
            _ if value.is_empty() => {}
            "recpv" => self.url.version = Some(number(&value)?),
            "start_port" => self.start_port = Some(read_port(&value)?),
            "num_ports" => self.num_ports = Some(number(&value)?),
            "ports" => self.url.ports = read_ports(&value)?,
            "Enc" => self.encryption = Some(read_encryption(&value)?),
            "iv_change_int" => self.url.iv_change_bytes = number(&value)?,
            _ => self.url.resumption = value != "0",
        }
        Some(())
    }

    fn ports(&self, port: Option<u16>) -> Result<Vec<u16>, UrlError> {
        if !self.url.ports.is_empty() {
            return Ok(self.url.ports.clone());
        }
        let first = port.or(self.start_port).ok_or(UrlError::NoPorts)?;
        let count = self.num_ports.unwrap_or(1);
        let more = count.checked_sub(1);
        match more.and_then(|more| first.checked_add(more)) {
            Some(last) if usize::from(count) <= MAX_PORTS => Ok((first..=last).collect()),
            _ => Err(UrlError::Value("num_ports")),
        }
    }
}

fn read_ports(text: &str) -> Option<Vec<u16>> {
    let mut ports = Vec::new();
    for part in text.split(',') {
        let port = read_port(part)?;
        // The port is the connection's name in checkpoints.
        if ports.contains(&port) || ports.len() == MAX_PORTS {
            return None;
        }
        ports.push(port);
    }
    Some(ports)
}

fn read_encryption(text: &str) -> Option<(Cipher, Key)> {
    let (cipher, digits) = text.split_once(':')?;
    let [digit] = cipher.as_bytes() else {
        return None;
    };
    let cipher = Cipher::from_code(hex_byte(&[b'0', *digit])?)?;
    let key: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(hex_byte).collect();
    Some((cipher, Key::new(key?.try_into().ok()?)))
}

#[cfg(test)]
mod tests;
