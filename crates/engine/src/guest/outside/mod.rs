//! Controller's side of a run in guests: starts them, receives their events, and ends those that
//! hang.

mod chunks;
mod in_order;
mod progress;

use std::{
    path::PathBuf,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use regatta_bed::{
    LastLines, SECOND_GUEST_COMMAND, StopRequest,
    guest::{Guest, GuestError, GuestMessage, Image, Order, wires},
};
use regatta_model::{
    Clock, Guests, Outcome, Problem, ProblemKind, RunHeader, Study, Transport, phrase, reason,
    warning,
};

use self::progress::{AfterEnd, Progress};
use super::{
    memory_mib,
    messages::{FromGuest, RunOrder},
    watch::{LAST_LINES, ProgramTrial, SILENCE, SecondGuest, Watch, is_silent},
};
use crate::{
    error::EngineError,
    event::{Ending, Event, Listener},
    limits,
    plan::{Done, Plan, PlannedTrial},
    run::{ProgressListener, RunOptions, end_run, notify, unix_ns},
    stop::Stopper,
};

/// Hidden subcommand of `regatta` that runs a study inside of a guest.
const COMMAND: &str = "guest-run";

/// Longest time that a guest may take to be ready. It takes a second or two, and more on a machine with other work.
const START: Duration = Duration::from_secs(180);

/// Longest time between two messages of a guest that is in no trial: path checks, the next trial's
/// beginning, the end.
const BETWEEN: Duration = Duration::from_secs(180);

/// Time that the controller waits for a trial beyond the limit of the engine in the guest. That
/// engine ends a trial that hangs; this limit is only for a guest that hangs as a whole.
const MARGIN: Duration = Duration::from_secs(30);

/// Factor by which a trial may take longer by the machine's clock than by a virtual one. Mostly it
/// takes less; a machine with other work may need more.
const SLOWER: u32 = 10;

/// Run in a guest, which can be stopped as every run can.
pub struct GuestRun {
    plan: Plan,
    options: RunOptions,
    image: Image,
    program: PathBuf,
    /// Whether a driver runs another program.
    runs_a_program: fn(&str) -> bool,
    /// Maximum number of guests at once.
    jobs: u32,
    /// Whether a guest has begun to run trials: this machine can run guests.
    has_begun: AtomicBool,
    stop: StopRequest,
}

/// Manner in which a guest ended.
enum End {
    /// The run is over.
    Over(Ending),
    /// The guest ended, or was ended, before its run.
    Early(Problem),
}

impl GuestRun {
    /// Creates a run of this plan on this kernel; `program` is this program's file, and `runs_a_program` tells whether a
    /// driver, by its name, runs another one.
    #[must_use]
    pub fn new(
        plan: Plan,
        options: RunOptions,
        image: Image,
        program: PathBuf,
        runs_a_program: fn(&str) -> bool,
    ) -> Self {
        Self {
            plan,
            options,
            image,
            program,
            runs_a_program,
            stop: StopRequest::default(),
            jobs: 1,
            has_begun: AtomicBool::new(false),
        }
    }

    /// Divides the run among `jobs` guests, which run at once. Only with virtual clocks do they not
    /// disturb one another.
    #[must_use]
    pub fn with_jobs(mut self, jobs: u32) -> Self {
        self.jobs = jobs.max(1);
        self
    }

    /// Returns the study.
    #[must_use]
    pub fn study(&self) -> &Study {
        self.plan.study()
    }

    /// Returns the run's stop request, so that waits before the run end with it, too.
    #[must_use]
    pub const fn stop(&self) -> &StopRequest {
        &self.stop
    }

    /// Returns a handle that stops the run, from any thread.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stop.clone())
    }

    /// Runs the rest of the plan in guests and sends all events to the listener. After a guest that hung or
    /// died another one goes on: [`Progress::after`] says with which trial. `progress_listener` gets reports of trials under way where
    /// the clock is real and it has an interval as the guest starts.
    ///
    /// Call this on a thread that lives as long as the run.
    ///
    /// # Errors
    /// [`EngineError`] where no guest can be made, the bed breaks in it, or the listener cannot
    /// keep the results; the events sent before are complete.
    pub fn run(
        self,
        listener: &mut dyn Listener,
        progress_listener: &ProgressListener,
    ) -> Result<Ending, EngineError> {
        let files = Files::make(self.options.files.clone());
        match self.clock() {
            Clock::Real => self.work(
                &self.options.done,
                &files,
                listener,
                Some(progress_listener),
            ),
            Clock::Virtual => chunks::run(&self, &files, listener),
        }
    }

    /// Runs the trials that `done` leaves, in one guest, and in further ones if it ends early.
    fn work(
        &self,
        done: &Done,
        files: &Files,
        listener: &mut dyn Listener,
        progress_listener: Option<&ProgressListener>,
    ) -> Result<Ending, EngineError> {
        let mut progress = Progress::new(done.clone(), self.clock());
        loop {
            let interval = progress_listener.and_then(ProgressListener::interval);
            let mut watch = self.start(progress.first_state(), files, interval)?;
            let end = self.follow(&mut watch, &mut progress, listener, progress_listener);
            // A guest that hangs goes before anything else is begun.
            drop(watch);
            let problem = match end? {
                End::Over(ending) => return Ok(ending),
                End::Early(problem) => problem,
            };
            match progress.after(self.has_begun()) {
                AfterEnd::Fails => {
                    let mut problem = problem;
                    // It has begun, so that it works here.
                    if problem.kind == ProblemKind::Unsupported {
                        problem.kind = ProblemKind::Failed;
                    }
                    return Err(EngineError::Guest(problem));
                }
                AfterEnd::Repeats => continue,
                AfterEnd::HasFailed { index, since } => {
                    // One that somebody killed says nothing about the transport: the trial is repeated.
                    let outcome = match problem.kind {
                        ProblemKind::Disturbed => Outcome::Invalid,
                        _ => Outcome::Failed,
                    };
                    let failed = (outcome, problem.reasons(), problem.hint);
                    let trial = self.plan.trial(index);
                    let flows = trial.map(|trial| self.plan.flows(&trial));
                    let flows = flows.unwrap_or_default();
                    for (position, trial) in flows.iter().enumerate() {
                        let record = self.plan.record(trial, since, failed.clone());
                        progress.failed(&self.plan, &record);
                        let (trial, more) = (Box::new(record), position + 1 < flows.len());
                        notify(listener, &Event::TrialEnded { trial, more })?;
                    }
                }
                AfterEnd::Continues => {}
            }
            if self.plan.remaining_rounds(progress.done()).is_empty() {
                return end_run(Ending::Complete, listener);
            }
        }
    }

    fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    fn clock(&self) -> Clock {
        self.plan.study().guest.clock
    }

    /// Whether several guests run rounds of a plan that ends by `until`. None of them knows the rounds of the others.
    fn judges_outside(&self) -> bool {
        self.jobs > 1 && self.clock() == Clock::Virtual && self.plan.study().until.is_some()
    }

    fn start(
        &self,
        done: &Done,
        files: &Files,
        progress_interval: Option<Duration>,
    ) -> Result<Watch, EngineError> {
        let study = self.plan.study();
        let order = RunOrder {
            study: Study {
                until: study.until.filter(|_| !self.judges_outside()),
                ..study.clone()
            },
            study_text: self.options.study_text.clone(),
            run_id: match self.clock() {
                Clock::Real => self.options.run_id.clone(),
                // The random draws of a path check depend on it, and runs with one seed are to be alike.
                Clock::Virtual => format!("seed {}", study.seed),
            },
            done: done.clone(),
            files: files.0.is_some(),
            progress_interval,
        };
        let payload = serde_json::to_string(&order)?;
        let order = Order {
            kernel: self.image.path.clone(),
            clock: self.clock(),
            seed: study.seed,
            memory_mib: memory_mib(study),
            arguments: vec![COMMAND.to_owned()],
            environment: environment(study),
            files: files.0.clone(),
            payload,
        };
        let begun = Instant::now();
        let (wake, woken) = mpsc::channel();
        let waker = || {
            let wake = wake.clone();
            move || {
                // Nobody waits any more once the guest is to end.
                let _ = wake.send(());
            }
        };
        let on_stop = self.stop.calls(waker());
        let (guest, second) = match study.guest.guests {
            Guests::One => {
                let guest = Guest::start_joined(&self.program, &order, &[], waker())?;
                (guest, None)
            }
            Guests::Two => {
                let [first_wires, second_wires] = wires().map_err(GuestError::Wires)?;
                let second = Order {
                    arguments: vec![SECOND_GUEST_COMMAND.to_owned()],
                    payload: String::new(),
                    ..order.clone()
                };
                let start =
                    |order, wires| Guest::start_joined(&self.program, order, wires, waker());
                let second = start(&second, &second_wires)?;
                let first = start(&order, &first_wires)?;
                let second = SecondGuest {
                    guest: second,
                    begun,
                    start: None,
                    last_message: None,
                    ended: None,
                };
                (first, Some(second))
            }
        };
        Ok(Watch {
            guest,
            second,
            woken,
            _on_stop: on_stop,
            begun,
            last_message: None,
            until: begun + START,
            polled: begun,
            program: None,
            last_lines: LastLines::new(LAST_LINES, "guest: "),
        })
    }

    /// Follows a guest's messages until it ends.
    fn follow(
        &self,
        watch: &mut Watch,
        progress: &mut Progress,
        listener: &mut dyn Listener,
        progress_listener: Option<&ProgressListener>,
    ) -> Result<End, EngineError> {
        let mut start = None;
        loop {
            if self.stop.is_requested() {
                if !progress.has_started() {
                    return Err(EngineError::Stopped);
                }
                let ending = Ending::interrupted();
                return end_run(ending, listener).map(End::Over);
            }
            if let Some(end) = watch.receive_second() {
                if !progress.has_started() {
                    return Err(EngineError::Guest(end));
                }
                return Ok(End::Early(end));
            }
            let Some(message) = watch.receive() else {
                if let Some(warning) = ProgramTrial::overdue(&mut watch.program, Instant::now()) {
                    notify(listener, &Event::Warning { warning })?;
                }
                let silence = match watch.until <= Instant::now() {
                    true => watch.until.duration_since(watch.begun),
                    false if is_silent(watch.last_message) => SILENCE,
                    false => continue,
                };
                let hung = reason::guest_hung(reason::the_guest(), silence);
                return Ok(End::Early(watch.explain_hung(hung, Vec::new())));
            };
            if watch.last_message.is_some() {
                watch.last_message = Some(Instant::now());
            }
            match message {
                GuestMessage::Heartbeat => watch.last_message = Some(Instant::now()),
                GuestMessage::Started { release } => {
                    start = Some((release, watch.begun.elapsed()));
                    watch.wait(BETWEEN);
                }
                GuestMessage::Console { line } | GuestMessage::Output { line } => {
                    watch.last_lines.keep(line)
                }
                GuestMessage::Message { text } => match serde_json::from_str(&text)? {
                    FromGuest::Event { event } => {
                        let second_start = watch.second.as_ref().and_then(|it| it.start);
                        let event = self.outside(*event, start.as_ref(), second_start);
                        if let Some(end) = self.note(event, watch, progress, listener)? {
                            return Ok(end);
                        }
                    }
                    FromGuest::Progress { progress } => {
                        if let Some(listener) = progress_listener {
                            listener.on_progress(progress);
                        }
                    }
                    FromGuest::Failed {
                        problem,
                        guest_gone: true,
                    } if watch.second.is_some() && progress.has_started() => {
                        let what = reason::receivers_guest_hung();
                        return Ok(End::Early(watch.explain_hung(what, problem.reasons())));
                    }
                    FromGuest::Failed { problem, .. } => return Err(EngineError::Guest(problem)),
                },
                GuestMessage::Ended { code } => {
                    let what = reason::guest_program_ended_with(&code.to_string());
                    let reasons = watch.explain(what, Vec::new());
                    return Ok(End::Early(Problem::new(ProblemKind::Failed, reasons, "")));
                }
                GuestMessage::Failed(problem) => {
                    if start.is_none() && !self.has_begun() {
                        return Err(EngineError::Guest(problem));
                    }
                    return Ok(End::Early(problem));
                }
            }
        }
    }

    /// Takes note of an event and forwards it to the listener.
    fn note(
        &self,
        event: Event,
        watch: &mut Watch,
        progress: &mut Progress,
        listener: &mut dyn Listener,
    ) -> Result<Option<End>, EngineError> {
        watch.wait(BETWEEN);
        watch.program = None;
        let study = self.plan.study();
        match &event {
            Event::RunStarted { .. } => self.has_begun.store(true, Ordering::Relaxed),
            Event::RoundWaits { wait_ns, .. } => {
                watch.wait(BETWEEN.saturating_add(Duration::from_nanos(*wait_ns)));
            }
            Event::TrialStarted { index, .. } => {
                if let Some(trial) = self.plan.trial(*index) {
                    watch.wait(self.longest(&trial));
                    let flows = self.plan.flows(&trial);
                    let transports = flows.iter();
                    let transports = transports.map(|it| &study.transports[it.cell.transport]);
                    let (clock, begun) = (self.clock(), watch.begun);
                    watch.program =
                        ProgramTrial::begin(clock, transports, self.runs_a_program, begun);
                }
            }
            _ => {}
        }
        if progress.is_new(&self.plan, &event) {
            notify(listener, &event)?;
            if matches!(event, Event::RunStarted { done: 0, .. }) && self.clock() == Clock::Virtual
            {
                let warning = warning::virtual_clock();
                notify(listener, &Event::Warning { warning })?;
            }
        }
        match event {
            Event::RunEnded { ending } => Ok(Some(End::Over(ending))),
            _ => Ok(None),
        }
    }

    /// Converts an event of the guest into one of this run: adds what only the controller knows.
    fn outside(
        &self,
        mut event: Event,
        start: Option<&(String, Duration)>,
        second_start: Option<Duration>,
    ) -> Event {
        match &mut event {
            Event::RunStarted {
                header,
                trials,
                done,
            } => {
                header.run_id.clone_from(&self.options.run_id);
                // A guest that is not to judge has no rule.
                header.study.until = self.plan.study().until;
                header.started_unix_ns = unix_ns();
                header.part.clone_from(&self.options.part);
                *trials = self.plan.expected_trials(&self.options.done) as u32;
                *done = self.options.done.finished() as u32;
                if let Some((release, took)) = start {
                    self.describe(header, release, *took, second_start);
                }
            }
            Event::TrialEnded { trial, .. } if self.clock() == Clock::Virtual => {
                trial.started_unix_ns = unix_ns();
            }
            Event::PathChecked { check } if self.clock() == Clock::Virtual => {
                check.checked_unix_ns = unix_ns();
            }
            _ => {}
        }
        event
    }

    fn describe(
        &self,
        header: &mut RunHeader,
        release: &str,
        took: Duration,
        second_start: Option<Duration>,
    ) {
        let clock = match self.clock() {
            Clock::Real => "real time",
            Clock::Virtual => "virtual time",
        };
        let bed = std::mem::take(&mut header.bed);
        header.bed = match self.clock() {
            Clock::Real => phrase::in_real_time(release, bed),
            Clock::Virtual => phrase::in_virtual_time(release, bed),
        }
        .into();
        let guests = self.plan.study().guest.guests;
        for (host, facts) in &mut header.hosts {
            // The one with the engine is the sender's, which connects.
            let took = match (guests, host.as_str()) {
                (Guests::Two, "receiver") => second_start.unwrap_or(took),
                _ => took,
            };
            let mut put = |name: &str, value| facts.0.insert(name.to_owned(), value);
            put("guest.kernel", self.image.path.display().to_string());
            put("guest.clock", clock.to_owned());
            put("guest.start_ms", took.as_millis().to_string());
            if guests == Guests::Two {
                put("guest.count", "2".to_owned());
            }
        }
    }

    /// Returns the longest time that a trial may take by this machine's clock.
    fn longest(&self, trial: &PlannedTrial) -> Duration {
        let workload = self.plan.workload(trial.cell);
        let inside = limits::hang(self.plan.study(), self.plan.condition(trial.cell), workload)
            + limits::prepare(workload).saturating_mul(2);
        let factor = match self.clock() {
            Clock::Real => 1,
            Clock::Virtual => SLOWER,
        };
        inside.saturating_mul(factor).saturating_add(MARGIN)
    }
}

