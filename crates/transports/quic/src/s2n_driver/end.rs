//! State of an end that its connections need, and the codes with which they are closed.

use std::sync::Arc;

use s2n_quic::connection::Error;

use super::{events::Offloads, options::CongestionControl};
use crate::{path::Sizes, socket::Counters};

/// Application error code of a connection that is closed in good order.
pub(super) const DONE: u8 = 0;

/// Application error code of a connection, or a stream, that was aborted, by the deadline or from
/// outside.
pub(super) const ABORTED: u8 = 1;

/// Whether a connection was closed in good order, so that no more is to come.
pub(super) fn is_done(error: &Error) -> bool {
    match error {
        Error::Closed { .. } => true,
        Error::Application { error, .. } => **error == u64::from(DONE),
        _ => false,
    }
}

/// State of an end that its connections need.
#[derive(Clone)]
pub(super) struct End {
    /// Congestion control that runs; absent if its type is not listed here.
    pub(super) congestion_control: Option<CongestionControl>,
    pub(super) board: Arc<Offloads>,
    pub(super) counters: Arc<Counters>,
    /// `sender` or `receiver`.
    pub(super) side: &'static str,
    pub(super) connects: bool,
    pub(super) sizes: Sizes,
}
