//! Gates of a run, and reasons for which trials were not measured, for a terminal.

use itertools::Itertools as _;

use crate::{
    Summary,
    analysis::Gate,
    format::grouped,
    language::{self, plural, tr},
    text::TerminalText,
};

/// Writes the gates that the run has missed.
pub fn missed_gates(out: &mut TerminalText, summary: &Summary) {
    write_gates(out, summary.gates.iter().filter(|gate| !gate.passed));
}

/// Writes gates, one on a line.
pub fn write_gates<'a>(out: &mut TerminalText, gates: impl Iterator<Item = &'a Gate>) {
    for gate in gates {
        let (verdict, code) = match (gate.passed, gate.not_judged) {
            (_, true) => ("–".to_owned(), "33"),
            (true, _) => (tr!("pass"), "32"),
            (false, _) => (tr!("MISS"), "1;31"),
        };
        let name = gate.name.replace('_', " ");
        let line = format!("{}: {}", language::text(&name), gate.detail);
        let first = out.paint(&verdict, code) + "  ";
        out.line(&first, &line, verdict.chars().count() + 2);
    }
}

/// Returns the reasons for which trials were not measured, equal ones once, each with its hint on a second line.
pub fn reasons(summary: &Summary) -> Vec<String> {
    let reasons = summary.cells.iter().flat_map(|cell| {
        let of_cell = cell.reasons.iter();
        of_cell.map(|it| ((&it.outcome, &it.reasons, &it.hint), (&cell.transport, it)))
    });
    let reasons = grouped(reasons).into_iter();
    let reasons = reasons.map(|(_, alike)| {
        let first = alike[0].1;
        let mut transports = alike.iter().map(|(transport, _)| transport).unique();
        let text = plural!(
            alike.iter().map(|(_, reason)| reason.count).sum(),
            "`{1}`: {0} trial {2}{3}",
            "`{1}`: {0} trials {2}{3}",
            transports.join("`, `"),
            first.outcome_text(),
            format!(": {}", first.causes_text())
        );
        format!("{text}\n{}", first.hint)
    });
    reasons.collect()
}
