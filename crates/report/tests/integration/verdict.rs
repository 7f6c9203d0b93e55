//! Tests of the ranking, its letters and its sentences, with synthetic values.

use regatta_model::{Bytes, Clock, Handshake, OptionValue, Outcome, Ratio, WorkloadKind};
use regatta_report::{
    RunData, Summary,
    analysis::{Conclusion, ConditionVerdict},
    summarise,
};

use crate::common;

/// Creates a run of three transports with these goodputs by transport and round, in Mbit/s, under
/// one condition; a round without one was declared invalid.
fn run_data(labels: [&str; 3], goodput: impl Fn(&str, usize) -> Option<f64>) -> RunData {
    let mut study = common::study();
    study.conditions.truncate(1);
    study.transports.truncate(3);
    study.published.clear();
    for (transport, label) in study.transports.iter_mut().zip(labels) {
        transport.label = label.to_owned();
    }
    let mut data = common::run(study, |_| None);
    for trial in &mut data.trials {
        trial.measurements.metrics.retain(|_, _| false);
        trial.measurements.warnings.clear();
        match goodput(&trial.transport, trial.round as usize) {
            Some(value) => {
                _ = trial
                    .measurements
                    .metrics
                    .insert("goodput_bps", value * 1e6)
            }
            None => trial.outcome = Outcome::Invalid,
        }
    }
    data
}

/// Creates a run of two transports.
fn two(goodput: impl Fn(&str, usize) -> Option<f64>) -> RunData {
    let mut data = run_data(["a", "b", "c"], goodput);
    data.header.study.transports.truncate(2);
    data.trials.retain(|trial| trial.transport != "c");
    data
}

fn verdict(summary: &Summary) -> &ConditionVerdict {
    &summary.verdict.conditions[0]
}

fn letters(summary: &Summary) -> Vec<(&str, &str)> {
    (verdict(summary).ranking.iter())
        .map(|ranked| (ranked.transport.as_str(), ranked.letters.as_str()))
        .collect()
}

#[test]
fn a_transport_that_needs_no_time_to_settle_settles_at_once() {
    let mut data = two(|_, round| Some(100.0 + round as f64));
    for trial in &mut data.trials {
        let time = if trial.transport == "a" { 0.0 } else { 0.25e9 };
        let metrics = &mut trial.measurements.metrics;
        metrics.insert("settling_time_mean_ns", time);
        metrics.insert("unsettled_steps", 0.0);
    }
    let summary = summarise(&data);
    let expected = "Settled after a step of the path: `a` at once and `b` in 250.0 ms";
    let notes = &verdict(&summary).notes;
    assert!(notes.iter().any(|note| note == expected), "{notes:?}");
}

const A: [Option<f64>; 5] = [Some(100.1), Some(100.5), Some(99.8), None, None];
const B: [Option<f64>; 5] = [
    Some(105.0),
    Some(105.6),
    Some(104.7),
    Some(60.0),
    Some(61.0),
];

/// Checks a transport `a` that has the larger mean over its own rounds, and is slower in every
/// round that both have.
#[test]
fn the_ranking_is_that_of_the_shared_rounds() {
    let summary = summarise(&two(
        |label, round| if label == "a" { A[round] } else { B[round] },
    ));
    let comparison = &summary.comparisons[0];
    assert_eq!((comparison.a.as_str(), comparison.claim.n), ("a", 3));
    assert_eq!(comparison.claim.conclusion, Conclusion::Slower);
    assert_eq!(letters(&summary), [("b", "a"), ("a", "b")]);
    let text = &verdict(&summary).text;
    assert_eq!(
        text,
        "Under `baseline`: `b` (84.3 Mbit/s) is 4.96 % faster than `a` (interval 4.71 to 5.21 %, 3 rounds)."
    );
    assert_eq!(summary.verdict.overall, "Fastest: `b` under `baseline`.");
}

