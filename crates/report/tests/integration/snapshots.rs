//! Snapshots of terminal, JSON and page from fixed results.

use std::fmt::Write as _;

use regatta_report::{RunData, Summary, html, summarise, terminal};

use crate::common;

fn at_width(data: &RunData, width: u16) -> String {
    let options = terminal::TerminalOptions {
        width,
        color: false,
        details: true,
    };
    terminal::render(&summarise(data), data, &options)
}

#[test]
fn the_terminal_of_a_complete_run() {
    insta::assert_snapshot!("terminal_80", at_width(&common::full(), 80));
    insta::assert_snapshot!("terminal_140", at_width(&common::full(), 140));
}

/// What a run prints at its end, on one screen.
fn brief(data: &RunData) -> String {
    terminal::render(
        &summarise(data),
        data,
        &terminal::TerminalOptions::default(),
    )
}

#[test]
fn the_answer_of_a_run_fits_on_one_screen() {
    let mut data = common::full();
    let is_measured = |label: &str| label != "tcp-hybla";
    data.header
        .study
        .transports
        .retain(|it| is_measured(&it.label));
    data.trials.retain(|it| is_measured(&it.transport));
    let text = brief(&data);
    // With a trial that failed, which takes two lines.
    assert!(text.lines().count() <= 24, "{text}");
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    insta::assert_snapshot!("brief", text);
    data.state = regatta_results::RunState::Running;
    let so_far = &summarise(&data).verdict.headline;
    assert!(so_far[0].starts_with("So far: "), "{so_far:?}");
    let is_short = |line: &String| line.replace('`', "").chars().count() <= 80;
    assert!(so_far.iter().all(is_short), "{so_far:?}");
    insta::assert_snapshot!("brief_one_trial", brief(&common::one_trial()));
    insta::assert_snapshot!("brief_empty", brief(&common::empty()));
    insta::assert_snapshot!("brief_unsupported", brief(&common::unsupported()));
}

#[test]
fn the_terminal_of_runs_with_few_results() {
    insta::assert_snapshot!("terminal_one_trial", at_width(&common::one_trial(), 80));
    insta::assert_snapshot!("terminal_empty", at_width(&common::empty(), 80));
    insta::assert_snapshot!("terminal_unsupported", at_width(&common::unsupported(), 80));
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for data in [
        common::full(),
        common::one_round(),
        common::empty(),
        common::hostile(),
    ] {
        for width in [60, 80, 100, 200] {
            for line in at_width(&data, width).lines() {
                // A label of a user's may be one word that is longer than any line.
                let longest_word = line.split(' ').map(|word| word.chars().count()).max();
                assert!(
                    line.chars().count() <= usize::from(width).max(longest_word.unwrap_or(0) + 9),
                    "{width}: {line}"
                );
            }
        }
    }
}

#[test]
fn text_is_the_same_without_colour() {
    let data = common::full();
    let options = terminal::TerminalOptions {
        width: 100,
        color: true,
        details: true,
    };
    let coloured = terminal::render(&summarise(&data), &data, &options);
    assert!(coloured.contains("\u{1b}["));
    let mut bare = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        bare.push_str(before);
        rest = after
            .split_once('m')
            .expect("every sequence here ends in m")
            .1;
    }
    bare.push_str(rest);
    assert_eq!(bare, at_width(&data, 100));
}

/// Returns the parts of a summary that a reader's program would look at first.
fn digest(summary: &Summary) -> serde_json::Value {
    let cell = summary.cell("udp", "loss-5", "bulk-10MB");
    serde_json::json!({
        "study": summary.study, "bed": summary.bed, "seed": summary.seed, "state": summary.state,
        "gates": summary.gates, "verdict": summary.verdict,
        "tests": summary.statistics.tests,
        "cell": cell.map(|cell| serde_json::json!({
            "n": cell.n, "outcomes": cell.outcomes, "retransmits": cell.retransmits,
            "goodput_bps": cell.metrics.get("goodput_bps"),
            "message_loss_ratio": cell.metrics.get("message_loss_ratio"),
        })),
        "comparisons": summary.comparisons.iter()
            .filter(|c| c.metric == "goodput_bps" && c.condition == "loss-5")
            .map(|c| format!("{} {} {} (n {})", c.a, c.claim.conclusion.name(), c.b, c.claim.n))
            .collect::<Vec<_>>(),
        "differences": summary.differences.len(),
        "difference": summary.differences.first(),
        "published": summary.published.first(),
        "warnings": summary.warnings,
    })
}

#[test]
fn the_summary_of_a_complete_run() {
    insta::assert_snapshot!(
        "summary",
        serde_json::to_string_pretty(&sorted(digest(&summarise(&common::full()))))
            .expect("plain values")
    );
}

/// Returns the same value with its keys sorted: the order of keys in a map of `serde_json` depends
/// on the other crates in the build.
fn sorted(value: serde_json::Value) -> serde_json::Value {
    match value {
        serde_json::Value::Object(map) => {
            let by_key: std::collections::BTreeMap<_, _> = map.into_iter().collect();
            by_key
                .into_iter()
                .map(|(key, value)| (key, sorted(value)))
                .collect()
        }
        serde_json::Value::Array(values) => values.into_iter().map(sorted).collect(),
        other => other,
    }
}

/// Returns the skeleton of the page: its headings, tables with their size, figures with their
/// panels.
fn skeleton(page: &str) -> String {
    let mut out = String::new();
    for line in page.lines() {
        let line = line.trim();
        for tag in [
            "<h1", "<h2", "<h3", "<section", "<figure", "<caption", "<nav", "<dl",
        ] {
            if line.starts_with(tag) {
                let _ = writeln!(out, "{}", line.split("</").next().unwrap_or(line));
            }
        }
        let panels = line.matches("<svg class=\"panel\"").count();
        if panels > 0 {
            let _ = writeln!(out, "  panels: {panels}");
        }
    }
    let _ = writeln!(out, "rows: {}", page.matches("<tr").count());
    out
}

#[test]
fn the_skeleton_of_the_page() {
    let page = |data: RunData| html::render(&data, &summarise(&data)).expect("the page is made");
    insta::assert_snapshot!("page", skeleton(&page(common::full())));
    insta::assert_snapshot!("page_empty", skeleton(&page(common::empty())));
    insta::assert_snapshot!("page_one_trial", skeleton(&page(common::one_trial())));
}

#[test]
fn the_same_run_gives_the_same_page() {
    let data = common::full();
    let summary = summarise(&data);
    let first = html::render(&data, &summary).expect("the page is made");
    assert_eq!(
        first,
        html::render(&data, &summary).expect("the page is made")
    );
}
