//! Tests of the values in sentences and of the comparison of workloads, with synthetic values.

use regatta_model::{Bytes, Spread, Workload, WorkloadKind};
use regatta_report::{RunData, analysis::Conclusion, summarise};

use crate::common;

/// Creates two rounds that contradict one another, whose intervals have ends of any number of digits.
fn contradictory() -> RunData {
    let mut study = common::study();
    study.rounds = 2;
    study.published.clear();
    let mut data = common::run(study, |_| None);
    for trial in &mut data.trials {
        let position = data.header.study.transports.iter();
        let position = position
            .take_while(|it| it.label != trial.transport)
            .count() as f64;
        let sign = if (trial.round == 0) == (trial.condition == "baseline") {
            1.0
        } else {
            -1.0
        };
        let factor = (sign * (position + 1.0)).exp();
        for name in [
            "goodput_bps",
            "goodput_per_core_percent_bps",
            "round_trip_delay_p50_ns",
        ] {
            if let Some(value) = trial.measurements.metrics.get_mut(name) {
                *value *= factor;
            }
        }
    }
    data
}

/// Returns the texts between two marks.
fn between<'a>(text: &'a str, from: &'a str, to: &'a str) -> impl Iterator<Item = &'a str> {
    let parts = text.split(from).skip(1);
    parts.filter_map(move |part| part.split(to).next())
}

#[test]
fn an_interval_beyond_a_thousandfold_has_few_digits() {
    let data = contradictory();
    let summary = summarise(&data);
    let widest = summary.comparisons.iter().filter_map(|c| c.claim.interval);
    let widest = widest.fold(0.0_f64, |widest, [_, high]| widest.max(high));
    assert!(widest > 1e20, "the numbers stay in the summary: {widest}");
    let page = regatta_report::html::render(&data, &summary).expect("a page");
    let intervals: Vec<&str> = between(&page, "<small>[", "]").collect();
    assert!(intervals.len() > 20, "{}", intervals.len());
    for interval in &intervals {
        assert!(interval.chars().count() <= 30, "{interval}");
    }
    assert!(
        page.contains("<small>too few rounds"),
        "of ratios and changes"
    );
    let tips = between(&page, "95 % interval [", "]");
    assert!(tips.into_iter().all(|interval| interval.len() <= 30));
    let paper = regatta_report::pdf::Paper::A4;
    let job = regatta_report::pdf::job(&data, &summary, paper, regatta_report::pdf::Form::Full)
        .expect("a job");
    for interval in between(&job, "\"sub\":\"[", "]") {
        assert!(interval.chars().count() <= 30, "{interval}");
    }
    for width in [80, 160] {
        let text = common::shown(&data, &summary, width);
        let brackets: Vec<&str> = between(&text, "[", "]").collect();
        assert!(!brackets.is_empty());
        for digits in text.split(|c: char| !c.is_ascii_digit()) {
            assert!(digits.len() <= 6, "{digits} at {width}: {text}");
        }
    }
    // A run against another one of the same kind.
    let mut other = data.clone();
    other.header.run_id = "another".into();
    for trial in &mut other.trials {
        let goodput = trial.measurements.metrics.get_mut("goodput_bps");
        *goodput.expect("it is measured") *= f64::from(trial.round + 1) * 40.0;
    }
    let runs = [("a".to_owned(), data), ("b".to_owned(), other)];
    let comparison = regatta_report::compare::compare(&runs, None).expect("they can be compared");
    let options = regatta_report::terminal::TerminalOptions {
        width: 200,
        color: false,
        details: true,
    };
    let text = regatta_report::compare::render(&comparison, &options);
    assert!(text.contains("too few rounds"), "{text}");
}

#[test]
fn a_decrease_is_at_most_100_percent() {
    let mut study = common::study();
    study.published.clear();
    let mut data = common::run(study, |_| None);
    let mut other = data.clone();
    other.header.run_id = "another".into();
    // One trial has five times the median, and every cell of the other run five times this one's.
    for trial in &mut data.trials {
        let goodput = trial.measurements.metrics.get_mut("goodput_bps");
        *goodput.expect("it is measured") *= if trial.round == 2 { 5.0 } else { 1.0 };
    }
    for trial in &mut other.trials {
        let goodput = trial.measurements.metrics.get_mut("goodput_bps");
        *goodput.expect("it is measured") *= 5.0;
    }
    let page = regatta_report::html::render(&data, &summarise(&data)).expect("a page");
    let runs = [("a".to_owned(), data), ("b".to_owned(), other)];
    let comparison = regatta_report::compare::compare(&runs, None).expect("they can be compared");
    let compared = regatta_report::html::compare::render(&comparison).expect("a page");
    for page in [&page, &compared] {
        // Changes in tables and sentences, and the ticks of axes.
        let falls: Vec<f64> = (page.split('−').skip(1))
            .filter_map(|part| {
                let end = part.find(|c: char| !c.is_ascii_digit() && c != '.')?;
                part[..end].parse().ok()
            })
            .collect();
        assert!(!falls.is_empty());
        let most = falls.iter().copied().fold(0.0, f64::max);
        assert!(most <= 100.0, "−{most}");
    }
}

