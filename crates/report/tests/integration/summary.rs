//! Rules for the claims of a summary.

use regatta_model::{Finish, Outcome, Warning, WorkloadKind};
use regatta_report::{
    RunData,
    analysis::{Claim, Conclusion},
    html, summarise, terminal,
};

use crate::common;

fn fixtures() -> Vec<(&'static str, RunData)> {
    vec![
        ("full", common::full()),
        ("one round", common::one_round()),
        ("one trial", common::one_trial()),
        ("empty", common::empty()),
        ("unsupported", common::unsupported()),
        ("hostile", common::hostile()),
        ("stated", common::stated()),
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
    let mut invalid = serde_json::to_value(summarise(&common::full())).expect("plain values");
    invalid["cells"][0]["metrics"]["goodput_bps"]["mean"] = "fast".into();
    assert!(!validator.is_valid(&invalid));
}

#[test]
fn a_summary_round_trips() {
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
            trial.measurements.metrics.insert("goodput_bps", 1e12);
        }
    }
    let after = summarise(&data);
    assert_eq!(before.cells, after.cells);
    let cell = after
        .cell("quic-quinn", "loss-5", "bulk-10MB")
        .expect("it is in the study");
    assert_eq!((cell.n, cell.outcome(Outcome::Failed)), (4, 1));
}

/// Checks Holm's step-down procedure over all claims of a run: the weights share the error between
/// the pairs by the metric of the ranking and the rest, and each interval is at the level of its
/// step.
#[test]
fn every_claim_of_a_run_is_in_one_family() {
    let summary = summarise(&common::full());
    let comparisons = summary
        .comparisons
        .iter()
        .map(|c| (&c.claim, c.metric == "goodput_bps"));
    let differences = summary.differences.iter().map(|d| (&d.claim, false));
    let claims = comparisons.chain(differences);
    let claims: Vec<_> = claims
        .filter(|(claim, _)| claim.p_value.is_some())
        .collect();
    // Five transports of six are measured, the sixth is unsupported: ten pairs by five metrics under
    // two conditions, four metrics of five transports from one condition to the other, and
    // retransmissions of the six pairs without UDP where there are losses.
    assert_eq!(claims.len(), 10 * 5 * 2 + 4 * 5 + 6);
    assert_eq!(summary.statistics.tests, 126);
    let p = |claim: &Claim| claim.p_value.expect("five rounds give a p-value");
    // Holm of the twenty by the metric of the ranking; Benjamini and Yekutieli of the others.
    let sorted = |primary: bool| {
        let family = claims.iter().filter(|(_, it)| *it == primary);
        let mut sorted: Vec<f64> = family.map(|(claim, _)| p(claim)).collect();
        sorted.sort_by(f64::total_cmp);
        sorted
    };
    let rankings = sorted(true).into_iter().enumerate();
    let claimed = rankings
        .take_while(|(step, p)| p * (20 - step) as f64 <= 0.05)
        .count();
    let others = sorted(false);
    let tests = others.len();
    let harmonic: f64 = (1..=tests as u32).map(|rank| 1.0 / f64::from(rank)).sum();
    let level = |rank: usize| 0.05 * rank as f64 / (tests as f64 * harmonic);
    let made = (1..=tests)
        .rfind(|rank| others[rank - 1] <= level(*rank))
        .unwrap_or(0);
    let bound = sorted(true)[claimed - 1];
    for (claim, primary) in &claims {
        let is_claimed = p(claim) <= if *primary { bound } else { level(made.max(1)) };
        let level = match (primary, is_claimed) {
            (true, true) => 0.05 / 20.0,
            (true, false) => 0.05 / (20 - claimed) as f64,
            (false, _) => level(made.max(1)),
        };
        assert_eq!(claim.conclusion.is_difference(), is_claimed, "{claim:?}");
        assert!((claim.confidence - (1.0 - level)).abs() < 1e-9, "{claim:?}");
        let leaves_out_one = claim
            .interval
            .is_some_and(|[low, high]| low >= 1.0 || high <= 1.0);
        assert_eq!(leaves_out_one, is_claimed, "{claim:?}");
    }
}

#[test]
fn the_failed_round_is_a_rate_of_zero_and_missing_from_other_metrics() {
    let summary = summarise(&common::full());
    for c in summary
        .comparisons
        .iter()
        .filter(|c| c.condition == "loss-5")
    {
        let with_quic = c.a == "quic-quinn" || c.b == "quic-quinn";
        let is_missing = with_quic && c.metric != "goodput_bps";
        assert_eq!(c.claim.n, if is_missing { 4 } else { 5 }, "{} {}", c.a, c.b);
    }
}

