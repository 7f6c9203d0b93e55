//! Warnings, equal ones once with their number.

use super::summary::CountedWarning;
use crate::RunData;

/// Those of the run first, then those of trials, in order of appearance.
///
/// Warnings of trials are equal if their code and hint are: their sentences carry the trial's
/// figures. One that is a warning of the run to the letter, as a failed path check marks its trials,
/// is listed with that.
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
    counted
}
