//! Parts for a transport that uses TCP connections without being one stream of bytes: plain
//! connections for its probes, setup of its own sockets as those of `tcp`, and their statistics.

use regatta_control::TrialOrder;
use regatta_transport::Result;

use crate::{endpoint::Endpoint, layer::Layer};

pub use crate::{
    endpoint::{Connecting, Listening},
    info::sample,
    settings::{SocketOptions, check_congestion_control as supported},
    socket::abort,
    sockets::Sockets as Settings,
};

/// One end of plain TCP connections.
pub type PlainEndpoint<R> = Endpoint<R>;

/// Makes the end that connects, set up by the options.
#[must_use]
pub fn client(order: &TrialOrder) -> PlainEndpoint<Connecting> {
    Endpoint::client(
        order,
        Settings::new(order),
        Layer::Plain { zero_copy: false },
    )
}

/// Makes the end that listens, set up by the options; it listens when this returns.
///
/// # Errors
/// Any error of the setup.
pub fn server(order: &TrialOrder) -> Result<PlainEndpoint<Listening>> {
    Endpoint::server(
        order,
        Settings::new(order),
        Layer::Plain { zero_copy: false },
    )
}
