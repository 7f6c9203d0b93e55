//! Comparisons of runs: planted changes are found, others are not.

use std::collections::BTreeMap;

use regatta_model::{
    Clock, HostFacts, MetricValues, Outcome, Ratio, TrialRecord, Warning, metric::id, warning_code,
};
use regatta_report::{
    RunData,
    analysis::{Conclusion, MeanKind},
    compare::{ChangeKind, CompareError, Limit, RunComparison, compare, render},
    html,
    terminal::TerminalOptions,
};
use regatta_stats::plausible_counts;

use crate::{
    common,
    common::Draws,
    draws::{Kind, Rng},
    runs::Setup,
};

/// Returns a run of 12 cells whose trials vary by 2 %, each multiplied by `factor`.
fn run(id: u64, rounds: usize, factor: impl Fn(&TrialRecord) -> f64) -> RunData {
    let setup = Setup {
        conditions: 3,
        ..Setup::equal(Kind::LogNormal, 4, rounds)
    };
    let mut data = setup.run(&mut Rng::new(1));
    let mut draws = Draws::new(id);
    data.header.run_id = format!("run {id}");
    for trial in &mut data.trials {
        let factor = factor(trial);
        let metrics = &mut trial.measurements.metrics;
        let drawn = metrics.keys().map(|name| {
            // The sum of twelve is close to normal, with a variance of one.
            let normal: f64 = (0..12).map(|_| draws.unit()).sum::<f64>() - 6.0;
            (name.to_owned(), 1e7 * (0.02 * normal).exp())
        });
        *metrics = drawn.collect();
        if let Some(goodput) = trial.measurements.metrics.get_mut("goodput_bps") {
            *goodput *= factor;
        }
    }
    data
}

fn compared(runs: Vec<RunData>, least: Option<f64>) -> Result<RunComparison, CompareError> {
    let named = runs.into_iter().enumerate();
    let runs: Vec<(String, RunData)> = named
        .map(|(position, data)| (format!("out/{position}"), data))
        .collect();
    let limits = least.map(|least| vec![limit(&format!("slower:{}%", least * 100.0))]);
    compare(&runs, limits.as_deref())
}

fn limit(text: &str) -> Limit {
    text.parse().expect("a limit")
}

fn unchanged(_: &TrialRecord) -> f64 {
    1.0
}

fn slower_t1(trial: &TrialRecord) -> f64 {
    if trial.transport == "t1" { 0.95 } else { 1.0 }
}

#[test]
fn a_planted_change_of_5_percent_is_found() {
    let runs = vec![run(1, 20, unchanged), run(2, 20, slower_t1)];
    let comparison = compared(runs, Some(0.03)).expect("they share all cells");
    let pair = &comparison.pairs[0];
    for cell in &pair.cells {
        let is_slower = cell.name.transport == "t1";
        let found = cell.conclusion();
        assert_eq!(
            found == Conclusion::Slower,
            is_slower,
            "{}",
            cell.name.text()
        );
        assert_ne!(found, Conclusion::Faster, "{}", cell.name.text());
        let primary = cell.primary().expect("it is measured");
        let [low, high] = primary.worse_by_interval().expect("there are 20 rounds");
        let planted = if is_slower { 0.05 } else { 0.0 };
        assert!(low < planted && planted < high, "[{low}, {high}]");
    }
    assert!(
        pair.verdict.starts_with("B against A: goodput 4."),
        "{}",
        pair.verdict
    );
    let gate = comparison.gate.expect("it was asked for");
    assert!(!gate.passed && gate.misses.len() == 3, "{gate:?}");
}

