//! Comparison of both emulators with theory, in simple cases.

use std::time::Duration;

use regatta_model::{Bytes, Condition, Emulator, Link, PathSetup, Ratio};
use regatta_stats::plausible_counts;

use super::{
    Found, Outcome, Selection,
    conditions::{forward, mbps, ms},
    hosts::{EMULATORS, Hosts, Sending},
    is_long,
    table::Table,
};

/// Probability with which a sound emulator is found outside of an interval of losses; the seed is
/// fixed, so that it is either always or never.
const FALSE_ALARMS: f64 = 1e-4;

/// Tolerance of a goodput against a response function at the loss that the flow met: of some 100
/// losses their number is 10 % of chance, which is no fault of the flow's. In the short form some 30 are
/// met, and goodputs of other seeds are within 8 %.
const RESPONSE_TOLERANCE: f64 = 0.2;

/// Payload of a full segment over Ethernet with time stamps.
const SEGMENT_BYTES: f64 = 1448.0;

pub(super) fn run(selection: &Selection) -> Outcome<Found> {
    let mut differences = Vec::new();
    let tables = vec![
        losses(selection, &mut differences)?,
        queues(selection, &mut differences)?,
        responses(selection, &mut differences)?,
    ];
    Ok(Found {
        tables,
        differences,
    })
}

/// Text in place of a figure that was not measured.
const NOT_MEASURED: &str = "–";

/// Whether the short form leaves this path out: one of netem, which is the kernel's.
fn is_excluded(path: PathSetup) -> bool {
    path.emulator == Emulator::Netem && !is_long()
}

/// Compares independent losses with the binomial distribution.
fn losses(selection: &Selection, differences: &mut Vec<String>) -> Outcome<Table> {
    let packets = if is_long() { 20_000 } else { 10_000 };
    let mut table = Table::new(
        &format!("UDP: lost of {packets} packets"),
        &["loss", "99.99 % interval", "netem", "user space"],
    );
    for loss in [0.001, 0.01, 0.05, 0.3] {
        if !selection.has(&format!("loss of {}", Ratio(loss))) {
            continue;
        }
        let link = Link {
            delay: ms(5),
            rate: mbps(100),
            loss: Ratio(loss),
            ..Link::default()
        };
        let condition = forward("loss", link);
        let sending = Sending {
            packets,
            packet_bytes: 200,
            interval: Duration::from_micros(100),
        };
        let (low, high) = plausible_counts(packets, loss, FALSE_ALARMS);
        let mut row = vec![format!("{}", Ratio(loss)), format!("{low} to {high}")];
        for path in EMULATORS {
            if is_excluded(path) {
                row.push(NOT_MEASURED.to_owned());
                continue;
            }
            let flow = Hosts::over(path)?.flow(&condition, 1, sending)?;
            let lost = packets - flow.arrivals.len() as u64;
            if !(low..=high).contains(&lost) {
                differences.push(format!("{:?} loses {lost} at {loss}", path.emulator));
            }
            row.push(lost.to_string());
        }
        table.row(row);
    }
    Ok(table)
}

