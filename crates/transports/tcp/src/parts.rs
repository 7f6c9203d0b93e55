//! Parts for a transport that uses TCP connections without being one stream of bytes: plain
//! connections for its probes, setup of its own sockets as those of `tcp`, and their statistics.

use std::{
    collections::BTreeMap,
    os::fd::{AsRawFd, BorrowedFd},
};

use regatta_control::TrialOrder;
use regatta_model::{OptionValue, Warning};
use regatta_transport::{ProtocolSample, TransportError, Unsupported};
use socket2::SockRef;

use crate::{buffer::Buffer, driver, endpoint::Endpoint, info, plain::Plain, sockets::Sockets};

pub use crate::driver::CC;

/// One end of plain TCP connections.
pub type PlainEndpoint = Endpoint<Plain>;

/// Makes an endpoint that is set up as the options say; at a receiver it listens when this returns.
///
/// # Errors
/// Any error of the setup.
pub fn plain(order: &TrialOrder) -> Result<PlainEndpoint, TransportError> {
    let cc = driver::congestion_control(&order.transport.options);
    Endpoint::new(order, cc, Plain)
}

/// Checks that this host has the congestion control that the options ask for.
///
/// # Errors
/// The reason why not, with a command that may help.
pub fn supported(options: &BTreeMap<String, OptionValue>) -> Result<(), Unsupported> {
    driver::check_congestion_control(driver::congestion_control(options))
}

/// Settings of the sockets of one end.
pub struct Settings {
    sockets: Sockets,
    warning: Option<Warning>,
}

impl Settings {
    /// Returns the settings that the options and the path ask for.
    #[must_use]
    pub fn new(order: &TrialOrder) -> Self {
        let (buffer, warning) = Buffer::of(order);
        // Each connection may be the one that carries the most.
        let cc = driver::congestion_control(&order.transport.options);
        Self {
            sockets: Sockets::new(order, cc, buffer, false),
            warning,
        }
    }

    /// Sets up a socket that is not connected.
    ///
    /// # Errors
    /// A setting that the kernel does not allow.
    pub fn set_up(&self, socket: BorrowedFd<'_>) -> Result<(), TransportError> {
        self.sockets.set_up(&SockRef::from(&socket))
    }

    /// Returns the facts of a connected socket, whose congestion control must be the one that was
    /// asked for.
    ///
    /// The kernel's use of another congestion control.
    pub fn facts(
        &self,
        socket: BorrowedFd<'_>,
    ) -> Result<BTreeMap<String, String>, TransportError> {
        self.sockets.facts(&SockRef::from(&socket))
    }

    /// Returns the warnings about these sockets over this path.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        self.warning.iter().cloned().collect()
    }
}

/// Returns the statistics of a connected socket; `None` if the kernel has none.
#[must_use]
pub fn sample(socket: BorrowedFd<'_>) -> Option<ProtocolSample> {
    info::sample(socket.as_raw_fd())
}