/// Creates a run of three transports with the same messages over 1 and over 8 streams.
fn over_streams(delay_ms: impl Fn(&str, bool, usize) -> f64) -> RunData {
    let mut study = common::study();
    study.conditions.truncate(1);
    study.transports.truncate(3);
    study.published.clear();
    for (transport, label) in study.transports.iter_mut().zip(["a", "b", "c"]) {
        transport.label = label.to_owned();
    }
    let workload = study.workloads.remove(0);
    for streams in [1, 8] {
        study.workloads.push(Workload {
            name: format!("streams-{streams}"),
            kind: WorkloadKind::MultiStream {
                messages: 1000,
                message: Bytes(1000),
                messages_per_second: 200.0,
                streams,
                spread: Spread::Streams,
            },
            ..workload.clone()
        });
    }
    // Another kind of work has nothing to do with it.
    study.workloads.push(workload);
    let mut data = common::run(study, |_| None);
    for trial in &mut data.trials {
        if trial.workload.starts_with("streams") {
            let is_8 = trial.workload == "streams-8";
            let delay = delay_ms(&trial.transport, is_8, trial.round as usize);
            trial.measurements.metrics = [("message_delay_p95_ns".to_owned(), delay * 1e6)].into();
        }
    }
    data
}

/// Leaves this many of the 200 messages of a transport's trials with a workload undelivered.
fn leave(data: &mut RunData, label: &str, workload: &str, undelivered: f64) {
    let trials = data.trials.iter_mut();
    for trial in trials.filter(|it| it.transport == label && it.workload == workload) {
        let metrics = &mut trial.measurements.metrics;
        metrics.insert("messages_sent", 200.0);
        metrics.insert("messages_delivered", 200.0 - undelivered);
    }
}

#[test]
fn undelivered_messages_at_the_deadline_are_not_called_lost() {
    let mut data = over_streams(|_, _, _| 50.0);
    leave(&mut data, "a", "streams-8", 25.0);
    let verdict = summarise(&data).verdict;
    let text = &verdict.conditions[1].text;
    let sentences =
        "`a` (50.0 ms) is not ranked: it did not deliver 12.5 % of its messages by the deadline";
    assert!(text.contains(sentences), "{text}");
}

#[test]
fn streams_1_and_8_of_one_transport_have_a_verdict() {
    let drawn = [0.3, -0.2, 0.1, 0.4, -0.5];
    let data = over_streams(|label, is_8, round| match (label, is_8) {
        ("a", true) => 50.0 + 0.1 * drawn[round],
        ("a", false) => 100.0 + drawn[4 - round],
        ("b", _) => 80.0 + 20.0 * drawn[if is_8 { round } else { 4 - round }],
        (_, true) => 60.0 + drawn[round],
        (_, false) => 30.0 + drawn[round],
    });
    let summary = summarise(&data);
    let conclusions: Vec<(&str, Conclusion)> = (summary.workload_differences.iter())
        .map(|it| (it.transport.as_str(), it.claim.conclusion))
        .collect();
    assert_eq!(
        conclusions,
        [
            ("a", Conclusion::Faster),
            ("b", Conclusion::Undecided),
            ("c", Conclusion::Slower)
        ]
    );
    let sentences = &summary.verdict.workloads;
    assert_eq!(sentences.len(), 1, "{sentences:?}");
    assert!(
        sentences[0].starts_with("`streams-8` against `streams-1` under `baseline`, by message delay, 95th percentile: `a` is 2.000 times as fast as `streams-1` (interval ")
            && sentences[0].contains("; `c` is 50")
            && sentences[0].ends_with("; undecided for `b`."),
        "{}",
        sentences[0]
    );
    let page = regatta_report::html::render(&data, &summary).expect("a page");
    assert!(page.contains("<code>streams-8</code> against <code>streams-1</code>"));
    assert!(common::shown(&data, &summary, 5000).contains(&sentences[0]));
    let paper = regatta_report::pdf::Paper::A4;
    let job = regatta_report::pdf::job(&data, &summary, paper, regatta_report::pdf::Form::Full)
        .expect("a job");
    assert!(job.contains(&sentences[0]));
    // All tests of the run are counted.
    let claims = (summary.comparisons.iter().map(|it| &it.claim))
        .chain(summary.differences.iter().map(|it| &it.claim))
        .chain(summary.workload_differences.iter().map(|it| &it.claim));
    let tests = claims.filter(|claim| claim.p_adjusted.is_some()).count() as u64;
    assert_eq!(summary.statistics.tests, tests);
}

