//! Sentences and figures of whole runs that are made up, by hand.

use regatta_model::{Outcome, metric::id};

use super::{
    fixture::{goodput, noise, run, study, trial},
    *,
};

#[test]
fn metrics_of_any_comparison_are_compared() {
    for metric in [
        id::REQUESTS_PER_SECOND,
        id::CPU_HOST_RATIO,
        id::ROUND_TRIP_DELAY_P95_NS,
    ] {
        assert!(is_compared(metric), "{metric}");
    }
    assert!(!is_compared(id::MESSAGES_SENT));
}

/// Returns the run of two transports of which each is 10 % faster in every second round, and `a` by a factor beside that.
fn alternating(conditions: &[&str], a: f64) -> RunData {
    run(
        &study("rounds = 4", &["a", "b"], conditions),
        |[transport, ..], round| {
            let is_larger = (transport == "a") == round.is_multiple_of(2);
            let rate = if is_larger { 110e6 } else { 100e6 };
            goodput(round, if transport == "a" { rate * a } else { rate })
        },
    )
}

#[test]
fn an_undecided_group_has_what_its_rounds_would_find() {
    let verdict = summarise(&alternating(&["p"], 1.05)).verdict;
    assert_eq!(
        verdict.conditions[0].text,
        "Under `p`: undecided among `a` (110.1 Mbit/s) and `b` (104.9 Mbit/s): the first looks 5 % faster than `b` (interval −12 to 25 %, 4 rounds); these rounds would find 26.4 %. A new run of 36 to 109 rounds should decide it, or one with `--rounds decided`."
    );
    assert_eq!(
        verdict.conditions[0].limits, [""; 0],
        "the headline says it"
    );
    // Of several groups each says what would decide it.
    let verdict = summarise(&alternating(&["p", "q"], 1.05)).verdict;
    assert_eq!(
        verdict.conditions[1].limits,
        ["a new run of 43 to 131 rounds should decide it, or one with `--rounds decided`"]
    );
}

#[test]
fn rounds_that_would_find_a_factor_of_three_are_too_few() {
    let data = run(
        &study("rounds = 3", &["a", "b"], &["p"]),
        |[transport, ..], round| {
            let is_a = transport == "a";
            goodput(
                round,
                if is_a {
                    10e6 * f64::from(1 + round * round)
                } else {
                    20e6
                },
            )
        },
    );
    assert_eq!(
        summarise(&data).verdict.conditions[0].text,
        "Under `p`: undecided among `a` (21.5 Mbit/s) and `b` (20.0 Mbit/s); these are too few rounds. A new run of 12340 to 82801 rounds should decide it, or one with `--rounds decided`."
    );
}

/// By hand: three values that are always the same are decided by the sign test of six, 2^(1 − 6) being below 5 %.
#[test]
fn values_that_never_change_are_decided_by_a_known_number_of_rounds() {
    let sentence = |keys: &str| {
        let data = run(
            &study(keys, &["a", "b"], &["p"]),
            |[transport, ..], round| goodput(round, if transport == "a" { 50e6 } else { 40e6 }),
        );
        summarise(&data).verdict.conditions.remove(0).text
    };
    assert_eq!(
        sentence("rounds = 3"),
        "Under `p`: undecided among `a` (50.0 Mbit/s) and `b` (40.0 Mbit/s); these are too few rounds. A new run of 6 rounds should decide it, or one with `--rounds decided`."
    );
    assert_eq!(
        sentence("rounds = { until = 'decided', at_most = 3 }"),
        "Under `p`: undecided among `a` (50.0 Mbit/s) and `b` (40.0 Mbit/s); these are too few rounds. The run has spent its 3 rounds; a new one with `--rounds decided --at-most 6` should be decided."
    );
}

