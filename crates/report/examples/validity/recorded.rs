//! Runs that were recorded: of a transport against itself, and against one that a lower rate makes slower.

use std::collections::BTreeMap;

use regatta_report::{Conclusion, summarise};
use regatta_stats::binomial_interval;

use super::{
    draws::{Kind, Rng},
    percent,
    runs::{METRICS, Setup},
};

/// Goodput in bit/s by machine and round: `a` and `a2` are the same, `b` is slower. From `regatta run
/// crates/report/examples/validity/recorded.toml`, the column `goodput_bps` of `trials.csv`.
const RECORDED: &str = include_str!("recorded.csv");

/// Numbers of rounds of the runs that a recorded one is cut into.
const ROUNDS: [usize; 2] = [5, 10];

/// Share of false runs that is promised.
const PROMISED: f64 = 0.05;

/// Rounds of a machine: goodput of `a`, `a2` and `b`.
type Rounds = Vec<[f64; 3]>;

fn recorded() -> BTreeMap<&'static str, Rounds> {
    let mut machines: BTreeMap<&str, Rounds> = BTreeMap::new();
    for line in RECORDED.lines().skip(1) {
        let mut fields = line.split(',');
        let machine = fields.next().unwrap_or_default();
        let values: Vec<f64> = fields
            .skip(1)
            .filter_map(|field| field.parse().ok())
            .collect();
        if let [a, a2, b] = values[..] {
            machines.entry(machine).or_default().push([a, a2, b]);
        }
    }
    machines
}

/// Returns the conclusion of a run of two transports about these rounds.
fn conclusion(rounds: &[[f64; 2]]) -> Conclusion {
    let setup = Setup::simple(Kind::LogNormal, &[0.0, 0.0], rounds.len());
    let mut run = setup.run(&mut Rng::new(1));
    for trial in &mut run.trials {
        let side = usize::from(trial.transport == "t1");
        let metrics = &mut trial.measurements.metrics;
        metrics.insert(METRICS[0].to_owned(), rounds[trial.round as usize][side]);
    }
    summarise(&run).comparisons[0].claim.conclusion
}

/// Writes how often the recorded runs, cut into short ones, make a false claim and find the difference; returns whether the
/// false claims are within the promise.
pub fn table(out: &mut String) -> bool {
    let mut holds = true;
    for (machine, rounds) in recorded() {
        for size in ROUNDS {
            let runs: Vec<&[[f64; 3]]> = rounds.chunks_exact(size).collect();
            let count = |sides: [usize; 2], is: &dyn Fn(Conclusion) -> bool| {
                let of_run = |run: &&&[[f64; 3]]| {
                    let pairs: Vec<[f64; 2]> =
                        run.iter().map(|it| sides.map(|side| it[side])).collect();
                    is(conclusion(&pairs))
                };
                runs.iter().filter(of_run).count() as u64
            };
            let of = runs.len() as u64;
            let mistaken = count([0, 1], &|it| it.is_difference());
            let same = count([0, 1], &|it| it == Conclusion::Same);
            let found = count([0, 2], &|it| it == Conclusion::Faster);
            let reversed = count([0, 2], &|it| it == Conclusion::Slower);
            let difference =
                rounds.iter().map(|it| (it[0] / it[2]).ln()).sum::<f64>() / rounds.len() as f64;
            holds &= binomial_interval(mistaken, of, 0.998)[0] <= PROMISED;
            *out += &format!(
                "| {machine} | {size} | {of} | {} | {} | {:.2} % | {} | {} |\n",
                percent(mistaken, of),
                percent(same, of),
                difference.exp_m1() * 100.0,
                percent(found, of),
                percent(reversed, of),
            );
        }
    }
    holds
}
