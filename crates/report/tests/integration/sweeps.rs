//! Sweeps in summary, page and terminal, from a synthetic run with a known crossing.

use regatta_model::{Published, Study, TrialRecord};
use regatta_report::{
    RunData,
    analysis::SweepCrossing,
    figure_files::figure_files,
    html,
    language::{self, Language},
    pdf::Paper,
    summarise, terminal,
};

use crate::{
    common,
    common::paper::{run as run_program, typeset},
};

const HEAD: &str = r#"
name = "sweep"
title = "Goodput against loss"
rounds = 8
deadline = "10s"
[[transport]]
driver = "tcp"
[[transport]]
driver = "quic-quinn"
[[condition]]
name = "wan"
rate = "50Mbit/s"
[[workload]]
kind = "bulk"
size = "10MB"
"#;

const LOSSES: &str = "[[sweep]]\nkey = \"condition.loss\"\n\
    from = \"0.1%\"\nto = \"10%\"\npoints = 6\nscale = \"log\"\n";

/// Loss at which the synthetic transports have the same goodput.
const CROSSING: f64 = 0.008;

/// Creates a run of a study whose goodput follows the loss: that of `tcp` by its square root, that of
/// `quic-quinn` less, with noise of each trial and of each round.
fn run(study: &str) -> RunData {
    run_with(study, goodput)
}

/// Creates a run of a study with noise of each trial and of each round around the goodput by loss and one-way delay.
fn run_with(study: &str, goodput: impl Fn(&TrialRecord, f64, f64) -> f64) -> RunData {
    let study = Study::parse(study, "study.toml").expect("a sound study");
    let mut data = common::run(study, |_| None);
    let conditions = data.header.study.conditions.clone();
    let mut draws = common::Draws::new(11);
    for trial in &mut data.trials {
        let condition = conditions.iter().find(|it| it.name == trial.condition);
        let link = &condition.expect("it is in the study").forward;
        let goodput = goodput(trial, link.loss.0, link.delay.as_secs_f64());
        let noise = 1.0 + 0.2 * (draws.unit() - 0.5) + 0.02 * f64::from(trial.round % 3);
        let metrics = &mut trial.measurements.metrics;
        metrics.insert("goodput_bps", goodput * noise);
    }
    data
}

fn goodput(trial: &TrialRecord, loss: f64, delay: f64) -> f64 {
    let exponent = if trial.transport == "tcp" { -0.5 } else { -0.2 };
    let at_crossing = 12e6 * (0.015 / delay.max(0.001)).powf(0.3 * (1.0 + exponent));
    at_crossing * ((loss + 1e-4) / CROSSING).powf(exponent)
}

fn one_parameter() -> RunData {
    run(&format!(
        "{}{LOSSES}",
        HEAD.replace("rate =", "rtt = \"30ms\"\nrate =")
    ))
}

fn two_parameters() -> RunData {
    let losses = "[[sweep]]\nkey = \"condition.loss\"\nvalues = [\"0%\", \"0.5%\", \"1%\", \"3%\", \"6%\"]\n";
    let delays =
        "[[sweep]]\nkey = \"condition.rtt\"\nvalues = [\"5ms\", \"20ms\", \"60ms\", \"120ms\"]\n";
    run(&format!("{HEAD}{losses}{delays}"))
}

/// Round-trip time at which the transports of [`by_delay`] have the same goodput, at a loss of 1 %, in nanoseconds.
const DELAY_CROSSING: f64 = 66e6;

/// Creates a run in which the second parameter alone, the round-trip time, decides: `quic-quinn` has `advantage` times
/// the goodput of `tcp` by the round-trip time relative to the crossing, which hardly depends on the loss.
fn by_delay(advantage: impl Fn(f64) -> f64) -> RunData {
    let losses = "[[sweep]]\nkey = \"condition.loss\"\nvalues = [\"0.5%\", \"1%\", \"2%\", \"4%\", \"8%\"]\n";
    let delays =
        "[[sweep]]\nkey = \"condition.rtt\"\nfrom = \"20ms\"\nto = \"120ms\"\npoints = 6\n";
    run_with(&format!("{HEAD}{losses}{delays}"), |trial, loss, delay| {
        let crossing = DELAY_CROSSING * (loss / 0.01).powf(0.01);
        let tcp = 1e6 / (delay * loss.sqrt());
        match trial.transport.as_str() {
            "tcp" => tcp,
            _ => tcp * advantage(2e9 * delay / crossing),
        }
    })
}

