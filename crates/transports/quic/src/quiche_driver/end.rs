//! End of a connection: its reason, the wait for room in the congestion window, and repetition of
//! the closing packet.

use std::{
    fmt,
    time::{Duration, Instant},
};

use regatta_transport_sockets::driver::{Gone, Transmit};

/// Number of times the closing packet is sent again, in case it is lost. The other end would
/// otherwise wait for its idle timeout.
pub(super) const CLOSE_REPEATS: u32 = 2;

/// Reason for which a connection has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// Closed in good order.
    Done,
    /// Stopped by this end.
    Stopped,
    /// The other end's certificate is not the run's.
    Certificate,
    /// Idle timeout: no packet came from the other end.
    Idle,
    /// Closed by quiche at this end, with an error code of RFC 9000 §20 and, if known, quiche's
    /// error.
    Gave(u64, Option<quiche::Error>),
    /// Closed by the other end: by its application or its stack, with an error code and a reason.
    Told {
        application: bool,
        code: u64,
        reason: String,
    },
    /// Closed without a known reason.
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

impl From<Gone> for End {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

/// Close that waits for room in the congestion window: quiche does not send a closing packet into a
/// full window, and processes no acknowledgements after it is told to close.
pub(super) struct Closing {
    pub code: u64,
    pub reason: &'static [u8],
    pub since: Instant,
    /// Stream that carries no data, whose capacity tells whether there is room.
    pub gauge: u64,
}

/// Room required for the closing packet, in bytes.
pub(super) const CLOSE_BYTES: usize = 100;

/// Maximum time for which a close waits for room. The room may be missing because of flow control,
/// which this wait does not change.
pub(super) const CLOSE_PATIENCE: Duration = Duration::from_millis(50);

/// Closing packet, kept to be sent again.
pub(super) struct RepeatedClose {
    pub packet: Vec<u8>,
    pub transmit: Transmit,
    pub every: Duration,
    pub next: Instant,
    pub left: u32,
}
