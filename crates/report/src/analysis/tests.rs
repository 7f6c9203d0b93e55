//! Sentences and figures of whole runs that are made up, by hand.

use regatta_model::{Outcome, Study, metric::id};

use super::{
    fixture::{goodput, noise, run, study, too_varied, trial},
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
    let data = too_varied(3);
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

/// `a` has the lower median and `b` the lower 99th percentile; `c`, which failed in a round, has both.
#[test]
fn percentiles_that_disagree_have_a_note() {
    let work = "kind = 'multi-stream'\nname = 'work'";
    let text =
        study("rounds = 5", &["a", "b", "c"], &["p"]).replace("kind = 'bulk'\nname = 'work'", work);
    let data = run(&text, |[transport, ..], round| {
        let shift = ["a", "b", "c"].iter().position(|it| *it == transport);
        let shift = shift.unwrap_or_default();
        let of = |values: [f64; 3]| values[shift] * 1e6 * noise(round, shift);
        let metrics = [
            (id::MESSAGE_DELAY_P50_NS, of([10.0, 20.0, 5.0])),
            (id::MESSAGE_DELAY_P95_NS, of([40.0, 30.0, 20.0])),
            (id::MESSAGE_DELAY_P99_NS, of([80.0, 40.0, 30.0])),
        ];
        match (transport, round) {
            ("c", 0) => trial(round, Outcome::Failed, &[]),
            _ => trial(round, Outcome::Measured, &metrics),
        }
    });
    let notes = summarise(&data).verdict.conditions.remove(0).notes;
    let note = "The median and the 99th percentile disagree: `a` has the lower median (10.0 ms against 20.0 ms), \
                `b` the lower 99th percentile (40.0 ms against 80.0 ms)";
    assert!(notes.iter().any(|it| it == note), "{notes:?}");
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

/// Returns the verdict over all, without the noise floor of transports that are the same.
fn overall(data: &RunData) -> String {
    let overall = summarise(data).verdict.overall;
    let parts = overall.split_once(" Noise floor:");
    parts.map_or(overall.clone(), |(before, _)| before.to_owned())
}

#[test]
fn the_fastest_are_the_same_or_undecided() {
    let same = run(
        &study("rounds = 5", &["a", "b"], &["p"]),
        |[transport, ..], round| {
            let is_a = transport == "a";
            goodput(
                round,
                if is_a { 60.3e6 } else { 60e6 } * noise(round, usize::from(is_a)),
            )
        },
    );
    assert_eq!(
        overall(&same),
        "Fastest: `a` and `b` (the same within 3 %) under `p`."
    );
    let undecided = alternating(&["p"], 1.05);
    assert_eq!(
        overall(&undecided),
        "Fastest: `a` and `b` (undecided) under `p`."
    );
}

/// Returns the run of a sweep of delays, and of losses if there are any, with the goodput of a transport in Mbit/s by the
/// delay in ms and the loss in per cent; `None` for a trial that fails.
fn swept(
    transports: &[&str],
    (delays, losses): (&str, &str),
    rate: impl Fn(&str, f64, f64) -> Option<f64>,
) -> RunData {
    let of = |key: &str, values: &str| {
        format!("[[sweep]]\nkey = 'condition.{key}'\nvalues = [{values}]\n")
    };
    let mut text = study("rounds = 5", transports, &["p"]) + &of("delay", delays);
    if !losses.is_empty() {
        text += &of("loss", losses);
    }
    let study = Study::parse(&text, "study.toml").unwrap_or_else(|error| panic!("{error}"));
    run(&text, |[transport, condition, _], round| {
        let mut conditions = study.conditions.iter();
        let link = conditions
            .find(|it| it.name == condition)
            .map(|it| &it.forward);
        let link = link.expect("a condition of the study");
        let shift = transports.iter().position(|it| *it == transport);
        let [delay, loss] = [link.delay.as_secs_f64() * 1e3, link.loss.0 * 100.0];
        match rate(transport, delay, loss) {
            Some(rate) => goodput(round, rate * 1e6 * noise(round, shift.unwrap_or_default())),
            None => trial(round, Outcome::Failed, &[]),
        }
    })
}

const DELAYS: &str = "'10ms', '20ms', '30ms', '40ms'";

/// Goodput of three transports: `b` is ahead of `a` up to 25 ms, and of `c` up to 35 ms.
fn two_crossings(transport: &str, delay: f64) -> f64 {
    match transport {
        "a" => 50.0,
        "b" => 100.0 - 2.0 * delay,
        _ => 30.0,
    }
}

/// By hand: between 20 and 30 ms the logarithm of the ratio falls from ln 1.2 to ln 0.8, and is 0 at 24.5 ms.
#[test]
fn further_crossings_are_counted() {
    let data = swept(&["a", "b", "c"], (DELAYS, ""), |transport, delay, _| {
        Some(two_crossings(transport, delay))
    });
    assert_eq!(
        overall(&data),
        "Fastest in the sweeps: `b` at 10 ms and 20 ms each way; `a` at 30 ms and 40 ms each way; `a` overtakes `b` above 24.5 ms each way [24.3, 24.7]; and 1 further crossing."
    );
}

/// Up to three crossings of one pair have a sentence each, more of them share one.
#[test]
fn many_crossings_of_one_pair_share_a_sentence() {
    let sentences = |transports: &[&str], losses: &str| {
        let data = swept(transports, (DELAYS, losses), |transport, delay, _| {
            Some(two_crossings(transport, delay))
        });
        let sweep = summarise(&data).sweeps.remove(0);
        let further = overall(&data).contains("further crossing");
        (sweep.crossings.len(), sweep.sentences.len(), further)
    };
    let (three, four) = ("'1%', '2%', '3%'", "'1%', '2%', '3%', '4%'");
    assert_eq!(sentences(&["a", "b"], three), (3, 3, true));
    assert_eq!(sentences(&["a", "b"], four), (4, 1, false));
    assert_eq!(sentences(&["a", "b", "c"], "'1%', '2%'"), (4, 5, true));
}

/// The other transport failed at the longest delay, so that there is nothing to compare with.
#[test]
fn a_transport_alone_at_one_value_of_a_sweep_has_its_figure() {
    let data = swept(
        &["a", "b"],
        (DELAYS, ""),
        |transport, delay, _| match transport {
            "a" => Some(50.0),
            _ => (delay < 35.0).then_some(40.0),
        },
    );
    assert_eq!(
        overall(&data),
        "Fastest in the sweeps: `a` everywhere; `a` alone: 50.0 Mbit/s at 40 ms each way. Ranked in some places only: `b`."
    );
}

/// Values of the other parameter have their positions on its axis: 1 % is before 2 %, which the study names first. By hand: at
/// 10 ms the logarithm of the ratio falls from ln 1.6 at 1 % to ln 0.8 at 2 %, and is 0 at 1.678 %; at 20 ms at 1.450 %.
#[test]
fn a_crossing_has_the_value_of_the_other_parameter() {
    let data = swept(
        &["a", "b"],
        (DELAYS, "'2%', '1%'"),
        |transport, delay, loss| {
            Some(match transport {
                "a" => 50.0,
                _ if loss < 1.5 => two_crossings("b", delay),
                _ => 40.0,
            })
        },
    );
    let crossings = summarise(&data).sweeps.remove(0).crossings;
    let along_delay: Vec<&SweepCrossing> = crossings.iter().filter(|it| it.axis == 0).collect();
    let text = "at 1 % loss, `a` overtakes `b` above 24.5 ms each way [24.3, 24.7]";
    let found = along_delay
        .iter()
        .map(|it| (&it.others[..], it.text.as_str()));
    assert_eq!(Vec::from_iter(found), [(&[0][..], text)]);
    let along_loss: Vec<&SweepCrossing> = crossings.iter().filter(|it| it.axis == 1).collect();
    let found = along_loss
        .iter()
        .map(|it| (&it.others[..], (it.value * 1e5).round()));
    assert_eq!(
        Vec::from_iter(found),
        [(&[0][..], 1678.0), (&[1][..], 1450.0)]
    );
}

/// Returns the sentences of a sweep in which each transport has one goodput in Mbit/s at all values, by its position.
fn sentences_of_constant(rates: &[f64]) -> Vec<String> {
    let transports = &["a", "b", "c", "d", "e", "f"][..rates.len()];
    let data = swept(transports, (DELAYS, ""), |transport, _, _| {
        let position = transports.iter().position(|it| *it == transport);
        Some(rates[position.unwrap_or_default()])
    });
    summarise(&data).sweeps.remove(0).sentences
}

#[test]
fn pairs_that_are_the_same_at_all_values_share_a_sentence() {
    let same = ["the same within 3 % everywhere: `a` and `b`"];
    assert_eq!(sentences_of_constant(&[60.0, 60.0]), same);
}

/// Six transports have 15 pairs. With three that are the same, and two others that are, 11 pairs and one sentence are left.
#[test]
fn a_sweep_has_twelve_sentences_at_most() {
    let sentences = sentences_of_constant(&[10.0, 20.0, 30.0, 40.0, 50.0, 60.0]);
    assert_eq!(sentences.len(), 13);
    assert_eq!(
        sentences[12],
        "3 further sentences are in `summary.json`, as `sweeps`"
    );
    let sentences = sentences_of_constant(&[10.0, 10.0, 10.0, 40.0, 40.0, 60.0]);
    assert_eq!(sentences.len(), 12);
    assert!(!sentences[11].contains("further"), "{}", sentences[11]);
}

/// Values that go together are one axis, those of two parameters are not.
#[test]
fn an_axis_names_the_keys_that_go_together() {
    let axes = |zip: &str| {
        let sweep = |key: &str, values: &str| {
            format!("[[sweep]]\nkey = 'condition.{key}'\nvalues = [{values}]\n{zip}\n")
        };
        let text = study("rounds = 2", &["a", "b"], &["p"])
            + &sweep("delay", "'10ms', '20ms'")
            + &sweep("loss", "'1%', '2%'");
        let data = run(&text, |_, round| goodput(round, 50e6));
        let axes = summarise(&data).sweeps.remove(0).axes.into_iter();
        axes.map(|axis| (axis.key, axis.zipped)).collect::<Vec<_>>()
    };
    let [delay, loss] = ["condition.delay", "condition.loss"].map(str::to_owned);
    assert_eq!(axes(""), [(delay.clone(), vec![]), (loss.clone(), vec![])]);
    assert_eq!(axes("zip = 'pair'"), [(delay, vec![loss])]);
}

#[test]
fn places_of_several_sweeps_have_their_condition() {
    let text = study("rounds = 5", &["a", "b"], &["p", "q"])
        + "[[sweep]]\nkey = 'condition.delay'\nvalues = ['10ms', '20ms']\n";
    let data = run(&text, |[transport, condition, _], round| {
        let is_first = (transport == "a") == condition.starts_with('p');
        let rate = if is_first { 60e6 } else { 40e6 };
        goodput(round, rate * noise(round, usize::from(transport == "a")))
    });
    let overall = overall(&data);
    assert!(
        overall.contains("each way under `p` with `work`"),
        "{overall}"
    );
    assert!(
        overall.contains("each way under `q` with `work`"),
        "{overall}"
    );
}

/// Cells are named by their values: an axis of which all values are meant is left out beside another one.
#[test]
fn cells_of_a_sweep_are_named_by_their_values() {
    let text = study("rounds = 2", &["a"], &["p"])
        + "[[sweep]]\nkey = 'condition.delay'\nvalues = ['10ms', '20ms', '30ms', '40ms', '50ms']\n"
        + "[[sweep]]\nkey = 'condition.loss'\nvalues = ['1%', '2%']\n";
    let study = Study::parse(&text, "study.toml").unwrap_or_else(|error| panic!("{error}"));
    let named = |axes: &[usize], cells: &[&[u32]]| {
        let cells = cells.iter().map(|cell| cell.to_vec()).collect();
        sweep_places::text(&study.sweeps, axes, &cells)
    };
    let delays = "10 ms to 50 ms each way";
    assert_eq!(named(&[0], &[&[0], &[1], &[2], &[3], &[4]]), delays);
    assert_eq!(
        named(&[0], &[&[1], &[2], &[3], &[4]]),
        "20 ms to 50 ms each way"
    );
    let at_two_percent = [[0, 1], [1, 1], [2, 1], [3, 1], [4, 1]];
    let at_two_percent: Vec<&[u32]> = at_two_percent.iter().map(|it| &it[..]).collect();
    assert_eq!(named(&[0, 1], &at_two_percent), "2 % loss");
    assert_eq!(
        named(&[0, 1], &[&[0, 1], &[1, 1]]),
        "10 ms and 20 ms each way, 2 % loss"
    );
}

/// Two transfers of one kind are compared under the conditions that no sweep has made.
#[test]
fn workloads_of_a_kind_are_compared_outside_of_sweeps() {
    let sentences = |further: &str| {
        let second = "[[workload]]\nkind = 'bulk'\nname = 'two'\n";
        let text = study("rounds = 5", &["a"], &["p"]) + second + further;
        let data = run(&text, |[_, _, workload], round| {
            let is_second = workload == "two";
            let rate = if is_second { 60e6 } else { 40e6 };
            goodput(round, rate * noise(round, usize::from(is_second)))
        });
        summarise(&data).verdict.workloads
    };
    let found = sentences("");
    assert_eq!(found.len(), 1);
    let text = "`two` against `work` under `p`: `a` is 50.0 % faster than `work`";
    assert!(found[0].starts_with(text), "{found:?}");
    let swept = "[[sweep]]\nkey = 'condition.delay'\nvalues = ['10ms', '20ms']\n";
    assert_eq!(sentences(swept), [""; 0]);
}
