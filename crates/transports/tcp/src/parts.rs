//! Parts for a transport that uses TCP connections without being one stream of bytes: plain
//! connections for its probes, setup of its own sockets as those of `tcp`, and their statistics.

use regatta_control::TrialOrder;
use regatta_transport::Result;

use crate::{endpoint::Endpoint, layer::Layer};

pub use crate::{
    info::sample,
    settings::{SocketOptions, check_congestion_control as supported},
    socket::abort,
    sockets::Sockets as Settings,
};

/// One end of plain TCP connections.
pub type PlainEndpoint = Endpoint;

/// Makes an endpoint that is set up by the options; at a server it listens when this returns.
///
/// # Errors
/// Any error of the setup.
pub fn plain(order: &TrialOrder) -> Result<PlainEndpoint> {
    Endpoint::new(order, Layer::Plain)
}
