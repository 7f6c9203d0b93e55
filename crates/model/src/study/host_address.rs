//! Address of a host on the path that is measured, as the hosts file and the command line name it.

use std::{fmt, net::IpAddr, str::FromStr};

use crate::units::UnitError;

/// Address on the path, or the interface that has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostAddress {
    /// Address itself.
    Ip(IpAddr),
    /// Name of an interface of the host, whose address is read there at the beginning of a run.
    Interface(String),
}

impl fmt::Display for HostAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Interface(name) => f.write_str(name),
        }
    }
}

impl FromStr for HostAddress {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Ip(address));
        }
        // Names that begin otherwise are rare, and a mistyped address is not.
        let is_name = text.len() <= 15
            && text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        if is_name {
            return Ok(Self::Interface(text.to_owned()));
        }
        Err(UnitError::new(
            "this is no IP address and no name of an interface",
            "write the address of the interface that carries the transfers, such as `10.0.0.7`, or its name, \
             such as `eth1`",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_interface_names_are_parsed() {
        for text in [
            "10.0.0.7",
            "fd98:3::1",
            "eth1",
            "enp3s0f1",
            "br-lan",
            "eth0.100",
        ] {
            let address: HostAddress = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(address.to_string(), text);
            let is_ip = text.starts_with("10.") || text.contains(':');
            assert_eq!(matches!(address, HostAddress::Ip(_)), is_ip, "{text}");
        }
        for text in [
            "10.0.0",
            "10.0.0.7/24",
            "fd98::g",
            "",
            "eth 1",
            "-e",
            "averyverylongname",
        ] {
            assert!(text.parse::<HostAddress>().is_err(), "{text}");
        }
    }
}
