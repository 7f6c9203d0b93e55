//! Descriptors of the drivers `tcp`, `tcp-tls` and `mptcp`.

use regatta_control::TrialOrder;
use regatta_model::{Handshake, metric::id};
use regatta_transport::{
    Driver, DriverDescriptor, OptionValues, Result, Session, StreamSession, TrialContext,
    Unsupported,
};

use crate::{
    endpoint::Endpoint,
    layer::Layer,
    mptcp,
    settings::{MultipathOptions, SocketOptions, TlsOptions, check_congestion_control},
    tls::{EarlyStream, RecordStream, Tls},
};

/// Version in `Cargo.lock`; a test compares the two.
const RUSTLS_VERSION: &str = "0.23.46";

/// Driver of TCP of the kernel.
pub(crate) struct KernelTcp {
    descriptor: &'static DriverDescriptor,
    /// Check of this host, beside that of its congestion controls.
    supported: fn() -> Result<(), Unsupported>,
    /// Maker of one end of one trial.
    prepare: fn(&TrialOrder, TrialContext) -> Result<Box<dyn Session>>,
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
        summary: "TCP of the running kernel, not encrypted",
        congestion_control_choosable: true,
        options: SocketOptions::DEFINITIONS,
        metrics: METRICS,
        ..DriverDescriptor::PLAIN
    },
    supported: || Ok(()),
    prepare: |order, context| {
        let endpoint = Endpoint::new(order, Layer::Plain)?;
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
        congestion_control_choosable: true,
        capabilities: &["resumption", "0-rtt"],
        stack: "Linux kernel, rustls",
        stack_version: RUSTLS_VERSION,
        options: TlsOptions::DEFINITIONS,
        metrics: METRICS,
        ..DriverDescriptor::PLAIN
    },
    supported: || Ok(()),
    prepare: |order, context| {
        let layer = match order.workload.kind.handshake() {
            Handshake::EarlyData => Layer::Early(Tls::new(order, EarlyStream::open)?),
            _ => Layer::Records(Tls::new(order, RecordStream::open)?),
        };
        let endpoint = Endpoint::new(order, layer)?;
        Ok(Box::new(StreamSession::new(endpoint, order, context)?))
    },
};

/// Driver of TCP over several paths.
pub(crate) static MPTCP: KernelTcp = KernelTcp {
    descriptor: &DriverDescriptor {
        name: "mptcp",
        title: "MPTCP",
        summary: "Multipath TCP of the running kernel: one subflow from each address of the path's interface",
        congestion_control_choosable: true,
        capabilities: &["multihoming"],
        options: MultipathOptions::DEFINITIONS,
        metrics: DriverDescriptor::ALL_LEVELS,
        ..DriverDescriptor::PLAIN
    },
    supported: mptcp::supported,
    prepare: |order, context| {
        let options = MultipathOptions::read(&order.transport.options);
        let endpoint = Endpoint::multipath(order, options.subflow_down_after, Layer::Plain)?;
        Ok(Box::new(StreamSession::new(endpoint, order, context)?))
    },
};

impl Driver for KernelTcp {
    fn descriptor(&self) -> &'static DriverDescriptor {
        self.descriptor
    }

    fn supported(&self, options: &OptionValues) -> Result<(), Unsupported> {
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
    fn stack_version_matches_the_built_crate() {
        let lock = include_str!("../../../../Cargo.lock");
        assert!(lock.contains(&format!(
            "name = \"rustls\"\nversion = \"{RUSTLS_VERSION}\""
        )));
    }
}
