//! Sweeps in summary, page and terminal, from a synthetic run with a known crossing.

mod common;

use regatta_model::{Study, TrialRecord};
use regatta_report::{RunData, html, summarise, terminal};

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
fn a_crossing_is_found_and_said() {
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
fn the_same_run_has_the_same_crossings() {
    assert_eq!(summarise(&one_parameter()), summarise(&one_parameter()));
}

#[test]
fn every_summary_of_a_sweep_follows_the_schema() {
    let schema = include_str!("../../../schemas/summary.schema.json");
    let schema = serde_json::from_str(schema).expect("the schema is JSON");
    let validator = jsonschema::validator_for(&schema).expect("the schema is one");
    for data in [one_parameter(), two_parameters()] {
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
    let text = terminal::render(&summary, &data, &terminal::TerminalOptions::default());
    assert!(text.contains("loss under wan: goodput, Mbit/s"), "{text}");
    assert!(
        text.contains("`quic-quinn` overtakes `tcp` above"),
        "{text}"
    );
    assert!(!text.contains("Under `wan, "), "{text}");
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

#[test]
fn a_page_has_lines_and_maps_instead_of_a_panel_for_each_cell() {
    let panels = |page: &str| page.matches("<svg class=\"panel\"").count();
    let one = page("one", &one_parameter());
    assert!(one.contains("figure-sweep-0-goodput-bps"));
    assert!(panels(&one) < 6, "{}", panels(&one));
    let two = page("two", &two_parameters());
    assert!(two.contains("figure-heat-0-goodput-bps"));
    assert!(two.contains("quic-quinn ÷ tcp"));
    let many = page("many", &many());
    assert!(panels(&many) < 40, "{}", panels(&many));
    assert!(many.len() < 1_500_000, "{} bytes", many.len());
}
