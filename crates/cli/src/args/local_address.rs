//! Address of this machine, with the zone of a link-local one.

use std::{
    fmt,
    net::{AddrParseError, IpAddr, SocketAddr, SocketAddrV6},
    str::FromStr,
};

use nix::{errno::Errno, net::if_::if_nametoindex};

/// Address of this machine as a user writes it: `192.0.2.1`, `2001:db8::1`, `fe80::1%eth0`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalAddress {
    text: String,
    /// The address with port 0.
    socket: SocketAddr,
}

impl LocalAddress {
    pub fn ip(&self) -> IpAddr {
        self.socket.ip()
    }

    /// Returns the address with a port.
    pub fn with_port(&self, port: u16) -> SocketAddr {
        let mut socket = self.socket;
        socket.set_port(port);
        socket
    }
}

impl fmt::Display for LocalAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<IpAddr> for LocalAddress {
    fn from(ip: IpAddr) -> Self {
        Self {
            text: ip.to_string(),
            socket: SocketAddr::new(ip, 0),
        }
    }
}

impl FromStr for LocalAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let no_address =
            |_: AddrParseError| "it is no address such as `192.0.2.1` or `2001:db8::1`".to_owned();
        let (ip, zone) = match text.split_once('%') {
            Some((ip, zone)) => (ip, Some(zone)),
            None => (text, None),
        };
        let socket: SocketAddr = match (ip.parse::<IpAddr>().map_err(no_address)?, zone) {
            (IpAddr::V6(ip), Some(zone)) => {
                let index = zone.parse::<u32>().or_else(|_| if_nametoindex(zone));
                let missing = |_: Errno| {
                    format!("this machine has no interface `{zone}`: `ip link` lists them")
                };
                SocketAddrV6::new(ip, 0, 0, index.map_err(missing)?).into()
            }
            (IpAddr::V6(ip), None) if ip.is_unicast_link_local() => {
                return Err(format!(
                    "a link-local address needs its interface, as in `{ip}%eth0`: `ip -6 address` lists both"
                ));
            }
            (IpAddr::V4(_), Some(_)) => return Err("an IPv4 address has no `%`".to_owned()),
            (ip, None) => SocketAddr::new(ip, 0),
        };
        Ok(Self {
            text: text.to_owned(),
            socket,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_local_addresses_have_a_zone() {
        let read = |text: &str| text.parse::<LocalAddress>();
        assert_eq!(
            read("192.0.2.1").expect("an address").with_port(7),
            "192.0.2.1:7".parse().unwrap()
        );
        let SocketAddr::V6(scoped) = read("fe80::1%lo").expect("an address").with_port(7) else {
            panic!("another family");
        };
        assert!(scoped.scope_id() > 0 && scoped.port() == 7);
        for (text, mistake) in [
            ("fe80::1", "needs its interface, as in `fe80::1%eth0`"),
            ("fe80::1%none9", "no interface `none9`"),
            ("192.0.2.1%lo", "has no `%`"),
            ("lab", "it is no address"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(mistake), "{error}");
        }
    }
}
