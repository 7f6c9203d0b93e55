//! What a summary may and may not say.

mod common;

use regatta_model::{Finish, Outcome, WorkloadKind};
use regatta_report::{RunData, analysis::Conclusion, html, summarise, terminal};

fn fixtures() -> Vec<(&'static str, RunData)> {
    vec![
        ("full", common::full()),
        ("one round", common::one_round()),
        ("one trial", common::one_trial()),
        ("empty", common::empty()),
        ("unsupported", common::unsupported()),
        ("hostile", common::hostile()),
    ]
}

#[test]
fn every_summary_follows_the_schema() {
    let schema = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../schemas/summary.schema.json"
    );
    let schema: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(schema).expect("the schema is committed"))
            .expect("the schema is JSON");
    let validator = jsonschema::validator_for(&schema).expect("the schema is one");
    for (name, data) in fixtures() {
        let summary = serde_json::to_value(summarise(&data)).expect("plain values");
        let errors: Vec<String> = validator
            .iter_errors(&summary)
            .map(|e| format!("{}: {e}", e.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{name}: {errors:#?}");
    }
    // A schema that lets everything through would not be one.
    let mut broken = serde_json::to_value(summarise(&common::full())).expect("plain values");
    broken["cells"][0]["metrics"]["goodput_bps"]["mean"] = "fast".into();
    assert!(!validator.is_valid(&broken));
}

#[test]
fn a_summary_is_read_back_as_it_was_written() {
    let summary = summarise(&common::full());
    let text = serde_json::to_string(&summary).expect("plain values");
    let back: regatta_report::Summary = serde_json::from_str(&text).expect("its own text");
    assert_eq!(back, summary);
}

#[test]
fn only_measured_trials_enter_a_mean() {
    let mut data = common::full();
    let before = summarise(&data);
    for trial in &mut data.trials {
        if trial.outcome == Outcome::Failed {
            trial.metrics.insert("goodput_bps".into(), 1e12);
        }
    }
    let after = summarise(&data);
    assert_eq!(before.cells, after.cells);
    let cell = after
        .cell("quic-quinn", "loss-5", "bulk-10MB")
        .expect("it is in the study");
    assert_eq!((cell.n, cell.outcome(Outcome::Failed)), (4, 1));
}

#[test]
fn pairs_are_corrected_for_their_number() {
    let summary = summarise(&common::full());
    let family: Vec<_> = summary
        .comparisons
        .iter()
        .filter(|c| c.condition == "baseline" && c.metric == "goodput_bps")
        .collect();
    // Five transports of six are measured; the sixth is unsupported.
    assert_eq!(family.len(), 10);
    for comparison in family {
        assert_eq!(comparison.family, 10);
        assert!((comparison.confidence - 0.995).abs() < 1e-12);
        let (Some(p), Some(holm)) = (comparison.p_value, comparison.p_holm) else {
            panic!("five rounds give a p-value: {comparison:?}");
        };
        assert!(holm >= p);
    }
}

#[test]
fn the_failed_round_is_missing_from_its_pairs_only() {
    let summary = summarise(&common::full());
    for c in summary
        .comparisons
        .iter()
        .filter(|c| c.condition == "loss-5")
    {
        let with_quic = c.a == "quic-quinn" || c.b == "quic-quinn";
        assert_eq!(c.n, if with_quic { 4 } else { 5 }, "{} {}", c.a, c.b);
    }
}

#[test]
fn equal_transports_are_not_told_apart_and_unequal_ones_are() {
    let summary = summarise(&common::full());
    let find = |a: &str, b: &str| {
        summary
            .comparisons
            .iter()
            .find(|c| c.a == a && c.b == b && c.condition == "loss-5" && c.metric == "goodput_bps")
            .map(|c| c.conclusion)
    };
    assert_eq!(
        find("tcp", "tcp-tls"),
        Some(Conclusion::NoDifferenceDetected)
    );
    assert_eq!(find("tcp", "tcp-bbr"), Some(Conclusion::Slower));
    assert_eq!(find("tcp-bbr", "tcp-tls"), Some(Conclusion::Faster));
}

#[test]
fn a_transport_that_loses_is_never_compared_without_saying_so() {
    let summary = summarise(&common::full());
    let texts = summary
        .verdict
        .conditions
        .iter()
        .map(|v| &v.text)
        .chain([&summary.verdict.overall]);
    for text in texts {
        assert!(text.contains("`udp`, which does not retransmit"), "{text}");
        assert!(!text.contains("`udp` was the fastest"), "{text}");
    }
    let lossy = &summary.verdict.conditions[1].text;
    assert!(lossy.contains("lost 4.97 % of its messages"), "{lossy}");
    for c in summary
        .comparisons
        .iter()
        .filter(|c| c.condition == "loss-5")
    {
        assert_eq!(c.loss_a.is_some(), c.a == "udp");
        assert_eq!(c.loss_b.is_some(), c.b == "udp");
    }
}

#[test]
fn one_round_gives_no_interval_and_no_conclusion() {
    let summary = summarise(&common::one_round());
    for cell in &summary.cells {
        assert_eq!(cell.n, 1);
        assert!(
            cell.metrics
                .values()
                .all(|m| m.ci95.is_none() && m.sd.is_none())
        );
    }
    assert!(
        summary
            .comparisons
            .iter()
            .all(|c| c.conclusion == Conclusion::NotEnoughRounds)
    );
}

#[test]
fn gates_say_what_was_missed() {
    let failed = |data: &RunData| -> Vec<String> {
        let gates = summarise(data).gates;
        gates
            .into_iter()
            .filter(|gate| !gate.passed)
            .map(|gate| gate.name)
            .collect()
    };
    assert_eq!(failed(&common::full()), ["trials_measured"]);
    assert!(failed(&common::one_round()).is_empty());
    assert_eq!(
        failed(&common::empty()),
        ["run_complete", "trials_measured", "path_within_tolerance"]
    );
    let mut data = common::one_round();
    data.path_checks[1].within = false;
    data.trials[0]
        .metrics
        .insert("messages_corrupted".into(), 1.0);
    assert_eq!(failed(&data), ["path_within_tolerance", "data_intact"]);
}

fn passes(data: &RunData, name: &str) -> bool {
    let gates = summarise(data).gates;
    let gate = gates.iter().find(|gate| gate.name == name);
    gate.expect("the gate is there").passed
}

#[test]
fn a_path_check_that_the_machine_spoiled_decides_nothing_and_any_other_does() {
    let path = |data: &RunData| passes(data, "path_within_tolerance");
    let mut data = common::full();
    let mut outside = data.path_checks[0].clone();
    outside.within = false;
    outside.quantities[0].within = false;
    data.path_checks.insert(0, outside);
    assert!(!path(&data), "a sound check after it does not undo it");
    data.path_checks[0].spoiled = Some("it was late".into());
    assert!(path(&data));
    for check in &mut data.path_checks {
        check.spoiled = Some("it was late".into());
    }
    assert!(path(&data), "the machine is no fault of the path");
    data.path_checks.clear();
    assert!(!path(&data));
}

#[test]
fn timed_out_is_a_result_and_invalid_is_none() {
    let ended = |outcomes: fn(u32) -> Option<Outcome>| {
        common::run(common::study(), |trial| {
            Some((outcomes(trial.round)?, "because", ""))
        })
    };
    let codes = |data: &RunData| -> Vec<String> {
        let warnings = summarise(data).warnings;
        warnings.into_iter().map(|warning| warning.code).collect()
    };
    let measured = |data: &RunData| passes(data, "trials_measured");
    let late = ended(|round| (round == 1).then_some(Outcome::TimedOut));
    assert!(measured(&late));
    assert!(codes(&late).contains(&"trials_timed_out".to_owned()));
    assert!(measured(&ended(|_| Some(Outcome::TimedOut))));
    let spoiled = ended(|round| (round == 1).then_some(Outcome::Invalid));
    assert!(measured(&spoiled));
    assert!(codes(&spoiled).contains(&"trials_invalid".to_owned()));
    assert!(!measured(&ended(|_| Some(Outcome::Invalid))));
    assert!(!measured(&ended(
        |round| (round == 1).then_some(Outcome::Failed)
    )));
}

#[test]
fn nothing_that_a_user_wrote_becomes_markup_or_an_escape_sequence() {
    let data = common::hostile();
    let summary = summarise(&data);
    let page = html::render(&data, &summary).expect("the page is made");
    for bad in [
        "<script>alert",
        "<img",
        "onerror=alert(2)>",
        "</style></svg>",
        "<b>path</b>",
    ] {
        assert!(!page.contains(bad), "{bad}");
    }
    assert_eq!(page.matches("<script").count(), 1);
    assert_eq!(
        page.matches("<style").count(),
        page.matches("</style>").count()
    );
    assert!(
        page.contains("{{ 7 * 7 }}"),
        "a template in a title is text"
    );
    let options = terminal::TerminalOptions {
        width: 80,
        color: false,
    };
    assert!(!terminal::render(&summary, &data, &options).contains('\u{1b}'));
}

#[test]
fn a_page_asks_for_nothing_outside_itself() {
    for (name, data) in fixtures() {
        let page = html::render(&data, &summarise(&data)).expect("the page is made");
        for bad in [
            "http://",
            "https://",
            "url(",
            "@import",
            "srcset",
            "<link rel=\"stylesheet\"",
        ] {
            assert!(!page.contains(bad), "{name}: {bad}");
        }
    }
}

#[test]
fn values_that_are_no_numbers_do_no_harm() {
    let mut data = common::full();
    for trial in data.trials.iter_mut().step_by(3) {
        trial.metrics.insert("goodput_bps".into(), f64::NAN);
        trial
            .metrics
            .insert("round_trip_delay_ns".into(), f64::INFINITY);
        trial.metrics.insert("cpu_host_ratio".into(), 0.0);
        for series in &mut trial.series {
            series.values.iter_mut().for_each(|v| *v = f64::NAN);
            series.t_ns.pop();
        }
        for histogram in &mut trial.histograms {
            histogram.hdr_v2_base64.truncate(11);
        }
    }
    data.header.started_unix_ns = i64::MAX;
    let summary = summarise(&data);
    assert!(
        !html::render(&data, &summary)
            .expect("the page is made")
            .contains("NaN")
    );
}

#[test]
fn a_long_run_lists_every_path_check_that_is_outside() {
    let mut data = common::one_round();
    let mut outside = data.path_checks[1].clone();
    outside.within = false;
    outside.quantities[0].achieved *= 3.0;
    outside.quantities[0].within = false;
    let usual = data.path_checks.clone();
    for _ in 0..20 {
        data.path_checks.extend(usual.iter().cloned());
    }
    data.path_checks.insert(25, outside);
    let page = html::render(&data, &summarise(&data)).expect("the page is made");
    assert!(page.contains("40 further checks"));
    assert_eq!(page.matches("✗ outside").count(), 1);
}

#[test]
fn a_doubtful_path_is_said_beside_the_verdict() {
    let mut data = common::one_round();
    let trial = data
        .trials
        .iter_mut()
        .find(|trial| trial.transport == "udp" && trial.condition == "baseline")
        .expect("the trial is there");
    trial.warnings.push(regatta_model::Warning {
        code: "path_overrun".into(),
        message: "some packets were lost".into(),
        hint: String::new(),
    });
    let summary = summarise(&data);
    let notes = &summary.verdict.conditions[0].notes;
    assert!(
        notes
            .iter()
            .any(|note| note.ends_with("`udp` in 1 of 1 trials")),
        "{notes:?}"
    );
}

#[test]
fn who_delivered_nothing_is_not_the_fastest() {
    let mut data = common::one_round();
    data.trials
        .retain(|trial| trial.transport == "tcp" && trial.condition == "loss-5");
    for trial in &mut data.trials {
        trial.metrics.insert("goodput_bps".into(), 0.0);
    }
    let verdict = summarise(&data).verdict;
    let text = &verdict
        .conditions
        .iter()
        .find(|v| v.condition == "loss-5")
        .expect("the condition is judged")
        .text;
    assert_eq!(text, "Under `loss-5`, `tcp` delivered nothing.");
    assert!(!verdict.overall.contains("tcp"), "{}", verdict.overall);
}

/// A run of `tcp`, `tcp-bbr` and `tcp-tls` with these goodputs by transport and round, in bit/s.
fn three_transports(goodput_bps: impl Fn(&str, u32) -> f64) -> RunData {
    let mut data = common::run(common::study(), |_| None);
    data.header.study.transports.truncate(4);
    data.header
        .study
        .transports
        .retain(|t| t.label != "tcp-hybla");
    data.trials
        .retain(|t| ["tcp", "tcp-bbr", "tcp-tls"].contains(&t.transport.as_str()));
    for trial in &mut data.trials {
        trial.metrics.insert(
            "goodput_bps".into(),
            goodput_bps(&trial.transport, trial.round),
        );
    }
    data
}

#[test]
fn equal_to_the_first_is_not_equal_to_one_another() {
    let data = three_transports(|label, round| match label {
        "tcp" => [90e6, 130e6, 95e6, 120e6, 100e6][round as usize],
        "tcp-bbr" => 100e6 + f64::from(round),
        _ => 99e6 - f64::from(round * round),
    });
    let summary = summarise(&data);
    let text = &summary.verdict.conditions[0].text;
    assert_eq!(
        text,
        "Under `baseline`, `tcp` delivered the most with 107.0 Mbit/s; no difference from it was \
         detected for `tcp-bbr` (100.0 Mbit/s) and `tcp-tls` (99.0 Mbit/s)."
    );
}

#[test]
fn who_differs_too_much_to_be_told_apart_is_not_among_the_fastest_for_that() {
    let data = three_transports(|label, round| match label {
        "tcp" => 590e6 + f64::from(round * round) * 1e6,
        "tcp-bbr" => 310e6 + f64::from(round) * 1e6,
        _ => [500e6, 5e6, 560e6, 30e6, 60e6][round as usize],
    });
    let verdict = summarise(&data).verdict;
    let text = &verdict.conditions[0].text;
    assert!(
        text.starts_with("Under `baseline`, `tcp` was the fastest with 596.0 Mbit/s, 1.91 times as fast as `tcp-bbr` (")
            && text.ends_with(
                "; `tcp-tls` (231.0 Mbit/s) differed too much between rounds to be told apart from \
                 the fastest."
            ),
        "{text}"
    );
    let overall = &verdict.overall;
    assert!(
        overall.contains(
            "`tcp` under `baseline` (596.0 Mbit/s; no difference from it detected for `tcp-tls`)"
        ),
        "{overall}"
    );
}

#[test]
fn who_closed_too_early_is_not_called_unreliable_elsewhere() {
    let mut data = common::full();
    let mut abandoned = data.header.study.workloads[0].clone();
    let whole = abandoned.name.clone();
    abandoned.name = "abandoned".into();
    let WorkloadKind::Bulk { options, .. } = &mut abandoned.kind else {
        panic!("the fixture's workload is a bulk transfer")
    };
    options.finish = Finish::Abandon;
    data.header.study.workloads.push(abandoned);
    let first = data.trials.len() as u32;
    let cut: Vec<_> = (data.trials.iter().cloned().zip(first..))
        .map(|(mut trial, index)| {
            trial.index = index;
            trial.workload = "abandoned".into();
            if trial.transport == "tcp" && trial.outcome == Outcome::Measured {
                trial.metrics.insert("message_loss_ratio".into(), 0.4);
            }
            trial
        })
        .collect();
    data.trials.extend(cut);
    let summary = summarise(&data);
    let told = |workload: &str| -> String {
        let verdicts = summary.verdict.conditions.iter();
        verdicts
            .filter(|verdict| verdict.workload == workload)
            .map(|verdict| verdict.text.as_str())
            .collect()
    };
    let unreliable = "`tcp`, which does not retransmit";
    let early = "`tcp`, closed without waiting for delivery";
    let (whole, cut) = (told(&whole), told("abandoned"));
    assert!(
        !whole.contains(unreliable) && !whole.contains(early),
        "{whole}"
    );
    assert!(cut.contains(early) && cut.contains("lost 40.0 %"), "{cut}");
    assert!(!cut.contains(unreliable), "{cut}");
    // Who neither retransmits nor closes early is known as before.
    assert!(cut.contains("`udp`, which does not retransmit"), "{cut}");
    assert!(
        summary.verdict.overall.contains(early),
        "{}",
        summary.verdict.overall
    );
}
