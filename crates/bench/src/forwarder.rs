//! Benchmark of the whole emulated path: two namespaces, their devices and the forwarding thread,
//! loaded by one TCP flow between two agents.

use std::path::Path;

use regatta_bed::{Bed, Host, TestBed as _};
use regatta_model::{BedKind, BitRate, PathSetup};

use crate::{
    agents::{self, Race},
    emulator::{self, Emulation},
    error::BenchError,
    process::Running,
    rounds::Spread,
};

/// Measures packets per second of the transfer, CPU time of the daemon per packet in nanoseconds,
/// and goodput in bits per second.
fn forward(bed: &mut Bed, rate: Option<BitRate>, bytes: u64) -> Result<[f64; 3], BenchError> {
    let condition = emulator::condition(rate, 0.0);
    bed.set_condition(&condition, 1)?;
    let before = bed.counters()?;
    let window = condition.flow_control_window(regatta_model::Direction::Forward);
    let mut race = Race::new("tcp", bytes, condition.mtu_bytes);
    race.path.round_trip_delay = condition.round_trip_delay();
    race.path.longest_one_way = condition.longest_one_way(&condition.forward);
    race.path.link_rate_bps = rate.map(|rate| rate.0);
    race.path.window_bytes = window.map(|window| window.0);
    let agents = [
        Running::adopt(bed.spawn_agent(Host::Client)?, "agent in host a"),
        Running::adopt(bed.spawn_agent(Host::Server)?, "agent in host b"),
    ];
    let addresses = [bed.address(Host::Client), bed.address(Host::Server)];
    let figures = agents::run(&race, agents, addresses)?;
    let after = bed.counters()?;
    let packets = (after.forward.offered + after.reverse.offered)
        .saturating_sub(before.forward.offered + before.reverse.offered) as f64;
    let cpu_ns = after.cpu_ns.saturating_sub(before.cpu_ns) as f64;
    Ok([
        packets / figures.seconds,
        cpu_ns / packets.max(1.0),
        figures.goodput_bps(),
    ])
}

/// Measures the path without a rate, where the machine is the limit, and at 1 Gbit/s.
///
/// # Errors
/// [`BenchError::Bed`] where no namespaces can be had, and as [`agents::run`].
pub fn measure(executable: &Path, rounds: u32, bytes: u64) -> Result<Vec<Emulation>, BenchError> {
    let paths = [None, Some(emulator::GIGABIT)];
    let mut bed = Bed::up(
        BedKind::Netns,
        PathSetup::USERSPACE,
        &[],
        executable,
        "bench",
    )?;
    let mut runs = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        for (runs, rate) in runs.iter_mut().zip(paths) {
            let run = forward(&mut bed, rate, bytes)?;
            eprintln!(
                "emulated path, round {}/{rounds}: {:.0} packets per second, {:.0} ns each, {:.2} \
                 Gbit/s",
                round + 1,
                run[0],
                run[1],
                run[2] / 1e9
            );
            runs.push(run);
        }
    }
    let of = |(rate, runs): (Option<BitRate>, &Vec<[f64; 3]>)| {
        let spread = |figure: usize| Spread::of(runs.iter().map(|run| run[figure]));
        let rate = rate.map_or_else(|| "no rate".to_owned(), |rate| rate.to_string());
        let goodput_mbps = spread(2)?.median / 1e6;
        Some(Emulation {
            link: format!("path, 30 ms, {rate}: TCP {goodput_mbps:.0} Mbit/s"),
            packets_per_second: spread(0)?,
            packet_ns: spread(1)?,
        })
    };
    Ok(paths.into_iter().zip(&runs).filter_map(of).collect())
}
