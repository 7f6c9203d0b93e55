//! State of an end that its connections need, and the codes with which they are closed.

use std::sync::Arc;

use s2n_quic::connection::Error;

use crate::{events::Offloads, options::CongestionControl};
use regatta_transport_quic_common::path::Sizes;
use regatta_transport_sockets::socket::Counters;

/// Application error code of a connection that is closed in good order.
pub(crate) const DONE: u8 = 0;

/// Application error code of a connection, or a stream, that was aborted, by the deadline or from
/// outside.
pub(crate) const ABORTED: u8 = 1;

/// Whether a connection was closed in good order, so that no more is to come.
pub(crate) fn is_done(error: &Error) -> bool {
    match error {
        Error::Closed { .. } => true,
        Error::Application { error, .. } => **error == u64::from(DONE),
        _ => false,
    }
}

/// State of an end that its connections need.
#[derive(Clone)]
pub(crate) struct End {
    /// Congestion control that runs; absent if its type is not listed here.
    pub(crate) congestion_control: Option<CongestionControl>,
    pub(crate) board: Arc<Offloads>,
    pub(crate) counters: Arc<Counters>,
    /// `sender` or `receiver`.
    pub(crate) side: &'static str,
    pub(crate) connects: bool,
    pub(crate) sizes: Sizes,
}
