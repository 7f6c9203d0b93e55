//! Benchmark of the emulator: the pure state machine alone, and the forwarder with its devices.
//!
//! `path_bench HOST_PROGRAM [ROUNDS]` prints one JSON object. `HOST_PROGRAM` is `regatta-bed-host`,
//! which stands in for `regatta` in this crate's tests. Figures are medians over the rounds, with
//! the smallest and largest beside them.
//!
//! - `emulation`: packets per second and nanoseconds per packet of offering full packets to one
//!   line at 1 Gbit/s, 15 ms and 1 % loss and taking out what is due, in simulated time.
//! - `forwarder`: one TCP flow (CUBIC) over a path of 30 ms without a rate, so that the machine is
//!   the limit: wire packets per second in both directions together, CPU time of the daemon per
//!   packet (with the kernel's work on arriving packets, see `PathCounters::cpu_ns`), goodput.
//! - `forwarder_gigabit`: the same over 1 Gbit/s and 30 ms.

use std::{
    error::Error,
    fs::File,
    hint::black_box,
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    time::{Duration, Instant},
};

use regatta_bed::{Bed, Host, Launched, TestBed as _};
use regatta_emulation::{Direction, EmulatedLink, Offer};
use regatta_model::{BedKind, BitRate, Condition, Link, PathSetup, Ratio};
use serde_json::{Value, json};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Time for which data is sent in a round.
const SECONDS: u32 = 3;

fn main() -> Outcome<()> {
    let mut arguments = std::env::args_os().skip(1);
    let host: PathBuf = arguments
        .next()
        .ok_or("usage: path_bench HOST_PROGRAM [ROUNDS]")?
        .into();
    let rounds: usize = match arguments.next() {
        Some(rounds) => rounds.to_string_lossy().parse()?,
        None => 5,
    };
    let mut emulation = Vec::new();
    let mut forwarder = [Vec::new(), Vec::new()];
    let mut bed = Bed::up(
        BedKind::Netns,
        PathSetup::USERSPACE,
        &[],
        &host,
        "path bench",
    )?;
    // Interleaved, so that a drift of the machine meets all alike.
    for _ in 0..rounds.max(1) {
        emulation.push(emulate()?);
        for (rate, figures) in [None, Some(BitRate(1_000_000_000))]
            .into_iter()
            .zip(&mut forwarder)
        {
            figures.push(forward(&mut bed, rate)?);
        }
    }
    let [unlimited, gigabit] = forwarder;
    let figures = |runs: &[[f64; 3]]| {
        json!({
            "packets_per_second": spread(runs, 0),
            "cpu_ns_per_packet": spread(runs, 1),
            "goodput_bps": spread(runs, 2),
        })
    };
    let report = json!({
        "rounds": rounds.max(1),
        "emulation": {
            "packets_per_second": spread(&emulation, 0),
            "cpu_ns_per_packet": spread(&emulation, 1),
        },
        "forwarder": figures(&unlimited),
        "forwarder_gigabit": figures(&gigabit),
    });
    println!("{report:#}");
    Ok(())
}

/// Returns the median, smallest and largest value of one figure of all rounds.
fn spread<const N: usize>(runs: &[[f64; N]], figure: usize) -> Value {
    let mut values: Vec<_> = runs.iter().map(|run| run[figure]).collect();
    values.sort_by(f64::total_cmp);
    json!({
        "median": values[values.len() / 2],
        "min": values.first(),
        "max": values.last(),
    })
}

fn condition(rate: Option<BitRate>, loss: f64) -> Condition {
    let link = Link {
        delay: Duration::from_millis(15),
        loss: Ratio(loss),
        rate,
        ..Link::default()
    };
    Condition {
        name: "bench".into(),
        forward: link.clone(),
        reverse: link,
        mtu_bytes: Condition::DEFAULT_MTU_BYTES,
        schedule: Vec::new(),
    }
}

/// Measures packets per second and nanoseconds per packet of the state machine alone.
fn emulate() -> Outcome<[f64; 2]> {
    let condition = condition(Some(BitRate(1_000_000_000)), 0.01);
    let mut link = EmulatedLink::new(&condition, Direction::Forward, 1)?;
    let mut pool: Vec<Vec<u8>> = Vec::new();
    let packets = 5_000_000u64;
    let started = Instant::now();
    for index in 0..packets {
        // As fast as the link: 1500 bytes take 12 µs.
        let now = index * 12_000;
        let packet = pool.pop().unwrap_or_else(|| vec![0; 1500]);
        if let Offer::Dropped { packet, .. } = link.offer(now, packet) {
            pool.push(packet);
        }
        while let Some(due) = link.poll(now) {
            pool.push(black_box(due.packet));
        }
    }
    let elapsed = started.elapsed().as_secs_f64();
    Ok([packets as f64 / elapsed, elapsed * 1e9 / packets as f64])
}

/// An agent, killed when dropped.
struct Agent(Launched, BufReader<File>);

impl Agent {
    fn start(bed: &mut Bed, host: Host) -> Outcome<Self> {
        let launched = bed.spawn_agent(host)?;
        let answers = launched.output.try_clone()?;
        Ok(Self(launched, BufReader::new(answers.into())))
    }

    fn say(&mut self, line: &str) -> Outcome<()> {
        Ok(writeln!(self.0.input, "{line}")?)
    }

    fn hear(&mut self) -> Outcome<String> {
        let mut line = String::new();
        self.1.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.0.process.kill();
    }
}

/// Measures packets per second, CPU nanoseconds per packet, and goodput in bits per second over the
/// forwarder.
fn forward(bed: &mut Bed, rate: Option<BitRate>) -> Outcome<[f64; 3]> {
    bed.set_condition(&condition(rate, 0.0), 1)?;
    let (mut a, mut b) = (
        Agent::start(bed, Host::Client)?,
        Agent::start(bed, Host::Server)?,
    );
    b.say("listen")?;
    let listening = b.hear()?;
    let port = listening.rsplit(' ').next().unwrap_or_default();
    let peer = bed.address(Host::Server);
    a.say(&format!("send {peer}:{port} {SECONDS} cubic"))?;
    let received = b.hear()?;
    let words: Vec<f64> = received
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    let [bytes, elapsed_ns] = words[..] else {
        return Err(format!("the host program said `{received}`").into());
    };
    let counters = bed.counters()?;
    let packets = (counters.forward.delivered + counters.reverse.delivered) as f64;
    Ok([
        packets * 1e9 / elapsed_ns,
        counters.cpu_ns as f64 / packets,
        bytes * 8e9 / elapsed_ns,
    ])
}
