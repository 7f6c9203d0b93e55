//! Run divided among guests that run at once.
//!
//! Each guest has a part of the rounds, so that every cell is in every part. A guest with a virtual
//! clock gives the same results however much of the machine it gets, so that the parts do not
//! disturb one another.

use std::{
    sync::mpsc::{self, Receiver, Sender},
    thread,
};

use super::{Files, GuestRun};
use crate::{
    error::EngineError,
    event::{Ending, Event, Listener, ListenerError},
    plan::Done,
    run::{end_run, tell},
};

/// Listener of one part of the run, which forwards events with the part's number.
struct Part {
    number: usize,
    events: Sender<(usize, Event)>,
}

impl Listener for Part {
    fn hear(&mut self, event: &Event) -> Result<(), ListenerError> {
        Ok(self.events.send((self.number, event.clone()))?)
    }
}

/// Runs all parts and reports them as one run.
pub(super) fn run(
    run: &GuestRun,
    files: &Files,
    listener: &mut dyn Listener,
) -> Result<Ending, EngineError> {
    let parts = divide(run);
    let (events, heard) = mpsc::channel();
    let (told, endings) = thread::scope(|scope| {
        let workers: Vec<_> = parts
            .iter()
            .enumerate()
            .map(|(number, done)| {
                let events = events.clone();
                // A guest lives as long as the thread that started it.
                let work = move || {
                    let ending = run.work(done, files, &mut Part { number, events });
                    if ending.is_err() {
                        run.give_up();
                    }
                    ending
                };
                thread::Builder::new()
                    .spawn_scoped(scope, work)
                    .map_err(|source| {
                        run.give_up();
                        EngineError::Thread { source }
                    })
            })
            .collect();
        drop(events);
        let told = pass_on(&heard, listener);
        // Whoever has something to tell yet is told that nobody listens.
        drop(heard);
        if told.is_err() {
            run.give_up();
        }
        let endings: Vec<_> = workers
            .into_iter()
            .map(|worker| {
                worker?
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect();
        (told, endings)
    });
    let started = told?;
    end_run(conclude(endings, started)?, listener)
}

/// Returns the trials that each part must skip.
fn divide(run: &GuestRun) -> Vec<Done> {
    let jobs = run.jobs();
    let left = run.plan().rounds_left(run.done());
    (0..jobs)
        .filter(|part| left.iter().any(|round| round % jobs == *part))
        .map(|part| {
            let mut done = run.done().clone();
            for round in left.iter().filter(|round| *round % jobs != part) {
                done.skip_round(run.plan(), *round);
            }
            done
        })
        .collect()
}

/// Forwards the events of the parts, and once only those that each part sends; returns whether the
/// run has begun.
fn pass_on(
    heard: &Receiver<(usize, Event)>,
    listener: &mut dyn Listener,
) -> Result<bool, EngineError> {
    let mut started = false;
    for (part, event) in heard {
        let passes = match &event {
            Event::RunStarted { .. } => !std::mem::replace(&mut started, true),
            Event::PathChecked { .. } | Event::HostsSampled { .. } | Event::Warning { .. } => {
                part == 0
            }
            Event::RunEnded { .. } => false,
            Event::RoundWaits { .. } | Event::TrialStarted { .. } | Event::TrialEnded { .. } => {
                true
            }
        };
        if passes {
            tell(listener, &event)?;
        }
    }
    Ok(started)
}

/// Returns the worst of the endings; a part that was stopped because another failed does not count.
fn conclude(
    endings: Vec<Result<Ending, EngineError>>,
    started: bool,
) -> Result<Ending, EngineError> {
    let mut worst = Ending::Complete;
    let mut stopped = false;
    for ending in endings {
        match ending {
            Ok(Ending::Complete) => {}
            Ok(interrupted) => worst = interrupted,
            Err(EngineError::Stopped) => stopped = true,
            Err(error) => return Err(error),
        }
    }
    match (stopped, started) {
        (true, false) => Err(EngineError::Stopped),
        (true, true) => Ok(Ending::interrupted()),
        _ => Ok(worst),
    }
}