#[test]
fn only_unequal_transports_differ() {
    let summary = summarise(&common::full());
    let find = |a: &str, b: &str| {
        summary
            .comparisons
            .iter()
            .find(|c| c.a == a && c.b == b && c.condition == "loss-5" && c.metric == "goodput_bps")
            .map(|c| c.claim.conclusion)
    };
    assert_eq!(find("tcp", "tcp-tls"), Some(Conclusion::Undecided));
    assert_eq!(find("tcp", "tcp-bbr"), Some(Conclusion::Slower));
    assert_eq!(find("tcp-bbr", "tcp-tls"), Some(Conclusion::Faster));
}

#[test]
fn a_transport_that_loses_is_not_ranked_by_what_arrived() {
    let verdict = summarise(&common::full()).verdict;
    for verdict in &verdict.conditions {
        assert!(verdict.ranking.iter().all(|r| r.transport != "udp"));
        assert!(verdict.text.contains("`udp` ("), "{}", verdict.text);
    }
    let [free, lossy] = [&verdict.conditions[0].text, &verdict.conditions[1].text];
    assert!(
        free.contains("is not ranked: it does not retransmit"),
        "{free}"
    );
    assert!(
        lossy.contains("it does not retransmit and lost 4.98 % of its messages"),
        "{lossy}"
    );
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
            .all(|c| c.claim.conclusion == Conclusion::Undecided)
    );
}

#[test]
fn gates_report_failures() {
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
        .measurements
        .metrics
        .insert("messages_corrupted", 1.0);
    assert_eq!(failed(&data), ["path_within_tolerance", "data_intact"]);
}

fn passes(data: &RunData, name: &str) -> bool {
    let gates = summarise(data).gates;
    let gate = gates.iter().find(|gate| gate.name == name);
    gate.expect("the gate is there").passed
}

fn detail(data: &RunData, name: &str) -> String {
    let gates = summarise(data).gates;
    let gate = gates.into_iter().find(|gate| gate.name == name);
    gate.expect("the gate is there").detail
}

#[test]
fn the_path_gate_reports_the_number_of_valid_checks() {
    let gate_detail = |data: &RunData| detail(data, "path_within_tolerance");
    let mut data = common::full();
    assert_eq!(gate_detail(&data), "2 of 2 path checks within tolerance");
    data.path_checks[0].spoiled = Some("it was late".into());
    let condition = data.path_checks[0].condition.clone();
    assert_eq!(
        gate_detail(&data),
        format!(
            "1 of 2 path checks count, 1 of them within tolerance; the machine spoiled the others; no check of \
             `{condition}` counts"
        )
    );
    let mut again = data.path_checks[0].clone();
    again.spoiled = None;
    again.within = false;
    data.path_checks.push(again);
    let detail_text = gate_detail(&data);
    let expected = "2 of 3 path checks count, 1 of them within tolerance; the machine spoiled the others; outside: ";
    assert!(detail_text.starts_with(expected), "{detail_text}");
    let quantities = &mut data.path_checks[0].quantities;
    let loss = quantities
        .iter_mut()
        .find(|it| it.name == "forward_loss_ratio");
    let loss = loss.expect("the loss is checked");
    (loss.asked, loss.achieved, loss.within) = (0.05, 0.0712, false);
    (data.path_checks[0].within, data.path_checks[0].spoiled) = (false, None);
    let detail_text = gate_detail(&data);
    assert!(
        detail_text.contains("forward loss 7.12 % for 5.00 %"),
        "{detail_text}"
    );
    for check in &mut data.path_checks {
        check.spoiled = Some("it was late".into());
    }
    assert_eq!(
        gate_detail(&data),
        "not judged: the machine spoiled every path check (3)"
    );
    let options = terminal::TerminalOptions {
        details: true,
        ..Default::default()
    };
    let text = terminal::render(&summarise(&data), &data, &options);
    assert!(
        text.contains("–  path within tolerance: not judged"),
        "{text}"
    );
}

#[test]
fn only_undisturbed_path_checks_count() {
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
fn timed_out_is_a_result_beside_measured_trials_and_invalid_is_none() {
    let ended = |outcomes: fn(u32) -> Option<Outcome>| {
        common::run(common::study(), |trial| {
            Some((outcomes(trial.round)?, "because", ""))
        })
    };
    let codes = |data: &RunData| -> Vec<String> {
        let warnings = summarise(data).warnings;
        warnings
            .into_iter()
            .map(|warning| warning.warning.code)
            .collect()
    };
    let measured = |data: &RunData| passes(data, "trials_measured");
    let late = ended(|round| (round == 1).then_some(Outcome::TimedOut));
    assert!(measured(&late));
    assert!(codes(&late).contains(&"trials_timed_out".to_owned()));
    assert!(!measured(&ended(|_| Some(Outcome::TimedOut))));
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
    assert!(!page.contains('\u{1b}'), "an escape sequence");
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
        details: true,
    };
    assert!(!terminal::render(&summary, &data, &options).contains('\u{1b}'));
}

