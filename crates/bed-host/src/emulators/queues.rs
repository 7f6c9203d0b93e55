//! Comparison of the queue disciplines of both emulators under TCP flows, and of DualPI2 with theory.

use std::time::Duration;

use regatta_bed::PathCounters;
use regatta_model::{Bytes, Condition, Emulator, Link, PacketCounter, QueueDiscipline};

use super::{
    Found, Outcome, Selection,
    conditions::{forward, mbps, ms},
    hosts::{BulkFlow, BulkTimes, EMULATORS, Hosts},
    is_long,
    table::Table,
};

const ROUND_TRIP: Duration = ms(10);

/// Bytes that wait at most: more than any of the disciplines lets wait.
const QUEUE: Bytes = Bytes(1_500_000);

/// Target delay of each discipline, as in L4S-PAM2025.
const TARGET: Duration = ms(5);

/// Interval of the disciplines that have one.
const INTERVAL: Duration = ms(100);

/// Time between the starts of two flows, which is no multiple of the round-trip time.
const APART: Duration = ms(37);

/// Tolerance of the mean queueing delay between both emulators, as a relative difference; [`DELAY_NS`] and
/// [`DELAY_PACKETS`] are added.
const DELAY_PART: f64 = 0.2;

/// Absolute part of that tolerance, in nanoseconds: delay in the token bucket before the kernel's discipline.
const DELAY_NS: f64 = 500_000.0;

/// Part of that tolerance as a number of packets, by their transmission time: one that waits for tokens and one that is
/// sent.
const DELAY_PACKETS: f64 = 2.0;

/// Tolerance of the number of drops and marks between both emulators, as a relative difference.
const COUNT_PART: f64 = 0.35;

/// Tolerance of a flow's share of the goodput between both emulators.
const SHARE: f64 = 0.05;

/// As [`SHARE`], for a share that no discipline decides. The share of two flows of CUBIC behind one queue varies from
/// run to run with a standard deviation of 0.05 to 0.08 (docs/competition.md): this is three of those of a difference,
/// at 0.05.
const SHARE_BY_CHANCE: f64 = 0.21;

/// Bound of the difference of a share under DualPI2 from that of theory.
const SHARE_OF_THEORY: f64 = 0.06;

/// Congestion windows: W = C / √p under drops and marks of a classic queue, of CUBIC in its Reno mode, and W = 2 / p under
/// those of L4S, of DCTCP. Coupling factor k.
///
/// Source: RFC 9332, Appendix C, equations 7 and 10; equal window at p_L = k · √p_C if both have the same round-trip time.
const CUBIC_C: f64 = 1.68;
const COUPLING: f64 = 2.0;

/// TCP flows under a discipline.
struct Case {
    name: &'static str,
    discipline: QueueDiscipline,
    /// Whether the discipline marks, and the hosts ask for ECN.
    ecn: bool,
    controls: &'static [&'static str],
}

