//! Descriptors of the drivers `tcp`, `tcp-tls` and `mptcp`.

use regatta_control::TrialOrder;
use regatta_model::{Argument, Handshake, IpProtocol, Pattern, WorkloadKind, metric::id, reason};
use regatta_transport::{
    ClientSession, Driver, DriverDescriptor, OptionValues, Result, ServerSession, StreamSession,
    TrialContext, Unsupported, applicable,
};

use crate::{
    endpoint::Endpoint,
    layer::Layer,
    mptcp,
    plain::COPIED_BYTES,
    settings::{MultipathOptions, SocketOptions, TlsOptions, check_congestion_control},
    sockets::Sockets,
    tls::{EarlyStream, RecordStream, Tls},
};

/// Version in `Cargo.lock`; a test compares the two.
const RUSTLS_VERSION: &str = "0.23.46";

/// Driver of TCP of the kernel.
pub(crate) struct KernelTcp {
    descriptor: &'static DriverDescriptor,
    /// Check of this host, beside that of its congestion controls.
    supported: fn() -> Result<(), Unsupported>,
    /// Layer of one end between its sockets and its streams.
    layer: fn(&TrialOrder) -> Result<Layer>,
    /// Whether the sockets are those of MPTCP.
    multipath: bool,
}

/// Metrics of the kernel's TCP: the usual ones, and its time-outs.
const METRICS: &[&str] = &[
    id::RETRANSMITTED_PACKETS,
    id::RETRANSMIT_RATIO,
    id::RETRANSMISSION_TIMEOUTS,
    id::TIMEOUT_RECOVERY_TIME_NS,
    id::MIN_RTT_NS,
    id::SMOOTHED_RTT_MEAN_NS,
    id::SMOOTHED_RTT_P50_NS,
    id::SMOOTHED_RTT_LAST_NS,
    id::CONGESTION_WINDOW_MEAN_BYTES,
    id::CONGESTION_WINDOW_MAX_BYTES,
    id::BYTES_IN_FLIGHT_MAX_BYTES,
];

/// Driver of TCP with nothing on top.
pub(crate) static TCP: KernelTcp = KernelTcp {
    descriptor: &DriverDescriptor {
        name: "tcp",
        title: "TCP",
        ip_protocol: Some(IpProtocol::Tcp),
        summary: "TCP of the running kernel, not encrypted",
        congestion_control_choosable: true,
        options: SocketOptions::DEFINITIONS,
        metrics: METRICS,
        ..DriverDescriptor::PLAIN
    },
    supported: || Ok(()),
    layer: |order| {
        Ok(Layer::Plain {
            zero_copy: SocketOptions::zero_copy.read(&order.transport.options),
        })
    },
    multipath: false,
};

/// Driver of TCP with TLS 1.3 on top.
pub(crate) static TCP_TLS: KernelTcp = KernelTcp {
    descriptor: &DriverDescriptor {
        name: "tcp-tls",
        title: "TCP with TLS 1.3",
        ip_protocol: Some(IpProtocol::Tcp),
        summary: "TCP of the running kernel under TLS 1.3 of rustls, with the run's own certificate",
        encrypted: true,
        congestion_control_choosable: true,
        capabilities: &["resumption", "0-rtt"],
        stack: "Linux kernel, rustls",
        stack_version: RUSTLS_VERSION,
        options: TlsOptions::DEFINITIONS,
        metrics: METRICS,
        ..DriverDescriptor::PLAIN
    },
    supported: || Ok(()),
    layer: |order| match order.workload.kind.handshake() {
        Handshake::EarlyData => Tls::new(order, EarlyStream::open).map(Layer::Early),
        _ => Tls::new(order, RecordStream::open).map(Layer::Records),
    },
    multipath: false,
};

/// Driver of TCP over several paths.
pub(crate) static MPTCP: KernelTcp = KernelTcp {
    descriptor: &DriverDescriptor {
        name: "mptcp",
        title: "MPTCP",
        ip_protocol: Some(IpProtocol::Tcp),
        summary: "Multipath TCP of the running kernel: one subflow from each address of the path's interface",
        congestion_control_choosable: true,
        capabilities: &["multihoming"],
        options: MultipathOptions::DEFINITIONS,
        metrics: DriverDescriptor::ALL_LEVELS,
        ..DriverDescriptor::PLAIN
    },
    supported: mptcp::supported,
    layer: |_| Ok(Layer::Plain { zero_copy: false }),
    multipath: true,
};

impl Driver for KernelTcp {
    fn descriptor(&self) -> &'static DriverDescriptor {
        self.descriptor
    }

    fn supported(&self, options: &OptionValues) -> Result<(), Unsupported> {
        (self.supported)()?;
        check_congestion_control(options)
    }

    fn applicable(
        &self,
        options: &OptionValues,
        workload: &WorkloadKind,
    ) -> Result<(), Unsupported> {
        let is_worthwhile = match workload {
            WorkloadKind::Bulk {
                pattern, message, ..
            } => *pattern != Pattern::File && message.0 > COPIED_BYTES as u64,
            _ => false,
        };
        if SocketOptions::zero_copy.read(options) && !is_worthwhile {
            let lacks = reason::zero_copy_of_bulk(self.descriptor.name);
            return Err(Unsupported::new(
                lacks,
                reason::leave_option_out(Argument::option("zero_copy")),
            ));
        }
        applicable::check(self.descriptor, self.descriptor.carries, workload)
    }

    fn client(&self, order: &TrialOrder, context: TrialContext) -> Result<Box<dyn ClientSession>> {
        let sockets = self.sockets(order)?;
        let endpoint = match self.multipath {
            true => {
                let options = MultipathOptions::read(&order.transport.options);
                Endpoint::multipath(order, sockets, options.subflow_down_after)?
            }
            false => Endpoint::client(order, sockets, (self.layer)(order)?),
        };
        Ok(StreamSession::new(endpoint, order, context)?)
    }

    fn server(&self, order: &TrialOrder, context: TrialContext) -> Result<Box<dyn ServerSession>> {
        let endpoint = Endpoint::server(order, self.sockets(order)?, (self.layer)(order)?)?;
        Ok(StreamSession::new(endpoint, order, context)?)
    }
}

impl KernelTcp {
    /// Makes the sockets of an order that this host can carry out.
    fn sockets(&self, order: &TrialOrder) -> Result<Sockets> {
        self.check_options(&order.transport.options)?;
        self.supported(&order.transport.options)?;
        let mut sockets = Sockets::new(order);
        sockets.multipath = self.multipath;
        Ok(sockets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stack_version_matches_the_built_crate() {
        let lock = include_str!("../../../../Cargo.lock");
        assert!(lock.contains(&format!(
            "name = \"rustls\"\nversion = \"{RUSTLS_VERSION}\""
        )));
    }
}
