//! A range of ports.

use std::{fmt, io, ops::RangeInclusive, str::FromStr};

use serde::{Deserialize, Serialize, de::Error as _};

use crate::units::UnitError;

/// Ports on which a host listens, as a firewall lets them in: `5200-5299`, or one port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    /// Returns the ports, the lowest first.
    #[must_use]
    pub fn ports(self) -> RangeInclusive<u16> {
        self.first..=self.last
    }

    /// Returns the lowest and the highest port.
    #[must_use]
    pub const fn bounds(self) -> (u16, u16) {
        (self.first, self.last)
    }

    /// Calls `bind` with the ports of `range`, one after another, until one is free; without a range once with 0, for
    /// which the kernel chooses a port.
    ///
    /// # Errors
    /// The first error of `bind` other than a port in use; with every port in use, an error that names the range.
    pub fn bind<T>(
        range: Option<Self>,
        mut bind: impl FnMut(u16) -> io::Result<T>,
    ) -> io::Result<T> {
        let Some(range) = range else {
            return bind(0);
        };
        for port in range.ports() {
            match bind(port) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                bound => return bound,
            }
        }
        Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            format!("all of the ports {range} are in use: give the host more `ports`"),
        ))
    }
}

impl FromStr for PortRange {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let port = |text: &str| text.trim().parse().ok().filter(|port| *port != 0);
        match (port(first), port(last)) {
            (Some(first), Some(last)) if first <= last => Ok(Self { first, last }),
            _ => Err(UnitError::new(
                "this is no range of ports",
                "write the lowest and the highest of them: `5200-5299`",
            )),
        }
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        if self.last > self.first {
            write!(f, "-{}", self.last)?;
        }
        Ok(())
    }
}

impl Serialize for PortRange {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PortRange {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse()
            .map_err(|error: UnitError| D::Error::custom(error.message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_and_written() {
        for (text, ports, written) in [
            ("5200-5299", Some(5200..=5299), "5200-5299"),
            (" 1 - 65535", Some(1..=65535), "1-65535"),
            ("443", Some(443..=443), "443"),
            ("0-9", None, ""),
            ("9-8", None, ""),
            ("80-65536", None, ""),
            ("", None, ""),
            ("1-2-3", None, ""),
        ] {
            let range = text.parse::<PortRange>().ok();
            assert_eq!(range.map(PortRange::ports), ports, "{text}");
            if let Some(range) = range {
                assert_eq!(range.to_string(), written);
            }
        }
    }

    #[test]
    fn the_first_free_port_is_taken() {
        let range = "7-9".parse().ok();
        let used = |until: u16| {
            move |port| match port < until {
                true => Err(io::ErrorKind::AddrInUse.into()),
                false => Ok(port),
            }
        };
        assert_eq!(PortRange::bind(range, used(8)).ok(), Some(8));
        let error = PortRange::bind(range, used(10)).expect_err("none is free");
        assert!(error.to_string().contains("the ports 7-9"), "{error}");
        assert_eq!(PortRange::bind(None, Ok).ok(), Some(0));
        let refused = PortRange::bind(range, |_| {
            Err::<(), _>(io::ErrorKind::PermissionDenied.into())
        });
        let kind = refused.expect_err("refused").kind();
        assert_eq!(kind, io::ErrorKind::PermissionDenied);
    }
}
