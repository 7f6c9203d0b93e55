//! Round trips that a small trial takes beside its transfer, in virtual time, in which programs take none.

use std::{path::Path, time::Instant};

use regatta_bed::Bed;
use regatta_engine::{Done, Event, Listener, ListenerError, Plan, Run, RunOptions};
use regatta_model::{BedKind, PathSetup, RunPart, Study, TrialRecord, metric::id};
use regatta_test_support::guest::{Clock, in_shared_guest};

use crate::help::assert_ran;

/// Round-trip delay of the path, in milliseconds.
const ROUND_TRIP_MS: f64 = 100.0;

/// Most time of a trial beside its transfer and its round trips, in milliseconds: `make bench` has the same bound.
const FIXED_MS: f64 = 20.0;

/// A trial, and the time in milliseconds from its start to that of the next one, less its transfer.
type Timed = (TrialRecord, f64);

/// Trials of a run and their times.
#[derive(Default)]
struct Times {
    start: Option<Instant>,
    ended: Option<TrialRecord>,
    trials: Vec<Timed>,
}

impl Times {
    /// Ends the trial before this moment, if there is one.
    fn end(&mut self) {
        if let (Some(start), Some(trial)) = (self.start.take(), self.ended.take()) {
            assert_ran(&trial);
            let transfer_ms = trial.measurements.metrics[id::TRANSFER_TIME_NS] / 1e6;
            let overhead_ms = start.elapsed().as_secs_f64() * 1e3 - transfer_ms;
            self.trials.push((trial, overhead_ms));
        }
    }
}

impl Listener for Times {
    fn on_event(&mut self, event: &Event) -> Result<(), ListenerError> {
        match event {
            Event::TrialStarted { .. } => {
                self.end();
                self.start = Some(Instant::now());
            }
            Event::TrialEnded { trial, .. } => self.ended = Some((**trial).clone()),
            Event::RunEnded { .. } => self.end(),
            _ => {}
        }
        Ok(())
    }
}

/// Runs a study on this kernel, a guest's, and returns its trials.
fn run(study: &str) -> Vec<Timed> {
    let study = Study::parse(study, "small").expect("a sound study");
    let executable = Path::new(env!("CARGO_BIN_EXE_regatta"));
    let conditions = &study.conditions;
    let mut bed = Bed::up(
        BedKind::Netns,
        PathSetup::USERSPACE,
        conditions,
        executable,
        "small",
    )
    .expect("namespaces and a path");
    let options = RunOptions {
        run_id: "small".to_owned(),
        study_text: String::new(),
        done: Done::default(),
        files: None,
        part: RunPart::default(),
    };
    let mut times = Times::default();
    Run::new(Plan::new(&study).expect("a plan"), options)
        .run(&mut bed, &mut times)
        .expect("a run");
    times.trials
}

/// Returns a study of transfers of 100 kB in each direction with one transport.
fn study(transport: &str) -> String {
    let mut study = format!(
        "rounds = 3\n[[transport]]\ndriver = \"{transport}\"\n\
         [[condition]]\nname = \"small\"\nrtt = \"{ROUND_TRIP_MS}ms\"\nrate = \"100Mbit/s\"\n"
    );
    for direction in ["forward", "reverse"] {
        study += &format!(
            "[[workload]]\nname = \"{direction}\"\nkind = \"bulk\"\nsize = \"100kB\"\ndirection = \"{direction}\"\n"
        );
    }
    study
}

/// Checks that a trial takes one round trip for the handshake of the probe's connection, or as many as that takes, one
/// for the idle probe and one for the last answers of the probe under load.
fn assert_round_trips(transport: &str, handshake: u32) {
    let least_ms = f64::from(handshake + 1) * ROUND_TRIP_MS;
    let most_ms = least_ms + ROUND_TRIP_MS + FIXED_MS;
    let trials = run(&study(transport));
    assert_eq!(trials.len(), 6);
    for (trial, overhead_ms) in trials {
        let workload = &trial.workload;
        println!("{transport} {workload}: {overhead_ms:.1} ms of {most_ms}");
        assert!(
            (least_ms..=most_ms).contains(&overhead_ms),
            "{overhead_ms} ms"
        );
    }
}

/// Makes a test for each transport, whose handshake takes the number of round trips given.
macro_rules! transports {
    ($($name:ident: $transport:literal, $handshake:literal;)+) => {
        $(#[test]
        fn $name() {
            if in_shared_guest("guests::small_trials", stringify!($name), Clock::Virtual) {
                assert_round_trips($transport, $handshake);
            }
        })+
    };
}

transports! {
    sctp: "sctp", 2;
    quic_quinn: "quic-quinn", 1;
    quic_noq: "quic-noq", 1;
    quic_quiche: "quic-quiche", 1;
    quic_s2n: "quic-s2n", 1;
}

/// The end of the sender's stream comes to the listening end before its acknowledgement has arrived: messages of the probe
/// that left in between are answered, too.
#[test]
fn probes_of_transfers_with_a_duration_are_all_answered() {
    const NAME: &str = "probes_of_transfers_with_a_duration_are_all_answered";
    if !in_shared_guest("guests::small_trials", NAME, Clock::Virtual) {
        return;
    }
    let study = "rounds = 1\n[[transport]]\ndriver = \"tcp\"\n[[transport]]\ndriver = \"sctp\"\n\
                 [[condition]]\nname = \"clean\"\nrtt = \"40ms\"\nrate = \"20Mbit/s\"\n\
                 [[workload]]\nkind = \"bulk\"\nduration = \"300ms\"\n";
    let trials = run(study);
    assert_eq!(trials.len(), 2);
    for (trial, _) in trials {
        let metrics = &trial.measurements.metrics;
        assert!(metrics[id::PROBE_MESSAGES_SENT] >= 10.0, "{trial:#?}");
        let lost = metrics[id::PROBE_MESSAGES_LOST];
        assert_eq!(lost, 0.0, "{} of {}", lost, trial.transport);
    }
}
