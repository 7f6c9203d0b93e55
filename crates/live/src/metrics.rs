//! Metrics for Prometheus: served as OpenMetrics or in the older text format, or written to a file for node_exporter.
//!
//! Units are Prometheus's base units. What is not known has no sample. A trial's number is no label, so that the number of
//! series is that of the study's cells.

use std::{fmt::Write as _, io, path::Path, sync::Arc};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, header},
    response::IntoResponse,
    routing::get,
};
use regatta_model::Unit;

use crate::{
    error::LiveError,
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

/// Returns the pages of Prometheus.
pub fn router(shared: &Arc<Shared>) -> Router {
    Router::new()
        .route("/metrics", get(serve))
        .with_state(Arc::clone(shared))
}

async fn serve(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> impl IntoResponse {
    let accepted = headers.get(header::ACCEPT).and_then(|it| it.to_str().ok());
    let format = match accepted {
        Some(accepted) if accepted.contains("application/openmetrics-text") => Format::OpenMetrics,
        _ => Format::Text,
    };
    let text = render(&shared.run(), format);
    ([(header::CONTENT_TYPE, format.content_type())], text)
}

/// Checks that the text file can be written, with its directory.
///
/// # Errors
/// [`LiveError::Textfile`].
pub fn check_textfile(path: &Path) -> Result<(), LiveError> {
    replace(path, "").map_err(|source| LiveError::Textfile {
        path: path.to_owned(),
        source,
    })
}

/// Writes the text file. A failure, such as of a full disk, leaves the file as it was and does not concern the run.
pub fn write_textfile(path: &Path, run: &LiveRun) {
    let _ = replace(path, &render(run, Format::Text));
}

/// Writes a file beside its place and moves it there, so that a reader sees the old one or the new one. It is not flushed
/// to the disk.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}", std::process::id()));
    std::fs::write(&beside, text)
        .and_then(|()| std::fs::rename(&beside, path))
        .inspect_err(|_| {
            let _ = std::fs::remove_file(&beside);
        })
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
    fn gauge(
        &mut self,
        (name, unit, help): (&str, &str, &str),
        labels: &[(&str, &str)],
        value: Option<f64>,
    ) {
        if let Some(value) = value {
            self.family(name, unit, Kind::Gauge, help);
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
    // Before the run has begun nothing is known of it.
    if now.started_unix_ns != 0 {
        out.family("run", "", Kind::Info, "Study and bed of the run.");
        let labels = [
            ("study", &*now.study),
            ("bed", &*now.bed),
            ("version", &*now.version),
        ];
        out.sample(&labels, 1.0);
        let started = Some(seconds(now.started_unix_ns as f64));
        let help = "Start of the run, since the Unix epoch.";
        out.gauge(("run_start_time_seconds", "seconds", help), &[], started);
        let running = f64::from(u8::from(!matches!(now.activity, Activity::Ended { .. })));
        let help = "Whether the run goes on.";
        out.gauge(("run_running", "", help), &[], Some(running));
        let help = "Trials of the run, those done included.";
        out.gauge(("run_trials", "", help), &[], Some(f64::from(now.trials)));
        let help = "Trials of the run that are done, each once.";
        out.gauge(
            ("run_trials_done", "", help),
            &[],
            Some(f64::from(now.done)),
        );
        if let Activity::Shards(counts) = &now.activity {
            let help = "Shards of the plan by their state.";
            out.family("run_shards", "", Kind::Gauge, help);
            for (state, count) in counts.named() {
                out.sample(&[("state", state)], f64::from(count));
            }
        }
        let ends = now.ends_unix_ns.map(|ends| seconds(ends as f64));
        let help = "Estimated end of the run, since the Unix epoch.";
        out.gauge(("run_end_time_seconds", "seconds", help), &[], ends);
        if let Some(trial) = now.trial() {
            of_trial(&mut out, trial);
        }
        of_cells(&mut out, &run.cells);
    }
    if format == Format::OpenMetrics {
        out.text.push_str("# EOF\n");
    }
    out.text
}

fn of_trial(out: &mut Exposition, trial: &LiveTrial) {
    let cell = [
        ("transport", &*trial.transport),
        ("condition", &*trial.condition),
        ("workload", &*trial.workload),
    ];
    let whole = |value: Option<u64>| value.map(|value| value as f64);
    let families = [
        (
            (
                "trial_elapsed_seconds",
                "seconds",
                "Time since the transfer under way began.",
            ),
            trial.elapsed_ns.map(|ns| seconds(ns as f64)),
        ),
        (
            (
                "trial_delivered_bytes",
                "bytes",
                "Bytes that the transfer under way has delivered to the application.",
            ),
            whole(trial.delivered_bytes),
        ),
        (
            (
                "trial_goodput_bytes_per_second",
                "bytes_per_second",
                "Goodput of the trial under way, over the last quarter of a second.",
            ),
            trial.goodput_bps.map(|rate| rate / 8.0),
        ),
        (
            (
                "trial_congestion_window_bytes",
                "bytes",
                "Congestion window of the sender.",
            ),
            whole(trial.congestion_window_bytes),
        ),
        (
            (
                "trial_smoothed_rtt_seconds",
                "seconds",
                "Smoothed round-trip time of the sender.",
            ),
            trial.smoothed_rtt_ns.map(|ns| seconds(ns as f64)),
        ),
        (
            (
                "trial_in_flight_bytes",
                "bytes",
                "Bytes that the sender has in flight.",
            ),
            whole(trial.bytes_in_flight),
        ),
        (
            (
                "trial_retransmitted_packets",
                "packets",
                "Packets that the sender has sent again in this trial.",
            ),
            whole(trial.retransmitted_packets),
        ),
    ];
    for (family, value) in families {
        out.gauge(family, &cell, value);
    }
    let mut of_two = |name, unit, help, label, values: [(&str, Option<f64>); 2]| {
        if values.iter().all(|(_, value)| value.is_none()) {
            return;
        }
        out.family(name, unit, Kind::Gauge, help);
        for (which, value) in values {
            if let Some(value) = value {
                let mut labels = cell.to_vec();
                labels.push((label, which));
                out.sample(&labels, value);
            }
        }
    };
    let dropped = |way: usize| trial.dropped.map(|packets| packets[way] as f64);
    of_two(
        "trial_path_dropped_packets",
        "packets",
        "Packets that the path has dropped in this trial, for whatever cause.",
        "direction",
        [("forward", dropped(0)), ("reverse", dropped(1))],
    );
    of_two(
        "trial_cpu_ratio",
        "ratio",
        "CPU time of the process of an end over time; 1 is one core.",
        "end",
        [
            ("sender", trial.cpu_sender_ratio),
            ("receiver", trial.cpu_receiver_ratio),
        ],
    );
}

/// Function that returns a value of a cell.
type Value = fn(&LiveCell) -> Option<f64>;

fn of_cells(out: &mut Exposition, cells: &[LiveCell]) {
    if cells.iter().any(|cell| !cell.outcomes.is_empty()) {
        let help = "Trials done, by the outcome of their last attempt.";
        out.family("cell_trials", "", Kind::Gauge, help);
        for cell in cells {
            for (outcome, count) in &cell.outcomes {
                let labels = [&labels(cell)[..], &[("outcome", &**outcome)]].concat();
                out.sample(&labels, *count as f64);
            }
        }
    }
    let mut metrics: Vec<&str> = cells.iter().map(|cell| &*cell.metric).collect();
    metrics.sort_unstable();
    metrics.dedup();
    for metric in metrics {
        let of_metric = || cells.iter().filter(|cell| cell.metric == metric);
        let Some(first) = of_metric().next() else {
            continue;
        };
        let (base, unit, factor) = base_unit(metric, first.unit);
        let name = match unit {
            "" => base.to_owned(),
            unit => format!("{base}_{unit}"),
        };
        let parts: [(&str, &str, Value); 3] = [
            ("mean", "Geometric mean over the trials so far.", |cell| {
                cell.value
            }),
            (
                "ci95_lower",
                "Lower end of the 95 % interval of the mean.",
                |cell| cell.interval.map(|ends| ends[0]),
            ),
            (
                "ci95_upper",
                "Upper end of the 95 % interval of the mean.",
                |cell| cell.interval.map(|ends| ends[1]),
            ),
        ];
        for (part, help, value) in parts {
            let values: Vec<_> = of_metric()
                .filter_map(|cell| Some((cell, value(cell)?)))
                .collect();
            if values.is_empty() {
                continue;
            }
            out.family(&format!("cell_{part}_{name}"), unit, Kind::Gauge, help);
            for (cell, value) in values {
                out.sample(&labels(cell), value * factor);
            }
        }
    }
}

fn labels(cell: &LiveCell) -> [(&str, &str); 3] {
    [
        ("transport", &cell.transport),
        ("condition", &cell.condition),
        ("workload", &cell.workload),
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

fn seconds(nanoseconds: f64) -> f64 {
    nanoseconds / 1e9
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet,
        io::Write as _,
        process::{Command, Stdio},
    };

    use super::*;
    use crate::{model::ShardCounts, testing::under_way};

    /// Checks a text against OpenMetrics: families whole and once, `# EOF` last, no sample twice, labels escaped.
    /// Returns the samples.
    fn checked(text: &str) -> Vec<(String, f64)> {
        let body = text.strip_suffix("# EOF\n").expect("`# EOF` is last");
        let mut families = BTreeSet::new();
        let mut family = String::new();
        let mut samples: Vec<(String, f64)> = Vec::new();
        for line in body.lines() {
            if let Some(about) = line.strip_prefix("# ") {
                let [keyword, name, rest] = about.splitn(3, ' ').collect::<Vec<_>>()[..] else {
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
    fn metrics_are_open_metrics_in_base_units() {
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
        // What is not known has no sample.
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
    fn promtool_has_no_complaint() {
        let mut run = under_way().run;
        let mut text = render(&run, Format::Text);
        let counts = ShardCounts {
            running: 2,
            ..ShardCounts::default()
        };
        run.now.activity = Activity::Shards(counts);
        let of_shards = render(&run, Format::Text);
        let families = of_shards.split("# TYPE ");
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
        let said = [output.stdout, output.stderr].concat();
        assert!(
            output.status.success(),
            "{}\n{text}",
            String::from_utf8_lossy(&said)
        );
        assert!(said.is_empty(), "{}", String::from_utf8_lossy(&said));
    }

    #[test]
    fn the_dashboard_asks_for_metrics_that_there_are() {
        let mut run = under_way().run;
        if let Activity::Trial(trial) = &mut run.now.activity {
            trial.bytes_in_flight = Some(1);
        }
        let text = render(&run, Format::Text);
        let dashboard = include_str!("../../../docs/grafana-dashboard.json");
        let is_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
        let names = dashboard.split(|character| !is_name(character));
        let asked: BTreeSet<_> = names.filter(|name| name.starts_with("regatta_")).collect();
        assert!(asked.len() > 10, "{asked:?}");
        for name in asked {
            assert!(
                text.contains(&format!("# TYPE {name} ")),
                "there is no `{name}`"
            );
        }
    }

    #[test]
    fn the_text_file_is_replaced_as_a_whole() {
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
