//! Writes the reports of the tests' fixed results, for inspection: `cargo run -p regatta-report
//! --example fixture -- DIR`. `regatta-typeset < job.json > report.pdf` makes their PDF. Given a
//! result directory, writes its reports again.

#[path = "../tests/common/mod.rs"]
mod common;

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use regatta_model::{Bytes, Condition, Spread, Step, Transport, Workload, WorkloadKind};
use regatta_report::{
    RunData,
    language::{self, Language},
    pdf::{self, Paper},
    summarise, terminal,
};

fn main() -> Result<(), Box<dyn Error>> {
    let dir = PathBuf::from(std::env::args().nth(1).ok_or("a directory is needed")?);
    if dir.join(regatta_results::FILE_NAME).exists() {
        // A result directory: its own reports are made again.
        let written = regatta_report::write_all(&dir)?;
        let options = terminal::TerminalOptions::default();
        print!(
            "{}",
            terminal::render(&written.summary, &written.data, &options)
        );
        return Ok(());
    }
    for (name, data) in [
        ("full", common::full()),
        ("on-hosts", common::on_hosts()),
        ("one-round", common::one_round()),
        ("one-trial", common::one_trial()),
        ("empty", common::empty()),
        ("unsupported", common::unsupported()),
        ("hostile", common::hostile()),
        ("many", many()),
    ] {
        for language in [Language::English, Language::Russian] {
            let dir = dir.join(name).join(language.tag());
            language::with(language, || write(&data, &dir))?;
        }
    }
    Ok(())
}

/// Creates a run of two rounds that contradict one another, with long labels, a path with a schedule, bursts, and the
/// same messages over 1 and over 8 streams.
fn many() -> RunData {
    let mut study = common::study();
    study.rounds = 2;
    study.published.clear();
    let lossy = study.conditions.remove(1);
    let first = study.conditions[0].clone();
    let step = |ms, condition: &Condition| Step {
        at: Duration::from_millis(ms),
        forward: condition.forward.clone(),
        reverse: condition.reverse.clone(),
    };
    study.conditions[0].schedule = vec![step(1500, &lossy), step(3000, &first)];
    for window in [1, 16] {
        study.transports.push(Transport {
            label: format!("tcp:cc=cubic:receive_window={window}MB:no_delay=true"),
            driver: "tcp".to_owned(),
            options: Default::default(),
        });
    }
    let workload = study.workloads[0].clone();
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
    let mut data = common::run(study, |_| None);
    for trial in &mut data.trials {
        let round = f64::from(trial.round);
        let factor = (1.0 + round * trial.transport.len() as f64 / 4.0).powi(2);
        let metrics = &mut trial.measurements.metrics;
        if trial.workload.starts_with("streams") {
            let share = if trial.workload.ends_with('8') {
                0.5
            } else {
                1.0
            };
            let delay = (40.0 + round / 50.0) * 1e6 * share;
            *metrics = [("message_delay_p95_ns".to_owned(), delay)].into();
        } else if let Some(goodput) = metrics.get_mut("goodput_bps") {
            *goodput /= factor;
        }
        for series in &mut trial.measurements.series {
            if series.name == "goodput_bps" && trial.transport == "quic-quinn" {
                series.values[2] = 128e6;
            }
        }
    }
    data
}

/// Writes the reports of a run, and shows its tables.
fn write(data: &RunData, dir: &Path) -> Result<(), Box<dyn Error>> {
    let summary = summarise(data);
    fs::create_dir_all(dir)?;
    regatta_report::write_html(data, &summary, dir)?;
    regatta_report::write_summary(&summary, dir)?;
    fs::write(dir.join("job.json"), pdf::job(data, &summary, Paper::A4)?)?;
    println!("== {}", dir.display());
    let options = terminal::TerminalOptions::default();
    print!("{}", terminal::render(&summary, data, &options));
    Ok(())
}
