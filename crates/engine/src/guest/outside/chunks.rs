//! Run with virtual clocks: each chunk of the plan has a guest of its own, and several run at once.
//!
//! A guest with a virtual clock gives the same results however much of the machine it gets, so that guests
//! do not disturb one another. [`Plan::chunks`] says why each runs a whole chunk. A chunk that was stopped
//! is run again from its first trial on, and only the trials that have no record yet are reported.

use std::{
    collections::{BTreeSet, VecDeque},
    ops::Range,
    sync::mpsc::{self, Receiver, Sender},
    thread::{self, ScopedJoinHandle},
};

use parking_lot::Mutex;

use super::{Files, GuestRun, in_order::InOrder};
use crate::{
    error::EngineError,
    event::{Ending, Event, Listener, ListenerError},
    plan::{Done, Plan},
    run::{end_run, notify},
};

/// Chunks that no guest has taken yet.
struct Queue {
    chunks: VecDeque<Range<u32>>,
    /// First conditions of the chunks that were taken.
    taken: BTreeSet<u32>,
}

/// Chunk that a guest runs.
struct Chunk {
    blocks: Range<u32>,
    /// Whether the chunk is the first with its conditions. Its path checks count; other chunks only repeat them.
    is_first: bool,
}

impl Queue {
    fn of(plan: &Plan, done: &Done) -> Self {
        let blocks = done.blocks(plan);
        let chunks = plan.chunks().into_iter();
        let chunks = chunks.filter(|it| blocks.start <= it.start && it.end <= blocks.end);
        Self {
            chunks: chunks.collect(),
            taken: BTreeSet::new(),
        }
    }

    /// Takes the next chunk with a trial that is left to be run. Takes none once the rounds before it are enough by the
    /// study's `until`; with `judges_outside` that is decided elsewhere.
    fn take(&mut self, plan: &Plan, done: &mut Done, judges_outside: bool) -> Option<Chunk> {
        loop {
            let blocks = self.chunks.pop_front()?;
            let round = blocks.start / plan.conditions();
            if !judges_outside && plan.has_enough(round, done) {
                self.chunks.clear();
                return None;
            }
            *done = std::mem::take(done).within(blocks.clone());
            if !plan.remaining_rounds(done).is_empty() {
                let is_first = self.taken.insert(blocks.start % plan.conditions());
                return Some(Chunk { blocks, is_first });
            }
        }
    }
}

/// Listener of one chunk's guest, which forwards what the run does not know yet.
struct OfChunk<'a> {
    plan: &'a Plan,
    is_first: bool,
    has_trials: bool,
    /// Trials that have records.
    done: &'a mut Done,
    events: &'a Sender<Event>,
}

impl Listener for OfChunk<'_> {
    fn on_event(&mut self, event: &Event) -> Result<(), ListenerError> {
        let passes = match event {
            // Until they run trials, all guests make the same checks.
            Event::PathChecked { .. } => self.is_first && !self.has_trials,
            Event::HostsSampled { .. } => self.is_first,
            Event::TrialStarted { index, attempt, .. } => {
                self.has_trials = true;
                !self.done.has(self.plan, *index, *attempt)
            }
            Event::TrialEnded { trial, .. } => {
                let is_known = self.done.has(self.plan, trial.index, trial.attempt);
                self.done.add(self.plan, trial);
                !is_known
            }
            Event::RunStarted { .. } | Event::RoundWaits { .. } | Event::Warning { .. } => true,
            Event::RunEnded { .. } => false,
        };
        if passes {
            self.events.send(event.clone())?;
        }
        Ok(())
    }
}

/// Runs all chunks and reports them as one run.
pub(super) fn run(
    run: &GuestRun,
    files: &Files,
    listener: &mut dyn Listener,
) -> Result<Ending, EngineError> {
    let queue = Queue::of(&run.plan, &run.options.done);
    let jobs = match run.plan.study().cell_end {
        // One guest must know the trials of all before.
        Some(_) => 1,
        None => queue.chunks.len().clamp(1, run.jobs as usize),
    };
    let queue = Mutex::new(queue);
    let mut in_order = run.judges_outside().then(|| {
        let done = run.options.done.clone();
        InOrder::new(&run.plan, done)
    });
    let (events, event_receiver) = mpsc::channel();
    let (forwarded, endings) = thread::scope(|scope| {
        let start = |_| {
            let (events, queue) = (events.clone(), &queue);
            // A guest lives as long as the thread that started it.
            let work = move || {
                let ending = work(run, queue, files, &events);
                ending.inspect_err(|_| run.stop.request())
            };
            let thread = thread::Builder::new().spawn_scoped(scope, work);
            thread.map_err(|source| {
                run.stop.request();
                EngineError::Thread { source }
            })
        };
        let workers: Vec<_> = (0..jobs).map(start).collect();
        drop(events);
        let forwarded = forward_events(&event_receiver, listener, in_order.as_mut());
        // Guests that still send events get an error.
        drop(event_receiver);
        let is_over = in_order.as_ref().is_some_and(InOrder::is_over);
        if forwarded.is_err() || is_over {
            run.stop.request();
        }
        let ending = |worker: Result<ScopedJoinHandle<'_, _>, EngineError>| {
            let ended = worker?.join();
            ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        let endings: Vec<_> = workers.into_iter().map(ending).collect();
        (forwarded, endings)
    });
    let started = forwarded?;
    let ending = match in_order.is_some_and(|it| it.is_over()) {
        // What ended with an error was ahead, and is discarded.
        true => Ending::Complete,
        false => conclude(endings, started)?,
    };
    end_run(ending, listener)
}

/// Runs one chunk after another until none is left.
fn work(
    run: &GuestRun,
    queue: &Mutex<Queue>,
    files: &Files,
    events: &Sender<Event>,
) -> Result<Ending, EngineError> {
    let mut done = run.options.done.clone();
    loop {
        let chunk = queue
            .lock()
            .take(&run.plan, &mut done, run.judges_outside());
        let Some(Chunk { blocks, is_first }) = chunk else {
            return Ok(Ending::Complete);
        };
        let anew = done.anew(&run.plan, blocks);
        let mut listener = OfChunk {
            plan: &run.plan,
            is_first,
            has_trials: false,
            done: &mut done,
            events,
        };
        let ending = run.work(&anew, files, &mut listener, None)?;
        if ending != Ending::Complete {
            return Ok(ending);
        }
    }
}

/// Forwards the events of the guests, events that several of them report once only, until the run is over by its rule;
/// returns whether the run has begun.
fn forward_events(
    events: &Receiver<Event>,
    listener: &mut dyn Listener,
    mut in_order: Option<&mut InOrder<'_>>,
) -> Result<bool, EngineError> {
    let mut started = false;
    let mut warnings = BTreeSet::new();
    for event in events {
        let passes = match &event {
            Event::RunStarted { .. } => !std::mem::replace(&mut started, true),
            Event::Warning { warning } => warnings.insert(warning.clone()),
            _ => true,
        };
        if !passes {
            continue;
        }
        match &mut in_order {
            None => notify(listener, &event)?,
            Some(in_order) => {
                for event in in_order.take(event) {
                    notify(listener, &event)?;
                }
                if in_order.is_over() {
                    break;
                }
            }
        }
    }
    Ok(started)
}

/// Returns the worst of the endings; a guest that was stopped because another failed does not count.
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
