//! Tests of claims over rounds that ran on several machines, and of the number of rounds that a claim takes.

use regatta_model::metric::id;
use regatta_report::{
    RunData,
    analysis::{Conclusion, PairSpread, pair_spreads},
    summarise,
};

use crate::common;

/// Creates a run of these transports under this number of conditions, of which nothing but the goodput is known: its
/// logarithm by transport, condition and round. `node` tells the machine of a condition and round.
fn run(
    transports: &[&str],
    conditions: usize,
    rounds: u32,
    log_goodput: impl Fn(&str, &str, usize) -> f64,
    node: impl Fn(&str, usize) -> &'static str,
) -> RunData {
    let mut study = common::study();
    study.rounds = rounds;
    study.published.clear();
    study.conditions.truncate(conditions);
    study.transports.truncate(transports.len());
    for (transport, label) in study.transports.iter_mut().zip(transports) {
        (*label).clone_into(&mut transport.label);
    }
    let mut data = common::run(study, |_| None);
    for trial in &mut data.trials {
        let round = trial.round as usize;
        let log = log_goodput(&trial.transport, &trial.condition, round);
        trial.measurements.metrics = [(id::GOODPUT_BPS, 1e8 * log.exp())].into();
        trial.measurements.warnings.clear();
        let node = node(&trial.condition, round).into();
        data.nodes.insert(trial.index, node);
    }
    data
}

fn assert_interval(found: Option<[f64; 2]>, mean: f64, half: f64) {
    let found = found.expect("an interval").map(f64::ln);
    for (found, expected) in found.into_iter().zip([mean - half, mean + half]) {
        assert!((found - expected).abs() < 1e-6, "{found} is not {expected}");
    }
}

const NOISE: [f64; 6] = [-0.01, 0.01, 0.0, 0.0, 0.01, -0.01];
const OTHER_NOISE: [f64; 6] = [0.01, 0.0, 0.0, -0.01, -0.01, 0.01];

/// The even rounds ran on one machine, where `a` is faster by e^0.5 and `c` by e^0.04, the odd ones on another.
fn two_machines() -> RunData {
    let log_goodput = |transport: &str, _: &str, round: usize| {
        let is_first = [1.0, 0.0][round % 2];
        match transport {
            "a" => 0.5 * is_first + OTHER_NOISE[round],
            "b" => NOISE[round],
            _ => 0.04 * is_first,
        }
    };
    let node = |_: &str, round: usize| ["x", "y"][round % 2];
    run(&["a", "b", "c"], 1, 6, log_goodput, node)
}

fn disagreeing(data: &RunData) -> Vec<Vec<String>> {
    let warnings = summarise(data).warnings.into_iter();
    let of_nodes = warnings.filter(|it| it.warning.code == "nodes_disagree");
    of_nodes.map(|it| it.cells).collect()
}

/// By hand: for `b` and `c` the machines have means 0.04 apart, with a variance of 0.0001 within each: F is 24, whose
/// p-value with 1 and 4 degrees of freedom is 0.008. That is not below 1 % of three pairs.
#[test]
fn pairs_whose_ratio_depends_on_the_machine_are_named() {
    let named = [
        "`a` and `b` under `baseline`",
        "`a` and `c` under `baseline`",
    ];
    assert_eq!(disagreeing(&two_machines()), [named]);
}

#[test]
fn rounds_of_one_machine_do_not_disagree() {
    let mut data = two_machines();
    for node in data.nodes.values_mut() {
        *node = "x".into();
    }
    assert!(disagreeing(&data).is_empty());
    data.nodes.clear();
    assert!(disagreeing(&data).is_empty());
}

/// By hand: the mean of `c` over `b` is 0.02, the variance within machines 0.0001 with 4 degrees of freedom, t 2.776445.
#[test]
fn differences_between_machines_are_no_part_of_the_error_of_a_pair() {
    let mut data = two_machines();
    data.header.study.transports.remove(0);
    let summary = summarise(&data);
    let claim = &summary.comparisons[0].claim;
    assert_eq!(claim.conclusion, Conclusion::Slower);
    assert_interval(claim.interval, -0.02, 2.776_445 * (1e-4_f64 / 6.0).sqrt());
}

/// By hand: two rounds each ran on the machines x and x, y and x, x and y under the two conditions. Their differences lie
/// 0.01 around 0.1, 0.4 and −0.2: the variance within is 0.0002 with 3 degrees of freedom, t 3.182446.
#[test]
fn pairs_of_machines_are_no_part_of_the_error_of_a_difference() {
    let log_goodput = |_: &str, condition: &str, round: usize| match condition {
        "baseline" => 0.0,
        _ => [0.1, 0.4, -0.2][round % 3] + if round < 3 { 0.01 } else { -0.01 },
    };
    let node = |condition: &str, round: usize| match (condition, round % 3) {
        ("baseline", 1) | ("loss-5", 2) => "y",
        _ => "x",
    };
    let summary = summarise(&run(&["a"], 2, 6, log_goodput, node));
    let claim = &summary.differences[0].claim;
    assert_interval(claim.interval, 0.1, 3.182_446 * (2e-4_f64 / 6.0).sqrt());
}

