//! Benchmark of the emulator: the pure state machine alone, in simulated time.

use std::time::{Duration, Instant};

use regatta_emulation::{Direction, EmulatedLink, Packet};
use regatta_model::{BitRate, Condition, Link, Ratio};
use serde::Serialize;

use crate::{error::BenchError, rounds::Spread};

/// Rate of the links that have one.
pub const GIGABIT: BitRate = BitRate(1_000_000_000);

/// A packet of which only the size matters.
struct Sized(usize);

impl Packet for Sized {
    fn size(&self) -> usize {
        self.0
    }

    fn duplicate(&self) -> Self {
        Self(self.0)
    }

    fn flip_bit(&mut self, _: u64) {}
}

/// Cost of the state machine.
#[derive(Debug, Clone, Serialize)]
pub struct Emulation {
    /// Description of the emulated link.
    pub link: String,
    /// Packets per second: for the state machine alone, of CPU time of one core; for a whole path,
    /// of wall-clock time, both directions together.
    pub packets_per_second: Spread,
    /// CPU time for one packet, in nanoseconds: offered, held, delivered or dropped.
    pub packet_ns: Spread,
}

/// Returns a condition of equal links of 15 ms.
pub fn condition(rate: Option<BitRate>, loss: f64) -> Condition {
    let link = Link {
        delay: Duration::from_millis(15),
        rate,
        loss: Ratio(loss),
        ..Link::default()
    };
    Condition {
        name: "bench".to_owned(),
        forward: link.clone(),
        reverse: link,
        mtu_bytes: Condition::DEFAULT_MTU_BYTES,
        schedule: Vec::new(),
        tuning: regatta_model::HostTuning::default(),
    }
}

/// Offers packets at 1 Gbit/s, in bursts of ten as a batched sender does, and takes the due ones.
fn drive(condition: &Condition, packets: u64) -> Result<f64, BenchError> {
    const BYTES: u64 = 1500;
    const BURST: u64 = 10;
    let link = EmulatedLink::new(condition, Direction::Forward, 1);
    let mut link = link.map_err(BenchError::reference)?;
    let mut now = 0;
    let started = Instant::now();
    for offered in 0..packets {
        if offered % BURST == 0 {
            now += BURST * BYTES * 8;
        }
        // Dropped or carried, it has been worked on.
        let _ = link.offer(now, Sized(BYTES as usize));
        while link.poll(now).is_some() {}
    }
    let seconds = started.elapsed().as_secs_f64();
    let counters = link.counters();
    let counted = counters.delivered + counters.dropped() + link.in_flight();
    if counted != packets {
        return Err(BenchError::reference(format!(
            "the emulator lost count: {counted} of {packets} packets"
        )));
    }
    Ok(seconds)
}

/// Measures the emulation of several links, `rounds` times each.
///
/// # Errors
/// [`BenchError::Reference`] if the emulator loses count of its packets.
pub fn measure(rounds: u32, packets: u64) -> Result<Vec<Emulation>, BenchError> {
    let links = [
        ("delay 15 ms", condition(None, 0.0)),
        ("delay 15 ms, 5 % loss", condition(None, 0.05)),
        (
            "delay 15 ms, 5 % loss, 1 Gbit/s",
            condition(Some(GIGABIT), 0.05),
        ),
    ];
    let mut times = vec![Vec::new(); links.len()];
    for _ in 0..rounds {
        for (times, (_, condition)) in times.iter_mut().zip(&links) {
            times.push(drive(condition, packets)?);
        }
    }
    let packets = packets as f64;
    let of = |((link, _), times): (&(&str, _), Vec<f64>)| {
        Some(Emulation {
            link: (*link).to_owned(),
            packets_per_second: Spread::of(times.iter().map(|seconds| packets / seconds))?,
            packet_ns: Spread::of(times.iter().map(|seconds| seconds * 1e9 / packets))?,
        })
    };
    Ok(links.iter().zip(times).filter_map(of).collect())
}
