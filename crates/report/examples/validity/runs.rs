//! Synthetic runs, and an assessment of their summaries.

use std::collections::BTreeMap;

use regatta_model::{Measurements, Outcome, RunHeader, RunPart, Study, TrialRecord};
use regatta_report::{
    RunData, Summary,
    analysis::{Claim, Conclusion},
    summarise,
};
use regatta_results::RunState;

use super::draws::{Kind, Rng, arithmetic_mean, place, round_effects};

/// Parameters of a synthetic run.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Model of the values.
    pub kind: Kind,
    /// Means of the logarithms of each transport's goodput.
    pub levels: Vec<f64>,
    /// Number of conditions; all are alike.
    pub conditions: usize,
    /// Number of rounds.
    pub rounds: usize,
    /// Metrics that are compared; the first is the metric of the ranking.
    pub metrics: &'static [&'static str],
}

/// Metrics of a run by bulk transfers.
pub const METRICS: [&str; 3] = [
    "goodput_bps",
    "round_trip_delay_ns",
    "goodput_per_core_percent_bps",
];

/// Typical value, used for the unit of every metric.
const UNIT: f64 = 1e7;

impl Setup {
    /// Returns the parameters of a run whose transports are all the same.
    pub fn equal(kind: Kind, transports: usize, rounds: usize) -> Self {
        Self {
            kind,
            levels: vec![0.0; transports],
            conditions: 2,
            rounds,
            metrics: &METRICS,
        }
    }

    /// Returns the parameters of a run with one metric under one condition, so that the intervals
    /// are at 95 %.
    pub fn simple(kind: Kind, levels: &[f64], rounds: usize) -> Self {
        Self {
            kind,
            levels: levels.to_vec(),
            conditions: 1,
            rounds,
            metrics: &METRICS[..1],
        }
    }

    fn study(&self) -> Study {
        let mut text = format!("name = \"made\"\nrounds = {}\n", self.rounds);
        for transport in 0..self.levels.len() {
            text += &format!(
                "[[transport]]\nlabel = \"t{transport}\"\ndriver = \"tcp\"\nport = {transport}\n"
            );
        }
        for condition in 0..self.conditions {
            text += &format!("[[condition]]\nname = \"c{condition}\"\n");
        }
        text += "[[workload]]\nname = \"w\"\nkind = \"bulk\"\n";
        Study::parse(&text, "made.toml").expect("it is a study")
    }

    /// Draws a run with these parameters.
    pub fn run(&self, rng: &mut Rng) -> RunData {
        let study = self.study();
        let mut trials: BTreeMap<(usize, usize, usize), TrialRecord> = BTreeMap::new();
        for (number, metric) in self.metrics.iter().enumerate() {
            let mut effects = round_effects(rng, self.kind, self.rounds);
            for condition in 0..self.conditions {
                // A machine that drifts does so under every condition.
                if self.kind != Kind::SharedAr1 {
                    effects = round_effects(rng, self.kind, self.rounds);
                }
                let values = place(rng, self.kind, &self.levels, &effects);
                for (transport, values) in values.iter().enumerate() {
                    for (round, log) in values.iter().enumerate() {
                        let trial = trials.entry((round, condition, transport));
                        let trial = trial.or_insert_with(|| TrialRecord {
                            index: 0,
                            attempt: 1,
                            round: round as u32,
                            transport: format!("t{transport}"),
                            condition: format!("c{condition}"),
                            workload: "w".to_owned(),
                            started_unix_ns: 0,
                            seed: 0,
                            outcome: Outcome::Measured,
                            reasons: Vec::new(),
                            hint: String::new(),
                            measurements: Measurements::default(),
                        });
                        match log {
                            Some(log) => {
                                trial
                                    .measurements
                                    .metrics
                                    .insert((*metric).to_owned(), UNIT * log.exp());
                            }
                            // Missing is the trial, by what its ranking is by.
                            None if number == 0 => trial.outcome = Outcome::Invalid,
                            None => {}
                        }
                    }
                }
            }
        }
        let mut trials: Vec<TrialRecord> = trials.into_values().collect();
        for (index, trial) in trials.iter_mut().enumerate() {
            trial.index = index as u32;
        }
        RunData {
            nodes: BTreeMap::new(),
            header: RunHeader {
                run_id: "made".to_owned(),
                regatta_version: String::new(),
                started_unix_ns: 0,
                study_text: String::new(),
                bed: "none".to_owned(),
                hosts: BTreeMap::new(),
                part: RunPart::default(),
                study,
            },
            repeated: Vec::new(),
            trials,
            path_checks: Vec::new(),
            warnings: Vec::new(),
            hosts: Vec::new(),
            state: RunState::Complete,
        }
    }

