//! End of a connection: its reason, the wait for room in the congestion window, and repetition of
//! the closing packet.

use std::time::{Duration, Instant};

use regatta_transport_sockets::driver::{Dropped, Transmit};

/// Number of times the closing packet is sent again, in case it is lost. The other end would
/// otherwise wait for its idle timeout.
pub(crate) const CLOSE_REPEATS: u32 = 2;

/// Reason for which a connection has ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum End {
    /// Closed in good order.
    #[error("the connection is closed")]
    Done,
    /// Stopped by this end.
    #[error("the connection was stopped")]
    Stopped,
    /// The other end's certificate is not the run's.
    #[error("invalid peer certificate: it is not the one that was made for the run")]
    Certificate,
    /// Idle timeout: no packet came from the other end.
    #[error("nothing came from the other end for 30 s")]
    Idle,
    /// Closed by quiche at this end, with an error code of RFC 9000 §20 and, if known, quiche's
    /// error.
    #[error("quiche gave up with {}error code {code:#x}", error(.1), code = .0)]
    ClosedByStack(u64, Option<quiche::Error>),
    /// Closed by the other end: by its application or its stack, with an error code and a reason.
    #[error("the other end's {} closed it with error code {code:#x}{}", who(*.application), after(.reason))]
    ClosedByPeer {
        application: bool,
        code: u64,
        reason: String,
    },
    /// Closed without a known reason.
    #[error("the connection is gone")]
    Unknown,
}

fn error(error: &Option<quiche::Error>) -> String {
    error.map_or_else(String::new, |error| format!("`{error:?}`, "))
}

const fn who(application: bool) -> &'static str {
    if application { "application" } else { "stack" }
}

fn after(reason: &str) -> String {
    match reason {
        "" => String::new(),
        reason => format!(": {reason}"),
    }
}

impl From<Dropped> for End {
    fn from(_: Dropped) -> Self {
        Self::Unknown
    }
}

/// Close that waits for room in the congestion window: quiche does not send a closing packet into a
/// full window, and processes no acknowledgements after the call to close.
pub(crate) struct Closing {
    pub code: u64,
    pub reason: &'static [u8],
    pub since: Instant,
    /// Stream that carries no data, whose capacity shows whether there is room.
    pub gauge: u64,
}

/// Room required for the closing packet, in bytes.
pub(crate) const CLOSE_BYTES: usize = 100;

/// Maximum time for which a close waits for room. The room may be missing because of flow control,
/// which this wait does not change.
pub(crate) const CLOSE_PATIENCE: Duration = Duration::from_millis(50);

/// Closing packet, kept to be sent again.
pub(crate) struct RepeatedClose {
    pub packet: Vec<u8>,
    pub transmit: Transmit,
    pub every: Duration,
    pub next: Instant,
    pub left: u32,
}
