//! Parts for a transport that uses TCP connections without being one stream of bytes: plain
//! connections for its probes, setup of its own sockets as those of `tcp`, and their statistics.

use std::{
    collections::BTreeMap,
    os::fd::{AsRawFd, BorrowedFd},
};

use regatta_control::TrialOrder;
use regatta_model::OptionValue;
use regatta_transport::{ProtocolSample, Result, Unsupported};

use crate::{endpoint::Endpoint, info, plain::Plain, settings};

pub use crate::{settings::CC, sockets::Sockets as Settings};

/// One end of plain TCP connections.
pub type PlainEndpoint = Endpoint<Plain>;

/// Makes an endpoint that is set up as the options say; at a receiver it listens when this returns.
///
/// # Errors
/// Any error of the setup.
pub fn plain(order: &TrialOrder) -> Result<PlainEndpoint> {
    Endpoint::new(order, Plain)
}

/// Checks that this host has the congestion control that the options ask for.
///
/// # Errors
/// The reason why not, with a command that may help.
pub fn supported(options: &BTreeMap<String, OptionValue>) -> Result<(), Unsupported> {
    settings::check_congestion_control(options)
}

/// Returns the statistics of a connected socket; `None` if the kernel has none.
#[must_use]
pub fn sample(socket: BorrowedFd<'_>) -> Option<ProtocolSample> {
    info::sample(socket.as_raw_fd())
}
