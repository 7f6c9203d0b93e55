//! Lateness with which packets of the user-space emulator arrive in real time, with and without
//! each setting with which its thread wakes on time.
//!
//! `lateness [SECONDS]` sends datagrams over a path of 30 ms and 100 Mbit/s, one a millisecond and
//! ten a millisecond, for SECONDS each (5 s if absent). Each line of the table is for one request
//! to the kernel; delays are from the call to send to the receiving kernel's time stamp, less what
//! the path asks for: both the time in a device and the time after a packet was due are in them.
//! The last two columns are the forwarder's own account of the same, as trials have it.

use std::{process::Command, time::Duration};

use regatta_model::{BitRate, Condition, Link, PathSetup};

use super::{
    Outcome,
    hosts::{Hosts, Sending},
};

/// Values of the variable [`VARIABLE`], and their names in the table.
const SETTINGS: [(&str, &str); 6] = [
    ("none", "none"),
    ("slack,short-slices", "timer slack of 1 ns, short slices"),
    ("slack,real-time", "timer slack, real-time priority"),
    ("slack,real-time,rests", "real-time priority and sleeps"),
    (
        "slack,real-time,rests,coalescing",
        "real-time priority, sleeps, coalescing",
    ),
    ("slack,short-slices,busy-poll", "timer slack, busy polling"),
];
const VARIABLE: &str = "REGATTA_FORWARDER_SCHEDULING";

const DELAY: Duration = Duration::from_millis(15);

/// Packets a millisecond, their size in bytes, and the rate of the path.
const LOADS: [(u64, u64, BitRate); 3] = [
    (1, 1000, BitRate(100_000_000)),
    (10, 1000, BitRate(100_000_000)),
    (75, 1500, BitRate(1_000_000_000)),
];

/// Rounds over all settings, so that a drift of the machine meets all alike.
const ROUNDS: u32 = 3;

/// Runs each setting in a process of its own, since a process's environment is given at its start.
pub(super) fn run() -> Outcome<()> {
    let seconds = match std::env::args().nth(2) {
        Some(seconds) => seconds.parse::<u64>()?,
        None => 5,
    };
    if std::env::args().nth(3).is_some() {
        return measure(seconds);
    }
    println!(
        "| settings of the thread | packets a ms | missing | median, µs | 99 % | 99.9 % | longest | own mean, µs | own late |"
    );
    println!("|---|---|---:|---:|---:|---:|---:|---:|---:|");
    for _ in 0..ROUNDS {
        for (settings, name) in SETTINGS {
            let output = Command::new(std::env::current_exe()?)
                .args(["lateness", &seconds.to_string(), "one"])
                .env(VARIABLE, settings)
                .output()?;
            if !output.status.success() {
                return Err(String::from_utf8_lossy(&output.stdout).into());
            }
            for line in String::from_utf8(output.stdout)?.lines() {
                println!("| {name} {line}");
            }
        }
    }
    Ok(())
}

fn measure(seconds: u64) -> Outcome<()> {
    let mut hosts = Hosts::over(PathSetup::USERSPACE)?;
    for (a_millisecond, packet_bytes, rate) in LOADS {
        let link = Link {
            delay: DELAY,
            rate: Some(rate),
            ..Link::default()
        };
        let condition = Condition {
            name: "lateness".into(),
            forward: link.clone(),
            reverse: link,
            mtu_bytes: Condition::DEFAULT_MTU_BYTES,
            schedule: Vec::new(),
            tuning: regatta_model::HostTuning::default(),
        };
        let sending = Sending {
            packets: seconds * 1000 * a_millisecond,
            packet_bytes,
            interval: Duration::from_millis(1) / a_millisecond as u32,
        };
        let flow = hosts.flow(&condition, 1, sending)?;
        let expected_ns = DELAY.as_nanos() as u64 + packet_bytes * 8_000_000_000 / rate.0;
        let mut late: Vec<u64> = flow
            .arrivals
            .iter()
            .map(|arrival| arrival.delay_ns.saturating_sub(expected_ns) / 1000)
            .collect();
        late.sort_unstable();
        let at = |share: f64| {
            let index = (late.len() as f64 * share) as usize;
            late.get(index.min(late.len().saturating_sub(1)))
                .copied()
                .unwrap_or_default()
        };
        let forward = flow.counters.forward;
        println!(
            "| {a_millisecond} of {packet_bytes} B | {} | {} | {} | {} | {} | {:.0} | {} |",
            sending.packets - late.len() as u64,
            at(0.5),
            at(0.99),
            at(0.999),
            at(1.0),
            forward.lateness_mean_ns / 1e3,
            forward.late_packets
        );
    }
    Ok(())
}
