//! The plan of a run in words: `regatta run --dry-run`.

use std::{fmt::Write, time::Duration};

use regatta_engine::Plan;
use regatta_model::{Condition, Link, Study, units::format_duration};

use crate::output::{self, OutputError, counted};

/// Prints a plan: the study, then the order of its trials.
///
/// # Errors
/// If standard output cannot be written.
pub fn print(plan: &Plan) -> Result<(), OutputError> {
    output::out(&study(plan))?;
    output::lines(plan.trials().iter().map(|trial| {
        format!(
            "  {:>4}  round {}  {} · {} · {}",
            trial.index + 1,
            trial.round + 1,
            plan.transport(trial.cell).label,
            plan.condition(trial.cell).name,
            plan.workload(trial.cell).name
        )
    }))
}

/// The study of a plan in words, up to the order of its trials.
fn study(plan: &Plan) -> String {
    let study = plan.study();
    let mut text = String::new();
    let _ = writeln!(text, "{}: {}", study.name, study.title);
    let _ = writeln!(
        text,
        "{}: {} of {}, at most {} if every transfer takes its whole deadline of {}, seed {}",
        counted(plan.trials().len(), "trial"),
        counted(study.rounds as usize, "round"),
        counted(plan.cells(), "cell"),
        format_duration(Duration::from_secs(plan.longest_time().as_secs())),
        format_duration(study.deadline),
        study.seed
    );
    if let Some(until) = study.until {
        let _ = writeln!(
            text,
            "fewer rounds, from {} on, if every interval is ± {until} or narrower by then",
            Study::LEAST_ROUNDS
        );
    }
    if let Some(capture) = study.capture {
        let _ = writeln!(
            text,
            "every trial is captured in `files/`: {}",
            match capture.snap_bytes {
                None => "whole packets".to_owned(),
                Some(bytes) => format!("the first {bytes} bytes of each packet"),
            }
        );
    }
    text.push_str("\ntransports\n");
    for transport in &study.transports {
        let options: Vec<String> = transport
            .options
            .iter()
            .map(|(name, value)| format!(" {name}={value}"))
            .collect();
        let _ = writeln!(
            text,
            "  {}: driver {}{}",
            transport.label,
            transport.driver,
            options.concat()
        );
    }
    text.push_str("conditions\n");
    for condition in &study.conditions {
        let _ = writeln!(
            text,
            "  {}: round-trip delay {}, packets of at most {} bytes",
            condition.name,
            format_duration(condition.round_trip_delay()),
            condition.mtu_bytes
        );
        for (number, setting) in condition.settings().enumerate() {
            let indent = if number == 0 {
                "    "
            } else {
                let _ = writeln!(text, "    from {} on", format_duration(setting.at));
                "      "
            };
            for (way, link) in [("forward", setting.forward), ("reverse", setting.reverse)] {
                let _ = writeln!(text, "{indent}{way}: {}", link_in_words(condition, link));
            }
        }
    }
    text.push_str("workloads\n");
    for workload in &study.workloads {
        let _ = writeln!(
            text,
            "  {}: {}, deadline {}",
            workload.name,
            workload.kind.in_words(),
            format_duration(study.deadline)
        );
    }
    text.push_str("order\n");
    text
}

fn link_in_words(condition: &Condition, link: &Link) -> String {
    let mut parts = vec![format!("delay {}", format_duration(link.delay))];
    if !link.jitter.is_zero() {
        parts[0] += &format!(" ± {}", format_duration(link.jitter));
    }
    parts.push(format!("rate {}", link.rate_in_words()));
    let queue = link.queue_in_words(condition.queue_limit(link));
    parts.push(format!("queue {queue}"));
    parts.push(format!("loss {}", link.loss));
    parts.extend(link.particulars());
    parts.join(", ")
}
