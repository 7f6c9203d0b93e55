//! Time that small trials take beside their work: probes, preparation, reports, closing.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use regatta_bed::Bed;
use regatta_engine::{Done, Event, Listener, ListenerError, Plan, Run, RunOptions};
use regatta_model::{BedKind, Outcome, PathSetup, RunPart, Study, metric::id};
use serde::Serialize;

use crate::{error::BenchError, rounds::Spread};

/// Round-trip delays of the paths, in milliseconds.
const ROUND_TRIPS_MS: [u32; 2] = [2, 100];

/// Bound on the time beside the work, but for the handshake of the probe's connection: a fixed part in milliseconds,
/// and round trips, one for the idle probe and one for the last answers of the probe under load.
const BOUND: (f64, f64) = (20.0, 2.0);

/// Trials of one bench of one transport over one path.
const TRIALS: u32 = 20;

/// A transport, and the round trips that its protocol needs before a connection carries data: TLS 1.3 over TCP
/// begins when TCP is connected (RFC 8446, RFC 9293), SCTP exchanges a cookie (RFC 9260 §5.1), and with `udp` the
/// other end answers the opening of each flow.
type Measured = (&'static str, u32);

const TRANSPORTS: &[Measured] = &[
    ("tcp", 1),
    ("tcp-tls", 2),
    ("udp", 1),
    ("udp-reliable", 1),
    ("quic-quinn", 1),
    ("quic-noq", 1),
    ("quic-quiche", 1),
    ("quic-s2n", 1),
    ("sctp-userspace", 2),
];

/// Time of a transport's small trials beside their work, over one path.
#[derive(Debug, Serialize)]
pub struct SmallTrial {
    /// Name of the driver.
    pub driver: &'static str,
    /// Round-trip delay of the path, in milliseconds.
    pub round_trip_ms: u32,
    /// From the start of a trial to that of the next one, less its transfer with its connection's set-up, in
    /// milliseconds.
    pub beside_ms: Spread,
    /// Number of trials.
    pub trials: usize,
    /// Round trips of the protocol's handshake, which the bound includes.
    pub handshake_round_trips: u32,
    /// Bound on the median.
    pub at_most_ms: f64,
    /// Whether the median is within the bound.
    pub passed: bool,
}

impl SmallTrial {
    /// Returns the median and range of these times, in milliseconds; `None` if there are none.
    fn of(
        (driver, handshake_round_trips): Measured,
        round_trip_ms: u32,
        beside_ms: &[f64],
    ) -> Option<Self> {
        let trials = beside_ms.len();
        let beside_ms = Spread::of(beside_ms.iter().copied())?;
        let (fixed, round_trips) = BOUND;
        let round_trips = round_trips + f64::from(handshake_round_trips);
        let at_most_ms = fixed + round_trips * f64::from(round_trip_ms);
        Some(Self {
            driver,
            round_trip_ms,
            beside_ms,
            trials,
            handshake_round_trips,
            at_most_ms,
            passed: beside_ms.median <= at_most_ms,
        })
    }

    /// Returns the median in round trips of the path.
    pub fn round_trips(&self) -> f64 {
        self.beside_ms.median / f64::from(self.round_trip_ms)
    }

    /// Returns the name of the row.
    pub fn name(&self) -> String {
        name(self.driver, self.round_trip_ms)
    }
}

fn name(driver: &str, round_trip_ms: u32) -> String {
    format!("{driver}, small trials over {round_trip_ms} ms")
}

/// Times of the trials of a run.
#[derive(Default)]
struct Times {
    begun: Option<Instant>,
    /// Transfer time of the last trial, if it was measured.
    transfer: Option<Duration>,
    beside_ms: Vec<f64>,
    /// Outcomes of trials that have no figures, with their reasons.
    failed: Vec<String>,
}

impl Times {
    /// Records the overhead of the preceding trial: the time from its start to `now`, less its transfer time. Does
    /// nothing if that trial was not measured.
    fn end(&mut self, now: Instant) {
        if let (Some(begun), Some(transfer)) = (self.begun.take(), self.transfer.take()) {
            let beside = now.duration_since(begun).saturating_sub(transfer);
            self.beside_ms.push(beside.as_secs_f64() * 1e3);
        }
    }
}

impl Listener for Times {
    fn on_event(&mut self, event: &Event) -> Result<(), ListenerError> {
        let now = Instant::now();
        match event {
            Event::TrialStarted { .. } => {
                self.end(now);
                self.begun = Some(now);
            }
            Event::TrialEnded { trial, .. } => {
                let time = trial.measurements.metrics.get(id::TRANSFER_TIME_NS);
                self.transfer = time
                    .filter(|_| trial.outcome == Outcome::Measured)
                    .map(|ns| Duration::from_nanos(*ns as u64));
                if self.transfer.is_none() {
                    self.failed
                        .push(format!("{:?}: {}", trial.outcome, trial.reasons.join(": ")));
                }
            }
            Event::RunEnded { .. } => self.end(now),
            _ => {}
        }
        Ok(())
    }
}

fn study(driver: &str, round_trip_ms: u32, trials: u32) -> Result<Study, BenchError> {
    let text = format!(
        "rounds = {trials}\n\
         [[transport]]\ndriver = \"{driver}\"\n\
         [[condition]]\nname = \"small\"\nrtt = \"{round_trip_ms}ms\"\nrate = \"100Mbit/s\"\n\
         [[workload]]\nkind = \"bulk\"\nsize = \"100kB\"\n"
    );
    Study::parse(&text, "small-trials").map_err(BenchError::reference)
}

fn run(driver: &str, bed: &mut Bed, round_trip_ms: u32, trials: u32) -> Result<Times, BenchError> {
    let plan = Plan::new(&study(driver, round_trip_ms, trials)?).map_err(BenchError::reference)?;
    let options = RunOptions {
        run_id: "bench".to_owned(),
        study_text: String::new(),
        done: Done::default(),
        files: None,
        part: RunPart::default(),
    };
    let mut times = Times::default();
    Run::new(plan, options)
        .run(bed, &mut times)
        .map_err(BenchError::reference)?;
    Ok(times)
}

/// Measures small trials of every transport over both paths; returns their times, or the name of what failed with
/// its error. The first trial of a run is left out: it finds everything cold.
pub fn measure(executable: &Path, quick: bool) -> Vec<Result<SmallTrial, (String, BenchError)>> {
    let trials = if quick { TRIALS / 4 } else { TRIALS };
    let bed = Bed::up(
        BedKind::Netns,
        PathSetup::USERSPACE,
        &[],
        executable,
        "bench",
    );
    let mut bed = match bed {
        Ok(bed) => bed,
        Err(error) => return vec![Err(("small trials".to_owned(), error.into()))],
    };
    let mut all = Vec::new();
    for &transport in TRANSPORTS {
        for round_trip_ms in ROUND_TRIPS_MS {
            let name = name(transport.0, round_trip_ms);
            let measured = run(transport.0, &mut bed, round_trip_ms, trials).and_then(|times| {
                let warm = times.beside_ms.get(1..).unwrap_or_default();
                let reason = times.failed.first().cloned().unwrap_or_default();
                SmallTrial::of(transport, round_trip_ms, warm)
                    .ok_or_else(|| BenchError::reference(reason))
            });
            if let Ok(trial) = &measured {
                eprintln!("{name}: {:.1} ms beside the work", trial.beside_ms.median);
            }
            all.push(measured.map_err(|error| (name, error)));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn studies_are_sound_and_bounds_follow_the_path() {
        for (driver, _) in TRANSPORTS {
            study(driver, 2, 3).unwrap_or_else(|error| panic!("{}", error.in_full()));
        }
        let beside = [319.0, 320.0, 321.0];
        let small = |transport, round_trip_ms| {
            SmallTrial::of(transport, round_trip_ms, &beside).expect("values")
        };
        let trial = small(("tcp", 1), 100);
        assert!(trial.passed && trial.trials == 3);
        assert_eq!((trial.at_most_ms, trial.round_trips()), (320.0, 3.2));
        assert!(!small(("tcp", 1), 2).passed);
        assert_eq!(small(("tcp-tls", 2), 100).at_most_ms, 420.0);
    }
}
