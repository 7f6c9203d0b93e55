//! Benchmark of the whole emulated path: two namespaces, their devices and the forwarding thread,
//! loaded by one TCP flow between two agents.

use std::{collections::BTreeMap, path::Path, time::Duration};

use regatta_bed::{Bed, Host, TestBed as _};
use regatta_control::PathHints;
use regatta_model::{BedKind, BitRate, Condition, Link, OptionValue, PathSetup};

use crate::{
    agents::{self, Race},
    emulator::Emulation,
    error::BenchError,
    process::Running,
    rounds::Spread,
};

/// Half of the round-trip delay of the paths.
const DELAY: Duration = Duration::from_millis(15);

fn condition(rate: Option<BitRate>) -> Condition {
    let link = Link {
        delay: DELAY,
        rate,
        ..Link::default()
    };
    Condition {
        name: "bench".to_owned(),
        forward: link.clone(),
        reverse: link,
        mtu_bytes: Condition::DEFAULT_MTU_BYTES,
        schedule: Vec::new(),
    }
}

/// Measures packets per second of the transfer, CPU time of the daemon per packet in nanoseconds,
/// and goodput in bits per second.
fn forward(bed: &mut Bed, rate: Option<BitRate>, bytes: u64) -> Result<[f64; 3], BenchError> {
    let condition = condition(rate);
    bed.set_condition(&condition, 1)?;
    let before = bed.counters()?;
    let race = Race {
        driver: "tcp",
        options: BTreeMap::from([(
            "cc".to_owned(),
            OptionValue::Text(crate::CONGESTION_CONTROL.to_owned()),
        )]),
        bytes,
        message: crate::MESSAGE_BYTES,
        flows: 1,
        path: PathHints {
            round_trip_delay: condition.round_trip_delay(),
            longest_one_way: condition.longest_one_way(&condition.forward),
            link_rate_bps: rate.map(|rate| rate.0),
            window_bytes: condition
                .flow_control_window(regatta_model::Direction::Forward)
                .map(|window| window.0),
            mtu_bytes: condition.mtu_bytes,
            clock_offset_ns: Some(0),
            keeps_order: true,
            is_as_it_is: false,
            treats_alike: true,
        },
    };
    let agents = [
        Running::adopt(bed.spawn_agent(Host::Client)?, "agent in host a"),
        Running::adopt(bed.spawn_agent(Host::Server)?, "agent in host b"),
    ];
    let addresses = [bed.address(Host::Client), bed.address(Host::Server)];
    let figures = agents::run(&race, agents, addresses)?.figures()?;
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
    let paths = [None, Some(BitRate(1_000_000_000))];
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
    Ok(paths
        .iter()
        .zip(&runs)
        .filter_map(|(rate, runs)| {
            let goodput = Spread::of(runs.iter().map(|run| run[2]))?;
            let rate = rate.map_or_else(|| "no rate".to_owned(), |rate| rate.to_string());
            Some(Emulation {
                link: format!(
                    "path, 30 ms, {rate}: TCP {:.0} Mbit/s",
                    goodput.median / 1e6
                ),
                packets_per_second: Spread::of(runs.iter().map(|run| run[0]))?,
                packet_ns: Spread::of(runs.iter().map(|run| run[1]))?,
            })
        })
        .collect())
}