/// By hand: the logarithms of the ratios are −0.01, 0 and 0.01.
#[test]
fn the_spread_of_a_pair_is_that_of_its_log_ratios() {
    let log_goodput = |transport: &str, _: &str, round: usize| match transport {
        "a" => [0.0, -0.01, 0.01][round],
        _ => 0.0,
    };
    let spreads = pair_spreads(&run(&["a", "b"], 1, 3, log_goodput, |_, _| "x"));
    let [spread] = &spreads[..] else {
        panic!("{spreads:?}");
    };
    assert_eq!((&*spread.a, &*spread.b, spread.n), ("a", "b", 3));
    assert!((spread.deviation - 0.01).abs() < 1e-9, "{spread:?}");
}

/// Source: Cohen 1988, Statistical Power Analysis, 2.4: an effect of one standard deviation takes 10 pairs at 5 % and 80 %.
/// Three more make up for the autocorrelation that so few show by chance.
#[test]
fn a_ratio_of_one_deviation_takes_thirteen_rounds() {
    let spread = PairSpread {
        condition: String::new(),
        workload: String::new(),
        a: String::new(),
        b: String::new(),
        n: 3,
        deviation: 0.01,
    };
    assert_eq!(spread.rounds_to_detect(0.01_f64.exp(), 0.95), Some(13));
    assert_eq!(spread.rounds_to_detect(1.00001, 0.95), None);
}

/// By hand: 0, 2, 3, 4 and 2.5 have the coefficient 2.01 / 8.8, corrected (0.228 + 0.2) · 5 / 2.5; with 0, 4, 0, 4 and 0
/// under another condition, whose coefficient is −0.8, the mean is below zero.
#[test]
fn the_autocorrelation_is_that_of_all_conditions() {
    let log_goodput = |transport: &str, condition: &str, round: usize| match (transport, condition)
    {
        ("a", "baseline") => 0.01 * [0.0, 2.0, 3.0, 4.0, 2.5][round],
        ("a", _) => 0.01 * [0.0, 4.0, 0.0, 4.0, 0.0][round],
        _ => 0.0,
    };
    let correlation = |conditions| {
        let summary = summarise(&run(&["a", "b"], conditions, 5, log_goodput, |_, _| "x"));
        summary.comparisons[0].claim.autocorrelation
    };
    let of_one = correlation(1);
    assert!((of_one - (2.01 / 8.8 + 0.2) * 2.0).abs() < 1e-6, "{of_one}");
    assert_eq!(correlation(2), 0.0);
}

/// By hand: 1 % a round are e^0.09 − 1 from the first of ten rounds to the last.
#[test]
fn a_steady_change_is_a_trend() {
    let log_goodput = |_: &str, _: &str, round: usize| 0.01 * round as f64;
    let summary = summarise(&run(&["a"], 1, 10, log_goodput, |_, _| "x"));
    let trend = summary.cells[0].trend_ratio.expect("a trend");
    assert!((trend - 0.09_f64.exp_m1()).abs() < 1e-9, "{trend}");
    let mut warnings = summary.warnings.iter().map(|it| &it.warning);
    let warning = warnings.find(|it| it.code == "trend_over_rounds");
    let message = &warning.expect("a warning").message;
    assert!(
        message.starts_with("`a` under `baseline` changed by +9.4"),
        "{message}"
    );
}

/// The first condition changes nothing, and what is published of one transport is compared with the same of that one.
#[test]
fn published_figures_have_their_change_from_the_first_condition() {
    let summary = summarise(&common::full());
    let figure = |transport: &str, condition: &str| {
        let mut figures = summary.published.iter();
        let figure = figures.find(|it| {
            let place = (it.transport.as_str(), it.condition.as_str());
            place == (transport, condition) && it.metric == id::GOODPUT_BPS
        });
        figure.expect("it is published")
    };
    let measured = |transport: &str, condition: &str| {
        let cell = summary.cell(transport, condition, "bulk-10MB");
        let shown = cell.and_then(|cell| cell.shown(id::GOODPUT_BPS));
        shown.expect("it is measured").0
    };
    for transport in ["tcp", "udp"] {
        let [before, after] = ["baseline", "loss-5"].map(|it| figure(transport, it));
        assert_eq!(before.published_change, None);
        assert_eq!(before.measured, Some(measured(transport, "baseline")));
        let published = after.published / before.published;
        assert_eq!(after.published_change, Some(published));
        let change = measured(transport, "loss-5") / measured(transport, "baseline");
        assert_eq!(after.measured_change, Some(change));
    }
}
