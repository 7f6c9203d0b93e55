//! Path made by Regatta's own emulator: a TUN device in each host and a thread that carries packets
//! between them.

use std::fs::File;

use regatta_model::{BitRate, Condition, PathSetup, Setting};

use super::{
    ADDRESSES, Path, capture::Recorder, clock, error::DaemonError, forwarder::Forwarder,
    namespaces::Namespace, tun::Tun,
};
use crate::{
    capture::{CaptureOrder, CaptureSummary},
    messages::{LinkCounters, PathForm},
};

/// Difference between the first packet numbers of two captures: less than half of all numbers, and
/// no divisor of them.
const CAPTURE_NUMBERS: u32 = 0x1357_9bdf;

/// Rate of a host's interface: that of Gigabit Ethernet, or of a link that is faster, and a part of it more, so that
/// the link is the bottleneck. A sender that hands over packets faster than that waits, as it does at an interface of
/// this rate. Slow start hands over twice what the link carries, which is more than the forwarder can read from 1
/// Gbit/s on two processors.
const LINE_RATE: BitRate = BitRate(1_000_000_000);
const ABOVE_LINK: f64 = 1.1;

/// One of the two hosts.
struct HostSide {
    namespace: Namespace,
    tun: Tun,
    /// The device's drops when the condition was set.
    dropped_before: u64,
}

impl HostSide {
    fn create(address: std::net::Ipv4Addr) -> Result<Self, DaemonError> {
        Ok(Self {
            namespace: Namespace::create()?,
            tun: Tun::create(address)?,
            dropped_before: 0,
        })
    }

    fn handles(&self) -> Result<[File; 2], DaemonError> {
        Ok([self.tun.packets()?, self.tun.packets()?])
    }
}

/// The path.
pub(super) struct UserspacePath {
    hosts: [HostSide; 2],
    forwarder: Forwarder,
    /// Running capture.
    recorder: Option<Recorder>,
    /// Number of the first packet of the latest capture. The next capture begins
    /// [`CAPTURE_NUMBERS`] later, so that a packet that is still under way by then is not taken for
    /// one of its own.
    captures: u32,
}

impl UserspacePath {
    pub(super) fn up() -> Result<Self, DaemonError> {
        let [a, b] = ADDRESSES;
        let hosts = [HostSide::create(a)?, HostSide::create(b)?];
        let forwarder = Forwarder::start([hosts[0].handles()?, hosts[1].handles()?])?;
        Ok(Self {
            hosts,
            forwarder,
            recorder: None,
            captures: 0,
        })
    }
}

/// Returns the rates of the two hosts' interfaces, host a first; `None` where the link has no rate at some time, and
/// in virtual time, in which the forwarder keeps up with any sender.
fn line_rates(condition: &Condition) -> [Option<BitRate>; 2] {
    let links: [fn(&Setting<'_>) -> Option<BitRate>; 2] = [
        |setting| setting.forward.mean_rate(),
        |setting| setting.reverse.mean_rate(),
    ];
    links.map(|rate| {
        let rates: Option<Vec<BitRate>> = condition.settings().map(|s| rate(&s)).collect();
        let fastest = rates.filter(|_| !clock::is_virtual())?.into_iter().max()?;
        let above = BitRate((fastest.0 as f64 * ABOVE_LINK) as u64);
        Some(above.max(LINE_RATE))
    })
}

impl Path for UserspacePath {
    fn form(&self) -> PathForm {
        PathForm {
            setup: PathSetup::USERSPACE,
            kernel: String::new(),
            seeded: true,
            is_real: false,
        }
    }

    fn hosts(&self) -> Vec<&Namespace> {
        self.hosts.iter().map(|host| &host.namespace).collect()
    }

    fn set(&mut self, condition: &Condition, seed: u64) -> Result<(), DaemonError> {
        for (host, rate) in self.hosts.iter_mut().zip(line_rates(condition)) {
            host.tun.set_mtu(condition.mtu_bytes)?;
            host.tun.set_line_rate(rate)?;
        }
        self.forwarder.set(condition, seed)?;
        for host in &mut self.hosts {
            host.dropped_before = host.tun.dropped()?;
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<(), DaemonError> {
        self.forwarder.begin()
    }

    fn start_capture(&mut self, order: CaptureOrder) -> Result<(), DaemonError> {
        self.end_capture()?;
        // Far from those of the captures before.
        self.captures = self.captures.wrapping_add(CAPTURE_NUMBERS);
        let (recorder, tap) = Recorder::start(order, self.captures)?;
        self.forwarder.tell(Some(tap))?;
        self.recorder = Some(recorder);
        Ok(())
    }

    fn end_capture(&mut self) -> Result<Option<CaptureSummary>, DaemonError> {
        let Some(recorder) = self.recorder.take() else {
            return Ok(None);
        };
        self.forwarder.tell(None)?;
        Ok(Some(recorder.finish()))
    }

    fn counters(&mut self) -> Result<[LinkCounters; 2], DaemonError> {
        let mut links = self.forwarder.counters()?;
        for (link, host) in links.iter_mut().zip(&mut self.hosts) {
            link.refused_drops += host.tun.dropped()?.saturating_sub(host.dropped_before);
        }
        Ok(links)
    }
}
