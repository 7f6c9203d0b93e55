//! Builds the state of a run from its events and the reports of the trial under way.

use std::collections::{BTreeMap, HashMap};

use regatta_control::{Host, Progress};
use regatta_engine::{Ending, Event, TrialProgress, unix_ns};
use regatta_model::{
    Direction, Measurements, Name, Outcome, Study, Text, TrialRecord, Workload, metric,
    units::signed_nanoseconds,
};

use regatta_report::html;

use crate::{
    model::{Activity, HISTORY, LiveCell, LiveRun, LiveTrial, MESSAGES, RunStatus, VALUES},
    run_estimate::RunEstimate,
};

/// Shortest time between two reports of an end over which rates are computed, in nanoseconds.
const MIN_RATE_INTERVAL_NS: u64 = 20_000_000;

/// State of a run, and the data from which it is built.
#[derive(Debug, Default)]
pub struct StateBuilder {
    /// The state.
    pub run: LiveRun,
    /// Whether the cells have changed since this was last set to `false`.
    pub cells_changed: bool,
    estimate: RunEstimate,
    /// Trials of earlier parts of the run, until the study is known.
    earlier: Vec<TrialRecord>,
    /// Position of each cell, by transport, condition and workload.
    positions: HashMap<[Name; 3], usize>,
    /// Outcome and value of each round, by the position of the cell.
    rounds: Vec<BTreeMap<u32, (Outcome, Option<f64>)>>,
    /// Workloads of the study, by name.
    workloads: BTreeMap<String, Workload>,
    ends: [End; 2],
}

/// Reports of one end.
#[derive(Debug, Default)]
struct End {
    last: Progress,
    goodput_bps: Option<f64>,
    cpu_ratio: Option<f64>,
}

impl End {
    fn on_progress(&mut self, progress: Progress) {
        // After its warm-up an end counts from zero again.
        if progress.elapsed_ns < self.last.elapsed_ns {
            self.last = Progress {
                cpu_ns: None,
                ..Progress::default()
            };
        }
        let elapsed_ns = progress.elapsed_ns - self.last.elapsed_ns;
        if elapsed_ns < MIN_RATE_INTERVAL_NS {
            return;
        }
        let bytes = (progress.bytes_delivered).saturating_sub(self.last.bytes_delivered);
        self.goodput_bps = Some(bytes as f64 * 8e9 / elapsed_ns as f64);
        let cpu_ns = self.last.cpu_ns.zip(progress.cpu_ns);
        let cpu_ns = cpu_ns.map(|(before, now)| now.saturating_sub(before));
        self.cpu_ratio = cpu_ns.map(|cpu_ns| cpu_ns as f64 / elapsed_ns as f64);
        self.last = progress;
    }
}

impl StateBuilder {
    /// Makes the state of a run in a directory. `earlier` are the trials of earlier parts of it.
    #[must_use]
    pub fn new(directory: String, earlier: Vec<TrialRecord>) -> Self {
        Self {
            run: LiveRun {
                now: RunStatus {
                    directory,
                    ..RunStatus::default()
                },
                cells: Vec::new(),
            },
            earlier,
            ..Self::default()
        }
    }

