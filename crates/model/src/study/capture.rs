//! Setting for the capture of the path's packets.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{PathSetup, message::Message};
use crate::units::{Bytes, UnitError};

/// Part of each packet that a capture keeps, and whether the file stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureSetup {
    /// Number of bytes kept, from the IP header on; the whole packet if absent.
    pub snap_bytes: Option<u32>,
    /// Whether the file is removed when the transfer's time has been read from it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub times_only: bool,
}

impl CaptureSetup {
    /// Capture of the headers of every transport, and the beginning of their payload.
    pub const HEADERS: Self = Self {
        snap_bytes: Some(128),
        times_only: false,
    };

    /// Capture for the transfer's time, removed after it was read: the headers of IP, of TCP or UDP,
    /// and the first bytes of a datagram.
    pub const TIMES: Self = Self {
        snap_bytes: Some(64),
        times_only: true,
    };

    /// Capture of whole packets.
    pub const FULL: Self = Self {
        snap_bytes: None,
        times_only: false,
    };

    /// Returns a path setup that can be captured: netem does not report what it does to each
    /// packet, so it is not chosen where the choice is free.
    ///
    /// # Errors
    /// The setting that asks for netem.
    pub fn path(path: PathSetup) -> Result<PathSetup, Message> {
        path.without_netem("does not tell what it does to each packet")
    }
}

impl FromStr for CaptureSetup {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        match (text, text.parse()) {
            ("headers", _) => Ok(Self::HEADERS),
            ("full", _) => Ok(Self::FULL),
            ("times", _) => Ok(Self::TIMES),
            (_, Ok(Bytes(size @ 20..=65_535))) => Ok(Self {
                snap_bytes: Some(size as u32),
                times_only: false,
            }),
            _ => Err(UnitError::new(
                format!("`{text}` is not how much of each packet a capture keeps"),
                "write `headers` (128 bytes), `full`, `times` (removed when the transfer's time was \
                 read), or a size from `20B` to `65535B`",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Emulator, *};
    use crate::study::Placement;

    #[test]
    fn capture_setup_is_a_name_or_a_size() {
        assert_eq!("headers".parse(), Ok(CaptureSetup::HEADERS));
        assert_eq!("full".parse(), Ok(CaptureSetup::FULL));
        assert_eq!("times".parse(), Ok(CaptureSetup::TIMES));
        let size = CaptureSetup {
            snap_bytes: Some(96),
            times_only: false,
        };
        assert_eq!("96B".parse(), Ok(size));
        for wrong in ["", "all", "0B", "19B", "1MB", "-1B"] {
            assert!(wrong.parse::<CaptureSetup>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn capture_avoids_netem_and_refuses_explicit_netem() {
        let free = PathSetup::default();
        let path = CaptureSetup::path(free).expect("a free choice");
        assert_eq!(path.emulator, Emulator::Userspace);
        let ends = PathSetup {
            placement: Placement::Ends,
            ..free
        };
        assert!(CaptureSetup::path(ends).is_err_and(|why| why.names("placement")));
    }
}
