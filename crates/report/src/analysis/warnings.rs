//! Warnings, equal ones once with their number.

use super::summary::{Cell, Comparison, CountedWarning};
use crate::{
    RunData,
    format::{number, signed_percent},
};

/// Lists those of the run first, then those of trials, in order of appearance, then what the rounds show.
///
/// Warnings of trials are equal if their code and hint are: their sentences carry the trial's
/// figures. One that is a warning of the run to the letter, as a failed path check marks its trials,
/// is listed with that.
pub fn all(data: &RunData, cells: &[Cell], comparisons: &[Comparison]) -> Vec<CountedWarning> {
    let mut counted: Vec<CountedWarning> = Vec::new();
    for warning in &data.warnings {
        let known = counted.iter().any(|c| {
            c.code == warning.code && c.message == warning.message && c.hint == warning.hint
        });
        if !known {
            counted.push(CountedWarning {
                code: warning.code.clone(),
                message: warning.message.clone(),
                hint: warning.hint.clone(),
                trials: 0,
                cells: Vec::new(),
            });
        }
    }
    let of_run = counted.len();
    for trial in &data.trials {
        let cell = format!("`{}` under `{}`", trial.transport, trial.condition);
        for (position, warning) in trial.warnings.iter().enumerate() {
            // One trial may carry a code twice, once for each end: it counts once.
            let alike = |code: &str, hint: &str| code == warning.code && hint == warning.hint;
            let again = trial.warnings[..position]
                .iter()
                .any(|w| alike(&w.code, &w.hint));
            if again {
                continue;
            }
            let known = counted.iter_mut().enumerate().find(|(position, c)| {
                alike(&c.code, &c.hint) && (*position >= of_run || c.message == warning.message)
            });
            match known {
                Some((position, known)) => {
                    if position >= of_run {
                        known.trials += 1;
                    }
                    if !known.cells.contains(&cell) {
                        known.cells.push(cell.clone());
                    }
                }
                None => counted.push(CountedWarning {
                    code: warning.code.clone(),
                    message: warning.message.clone(),
                    hint: warning.hint.clone(),
                    trials: 1,
                    cells: vec![cell.clone()],
                }),
            }
        }
    }
    counted.extend(correlated(data, cells, comparisons));
    counted.extend(drifting(cells));
    counted
}

/// Rounds that depend on the rounds before, by the metrics that the work is ranked by.
fn correlated(
    data: &RunData,
    cells: &[Cell],
    comparisons: &[Comparison],
) -> Option<CountedWarning> {
    let mut named = Vec::new();
    let mut largest: f64 = 0.0;
    let mut add = |name: String, rho: f64| {
        if rho > 0.0 && !named.contains(&name) {
            named.push(name);
            largest = largest.max(rho);
        }
    };
    for c in comparisons
        .iter()
        .filter(|c| data.is_primary(&c.metric, &c.workload))
    {
        add(
            format!("the pairs under `{}`", c.condition),
            c.claim.autocorrelation,
        );
    }
    for cell in cells {
        let name = format!("`{}` under `{}`", cell.transport, cell.condition);
        add(name, cell.autocorrelation);
    }
    (!named.is_empty()).then(|| CountedWarning {
        code: "rounds_correlated".to_owned(),
        message: format!(
            "neighbouring rounds are alike (lag-1 autocorrelation up to {}), so their intervals are \
             wider than independent rounds would give",
            number(largest)
        ),
        hint: "find what drifts, such as the load or the temperature of the machine, or run more \
               rounds; of 20 places without any correlation, one is named here"
            .to_owned(),
        trials: 0,
        cells: named,
    })
}

/// Cells whose values rise or fall over the rounds.
fn drifting(cells: &[Cell]) -> Option<CountedWarning> {
    let changes: Vec<(&Cell, f64)> = (cells.iter())
        .filter_map(|cell| Some((cell, cell.trend_ratio?)))
        .collect();
    let largest = (changes.iter()).max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
    Some(CountedWarning {
        code: "trend_over_rounds".to_owned(),
        message: format!(
            "`{}` under `{}` changed by {} from the first round to the last",
            largest.0.transport,
            largest.0.condition,
            signed_percent(largest.1)
        ),
        hint: "read its interval as one of a changing quantity; comparisons within rounds hold if all \
               transports changed alike"
            .to_owned(),
        trials: 0,
        cells: (changes.iter())
            .map(|(cell, _)| format!("`{}` under `{}`", cell.transport, cell.condition))
            .collect(),
    })
}