fn cases() -> Vec<Case> {
    let (target, interval) = (TARGET, INTERVAL);
    let disciplines = [
        (
            ["CoDel", "CoDel, ECN"],
            QueueDiscipline::Codel { target, interval },
        ),
        (["PIE", "PIE, ECN"], QueueDiscipline::Pie { target }),
        (
            ["FQ-CoDel", "FQ-CoDel, ECN"],
            QueueDiscipline::FqCodel { target, interval },
        ),
        (["RED", "RED, ECN"], QueueDiscipline::Red { target }),
    ];
    let both = |([plain, marks], discipline): ([&'static str; 2], QueueDiscipline)| {
        let case = |name, ecn, controls| Case {
            name,
            discipline,
            ecn,
            controls,
        };
        [
            case(plain, false, &["cubic"][..]),
            case(marks, true, &["cubic", "cubic"]),
        ]
    };
    disciplines.into_iter().flat_map(both).collect()
}

/// Measured effect of a discipline.
struct Measured {
    flows: Vec<BulkFlow>,
    counters: PathCounters,
}

impl Measured {
    fn new(hosts: &mut Hosts, condition: &Condition, controls: &[&str]) -> Outcome<Self> {
        let seconds = |seconds| Duration::from_secs(seconds);
        let [beginning, lasts] = match is_whole(controls.len()) {
            true => [seconds(2), seconds(12)],
            false => [seconds(2), seconds(5)],
        };
        let times = BulkTimes {
            beginning,
            lasts,
            apart: APART,
        };
        let (flows, counters) = hosts.bulk(condition, 1, controls, times)?;
        Ok(Self { flows, counters })
    }

    fn goodput_bps(&self) -> f64 {
        self.flows.iter().map(|flow| flow.goodput_bps).sum()
    }

    /// Returns the share of the first flow.
    fn share(&self) -> f64 {
        self.flows[0].goodput_bps / self.goodput_bps()
    }

    /// Returns the mean smoothed round-trip time of the flows beyond that of the empty path.
    fn queueing_ns(&self) -> f64 {
        let sum: f64 = self.flows.iter().map(|flow| flow.round_trip_ns).sum();
        sum / self.flows.len() as f64 - ROUND_TRIP.as_nanos() as f64
    }

    /// Returns the number of packets that the discipline has dropped, or marked.
    fn count(&self, counter: PacketCounter) -> u64 {
        self.counters.forward.packets[counter]
    }
}

/// Whether a case with this number of flows is not shortened in the short form: shares need time.
fn is_whole(flows: usize) -> bool {
    flows > 1 || is_long()
}

/// Returns the rate of the bottleneck for this number of flows, in Mbit/s.
fn rate_mbps(flows: usize) -> u64 {
    if is_whole(flows) { 40 } else { 20 }
}

fn condition(discipline: QueueDiscipline, ecn: bool, flows: usize) -> Condition {
    let link = Link {
        delay: ROUND_TRIP / 2,
        rate: mbps(rate_mbps(flows)),
        queue: Some(QUEUE),
        discipline,
        ecn,
        ..Link::default()
    };
    let mut condition = forward("queue", link);
    if ecn && !discipline.always_marks() {
        condition.tuning.values.insert("tcp_ecn".to_owned(), 1);
    }
    condition
}

pub(super) fn run(selection: &Selection) -> Outcome<Found> {
    let mut differences = Vec::new();
    let tables = vec![
        disciplines(selection, &mut differences)?,
        dual_pi2(selection, &mut differences)?,
    ];
    Ok(Found {
        tables,
        differences,
    })
}

/// Compares each discipline of the kernel with that of the user-space emulator.
fn disciplines(selection: &Selection, differences: &mut Vec<String>) -> Outcome<Table> {
    let mut table = Table::new(
        &format!(
            "CUBIC over {} Mbit/s with 10 ms and a target of 5 ms: the kernel's disciplines / those in user space",
            rate_mbps(2)
        ),
        &[
            "discipline",
            "flows",
            "goodput, Mbit/s",
            "queueing delay, ms",
            "dropped",
            "marked",
            "dropped by the full queue",
            "share of the first flow",
        ],
    );
    for case in cases() {
        if !selection.has(case.name) {
            continue;
        }
        let condition = condition(case.discipline, case.ecn, case.controls.len());
        let mut measured = Vec::new();
        for path in EMULATORS {
            let mut hosts = Hosts::over(path)?;
            measured.push(Measured::new(&mut hosts, &condition, case.controls)?);
        }
        let [kernel, userspace] = &measured[..] else {
            return Err("two emulators".into());
        };
        judge(&case, kernel, userspace, differences);
        let both = |of: &dyn Fn(&Measured) -> String| format!("{} / {}", of(kernel), of(userspace));
        let count = |counter| both(&|it| it.count(counter).to_string());
        table.row(vec![
            case.name.to_owned(),
            case.controls.len().to_string(),
            both(&|it| format!("{:.2}", it.goodput_bps() / 1e6)),
            both(&|it| format!("{:.2}", it.queueing_ns() / 1e6)),
            count(PacketCounter::Discipline),
            count(PacketCounter::Marked),
            count(PacketCounter::Queue),
            both(&|it| format!("{:.3}", it.share())),
        ]);
    }
    Ok(table)
}

fn judge(case: &Case, kernel: &Measured, userspace: &Measured, differences: &mut Vec<String>) {
    let name = case.name;
    let [k, u] = [kernel, userspace].map(Measured::queueing_ns);
    let packets_ns = DELAY_PACKETS * 1500.0 * 8000.0 / rate_mbps(case.controls.len()) as f64;
    if (k - u).abs() > DELAY_PART * k.max(u) + DELAY_NS + packets_ns {
        differences.push(format!("{name}: queueing delays of {k:.0} and {u:.0} ns"));
    }
    let [k, u] = [kernel, userspace].map(Measured::share);
    let bound = match case.discipline {
        QueueDiscipline::FqCodel { .. } => SHARE,
        _ => SHARE_BY_CHANCE,
    };
    if (k - u).abs() > bound {
        differences.push(format!("{name}: shares of {k:.3} and {u:.3}"));
    }
    let counter = match case.ecn {
        true => PacketCounter::Marked,
        false => PacketCounter::Discipline,
    };
    let [k, u] = [kernel, userspace].map(|it| it.count(counter) as f64);
    if (k - u).abs() > COUNT_PART * k.max(u) || k.min(u) == 0.0 {
        differences.push(format!("{name}: {k} and {u} drops or marks"));
    }
}

/// Compares the share of DCTCP beside CUBIC under DualPI2 with that of equal windows.
fn dual_pi2(selection: &Selection, differences: &mut Vec<String>) -> Outcome<Table> {
    let mut table = Table::new(
        &format!(
            "DualPI2 in user space: DCTCP (any ECT) against CUBIC over {} Mbit/s with 10 ms",
            rate_mbps(2)
        ),
        &[
            "target",
            "share of DCTCP",
            "of theory",
            "smoothed RTT of DCTCP, ms",
            "of CUBIC, ms",
            "marked",
            "dropped",
        ],
    );
    for target in [ms(5), ms(15)] {
        if !selection.has(&format!("DualPI2, {} ms", target.as_millis())) {
            continue;
        }
        let discipline = QueueDiscipline::DualPi2 {
            target,
            any_ect: true,
        };
        let path = EMULATORS
            .into_iter()
            .find(|it| it.emulator == Emulator::Userspace);
        let mut hosts = Hosts::over(path.ok_or("no emulator in user space")?)?;
        let condition = condition(discipline, true, 2);
        let measured = Measured::new(&mut hosts, &condition, &["dctcp", "cubic"])?;
        let [l4s, classic] = &measured.flows[..] else {
            return Err("two flows".into());
        };
        let ratio = 2.0 / (COUPLING * CUBIC_C) * classic.round_trip_ns / l4s.round_trip_ns;
        let theory = ratio / (1.0 + ratio);
        let share = measured.share();
        if (share - theory).abs() > SHARE_OF_THEORY {
            differences.push(format!("DualPI2: a share of {share:.3}, not {theory:.3}"));
        }
        let milliseconds = |flow: &BulkFlow| format!("{:.2}", flow.round_trip_ns / 1e6);
        table.row(vec![
            format!("{} ms", target.as_millis()),
            format!("{share:.3}"),
            format!("{theory:.3}"),
            milliseconds(l4s),
            milliseconds(classic),
            measured.count(PacketCounter::Marked).to_string(),
            measured.count(PacketCounter::Discipline).to_string(),
        ]);
    }
    Ok(table)
}