#[test]
fn a_gate_allows_a_smaller_slowdown() {
    let runs = || vec![run(1, 20, unchanged), run(2, 20, slower_t1)];
    let gate = |least| {
        compared(runs(), Some(least))
            .expect("they share all cells")
            .gate
    };
    assert!(gate(0.1).expect("it was asked for").passed);
    // A faster cell is no regression.
    let faster = vec![run(2, 20, slower_t1), run(1, 20, unchanged)];
    let comparison = compared(faster, Some(0.0)).expect("they share all cells");
    assert!(comparison.gate.expect("it was asked for").passed);
    assert!(
        comparison.pairs[0]
            .verdict
            .contains(" % better with `t1`, ")
    );
}

/// Checks the rate of false alarms over 100 pairs of equal runs: at most 5 % for a claim of any
/// kind. One seed in 10 000 would exceed the bound if the rate were 5 %.
#[test]
fn equal_runs_have_few_false_claims() {
    let (mut claims, mut alarms, pairs) = (0, 0, 100);
    for seed in 0..pairs {
        let runs = vec![run(2 * seed, 5, unchanged), run(2 * seed + 1, 5, unchanged)];
        let comparison = compared(runs, Some(0.0)).expect("they share all cells");
        let metrics = comparison.pairs[0]
            .cells
            .iter()
            .flat_map(|cell| &cell.metrics);
        let claimed = |c: Conclusion| matches!(c, Conclusion::Faster | Conclusion::Slower);
        claims += u64::from(metrics.into_iter().any(|metric| claimed(metric.conclusion)));
        alarms += u64::from(!comparison.gate.is_some_and(|gate| gate.passed));
    }
    println!("{claims} of {pairs} pairs with a false claim, {alarms} false alarms of the gate");
    assert!(claims <= plausible_counts(pairs, 0.05, 2e-4).1);
    assert!(alarms <= plausible_counts(pairs, 0.025, 2e-4).1);
}

#[test]
fn a_cell_that_was_not_measured_again_fails_the_gate() {
    let mut later = run(2, 5, unchanged);
    for trial in later
        .trials
        .iter_mut()
        .filter(|trial| trial.transport == "t2")
    {
        trial.outcome = Outcome::Failed;
    }
    let comparison = compared(vec![run(1, 5, unchanged), later], Some(0.05)).expect("shared cells");
    let gate = comparison.gate.expect("it was asked for");
    // Each cell, and the transport over all of them.
    assert_eq!(gate.misses.len(), 4, "{gate:?}");
    let verdict = &comparison.pairs[0].verdict;
    assert!(
        verdict.contains("3 of 12 cells are not measured at all in B"),
        "{verdict}"
    );
    assert!(
        verdict.contains("More work failed in B than in A in 3 of 12 cells"),
        "{verdict}"
    );
}

#[test]
fn studies_that_differ_are_compared_by_the_cells_that_they_share() {
    let mut later = run(2, 5, unchanged);
    later.header.study.transports.truncate(2);
    later.header.study.conditions[0].mtu_bytes = 1400;
    later.header.study.seed = 7;
    later
        .trials
        .retain(|trial| ["t0", "t1"].contains(&trial.transport.as_str()));
    let comparison = compared(vec![run(1, 5, unchanged), later], None).expect("shared cells");
    let pair = &comparison.pairs[0];
    assert_eq!(
        (pair.cells.len(), pair.only_from.len(), pair.only_to.len()),
        (6, 6, 0)
    );
    let changed = |name: &str| {
        let change = pair.changes.iter().find(|change| change.name == name);
        change.map(|change| [change.from.clone(), change.to.clone()].map(Option::unwrap_or_default))
    };
    assert_eq!(
        changed("conditions.c0.mtu_bytes"),
        Some(["1500", "1400"].map(str::to_owned))
    );
    assert_eq!(changed("seed").map(|[_, to]| to), Some("7".to_owned()));
    let transport = changed("transports.t3").expect("only one run has it");
    assert_eq!(transport, ["present", ""].map(str::to_owned));
    let other = pair
        .cells
        .iter()
        .filter(|cell| cell.settings_differ)
        .count();
    assert_eq!(other, 2);
}