/// Of two transports the only one that is ranked has its figure, and nothing to be faster than.
#[test]
fn a_transport_without_competitors_is_not_the_fastest() {
    let mut data = two(|label, round| if label == "a" { A[round] } else { B[round] });
    for trial in &mut data.trials {
        if trial.transport == "a" {
            trial.outcome = Outcome::Failed;
        }
    }
    let summary = summarise(&data);
    assert_eq!(
        summary.verdict.overall,
        "`b`: 84.3 Mbit/s under `baseline`. Ranked nowhere: `a`."
    );
}

/// A study of one transport is a legitimate one: it has a figure.
#[test]
fn a_transport_alone_has_its_figure() {
    let mut data = two(|label, round| if label == "a" { A[round] } else { B[round] });
    data.trials.retain(|trial| trial.transport == "b");
    data.header
        .study
        .transports
        .retain(|transport| transport.label == "b");
    let verdict = summarise(&data).verdict;
    assert_eq!(verdict.overall, "`b`: 84.3 Mbit/s under `baseline`.");
    assert_eq!(
        verdict.conditions[0].text,
        "Under `baseline`: `b`: 84.3 Mbit/s."
    );
}

/// The same where the missing trials failed: then what worked is not ranked at all, and the two are rates of zero.
#[test]
fn a_failed_transport_is_not_ranked_by_its_successes() {
    let mut data = two(|label, round| if label == "a" { A[round] } else { B[round] });
    for trial in &mut data.trials {
        if trial.outcome == Outcome::Invalid {
            trial.outcome = Outcome::Failed;
        }
    }
    let summary = summarise(&data);
    assert_eq!(letters(&summary), [("b", "a")]);
    let text = &verdict(&summary).text;
    assert!(
        text.ends_with("`a` (60.1 Mbit/s) is not ranked: it failed 2 of 5 trials."),
        "{text}"
    );
}

#[test]
fn a_faster_transport_is_named_with_its_margin() {
    let summary = summarise(&two(|label, round| {
        let drawn = 100.0 + [0.3, -0.2, 0.1, 0.4, -0.5][round];
        Some(if label == "a" {
            drawn
        } else {
            80.0 - [0.1, 0.3, -0.4, 0.2, 0.0][round]
        })
    }));
    assert_eq!(summary.comparisons[0].claim.conclusion, Conclusion::Faster);
    assert_eq!(letters(&summary), [("a", "a"), ("b", "b")]);
    let text = &verdict(&summary).text;
    assert!(
        text.starts_with(
            "Under `baseline`: `a` (100.0 Mbit/s) is 25.1 % faster than `b` (interval "
        ),
        "{text}"
    );
    assert_eq!(verdict(&summary).detectable_ratio, None);
}

#[test]
fn equal_transports_have_a_detectable_ratio() {
    let summary = summarise(&two(|label, round| {
        let drawn = [[3.0, -2.0, 1.0, 4.0, -5.0], [1.0, 3.0, -4.0, 2.0, 0.0]];
        Some(100.0 + drawn[usize::from(label == "b")][round])
    }));
    let claim = &summary.comparisons[0].claim;
    assert_eq!(claim.conclusion, Conclusion::Undecided);
    assert_eq!(letters(&summary), [("b", "a"), ("a", "a")]);
    let detectable = verdict(&summary).detectable_ratio.expect("it is known");
    assert_eq!(claim.detectable_ratio, Some(detectable));
    // The log ratios deviate by 0.049: 3.76 standard errors of 0.049/√5 (noncentral t, 4 degrees).
    assert!((1.07..1.10).contains(&detectable), "{detectable}");
    let text = &verdict(&summary).text;
    assert!(
        text.starts_with("Under `baseline`: undecided among `b` (100.4 Mbit/s) and `a` (100.1 Mbit/s): the first looks 0"),
        "{text}"
    );
    assert!(
        summary
            .verdict
            .overall
            .contains(" (undecided) under `baseline`")
    );
}

#[test]
fn one_shared_round_is_not_enough() {
    let summary = summarise(&two(|label, round| {
        (round == 0 || label == "b").then_some(90.0 + round as f64)
    }));
    assert_eq!(
        summary.comparisons[0].claim.conclusion,
        Conclusion::Undecided
    );
    let text = &verdict(&summary).text;
    assert!(text.contains("undecided among"), "{text}");
    assert!(
        summary
            .verdict
            .overall
            .contains(" (undecided) under `baseline`")
    );
}