#[test]
fn a_transport_alone_has_a_range_in_more_than_eight_places() {
    let overall = |places: usize| {
        let names: Vec<String> = (0..places).map(|it| format!("p{it}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let data = run(
            &study("rounds = 2", &["a"], &names),
            |[_, condition, _], round| {
                let place = names
                    .iter()
                    .position(|it| *it == condition)
                    .unwrap_or_default();
                goodput(round, 10e6 * (1 + place) as f64)
            },
        );
        summarise(&data).verdict.overall
    };
    assert_eq!(
        overall(2),
        "`a`: 10.0 Mbit/s under `p0`; `a`: 20.0 Mbit/s under `p1`."
    );
    assert_eq!(overall(8).matches("Mbit/s under").count(), 8);
    assert_eq!(
        overall(9),
        "`a` has 10.0 Mbit/s to 90.0 Mbit/s in 9 places."
    );
}

/// `a` has the lower median and `b` the lower 99th percentile.
#[test]
fn percentiles_that_disagree_have_a_note() {
    let work = "kind = 'multi-stream'\nname = 'work'";
    let text =
        study("rounds = 5", &["a", "b"], &["p"]).replace("kind = 'bulk'\nname = 'work'", work);
    let data = run(&text, |[transport, ..], round| {
        let is_a = transport == "a";
        let of = |a: f64, b: f64| if is_a { a } else { b } * 1e6 * noise(round, usize::from(is_a));
        let metrics = [
            (id::MESSAGE_DELAY_P50_NS, of(10.0, 20.0)),
            (id::MESSAGE_DELAY_P95_NS, of(40.0, 30.0)),
            (id::MESSAGE_DELAY_P99_NS, of(80.0, 40.0)),
        ];
        trial(round, Outcome::Measured, &metrics)
    });
    let notes = summarise(&data).verdict.conditions.remove(0).notes;
    assert_eq!(
        notes,
        [
            "The median and the 99th percentile disagree: `a` has the lower median (10.0 ms against 20.0 ms), `b` the lower 99th percentile (40.0 ms against 80.0 ms)"
        ]
    );
}

/// The method says what is of the kind of the run alone.
#[test]
fn the_method_depends_on_the_stopping_rule_and_on_claims() {
    let method = |keys: &str, claim: &str| {
        let text = study(keys, &["a"], &["p"]) + claim;
        let data = run(&text, |_, round| goodput(round, 50e6));
        summarise(&data).statistics.method.join(". ")
    };
    let [looked, new_run, claim] = [
        "after every whole round",
        "a new run is",
        "A claim of the study comes out",
    ];
    let claimed = "[[claim]]\ntext = 'it is so'\nvalue = {at_least = '1Mbit/s'}\n";
    let fixed = method("rounds = 3", "");
    assert!(!fixed.contains(looked) && fixed.contains(new_run) && !fixed.contains(claim));
    let decided = method("rounds = { until = 'decided', at_most = 3 }", claimed);
    assert!(decided.contains(looked) && !decided.contains(new_run) && decided.contains(claim));
}

/// 40 ms are published for the path without losses, which losses alone do not make longer.
#[test]
fn a_published_delay_is_limited_by_that_under_the_first_condition() {
    let figure = |condition: &str, value: &str| {
        format!(
            "[[published]]\ntransport = 'udp'\ncondition = '{condition}'\nmetric = 'round_trip_delay_p50_ns'\nvalue = '{value}'\n"
        )
    };
    let text = format!(
        "rounds = 2\n[source]\ncitation = 'by hand'\n[[transport]]\ndriver = 'udp'\n[[workload]]\nkind = 'bulk'\n\
         [[condition]]\nname = 'first'\nrtt = '30ms'\n[[condition]]\nname = 'lossy'\nrtt = '30ms'\nloss = '5%'\n{}{}",
        figure("first", "40ms"),
        figure("lossy", "45ms")
    );
    let data = run(&text, |_, round| goodput(round, 50e6));
    let published = summarise(&data).published;
    let limits = published
        .iter()
        .map(|it| (it.path_at_most, it.path_permits));
    let limits: Vec<(Option<f64>, Option<bool>)> = limits.collect();
    assert_eq!(limits, [(None, Some(true)), (Some(40e6), Some(false))]);
}

/// By the metric of the ranking alone: on one of two machines `a` has twice as much of it as on the other.
#[test]
fn machines_disagree_by_the_metric_of_the_ranking() {
    let disagree = |differing: &str| {
        let text = study(
            "rounds = 6\nrank_by = 'cpu_host_ratio'",
            &["a", "b"],
            &["p"],
        );
        let mut data = run(&text, |[transport, ..], round| {
            let is_a = transport == "a";
            let of = |metric: &str| {
                let is_twice = is_a && metric == differing && round.is_multiple_of(2);
                noise(round, usize::from(is_a)) * if is_twice { 0.2 } else { 0.1 }
            };
            let metrics = [id::GOODPUT_BPS, id::CPU_HOST_RATIO].map(|it| (it, of(it)));
            trial(round, Outcome::Measured, &metrics)
        });
        let node = |round: u32| {
            if round.is_multiple_of(2) {
                "even"
            } else {
                "odd"
            }
        };
        data.nodes = (0..6).map(|round| (round, node(round).into())).collect();
        let warnings = summarise(&data).warnings;
        warnings
            .iter()
            .any(|it| it.warning.code == "nodes_disagree")
    };
    assert!(disagree(id::CPU_HOST_RATIO));
    assert!(!disagree(id::GOODPUT_BPS));
}

#[test]
fn warnings_of_the_run_are_counted_by_their_kind() {
    let mut data = run(&study("rounds = 2", &["a"], &["p"]), |_, round| {
        goodput(round, 50e6)
    });
    data.warnings = ["x", "y", "z"]
        .map(|why| regatta_model::warning::probe_broken(why.into()))
        .into();
    let warnings = summarise(&data).warnings;
    let broken = warnings
        .iter()
        .filter(|it| it.warning.code == "probe_broken");
    let texts: Vec<&str> = broken.map(|it| it.warning.message.as_str()).collect();
    assert_eq!(texts.len(), 1, "{texts:?}");
    assert!(texts[0].ends_with(" (and 2 alike)"), "{texts:?}");
    data.warnings.truncate(1);
    let warnings = summarise(&data).warnings;
    assert!(
        !warnings[0].warning.message.contains("alike"),
        "{warnings:?}"
    );
}
