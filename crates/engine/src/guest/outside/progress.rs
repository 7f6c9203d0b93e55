//! Progress of a run across the guests that run it one after another.

use regatta_model::{Clock, TrialRecord};

use crate::{
    event::Event,
    plan::{Done, Plan},
    run::unix_ns,
};

/// Maximum number of guests in a row that may end without having finished a trial.
const MAX_GUESTS_WITHOUT_PROGRESS: u32 = 3;

/// Trial under way.
struct Current {
    /// Number of its record.
    index: u32,
    /// Time at which it began, in nanoseconds since the Unix epoch.
    since: i64,
    /// Whether no earlier guest has run it.
    is_new: bool,
}

/// Progress of the run across its guests.
pub(super) struct Progress {
    clock: Clock,
    /// State with which the guest was started.
    first: Done,
    /// State after the trials that ended.
    done: Done,
    /// Guests that were started with `first`.
    guests: u32,
    has_started: bool,
    current: Option<Current>,
    /// Trial in which the guest before this one ended, if that was started with `first`, too.
    ended_in: Option<u32>,
    /// Guests in a row that ended without having finished a trial.
    guests_without_progress: u32,
    attempts: u32,
    /// Numbers of events that belong to no trial: those that were forwarded, and those of this guest.
    forwarded: u32,
    received: u32,
}

/// Continuation of a run after the early end of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterEnd {
    /// The run fails.
    Fails,
    /// Another guest runs the same trials.
    Repeats,
    /// The trial has failed; another guest runs those after it.
    HasFailed { index: u32, since: i64 },
    /// Another guest runs the trials that are left.
    Continues,
}

impl Progress {
    pub(super) fn new(done: Done, clock: Clock) -> Self {
        Self {
            clock,
            attempts: done.attempts(),
            first: done.clone(),
            done,
            guests: 0,
            has_started: false,
            current: None,
            ended_in: None,
            guests_without_progress: 0,
            forwarded: 0,
            received: 0,
        }
    }

    /// Returns the state with which the next guest starts.
    pub(super) fn first_state(&mut self) -> &Done {
        self.guests += 1;
        self.received = 0;
        &self.first
    }

    /// Returns the state after the trials that ended.
    pub(super) const fn done(&self) -> &Done {
        &self.done
    }

    /// Whether a guest has begun with its trials.
    pub(super) const fn has_started(&self) -> bool {
        self.has_started
    }

    /// Takes note of an event of the guest; returns whether no earlier guest has reported it.
    pub(super) fn is_new(&mut self, plan: &Plan, event: &Event) -> bool {
        match event {
            Event::RunStarted { .. } => !std::mem::replace(&mut self.has_started, true),
            Event::TrialStarted { index, attempt, .. } => {
                let is_new = !self.done.has(plan, *index, *attempt);
                self.current = Some(Current {
                    index: *index,
                    since: unix_ns(),
                    is_new,
                });
                is_new
            }
            Event::TrialEnded { trial, .. } => {
                self.current = None;
                let is_new = !self.done.has(plan, trial.index, trial.attempt);
                self.done.add(plan, trial);
                is_new
            }
            Event::RunEnded { .. } => true,
            Event::PathChecked { .. }
            | Event::HostsSampled { .. }
            | Event::RoundWaits { .. }
            | Event::Warning { .. } => {
                self.received += 1;
                let is_new = self.received > self.forwarded;
                self.forwarded = self.forwarded.max(self.received);
                is_new
            }
        }
    }

    /// Decides how the run continues after the early end of a guest. `has_begun` is true if a guest has run
    /// trials on this machine.
    ///
    /// In real time the trial that was under way has failed, and another guest goes on with the next one. In
    /// virtual time the figures of a trial depend on all trials before it in its guest ([`Plan::chunks`]), and a
    /// guest that the machine has ended is no evidence about them. Another guest therefore runs the same trials
    /// again. The trial has failed if that guest ends in it, too.
    pub(super) fn after(&mut self, has_begun: bool) -> AfterEnd {
        let current = self.current.take();
        self.guests_without_progress = match self.done.attempts() > self.attempts {
            true => 0,
            false => self.guests_without_progress + 1,
        };
        self.attempts = self.done.attempts();
        let is_virtual = self.clock == Clock::Virtual;
        let ended_before =
            std::mem::replace(&mut self.ended_in, current.as_ref().map(|it| it.index));
        match current {
            Some(Current {
                index,
                since,
                is_new: true,
            }) if !is_virtual || ended_before == Some(index) => {
                AfterEnd::HasFailed { index, since }
            }
            _ if !has_begun || self.guests_without_progress >= MAX_GUESTS_WITHOUT_PROGRESS => {
                AfterEnd::Fails
            }
            _ if is_virtual => AfterEnd::Repeats,
            _ => {
                self.next_guest();
                AfterEnd::Continues
            }
        }
    }