/// Compares the wait of a packet that takes the last place of a full drop-tail queue with size over
/// rate.
fn queues(selection: &Selection, differences: &mut Vec<String>) -> Outcome<Table> {
    let mut table = Table::new(
        "Full drop-tail queue: longest one-way delay, in milliseconds",
        &["rate", "queue", "theory", "netem", "user space"],
    );
    const DELAY: Duration = Duration::from_millis(10);
    const PACKET_BYTES: u64 = 1000;
    for (rate, bytes, packets) in [
        (1, 20_000, None),
        (10, 50_000, None),
        (10, 0, Some(50)),
        (100, 1_250_000, None),
    ] {
        let link = Link {
            delay: DELAY,
            rate: mbps(rate),
            queue: packets.is_none().then_some(Bytes(bytes)),
            queue_packets: packets,
            ..Link::default()
        };
        let size = packets.map_or_else(|| Bytes(bytes).to_string(), |n| format!("{n} packets"));
        if !selection.has(&format!("queue of {size} at {rate} Mbit/s")) {
            continue;
        }
        let transmission_ns = PACKET_BYTES as f64 * 8000.0 / rate as f64;
        let waiting = packets.unwrap_or(bytes / PACKET_BYTES) as f64;
        // Those that wait, and its own; before them one may be under transmission.
        let theory = DELAY.as_nanos() as f64 + (waiting + 1.0) * transmission_ns;
        // Half more than the rate carries, for longer than takes to fill the queue.
        let longer = if is_long() { 2.0 } else { 1.25 };
        let sending = Sending {
            packets: (longer * waiting * 3.0) as u64,
            packet_bytes: PACKET_BYTES,
            interval: Duration::from_nanos((transmission_ns / 1.5) as u64),
        };
        let condition = forward("queue", link);
        let mut row = vec![
            format!("{rate} Mbit/s"),
            size,
            format!("{:.3}", theory / 1e6),
        ];
        for path in EMULATORS {
            let flow = Hosts::over(path)?.flow(&condition, 1, sending)?;
            let longest = flow.arrivals.iter().map(|arrival| arrival.delay_ns).max();
            let longest = longest.ok_or("nothing arrived")? as f64;
            // The packet under transmission may be about to begin or to end.
            if (longest - theory).abs() > transmission_ns + 50_000.0 {
                differences.push(format!(
                    "{:?} keeps packets for {longest} ns, not {theory}",
                    path.emulator
                ));
            }
            row.push(format!("{:.3}", longest / 1e6));
        }
        table.row(row);
    }
    Ok(table)
}

/// Distribution of a flow's losses.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Losses {
    /// Independent losses.
    Independent,
    /// Every 1/p-th packet.
    Even,
}

/// Flow whose rate a response function gives.
struct Response {
    congestion_control: &'static str,
    losses: Losses,
    loss: f64,
    round_trip: Duration,
    /// Time of slow start, which may take the window far above its mean, and then the time that is
    /// measured.
    lasts: [Duration; 2],
    /// The same times in the short form.
    lasts_in_short: [Duration; 2],
    /// Mean window in segments.
    window: fn(f64, f64) -> f64,
}

/// Returns the mean window of Reno under independent losses: 1.31 / √p.
///
/// Mathis, Semke, Mahdavi and Ott, *The macroscopic behavior of the TCP congestion avoidance
/// algorithm*, CCR 27 (1997), table 1: random losses, a window that grows with every segment. The
/// growth of Linux counts acknowledged segments, not acknowledgements, so that delayed ones (0.93)
/// are not slower.
fn reno(loss: f64, _round_trip: f64) -> f64 {
    1.31 / loss.sqrt()
}

/// Returns the mean window of CUBIC outside of its Reno-friendly region, with C = 0.4 and β = 0.7,
/// if every 1/p-th packet is lost: RFC 9438 §5.1.
fn cubic(loss: f64, round_trip: f64) -> f64 {
    const C: f64 = 0.4;
    const BETA: f64 = 0.7;
    (C * (3.0 + BETA) / (4.0 * (1.0 - BETA))).powf(0.25) * (round_trip / loss).powf(0.75)
}

/// Returns the mean window of CUBIC under independent losses, with fast convergence, for windows
/// around 100 segments.
///
/// There is no published function; computed round by round, in whole segments as Linux counts, the
/// mean is 1.21 times that of [`cubic`]: the longer nothing is lost, the faster the window grows.
fn cubic_at_random(loss: f64, round_trip: f64) -> f64 {
    1.21 * cubic(loss, round_trip)
}

fn flows() -> [Response; 4] {
    let secs = Duration::from_secs;
    [
        Response {
            congestion_control: "reno",
            losses: Losses::Independent,
            loss: 0.005,
            round_trip: ms(50),
            lasts: [secs(5), secs(60)],
            lasts_in_short: [secs(4), secs(16)],
            window: reno,
        },
        Response {
            congestion_control: "reno",
            losses: Losses::Independent,
            loss: 0.002,
            round_trip: ms(50),
            lasts: [secs(10), secs(60)],
            lasts_in_short: [secs(6), secs(24)],
            window: reno,
        },
        Response {
            congestion_control: "cubic",
            losses: Losses::Independent,
            loss: 0.001,
            round_trip: ms(300),
            lasts: [secs(30), secs(200)],
            lasts_in_short: [secs(10), secs(40)],
            window: cubic_at_random,
        },
        Response {
            congestion_control: "cubic",
            losses: Losses::Even,
            loss: 0.0003,
            round_trip: ms(300),
            lasts: [secs(60), secs(120)],
            lasts_in_short: [secs(20), secs(25)],
            window: cubic,
        },
    ]
}