/// Creates a run with 200 cells.
fn many() -> RunData {
    let losses = "[[sweep]]\nkey = \"condition.loss\"\nfrom = \"0%\"\nto = \"9%\"\npoints = 10\n";
    let delays =
        "[[sweep]]\nkey = \"condition.rtt\"\nfrom = \"10ms\"\nto = \"100ms\"\npoints = 10\n";
    run(&format!(
        "{}{losses}{delays}",
        HEAD.replace("rounds = 8", "rounds = 3")
    ))
}

#[test]
fn a_crossing_is_found_and_described() {
    let summary = summarise(&one_parameter());
    let sweep = &summary.sweeps[0];
    assert!(sweep.is_primary);
    assert_eq!(sweep.axes[0].key, "condition.loss");
    assert_eq!(sweep.lines, ["tcp", "quic-quinn"]);
    assert_eq!(sweep.cells.len(), 12);
    let [crossing] = &sweep.crossings[..] else {
        panic!("{:?}", sweep.crossings);
    };
    assert_eq!((&*crossing.above, &*crossing.below), ("quic-quinn", "tcp"));
    let [Some(low), Some(high)] = crossing.ci95 else {
        panic!("{crossing:?}");
    };
    assert!(low < CROSSING && CROSSING < high, "{crossing:?}");
    assert!(high / low < 2.0, "{crossing:?}");
    let begin = "`quic-quinn` overtakes `tcp` above 0.";
    assert!(crossing.text.starts_with(begin), "{}", crossing.text);
    assert!(crossing.text.contains(" % loss [0."), "{}", crossing.text);
    assert!(
        summary.verdict.overall.contains(begin),
        "{}",
        summary.verdict.overall
    );
    assert!(
        !summary.verdict.overall.contains("wan, "),
        "{}",
        summary.verdict.overall
    );
}

#[test]
fn a_transport_that_is_not_ranked_crosses_nothing() {
    let udp = "[[transport]]\ndriver = \"udp\"\nrate = \"20Mbit/s\"\n[[condition]]";
    let head = HEAD.replace("rate =", "rtt = \"30ms\"\nrate =");
    let head = head.replace("[[condition]]", udp);
    let summary = summarise(&run(&format!("{head}{LOSSES}")));
    let sweep = &summary.sweeps[0];
    assert_eq!(sweep.lines, ["tcp", "quic-quinn", "udp"]);
    // Its goodput is that of `quic-quinn`, which crosses that of `tcp`.
    let pairs: Vec<[&str; 2]> = (sweep.crossings.iter())
        .map(|it| [it.above.as_str(), it.below.as_str()])
        .collect();
    assert_eq!(pairs, [["quic-quinn", "tcp"]]);
    let mentions_udp = sweep.sentences.iter().any(|it| it.contains("`udp`"));
    assert!(!mentions_udp, "{:?}", sweep.sentences);
}

