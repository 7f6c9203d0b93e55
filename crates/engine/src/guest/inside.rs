//! Run inside a guest.

use std::{path::Path, process::ExitCode};

use regatta_bed::{
    Bed, BedError, Executable,
    guest::{FILES, payload, send_message},
    problem,
};
use regatta_model::{
    BedKind, Clock, Guests, Measurements, ProblemKind, RunPart, TrialRecord, metric::id,
};

use super::messages::{FromGuest, RunOrder};
use crate::{
    error::EngineError,
    event::{Event, Listener, ListenerError},
    plan::Plan,
    run::{ProgressListener, Run, RunOptions},
    stop_rule::StopRule,
};

/// Prefix of the metrics and series of CPU time, except for the one below.
const CPU: &str = "cpu_";

/// Goodput over CPU time.
const PER_CORE: &str = id::GOODPUT_PER_CORE_PERCENT_BPS;

/// Runs the study that the controller gave this guest and reports its events; `rule` is that of `until = "decided"`. The
/// body of `regatta guest-run`.
#[must_use]
pub fn serve(rule: StopRule) -> ExitCode {
    match run(rule) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let bed = match &error {
                GuestRunError::Engine(EngineError::Bed(error)) => Some(error),
                _ => None,
            };
            let kind = match bed.is_some_and(BedError::is_unsupported) {
                true => ProblemKind::Unsupported,
                false => ProblemKind::Failed,
            };
            let hint = bed.map(BedError::hint).unwrap_or_default();
            let message = FromGuest::Failed {
                problem: problem(kind, &error, hint),
                guest_gone: matches!(
                    bed,
                    Some(
                        BedError::Host { .. }
                            | BedError::TimedOut(_)
                            | BedError::DaemonEnded { .. }
                    )
                ),
            };
            // If this cannot be sent, the controller reports that the guest ended early.
            let _ = send(&message);
            ExitCode::FAILURE
        }
    }
}

/// Reasons why the run in the guest ended early.
#[derive(Debug, thiserror::Error)]
enum GuestRunError {
    #[error("cannot read what the guest is to run")]
    Order(#[source] std::io::Error),
    #[error(transparent)]
    Engine(#[from] EngineError),
}

fn run(rule: StopRule) -> Result<(), GuestRunError> {
    let text = payload().map_err(GuestRunError::Order)?;
    let order: RunOrder =
        serde_json::from_str(&text).map_err(|e| GuestRunError::Order(e.into()))?;
    let executable = Path::new(Executable::RUNNING);
    let plan = Plan::new(&order.study).map_err(EngineError::from)?;
    let plan = plan.with_stop_rule(rule);
    let study = &order.study;
    let (path, run_id) = (study.path, &order.run_id);
    let bed = match study.guest.guests {
        Guests::One => Bed::up(BedKind::Netns, path, &study.conditions, executable, run_id),
        Guests::Two => Bed::of_two_guests(path, executable, run_id),
    };
    let mut bed = bed.map_err(EngineError::from)?;
    let run = Run::new(
        plan,
        RunOptions {
            run_id: order.run_id,
            study_text: order.study_text,
            done: order.done,
            files: order.files.then(|| Path::new(FILES).to_owned()),
            part: RunPart::default(),
        },
    )
    .with_progress(ProgressListener::new(
        move || order.progress_interval,
        |progress| {
            // The end of the controller ends the guest.
            let _ = send(&FromGuest::Progress { progress });
        },
    ));
    let mut sender = EventSender {
        clock: order.study.guest.clock,
    };
    run.run(&mut bed, &mut sender)?;
    Ok(())
}

fn send(message: &FromGuest) -> std::io::Result<()> {
    send_message(&serde_json::to_string(message)?)
}

/// Listener that sends events to the controller.
struct EventSender {
    clock: Clock,
}

impl Listener for EventSender {
    fn on_event(&mut self, event: &Event) -> Result<(), ListenerError> {
        let mut event = event.clone();
        if self.clock == Clock::Virtual
            && let Event::TrialEnded { trial, .. } = &mut event
        {
            without_cpu(trial);
        }
        let event = Box::new(event);
        Ok(send(&FromGuest::Event { event })?)
    }
}

/// Removes the figures of CPU time, which do not exist with a virtual clock.
fn without_cpu(trial: &mut TrialRecord) {
    let Measurements {
        metrics, series, ..
    } = &mut trial.measurements;
    metrics.retain(|name, _| !name.starts_with(CPU) && name != PER_CORE);
    series.retain(|series| !series.name.starts_with(CPU));
}