    /// Compares the summary of such a run with its true values.
    pub fn judge(&self, summary: &Summary) -> Judged {
        let level = |label: &str| -> f64 {
            let position: usize = label.trim_start_matches('t').parse().unwrap_or(0);
            self.levels[position]
        };
        let claimed =
            |claim: &Claim| matches!(claim.conclusion, Conclusion::Faster | Conclusion::Slower);
        let mut judged = Judged::default();
        for c in &summary.comparisons {
            let truth = level(&c.a) - level(&c.b);
            // Wrong is a claim without a difference, and one in the wrong direction.
            let wrong = claimed(&c.claim) && c.claim.ratio.is_some_and(|r| r.ln() * truth <= 0.0);
            judged.false_in_run |= wrong;
            judged.false_in_first_place |= wrong && c.condition == "c0" && c.metric == METRICS[0];
            judged.detected |= claimed(&c.claim) && !wrong;
            judged.pairs.add(c.claim.interval, truth.exp());
            judged.detectable.extend(c.claim.detectable_ratio);
        }
        for d in &summary.differences {
            judged.false_in_run |= claimed(&d.claim);
            judged.changes.add(d.claim.interval, 1.0);
        }
        // The sentence as well: a transport that is named alone is better than all others.
        for place in &summary.verdict.conditions {
            let named = place.text.contains("was fastest");
            let first = place.ranking.first().map_or(0.0, |r| level(&r.transport));
            let equals = place
                .ranking
                .iter()
                .filter(|r| level(&r.transport) >= first)
                .count();
            judged.false_in_run |= named && equals > 1;
        }
        for cell in &summary.cells {
            let position: usize = cell.transport.trim_start_matches('t').parse().unwrap_or(0);
            if let Some(metric) = cell.metrics.get(METRICS[0]) {
                let scale = UNIT * self.levels[position].exp();
                judged.geometric.add(metric.geometric_ci95, scale);
                judged
                    .arithmetic
                    .add(metric.ci95, scale * arithmetic_mean(self.kind, position));
            }
        }
        judged
    }
}

/// Number of intervals, and of those that hold the true value.
#[derive(Debug, Clone, Copy, Default)]
pub struct Held {
    pub held: u64,
    pub of: u64,
}

impl Held {
    fn add(&mut self, interval: Option<[f64; 2]>, truth: f64) {
        if let Some([low, high]) = interval {
            self.of += 1;
            self.held += u64::from(low <= truth && truth <= high);
        }
    }

    fn join(&mut self, other: Self) {
        self.held += other.held;
        self.of += other.of;
    }
}

/// Errors and coverage of one run.
#[derive(Debug, Clone, Default)]
pub struct Judged {
    pub false_in_first_place: bool,
    pub false_in_run: bool,
    pub detected: bool,
    pub geometric: Held,
    pub arithmetic: Held,
    pub pairs: Held,
    pub changes: Held,
    pub detectable: Vec<f64>,
}

/// Errors and coverage of many runs.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    pub runs: u64,
    pub false_in_first_place: u64,
    pub false_in_run: u64,
    pub detected: u64,
    pub geometric: Held,
    pub arithmetic: Held,
    pub pairs: Held,
    pub changes: Held,
    pub detectable: Vec<f64>,
}

/// Draws and assesses `runs` runs; the same seed gives the same runs.
pub fn repeat(setup: &Setup, runs: u64, seed: u64) -> Totals {
    let mut totals = Totals::default();
    let mut rng = Rng::new(seed);
    for _ in 0..runs {
        let judged = setup.judge(&summarise(&setup.run(&mut rng)));
        totals.runs += 1;
        totals.false_in_first_place += u64::from(judged.false_in_first_place);
        totals.false_in_run += u64::from(judged.false_in_run);
        totals.detected += u64::from(judged.detected);
        totals.geometric.join(judged.geometric);
        totals.arithmetic.join(judged.arithmetic);
        totals.pairs.join(judged.pairs);
        totals.changes.join(judged.changes);
        totals.detectable.extend(judged.detectable);
    }
    totals
}
