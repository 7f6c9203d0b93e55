//! `make validity`: error rates, coverage and power of a report's statistics, measured with
//! synthetic data and `summarise()`.
//!
//! `validity FILE [RUNS]` puts its tables into FILE between the lines `<!-- validity -->` and `<!--
//! end -->`. It fails if the rate of false claims exceeds what is promised for the kind of data, or runs
//! that end when they are decided take longer, by more than chance.

mod draws;
mod recorded;
mod runs;

use std::{fmt::Write as _, process::ExitCode, thread};

use draws::Kind;
use regatta_stats::{binomial_interval, rounds_to_detect};
use runs::{Held, Looks, Setup, Totals, look, repeat};

/// Numbers of transports and rounds of the runs without any difference.
const SIZES: [(usize, usize); 8] = [
    (2, 3),
    (2, 10),
    (2, 40),
    (4, 5),
    (6, 20),
    (12, 3),
    (12, 10),
    (12, 40),
];

/// Numbers of rounds in the tables of coverage and power.
const ROUNDS: [usize; 5] = [3, 5, 10, 20, 40];

/// Returns the largest share of runs that may have a false claim by the metric of the ranking; `None` where nothing is
/// promised. The pairs of two transports are too few to know what cells remember.
fn promised(setup: &Setup) -> Option<f64> {
    match setup.kind {
        Kind::OwnAr1 | Kind::OwnAr1Weak if setup.rounds >= 10 && setup.levels.len() >= 4 => {
            Some(0.06)
        }
        Kind::OwnAr1 | Kind::OwnAr1Weak => None,
        _ => Some(0.05),
    }
}

/// All kinds, in the order of the tables, with their titles.
const KINDS: [(Kind, &str); 10] = [
    (Kind::LogNormal, "log-normal"),
    (Kind::Bimodal, "bimodal"),
    (Kind::HeavyTails, "heavy tails"),
    (Kind::SharedAr1, "AR(1), shared by a round"),
    (Kind::DriftingMachine, "drifting machine"),
    (Kind::BusyMachine, "busy machine"),
    (Kind::OwnAr1Weak, "AR(1) of 0.3, each cell its own"),
    (Kind::OwnAr1, "AR(1) of 0.5, each cell its own"),
    (
        Kind::MissingByRound,
        "missing: one transport, in slow rounds",
    ),
    (
        Kind::MissingByTrial,
        "missing: every transport, its slow trials",
    ),
];

fn percent(count: u64, of: u64) -> String {
    format!("{:.1} %", 100.0 * count as f64 / of.max(1) as f64)
}

/// Runs `work` for each item on all processors; returns the results in the order of the items.
fn spread<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let next = std::sync::atomic::AtomicUsize::new(0);
    let done = std::sync::Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some(item) = items.get(at) else { break };
                    let result = work(item);
                    done.lock().expect("no worker panics").push((at, result));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no worker panics");
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Formats a table of kinds against columns.
fn table(
    head: &[String],
    setups: &[(Kind, Vec<Setup>)],
    runs: u64,
    show: impl Fn(&Setup, &Totals) -> String,
) -> String {
    let flat: Vec<(u64, &Setup)> = (0..).zip(setups.iter().flat_map(|(_, s)| s)).collect();
    let totals = spread(&flat, |(seed, setup)| repeat(setup, runs, 1 + seed));
    let mut totals = totals.iter();
    let mut text = format!(
        "| | {} |\n|---|{}\n",
        head.join(" | "),
        "---|".repeat(head.len())
    );
    for ((_, setups), (_, name)) in setups.iter().zip(KINDS) {
        let cells: Vec<String> = (setups.iter().zip(totals.by_ref()))
            .map(|(setup, t)| show(setup, t))
            .collect();
        let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
    }
    text
}

fn for_each_kind(setups: impl Fn(Kind) -> Vec<Setup>) -> Vec<(Kind, Vec<Setup>)> {
    KINDS
        .iter()
        .map(|&(kind, _)| (kind, setups(kind)))
        .collect()
}

