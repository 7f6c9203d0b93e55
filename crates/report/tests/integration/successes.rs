//! Runs whose cells end with their successes, rankings by the study's own metric, and shares of whole
//! transfers.

use regatta_model::Study;
use regatta_report::{RunData, html, summarise, terminal};

use crate::common;

const STUDY: &str = r#"
name = "successes"
rounds = { successes = 2, at_most = 4 }
rank_by = "transfer_time_ns"
deadline = "10s"
[[transport]]
driver = "tcp"
[[transport]]
driver = "quic-quinn"
[[transport]]
driver = "udp"
[[condition]]
name = "wan"
rtt = "30ms"
rate = "50Mbit/s"
[[workload]]
kind = "bulk"
size = "10MB"
[[sweep]]
key = "condition.loss"
values = ["0%", "1%", "2%"]
"#;

/// Creates a run in which `udp` never succeeds under the middle loss, and every other trial succeeds.
fn run() -> RunData {
    let study = Study::parse(STUDY, "study.toml").expect("a sound study");
    let mut data = common::run(study, |_| None);
    let fails = |transport: &str, condition: &str| transport == "udp" && condition.contains("1 %");
    data.trials
        .retain(|trial| trial.round < 2 || fails(&trial.transport, &trial.condition));
    for trial in &mut data.trials {
        let is_whole = !fails(&trial.transport, &trial.condition);
        trial.measurements.warnings.clear();
        let metrics = &mut trial.measurements.metrics;
        metrics.insert("bytes_sent", 1e7);
        metrics.insert("bytes_delivered", if is_whole { 1e7 } else { 9e6 });
        metrics.insert("whole_transfer_ratio", f64::from(u8::from(is_whole)));
        let seconds = match trial.transport.as_str() {
            "tcp" => 2.0,
            _ => 1.0,
        };
        let noise = 1.0 + 0.001 * f64::from(trial.round);
        metrics.insert("transfer_time_ns", seconds * noise * 1e9);
        if !is_whole {
            metrics.remove("transfer_time_ns");
        }
    }
    data
}

#[test]
fn a_run_is_complete_with_the_trials_of_its_rule() {
    let data = run();
    // Eight cells of two trials, and one of four.
    assert_eq!(data.trials.len(), 20);
    let summary = summarise(&data);
    assert_eq!(
        (summary.state.trials_planned, summary.state.trials_saved),
        (20, 20)
    );
    assert!(summary.gates[0].passed, "{:?}", summary.gates[0]);

    let mut cut = data.clone();
    cut.trials.pop();
    let summary = summarise(&cut);
    assert!(!summary.gates[0].passed, "{:?}", summary.gates[0]);
}

#[test]
fn transports_are_ranked_by_the_metric_that_the_study_names() {
    let data = run();
    let summary = summarise(&data);
    let verdict = &summary.verdict.conditions[0];
    assert_eq!(verdict.metric, "transfer_time_ns");
    assert_eq!(verdict.ranking[0].transport, "quic-quinn");
    assert!(
        verdict.text.contains("by transfer time"),
        "{}",
        verdict.text
    );
    let tested = summary.comparisons.iter();
    let tested = tested.filter(|it| it.metric == "transfer_time_ns" && it.claim.p_value.is_some());
    assert!(tested.count() > 0);
    let text = terminal::render(
        &summary,
        &data,
        &terminal::TerminalOptions {
            details: true,
            ..Default::default()
        },
    );
    assert!(text.contains("transfer time"), "{text}");
}

#[test]
fn a_cell_without_success_has_no_value_and_its_line_a_gap() {
    let data = run();
    let summary = summarise(&data);
    let sweep = &summary.sweeps[0];
    assert_eq!(
        (sweep.metric.as_str(), sweep.is_primary),
        ("transfer_time_ns", true)
    );
    let cell = |transport: &str, at: u32| {
        let mut cells = sweep.cells.iter();
        let cell = cells.find(|it| it.transport == transport && it.at == [at]);
        cell.map(|it| (it.n, it.trials, it.value.is_some()))
    };
    assert_eq!(cell("udp", 0), Some((2, 2, true)));
    assert_eq!(cell("udp", 1), Some((0, 4, false)));
    let page = html::render(&data, &summary).expect("a page");
    assert!(page.contains("(0 of 4 trials)"));
    let figure = page
        .find("figure-sweep-0-transfer-time-ns")
        .expect("a figure");
    let figure = &page[figure..figure + page[figure..].find("</figure>").expect("an end")];
    // That of `udp` does not lead over the middle: two parts beside the two other lines.
    let dashed = figure.matches("stroke-dasharray").count();
    assert!(!figure.contains("NaN"), "a point without a value is drawn");
    assert!(dashed > 0, "lines have dashes");
}

#[test]
fn the_ratio_of_complete_transfers_has_an_exact_interval() {
    let mut data = run();
    let mut values = [1.0, 0.0, 1.0, 1.0].into_iter();
    for trial in &mut data.trials {
        if trial.transport == "udp" && trial.condition.contains("1 %") {
            let metrics = &mut trial.measurements.metrics;
            let value = values.next().expect("four trials");
            metrics.insert("whole_transfer_ratio", value);
        }
    }
    let summary = summarise(&data);
    let condition = &data.header.study.conditions[1].name;
    let cell = summary.cell("udp", condition, "bulk").expect("a cell");
    let (share, interval) = cell.shown("whole_transfer_ratio").expect("a value");
    let [low, high] = interval.expect("an interval");
    assert_eq!(share, 0.75);
    // Clopper and Pearson, 3 of 4.
    assert!(
        (low - 0.1941).abs() < 1e-4 && (high - 0.9937).abs() < 1e-4,
        "{low} {high}"
    );
}
