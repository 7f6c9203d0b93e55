//! Reports of series, of short forms, and of what a published path permits.

use std::time::Duration;

use regatta_model::{Ratio, metric::id};
use regatta_report::{RunData, html, summarise};

use crate::common;

const EVERY: Duration = Duration::from_secs(150);

/// A run whose rounds begin in these periods, each this late.
fn series(rounds: &[(u32, Duration)]) -> RunData {
    let mut data = common::full();
    data.header.study.every = Some(EVERY);
    for trial in &mut data.trials {
        let (period, late) = rounds[trial.round as usize % rounds.len()];
        let begin = EVERY * period + late;
        trial.measurements.metrics.extend(
            [
                (id::SERIES_PERIOD, f64::from(period)),
                (id::SERIES_LATENESS_NS, late.as_nanos() as f64),
                (id::SERIES_TIME_NS, begin.as_nanos() as f64),
            ]
            .map(|(name, value)| (name.to_owned(), value)),
        );
        // The clock of this machine has nothing to do with a virtual one.
        trial.started_unix_ns = 5;
    }
    data
}

fn warnings(data: &RunData) -> Vec<(String, String)> {
    let warnings = summarise(data).warnings.into_iter();
    warnings
        .map(|it| (it.warning.code, it.warning.message))
        .filter(|(code, _)| code.starts_with("series") || code == "scaled")
        .collect()
}

#[test]
fn a_met_schedule_has_no_warning() {
    let on_time: Vec<_> = (0..5)
        .map(|round| (round, Duration::from_millis(3)))
        .collect();
    assert_eq!(warnings(&series(&on_time)), []);
}

#[test]
fn late_rounds_and_missed_periods_are_reported() {
    let s = Duration::from_secs;
    let rounds = [(0, s(0)), (1, s(40)), (2, s(10)), (6, s(0)), (7, s(0))];
    let [late, missed] = &warnings(&series(&rounds))[..] else {
        panic!("two warnings")
    };
    assert_eq!(
        late.1,
        "2 of 5 rounds of the series began late, by 40 s at most"
    );
    assert_eq!(
        missed.1,
        "3 periods of 2 min 30 s passed without a round, because the run was interrupted or its rounds took \
         longer; no round was left out, so the series ended later by 7 min 30 s"
    );
}

#[test]
fn metrics_are_drawn_over_the_time_of_the_series() {
    let on_time: Vec<_> = (0..5).map(|round| (round, Duration::ZERO)).collect();
    let data = series(&on_time);
    let page = html::render(&data, &summarise(&data)).expect("a page");
    // The last of five rounds begins after ten minutes.
    assert!(page.contains("time since the series began, min"));
    for metric in ["goodput-bps", "round-trip-delay-p50-ns", "cpu-host-ratio"] {
        for condition in 0..2 {
            let panel = format!("id=\"trial-{metric}-{condition}");
            assert!(page.contains(&panel), "{panel}");
        }
    }
}

#[test]
fn a_scaled_run_is_marked() {
    let mut data = common::full();
    data.header.study.rounds = 50;
    data.header.study.scale(Ratio(0.1));
    let [(_, message)] = &warnings(&data)[..] else {
        panic!("one warning")
    };
    assert!(message.contains("5 of the study's 50 rounds"), "{message}");
}

#[test]
fn values_beyond_the_path_are_marked_with_its_limit() {
    let data = common::full();
    let summary = summarise(&data);
    let page = html::render(&data, &summary).expect("a page");
    let count = |text: &str| page.matches(text).count();
    // UDP's goodput needs more than the link on the wire; under loss all four, and UDP's delay, which loss does not raise.
    assert_eq!(count("not possible over the path: at most"), 6);
    assert_eq!(count("not possible over the path: at most 98.5"), 1);
    assert_eq!(count(">possible over the path"), 10);
    let json = serde_json::to_value(&summary).expect("plain values");
    assert_eq!(json["published"][0]["path_permits"], true);
    assert!(json["published"][0]["path_at_most"].is_f64());
    // The path limits no CPU time.
    assert!(json["published"][2].get("path_permits").is_none());
}

/// The study knows what its packets do not tell.
#[test]
fn a_study_may_say_that_the_path_permits_a_figure() {
    let mut data = common::full();
    data.header.study.published[0].path_permits = Some(false);
    let json = serde_json::to_value(summarise(&data)).expect("plain values");
    assert_eq!(json["published"][0]["path_permits"], false);
}

#[test]
fn a_round_is_late_above_one_percent_of_the_period() {
    let of_one = |late: Duration| warnings(&series(&[(0, late)])).len();
    assert_eq!(of_one(Duration::from_millis(1500)), 0);
    assert_eq!(of_one(Duration::from_millis(1501)), 1);
}