    /// Updates the state by an event.
    pub fn on_event(&mut self, event: &Event) {
        self.estimate.on_event(event);
        match event {
            Event::RunStarted { header, .. } => {
                let now = &mut self.run.now;
                now.study.clone_from(&header.study.name);
                now.title.clone_from(&header.study.title);
                now.bed = header.bed.to_string();
                now.version.clone_from(&header.regatta_version);
                now.started_unix_ns = header.started_unix_ns;
                now.rounds = header.study.rounds;
                self.begin_cells(&header.study);
            }
            Event::PathChecked { check } => {
                // The verdict first: a line of the terminal may have no room for the name.
                let name = &check.condition;
                self.add_message(match &check.spoiled {
                    Some(reason) => format!("path not checked: `{name}`, {reason}"),
                    None if check.within => format!("path within its tolerance: `{name}`"),
                    None => format!("path OUTSIDE its tolerance: `{name}`"),
                });
            }
            Event::RoundWaits { round, wait_ns } => {
                let wait_ns = i64::try_from(*wait_ns).unwrap_or(i64::MAX);
                self.run.now.round = *round;
                self.run.now.activity = Activity::Waiting {
                    until_unix_ns: unix_ns().saturating_add(wait_ns),
                };
            }
            Event::TrialStarted {
                attempt,
                round,
                transport,
                condition,
                workload,
                ..
            } => {
                self.ends = Default::default();
                self.run.now.round = *round;
                self.run.now.activity = Activity::Trial(Box::new(LiveTrial {
                    transport: transport.clone(),
                    condition: condition.clone(),
                    workload: workload.clone(),
                    attempt: *attempt,
                    started_unix_ns: unix_ns(),
                    ..LiveTrial::default()
                }));
            }
            Event::TrialEnded { trial, .. } => {
                self.run.now.activity = Activity::Preparing;
                self.add(trial);
                if trial.outcome != Outcome::Measured {
                    let outcome = trial.outcome.name().replace('_', " ");
                    let reasons = trial.reasons.join(": ");
                    let cell = format!("{} · {}", trial.transport, trial.condition);
                    self.add_message(format!("{cell}: {outcome}: {reasons}"));
                }
            }
            Event::HostsSampled { .. } => {}
            Event::Warning { warning } => self.add_message(format!("warning: {}", warning.message)),
            Event::RunEnded { ending } => self.end(ending),
        }
        let now = &mut self.run.now;
        (now.trials, now.done) = (self.estimate.trials, self.estimate.done);
        let remaining = self.estimate.remaining().map(signed_nanoseconds);
        now.ends_unix_ns = remaining.map(|ns| unix_ns().saturating_add(ns));
    }

    /// Ends a run whose last event is missing.
    pub fn end(&mut self, ending: &Ending) {
        let (complete, reason) = match ending {
            Ending::Complete => (true, String::new()),
            Ending::Interrupted { reason } => (false, reason.to_string()),
        };
        self.run.now.activity = Activity::Ended { complete, reason };
        self.run.now.ends_unix_ns = None;
    }

    /// Updates the trial under way by a report of one end.
    pub fn on_progress(&mut self, report: &TrialProgress) {
        let Activity::Trial(trial) = &mut self.run.now.activity else {
            return;
        };
        self.ends[report.host as usize].on_progress(report.progress);
        let workload = self.workloads.get(&*trial.workload);
        let direction = workload.map(|it| it.kind.direction());
        let direction = direction.unwrap_or(Direction::Forward);
        let [client, server] = &self.ends;
        let (sender, receiver, receivers) = match direction {
            Direction::Forward => (client, server, vec![server]),
            Direction::Reverse => (server, client, vec![client]),
            Direction::Both => (client, server, vec![client, server]),
        };
        let rates: Vec<f64> = receivers.iter().filter_map(|end| end.goodput_bps).collect();
        if rates.len() == receivers.len() {
            let bytes = receivers.iter().map(|end| end.last.bytes_delivered);
            trial.delivered_bytes = Some(bytes.sum());
            trial.goodput_bps = Some(rates.iter().sum());
        }
        trial.elapsed_ns = Some(client.last.elapsed_ns.max(server.last.elapsed_ns));
        trial.congestion_window_bytes = sender.last.congestion_window_bytes;
        trial.smoothed_rtt_ns = sender.last.smoothed_rtt_ns;
        trial.bytes_in_flight = sender.last.bytes_in_flight;
        trial.retransmitted_packets = sender.last.retransmitted_packets;
        trial.cpu_sender_ratio = sender.cpu_ratio;
        trial.cpu_receiver_ratio = receiver.cpu_ratio;
        trial.dropped = report.dropped.or(trial.dropped);
        let receiving_host = match direction {
            Direction::Reverse => Host::Client,
            Direction::Forward | Direction::Both => Host::Server,
        };
        if let Some(rate) = trial.goodput_bps.filter(|_| report.host == receiving_host) {
            if trial.goodput_history_bps.len() == HISTORY {
                trial.goodput_history_bps.remove(0);
            }
            trial.goodput_history_bps.push(rate);
        }
    }

    fn add_message(&mut self, message: String) {
        let messages = &mut self.run.now.messages;
        // A trial that cannot run here has the same message in each round.
        messages.retain(|known| *known != message);
        if messages.len() == MESSAGES {
            messages.remove(0);
        }
        messages.push(message);
    }

