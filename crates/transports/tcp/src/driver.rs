//! Descriptors of the drivers `tcp`, `tcp-tls` and `mptcp`.

use std::{collections::BTreeMap, io};

use regatta_control::TrialOrder;
use regatta_model::OptionValue;
use regatta_transport::{
    Carries, Driver, DriverDescriptor, OptionDefinition, OptionKind, Result, Session,
    StreamSession, TrialContext, Unsupported,
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

/// Driver of TCP of the kernel.
pub(crate) struct KernelTcp {
    descriptor: &'static DriverDescriptor,
    /// Check of this host, beside that of its congestion controls.
    supported: fn() -> Result<(), Unsupported>,
    /// Maker of one end of one trial.
    prepare: fn(&TrialOrder, TrialContext) -> Result<Box<dyn Session>>,
}

/// Driver of TCP with nothing on top.
pub(crate) static TCP: KernelTcp = KernelTcp {
    descriptor: &DriverDescriptor {
        name: "tcp",
        title: "TCP",
        summary: "TCP of the running kernel, not encrypted",
        options: &[CC, RATE, MSS, SOCKET_BUFFERS, NO_DELAY, DSCP],
        ..PLAIN
    },
    supported: || Ok(()),
    prepare: |order, context| {
        let endpoint = Endpoint::new(order, Plain)?;
        Ok(Box::new(StreamSession::new(endpoint, order, context)?))
    },
};

/// Driver of TCP with TLS 1.3 on top.
pub(crate) static TCP_TLS: KernelTcp = KernelTcp {
    descriptor: &DriverDescriptor {
        name: "tcp-tls",
        title: "TCP with TLS 1.3",
        summary: "TCP of the running kernel under TLS 1.3 of rustls, with the run's own certificate",
        encrypted: true,
        capabilities: &["resumption", "0-rtt"],
        stack: "Linux kernel, rustls",
        stack_version: RUSTLS_VERSION,
        options: &[CC, CRYPTO, RATE, MSS, SOCKET_BUFFERS, NO_DELAY, DSCP],
        ..PLAIN
    },
    supported: || Ok(()),
    prepare: |order, context| {
        let endpoint = Endpoint::new(order, Tls::new(order)?)?;
        Ok(Box::new(StreamSession::new(endpoint, order, context)?))
    },
};

/// Driver of TCP over several paths.
pub(crate) static MPTCP: KernelTcp = KernelTcp {
    descriptor: &DriverDescriptor {
        name: "mptcp",
        title: "MPTCP",
        summary: "Multipath TCP of the running kernel: one subflow from each address of the path's interface",
        capabilities: &["multihoming"],
        options: &[CC, SUBFLOW_DOWN_AFTER],
        ..PLAIN
    },
    supported: mptcp::supported,
    prepare: |order, context| {
        let down_after = SUBFLOW_DOWN_AFTER.time(&order.transport.options);
        let endpoint = Endpoint::multipath(order, down_after, Plain)?;
        Ok(Box::new(StreamSession::new(endpoint, order, context)?))
    },
};

/// Properties that the drivers share.
const PLAIN: DriverDescriptor = DriverDescriptor {
    name: "",
    title: "",
    summary: "",
    carries: Carries::Streams,
    reliable: true,
    encrypted: false,
    multiplexes: false,
    congestion_control_choosable: true,
    capabilities: &[],
    stack: "Linux kernel",
    stack_version: "",
    options: &[],
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

/// Tries the congestion control that the options ask for on a socket: the kernel loads its module if permitted.
pub(crate) fn check_congestion_control(
    options: &BTreeMap<String, OptionValue>,
) -> Result<(), Unsupported> {
    let name = congestion_control(options);
    let attempt = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))
        .and_then(|socket| socket.set_tcp_congestion(name.as_bytes()));
    let Err(error) = attempt else {
        return Ok(());
    };
    if error.kind() == io::ErrorKind::PermissionDenied {
        let allowed = kernel_list("allowed");
        return Err(Unsupported::new(
            format!("this user may not choose congestion control `{name}`; allowed are: {allowed}"),
            format!(
                "run `sysctl -w net.ipv4.tcp_allowed_congestion_control=\"{allowed} {name}\"` as root"
            ),
        ));
    }
    let available = kernel_list("available");
    Err(Unsupported::new(
        format!("this kernel has no congestion control `{name}`; it has: {available}"),
        format!("run `modprobe tcp_{name}` as root"),
    ))
}

impl Driver for KernelTcp {
    fn descriptor(&self) -> &'static DriverDescriptor {
        self.descriptor
    }

    fn supported(&self, options: &BTreeMap<String, OptionValue>) -> Result<(), Unsupported> {
        (self.supported)()?;
        check_congestion_control(options)
    }

    fn prepare(&self, order: &TrialOrder, context: TrialContext) -> Result<Box<dyn Session>> {
        self.check_options(&order.transport.options)?;
        self.supported(&order.transport.options)?;
        (self.prepare)(order, context)
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