/// Whether a transport is a program that the study names.
fn is_named_program(transport: &Transport) -> bool {
    transport.options.contains_key("program")
}

/// Returns the environment of a guest's program: a part of this program's, with a virtual clock the
/// setting that makes runs alike, and the working directory where a study names a program, whose path may begin there.
fn environment(study: &Study) -> Vec<(String, String)> {
    // Variables that are not UTF-8 cannot be passed on.
    let mut all: Vec<_> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| {
            matches!(name.as_str(), "PATH" | "HOME" | "LANG" | "XDG_CACHE_HOME")
                || name.starts_with("REGATTA_")
        })
        .collect();
    if study.guest.clock == Clock::Virtual {
        all.push((CAPABILITIES.0.to_owned(), CAPABILITIES.1.to_owned()));
    }
    let names_program = study.transports.iter().any(is_named_program);
    let directory = std::env::current_dir().ok().filter(|_| names_program);
    if let Some(directory) = directory.and_then(|it| it.into_os_string().into_string().ok()) {
        all.push(("PWD".to_owned(), directory));
    }
    all
}

/// Variable that makes AWS-LC and BoringSSL take random numbers from the kernel instead of the
/// processor, whose generator cannot be seeded: bit 62 of the capabilities is RDRAND.
const CAPABILITIES: (&str, &str) = ("OPENSSL_ia32cap", "~0x4000000000000000");

/// Directory for files of transports. It must exist before a guest can write to it, and is removed
/// if it is left empty.
pub(super) struct Files(Option<PathBuf>);

impl Files {
    fn make(directory: Option<PathBuf>) -> Self {
        Self(directory.filter(|it| std::fs::create_dir_all(it).is_ok()))
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        if let Some(directory) = &self.0 {
            // Fails where something was left in it.
            let _ = std::fs::remove_dir(directory);
        }
    }
}

#[cfg(test)]
mod tests {
    use regatta_model::OptionValue;

    use super::*;
    use crate::tests::fake_bed::study;

    #[test]
    fn a_program_of_a_study_is_found_from_the_working_directory() {
        let mut study = study(1, 1, 1);
        let directory = |study: &Study| {
            let all = environment(study);
            let found = all.into_iter().find(|(name, _)| name == "PWD");
            found.map(|(_, directory)| directory)
        };
        assert_eq!(directory(&study), None);
        let program = OptionValue::Text("./driver".to_owned());
        let options = &mut study.transports[0].options;
        options.insert("program".to_owned(), program);
        let here = std::env::current_dir().expect("a directory");
        assert_eq!(directory(&study), here.to_str().map(str::to_owned));
    }
}
