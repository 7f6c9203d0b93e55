//! Synthetic runs, and an assessment of their summaries.

use std::collections::BTreeMap;

use regatta_model::{Measurements, Outcome, RunHeader, RunPart, Study, TrialRecord};
use regatta_report::{Conclusion, RunData, Summary, is_decided, summarise};
use regatta_results::RunState;

use super::draws::{Kind, Rng, arithmetic_mean, cell_values, machine_effects};

/// Parameters of a synthetic run.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Model of the values.
    pub kind: Kind,
    /// Means of the logarithms of each transport's goodput.
    pub levels: Vec<f64>,
    /// Factor of all spreads.
    pub scale: f64,
    /// Number of conditions; all are alike.
    pub conditions: usize,
    /// Number of rounds.
    pub rounds: usize,
    /// Metrics that are compared; the first is the metric of the ranking.
    pub metrics: &'static [&'static str],
    /// Whether the run ends when it is decided, and has `rounds` at most.
    pub until_decided: bool,
}

/// Metrics of a run by bulk transfers.
pub const METRICS: [&str; 3] = [
    "goodput_bps",
    "round_trip_delay_p50_ns",
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
            scale: 1.0,
            conditions: 2,
            rounds,
            metrics: &METRICS,
            until_decided: false,
        }
    }

    /// Returns the parameters of a run with one metric that ends when it is decided.
    pub fn until_decided(kind: Kind, levels: &[f64], at_most: usize) -> Self {
        Self {
            levels: levels.to_vec(),
            metrics: &METRICS[..1],
            until_decided: true,
            ..Self::equal(kind, levels.len(), at_most)
        }
    }

    /// Returns the parameters of a run with one metric under one condition, so that the intervals
    /// are at 95 %.
    pub fn simple(kind: Kind, levels: &[f64], rounds: usize) -> Self {
        Self {
            kind,
            levels: levels.to_vec(),
            scale: 1.0,
            conditions: 1,
            rounds,
            metrics: &METRICS[..1],
            until_decided: false,
        }
    }

    fn study(&self) -> Study {
        let rounds = match self.until_decided {
            true => format!("{{ until = \"decided\", at_most = {} }}", self.rounds),
            false => self.rounds.to_string(),
        };
        let mut text = format!("name = \"made\"\nrounds = {rounds}\n");
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
            let cells = [self.conditions, self.levels.len()];
            let effects = machine_effects(rng, self.kind, self.rounds, cells);
            for condition in 0..self.conditions {
                for (transport, level) in self.levels.iter().enumerate() {
                    let cell = condition * self.levels.len() + transport;
                    let machine = Vec::from_iter(effects.iter().map(|round| round[cell]));
                    let values =
                        cell_values(rng, self.kind, (transport, *level, self.scale), &machine);
                    for (round, log) in values.iter().enumerate() {
                        let trial = trials.entry((round, condition, transport));
                        let trial = trial.or_insert_with(|| TrialRecord {
                            index: 0,
                            attempt: 1,
                            round: round as u32,
                            transport: format!("t{transport}").into(),
                            condition: format!("c{condition}").into(),
                            workload: "w".into(),
                            started_unix_ns: 0,
                            seed: 0,
                            outcome: Outcome::Measured,
                            reasons: Vec::new(),
                            hint: regatta_model::Text::default(),
                            measurements: Measurements::default(),
                        });
                        match log {
                            Some(log) => {
                                let metrics = &mut trial.measurements.metrics;
                                metrics.insert((*metric).to_owned(), UNIT * log.exp());
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
                bed: "none".into(),
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
    fn judge(&self, summary: &Summary, totals: &mut Totals) {
        let position = |label: &str| label.trim_start_matches('t').parse().unwrap_or(0_usize);
        let level = |label: &str| self.levels[position(label)];
        let [mut is_false, mut is_detected] = [false; 2];
        // Claims of the second family: false ones, and all.
        let [mut wrong, mut made] = [0.0; 2];
        for c in &summary.comparisons {
            let truth = level(&c.a) - level(&c.b);
            let is_claimed = c.claim.conclusion.is_difference();
            // Wrong is a claim without a difference, one in the wrong direction, and "the same" of what is not.
            let is_same = c.claim.conclusion == Conclusion::Same;
            let is_wrong = (is_claimed && c.claim.ratio.is_some_and(|r| r.ln() * truth <= 0.0))
                || (is_same && truth.abs() > summary.statistics.equivalence.ln_1p());
            if c.metric == METRICS[0] {
                is_false |= is_wrong;
                is_detected |= is_claimed && !is_wrong;
                if position(&c.a).abs_diff(position(&c.b)) == 1 {
                    totals.neighbours.of += 1;
                    totals.neighbours.held += u64::from(is_claimed && !is_wrong);
                }
            } else {
                wrong += f64::from(is_claimed && is_wrong);
                made += f64::from(is_claimed);
            }
            totals.pairs.add(c.claim.interval, truth.exp());
        }
        for d in &summary.differences {
            wrong += f64::from(d.claim.conclusion.is_difference());
            made += f64::from(d.claim.conclusion.is_difference());
            totals.changes.add(d.claim.interval, 1.0);
        }
        // The sentence as well: a transport that leads alone is better than all others.
        for verdict in &summary.verdict.conditions {
            let (leads, others): (Vec<_>, Vec<_>) =
                (verdict.ranking.iter().map(|it| &it.transport))
                    .partition(|it| verdict.leaders.contains(it));
            if let ([lead], [_, ..]) = (&leads[..], &others[..]) {
                totals.named += 1;
                is_false |= others.iter().any(|other| level(other) >= level(lead));
            }
        }
        for cell in &summary.cells {
            if let Some(metric) = cell.metrics.get(METRICS[0]) {
                let scale = UNIT * level(&cell.transport).exp();
                let mean = scale * arithmetic_mean(self.kind, position(&cell.transport));
                totals.geometric.add(metric.geometric_ci95, scale);
                totals.arithmetic.add(metric.ci95, mean);
            }
        }
        totals.runs += 1;
        totals.false_in_ranking += u64::from(is_false);
        totals.false_share += wrong / f64::max(made, 1.0);
        totals.detected += u64::from(is_detected);
    }
}

/// Runs that end when they are decided, of which every look is judged.
#[derive(Debug, Clone, Default)]
pub struct Looks {
    pub runs: u64,
    /// Runs with a false claim at any look, whether they had ended before or not.
    pub false_at_any: u64,
    /// Runs with a false claim where they ended.
    pub false_at_end: u64,
    /// Number of rounds of the runs that ended as decided.
    pub decided_after: Vec<usize>,
    /// Pairs of neighbours where the runs ended, and those of which a difference was found.
    pub neighbours: Held,
}

impl Looks {
    /// Returns the number of runs that were decided after at most this number of rounds.
    pub fn decided_by(&self, rounds: usize) -> u64 {
        let by_then = self.decided_after.iter().filter(|it| **it <= rounds);
        by_then.count() as u64
    }
}

/// Draws `runs` runs that end when they are decided, and looks at each after every round from the third on: to the last
/// one, or until it has ended if `looks_on` is false.
pub fn look(setup: &Setup, runs: u64, seed: u64, looks_on: bool) -> Looks {
    let mut looks = Looks::default();
    let mut rng = Rng::new(seed);
    for _ in 0..runs {
        let mut data = setup.run(&mut rng);
        let trials = std::mem::take(&mut data.trials);
        let (mut any, mut has_ended) = (false, false);
        for rounds in 3..=setup.rounds {
            let so_far = trials.iter().filter(|it| (it.round as usize) < rounds);
            data.trials = so_far.cloned().collect();
            let is_decided = is_decided(&data.header.study, data.trials.clone());
            let ends = !has_ended && (is_decided || rounds == setup.rounds);
            if ends || looks_on {
                let mut totals = Totals::default();
                setup.judge(&summarise(&data), &mut totals);
                any |= totals.false_in_ranking > 0;
                if ends {
                    has_ended = true;
                    looks.false_at_end += totals.false_in_ranking;
                    looks.decided_after.extend(is_decided.then_some(rounds));
                    looks.neighbours.held += totals.neighbours.held;
                    looks.neighbours.of += totals.neighbours.of;
                }
            }
            if has_ended && !looks_on {
                break;
            }
        }
        looks.runs += 1;
        looks.false_at_any += u64::from(any);
    }
    looks
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
}

/// Errors and coverage of many runs.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    pub runs: u64,
    /// Runs with a false claim by the metric of the ranking, in a table or a sentence.
    pub false_in_ranking: u64,
    /// Sum of the shares of other claims that are false.
    pub false_share: f64,
    /// Runs that found a difference by the metric of the ranking.
    pub detected: u64,
    /// Places in which a transport is said to be faster than all others.
    pub named: u64,
    /// Pairs of neighbours, and those of which a difference was found.
    pub neighbours: Held,
    pub geometric: Held,
    pub arithmetic: Held,
    pub pairs: Held,
    pub changes: Held,
}

/// Draws and assesses `runs` runs; the same seed gives the same runs.
pub fn repeat(setup: &Setup, runs: u64, seed: u64) -> Totals {
    let mut totals = Totals::default();
    let mut rng = Rng::new(seed);
    for _ in 0..runs {
        let summary = summarise(&setup.run(&mut rng));
        setup.judge(&summary, &mut totals);
    }
    totals
}