    /// Takes note of the record of a trial that has failed with its guest.
    pub(super) fn failed(&mut self, plan: &Plan, record: &TrialRecord) {
        self.done.add(plan, record);
        self.attempts = self.done.attempts();
        self.guests_without_progress = 0;
        self.next_guest();
    }

    /// The next guest goes on after the trials that ended.
    fn next_guest(&mut self) {
        self.first = self.done.clone();
        self.ended_in = None;
        self.forwarded = 0;
    }
}

#[cfg(test)]
mod tests {
    use regatta_model::Outcome;

    use super::*;
    use crate::tests::fake_bed::study;

    fn plan() -> Plan {
        Plan::new(&study(2, 1, 2)).unwrap()
    }

    fn starts(progress: &mut Progress, plan: &Plan, index: u32) -> bool {
        let trial = plan.trial(index).unwrap();
        let event = Event::TrialStarted {
            index,
            attempt: 1,
            round: trial.round,
            transport: String::new(),
            condition: String::new(),
            workload: String::new(),
        };
        progress.is_new(plan, &event)
    }

    fn record(plan: &Plan, index: u32) -> TrialRecord {
        let trial = plan.trial(index).unwrap();
        plan.record(
            &trial,
            0,
            (
                Outcome::Measured,
                Vec::new(),
                regatta_model::Text::default(),
            ),
        )
    }

    fn runs(progress: &mut Progress, plan: &Plan, index: u32) -> bool {
        let is_new = starts(progress, plan, index);
        let trial = Box::new(record(plan, index));
        assert_eq!(
            progress.is_new(plan, &Event::TrialEnded { trial, more: false }),
            is_new
        );
        is_new
    }

    #[test]
    fn a_guest_that_ends_in_virtual_time_is_repeated_without_duplicate_events() {
        let plan = plan();
        let mut progress = Progress::new(Done::default(), Clock::Virtual);
        assert_eq!(progress.first_state(), &Done::default());
        assert!(runs(&mut progress, &plan, 0));
        assert!(starts(&mut progress, &plan, 1));
        assert_eq!(progress.after(true), AfterEnd::Repeats);
        // The machine ends this one before the trial.
        assert_eq!(progress.first_state(), &Done::default());
        assert!(!starts(&mut progress, &plan, 0));
        assert_eq!(progress.after(true), AfterEnd::Repeats);
        progress.first_state();
        assert!(!runs(&mut progress, &plan, 0));
        assert!(runs(&mut progress, &plan, 1));
        assert_eq!(progress.done().finished(), 2);
    }

    #[test]
    fn a_trial_that_ends_two_guests_in_virtual_time_has_failed() {
        let plan = plan();
        let mut progress = Progress::new(Done::default(), Clock::Virtual);
        for guest in 0..2 {
            progress.first_state();
            assert_eq!(runs(&mut progress, &plan, 0), guest == 0);
            assert!(starts(&mut progress, &plan, 1));
            let after = progress.after(true);
            assert_eq!(
                matches!(after, AfterEnd::HasFailed { index: 1, .. }),
                guest == 1
            );
        }
        progress.failed(&plan, &record(&plan, 1));
        assert_eq!(progress.first_state().finished(), 2);
    }

    #[test]
    fn guests_that_end_before_their_trials_are_repeated_if_guests_run_here() {
        let mut progress = Progress::new(Done::default(), Clock::Virtual);
        assert_eq!(progress.after(true), AfterEnd::Repeats);
        assert_eq!(progress.after(true), AfterEnd::Repeats);
        assert_eq!(progress.after(true), AfterEnd::Fails);
        let mut first = Progress::new(Done::default(), Clock::Virtual);
        assert_eq!(first.after(false), AfterEnd::Fails);
    }

    #[test]
    fn a_trial_whose_guest_ends_in_real_time_has_failed() {
        let plan = plan();
        let mut progress = Progress::new(Done::default(), Clock::Real);
        assert!(runs(&mut progress, &plan, 0));
        assert_eq!(progress.after(true), AfterEnd::Continues);
        assert_eq!(progress.first_state().finished(), 1);
        assert!(starts(&mut progress, &plan, 1));
        assert!(matches!(
            progress.after(true),
            AfterEnd::HasFailed { index: 1, .. }
        ));
    }
}