/// Checks that the same difference in each of three rounds, which chance makes in one case of four,
/// is no certainty.
#[test]
fn equal_differences_in_three_rounds_are_not_enough() {
    let summary = summarise(&two(|label, round| {
        (round < 3).then_some(if label == "a" { 100.0 } else { 50.0 })
    }));
    assert_eq!(
        summary.comparisons[0].claim.conclusion,
        Conclusion::Undecided
    );
}

#[test]
fn transports_without_a_difference_share_letters() {
    let summary = summarise(&run_data(["fast", "middle", "slow"], |label, round| {
        Some(match label {
            "fast" => 100.0 + [0.2, -0.1, 0.3, 0.0, -0.2][round],
            "middle" => 90.0 + [25.0, -20.0, 18.0, -22.0, 12.0][round],
            _ => 80.0 + [0.1, 0.2, -0.3, 0.1, 0.0][round],
        })
    }));
    assert_eq!(
        letters(&summary),
        [("fast", "a"), ("middle", "ab"), ("slow", "b")]
    );
    let text = &verdict(&summary).text;
    assert!(
        text.starts_with("Under `baseline`: undecided among `fast` (100.0 Mbit/s) and `middle` (")
            && text.contains("; the first is 25.0 % faster than `slow` (interval "),
        "{text}"
    );
}

/// Checks that pairs that contradict one another, because their gaps do not overlap, have no
/// winner.
#[test]
fn contradictory_rounds_have_no_winner() {
    let mut data = run_data(["a", "b", "c"], |_, _| None);
    data.header.study.rounds = 12;
    let template = data.trials[0].clone();
    data.trials.clear();
    for round in 0..12 {
        let drawn = 1.0 + 0.001 * f64::from([1, -1, 2, 0][round as usize % 4]);
        // In each third of the rounds one transport is missing, and one of the others is faster.
        let [fast, slow] = [["a", "b"], ["b", "c"], ["c", "a"]][round as usize / 4];
        for (label, goodput) in [(fast, 110e6 * drawn), (slow, 100e6)] {
            let mut trial = template.clone();
            trial.index = data.trials.len() as u32;
            trial.round = round;
            trial.transport = label.into();
            trial.outcome = Outcome::Measured;
            trial.measurements.metrics.insert("goodput_bps", goodput);
            data.trials.push(trial);
        }
    }
    let verdict = summarise(&data).verdict;
    assert_eq!(
        verdict.conditions[0].text,
        "Under `baseline`: the rounds contradict one another, and nothing is the fastest."
    );
    assert_eq!(verdict.overall, "Fastest: no order under `baseline`.");
}

#[test]
fn failed_connections_exclude_a_transport_from_the_ranking() {
    let mut data =
        two(|label, round| Some(if label == "a" { 20.0 } else { 30.0 } + round as f64 * 0.1));
    data.header.study.workloads[0].kind =
        serde_json::from_value::<WorkloadKind>(serde_json::json!({ "kind": "short-connections" }))
            .unwrap_or_else(|_| data.header.study.workloads[0].kind.clone());
    for trial in &mut data.trials {
        let failed = if trial.transport == "b" { 30.0 } else { 0.0 };
        trial
            .measurements
            .metrics
            .insert("connections_failed", failed);
        trial
            .measurements
            .metrics
            .insert("connections_completed", 100.0 - failed);
    }
    let summary = summarise(&data);
    assert_eq!(letters(&summary), [("a", "a")]);
    let text = &verdict(&summary).text;
    assert!(
        text.contains("`b` (30.2 Mbit/s) is not ranked: it failed 150 of 500 connections"),
        "{text}"
    );
}

/// Checks that the failure of one in a thousand is in the notes, and does not exclude from the
/// ranking.
#[test]
fn rare_failures_are_noted_and_ranked() {
    let mut data =
        two(|label, round| Some(if label == "a" { 20.0 } else { 30.0 } + round as f64 * 0.1));
    for trial in &mut data.trials {
        trial.measurements.metrics.insert("messages_sent", 1000.0);
        trial.measurements.metrics.insert(
            "requests_unanswered",
            f64::from(u8::from(trial.transport == "b")),
        );
    }
    let summary = summarise(&data);
    assert_eq!(letters(&summary), [("b", "a"), ("a", "b")]);
    assert_eq!(
        verdict(&summary).notes,
        ["`b` left 5 of 5000 requests without answer"]
    );
}