    fn begin_cells(&mut self, study: &Study) {
        let workloads = study.workloads.iter();
        self.workloads = workloads.map(|it| (it.name.clone(), it.clone())).collect();
        let styles = html::colours_and_marks(study);
        let mut cells = Vec::new();
        for workload in &study.workloads {
            let metric = study.primary_metric(workload);
            let Some(definition) = metric::find(metric) else {
                continue;
            };
            let conditions = study.conditions.iter();
            for condition in conditions.filter(|it| workload.is_under(&it.name)) {
                cells.extend(study.transports_of(workload).map(|(_, transport)| {
                    LiveCell {
                        transport: transport.label.clone(),
                        condition: condition.name.clone(),
                        workload: workload.name.clone(),
                        outcomes: BTreeMap::new(),
                        metric: metric.to_owned(),
                        title: definition.title.to_owned(),
                        unit: definition.unit,
                        n: 0,
                        value: None,
                        interval: None,
                        values: Vec::new(),
                        colour_and_mark: styles
                            .get(transport.label.as_str())
                            .copied()
                            .unwrap_or_default(),
                    }
                }));
            }
        }
        self.rounds = vec![BTreeMap::new(); cells.len()];
        self.positions = (cells.iter().enumerate())
            .map(|(position, cell)| {
                let names = [&cell.transport, &cell.condition, &cell.workload];
                (names.map(Name::from), position)
            })
            .collect();
        self.run.cells = cells;
        self.cells_changed = true;
        for trial in std::mem::take(&mut self.earlier) {
            self.add(&trial);
        }
    }

    /// Adds a trial to its cell. A further attempt replaces the one before.
    fn add(&mut self, trial: &TrialRecord) {
        let names = [&trial.transport, &trial.condition, &trial.workload];
        let Some(&position) = self.positions.get(&names.map(Name::clone)) else {
            return;
        };
        let cell = &mut self.run.cells[position];
        let rounds = &mut self.rounds[position];
        let Some(workload) = self.workloads.get(&*trial.workload) else {
            return;
        };
        let value = regatta_report::value_of(trial, workload, (&cell.metric, true));
        rounds.insert(trial.round, (trial.outcome, value));
        cell.outcomes.clear();
        for (outcome, _) in rounds.values() {
            *cell.outcomes.entry(outcome.name().to_owned()).or_default() += 1;
        }
        let measured = rounds.values().filter(|it| it.0 == Outcome::Measured);
        let values = measured.filter_map(|(_, value)| *value);
        let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        let of_all: Vec<f64> = rounds.values().filter_map(|(_, value)| *value).collect();
        let described = metric::find(&cell.metric)
            .and_then(|metric| regatta_report::describe_metric(metric, &values, &of_all));
        cell.n = values.len() as u64;
        let compared = described.map(|it| it.compared());
        cell.value = compared.map(|(value, _)| value);
        cell.interval = compared.and_then(|(_, interval)| interval);
        let earlier = values.len().saturating_sub(VALUES);
        cell.values = values[earlier..].to_vec();
        self.cells_changed = true;
    }
}

/// Returns the trial without its series and distributions, which no view shows.
pub(crate) fn without_series(trial: &TrialRecord) -> TrialRecord {
    let measurements = &trial.measurements;
    let measurements = Measurements {
        metrics: measurements.metrics.clone(),
        warnings: measurements.warnings.clone(),
        ..Measurements::default()
    };
    TrialRecord {
        transport: trial.transport.clone(),
        condition: trial.condition.clone(),
        workload: trial.workload.clone(),
        reasons: trial.reasons.clone(),
        hint: Text::default(),
        measurements,
        ..*trial
    }
}

#[cfg(test)]
mod tests {
    use regatta_model::metric::id;

    use super::*;
    use crate::tests::{QUOTED, report, started, trial, trial_started, under_way};

