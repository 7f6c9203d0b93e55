//! Run divided among guests that run at once.
//!
//! Each guest has a part of the rounds, or, if there are few, of their conditions. A guest with a virtual
//! clock gives the same results however much of the machine it gets, so that the parts do not
//! disturb one another.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::mpsc::{self, Receiver, Sender},
    thread,
};

use super::{Files, GuestRun};
use crate::{
    error::EngineError,
    event::{Ending, Event, Listener, ListenerError},
    plan::Done,
    run::{end_run, tell},
    shards::share,
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

/// Returns the state from which each part goes on: equal numbers of the blocks with trials left.
fn divide(run: &GuestRun) -> Vec<Done> {
    let left = run.plan().blocks_left(run.done());
    let jobs = run.jobs().min(left.len() as u32);
    (0..jobs)
        .filter_map(|part| {
            let of_part = share(left.len() as u64, part, jobs);
            let of_part = left.get(of_part.start as usize..of_part.end as usize)?;
            let blocks = *of_part.first()?..of_part.last()? + 1;
            Some(run.done().clone().within(blocks))
        })
        .collect()
}

/// Forwards the events of the parts, and once only those that several parts send; returns whether
/// the run has begun.
fn pass_on(
    heard: &Receiver<(usize, Event)>,
    listener: &mut dyn Listener,
) -> Result<bool, EngineError> {
    let mut started = false;
    let mut checking = BTreeMap::new();
    let mut warnings = BTreeSet::new();
    for (part, event) in heard {
        let passes = match &event {
            Event::RunStarted { .. } => !std::mem::replace(&mut started, true),
            // The parts may have different conditions.
            Event::PathChecked { check } => {
                let step = (check.condition.clone(), check.step_at_ns);
                *checking.entry(step).or_insert(part) == part
            }
            Event::Warning { warning } => warnings.insert(warning.clone()),
            Event::HostsSampled { .. } => part == 0,
            Event::RunEnded { .. } => false,
            Event::TrialStarted { .. } | Event::TrialEnded { .. } => true,
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