#[test]
fn streams_that_are_not_ranked_are_named_with_the_reason() {
    let drawn = [0.3, -0.2, 0.1, 0.4, -0.5];
    let mut data = over_streams(|_, is_8, round| match is_8 {
        true => 50.0 + 0.1 * drawn[round],
        false => 90.0 + drawn[4 - round],
    });
    leave(&mut data, "a", "streams-1", 25.0);
    let sentences = summarise(&data).verdict.workloads;
    let [sentence] = &sentences[..] else {
        panic!("{sentences:?}");
    };
    let of_a = "`a` (with `streams-1` it did not deliver 12.5 % of its messages by the deadline)";
    assert!(
        sentence.contains("`b` is 80.0 % faster than `streams-1`"),
        "{sentence}"
    );
    assert!(
        sentence.ends_with(&format!("; not compared: {of_a}.")),
        "{sentence}"
    );
    // With nothing that is ranked, the reasons are the sentence.
    for label in ["b", "c"] {
        leave(&mut data, label, "streams-1", 100.0);
        leave(&mut data, label, "streams-8", 50.0);
    }
    let sentences = summarise(&data).verdict.workloads;
    let [sentence] = &sentences[..] else {
        panic!("{sentences:?}");
    };
    let begin = "`streams-8` against `streams-1` under `baseline`, by message delay, 95th percentile: not compared: ";
    let of_b = "`b` (with `streams-1` it did not deliver 50.0 % of its messages by the deadline, \
        with `streams-8` it did not deliver 25.0 % of its messages by the deadline)";
    assert!(
        sentence.starts_with(&format!("{begin}{of_a}, {of_b}, `c` (")),
        "{sentence}"
    );
}

#[test]
fn the_two_values_of_a_swept_workload_are_compared() {
    let study = r#"
name = "streams"
rounds = 5
[[transport]]
driver = "quic-quinn"
[[condition]]
name = "wan"
rate = "50Mbit/s"
[[workload]]
kind = "multi-stream"
[[sweep]]
key = "workload.streams"
values = [1, 8]
"#;
    let sentences = |study: &str, title: &str| {
        let study = regatta_model::Study::parse(study, "study.toml").expect("a sound study");
        let names: Vec<String> = study.workloads.iter().map(|it| it.name.clone()).collect();
        let mut data = common::run(study, |_| None);
        for trial in &mut data.trials {
            let delay = if trial.workload == names[0] {
                90e6
            } else {
                30e6
            };
            let delay = delay + 1e4 * f64::from(trial.round);
            trial.measurements.metrics = [("message_delay_p95_ns".to_owned(), delay)].into();
        }
        let summary = summarise(&data);
        let page = regatta_report::html::render(&data, &summary).expect("a page");
        let sentences = summary.verdict.workloads;
        assert_eq!(
            page.contains(" times as fast as <code>"),
            !sentences.is_empty(),
            "{title}"
        );
        (names, sentences)
    };
    let (names, of_two) = sentences(study, "two values");
    let begin = format!(
        "`{}` against `{}` under `wan`, by message delay, 95th percentile: `quic-quinn` is 2.999 times as fast as `",
        names[1], names[0]
    );
    assert_eq!(of_two.len(), 1, "{of_two:?}");
    assert!(of_two[0].starts_with(&begin), "{}", of_two[0]);
    // More values have a figure.
    let (_, of_three) = sentences(&study.replace("[1, 8]", "[1, 4, 8]"), "three values");
    assert_eq!(of_three, [""; 0]);
}

/// Returns the headline of a run of `a` and `b`, which are equally fast, with these delays in ms.
fn headline_of_the_same(delays_ms: [f64; 2]) -> String {
    let mut study = common::study();
    study.conditions.truncate(1);
    study.transports.truncate(2);
    study.published.clear();
    for (transport, label) in study.transports.iter_mut().zip(["a", "b"]) {
        transport.label = label.to_owned();
    }
    let mut data = common::run(study, |_| None);
    for trial in &mut data.trials {
        let is_b = trial.transport == "b";
        let odd = u32::from(is_b) + trial.round;
        let change = 1.0 + f64::from(odd * odd % 3) / 1000.0;
        let delay = delays_ms[usize::from(is_b)] * 1e6;
        let metrics = &mut trial.measurements.metrics;
        *metrics = [
            ("goodput_bps".to_owned(), 9e7 * change),
            ("round_trip_delay_p50_ns".to_owned(), delay * change),
        ]
        .into();
    }
    summarise(&data).verdict.headline.concat()
}

/// "a and b are the same, with more delay" does not say whose delay it is.
#[test]
fn the_headline_of_two_that_are_the_same_names_the_one_with_the_price() {
    for (delays, dearer) in [([40.0, 30.0], "a"), ([30.0, 40.0], "b")] {
        let headline = headline_of_the_same(delays);
        let price = format!("`{dearer}` has 33 % more delay");
        assert!(headline.contains("are the same within 3 %"), "{headline}");
        assert!(headline.contains(&price), "{headline}");
    }
}