#[test]
fn runs_that_cannot_be_compared_are_refused() {
    let same = compared(vec![run(1, 5, unchanged), run(1, 5, unchanged)], None);
    assert!(matches!(same, Err(CompareError::SameRun(..))), "{same:?}");
    let mut other = run(2, 5, unchanged);
    for workload in &mut other.header.study.workloads {
        workload.name = "other".to_owned();
    }
    for trial in &mut other.trials {
        trial.workload = "other".into();
    }
    let apart = compared(vec![run(1, 5, unchanged), other], None);
    assert!(
        matches!(apart, Err(CompareError::NoSharedCell(..))),
        "{apart:?}"
    );
    let single = vec![run(1, 1, unchanged), run(2, 1, unchanged)];
    assert_eq!(
        compared(single, Some(0.05)),
        Err(CompareError::TooFewRounds)
    );
}

#[test]
fn facts_that_are_no_settings_are_no_changes() {
    let in_guest = |mut data: RunData, start_ms: &str, memory: &str| {
        let facts = [
            ("guest.kernel", "linux"),
            ("guest.start_ms", start_ms),
            ("memory.bytes", memory),
        ];
        let facts = facts.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let hosts = &mut data.header.hosts;
        hosts.insert("sender".to_owned(), HostFacts(facts.into()));
        data
    };
    let runs = vec![
        in_guest(run(1, 5, unchanged), "812", "1032192000"),
        in_guest(run(2, 5, unchanged), "790", "1032187904"),
    ];
    let comparison = compared(runs, None).expect("they share all cells");
    let changes = &comparison.pairs[0].changes;
    assert!(changes.is_empty(), "{changes:?}");
}