#[test]
fn unranked_transport_is_shown_with_its_ratio_of_complete_transfers() {
    let mut data = two(|_, _| Some(20.0));
    data.header.study.rank_by = Some("whole_transfer_ratio".to_owned());
    for transport in &mut data.header.study.transports {
        transport.driver = "udp".to_owned();
    }
    for trial in &mut data.trials {
        let complete = f64::from(u8::from(trial.round == 0));
        (trial.measurements.metrics).insert("whole_transfer_ratio", complete);
    }
    let text = verdict(&summarise(&data)).text.clone();
    assert!(
        text.contains("`b` (20.0 %) is not ranked: it does not retransmit"),
        "{text}"
    );
}

#[test]
fn a_datagram_mode_without_loss_is_not_called_reliable() {
    let mut data =
        two(|label, round| Some(if label == "a" { 20.0 } else { 30.0 } + round as f64 * 0.1));
    data.header.study.transports[1].driver = "quic-quinn".to_owned();
    data.header.study.transports[1].options =
        [("mode".to_owned(), OptionValue::Text("datagram".to_owned()))].into();
    let text = verdict(&summarise(&data)).text.clone();
    assert!(
        text.contains("`b` (30.2 Mbit/s) is not ranked: it does not retransmit"),
        "{text}"
    );
    assert!(!text.contains("reliable"), "{text}");
    // The fact of the trials counts more than a name.
    for trial in &mut data.trials {
        trial
            .measurements
            .facts
            .insert("retransmission", "by the transport");
    }
    assert_eq!(letters(&summarise(&data)).len(), 2);
}

#[test]
fn autocorrelated_rounds_widen_the_intervals_with_a_warning() {
    let drift = |label: &str, round: usize| {
        let slow = (round as f64 / 4.0).sin();
        let own = if label == "a" { 1.0 } else { -1.0 };
        Some(100.0 + own * 8.0 * slow + [0.3, -0.2, 0.1, 0.4, -0.5][round % 5])
    };
    let mut data = two(|_, _| None);
    let template = data.trials[0].clone();
    data.header.study.rounds = 24;
    data.trials.clear();
    for round in 0..24 {
        for label in ["a", "b"] {
            let mut trial = template.clone();
            trial.index = data.trials.len() as u32;
            trial.round = round;
            trial.transport = label.into();
            trial.outcome = Outcome::Measured;
            let goodput = drift(label, round as usize).expect("every round has one");
            trial
                .measurements
                .metrics
                .insert("goodput_bps", goodput * 1e6);
            data.trials.push(trial);
        }
    }
    let summary = summarise(&data);
    let claim = &summary.comparisons[0].claim;
    assert!(claim.autocorrelation > 0.5, "{claim:?}");
    let warning = summary
        .warnings
        .iter()
        .find(|w| w.warning.code == "rounds_correlated");
    let warning = warning.expect("it is warned of");
    assert!(warning.warning.hint.contains("of the machine"));
    let mut virtual_time = data.clone();
    virtual_time.header.study.guest.clock = Clock::Virtual;
    let of_guest = summarise(&virtual_time).warnings.into_iter();
    let hints = of_guest.filter(|it| it.warning.code == warning.warning.code);
    let hints: Vec<String> = hints.map(|it| it.warning.hint).collect();
    assert!(
        hints.len() == 1 && hints[0].starts_with("in virtual time the machine is no cause"),
        "{hints:?}"
    );
    assert_eq!(
        warning.cells[..],
        ["`a` under `baseline`", "`b` under `baseline`"]
    );
    // In another order of the same values nothing is correlated.
    let width = |summary: &Summary| {
        let [low, high] = summary.comparisons[0].claim.interval.expect("there is one");
        high / low
    };
    let mut mixed = data.clone();
    for trial in &mut mixed.trials {
        trial.round = trial.round * 7 % 24;
    }
    mixed.trials.sort_by_key(|trial| trial.round);
    let mixed = summarise(&mixed);
    assert!(mixed.warnings.is_empty(), "{:?}", mixed.warnings);
    assert!(
        width(&summary) > 1.5 * width(&mixed).powf(1.0),
        "{} {}",
        width(&summary),
        width(&mixed)
    );
}

