//! Metrics for Prometheus: served as OpenMetrics or in the older text format, or written to a file for node_exporter.
//!
//! Units are Prometheus's base units. An unknown value has no sample. A trial's number is no label, so that the number of
//! series is that of the study's cells.

use std::{collections::BTreeMap, fmt::Write as _, path::Path};

use hyper::{StatusCode, header};
use regatta_model::Unit;
use regatta_results::replace_unflushed;

use crate::{
    error::LiveError,
    http::{self, Body, Request, Response},
    model::{Activity, LiveCell, LiveRun, LiveTrial},
    shared::Shared,
};

/// Text format of the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus text format 0.0.4, which node_exporter and `promtool` read.
    Text,
}

impl Format {
    const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Answers a request of Prometheus.
pub fn answer(shared: &Shared, request: &Request) -> Response {
    if request.uri().path() != "/metrics" {
        return http::not_found();
    }
    let accepted = request.headers().get(header::ACCEPT);
    let format = match accepted.and_then(|it| it.to_str().ok()) {
        Some(accepted) if accepted.contains("application/openmetrics-text") => Format::OpenMetrics,
        _ => Format::Text,
    };
    let body = Body::Text(Some(render(&shared.run(), format).into()));
    http::response(StatusCode::OK, format.content_type(), body)
}

/// Checks that the text file can be written, with its directory.
///
/// # Errors
/// [`LiveError::Textfile`].
pub fn check_textfile(path: &Path) -> Result<(), LiveError> {
    replace_unflushed(path, b"").map_err(|source| LiveError::Textfile {
        path: path.to_owned(),
        source,
    })
}

/// Writes the text file. A failure, such as of a full disk, leaves the file as it was and does not concern the run.
pub fn write_textfile(path: &Path, run: &LiveRun) {
    let _ = replace_unflushed(path, render(run, Format::Text).as_bytes());
}

/// Returns the unit with which the name of a family ends; empty without one.
fn unit_of(name: &str) -> &'static str {
    // Of those that another one ends with, the longer one is the first.
    let units = ["bytes_per_second", "packets", "seconds", "bytes", "ratio"];
    let unit = units.into_iter().find(|unit| name.ends_with(unit));
    unit.unwrap_or_default()
}

/// Kind of a family of metrics.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Gauge,
    Info,
}

/// Text of the metrics, family by family.
struct Exposition {
    text: String,
    format: Format,
    /// Name of the samples of the family under way.
    sample: String,
}

impl Exposition {
    /// Begins a family. `name` has no suffix but that of the unit.
    fn family(&mut self, name: &str, unit: &str, kind: Kind, help: &str) {
        let suffix = match kind {
            Kind::Gauge => "",
            Kind::Info => "_info",
        };
        self.sample = format!("regatta_{name}{suffix}");
        let is_open = self.format == Format::OpenMetrics;
        let family = match is_open {
            true => format!("regatta_{name}"),
            // The older format knows no suffixes, and no kind of information.
            false => self.sample.clone(),
        };
        let kind = match kind {
            Kind::Info if is_open => "info",
            Kind::Gauge | Kind::Info => "gauge",
        };
        let _ = writeln!(self.text, "# TYPE {family} {kind}");
        if is_open && !unit.is_empty() {
            let _ = writeln!(self.text, "# UNIT {family} {unit}");
        }
        let _ = writeln!(self.text, "# HELP {family} {help}");
    }

