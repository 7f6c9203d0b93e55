//! Text of the plan of a run: `regatta run --dry-run`.

use std::{fmt::Write, time::Duration};

use regatta_engine::{CutTransfers, Done, Plan};
use regatta_live::coarse_duration;
use regatta_model::{
    BitRate, Bytes, CellEnd, Clock, Condition, Direction, HostTuning, Link, Part, Shard, Study,
    Transport, Until, Warning, WorkloadKind,
    units::{format_duration, nanoseconds},
};
use serde::Serialize;

use super::checks::UnsupportedCell;
use crate::{
    exit::Result,
    output::{self, counted},
    study::sweeps,
};

/// Maximum number of trials of a study with sweeps whose order is printed.
const MAX_LISTED: usize = 100;

/// Prints a plan: the study, then the order of the trials that `done` leaves. What a sweep made is one
/// entry, and the order of many trials of a sweep is left out.
///
/// # Errors
/// If standard output cannot be written.
pub fn print(
    plan: &Plan,
    jobs: u32,
    shard: Option<Shard>,
    done: &Done,
    unsupported: &[UnsupportedCell],
) -> Result<()> {
    let mut text = study(plan, jobs, done);
    describe_unsupported(&mut text, unsupported);
    let trials = plan.remaining_trials(done);
    if let Some(shard) = shard {
        let _ = writeln!(text, "shard {shard} has {}", counted(trials.len(), "trial"));
    }
    text.push_str("order\n");
    output::out(&text)?;
    if !plan.study().sweeps.is_empty() && trials.len() > MAX_LISTED {
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

/// Returns the estimate of the run, in one line.
pub fn estimate(plan: &Plan, jobs: u32, done: &Done) -> String {
    let estimate = plan.estimate(done, jobs);
    let noise = match estimate.noise {
        Bytes(0) => String::new(),
        size => format!(", {} of files of white noise", about(size)),
    };
    format!(
        "estimate: {}, {} of payload, {} of results{noise}{}",
        coarse_duration(estimate.time),
        about(estimate.sent),
        about(estimate.disk),
        match plan.study().guest.clock {
            Clock::Virtual => " (time of this machine, which the virtual clock does not follow)",
            Clock::Real => "",
        }
    )
}

/// Returns a line for each cell whose transfers the deadline probably ends, and one before them; nothing if it ends none.
pub fn cut_transfers(plan: &Plan) -> Vec<String> {
    /// Maximum number of cells that are listed.
    const LISTED: usize = 4;
    let cut = plan.cut_transfers();
    if cut.is_empty() {
        return Vec::new();
    }
    let deadline = format_duration(plan.study().deadline);
    let several = plan.study().workloads.len() > 1;
    let of_cell = |it: &CutTransfers| {
        let transports = match &it.transports[..] {
            [first, second, third, others @ ..] if others.len() > 1 => {
                format!("{first}, {second}, {third} and {} others", others.len())
            }
            all => all.join(", "),
        };
        let workload = match several {
            true => format!(" · {}", it.workload),
            false => String::new(),
        };
        let [time, deadline] = [coarse_duration(it.time), deadline.clone()];
        format!(
            "  {transports} · {}{workload}: {} at about {} takes {time}; the deadline is {deadline}",
            it.condition,
            it.bytes,
            about_rate(it.rate),
        )
    };
    let mut lines =
        vec!["the deadline probably ends these transfers before they are whole:".to_owned()];
    lines.extend(cut.iter().take(LISTED).map(of_cell));
    let others: usize = cut.iter().skip(LISTED).map(|it| it.transports.len()).sum();
    if others > 0 {
        lines.push(format!("  and those of {}", counted(others, "other cell")));
    }
    lines
}

/// Rounds a rate to two digits.
fn about_rate(BitRate(rate): BitRate) -> BitRate {
    BitRate(about(Bytes(rate)).0)
}

/// Rounds a size to two digits.
fn about(Bytes(bytes): Bytes) -> Bytes {
    let digits = bytes.checked_ilog10().unwrap_or(0).saturating_sub(1);
    let unit = 10_u64.pow(digits);
    Bytes((bytes + unit / 2) / unit * unit)
}

/// Text of the study of a plan, up to the order of its trials.
fn study(plan: &Plan, jobs: u32, done: &Done) -> String {
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
    let _ = writeln!(text, "{}", estimate(plan, jobs, done));
    for line in cut_transfers(plan) {
        let _ = writeln!(text, "{line}");
    }
    if let Some(every) = study.every {
        let _ = writeln!(
            text,
            "a series: a round begins every {}, {} in all",
            format_duration(every),
            format_duration(every.saturating_mul(study.rounds))
        );
    }
    if let Some(until) = study.until {
        let when = match until {
            Until::Narrow(width) => format!("every interval is ± {width} or narrower by then"),
            Until::Decided => {
                "the leader of each condition and workload is decided against every other transport"
                    .to_owned()
            }
        };
        let _ = writeln!(
            text,
            "fewer rounds, from {} on, if {when}",
            until.min_rounds()
        );
    }
    if let Some(limit) = study.time_limit {
        let _ = writeln!(
            text,
            "no further round begins after {}",
            format_duration(limit)
        );
    }
    let expected = counted(plan.expected_trials(&Done::default()), "trial");
    match study.cell_end {
        Some(CellEnd::Successes(enough)) => {
            let enough = counted(enough as usize, "trial");
            let _ = writeln!(
                text,
                "a cell has no further rounds after {enough} of whole transfers: {expected} if none fails"
            );
        }
        Some(CellEnd::Deadlines(enough)) => {
            let enough = counted(enough as usize, "trial");
            let _ = writeln!(
                text,
                "a cell has no further rounds after {enough} that reached the deadline: {expected} if none does"
            );
        }
        None => {}
    }
    if let Some(capture) = study.capture {
        let of_each = match capture.snap_bytes {
            None => "whole packets".to_owned(),
            Some(bytes) => format!("the first {bytes} bytes of each packet"),
        };
        let removed = match capture.times_only {
            true => ", removed when the transfer's time was read from it",
            false => "",
        };
        let _ = writeln!(
            text,
            "every trial is captured in `files/`: {of_each}{removed}"
        );
    }
    sweeps::describe(&study.sweeps, &mut text);
    text.push_str("\ntransports\n");
    let mut heading = sweeps::headings(study, Part::Transport);
    for transport in &study.transports {
        if let Some(name) = heading(&transport.label) {
            describe_transport(&mut text, &name, transport);
        }
    }
    text.push_str("conditions\n");
    let mut heading = sweeps::headings(study, Part::Condition);
    for condition in &study.conditions {
        if let Some(name) = heading(&condition.name) {
            describe_condition(&mut text, &name, condition);
        }
    }
    text.push_str("workloads\n");
    let mut heading = sweeps::headings(study, Part::Workload);
    let deadline = format_duration(study.deadline);
    for workload in &study.workloads {
        if let Some(name) = heading(&workload.name) {
            let description = workload.kind.description();
            // That of the others is said.
            let direction = match &workload.kind {
                WorkloadKind::Bulk { options, .. } if options.direction == Direction::Forward => {
                    ", from the client to the server"
                }
                _ => "",
            };
            let _ = writeln!(
                text,
                "  {name}: {description}{direction}, deadline {deadline}"
            );
            for flow in workload.competition.iter().flat_map(|it| &it.flows) {
                let label = flow.copy_of.as_ref().unwrap_or(&flow.transport);
                let start = match flow.start.is_zero() {
                    true => String::new(),
                    false => format!(", {} after the beginning", format_duration(flow.start)),
                };
                let work = flow.workload.as_ref().map(|work| work.kind.description());
                let work = work.map_or_else(String::new, |work| format!(": {work}"));
                let _ = writeln!(text, "    beside others {label}{start}{work}");
            }
        }
    }
    text
}

fn describe_unsupported(text: &mut String, unsupported: &[UnsupportedCell]) {
    if unsupported.is_empty() {
        return;
    }
    text.push_str("unsupported\n");
    for cell in unsupported {
        let _ = write!(text, "  {}", cell.transport);
        if let Some(workload) = &cell.workload {
            let _ = write!(text, " with {workload}");
        }
        let _ = write!(text, ": {}", cell.reason);
        if !cell.hint.is_empty() {
            let _ = write!(text, "; {}", cell.hint);
        }
        text.push('\n');
    }
}

/// Event of a dry run.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum DryRun<'a> {
    /// The plan.
    Plan {
        study: &'a Study,
        cells: usize,
        trials: usize,
        longest_time_ns: u64,
        estimate: EstimateEvent,
        cut_by_deadline: Vec<CutEvent>,
        unsupported: &'a [UnsupportedCell],
        warnings: Vec<Warning>,
    },
    /// A trial, in the order of the run.
    PlannedTrial {
        index: u32,
        round: u32,
        transport: &'a str,
        condition: &'a str,
        workload: &'a str,
    },
}

/// Transfers that the deadline probably ends before they are whole.
#[derive(Serialize)]
struct CutEvent {
    transports: Vec<String>,
    condition: String,
    workload: String,
    payload_bytes: Bytes,
    rate_bps: BitRate,
    time_ns: u64,
}

/// Estimate of the run.
#[derive(Serialize)]
struct EstimateEvent {
    time_ns: u64,
    sent_bytes: Bytes,
    disk_bytes: Bytes,
}

/// Prints a plan as JSON lines: one event for the plan, and one for each of its trials.
///
/// # Errors
/// If standard output cannot be written.
pub fn print_json(
    plan: &Plan,
    jobs: u32,
    done: &Done,
    unsupported: &[UnsupportedCell],
) -> Result<()> {
    let estimate = plan.estimate(done, jobs);
    let remaining = plan.remaining_trials(done);
    let first = DryRun::Plan {
        study: plan.study(),
        cells: plan.cells(),
        trials: remaining.len(),
        longest_time_ns: nanoseconds(plan.longest_time()),
        estimate: EstimateEvent {
            time_ns: nanoseconds(estimate.time),
            sent_bytes: estimate.sent,
            disk_bytes: estimate.disk,
        },
        cut_by_deadline: (plan.cut_transfers().into_iter())
            .map(|it| CutEvent {
                transports: it.transports,
                condition: it.condition,
                workload: it.workload,
                payload_bytes: it.bytes,
                rate_bps: it.rate,
                time_ns: nanoseconds(it.time),
            })
            .collect(),
        unsupported,
        warnings: plan.study().warnings(),
    };
    let trials = remaining.iter().map(|trial| DryRun::PlannedTrial {
        index: trial.index,
        round: trial.round,
        transport: &plan.transport(trial.cell).label,
        condition: &plan.condition(trial.cell).name,
        workload: &plan.workload(trial.cell).name,
    });
    output::json_lines([first].into_iter().chain(trials))
}

fn describe_transport(text: &mut String, name: &str, transport: &Transport) {
    let _ = write!(text, "  {name}: driver {}", transport.driver);
    for (name, value) in &transport.options {
        let _ = write!(text, " {name}={value}");
    }
    text.push('\n');
}

fn describe_condition(text: &mut String, name: &str, condition: &Condition) {
    let _ = writeln!(
        text,
        "  {name}: round-trip delay {}, packets of at most {} bytes",
        format_duration(condition.round_trip_delay()),
        condition.mtu_bytes
    );
    if condition.tuning != HostTuning::default() {
        let _ = writeln!(text, "    hosts: tuning {}", condition.tuning.text());
    }
    for (number, setting) in condition.settings().enumerate() {
        let indent = if number == 0 {
            "    "
        } else {
            let _ = writeln!(text, "    from {} on", format_duration(setting.at));
            "      "
        };
        for (direction, link) in [("forward", setting.forward), ("reverse", setting.reverse)] {
            let _ = writeln!(text, "{indent}{direction}: {}", link_text(condition, link));
        }
    }
}

fn link_text(condition: &Condition, link: &Link) -> String {
    let mut parts = vec![format!("delay {}", format_duration(link.delay))];
    if !link.jitter.is_zero() {
        parts[0] += &format!(" ± {}", format_duration(link.jitter));
    }
    parts.push(format!("rate {}", link.rate_text()));
    let queue = condition.queue_text(link);
    parts.push(format!("queue {queue}"));
    parts.push(format!("loss {}", link.loss));
    parts.extend(link.particulars().iter().map(ToString::to_string));
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A plan of two transports with 50 MB over a path with 5 % loss.
    fn plan(deadline: &str) -> Plan {
        let text = format!(
            "deadline = \"{deadline}\"\n[[transport]]\ndriver = \"tcp\"\n[[transport]]\ndriver = \"quic-quinn\"\n\
             [[condition]]\nname = \"lossy\"\nrtt = \"30ms\"\nrate = \"100Mbit/s\"\nloss = \"5%\"\n\
             [[workload]]\nkind = \"bulk\"\nsize = \"50MB\"\n"
        );
        Plan::new(&Study::parse(&text, "test").expect("a study")).expect("few trials")
    }

    #[test]
    fn transfers_that_the_deadline_ends_are_named() {
        assert_eq!(
            cut_transfers(&plan("60s")),
            [
                "the deadline probably ends these transfers before they are whole:",
                "  tcp, quic-quinn · lossy: 50 MB at about 2.2 Mbit/s takes 3 min 4 s; the deadline is 60 s"
            ]
        );
        assert!(cut_transfers(&plan("10min")).is_empty());
    }

    #[test]
    fn a_plan_says_who_sends() {
        let text = study(&plan("60s"), 1, &Done::default());
        assert!(
            text.contains("from the client to the server, deadline 60 s"),
            "{text}"
        );
        assert!(text.contains("the deadline probably ends"), "{text}");
    }
}
