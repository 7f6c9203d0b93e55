//! Tests of series: rounds that begin at their times.

use std::thread;

use regatta_model::metric::id;

use super::*;
use crate::Stopper;

/// Listener that stops the run when a round of the series waits.
struct StopsAtWait(Stopper, EventRecorder);

impl Listener for StopsAtWait {
    fn on_event(&mut self, event: &Event) -> Result<(), ListenerError> {
        if matches!(event, Event::RoundWaits { .. }) {
            let stopper = self.0.clone();
            thread::spawn(move || stopper.stop());
        }
        self.1.on_event(event)
    }
}

fn metric(trial: &TrialRecord, name: &str) -> f64 {
    trial.measurements.metrics[name]
}

#[test]
fn no_round_begins_before_its_time_and_every_trial_has_its_times() {
    let mut study = study(2, 1, 4);
    let every = Duration::from_millis(60);
    study.every = Some(every);
    let plan = Plan::new(&study).unwrap();
    let (ending, recorded) = run(&mut FakeBed::healthy(), &plan);
    assert_eq!(ending.unwrap(), Ending::Complete);
    let trials = recorded.trials();
    assert_eq!(trials.len(), 8);
    let mut before = 0.0;
    for trial in trials {
        let period = metric(trial, id::SERIES_PERIOD);
        let time = metric(trial, id::SERIES_TIME_NS);
        assert!(
            period >= f64::from(trial.round),
            "a busy machine may miss periods"
        );
        assert!(time >= period * every.as_nanos() as f64);
        assert!(time >= before);
        assert!(metric(trial, id::SERIES_LATENESS_NS) >= 0.0);
        before = time;
    }
}

/// The wait is an hour, so that the test ends only if the stop ends it.
#[test]
fn a_stop_ends_the_wait_for_a_round_and_the_run_can_be_resumed() {
    let mut study = study(1, 1, 2);
    study.every = Some(Duration::from_secs(3600));
    let plan = Plan::new(&study).unwrap();
    let series = Run::new(plan.clone(), options(Done::default()));
    let mut listener = StopsAtWait(series.stopper(), EventRecorder::default());
    let ending = series.run(&mut FakeBed::healthy(), &mut listener).unwrap();
    assert_eq!(ending, Ending::interrupted());
    let recorded = listener.1;
    assert_eq!(recorded.trials().len(), 1);
    let waits: Vec<_> = (recorded.events.iter())
        .filter_map(|event| match event {
            Event::RoundWaits { round, wait_ns } => Some((*round, *wait_ns)),
            _ => None,
        })
        .collect();
    let [(1, wait_ns)] = waits[..] else {
        panic!("{waits:?}")
    };
    assert!(wait_ns <= 3_600_000_000_000, "{wait_ns}");

    // The machine comes back 150 minutes after the beginning, so that periods 1 and 2 are missed, and
    // round 1 is in the one that begins after 3 h.
    let mut first = recorded.trials()[0].clone();
    first.started_unix_ns -= 9_000_000_000_000;
    let done = plan.done(&[first]).unwrap();
    let series = Run::new(plan, options(done));
    let mut listener = StopsAtWait(series.stopper(), EventRecorder::default());
    series.run(&mut FakeBed::healthy(), &mut listener).unwrap();
    let waits = listener.1.events.iter().find_map(|event| match event {
        Event::RoundWaits { round: 1, wait_ns } => Some(*wait_ns),
        _ => None,
    });
    // Less what the test took.
    let minutes = waits.expect("a wait") / 60_000_000_000;
    assert!((25..=30).contains(&minutes), "{minutes}");
}
