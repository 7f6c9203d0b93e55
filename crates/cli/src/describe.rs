//! The plan of a run in words: `regatta run --dry-run`.

use std::{fmt::Write, time::Duration};

use regatta_engine::{Done, Plan};
use regatta_model::{
    Condition, Link, Part, Shard, Study, Transport, Workload, units::format_duration,
};

use crate::{
    output::{self, OutputError, counted},
    swept,
};

/// Most trials of a study with sweeps whose order is printed.
const MOST_LISTED: usize = 100;

/// Prints a plan: the study, then the order of its trials, or of those of a shard that are to be run. What a sweep made is one entry, and the order of
/// many trials of a sweep is left out.
///
/// # Errors
/// If standard output cannot be written.
pub fn print(plan: &Plan, shard: Option<Shard>, done: &Done) -> Result<(), OutputError> {
    output::out(&study(plan))?;
    let trials = plan.left(done);
    if let Some(shard) = shard {
        output::out(&format!(
            "  shard {shard} has {}\n",
            counted(trials.len(), "trial")
        ))?;
    }
    if !plan.study().sweeps.is_empty() && trials.len() > MOST_LISTED {
        return output::out(&format!(
            "  {} in each round, in an order that is drawn anew for each\n",
            counted(plan.cells(), "trial")
        ));
    }
    output::lines(trials.iter().map(|trial| {
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
    swept::describe(&study.sweeps, &mut text);
    text.push_str("\ntransports\n");
    let mut groups = swept::Groups::of(study, Part::Transport);
    for transport in &study.transports {
        if let Some(name) = groups.heading(&transport.label) {
            describe_transport(&mut text, &name, transport);
        }
    }
    text.push_str("conditions\n");
    let mut groups = swept::Groups::of(study, Part::Condition);
    for condition in &study.conditions {
        if let Some(name) = groups.heading(&condition.name) {
            describe_condition(&mut text, &name, condition);
        }
    }
    text.push_str("workloads\n");
    let mut groups = swept::Groups::of(study, Part::Workload);
    for workload in &study.workloads {
        if let Some(name) = groups.heading(&workload.name) {
            describe_workload(&mut text, &name, workload, study.deadline);
        }
    }
    text.push_str("order\n");
    text
}

fn describe_transport(text: &mut String, name: &str, transport: &Transport) {
    let options: Vec<String> = transport
        .options
        .iter()
        .map(|(name, value)| format!(" {name}={value}"))
        .collect();
    let _ = writeln!(
        text,
        "  {name}: driver {}{}",
        transport.driver,
        options.concat()
    );
}

fn describe_condition(text: &mut String, name: &str, condition: &Condition) {
    let _ = writeln!(
        text,
        "  {name}: round-trip delay {}, packets of at most {} bytes",
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

fn describe_workload(text: &mut String, name: &str, workload: &Workload, deadline: Duration) {
    let _ = writeln!(
        text,
        "  {name}: {}, deadline {}",
        workload.kind.in_words(),
        format_duration(deadline)
    );
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