/// Compares the rate of TCP alone on a path whose rate it never reaches with a response function.
fn responses(selection: &Selection, differences: &mut Vec<String>) -> Outcome<Table> {
    let mut table = Table::new(
        "TCP: goodput under loss, in Mbit/s, mean of two seeds; in parentheses the deviation \
         from the function at the loss that the flows met",
        &[
            "flow",
            "response function",
            "netem: loss",
            "goodput",
            "user space: loss",
            "goodput",
        ],
    );
    for response in flows() {
        let loss = response.loss;
        let mut link = Link {
            delay: response.round_trip / 2,
            rate: mbps(100),
            ..Link::default()
        };
        let losses = match response.losses {
            Losses::Independent => {
                link.loss = Ratio(loss);
                "independent"
            }
            Losses::Even => {
                let every = (1.0 / loss).round() as u64;
                link.loss_list = (1..1000).map(|number| number * every).collect();
                "every 1/p-th"
            }
        };
        let name = format!(
            "{}, {} loss, {losses}, {} ms",
            response.congestion_control,
            Ratio(loss),
            response.round_trip.as_millis()
        );
        if !selection.has(&name) {
            continue;
        }
        let condition = forward("response", link);
        let mut row = vec![name];
        row.push(mbit(rate_of(&response, loss)));
        for path in EMULATORS {
            row.extend(met(&response, &condition, path, differences)?);
        }
        table.row(row);
    }
    Ok(table)
}

/// Returns the goodput that the response function gives, in bits per second.
fn rate_of(response: &Response, loss: f64) -> f64 {
    let round_trip = response.round_trip.as_secs_f64();
    (response.window)(loss, round_trip) * SEGMENT_BYTES * 8.0 / round_trip
}

fn mbit(bps: f64) -> String {
    format!("{:.2}", bps / 1e6)
}

/// Measures TCP flows over `condition` and returns two cells of the table: the loss ratio, and the goodput in Mbit/s
/// with its relative difference from the response function at that loss; [`NOT_MEASURED`] twice where the path cannot
/// do it. Adds a line to `differences` where that difference exceeds [`RESPONSE_TOLERANCE`].
fn met(
    response: &Response,
    condition: &Condition,
    path: PathSetup,
    differences: &mut Vec<String>,
) -> Outcome<[String; 2]> {
    // Netem loses none by a list.
    let is_even = response.losses == Losses::Even;
    if is_excluded(path) || is_even && path.emulator == Emulator::Netem {
        return Ok([NOT_MEASURED; 2].map(str::to_owned));
    }
    // Nothing is drawn for even losses.
    let seeds = if is_long() && !is_even { 1..=2 } else { 1..=1 };
    let lasts = if is_long() {
        response.lasts
    } else {
        response.lasts_in_short
    };
    let mut found = Vec::new();
    for seed in seeds {
        // New hosts remember nothing of an earlier flow.
        let mut hosts = Hosts::over(path)?;
        let name = response.congestion_control;
        found.push(hosts.goodput(condition, seed, name, lasts)?);
    }
    let n = found.len() as f64;
    let goodput = found.iter().map(|(goodput, _)| goodput).sum::<f64>() / n;
    let loss = found.iter().map(|(_, loss)| loss).sum::<f64>() / n;
    let theory = rate_of(response, loss);
    let apart = goodput / theory - 1.0;
    if apart.abs() > RESPONSE_TOLERANCE {
        differences.push(format!(
            "{} has {goodput:.0} bit/s at {loss} over {:?}, not {theory:.0}",
            response.congestion_control, path.emulator
        ));
    }
    Ok([
        format!("{:.3} %", 100.0 * loss),
        format!("{} ({:+.0} %)", mbit(goodput), 100.0 * apart),
    ])
}
