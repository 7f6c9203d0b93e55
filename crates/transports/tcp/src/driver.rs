//! Descriptors of the drivers `tcp`, `tcp-tls` and `mptcp`.

use std::{collections::BTreeMap, io};

use regatta_control::TrialOrder;
use regatta_model::OptionValue;
use regatta_transport::{
    Carries, Driver, DriverDescriptor, OptionDefinition, OptionKind, Session, StreamSession,
    TransportError, TrialContext, Unsupported,
    options::{self, DSCP},
};
use regatta_transport_tls::{Crypto, crypto_option};
use socket2::{Domain, Protocol, Socket, Type};

use crate::{
    endpoint::Endpoint,
    mptcp,
    plain::Plain,
    settings::{MSS, NO_DELAY, RATE, SOCKET_BUFFERS},
    tls::Tls,
};

/// Version in `Cargo.lock`; a test compares the two.
const RUSTLS_VERSION: &str = "0.23.46";

/// The option that chooses the congestion control.
pub const CC: OptionDefinition = OptionDefinition {
    name: "cc",
    kind: OptionKind::KernelCongestionControl,
    default: "cubic",
    help: "congestion control of the kernel, set on every socket and read back",
};

/// Library of the encryption of `tcp-tls`.
pub(crate) const CRYPTO: OptionDefinition = crypto_option(Crypto::AwsLc);

/// Driver of TCP with nothing on top.
pub(crate) struct Tcp;

/// Driver of TCP with TLS 1.3 on top.
pub(crate) struct TcpTls;

static TCP: DriverDescriptor = DriverDescriptor {
    name: "tcp",
    title: "TCP",
    summary: "TCP of the running kernel, not encrypted",
    carries: Carries::Streams,
    reliable: true,
    encrypted: false,
    multiplexes: false,
    congestion_control_choosable: true,
    capabilities: &[],
    stack: "Linux kernel",
    stack_version: "",
    options: &[CC, RATE, MSS, SOCKET_BUFFERS, NO_DELAY, DSCP],
};

static TCP_TLS: DriverDescriptor = DriverDescriptor {
    name: "tcp-tls",
    title: "TCP with TLS 1.3",
    summary: "TCP of the running kernel under TLS 1.3 of rustls, with the run's own certificate",
    carries: Carries::Streams,
    reliable: true,
    encrypted: true,
    multiplexes: false,
    congestion_control_choosable: true,
    capabilities: &["resumption", "0-rtt"],
    stack: "Linux kernel, rustls",
    stack_version: RUSTLS_VERSION,
    options: &[CC, CRYPTO, RATE, MSS, SOCKET_BUFFERS, NO_DELAY, DSCP],
};

/// Driver of TCP over several paths.
pub(crate) struct Mptcp;

static MPTCP: DriverDescriptor = DriverDescriptor {
    name: "mptcp",
    title: "MPTCP",
    summary: "Multipath TCP of the running kernel: one subflow from each address of the path's interface",
    carries: Carries::Streams,
    reliable: true,
    encrypted: false,
    multiplexes: false,
    congestion_control_choosable: true,
    capabilities: &["multihoming"],
    stack: "Linux kernel",
    stack_version: "",
    options: &[CC, SUBFLOW_DOWN_AFTER],
};

/// Failure of the further subflows.
const SUBFLOW_DOWN_AFTER: OptionDefinition = options::time(
    "subflow_down_after",
    "take the further subflows down so long after the transfer's connection was made",
);

/// Returns the congestion control that the options ask for.
pub(crate) fn congestion_control(options: &BTreeMap<String, OptionValue>) -> &str {
    CC.text(options).unwrap_or(CC.default)
}

/// Returns the names in one of the kernel's lists of congestion controls.
fn kernel_list(which: &str) -> String {
    let path = format!("/proc/sys/net/ipv4/tcp_{which}_congestion_control");
    std::fs::read_to_string(path)
        .map(|names| names.trim().to_owned())
        .unwrap_or_default()
}

/// Tries the congestion control on a socket: the kernel loads its module if permitted.
pub(crate) fn check_congestion_control(name: &str) -> Result<(), Unsupported> {
    let attempt = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))
        .and_then(|socket| socket.set_tcp_congestion(name.as_bytes()));
    let Err(error) = attempt else {
        return Ok(());
    };
    if error.kind() == io::ErrorKind::PermissionDenied {
        return Err(Unsupported {
            reason: format!(
                "this user may not choose congestion control `{name}`; allowed are: {}",
                kernel_list("allowed")
            ),
            hint: format!(
                "run `sysctl -w net.ipv4.tcp_allowed_congestion_control=\"{} {name}\"` as root",
                kernel_list("allowed")
            ),
        });
    }
    Err(Unsupported {
        reason: format!(
            "this kernel has no congestion control `{name}`; it has: {}",
            kernel_list("available")
        ),
        hint: format!("run `modprobe tcp_{name}` as root"),
    })
}

impl Driver for Tcp {
    fn descriptor(&self) -> &'static DriverDescriptor {
        &TCP
    }

    fn supported(&self, options: &BTreeMap<String, OptionValue>) -> Result<(), Unsupported> {
        check_congestion_control(congestion_control(options))
    }

    fn prepare(
        &self,
        order: &TrialOrder,
        context: TrialContext,
    ) -> Result<Box<dyn Session>, TransportError> {
        self.check_options(&order.transport.options)?;
        self.supported(&order.transport.options)?;
        let cc = congestion_control(&order.transport.options);
        let endpoint = Endpoint::new(order, cc, Plain)?;
        Ok(Box::new(StreamSession::new(endpoint, order, context)?))
    }
}

impl Driver for TcpTls {
    fn descriptor(&self) -> &'static DriverDescriptor {
        &TCP_TLS
    }

    fn supported(&self, options: &BTreeMap<String, OptionValue>) -> Result<(), Unsupported> {
        check_congestion_control(congestion_control(options))
    }

    fn prepare(
        &self,
        order: &TrialOrder,
        context: TrialContext,
    ) -> Result<Box<dyn Session>, TransportError> {
        self.check_options(&order.transport.options)?;
        self.supported(&order.transport.options)?;
        let cc = congestion_control(&order.transport.options);
        let endpoint = Endpoint::new(order, cc, Tls::new(order)?)?;
        Ok(Box::new(StreamSession::new(endpoint, order, context)?))
    }
}

impl Driver for Mptcp {
    fn descriptor(&self) -> &'static DriverDescriptor {
        &MPTCP
    }

    fn supported(&self, options: &BTreeMap<String, OptionValue>) -> Result<(), Unsupported> {
        mptcp::supported()?;
        check_congestion_control(congestion_control(options))
    }

    fn prepare(
        &self,
        order: &TrialOrder,
        context: TrialContext,
    ) -> Result<Box<dyn Session>, TransportError> {
        let options = &order.transport.options;
        self.check_options(options)?;
        self.supported(options)?;
        let down_after = SUBFLOW_DOWN_AFTER.time(options);
        let endpoint = Endpoint::multipath(order, congestion_control(options), down_after, Plain)?;
        Ok(Box::new(StreamSession::new(endpoint, order, context)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_one_that_is_built() {
        let lock = include_str!("../../../../Cargo.lock");
        assert!(lock.contains(&format!(
            "name = \"rustls\"\nversion = \"{RUSTLS_VERSION}\""
        )));
    }
}
