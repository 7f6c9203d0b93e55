//! Path made by Regatta's own emulator: a TUN device in each host and a thread that carries packets
//! between them.

use regatta_forwarder::{
    CaptureOrder, CaptureSummary, CompetingFlow, FlowCounters, Forwarder, LinkCounters, Recorder,
    clock,
};
use regatta_model::{BitRate, Condition, Link, PacketCounter, PathSetup};

use super::{ADDRESSES, Path, error::DaemonError, kernel_release, namespaces::Namespace, tun::Tun};
use crate::messages::PathForm;

/// Difference between the first packet numbers of two captures: less than half of all numbers, and
/// no divisor of them.
const CAPTURE_NUMBERS: u32 = 0x1357_9bdf;

/// Rate of a host's interface where the emulated link is not faster: Gigabit Ethernet. A sender that hands over packets
/// faster waits, as at a real interface of this rate. Without that limit slow start would hand over twice what the link
/// carries, more than the forwarder can read on two processors.
const LINE_RATE: BitRate = BitRate(1_000_000_000);

/// Factor by which the interface is faster than a link above [`LINE_RATE`], so that the link is the bottleneck.
const ABOVE_LINK: f64 = 1.1;

/// The path.
pub(super) struct UserspacePath {
    hosts: [Tun; 2],
    /// Drops of the hosts' devices when the condition was set.
    dropped_before: [u64; 2],
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
        let hosts = [Tun::create(a)?, Tun::create(b)?];
        let forwarder = Forwarder::start([hosts[0].packets()?, hosts[1].packets()?])?;
        Ok(Self {
            hosts,
            dropped_before: [0; 2],
            forwarder,
            recorder: None,
            captures: 0,
        })
    }

    fn dropped(&self) -> Result<[u64; 2], DaemonError> {
        let [a, b] = &self.hosts;
        Ok([a.dropped()?, b.dropped()?])
    }
}

/// Returns the rates of the two hosts' interfaces, host a first; `None` where the link has no rate at some time, and
/// in virtual time, in which the forwarder keeps up with any sender.
fn line_rates(condition: &Condition) -> [Option<BitRate>; 2] {
    [0, 1].map(|direction: usize| {
        let links = condition
            .settings()
            .map(|at| [at.forward, at.reverse][direction]);
        let rates: Option<Vec<BitRate>> = links.map(Link::mean_rate).collect();
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
            host.set_mtu(condition.mtu_bytes)?;
            host.set_line_rate(rate)?;
        }
        self.forwarder.set(condition, seed)?;
        self.dropped_before = self.dropped()?;
        Ok(())
    }

    fn begin(&mut self) -> Result<(), DaemonError> {
        Ok(self.forwarder.begin()?)
    }

    fn start_capture(&mut self, order: CaptureOrder) -> Result<(), DaemonError> {
        self.end_capture()?;
        // Far from those of the captures before.
        self.captures = self.captures.wrapping_add(CAPTURE_NUMBERS);
        let (recorder, tap) = Recorder::start(
            &order,
            self.captures,
            ADDRESSES,
            &format!("Linux {}", kernel_release()),
        )?;
        self.forwarder.set_capture(Some(tap))?;
        self.recorder = Some(recorder);
        Ok(())
    }

    fn end_capture(&mut self) -> Result<Option<CaptureSummary>, DaemonError> {
        let Some(recorder) = self.recorder.take() else {
            return Ok(None);
        };
        self.forwarder.set_capture(None)?;
        Ok(Some(recorder.finish()))
    }

    fn set_flows(&mut self, flows: &[CompetingFlow]) -> Result<(), DaemonError> {
        Ok(self.forwarder.set_flows(flows)?)
    }

    fn flow_counters(&mut self) -> Result<Vec<FlowCounters>, DaemonError> {
        Ok(self.forwarder.flow_counters()?)
    }

    fn counters(&mut self) -> Result<[LinkCounters; 2], DaemonError> {
        let mut links = self.forwarder.counters()?;
        let dropped = self.dropped()?.into_iter().zip(self.dropped_before);
        for (link, (now, before)) in links.iter_mut().zip(dropped) {
            link.packets[PacketCounter::Refused] += now.saturating_sub(before);
        }
        Ok(links)
    }
}