/// A user who compares versions of a program of their own has the same path in both studies.
#[test]
fn what_changed_names_the_program_by_version_and_digest() {
    let program = |id: u64, version: &str, digest: &str| {
        let mut data = run(id, 5, unchanged);
        for trial in data.trials.iter_mut().filter(|it| it.transport == "t1") {
            let facts = &mut trial.measurements.facts;
            for end in ["sender", "receiver"] {
                facts.insert(format!("external.{end}"), format!("my-stack {version}"));
                if !digest.is_empty() {
                    facts.insert(format!("external.sha256.{end}"), digest.repeat(16));
                }
            }
        }
        data
    };
    let changes = |from: [&str; 2], to: [&str; 2]| {
        let runs = vec![program(1, from[0], from[1]), program(2, to[0], to[1])];
        let comparison = compared(runs, None).expect("they share all cells");
        let text = render(&comparison, &TerminalOptions::default());
        let lines = text.lines().filter(|line| line.starts_with("  program"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        changes(["1.0", "0a1b"], ["1.1", "2c3d"]),
        [
            "  program  version of the program (t1): my-stack 1.0 → my-stack 1.1",
            "  program  program, SHA-256 (t1): 0a1b0a1b0a1b → 2c3d2c3d2c3d"
        ]
    );
    assert_eq!(changes(["1.0", "0a1b"], ["1.0", "0a1b"]), [""; 0]);
    // Of a run before there were digests nothing is known.
    assert_eq!(changes(["1.0", ""], ["1.0", "0a1b"]), [""; 0]);
}

#[test]
fn what_changed_in_the_build_is_told_part_by_part() {
    let built = |id: u64, commit: &str, dirty: &str| {
        let mut data = run(id, 5, unchanged);
        let facts = [("commit", commit), ("dirty", dirty), ("profile", "release")];
        let facts = facts.map(|(name, value)| (format!("build.{name}"), value.to_owned()));
        let hosts = &mut data.header.hosts;
        hosts.insert("sender".to_owned(), HostFacts(facts.into()));
        data
    };
    let runs = vec![
        built(1, "0123456789abcdef", "no"),
        built(2, "0123456789abcdef", "yes"),
    ];
    let comparison = compared(runs, None).expect("they share all cells");
    let text = render(&comparison, &TerminalOptions::default());
    let expected = "  program  commit of Regatta: 0123456789ab → 0123456789ab with changes\n\n";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn the_size_of_the_runs_own_certificate_is_no_change() {
    let with_certificate = |id: u64, certificate: &str| {
        let mut data = run(id, 5, unchanged);
        for trial in &mut data.trials {
            let facts = &mut trial.measurements.facts;
            facts.insert("tls.certificate".to_owned(), certificate.to_owned());
        }
        data
    };
    let changes = |certificate: &str| {
        let runs = vec![
            with_certificate(1, "ECDSA P-256, 370 B"),
            with_certificate(2, certificate),
        ];
        let comparison = compared(runs, None).expect("they share all cells");
        comparison.pairs[0].changes.len()
    };
    assert_eq!(
        [changes("ECDSA P-256, 368 B"), changes("Ed25519, 368 B")],
        [0, 1]
    );
}

fn with_facts(mut data: RunData, kernel: &str, version: &str) -> RunData {
    let facts: BTreeMap<String, String> = [("kernel.release", kernel), ("cpu.mhz", version)]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    for host in ["receiver", "sender"] {
        data.header
            .hosts
            .insert(host.to_owned(), HostFacts(facts.clone()));
    }
    data.header.regatta_version = version.to_owned();
    data
}

#[test]
fn changes_of_hosts_and_program_are_listed() {
    let runs = vec![
        with_facts(run(1, 5, unchanged), "6.1", "0.1.0"),
        with_facts(run(2, 5, slower_t1), "6.2", "0.2.0"),
        with_facts(run(3, 5, unchanged), "6.2", "0.2.0"),
    ];
    let comparison = compared(runs, None).expect("they share all cells");
    let names: Vec<[&str; 2]> = (comparison.pairs.iter())
        .map(|pair| [pair.from.as_str(), pair.to.as_str()])
        .collect();
    assert_eq!(names, [["A", "B"], ["A", "C"], ["B", "C"]]);
    let [first, .., last] = &comparison.pairs[..] else {
        panic!("three runs are three pairs");
    };
    let host: Vec<_> = (first.changes.iter())
        .filter(|change| change.kind == ChangeKind::Host)
        .collect();
    assert_eq!(host.len(), 1, "{host:?}");
    assert_eq!(
        (host[0].name.as_str(), host[0].of.len()),
        ("kernel.release", 2)
    );
    assert!(last.changes.is_empty(), "{:?}", last.changes);
    let text = render(&comparison, &TerminalOptions::default());
    assert!(
        text.contains("kernel.release (receiver and sender): 6.1 → 6.2"),
        "{text}"
    );
    assert!(text.contains("version of Regatta: 0.1.0 → 0.2.0"), "{text}");
    assert!(
        text.contains("B to C: what changed\n  nothing that the results record"),
        "{text}"
    );
    println!("{text}");
    let page = html::compare::render(&comparison).expect("the template fits");
    assert!(page.contains("Change of each cell from A to C"), "{page}");
    assert_eq!(
        page.matches("<svg").count(),
        9,
        "a panel for each condition of each pair"
    );
    if let Some(path) = std::env::var_os("COMPARE_HTML") {
        std::fs::write(path, &page).expect("a file");
    }
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
}

/// A stack that responds to losses otherwise in one run, such as by an option, is not the same congestion control.
#[test]
fn the_verdict_names_transports_that_respond_differently_to_losses() {
    let responding = |id: u64, loss: f64, of_t1: &str| {
        let mut data = run(id, 5, unchanged);
        for condition in &mut data.header.study.conditions {
            condition.forward.loss = Ratio(loss);
        }
        for trial in &mut data.trials {
            let response = match trial.transport.as_str() {
                "t1" => of_t1,
                _ => "0.99 at 0.1 %",
            };
            let facts = &mut trial.measurements.facts;
            facts.insert("congestion_control.sender", "cubic");
            facts.insert("loss_response.sender", response);
        }
        data
    };
    let verdict = |loss: f64, of_b: &str| {
        let runs = vec![
            responding(1, loss, "0.99 at 0.1 %"),
            responding(2, loss, of_b),
        ];
        let comparison = compared(runs, None).expect("they share all cells");
        comparison.pairs[0].verdict.clone()
    };
    let text = verdict(0.001, "4.83 at 0.1 %");
    let expected = " This compares congestion controls: in separate measurements of long transfers at a loss of 0.1 %, `cubic` of `t1 in B` reached 4.9 times the goodput of that of `t1 in A`.";
    assert!(text.ends_with(expected), "{text}");
    for text in [
        verdict(0.001, "1.2 at 0.1 %"),
        verdict(0.0, "4.83 at 0.1 %"),
    ] {
        assert!(!text.contains("congestion controls"), "{text}");
    }
}

#[test]
fn every_comparison_follows_the_schema() {
    let schema = include_str!("../../../../schemas/comparison.schema.json");
    let schema: serde_json::Value = serde_json::from_str(schema).expect("the schema is JSON");
    let validator = jsonschema::validator_for(&schema).expect("the schema is one");
    let mut full = common::full();
    full.header.run_id = "another".to_owned();
    full.header.study.seed = 1;
    full.header.study.transports.pop();
    let comparisons = [
        compared(vec![run(1, 5, unchanged), run(2, 5, slower_t1)], Some(0.05)),
        compared(vec![run(1, 1, unchanged), run(2, 5, slower_t1)], None),
        compared(vec![common::full(), full], None),
    ];
    for comparison in comparisons {
        let comparison = comparison.expect("they share cells");
        let mut value = serde_json::to_value(&comparison).expect("plain values");
        let errors: Vec<String> = validator
            .iter_errors(&value)
            .map(|e| format!("{}: {e}", e.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{errors:#?}");
        // A schema that lets everything through would not be one.
        value["pairs"][0]["cells"][0]["metrics"][0]["ratio"] = "slow".into();
        assert!(!validator.is_valid(&value));
    }
}

/// Makes each trial of transport `t1` of some rounds one that failed.
fn with_failures(mut data: RunData, rounds: &[u32], fail: fn(&mut TrialRecord)) -> RunData {
    let failing = |it: &&mut TrialRecord| it.transport == "t1" && rounds.contains(&it.round);
    data.trials.iter_mut().filter(failing).for_each(fail);
    data
}

fn crash(trial: &mut TrialRecord) {
    trial.outcome = Outcome::Failed;
    trial.measurements.metrics = MetricValues::default();
}

/// The deadline stopped the trial after its first bytes.
fn stall(trial: &mut TrialRecord) {
    trial.measurements.metrics.insert("goodput_bps", 1e4);
    trial.measurements.metrics.insert("bytes_delivered", 1e4);
    let warning = Warning::of_texts(warning_code::DEADLINE_REACHED, "stopped", "");
    trial.measurements.warnings.push(warning);
}

fn hang(trial: &mut TrialRecord) {
    trial.measurements.metrics.insert("goodput_bps", 0.0);
}

#[test]
fn a_verdict_begins_with_failures() {
    let after = with_failures(run(2, 6, unchanged), &[0, 1, 2, 3], crash);
    let comparison = compared(vec![run(1, 6, unchanged), after], None).expect("shared cells");
    let verdict = &comparison.pairs[0].verdict;
    let expected = "More trials failed in B than in A: `t1` over all its cells: 12 of 18";
    assert!(verdict.starts_with(expected), "{verdict}");
}

/// Returns the misses of the gate, with no threshold for rates, of a run of six rounds in some of which `t1` fails.
fn misses_after(rounds: &[u32], fail: fn(&mut TrialRecord), clock: Clock) -> Vec<String> {
    let at = |mut data: RunData| {
        data.header.study.guest.clock = clock;
        data
    };
    let before = at(run(1, 6, unchanged));
    let after = at(with_failures(run(2, 6, unchanged), rounds, fail));
    let runs = [("a".to_owned(), before), ("b".to_owned(), after)];
    let comparison = compare(&runs, Some(&[])).expect("shared cells");
    comparison.gate.expect("it was asked for").misses
}

#[test]
fn one_crash_in_virtual_time_fails_every_gate() {
    let misses = misses_after(&[3], crash, Clock::Virtual);
    assert_eq!(misses.len(), 4, "{misses:#?}");
    assert!(
        misses[0].contains("1 of 6 trials failed against 0 of 6"),
        "{misses:#?}"
    );
}

#[test]
fn one_trial_that_hangs_in_virtual_time_fails_every_gate() {
    assert_eq!(misses_after(&[3], hang, Clock::Virtual).len(), 4);
}

#[test]
fn one_trial_that_stalls_in_virtual_time_fails_every_gate() {
    assert_eq!(misses_after(&[3], stall, Clock::Virtual).len(), 4);
}

/// One of six is chance in each cell, and three of eighteen too; all of twelve in three cells are not.
#[test]
fn failures_in_real_time_are_tested() {
    assert_eq!(misses_after(&[3], crash, Clock::Real), [""; 0]);
    let misses = misses_after(&[0, 1, 2, 3], crash, Clock::Real);
    assert_eq!(misses.len(), 1, "{misses:#?}");
    assert!(
        misses[0].contains("`t1` over all its cells: 12 of 18 trials failed"),
        "{misses:#?}"
    );
}

#[test]
fn fewer_failures_pass() {
    let runs = vec![
        with_failures(run(1, 6, unchanged), &[1, 2], crash),
        with_failures(run(2, 6, unchanged), &[1], crash),
    ];
    let gate = compared(runs, Some(0.05)).expect("shared cells").gate;
    assert!(gate.expect("it was asked for").passed);
}

/// A failed trial is a rate of zero: five of six at 10 Mbit/s are 8.3 on average.
#[test]
fn means_are_over_every_trial_that_was_started() {
    for fail in [crash, hang, stall] {
        let after = with_failures(run(2, 6, unchanged), &[3], fail);
        let comparison = compared(vec![run(1, 6, unchanged), after], None).expect("shared cells");
        let mut cells = comparison.pairs[0].cells.iter();
        let cell = cells.find(|it| it.name.transport == "t1").expect("a cell");
        let primary = cell.primary().expect("it is measured");
        assert_eq!(
            (primary.mean_kind, primary.n),
            (MeanKind::Arithmetic, [6, 6])
        );
        let ratio = primary.ratio.expect("a ratio");
        assert!((ratio - 5.0 / 6.0).abs() < 0.03, "{ratio}");
        let text = render(&comparison, &TerminalOptions::default());
        assert!(text.contains("arithmetic"), "{text}");
    }
}

/// Returns a run of one cell: `tcp` over one path, whose metrics have these means and vary by 0.2 %.
fn one_cell(id: u64, clock: Clock, metrics: &[(&str, f64)]) -> RunData {
    let setup = Setup {
        conditions: 1,
        ..Setup::equal(Kind::LogNormal, 1, 8)
    };
    let mut data = setup.run(&mut Rng::new(1));
    data.header.run_id = format!("run {id}");
    data.header.study.guest.clock = clock;
    let mut draws = Draws::new(id);
    for trial in &mut data.trials {
        let drawn = metrics.iter().map(|(name, mean)| {
            let spread = 0.002 * (draws.unit() - 0.5);
            ((*name).to_owned(), mean * (1.0 + spread))
        });
        trial.measurements.metrics = drawn.collect();
    }
    data
}

/// Means of goodput, delay and CPU of the run that others are compared with.
const BEFORE: [(&str, f64); 3] = [
    (id::GOODPUT_BPS, 9e7),
    (id::ROUND_TRIP_DELAY_P50_NS, 5e7),
    (id::CPU_PER_BYTE_NS, 2.0),
];

fn verdict_of(after: &[(&str, f64)]) -> String {
    let runs = vec![
        one_cell(1, Clock::Real, &BEFORE),
        one_cell(2, Clock::Real, after),
    ];
    let comparison = compared(runs, None).expect("they share the cell");
    let text = render(&comparison, &TerminalOptions::default());
    let verdict = comparison.pairs[0].verdict.clone();
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let heading = flat(&text).find("A to B: what changed").expect("a heading");
    let position = flat(&text).find(&verdict).expect("the verdict");
    assert!(position < heading, "the answer comes first: {text}");
    let page = html::compare::render(&comparison).expect("the template fits");
    assert!(page.contains(&verdict), "{page}");
    verdict
}

#[test]
fn a_verdict_is_one_sentence_over_the_metrics_that_readers_look_at() {
    let [goodput, delay, cpu] = BEFORE;
    let after = [goodput, (delay.0, 2.35e7), (cpu.0, 2.64)];
    assert_eq!(
        verdict_of(&after),
        "B against A: goodput the same within 0.1 %; delay 53 % better, CPU 32 % worse."
    );
    let after = [(goodput.0, 8.1e7), (delay.0, 1.5e8), cpu];
    assert_eq!(
        verdict_of(&after),
        "B against A: goodput 10 % worse; delay 3.0 times as much (worse)."
    );
}

/// A reader would take "−5 % worse" for better.
#[test]
fn no_sign_stands_with_better_or_worse() {
    let with_signs = |text: &str| -> Vec<String> {
        let parts = text.split(['\n', ';', '<', '>']);
        let is_both = |part: &&str| {
            let is_signed = part.contains(['−', '+']);
            is_signed && (part.contains("better") || part.contains("worse"))
        };
        parts.filter(is_both).map(str::to_owned).collect()
    };
    let runs = vec![run(1, 20, unchanged), run(2, 20, slower_t1)];
    let comparison = compared(runs, Some(0.03)).expect("they share all cells");
    let options = TerminalOptions {
        width: 200,
        color: false,
        details: true,
    };
    let mut text = render(&comparison, &options);
    text += &serde_json::to_string(&comparison.gate).expect("JSON");
    text += &comparison.pairs[0].verdict;
    assert!(text.contains(" % worse"), "{text}");
    assert_eq!(with_signs(&text), [""; 0]);
}

fn misses_of(
    clock: Clock,
    after: &[(&str, f64)],
    limits: &[&str],
) -> Result<Vec<String>, CompareError> {
    let runs = [
        ("a".to_owned(), one_cell(1, clock, &BEFORE)),
        ("b".to_owned(), one_cell(2, clock, after)),
    ];
    let limits: Vec<Limit> = limits.iter().map(|it| limit(it)).collect();
    let comparison = compare(&runs, Some(&limits))?;
    Ok(comparison.gate.expect("it was asked for").misses)
}

#[test]
fn a_verdict_over_several_cells_names_them() {
    let lossy = |trial: &TrialRecord| match (trial.transport.as_str(), trial.condition.as_str()) {
        ("t1", _) => 0.9,
        ("t2", "c0") => 1.2,
        _ => 1.0,
    };
    let mut after = run(2, 20, lossy);
    after.header.study.transports[1].driver = "udp".to_owned();
    let comparison = compared(vec![run(1, 20, unchanged), after], None).expect("shared cells");
    let verdict = &comparison.pairs[0].verdict;
    let parts: Vec<&str> = verdict.split(", ").collect();
    assert!(parts[0].starts_with("B against A: goodput "), "{verdict}");
    assert!(parts[0].ends_with(" % worse with `t1`"), "{verdict}");
    assert!(
        parts[1].ends_with(" % better with `t2` under `c0`"),
        "{verdict}"
    );
    assert!(
        verdict.contains(", the same within 3 % elsewhere. "),
        "{verdict}"
    );
    let expected = "The settings differ under the same name with `t1`, see what changed.";
    assert!(verdict.ends_with(expected), "{verdict}");
}

#[test]
fn a_gate_fails_by_any_metric_and_direction() {
    let [goodput, delay, cpu] = BEFORE;
    let after = [goodput, (delay.0, 2.35e7), (cpu.0, 2.64)];
    let cell = "`t0` under `c0` with `w`";
    for (limits, expected) in [
        (&["slower:0%", "delay-worse:10%", "cpu-worse:40%"][..], None),
        (&["cpu-worse:20%"], Some("`cpu-worse:20%` in B")),
        (
            &["slower:1%", "delay-better:50%"],
            Some("`delay-better:50%` in B"),
        ),
        (
            &["cpu_per_byte_ns-higher:20%"],
            Some("`cpu_per_byte_ns-higher:20%` in B"),
        ),
        (&["faster:0%", "delay-better:60%"], None),
    ] {
        let misses = misses_of(Clock::Real, &after, limits).expect("shared cells");
        assert_eq!(misses.len(), usize::from(expected.is_some()), "{misses:?}");
        if let Some(expected) = expected {
            let begin = format!("{expected}: {cell}, ");
            assert!(misses[0].starts_with(&begin), "{misses:?}");
        }
    }
}

#[test]
fn several_limits_are_missed_each_by_itself() {
    let [goodput, delay, cpu] = BEFORE;
    let after = [goodput, (delay.0, 6e7), (cpu.0, 3.0)];
    let misses = misses_of(Clock::Real, &after, &["delay:10%", "cpu:20%"]).expect("shared cells");
    assert_eq!(misses.len(), 2, "{misses:?}");
    assert!(misses[0].contains("delay 19.96 % worse"), "{misses:?}");
    assert!(misses[1].contains("CPU 49.97 % worse"), "{misses:?}");
}

#[test]
fn a_gate_by_a_metric_that_no_cell_has_is_refused() {
    let found = misses_of(Clock::Real, &BEFORE, &["slower:5%", "retransmissions:10%"]);
    let expected = CompareError::NoSuchMetric("retransmissions:10%".to_owned());
    assert_eq!(found, Err(expected));
}

/// Retransmissions where there were none have no ratio, and are what a gate is for.
#[test]
fn a_metric_that_was_zero_is_judged_by_the_rounds_above_zero() {
    let with = |retransmitted: f64| {
        let [goodput, delay, cpu] = BEFORE;
        [goodput, delay, cpu, (id::RETRANSMIT_RATIO, retransmitted)]
    };
    let limits = [limit("retransmissions:10%")];
    for clock in [Clock::Real, Clock::Virtual] {
        let runs = |before: f64, after: f64| {
            [
                ("a".to_owned(), one_cell(1, clock, &with(before))),
                ("b".to_owned(), one_cell(2, clock, &with(after))),
            ]
        };
        let gate = |before, after| {
            let comparison = compare(&runs(before, after), Some(&limits)).expect("shared cells");
            let verdict = comparison.pairs[0].verdict.clone();
            (comparison.gate.expect("it was asked for").passed, verdict)
        };
        let (passed, verdict) = gate(0.0, 0.01);
        assert!(!passed, "{clock:?}");
        assert!(
            verdict.contains("retransmissions 1 % instead of none (worse)"),
            "{verdict}"
        );
        assert!(gate(0.0, 0.0).0, "{clock:?}");
        assert!(gate(0.01, 0.0).0, "{clock:?}");
    }
}
