//! Warnings, equal ones once with their number.

use super::summary::CountedWarning;
use crate::RunData;

/// Those of the run first, then those of trials, in order of appearance.
///
/// Warnings of trials are equal if their code and hint are: their sentences carry the trial's
/// figures.
pub fn all(data: &RunData) -> Vec<CountedWarning> {
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
    for trial in &data.trials {
        let cell = format!("`{}` under `{}`", trial.transport, trial.condition);
        for (position, warning) in trial.warnings.iter().enumerate() {
            // One trial may carry a code twice, once for each end: it counts once.
            let again = trial.warnings[..position]
                .iter()
                .any(|w| w.code == warning.code && w.hint == warning.hint);
            if again {
                continue;
            }
            let known = counted
                .iter_mut()
                .find(|c| c.trials > 0 && c.code == warning.code && c.hint == warning.hint);
            match known {
                Some(known) => {
                    known.trials += 1;
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
    counted
}
