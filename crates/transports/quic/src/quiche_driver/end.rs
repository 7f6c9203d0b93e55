//! How a connection ends: why, when there is room to say so, and saying it again.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use super::port::{Port, Way};

/// How often the packet that closes is sent again, should it be lost. The other end, which has
/// nothing to say any more, would otherwise wait for its idle timeout.
pub(super) const FAREWELLS: u32 = 2;

/// Why a connection has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// In good order.
    Done,
    /// This end was stopped.
    Stopped,
    /// The other end's certificate is another one.
    Certificate,
    /// Nothing came for the idle timeout.
    Idle,
    /// This end gave up, with a code of RFC 9000 §20 and, if it is known, quiche's word.
    Gave(u64, Option<quiche::Error>),
    /// The other end closed it: whether its application did, with which code and words.
    Told {
        application: bool,
        code: u64,
        reason: String,
    },
    /// It was forgotten.
    Gone,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("the connection is closed"),
            Self::Stopped => f.write_str("the connection was stopped"),
            Self::Certificate => {
                f.write_str("invalid peer certificate: it is not the one that was made for the run")
            }
            Self::Idle => f.write_str("nothing came from the other end for 30 s"),
            Self::Gave(code, Some(error)) => {
                write!(f, "quiche gave up with `{error:?}`, error code {code:#x}")
            }
            Self::Gave(code, None) => write!(f, "quiche gave up with error code {code:#x}"),
            Self::Told {
                application,
                code,
                reason,
            } => {
                let who = if *application { "application" } else { "stack" };
                write!(
                    f,
                    "the other end's {who} closed it with error code {code:#x}"
                )?;
                if reason.is_empty() {
                    Ok(())
                } else {
                    write!(f, ": {reason}")
                }
            }
            Self::Gone => f.write_str("the connection is gone"),
        }
    }
}

impl std::error::Error for End {}

/// A close that waits for room in the congestion window: quiche puts no more into a full one to
/// close, and reads no acknowledgements any more once it is told to.
pub(super) struct Closing {
    pub code: u64,
    pub reason: &'static [u8],
    pub since: Instant,
    /// A stream of which nothing is sent, whose capacity says whether there is room.
    pub gauge: u64,
}

/// Room for the packet that closes, in bytes.
pub(super) const CLOSE_BYTES: usize = 100;

/// How long a close waits for room. Flow control may be what there is none of.
pub(super) const CLOSE_PATIENCE: Duration = Duration::from_millis(50);

/// The packet that closes, kept to be sent again.
pub(super) struct Farewell {
    pub packet: Vec<u8>,
    pub way: Way,
    pub every: Duration,
    pub next: Instant,
    pub left: u32,
}

impl Farewell {
    /// Sends it once more.
    pub fn send(&self, ports: &[Arc<Port>]) {
        if let Some(port) = ports.iter().find(|port| port.address == self.way.from) {
            // One that the kernel does not take is lost like others.
            port.send(&quinn_udp::Transmit {
                destination: self.way.to,
                ecn: None,
                contents: &self.packet,
                segment_size: None,
                src_ip: None,
            });
        }
    }
}