#[test]
fn crossings_along_the_second_parameter_are_found_and_share_a_sentence() {
    let data = by_delay(f64::sqrt);
    let summary = summarise(&data);
    let sweep = &summary.sweeps[0];
    assert_eq!(sweep.axes[1].key, "condition.rtt");
    let found: Vec<(u32, &[u32], &str)> = (sweep.crossings.iter())
        .map(|it| (it.axis, it.others.as_slice(), it.above.as_str()))
        .collect();
    let expected = [0, 1, 2, 3, 4].map(|loss| vec![loss]);
    let expected = expected
        .each_ref()
        .map(|at| (1, at.as_slice(), "quic-quinn"));
    assert_eq!(found, expected);
    for crossing in &sweep.crossings {
        let distance = (crossing.value / DELAY_CROSSING - 1.0).abs();
        assert!(distance < 0.15, "{crossing:?}");
        let [Some(low), Some(high)] = crossing.ci95 else {
            panic!("{crossing:?}");
        };
        assert!(
            low < crossing.value && crossing.value < high,
            "{crossing:?}"
        );
        assert!(
            crossing
                .text
                .contains(" loss, `quic-quinn` overtakes `tcp` above "),
            "{}",
            crossing.text
        );
    }
    let [sentence] = &sweep.sentences[..] else {
        panic!("{:?}", sweep.sentences);
    };
    assert!(
        sentence.starts_with("`quic-quinn` overtakes `tcp` above "),
        "{sentence}"
    );
    assert!(sentence.ends_with(" loss), at every loss"), "{sentence}");
    let by_value = |a: &&SweepCrossing, b: &&SweepCrossing| a.value.total_cmp(&b.value);
    let lowest = sweep.crossings.iter().min_by(by_value).expect("one");
    let end = lowest.text.split(" above ").last().expect("a value");
    assert!(
        sentence.contains(&format!("{end} (lowest, at ")),
        "{sentence} {end}"
    );
    // All that the verdict has to say of the crossings is this sentence.
    let verdict = &summary.verdict.overall;
    assert!(verdict.contains(&format!("; {sentence}.")), "{verdict}");
    let russian = language::with(Language::Russian, || summarise(&data));
    let sentence = &russian.sweeps[0].sentences[0];
    assert!(
        sentence.contains("при каждом значении (потери)"),
        "{sentence}"
    );
    page("by-delay", &data);
}

#[test]
fn a_run_without_a_crossing_has_none_along_either_parameter() {
    let summary = summarise(&by_delay(|_| 0.5));
    let sweep = &summary.sweeps[0];
    assert_eq!(sweep.crossings, []);
    let sentence = "no crossing of `tcp` and `quic-quinn` was found: `tcp` is ahead of `quic-quinn` everywhere";
    assert_eq!(sweep.sentences, [sentence]);
}

#[test]
fn each_pair_of_lines_has_its_own_comparisons() {
    let transports = "driver = \"quic-quinn\"\n[[transport]]\ndriver = \"udp-reliable\"";
    let head = HEAD.replace("driver = \"quic-quinn\"", transports);
    let data = run_with(&format!("{head}{LOSSES}"), |trial, _, _| {
        match trial.transport.as_str() {
            "tcp" => 10e6,
            "quic-quinn" => 5e6,
            _ => 20e6,
        }
    });
    let sentences = &summarise(&data).sweeps[0].sentences;
    let expected = [
        ("tcp", "quic-quinn", "`tcp` is ahead of `quic-quinn`"),
        ("tcp", "udp-reliable", "`udp-reliable` is ahead of `tcp`"),
        (
            "quic-quinn",
            "udp-reliable",
            "`udp-reliable` is ahead of `quic-quinn`",
        ),
    ]
    .map(|(a, b, clause)| format!("no crossing of `{a}` and `{b}` was found: {clause} everywhere"));
    assert_eq!(sentences[..], expected);
}

#[test]
fn pairs_without_any_difference_have_one_sentence() {
    // Both transports alike, but for what a round adds to each by chance.
    let summary = summarise(&by_delay(|_| 1.0));
    let [sentence] = &summary.sweeps[0].sentences[..] else {
        panic!("{:?}", summary.sweeps[0].sentences);
    };
    let begin = "undecided everywhere: `tcp` and `quic-quinn` (these rounds would find ";
    assert!(sentence.starts_with(begin), "{sentence}");
}

/// One round, and two that differ much, decide nothing at 0.75 against 86 Mbit/s: sweep and verdict say so in the same
/// words.
#[test]
fn few_rounds_are_undecided_in_a_sweep_as_in_the_verdict() {
    for rounds in [1, 2] {
        let head = HEAD.replace("rounds = 8", &format!("rounds = {rounds}"));
        let data = run_with(&format!("{head}{LOSSES}"), |trial, _, _| {
            match trial.transport.as_str() {
                "tcp" => 0.75e6 * 20_f64.powi(trial.round as i32),
                _ => 86e6,
            }
        });
        let summary = summarise(&data);
        assert_eq!(
            summary.sweeps[0].sentences,
            ["undecided everywhere: `tcp` and `quic-quinn` (too few rounds)"]
        );
        let verdict = &summary.verdict.overall;
        let expected = "Fastest in the sweeps: `quic-quinn` and `tcp` (undecided) everywhere.";
        assert!(verdict.starts_with(expected), "{verdict}");
        let text = terminal::render(&summary, &data, &terminal::TerminalOptions::default());
        assert!(!text.contains("difference was found"), "{text}");
    }
}