#[test]
fn a_page_loads_no_external_resource() {
    for (name, data) in fixtures() {
        let page = html::render(&data, &summarise(&data)).expect("the page is made");
        // A part of the page itself, by its `id`.
        let page = page.replace("url(#", "");
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

/// The differences of method are those of the claims, too.
#[test]
fn a_page_without_published_figures_has_the_differences_of_the_publication() {
    let mut data = common::full();
    data.header.study.published.clear();
    let page = html::render(&data, &summarise(&data)).expect("the page is made");
    for part in [
        "<h3>Publication</h3>",
        "<li>the published listing stops the clock",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn values_that_are_not_finite_do_not_panic() {
    let mut data = common::full();
    for trial in data.trials.iter_mut().step_by(3) {
        trial.measurements.metrics.insert("goodput_bps", f64::NAN);
        trial
            .measurements
            .metrics
            .insert("round_trip_delay_p50_ns", f64::INFINITY);
        trial.measurements.metrics.insert("cpu_host_ratio", 0.0);
        for series in &mut trial.measurements.series {
            series.values.iter_mut().for_each(|v| *v = f64::NAN);
            series.t_ns.pop();
        }
        for histogram in &mut trial.measurements.histograms {
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
fn warnings_about_the_path_are_notes_of_the_verdict() {
    let mut data = common::one_round();
    let trial = data
        .trials
        .iter_mut()
        .find(|trial| trial.transport == "udp" && trial.condition == "baseline")
        .expect("the trial is there");
    let warning = Warning::of_texts("path_overrun", "some packets were lost", "");
    trial.measurements.warnings.push(warning);
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
fn a_transport_that_delivered_nothing_is_not_ranked() {
    let mut data = common::one_round();
    data.trials
        .retain(|trial| trial.transport == "tcp" && trial.condition == "loss-5");
    for trial in &mut data.trials {
        trial.measurements.metrics.insert("goodput_bps", 0.0);
    }
    let verdict = summarise(&data).verdict;
    let text = &verdict
        .conditions
        .iter()
        .find(|v| v.condition == "loss-5")
        .expect("the condition is judged")
        .text;
    let nothing = "Under `loss-5`: `tcp` is not ranked: it delivered nothing";
    assert!(text.starts_with(nothing), "{text}");
    let overall = &verdict.overall;
    assert!(
        overall.contains("Nothing is ranked under `baseline` and under `loss-5`"),
        "{overall}"
    );
}

#[test]
fn an_early_close_is_not_reported_as_no_retransmission() {
    let mut data = common::full();
    let mut abandoned = data.header.study.workloads[0].clone();
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
                trial.measurements.metrics.insert("message_loss_ratio", 0.4);
            }
            trial
        })
        .collect();
    data.trials.extend(cut);
    let verdict = summarise(&data).verdict;
    let reasons = |workload: &str| -> Vec<String> {
        let verdicts = verdict
            .conditions
            .iter()
            .filter(|verdict| verdict.workload == workload);
        let others = verdicts.flat_map(|verdict| &verdict.not_ranked);
        others
            .filter(|other| other.transport == "tcp")
            .flat_map(|other| other.reasons.clone())
            .collect()
    };
    assert!(reasons("bulk-10MB").is_empty());
    let early = [
        "lost 40.0 % of its messages",
        "closed without waiting for delivery",
    ];
    assert_eq!(reasons("abandoned"), [early, early].concat());
}

#[test]
fn debug_builds_and_different_builds_have_warnings() {
    let codes = |data: &RunData| -> Vec<String> {
        let warnings = summarise(data).warnings.into_iter();
        warnings.map(|warning| warning.warning.code).collect()
    };
    let mut data = common::full();
    let of = |data: &RunData| summarise(data).builds;
    assert_eq!(of(&data).len(), 1, "both hosts had the same");
    assert_eq!(of(&data)[0].hosts, ["receiver", "sender"]);
    assert_eq!(of(&data)[0].dirty, Some(false));
    let page = html::render(&data, &summarise(&data)).expect("a page");
    assert!(page.contains("commit <code>0123456789abcdef0123456789abcdef01234567</code>;"));
    assert!(!codes(&data).iter().any(|code| code.contains("build")));

    for (name, value) in [("build.debug_assertions", "on"), ("build.opt_level", "0")] {
        let mut data = data.clone();
        for facts in data.header.hosts.values_mut() {
            facts.0.insert(name.to_owned(), value.to_owned());
        }
        assert!(codes(&data).contains(&"debug_build".to_owned()), "{name}");
    }

    let sender = data.header.hosts.get_mut("sender").expect("a host");
    sender
        .0
        .insert("build.dirty".to_owned(), "unknown".to_owned());
    assert!(codes(&data).contains(&"builds_differ".to_owned()));
    assert_eq!(of(&data)[1].dirty, None, "unknown is not clean");

    // A file of before knows nothing of it.
    for facts in data.header.hosts.values_mut() {
        facts.0.retain(|name, _| !name.starts_with("build."));
    }
    assert!(of(&data).is_empty());
}

#[test]
fn only_spoiled_path_checks_are_not_judged() {
    let not_judged = |spoiled: [bool; 3]| {
        let mut data = common::full();
        data.path_checks.push(data.path_checks[0].clone());
        for (check, spoiled) in data.path_checks.iter_mut().zip(spoiled) {
            check.spoiled = spoiled.then(|| "it was late".into());
        }
        let gates = summarise(&data).gates;
        gates.iter().any(|gate| gate.not_judged)
    };
    assert!(!not_judged([false, false, false]));
    assert!(!not_judged([true, false, false]));
    assert!(not_judged([true, true, true]));
}

#[test]
fn gates_count_repeated_trials_and_corrupted_messages() {
    let mut data = common::one_round();
    assert!(summarise(&data).passed());
    assert!(!detail(&data, "trials_measured").contains("repeated"));
    data.repeated.push(data.trials[0].clone());
    for (trial, corrupted) in data.trials.iter_mut().zip([2.0, 3.0]) {
        let metrics = &mut trial.measurements.metrics;
        metrics.insert("messages_corrupted", corrupted);
    }
    assert!(detail(&data, "trials_measured").ends_with(", 1 repeated"));
    assert_eq!(detail(&data, "data_intact"), "5 corrupted messages");
    assert!(!summarise(&data).passed());
}

#[test]
fn the_method_is_that_of_the_run() {
    let has = |data: &RunData, words: &str| {
        let method = summarise(data).statistics.method;
        method.iter().any(|sentence| sentence.contains(words))
    };
    let mut data = common::full();
    assert!(has(&data, "Benjamini and Yekutieli 2001"));
    assert!(!has(&data, "several nodes"));
    assert!(!has(&data, "In a sweep"));
    data.nodes.insert(0, "x".into());
    assert!(has(&data, "several nodes"));
}

/// One of the run to the letter is listed with it, others are equal if their code and hint are.
#[test]
fn warnings_of_trials_are_counted_by_code_and_hint() {
    let mut data = common::one_round();
    let warning = |[code, message, hint]: [&str; 3]| Warning::of_texts(code, message, hint);
    data.warnings = vec![warning(["c", "m", "h"])];
    let of_trials = [
        vec![["c", "m", "h"]],
        vec![["c", "other", "h"]],
        vec![["c", "third", "h"], ["c", "m", "hint"], ["d", "m", "h"]],
    ];
    for (trial, warnings) in data.trials.iter_mut().zip(of_trials) {
        trial.measurements.warnings = warnings.into_iter().map(warning).collect();
    }
    let mut repeated = data.trials[0].clone();
    for attempt in [1, 2, 3] {
        repeated.attempt = attempt;
        data.repeated.push(repeated.clone());
    }
    let warnings = summarise(&data).warnings;
    let found: Vec<(&str, &str, &str, u64, usize)> = (warnings.iter())
        .map(|it| {
            let Warning {
                code,
                message,
                hint,
                ..
            } = &it.warning;
            let named = it.cells.len();
            (&**code, &**message, &**hint, it.trials, named)
        })
        .filter(|it| ["c", "d"].contains(&it.0))
        .collect();
    let expected = [
        ("c", "m", "h", 0, 1),
        ("c", "other", "h", 2, 2),
        ("c", "m", "hint", 1, 1),
        ("d", "m", "h", 1, 1),
    ];
    assert_eq!(found, expected);
    let mut repeated = warnings.iter();
    let repeated = repeated.find(|it| it.warning.code == "trials_repeated");
    assert_eq!(repeated.map(|it| it.trials), Some(1));
}

#[test]
fn a_shard_has_to_have_checked_the_conditions_of_its_trials_alone() {
    let mut data = common::full();
    let lost = data.path_checks.remove(0).condition;
    assert!(!passes(&data, "path_within_tolerance"));
    data.header.part.shard = Some("1/2".parse().expect("a shard"));
    assert!(!passes(&data, "path_within_tolerance"));
    data.trials.retain(|trial| trial.condition != lost);
    assert!(passes(&data, "path_within_tolerance"));
}