    #[test]
    fn trial_under_way_has_figures_of_both_ends() {
        let builder = under_way();
        let trial = builder.run.now.trial().expect("a trial");
        assert_eq!(trial.goodput_bps, Some(40e6));
        assert_eq!(trial.delivered_bytes, Some(3_750_000));
        assert_eq!(trial.congestion_window_bytes, Some(120_000));
        assert_eq!(trial.smoothed_rtt_ns, Some(11_000_000));
        assert_eq!(trial.retransmitted_packets, Some(3));
        assert_eq!(trial.cpu_sender_ratio, Some(0.2));
        // The receiver did not report it.
        assert_eq!(trial.cpu_receiver_ratio, None);
        assert_eq!(trial.dropped, Some([7, 1]));
        assert_eq!(trial.goodput_history_bps, [40e6; 3]);
        assert_eq!((builder.run.now.done, builder.run.now.trials), (4, 6));
        assert!(builder.run.now.ends_unix_ns.is_some());
    }

    #[test]
    fn counters_reset_after_a_warm_up_give_no_negative_rates() {
        let mut end = End::default();
        let at = |ms: u64, bytes, cpu_ms: u64| Progress {
            elapsed_ns: ms * 1_000_000,
            bytes_delivered: bytes,
            cpu_ns: Some(cpu_ms * 1_000_000),
            ..Progress::default()
        };
        end.on_progress(at(900, 9_000_000, 500));
        end.on_progress(at(100, 100_000, 520));
        assert_eq!(end.goodput_bps, Some(8e6));
        assert_eq!(end.cpu_ratio, None);
    }

    #[test]
    fn cells_have_means_and_intervals_of_the_report() {
        let mut builder = under_way();
        let cell = &builder.run.cells[0];
        let metric = metric::find(id::GOODPUT_BPS).expect("a metric");
        let reported = regatta_report::describe_metric(metric, &[40e6, 44e6], &[]).expect("a mean");
        assert_eq!((cell.n, cell.value), (2, reported.geometric_mean));
        assert_eq!(cell.interval, reported.geometric_ci95);
        assert!(cell.interval.is_some());
        assert_eq!(cell.values, [40e6, 44e6]);
        // The last attempt counts.
        builder.cells_changed = false;
        for (attempt, rate) in [(1, None), (2, Some(42e6))] {
            let trial = Box::new(trial(2, attempt, "tcp", rate));
            builder.on_event(&Event::TrialEnded { trial, more: false });
        }
        assert!(builder.cells_changed);
        let outcomes = BTreeMap::from([("measured".to_owned(), 3)]);
        assert_eq!(builder.run.cells[0].outcomes, outcomes);
        assert_eq!((builder.run.cells[0].n, builder.run.cells[1].n), (3, 2));
        assert_eq!(builder.run.now.done, 5);
    }

    #[test]
    fn resumed_run_has_trials_of_its_earlier_parts() {
        let earlier = vec![trial(0, 1, "tcp", Some(40e6)), trial(0, 1, QUOTED, None)];
        let mut builder = StateBuilder::new(String::new(), earlier);
        builder.on_event(&started());
        assert_eq!(builder.run.cells[0].n, 1);
        assert_eq!(builder.run.cells[1].outcomes["invalid"], 1);
    }

    #[test]
    fn waiting_and_ended_are_activities() {
        let mut builder = StateBuilder::default();
        builder.on_event(&started());
        builder.on_event(&Event::RoundWaits {
            round: 1,
            wait_ns: 60_000_000_000,
        });
        let Activity::Waiting { until_unix_ns } = builder.run.now.activity else {
            panic!("{:?}", builder.run.now.activity);
        };
        assert!(until_unix_ns > unix_ns() + 50_000_000_000);
        // A late report belongs to no trial.
        builder.on_progress(&report(regatta_control::Host::Server, Progress::default()));
        builder.on_event(&trial_started(1, "tcp"));
        assert!(builder.run.now.trial().is_some());
        let reason = regatta_model::reason::stopped_by_user().into();
        builder.on_event(&Event::RunEnded {
            ending: Ending::Interrupted { reason },
        });
        let ended = matches!(
            &builder.run.now.activity,
            Activity::Ended {
                complete: false,
                ..
            }
        );
        assert!(ended, "{:?}", builder.run.now.activity);
    }

    #[test]
    fn state_round_trips_as_json() {
        let run = under_way().run;
        let mut read = LiveRun::default();
        for update in [
            crate::model::Update::Now(run.now.clone()),
            crate::model::Update::Cells(run.cells.clone()),
        ] {
            let line = serde_json::to_string(&update).expect("JSON");
            read.update(serde_json::from_str(&line).expect("an update"));
        }
        assert_eq!(read, run);
    }
}
