//! What a transport needs that is made of TCP connections without being a stream of bytes: plain
//! connections for its probes, its own sockets set up as those of `tcp` are, and their statistics.

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

/// Makes one that is set up as the options say; at a receiver it listens when this returns.
///
/// # Errors
/// Whatever keeps it from that.
pub fn plain(order: &TrialOrder) -> Result<PlainEndpoint, TransportError> {
    let cc = driver::congestion_control(&order.transport.options);
    Endpoint::new(order, cc, Plain)
}

/// Whether this host has the congestion control that the options ask for.
///
/// # Errors
/// Why not, with what to type next.
pub fn supported(options: &BTreeMap<String, OptionValue>) -> Result<(), Unsupported> {
    driver::check_congestion_control(driver::congestion_control(options))
}

/// How the sockets of one end are set up.
pub struct Settings {
    sockets: Sockets,
    warning: Option<Warning>,
}

impl Settings {
    /// As the options and the path ask for it.
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
    /// What the kernel does not allow.
    pub fn set_up(&self, socket: BorrowedFd<'_>) -> Result<(), TransportError> {
        self.sockets.set_up(&SockRef::from(&socket))
    }

    /// What is known of a connected socket, whose congestion control must be the one that was asked
    /// for.
    ///
    /// # Errors
    /// If the kernel uses another one.
    pub fn facts(
        &self,
        socket: BorrowedFd<'_>,
    ) -> Result<BTreeMap<String, String>, TransportError> {
        self.sockets.facts(&SockRef::from(&socket))
    }

    /// What a reader must know of these sockets over this path.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        self.warning.iter().cloned().collect()
    }
}

/// The statistics of a connected socket; `None` if the kernel does not tell.
#[must_use]
pub fn sample(socket: BorrowedFd<'_>) -> Option<ProtocolSample> {
    info::sample(socket.as_raw_fd())
}
