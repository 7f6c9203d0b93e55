//! End of a connection: its reason, the wait for room in the congestion window, and repetition of
//! the closing packet.

use std::time::{Duration, Instant};

use regatta_model::{Phrase, Problem, ProblemKind, Text, reason};
use regatta_transport::TransportError;
use regatta_transport_sockets::driver::{Dropped, Transmit};

/// Number of times the closing packet is sent again, in case it is lost. The other end would
/// otherwise wait for its idle timeout.
pub(crate) const CLOSE_REPEATS: u32 = 2;

/// Reason for which a connection has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
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
    ClosedByStack(u64, Option<quiche::Error>),
    /// Closed by the other end: by its application or its stack, with an error code and a reason.
    ClosedByPeer {
        application: bool,
        code: u64,
        reason: String,
    },
    /// Closed without a known reason.
    Unknown,
}

impl End {
    /// Returns the error of an action that failed because of this end.
    pub(crate) fn error(&self, what: Phrase) -> TransportError {
        let kind = match self {
            Self::Idle => ProblemKind::TimedOut,
            _ => ProblemKind::Failed,
        };
        TransportError::stack(what)(Problem::new(kind, [self.text()], ""))
    }

    fn text(&self) -> Text {
        match self {
            Self::Done => reason::connection_is_closed(),
            Self::Stopped => reason::connection_stopped(),
            Self::Certificate => reason::other_certificate(),
            Self::Idle => reason::idle_connection(),
            Self::ClosedByStack(code, None) => reason::quiche_gave_up(&format!("{code:#x}")),
            Self::ClosedByStack(code, Some(error)) => {
                reason::quiche_gave_up_with(&format!("{error:?}"), &format!("{code:#x}"))
            }
            Self::ClosedByPeer {
                application,
                code,
                reason,
            } => {
                let code = format!("{code:#x}");
                let closed = match application {
                    true => reason::closed_by_application(&code),
                    false => reason::closed_by_stack(&code),
                };
                match &**reason {
                    "" => closed,
                    reason => reason::caused_by(closed.into(), reason.into()),
                }
            }
            Self::Unknown => reason::connection_gone(),
        }
        .into()
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