    /// Adds a sample to the family.
    fn sample(&mut self, labels: &[(&str, &str)], value: f64) {
        self.text.push_str(&self.sample);
        for (position, (name, value)) in labels.iter().enumerate() {
            self.text.push(if position == 0 { '{' } else { ',' });
            let _ = write!(self.text, "{name}=\"");
            for character in value.chars() {
                match character {
                    '\\' => self.text.push_str("\\\\"),
                    '"' => self.text.push_str("\\\""),
                    '\n' => self.text.push_str("\\n"),
                    other => self.text.push(other),
                }
            }
            self.text.push('"');
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }

    /// Adds a family of one gauge, if it has a value.
    fn gauge(&mut self, name: &str, help: &str, labels: &[(&str, &str)], value: Option<f64>) {
        if let Some(value) = value {
            self.family(name, unit_of(name), Kind::Gauge, help);
            self.sample(labels, value);
        }
    }
}

/// Returns the metrics of a run.
pub fn render(run: &LiveRun, format: Format) -> String {
    let mut out = Exposition {
        text: String::new(),
        format,
        sample: String::new(),
    };
    let now = &run.now;
    // Before the run has begun there is no value.
    if now.started_unix_ns != 0 {
        out.family("run", "", Kind::Info, "Study and bed of the run.");
        let labels = [
            ("study", &*now.study),
            ("bed", &*now.bed),
            ("version", &*now.version),
        ];
        out.sample(&labels, 1.0);
        let help = "Start of the run, since the Unix epoch.";
        let started = Some(now.started_unix_ns as f64 / 1e9);
        out.gauge("run_start_time_seconds", help, &[], started);
        let is_running = !matches!(now.activity, Activity::Ended { .. });
        let help = "Whether the run goes on.";
        out.gauge("run_running", help, &[], Some(f64::from(is_running)));
        let help = "Trials of the run, those done included.";
        out.gauge("run_trials", help, &[], Some(now.trials.into()));
        let help = "Trials of the run that are done, each once.";
        out.gauge("run_trials_done", help, &[], Some(now.done.into()));
        if let Activity::Shards(counts) = &now.activity {
            let help = "Shards of the plan by their state.";
            out.family("run_shards", "", Kind::Gauge, help);
            for (state, count) in counts.named() {
                out.sample(&[("state", state)], count.into());
            }
        }
        let help = "Estimated end of the run, since the Unix epoch.";
        let ends = now.ends_unix_ns.map(|ends| ends as f64 / 1e9);
        out.gauge("run_end_time_seconds", help, &[], ends);
        if let Some(trial) = now.trial() {
            write_trial(&mut out, trial);
        }
        write_cells(&mut out, &run.cells);
    }
    if format == Format::OpenMetrics {
        out.text.push_str("# EOF\n");
    }
    out.text
}

fn write_trial(out: &mut Exposition, trial: &LiveTrial) {
    let cell = labels([&trial.transport, &trial.condition, &trial.workload]);
    let mut gauge = |name, help, value: Option<f64>| out.gauge(name, help, &cell, value);
    let float = |value: Option<u64>| value.map(|value| value as f64);
    let seconds = |ns: Option<u64>| float(ns).map(|ns| ns / 1e9);
    let help = "Time since the transfer under way began.";
    gauge("trial_elapsed_seconds", help, seconds(trial.elapsed_ns));
    let help = "Bytes that the transfer under way has delivered to the application.";
    gauge("trial_delivered_bytes", help, float(trial.delivered_bytes));
    let help = "Goodput of the trial under way, over the last quarter of a second.";
    let goodput = trial.goodput_bps.map(|rate| rate / 8.0);
    gauge("trial_goodput_bytes_per_second", help, goodput);
    let help = "Congestion window of the sender.";
    let window = float(trial.congestion_window_bytes);
    gauge("trial_congestion_window_bytes", help, window);
    let help = "Smoothed round-trip time of the sender.";
    let rtt = seconds(trial.smoothed_rtt_ns);
    gauge("trial_smoothed_rtt_seconds", help, rtt);
    let help = "Bytes that the sender has in flight.";
    gauge("trial_in_flight_bytes", help, float(trial.bytes_in_flight));
    let help = "Packets that the sender has sent again in this trial.";
    let retransmitted = float(trial.retransmitted_packets);
    gauge("trial_retransmitted_packets", help, retransmitted);
    let mut gauge_pair = |name, help, label, values: [(&str, Option<f64>); 2]| {
        if values.iter().all(|(_, value)| value.is_none()) {
            return;
        }
        out.family(name, unit_of(name), Kind::Gauge, help);
        for (label_value, value) in values {
            if let Some(value) = value {
                out.sample(&[&cell[..], &[(label, label_value)]].concat(), value);
            }
        }
    };
    let dropped = |direction: usize| trial.dropped.map(|packets| packets[direction] as f64);
    gauge_pair(
        "trial_path_dropped_packets",
        "Packets that the path has dropped in this trial, for whatever cause.",
        "direction",
        [("forward", dropped(0)), ("reverse", dropped(1))],
    );
    gauge_pair(
        "trial_cpu_ratio",
        "CPU time of the process of an end over time; 1 is one core.",
        "end",
        [
            ("sender", trial.cpu_sender_ratio),
            ("receiver", trial.cpu_receiver_ratio),
        ],
    );
}

fn write_cells(out: &mut Exposition, cells: &[LiveCell]) {
    if cells.iter().any(|cell| !cell.outcomes.is_empty()) {
        let help = "Trials done, by the outcome of their last attempt.";
        out.family("cell_trials", "", Kind::Gauge, help);
        for cell in cells {
            for (outcome, count) in &cell.outcomes {
                let labels = [&cell_labels(cell)[..], &[("outcome", &**outcome)]].concat();
                out.sample(&labels, *count as f64);
            }
        }
    }
    let metrics: BTreeMap<&str, Unit> = cells.iter().map(|it| (&*it.metric, it.unit)).collect();
    for (metric, unit) in metrics {
        let (base, unit, factor) = base_unit(metric, unit);
        let separator = if unit.is_empty() { "" } else { "_" };
        let mut write_part = |part, help, value: fn(&LiveCell) -> Option<f64>| {
            let cells = cells.iter().filter(|cell| cell.metric == metric);
            let mut known = cells
                .filter_map(|cell| Some((cell, value(cell)?)))
                .peekable();
            if known.peek().is_some() {
                let name = format!("cell_{part}_{base}{separator}{unit}");
                out.family(&name, unit, Kind::Gauge, help);
            }
            for (cell, value) in known {
                out.sample(&cell_labels(cell), value * factor);
            }
        };
        let help = "Geometric mean over the trials so far.";
        write_part("mean", help, |cell| cell.value);
        let help = "Lower end of the 95 % interval of the mean.";
        write_part("ci95_lower", help, |cell| Some(cell.interval?[0]));
        let help = "Upper end of the 95 % interval of the mean.";
        write_part("ci95_upper", help, |cell| Some(cell.interval?[1]));
    }
}

fn cell_labels(cell: &LiveCell) -> [(&'static str, &str); 3] {
    labels([&cell.transport, &cell.condition, &cell.workload])
}

fn labels([transport, condition, workload]: [&String; 3]) -> [(&'static str, &str); 3] {
    [
        ("transport", transport),
        ("condition", condition),
        ("workload", workload),
    ]
}

/// Returns the name of a metric without its unit, Prometheus's base unit, and the factor of its values.
fn base_unit(metric: &str, unit: Unit) -> (&str, &'static str, f64) {
    let (suffix, base, factor) = match unit {
        Unit::BitsPerSecond => ("_bps", "bytes_per_second", 1.0 / 8.0),
        Unit::Nanoseconds => ("_ns", "seconds", 1e-9),
        Unit::NanosecondsPerByte => ("_ns_per_byte", "seconds_per_byte", 1e-9),
        Unit::Bytes => ("_bytes", "bytes", 1.0),
        Unit::Ratio | Unit::CoreRatio => ("_ratio", "ratio", 1.0),
        Unit::PerSecond | Unit::Count => ("", "", 1.0),
    };
    (metric.strip_suffix(suffix).unwrap_or(metric), base, factor)
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet,
        io::Write as _,
        process::{Command, Stdio},
    };

    use super::*;
    use crate::{model::ShardCounts, tests::under_way};

    /// Checks a text against OpenMetrics: no family is split or repeated, `# EOF` last, no sample twice, labels escaped.
    /// Returns the samples.
    fn checked(text: &str) -> Vec<(String, f64)> {
        let body = text.strip_suffix("# EOF\n").expect("`# EOF` is last");
        let mut families = BTreeSet::new();
        let mut family = String::new();
        let mut samples: Vec<(String, f64)> = Vec::new();
        for line in body.lines() {
            if let Some(comment) = line.strip_prefix("# ") {
                let [keyword, name, rest] = comment.splitn(3, ' ').collect::<Vec<_>>()[..] else {
                    panic!("{line}");
                };
                match keyword {
                    "TYPE" => {
                        assert!(["gauge", "info"].contains(&rest), "{line}");
                        assert!(families.insert(name.to_owned()), "{name} twice");
                        family = name.to_owned();
                    }
                    "UNIT" => assert!(name.ends_with(&format!("_{rest}")), "{line}"),
                    "HELP" => {}
                    _ => panic!("{line}"),
                }
                assert_eq!(name, family);
                continue;
            }
            let (series, value) = line.rsplit_once(' ').expect("a value");
            let name = series.split('{').next().unwrap_or_default();
            let suffix = name.strip_prefix(&family).expect("a sample of the family");
            assert!(["", "_info"].contains(&suffix), "{line}");
            assert!(
                samples.iter().all(|(known, _)| known != series),
                "{series} twice"
            );
            samples.push((series.to_owned(), value.parse().expect("a number")));
        }
        samples
    }

    #[test]
    fn metrics_are_valid_open_metrics_in_base_units() {
        let run = under_way().run;
        let samples = checked(&render(&run, Format::OpenMetrics));
        let value = |start: &str| {
            let found = samples.iter().find(|(series, _)| series.starts_with(start));
            found.map(|(_, value)| *value)
        };
        assert_eq!(value("regatta_trial_goodput_bytes_per_second{"), Some(5e6));
        assert_eq!(value("regatta_trial_smoothed_rtt_seconds{"), Some(0.011));
        assert_eq!(value("regatta_run_trials_done"), Some(4.0));
        assert_eq!(value("regatta_run_running"), Some(1.0));
        let mean = value("regatta_cell_mean_goodput_bytes_per_second{transport=\"tcp\"");
        assert_eq!(mean, run.cells[0].value.map(|rate| rate / 8.0));
        let quoted = r#"regatta_cell_trials{transport="a \"quoted\" name",condition="near",workload="bulk",outcome="measured"}"#;
        assert_eq!(value(quoted), Some(2.0));
        // An unknown value has no sample.
        assert_eq!(value("regatta_trial_in_flight_bytes"), None);
        assert!(
            samples
                .iter()
                .all(|(series, _)| !series.contains("end=\"receiver\""))
        );
        assert_eq!(render(&LiveRun::default(), Format::OpenMetrics), "# EOF\n");
    }

    /// `make test` installs promtool, which reads the older format.
    #[test]
    fn promtool_reports_no_problems() {
        let mut run = under_way().run;
        let mut text = render(&run, Format::Text);
        let counts = ShardCounts {
            running: 2,
            ..ShardCounts::default()
        };
        run.now.activity = Activity::Shards(counts);
        let shards = render(&run, Format::Text);
        let families = shards.split("# TYPE ");
        text.extend(
            families
                .filter(|family| family.starts_with("regatta_run_shards"))
                .map(|family| format!("# TYPE {family}")),
        );
        assert!(
            text.contains("\nregatta_run_shards{state=\"running\"} 2\n"),
            "{text}"
        );
        let mut promtool = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("promtool is installed by `scripts/need promtool`");
        let mut input = promtool.stdin.take().expect("its input");
        input.write_all(text.as_bytes()).expect("it reads");
        drop(input);
        let output = promtool.wait_with_output().expect("it ends");
        let messages = [output.stdout, output.stderr].concat();
        assert!(
            output.status.success(),
            "{}\n{text}",
            String::from_utf8_lossy(&messages)
        );
        assert!(
            messages.is_empty(),
            "{}",
            String::from_utf8_lossy(&messages)
        );
    }

    #[test]
    fn metrics_of_the_dashboard_exist() {
        let mut run = under_way().run;
        if let Activity::Trial(trial) = &mut run.now.activity {
            trial.bytes_in_flight = Some(1);
        }
        let text = render(&run, Format::Text);
        let dashboard = include_str!("../../../docs/grafana-dashboard.json");
        let is_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
        let names = dashboard.split(|character| !is_name(character));
        let used: BTreeSet<_> = names.filter(|name| name.starts_with("regatta_")).collect();
        assert!(used.len() > 10, "{used:?}");
        for name in used {
            assert!(
                text.contains(&format!("# TYPE {name} ")),
                "there is no `{name}`"
            );
        }
    }

    #[test]
    fn text_file_is_replaced_atomically() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("regatta.prom");
        check_textfile(&path).expect("it can be written");
        let run = under_way().run;
        write_textfile(&path, &run);
        let text = std::fs::read_to_string(&path).expect("a file");
        assert_eq!(text, render(&run, Format::Text));
        assert_eq!(
            std::fs::read_dir(dir.path()).expect("a directory").count(),
            1
        );
        assert!(check_textfile(&dir.path().join("none/regatta.prom")).is_err());
    }
}