#[test]
fn two_equal_transports_give_a_noise_floor() {
    let mut data = two(|label, round| {
        let drawn = [[3.0, -2.0, 1.0, 4.0, -5.0], [1.0, 3.0, -4.0, 2.0, 0.0]];
        Some(100.0 + drawn[usize::from(label == "b")][round])
    });
    assert_eq!(summarise(&data).verdict.noise_floor, None);
    let first = data.header.study.transports[0].clone();
    data.header.study.transports[1].driver = first.driver;
    data.header.study.transports[1].options = first.options;
    let verdict = summarise(&data).verdict;
    let floor = verdict.noise_floor.expect("they are the same");
    assert_eq!((floor.pairs, floor.distinguished), (1, 0));
    assert!((1.0..1.01).contains(&floor.largest_ratio));
    assert!(
        verdict.overall.ends_with(
            "Noise floor: of 1 pair of the same transport none was told apart; the largest ratio was \
             1.0023, between `a` and `b` under `baseline`."
        ),
        "{}",
        verdict.overall
    );
}

#[test]
fn a_verdict_names_the_differences_of_the_compared_stacks() {
    let stacks = |pacing: [&str; 2]| {
        let mut data =
            two(|label, round| Some(if label == "a" { 20.0 } else { 30.0 } + round as f64 * 0.1));
        for trial in &mut data.trials {
            let of_b = usize::from(trial.transport == "b");
            trial.measurements.facts = [
                ("initial_window.sender", "10 packets"),
                ("pacing.sender", pacing[of_b]),
                (
                    "flow_control.receiver",
                    ["not known: not read", "stream 4 MiB"][of_b],
                ),
                (
                    "slow_start_exit.sender",
                    ["HyStart", "not applicable: no slow start"][of_b],
                ),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        }
        data
    };
    let data = stacks(["none", "by the stack"]);
    let summary = summarise(&data);
    assert_eq!(verdict(&summary).stacks_differ_in, ["pacing"]);
    let note = "The stacks of `b` and `a` differ in: pacing";
    assert!(verdict(&summary).notes.iter().any(|known| known == note));
    let page = regatta_report::html::render(&data, &summary).expect("a page");
    assert!(page.contains("≠ differs"), "the table marks the row");
    let options = regatta_report::terminal::TerminalOptions {
        width: 80,
        color: false,
        details: true,
    };
    let shown = regatta_report::terminal::render(&summary, &data, &options);
    assert!(shown.contains("  stacks differ in: pacing\n"), "{shown}");

    let data = stacks(["none", "none"]);
    let summary = summarise(&data);
    assert!(verdict(&summary).stacks_differ_in.is_empty());
    let page = regatta_report::html::render(&data, &summary).expect("a page");
    assert!(!page.contains("≠ differs"));
}

#[test]
fn the_verdict_states_differences_in_encryption() {
    let expected = " Without encryption: `tcp` and `tcp-bbr`; with it: `tcp-tls` and `quic-quinn`.";
    let mut data = common::full();
    let summary = summarise(&data);
    let overall = &summary.verdict.overall;
    assert!(overall.ends_with(expected), "{overall}");
    assert!(common::shown(&data, &summary, 5000).contains(expected));
    // The fastest and the next one, `tcp-bbr` and `tcp`, are alike in it.
    assert!(!verdict(&summary).text.contains("encryption"));

    // Only of those that the claim is about.
    let mut few = data.clone();
    few.header.study.transports.retain(|it| it.label != "tcp");
    few.trials.retain(|trial| trial.transport != "tcp");
    let text = verdict(&summarise(&few)).text.clone();
    let expected = "; `tcp-bbr` sent without encryption, `tcp-tls` with it.";
    assert!(
        text.contains(" % faster than `tcp-tls` ") && text.ends_with(expected),
        "{text}"
    );

    for trial in &mut data.trials {
        trial.measurements.facts.remove("cipher.sender");
    }
    let verdict = summarise(&data).verdict;
    assert!(
        !verdict.overall.contains("encryption"),
        "{}",
        verdict.overall
    );
}

/// Returns the data of two stacks with `cubic` and these responses to losses, over a path with this loss.
fn responding(loss: f64, responses: [&str; 2]) -> RunData {
    let mut data =
        two(|label, round| Some(if label == "a" { 100.0 } else { 400.0 } + round as f64));
    for condition in &mut data.header.study.conditions {
        condition.forward.loss = Ratio(loss);
        condition.reverse.loss = Ratio(0.0);
    }
    for trial in &mut data.trials {
        let response = responses[usize::from(trial.transport == "b")];
        let facts = &mut trial.measurements.facts;
        facts.insert("congestion_control.sender", "cubic");
        facts.insert("loss_response.sender", response);
    }
    data
}

const USUAL: &str = "0.99 at 0.1 %, 0.83 at 1 %";

#[test]
fn the_verdict_names_stacks_that_respond_differently_to_losses() {
    let data = responding(0.002, [USUAL, "4.83 at 0.1 %, 0.85 at 1 %"]);
    let summary = summarise(&data);
    let expected = "; in separate measurements of long transfers at a loss of 0.1 %, `cubic` of `b` reached 4.9 times the goodput of that of `a` (4.8 and 0.99 times that of RFC 9438): this compares congestion controls.";
    let text = &verdict(&summary).text;
    assert!(text.ends_with(expected), "{text}");
    let expected = " This compares congestion controls: in separate measurements of long transfers at a loss of 0.1 %, `cubic` of `b` reached 4.9 times the goodput of that of `a`.";
    let overall = &summary.verdict.overall;
    assert!(overall.contains(expected), "{overall}");
    assert!(common::shown(&data, &summary, 5000).contains(expected));
    assert_eq!(verdict(&summary).stacks_differ_in, ["response to losses"]);
}

#[test]
fn responses_that_are_alike_or_meet_no_loss_are_not_named() {
    for (loss, other) in [
        // They differ at losses that the path does not have, or the path has none.
        (0.01, "4.83 at 0.1 %, 0.85 at 1 %"),
        (0.0, "4.83 at 0.1 %, 4.83 at 1 %"),
        (0.001, "1.40 at 0.1 %, 4.83 at 1 %"),
        (0.001, "not known: not measured"),
        (0.001, "not applicable: no published function of the loss"),
    ] {
        let summary = summarise(&responding(loss, [USUAL, other]));
        let text = &verdict(&summary).text;
        assert!(
            !text.contains("congestion controls"),
            "{loss}, {other}: {text}"
        );
        assert!(!summary.verdict.overall.contains("congestion controls"));
    }
}

/// What is short or waits for answers is decided by other things than the response to losses.
#[test]
fn responses_to_losses_are_named_for_bulk_transfers_only() {
    let mut data = responding(0.002, [USUAL, "4.83 at 0.1 %, 0.85 at 1 %"]);
    for workload in &mut data.header.study.workloads {
        workload.kind = WorkloadKind::ShortConnections {
            connections: 10,
            handshake: Handshake::Full,
            request: Bytes(100),
            response: Bytes(1000),
        };
    }
    let summary = summarise(&data);
    assert!(!summary.verdict.overall.contains("congestion controls"));
    for condition in &summary.verdict.conditions {
        assert!(
            !condition.text.contains("congestion controls"),
            "{}",
            condition.text
        );
    }
}

/// A stack that tells nothing is not alike to one that does.
#[test]
fn the_verdict_names_what_a_transport_does_not_tell() {
    let texts = |of_b: [&str; 2]| {
        let mut data = two(|_, round| Some(100.0 + round as f64));
        for trial in &mut data.trials {
            let [control, cipher] = match trial.transport.as_str() {
                "b" => of_b,
                _ => ["cubic", "none"],
            };
            let facts = &mut trial.measurements.facts;
            facts.insert("congestion_control.sender", control);
            facts.insert("cipher.sender", cipher);
        }
        let summary = summarise(&data);
        [verdict(&summary).text.clone(), summary.verdict.overall]
    };
    let [text, overall] = texts(["not known: the program does not tell"; 2]);
    let clauses =
        "; the congestion control of `b` is not known; whether `b` encrypted is not known.";
    assert!(text.contains(clauses), "{text}");
    let sentences =
        " The congestion control of `b` is not known. Whether `b` encrypted is not known.";
    assert!(overall.contains(sentences), "{overall}");
    for text in texts(["cubic", "none"]) {
        assert!(!text.contains("not known"), "{text}");
    }
}

#[test]
fn quantities_in_a_verdict_have_readable_units() {
    let mut data =
        two(|label, round| Some(if label == "a" { 200.0 } else { 300.0 } + round as f64));
    for trial in &mut data.trials {
        let metrics = &mut trial.measurements.metrics;
        let seconds = metrics["goodput_bps"] / 1e6;
        metrics.insert("transfer_time_ns", seconds * 1e9);
        metrics.insert("requests_per_second", seconds * 10.0);
    }
    let text = |metric: &str| {
        let mut data = data.clone();
        data.header.study.rank_by = Some(metric.to_owned());
        verdict(&summarise(&data)).text.clone()
    };
    let by_time = text("transfer_time_ns");
    assert!(by_time.contains(": `a` (3 min 22 s) is "), "{by_time}");
    let by_rate = text("requests_per_second");
    assert!(by_rate.contains(": `b` (3020/s) is "), "{by_rate}");
}

#[test]
fn a_transport_retransmits_as_its_own_trials_state() {
    let mut data = two(|_, round| Some(100.0 + round as f64));
    for trial in &mut data.trials {
        let value = if trial.transport == "a" {
            "none"
        } else {
            "by the stack"
        };
        let facts = &mut trial.measurements.facts;
        facts.insert("retransmission", value);
    }
    let cells = summarise(&data).cells.into_iter();
    let retransmits: Vec<bool> = cells.map(|cell| cell.retransmits).collect();
    assert_eq!(retransmits, [false, true]);
}

#[test]
fn one_failure_in_a_hundred_is_ranked() {
    let mut data = two(|_, round| Some(100.0 + round as f64));
    for trial in &mut data.trials {
        let metrics = &mut trial.measurements.metrics;
        metrics.extend([("messages_sent", 100.0), ("requests_unanswered", 1.0)]);
    }
    assert_eq!(letters(&summarise(&data)), [("a", "a"), ("b", "a")]);
}

#[test]
fn equal_transports_that_differ_are_counted_in_the_noise_floor() {
    let mut data = two(|label, round| {
        let drawn = [3.0, -2.0, 1.0, 4.0, -5.0][round];
        Some(if label == "a" { 100.0 } else { 200.0 } + 0.1 * drawn)
    });
    let first = data.header.study.transports[0].clone();
    let second = &mut data.header.study.transports[1];
    (second.driver, second.options) = (first.driver, first.options);
    let floor = summarise(&data).verdict.noise_floor;
    let floor = floor.expect("they are the same");
    assert_eq!((floor.pairs, floor.distinguished), (1, 1));
}

/// Only two transports can differ in what one of them does not tell.
#[test]
fn what_a_single_transport_does_not_tell_is_not_named() {
    let mut data = two(|_, round| Some(100.0 + round as f64));
    data.header.study.transports.truncate(1);
    data.trials.retain(|trial| trial.transport == "a");
    for trial in &mut data.trials {
        let facts = &mut trial.measurements.facts;
        facts.insert("cipher.sender", "not known: not read");
    }
    let summary = summarise(&data);
    assert!(!verdict(&summary).text.contains("not known"));
    assert!(!summary.verdict.overall.contains("not known"));
}

#[test]
fn a_transport_that_was_never_measured_is_not_compared_in_its_encryption() {
    let overall = |outcome: Outcome| {
        let mut data = two(|_, round| Some(100.0 + round as f64));
        for trial in &mut data.trials {
            let is_a = trial.transport == "a";
            let cipher = if is_a { "none" } else { "AES-128-GCM" };
            let facts = &mut trial.measurements.facts;
            facts.insert("cipher.sender", cipher);
            if !is_a {
                trial.outcome = outcome;
            }
        }
        summarise(&data).verdict.overall
    };
    let sentence = " Without encryption: `a`; with it: `b`.";
    assert!(overall(Outcome::Measured).ends_with(sentence));
    let failed = overall(Outcome::Failed);
    assert!(!failed.contains("encryption"), "{failed}");
}

#[test]
fn places_without_any_ranking_name_nobody_who_is_not_ranked() {
    let mut data = two(|_, _| Some(0.0));
    let summary = summarise(&data);
    let overall = &summary.verdict.overall;
    assert!(!overall.contains("Ranked"), "{overall}");
    for trial in &mut data.trials {
        if trial.transport == "a" {
            let metrics = &mut trial.measurements.metrics;
            metrics.insert("goodput_bps", 1e8);
        }
    }
    let overall = summarise(&data).verdict.overall;
    let sentence = " Ranked nowhere: `b`.";
    assert!(overall.ends_with(sentence), "{overall}");
}

#[test]
fn two_leaders_of_three_are_named() {
    let drawn = [[3.0, -2.0, 1.0, 4.0, -5.0], [1.0, 3.0, -4.0, 2.0, 0.0]];
    let data = run_data(["a", "b", "c"], |label, round| {
        Some(match label {
            "a" => 100.0 + drawn[0][round],
            "b" => 100.0 + drawn[1][round],
            _ => 20.0 + 0.1 * drawn[0][round],
        })
    });
    let overall = summarise(&data).verdict.overall;
    assert!(
        overall.starts_with("Fastest: `b` and `a` (undecided) under `baseline`")
            || overall.starts_with("Fastest: `a` and `b` (undecided) under `baseline`"),
        "{overall}"
    );
}

#[test]
fn responses_up_to_one_and_a_half_are_alike() {
    let names = |other: &str| {
        let overall = summarise(&responding(0.01, ["1 at 1 %", other]))
            .verdict
            .overall;
        overall.contains("congestion controls")
    };
    assert!(!names("1.5 at 1 %"));
    assert!(names("1.6 at 1 %"));
}

/// Returns the note on percentiles of a run in which `a` has a median of 20 ms and `b` one of 25 ms, with these 99th
/// percentiles in milliseconds.
fn note_on_percentiles(rank_by: &str, of_a: f64, of_b: f64) -> Option<String> {
    let mut data = two(|_, _| Some(100.0));
    data.header.study.rank_by = Some(rank_by.to_owned());
    for trial in &mut data.trials {
        let [median, p99] = match trial.transport.as_str() {
            "a" => [20.0, of_a],
            _ => [25.0, of_b],
        };
        let noise = 1e6 * (1.0 + 0.01 * f64::from(trial.round));
        let metrics = &mut trial.measurements.metrics;
        metrics.insert("round_trip_delay_p50_ns", median * noise);
        metrics.insert("round_trip_delay_p99_ns", p99 * noise);
    }
    let notes = summarise(&data).verdict.conditions.remove(0).notes;
    notes.into_iter().find(|it| it.contains("99th percentile"))
}

#[test]
fn a_ranking_by_a_percentile_says_where_median_and_tail_disagree() {
    let note = note_on_percentiles("round_trip_delay_p50_ns", 90.0, 40.0).expect("a note");
    let begin = "The median and the 99th percentile disagree: `a` has the lower median (20.";
    assert!(note.starts_with(begin), "{note}");
    assert!(note.contains("`b` the lower 99th percentile (4"), "{note}");
    assert_eq!(
        note_on_percentiles("round_trip_delay_p99_ns", 90.0, 40.0),
        Some(note)
    );
    // The same order, and an order that is not certain.
    assert_eq!(
        note_on_percentiles("round_trip_delay_p99_ns", 40.0, 90.0),
        None
    );
    assert_eq!(
        note_on_percentiles("round_trip_delay_p99_ns", 40.1, 40.0),
        None
    );
    assert_eq!(note_on_percentiles("goodput_bps", 90.0, 40.0), None);
}