/// Writes the rates of false claims under single conditions and in complete runs, without any difference and with some;
/// returns whether all are within the promise.
fn false_claims(out: &mut String, runs: u64) -> bool {
    let failed = std::cell::Cell::new(false);
    let head: Vec<String> = (SIZES.iter()).map(|(k, n)| format!("{k} × {n}")).collect();
    let show = |setup: &Setup, t: &Totals| {
        let too_many =
            |promised| binomial_interval(t.false_in_ranking, t.runs, 0.998)[0] > promised;
        let bad = promised(setup).is_some_and(too_many);
        failed.set(failed.get() || bad);
        let shown = percent(t.false_in_ranking, t.runs);
        match bad {
            true => format!("**{shown}**"),
            false => shown,
        }
    };
    let equal = |kind| {
        SIZES
            .iter()
            .map(|&(k, n)| Setup::equal(kind, k, n))
            .collect()
    };
    let _ = writeln!(
        out,
        "### False claims where nothing differs\n\n{runs} runs each; transports × rounds, two conditions, three metrics: \
         runs with a false claim by the metric of the ranking, sentences included.\n\n{}",
        table(&head, &for_each_kind(equal), runs, show)
    );
    let _ = writeln!(
        out,
        "The share of false ones among the claims by other metrics and about conditions, which is at most 5 % on average, \
         in the same runs.\n\n{}",
        table(&head, &for_each_kind(equal), runs, |_, t| {
            format!("{:.1} %", 100.0 * t.false_share / t.runs as f64)
        })
    );
    let half = |kind| {
        let levels = |k: usize| (0..k).map(|t| if t < k / 2 { 0.0 } else { 0.15 }).collect();
        (SIZES.iter().filter(|size| size.0 > 2))
            .map(|&(k, n)| Setup {
                levels: levels(k),
                ..Setup::equal(kind, k, n)
            })
            .collect()
    };
    let head: Vec<String> = (SIZES.iter().filter(|size| size.0 > 2))
        .map(|(k, n)| format!("{k} × {n}"))
        .collect();
    let _ = writeln!(
        out,
        "### False claims where half of the transports are 16 % better than the others\n\n{runs} runs each; \
         claims within a half, in the wrong direction, or of \"the same\" between the halves.\n\n{}",
        table(&head, &for_each_kind(half), runs, show)
    );
    failed.get()
}

/// Writes the share of the printed intervals that hold the true value.
fn coverage(out: &mut String, runs: u64) {
    let head: Vec<String> = ROUNDS.iter().map(|n| format!("{n} rounds")).collect();
    let held = |held: Held| percent(held.held, held.of);
    let simple = |levels: &'static [f64]| {
        move |kind| {
            ROUNDS
                .iter()
                .map(|&n| Setup::simple(kind, levels, n))
                .collect()
        }
    };
    let mut add = |title: &str, setups: Vec<(Kind, Vec<Setup>)>, show: &dyn Fn(&Totals) -> Held| {
        let _ = writeln!(
            out,
            "### Coverage: {title}\n\n{runs} runs each.\n\n{}",
            table(&head, &setups, runs, |_, t| held(show(t)))
        );
    };
    add(
        "95 % interval of a cell's geometric mean",
        for_each_kind(simple(&[0.0])),
        &|t| t.geometric,
    );
    add(
        "95 % interval of a cell's mean",
        for_each_kind(simple(&[0.0])),
        &|t| t.arithmetic,
    );
    add(
        "interval of the ratio of two transports, alone in their run",
        for_each_kind(simple(&[0.0, 0.05])),
        &|t| t.pairs,
    );
    let change = |kind| {
        (ROUNDS.iter())
            .map(|&n| Setup {
                conditions: 2,
                metrics: &runs::METRICS[..1],
                ..Setup::equal(kind, 1, n)
            })
            .collect()
    };
    add(
        "interval of the change between two conditions, alone in their run",
        for_each_kind(change),
        &|t| t.changes,
    );
}