#[test]
fn sentences_name_the_cells_of_a_sweep() {
    let losses = "[[sweep]]\nkey = \"condition.loss\"\nvalues = [\"0.02%\", \"0.5%\", \"1.65%\"]\n";
    let ahead_at = |losses: &'static [f64]| {
        move |trial: &TrialRecord, loss: f64, _: f64| {
            let is_there = losses.iter().any(|it| (loss - it).abs() < 1e-9);
            match (trial.transport.as_str(), is_there) {
                ("tcp", _) => 10e6,
                (_, true) => 20e6,
                (_, false) => 10e6,
            }
        }
    };
    let data = run_with(&format!("{HEAD}{losses}"), ahead_at(&[0.0002, 0.0165]));
    let summary = summarise(&data);
    let sentence = &summary.sweeps[0].sentences[0];
    let begin = "no crossing of `tcp` and `quic-quinn` was found: `quic-quinn` is ahead of `tcp` at 0.02 % and 1.65 % loss; it is undecided at 0.5 % loss (";
    assert!(sentence.starts_with(begin), "{sentence}");
    let verdict = &summary.verdict.overall;
    let begin = "Fastest in the sweeps: `quic-quinn` at 0.02 % and 1.65 % loss; ";
    assert!(verdict.starts_with(begin), "{verdict}");
    let russian = language::with(Language::Russian, || summarise(&data));
    let verdict = &russian.verdict.overall;
    let begin = "Быстрее всех в развёртках: `quic-quinn` при потери 0,02 % и 1,65 %; ";
    assert!(verdict.starts_with(begin), "{verdict}");
}

#[test]
fn a_sweep_by_a_percentile_says_where_median_and_tail_disagree() {
    let head = HEAD.replace(
        "rounds = 8",
        "rounds = 8\nrank_by = \"round_trip_delay_p99_ns\"",
    );
    let mut data = run(&format!("{head}{LOSSES}"));
    for trial in &mut data.trials {
        let is_high = trial.condition.contains("10 %");
        let [median, p99] = match (trial.transport.as_str(), is_high) {
            ("tcp", true) => [20.0, 90.0],
            ("tcp", false) => [20.0, 30.0],
            _ => [25.0, 40.0],
        };
        let noise = 1e6 * (1.0 + 0.01 * f64::from(trial.round));
        let metrics = &mut trial.measurements.metrics;
        metrics.insert("round_trip_delay_p50_ns", median * noise);
        metrics.insert("round_trip_delay_p99_ns", p99 * noise);
    }
    let sentences = &summarise(&data).sweeps[0].sentences;
    let expected =
        "the median and the 99th percentile are lowest of different transports at 10 % loss";
    assert!(sentences.iter().any(|it| it == expected), "{sentences:?}");
}

#[test]
fn many_cells_of_a_sweep_are_named_by_their_ranges() {
    let data = run_with(
        &format!(
            "{HEAD}[[sweep]]\nkey = \"condition.loss\"\nvalues = [\"1%\", \"2%\", \"3%\", \"4%\", \"5%\"]\n\
             [[sweep]]\nkey = \"condition.rtt\"\nvalues = [\"20ms\", \"60ms\", \"120ms\"]\n"
        ),
        |trial, loss, delay| match trial.transport.as_str() {
            "tcp" => 10e6,
            _ if loss < 0.045 && delay > 0.02 => 20e6,
            _ => 5e6,
        },
    );
    let verdict = summarise(&data).verdict.overall;
    let expected = "`quic-quinn` at 1 % to 4 % loss, rtt 60 ms and 120 ms";
    assert!(verdict.contains(expected), "{verdict}");
    // No combinations of values name these.
    let expected = "`tcp` at (1 % loss, rtt 20 ms), ";
    assert!(verdict.contains(expected), "{verdict}");
    assert!(verdict.contains(" and 2 more"), "{verdict}");
}

