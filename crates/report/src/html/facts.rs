//! Values of a run that the templates show as they are. Cells, comparisons and conditions are not among them: a sweep
//! has thousands, and pages have tables of them.

use regatta_model::{RunHeader, Source, Study, Transport};
use serde::Serialize;

use crate::{
    Summary,
    analysis::{CountedWarning, Gate, State, Statistics},
};

/// Values of the header of a run.
#[derive(Serialize)]
pub struct HeaderFacts<'a> {
    run_id: &'a str,
    regatta_version: &'a str,
    bed: &'a str,
    study_text: &'a str,
}

impl<'a> HeaderFacts<'a> {
    pub fn of(header: &'a RunHeader) -> Self {
        Self {
            run_id: &header.run_id,
            regatta_version: &header.regatta_version,
            bed: &header.bed,
            study_text: &header.study_text,
        }
    }
}

/// Values of a study.
#[derive(Serialize)]
pub struct StudyFacts<'a> {
    name: &'a str,
    title: &'a str,
    description: &'a str,
    source: Option<&'a Source>,
    rounds: u32,
    /// Whether the run ends when its intervals are narrow enough.
    until: bool,
    seed: u64,
    transports: &'a [Transport],
}

impl<'a> StudyFacts<'a> {
    pub fn of(study: &'a Study) -> Self {
        Self {
            name: &study.name,
            title: &study.title,
            description: &study.description,
            source: study.source.as_ref(),
            rounds: study.rounds,
            until: study.until.is_some(),
            seed: study.seed,
            transports: &study.transports,
        }
    }
}

/// Values of a summary.
#[derive(Serialize)]
pub struct SummaryFacts<'a> {
    rounds: u32,
    state: &'a State,
    statistics: &'a Statistics,
    verdict: Overall<'a>,
    gates: &'a [Gate],
    warnings: &'a [CountedWarning],
}

/// Verdict over the whole run.
#[derive(Serialize)]
struct Overall<'a> {
    overall: &'a str,
    workloads: &'a [String],
}

impl<'a> SummaryFacts<'a> {
    pub fn of(summary: &'a Summary) -> Self {
        Self {
            rounds: summary.rounds,
            state: &summary.state,
            statistics: &summary.statistics,
            verdict: Overall {
                overall: &summary.verdict.overall,
                workloads: &summary.verdict.workloads,
            },
            gates: &summary.gates,
            warnings: &summary.warnings,
        }
    }
}