/// Writes how often differences are detected, and whether the planned number of rounds detects
/// them.
fn power(out: &mut String, runs: u64) {
    // Spreads of the logarithms of the two transports: 0.02 and 0.03.
    let sd = 0.02_f64.hypot(0.03);
    let effects = [0.0, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12];
    let setups: Vec<Setup> = (ROUNDS.iter())
        .flat_map(|&n| effects.map(|e: f64| Setup::simple(Kind::LogNormal, &[e.ln_1p(), 0.0], n)))
        .collect();
    let totals = spread(&setups, |setup| repeat(setup, runs, 77));
    let head: Vec<String> = effects
        .iter()
        .map(|e| format!("{:.0} %", e * 100.0))
        .collect();
    let _ = writeln!(
        out,
        "### Power\n\nShare of runs in which a difference of this size between two transports is detected, {runs} runs \
         each. Log-normal; the standard deviation of the log ratio between rounds is {:.1} %.\n\n| rounds | {} |\n|---|{}",
        sd * 100.0,
        head.join(" | "),
        "---|".repeat(head.len())
    );
    for (n, totals) in ROUNDS.iter().zip(totals.chunks(effects.len())) {
        let cells: Vec<String> = (totals.iter().zip(effects))
            .map(|(t, e)| {
                percent(
                    if e == 0.0 {
                        t.false_in_ranking
                    } else {
                        t.detected
                    },
                    t.runs,
                )
            })
            .collect();
        let _ = writeln!(out, "| {n} | {} |", cells.join(" | "));
    }
    let counts = [3, 4, 5, 6, 7, 8, 10, 15, 20, 30];
    let head: Vec<String> = counts.iter().map(ToString::to_string).collect();
    // Five transports, each 2 % from the next, with a spread of 0.2 %: twenty pairs.
    let kinds = [Kind::LogNormal, Kind::HeavyTails, Kind::DriftingMachine];
    let close = |kind| {
        counts.map(|rounds| Setup {
            levels: steps_of_2_percent().to_vec(),
            scale: 0.002 / 0.06,
            ..Setup::equal(kind, 5, rounds)
        })
    };
    let _ = writeln!(
        out,
        "\nFive transports under two conditions, each 2 % from the next, with a spread of each cell of 0.2 %: share of \
         the runs in which a pair of neighbours is told apart.\n\n| rounds | {} |\n|---|{}",
        head.join(" | "),
        "---|".repeat(head.len())
    );
    for kind in kinds {
        let totals = spread(&close(kind), |setup| repeat(setup, runs, 79));
        let cells: Vec<String> = (totals.iter())
            .map(|t| percent(t.neighbours.held, t.neighbours.of))
            .collect();
        let name = name_of(kind);
        let _ = writeln!(out, "| {name} | {} |", cells.join(" | "));
    }
    let _ = writeln!(
        out,
        "\nRounds that `regatta plan --detect` computes for a difference between two transports of that spread, and \
         how often they detect it (80 % is promised).\n\n| difference | rounds | detected |\n|---|---|---|"
    );
    let planned: Vec<(f64, usize)> = [0.01, 0.02, 0.03, 0.05, 0.1]
        .into_iter()
        .filter_map(|e: f64| Some((e, rounds_to_detect(sd, e.ln_1p(), 0.95, 0.8, 1000)?)))
        .collect();
    let totals = spread(&planned, |&(e, n)| {
        repeat(
            &Setup::simple(Kind::LogNormal, &[e.ln_1p(), 0.0], n),
            runs,
            78,
        )
    });
    for ((effect, n), t) in planned.iter().zip(&totals) {
        let _ = writeln!(
            out,
            "| {:.0} % | {n} | {} |",
            effect * 100.0,
            percent(t.detected, t.runs)
        );
    }
}

/// Rounds in the table of runs that end when they are decided.
const DECIDED_BY: [usize; 7] = [3, 4, 5, 6, 7, 10, 30];