#[test]
fn the_same_run_has_the_same_crossings() {
    assert_eq!(summarise(&one_parameter()), summarise(&one_parameter()));
}

#[test]
fn every_summary_of_a_sweep_follows_the_schema() {
    let schema = include_str!("../../../../schemas/summary.schema.json");
    let schema = serde_json::from_str(schema).expect("the schema is JSON");
    let validator = jsonschema::validator_for(&schema).expect("the schema is one");
    for data in [one_parameter(), two_parameters(), by_delay(f64::sqrt)] {
        let summary = serde_json::to_value(summarise(&data)).expect("plain values");
        let errors: Vec<String> = validator
            .iter_errors(&summary)
            .map(|e| format!("{}: {e}", e.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{errors:#?}");
    }
}

#[test]
fn the_terminal_has_one_table_for_a_sweep() {
    let data = one_parameter();
    let summary = summarise(&data);
    let text = terminal::render(
        &summary,
        &data,
        &terminal::TerminalOptions {
            details: true,
            ..Default::default()
        },
    );
    assert!(text.contains("loss under wan: goodput, Mbit/s"), "{text}");
    assert!(
        text.contains("`quic-quinn` overtakes `tcp` above"),
        "{text}"
    );
    assert!(!text.contains("Under `wan, "), "{text}");
}

/// Creates a run in which `tcp` without a limit, and `quic-quinn`, stand beside `limited`, a TCP whose rate is swept.
fn beside_a_swept_transport() -> RunData {
    let limited = "[[transport]]\nlabel = \"limited\"\ndriver = \"tcp\"\n[[condition]]";
    let head = HEAD.replace("[[condition]]", limited);
    let rates = "[[sweep]]\nkey = \"transport.rate\"\nof = [\"limited\"]\n\
                 values = [\"5Mbit/s\", \"10Mbit/s\", \"30Mbit/s\", \"40Mbit/s\"]\n";
    run_with(&format!("{head}{rates}"), |trial, _, _| {
        match trial.transport.as_str() {
            "tcp" => 50e6,
            "quic-quinn" => 20e6,
            limited => {
                let rate = limited.split('=').nth(1).expect("a rate");
                1e6 * rate.replace("Mbit/s", "").parse::<f64>().expect("a number")
            }
        }
    })
}

#[test]
fn a_transport_beside_a_swept_one_is_a_line_of_the_sweep() {
    let data = beside_a_swept_transport();
    let summary = summarise(&data);
    let sweep = &summary.sweeps[0];
    assert_eq!(sweep.lines, ["limited", "tcp", "quic-quinn"]);
    let crossings: Vec<[&str; 2]> = (sweep.crossings.iter())
        .map(|it| [it.above.as_str(), it.below.as_str()])
        .collect();
    assert_eq!(crossings, [["limited", "quic-quinn"]]);
    let expected =
        "no crossing of `limited` and `tcp` was found: `tcp` is ahead of `limited` everywhere";
    assert!(
        sweep.sentences.iter().any(|it| it == expected),
        "{:?}",
        sweep.sentences
    );
    // Six labels in every table would be pages of pairs.
    let page = page("beside", &data);
    assert!(page.contains("id=\"sweeps\""));
    assert!(!page.contains("every pair under"), "a table for each pair");
}

#[test]
fn a_sweep_of_names_has_the_tables_of_any_study() {
    let controls = "[[sweep]]\nkey = \"transport.cc\"\nvalues = [\"cubic\", \"bbr\"]\n";
    let data = run_with(&format!("{HEAD}{controls}"), |_, _, _| 10e6);
    assert_eq!(summarise(&data).sweeps, []);
    let page = page("controls", &data);
    for part in [
        "id=\"results\"",
        "Geometric means under",
        "every pair under",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let text = terminal::render(
        &summarise(&data),
        &data,
        &terminal::TerminalOptions {
            details: true,
            ..Default::default()
        },
    );
    assert!(text.contains("goodput, Mbit/s"), "{text}");
}

#[test]
fn the_paper_of_a_sweep_has_no_part_without_content() {
    let (_, pdf) = typeset(&one_parameter(), Paper::A4);
    let text = run_program("pdftotext", &pdf, &["-layout", "-"]);
    let has_line = |line: &str| text.lines().any(|it| it.trim() == line);
    assert!(has_line("Sweeps"), "{text}");
    for part in ["Results", "Raw tables"] {
        assert!(!has_line(part), "{part}");
    }
}

#[test]
fn a_transport_alone_in_a_sweep_has_its_figures() {
    let head = HEAD.replace("[[transport]]\ndriver = \"quic-quinn\"\n", "");
    let data = run_with(&format!("{head}{LOSSES}"), |_, loss, _| 1e5 / loss.sqrt());
    let verdict = summarise(&data).verdict.overall;
    let begin = "`tcp` alone: 0.32";
    assert!(verdict.starts_with(begin), "{verdict}");
    assert!(verdict.contains(" Mbit/s at 10 % loss to 3."), "{verdict}");
    assert!(verdict.contains(" Mbit/s at 0.1 % loss."), "{verdict}");
}

/// Returns the page, and keeps it in the directory that `REGATTA_KEEP_PAGES` names.
fn page(name: &str, data: &RunData) -> String {
    let page = html::render(data, &summarise(data)).expect("a page");
    if let Some(dir) = std::env::var_os("REGATTA_KEEP_PAGES") {
        let file = std::path::Path::new(&dir).join(format!("{name}.html"));
        std::fs::write(file, &page).expect("a writable directory");
    }
    page
}

/// Returns the lines of each value of a page's first figure of a sweep, as the coordinates of their ends: the bar of the
/// interval, then the marks at its ends.
fn lines_of_values(page: &str) -> Vec<Vec<[f64; 4]>> {
    let figure = page.split("figure-sweep-0-goodput-bps\"").nth(1);
    let figure = figure.and_then(|it| it.split("</figure>").next());
    let values = figure.expect("a figure").split("<g class=\"value\"");
    let lines = |value: &str| -> Vec<[f64; 4]> {
        let value = value.split("</g>").next().expect("its end");
        (value.split("<polyline").skip(1))
            .map(|line| {
                let points = line.split(" points=\"").nth(1).expect("points");
                let points = points.split('"').next().expect("their end");
                let points = points
                    .split([' ', ','])
                    .map(|it| it.parse().expect("a number"));
                let points: Vec<f64> = points.collect();
                points.try_into().expect("a line of two points")
            })
            .collect()
    };
    values.skip(1).map(lines).collect()
}

#[test]
fn an_interval_has_a_mark_at_each_end_within_the_panel() {
    let all = lines_of_values(&page("one", &one_parameter()));
    assert_eq!(all.len(), 12);
    for lines in all {
        let [bar, low, high] = lines[..] else {
            panic!("{lines:?}");
        };
        let [x, from, _, to] = bar;
        assert!(to < from, "{bar:?}");
        assert_eq!([low, high].map(|[_, y, ..]| y), [from, to]);
        for [left, y, right, end] in [low, high] {
            assert!(left < x && x < right && y == end, "{lines:?}");
        }
    }
}

#[test]
fn an_interval_that_runs_out_of_a_panel_has_no_mark_at_its_edge() {
    let mut data = one_parameter();
    data.header.study.rounds = 2;
    data.trials.retain(|trial| trial.round < 2);
    for trial in &mut data.trials {
        let metrics = &mut trial.measurements.metrics;
        let goodput = metrics.get("goodput_bps").copied().expect("a goodput");
        let factor = if trial.round == 0 { 0.5 } else { 2.0 };
        metrics.insert("goodput_bps", goodput * factor);
    }
    let all = lines_of_values(&page("wide", &data));
    assert_eq!(all.len(), 12);
    let edge = all[0][0][3];
    for lines in all {
        let [[_, from, _, to], low] = lines[..] else {
            panic!("{lines:?}");
        };
        assert_eq!(to, edge, "it runs out of the panel");
        assert_eq!([low[1], low[3]], [from; 2]);
    }
}

#[test]
fn a_page_has_lines_and_maps_instead_of_a_panel_for_each_cell() {
    let panels = |page: &str| page.matches("<svg class=\"panel\"").count();
    let one = page("one", &one_parameter());
    assert!(one.contains("figure-sweep-0-goodput-bps"));
    // Of these, 8 are of some cells over time.
    assert!(panels(&one) < 6 + 8, "{}", panels(&one));
    let two = page("two", &two_parameters());
    assert!(two.contains("figure-heat-0-goodput-bps"));
    assert!(two.contains("quic-quinn ÷ tcp"));
    let many = page("many", &many());
    assert!(panels(&many) < 40, "{}", panels(&many));
    assert!(many.len() < 1_500_000, "{} bytes", many.len());
}

/// Returns the drawings of the lines of the first figure of a sweep, each with its marks.
fn drawn_lines(data: &RunData) -> (String, Vec<String>) {
    let files = figure_files(data, &summarise(data));
    let figure = files.iter().find(|file| file.name.starts_with("sweep-0"));
    let figure = figure.expect("a figure of the sweep");
    let lines = figure.svg.split("class=\"points\"").skip(1);
    let lines = lines.map(|line| line.split("</g>").next().unwrap_or_default().to_owned());
    (figure.caption.clone(), lines.collect())
}

#[test]
fn categories_are_not_joined_by_lines() {
    let sweep = |key: &str, values: &str| {
        drawn_lines(&run(&format!(
            "{HEAD}[[sweep]]\nkey = \"{key}\"\nvalues = {values}\n"
        )))
    };
    for (key, values, joined) in [
        (
            "workload.pattern",
            "[\"data\", \"zeros\", \"random\"]",
            false,
        ),
        ("condition.rtt", "[\"10ms\", \"20ms\", \"40ms\"]", true),
    ] {
        let (caption, lines) = sweep(key, values);
        assert_eq!(lines.len(), 2, "{key}");
        for line in lines {
            assert_eq!(line.matches("class=\"mark\"").count(), 3, "{key}: {line}");
            assert_eq!(line.contains("<polyline"), joined, "{key}: {line}");
        }
        assert_eq!(caption.contains("interpolated"), joined, "{caption}");
    }
}

#[test]
fn times_of_sizes_that_span_decades_have_a_logarithmic_axis() {
    let is_log = |sizes: &str| {
        let head = HEAD.replace("size = \"10MB\"\n", "");
        let head = head.replace("rounds", "rank_by = \"transfer_time_ns\"\nrounds");
        let mut data = run(&format!(
            "{head}[[sweep]]\nkey = \"workload.size\"\nvalues = {sizes}\n"
        ));
        let study = data.header.study.clone();
        for trial in &mut data.trials {
            let workload = study
                .workloads
                .iter()
                .position(|it| it.name == trial.workload);
            let position = workload.expect("it is in the study") as i32;
            let time = 20e6 * 4_f64.powi(position);
            trial.measurements.metrics.insert("transfer_time_ns", time);
        }
        let (caption, _) = drawn_lines(&data);
        caption.contains("The vertical axis is logarithmic.")
    };
    // Times from 20 to 320 ms each.
    assert!(is_log("[\"100kB\", \"1MB\", \"10MB\"]"));
    assert!(!is_log("[\"1MB\", \"2MB\", \"4MB\"]"));
}

#[test]
fn cells_of_a_sweep_are_shown_over_time() {
    let data = one_parameter();
    let files = figure_files(&data, &summarise(&data));
    for name in ["time-congestion-window-bytes", "time-goodput-bps"] {
        let figure = files.iter().find(|file| file.name == name);
        let figure = figure.unwrap_or_else(|| panic!("no `{name}`"));
        assert!(
            figure.csv.contains("loss 0.1 %"),
            "{name}: {}",
            &figure.csv[..200]
        );
        assert_eq!(figure.svg.matches("class=\"panel\"").count(), 4, "{name}");
        assert!(figure.caption.contains("Of a sweep"), "{}", figure.caption);
    }
}

#[test]
fn published_values_stand_in_the_figure_of_a_sweep() {
    let mut data = one_parameter();
    let study = &mut data.header.study;
    let condition = study.conditions[1].name.clone();
    study.published = ["tcp", "SCTP"]
        .map(|transport| Published {
            transport: transport.to_owned(),
            condition: condition.clone(),
            workload: None,
            metric: "goodput_bps".to_owned(),
            value: 20e6,
            note: None,
            path_permits: None,
        })
        .to_vec();
    let files = figure_files(&data, &summarise(&data));
    let figure = files.iter().find(|file| file.name == "sweep-0-goodput-bps");
    let figure = figure.expect("a figure");
    let published = figure
        .csv
        .lines()
        .filter(|line| line.contains(",published,"));
    assert_eq!(published.count(), 2, "{}", figure.csv);
    assert!(figure.caption.contains("Hollow mark: published value."));
}

#[test]
fn formulas_are_drawn_over_the_axis_of_a_sweep() {
    let head = HEAD.replace("rate =", "rtt = \"30ms\"\nrate =");
    let curves = "[[curve]]\nformula = \"mathis\"\n[[curve]]\nformula = \"round-trips\"\n";
    let data = run(&format!("{head}{LOSSES}{curves}"));
    let files = figure_files(&data, &summarise(&data));
    let figure = files.iter().find(|file| file.name == "sweep-0-goodput-bps");
    let figure = figure.expect("a figure");
    let points = figure.csv.lines().filter(|line| line.contains(",formula,"));
    let points: Vec<[f64; 2]> = points
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            assert!(
                line.contains(",Mathis et al.,"),
                "that of the metric: {line}"
            );
            let n = fields.len();
            [fields[n - 5], fields[n - 4]].map(|it| it.parse().expect("a number"))
        })
        .collect();
    assert!(points.len() > 100, "{}", points.len());
    for [loss, goodput] in points {
        // In per cent and Mbit/s.
        let expected = 1.22 * 1448.0 * 8.0 / (0.03 * (loss / 100.0).sqrt()) / 1e6;
        assert!(
            (goodput / expected - 1.0).abs() < 1e-6,
            "{loss}: {goodput} {expected}"
        );
    }
    assert!(figure.svg.contains(">Mathis et al.</text>"));
    assert!(
        figure
            .caption
            .contains("Line without marks, Mathis et al.: the formula 1.22 MSS / (R √p)."),
        "{}",
        figure.caption
    );
}

/// Up to 1000 rounds are resampled.
#[test]
fn the_method_says_how_crossings_have_their_intervals() {
    let mut data = one_parameter();
    data.trials.clear();
    let mut has = |rounds: u32, words: &str| {
        data.header.study.rounds = rounds;
        let method = summarise(&data).statistics.method;
        method.iter().any(|sentence| sentence.contains(words))
    };
    assert!(has(8, "In a sweep"));
    assert!(!has(1000, "Of more than 1000 rounds"));
    assert!(has(1001, "Of more than 1000 rounds"));
}

#[test]
fn a_loss_of_nothing_everywhere_has_no_figure() {
    let mut data = one_parameter();
    data.trials.retain(|trial| trial.round == 0);
    let mut has_loss = |loss: f64| {
        for trial in &mut data.trials {
            let metrics = &mut trial.measurements.metrics;
            metrics.insert("message_loss_ratio", loss);
        }
        let sweeps = summarise(&data).sweeps;
        sweeps.iter().any(|it| it.metric == "message_loss_ratio")
    };
    assert!(!has_loss(0.0));
    assert!(has_loss(0.01));
}

/// The page of a sweep began with its sentences: no table said how far the first is ahead anywhere.
#[test]
fn the_page_begins_with_the_most_telling_comparisons() {
    let data = one_parameter();
    let page = html::render(&data, &summarise(&data)).expect("a page");
    let begin = page
        .split("<ul class=\"verdicts\">")
        .next()
        .unwrap_or_default();
    for text in [
        "the most telling; 3 further places are among the results",
        "ahead of",
    ] {
        assert!(begin.contains(text), "{text}: {begin}");
    }
}