/// Writes the false claims of runs that end when they are decided, and how soon they do; returns whether the promises fail.
fn decided(out: &mut String, runs: u64) -> bool {
    let mut failed = false;
    let equal = KINDS.map(|(kind, _)| Setup::until_decided(kind, &[0.0; 5], 30));
    let seeded: Vec<(u64, &Setup)> = (100..).zip(&equal).collect();
    let looks: Vec<Looks> = spread(&seeded, |(seed, setup)| look(setup, runs, *seed, true));
    let _ = writeln!(
        out,
        "### Runs that end when they are decided\n\nFive transports that are alike, two conditions, {runs} runs each, a \
         look after every round from the third to the 30th: runs with a false claim by the metric of the ranking at any \
         look, whether the run had ended or not; at the end of the run; and runs that ended as decided, the first being the \
         same as every other within 3 %.\n\n| | at any look | at the end | decided |\n|---|---|---|---|"
    );
    for ((kind, name), looks) in KINDS.iter().zip(&looks) {
        let promised = match kind {
            Kind::OwnAr1 | Kind::OwnAr1Weak => 0.07,
            _ => 0.02,
        };
        let is_bad = binomial_interval(looks.false_at_any, looks.runs, 0.998)[0] > promised;
        failed |= is_bad;
        let any = percent(looks.false_at_any, looks.runs);
        let any = if is_bad { format!("**{any}**") } else { any };
        let _ = writeln!(
            out,
            "| {name} | {any} | {} | {} |",
            percent(looks.false_at_end, looks.runs),
            percent(looks.decided_after.len() as u64, looks.runs)
        );
    }
    let head: Vec<String> = DECIDED_BY.iter().map(ToString::to_string).collect();
    let _ = writeln!(
        out,
        "\nFive transports under two conditions, each 2 % from the next, with a spread of each cell of 0.2 %: share of the \
         runs that were decided after at most this number of rounds, and of those whose report has a false claim.\n\n\
         | rounds | {} | false |\n|---|{}---|",
        head.join(" | "),
        "---|".repeat(head.len())
    );
    let kinds = [
        Kind::LogNormal,
        Kind::HeavyTails,
        Kind::DriftingMachine,
        Kind::BusyMachine,
    ];
    let close = kinds.map(|kind| Setup {
        scale: 0.002 / 0.06,
        ..Setup::until_decided(kind, &steps_of_2_percent(), 30)
    });
    let looks: Vec<Looks> = spread(&close, |setup| look(setup, runs, 80, false));
    for (kind, looks) in kinds.iter().zip(&looks) {
        let by_seven = binomial_interval(looks.decided_by(7), looks.runs, 0.998)[1];
        failed |= by_seven < 0.99;
        let cells = DECIDED_BY.map(|rounds| percent(looks.decided_by(rounds), looks.runs));
        let name = name_of(*kind);
        let wrong = percent(looks.false_at_end, looks.runs);
        let _ = writeln!(out, "| {name} | {} | {wrong} |", cells.join(" | "));
    }
    out.push('\n');
    failed
}

/// Returns the levels of five transports, each 2 % from the next.
fn steps_of_2_percent() -> [f64; 5] {
    [0.0, 1.0, 2.0, 3.0, 4.0].map(|step| step * 0.02_f64.ln_1p())
}

/// Returns the title of a kind.
fn name_of(kind: Kind) -> &'static str {
    let (_, name) = KINDS
        .into_iter()
        .find(|(it, _)| *it == kind)
        .unwrap_or(KINDS[0]);
    name
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (Some(file), runs) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: validity FILE [RUNS]");
        return ExitCode::from(2);
    };
    let runs: u64 = runs.and_then(|runs| runs.parse().ok()).unwrap_or(600);
    let mut out = String::from("\n");
    let mut failed = false_claims(&mut out, runs);
    failed |= decided(&mut out, runs);
    let _ = writeln!(
        out,
        "### Recorded runs\n\n300 rounds of TCP against itself, and against TCP with a lower rate, over an emulated path of \
         50 Mbit/s and 10 ms, 1 MB each, on an idle machine and on one that compiles and tests with a load of 10 to 30; cut into \
         runs of 5 and 10 rounds.\n\n| machine | rounds | runs | alike: false runs | \"the same\" | the slower one is slower by \
         | found | reversed |\n|---|---|---|---|---|---|---|---|"
    );
    failed |= !recorded::table(&mut out);
    out.push('\n');
    coverage(&mut out, 2 * runs);
    power(&mut out, runs);
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let (begin, end) = ("<!-- validity -->", "<!-- end -->");
    let parts = text.split_once(begin).zip(text.split_once(end));
    let Some(((before, _), (_, after))) = parts else {
        eprintln!("`{file}` has no lines `{begin}` and `{end}`");
        return ExitCode::FAILURE;
    };
    if let Err(error) = std::fs::write(&file, format!("{before}{begin}\n{out}\n{end}{after}")) {
        eprintln!("cannot write `{file}`: {error}");
        return ExitCode::FAILURE;
    }
    if failed {
        eprintln!(
            "false claims are more than promised, or decisions fewer, by more than chance: see `{file}`"
        );
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
