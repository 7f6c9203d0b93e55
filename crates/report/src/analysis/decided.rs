//! Stopping rule of a run with `rounds = { until = "decided", … }`.
//!
//! The rule asks what the report would say of the rounds so far, so that a run that ended as decided is reported as
//! decided, by the intervals that ended it.

use std::collections::BTreeMap;

use regatta_model::{
    Measurements, Outcome, RunHeader, RunPart, Study, Text, TrialRecord, metric::id, warning_code,
};
use regatta_results::RunState;

use super::{
    cells, claims, failures,
    index::{Index, trials_by_cell},
    ranking::RankedGroup,
    summary::Cell,
    summary_index::SummaryIndex,
};
use crate::RunData;

/// Returns the part of a record that decides the ranking: a run keeps those of all its trials.
#[must_use]
pub fn digest(study: &Study, record: &TrialRecord) -> TrialRecord {
    let of_workload = study.workloads.iter().find(|it| it.name == record.workload);
    let ranked = of_workload.map(|it| [study.primary_metric(it), it.primary_metric()]);
    // The bytes are those of the time of a transfer that the deadline stopped.
    let is_kept = |name: &str| {
        [id::BYTES_SENT, id::BYTES_DELIVERED].contains(&name)
            || failures::METRICS.contains(&name)
            || ranked.is_some_and(|names| names.contains(&name))
    };
    let mut metrics = record.measurements.metrics.clone();
    metrics.retain(|name, _| is_kept(name));
    let facts = record.measurements.facts.iter();
    let facts = facts.filter(|(name, _)| *name == cells::RETRANSMISSION);
    let warnings = record.measurements.warnings.iter();
    let warnings = warnings.filter(|it| it.code == warning_code::DEADLINE_REACHED);
    TrialRecord {
        transport: record.transport.clone(),
        condition: record.condition.clone(),
        workload: record.workload.clone(),
        reasons: Vec::new(),
        hint: Text::default(),
        measurements: Measurements {
            metrics,
            series: Vec::new(),
            histograms: Vec::new(),
            facts: facts
                .map(|(name, fact)| (name.clone(), fact.clone()))
                .collect(),
            warnings: warnings.cloned().collect(),
        },
        ..*record
    }
}

/// Whether, after these trials, every pair that contains the leader of its condition and workload is decided. `trials` are
/// the last attempts of whole rounds, or their [`digest`]s, in the order of the plan. Transports that are not ranked, as they fail
/// or do not retransmit, are not waited for; those that the machine spoiled are.
#[must_use]
pub fn is_decided(study: &Study, trials: Vec<TrialRecord>) -> bool {
    let data = RunData {
        header: RunHeader {
            run_id: String::new(),
            regatta_version: String::new(),
            started_unix_ns: 0,
            study: study.clone(),
            study_text: String::new(),
            bed: Text::default(),
            hosts: BTreeMap::new(),
            part: RunPart::default(),
        },
        trials,
        repeated: Vec::new(),
        path_checks: Vec::new(),
        warnings: Vec::new(),
        hosts: Vec::new(),
        nodes: BTreeMap::new(),
        state: RunState::Running,
    };
    let trials = trials_by_cell(&data);
    let index = Index::of(&data, &trials);
    let cells = cells::all(&index, &trials);
    let (comparisons, _, _) = claims::all(&index);
    let by_study = (study.rank_by.as_deref(), study.equivalence.0);
    let index = SummaryIndex::of_cells(&cells, &comparisons, by_study);
    let groups: Vec<RankedGroup<'_>> = (data.groups())
        .filter_map(|group| RankedGroup::new(&index, group))
        .collect();
    let is_spoiled = |cell: &Cell| cell.n == 0 && cell.outcome(Outcome::Invalid) > 0;
    groups.iter().all(RankedGroup::is_decided) && !cells.iter().any(is_spoiled)
}

#[cfg(test)]
mod tests {
    use regatta_model::{METRICS, Warning};

    use super::*;
    use crate::analysis::fixture::{bulk, messages, stopped, trial};

    /// Failures decide who is ranked.
    #[test]
    fn a_digest_has_the_failures_of_its_record() {
        let metrics: Vec<(&str, f64)> = METRICS.iter().map(|it| (it.name, 3.0)).collect();
        for workload in [bulk(), messages()] {
            let text = "[[transport]]\ndriver = \"tcp\"\n[[condition]]\nname = \"path\"\n[[workload]]\nkind = \"bulk\"\n";
            let mut study = Study::parse(text, "study.toml").expect("a study");
            study.workloads = vec![workload];
            for left_out in METRICS.iter().map(|it| it.name) {
                let metrics = metrics.iter().filter(|it| it.0 != left_out).copied();
                let record = trial(0, Outcome::Measured, &Vec::from_iter(metrics));
                let kept = digest(&study, &record);
                assert!(kept.measurements.metrics.len() < 15);
                let [of_record, of_digest] =
                    [record, kept].map(|it| failures::of(&[&it], &study.workloads[0]));
                assert!(!of_record.is_empty());
                assert_eq!(of_record, of_digest, "without `{left_out}`");
            }
        }
    }

    #[test]
    fn a_digest_has_the_time_of_a_transfer_that_the_deadline_stopped() {
        let mut study = Study::parse(
            "rank_by = \"transfer_time_ns\"\n[[transport]]\ndriver = \"tcp\"\n[[condition]]\nname = \"path\"\n[[workload]]\nkind = \"bulk\"\n",
            "study.toml",
        )
        .expect("a study");
        study.workloads = vec![bulk()];
        let metrics = [(id::TRANSFER_TIME_NS, 1e9), (id::BYTES_DELIVERED, 250.0)];
        let record = stopped(0, &metrics);
        let time = |record: &TrialRecord| record.value(id::TRANSFER_TIME_NS, &bulk().kind);
        assert_eq!(time(&record), Some(4e9));
        assert_eq!(time(&digest(&study, &record)), Some(4e9));
    }

    #[test]
    fn a_digest_has_the_fact_and_the_warning_that_decide() {
        let text = "[[transport]]\ndriver = \"tcp\"\n[[condition]]\nname = \"path\"\n[[workload]]\nkind = \"bulk\"\n";
        let study = Study::parse(text, "study.toml").expect("a study");
        let mut record = stopped(0, &[]);
        let mut fact = |name: &str| record.measurements.facts.insert(name, "none");
        fact(cells::RETRANSMISSION);
        fact("another");
        let another = Warning::of_texts("another", "", "");
        record.measurements.warnings.push(another);
        let kept = digest(&study, &record).measurements;
        assert_eq!(
            kept.facts.keys().collect::<Vec<_>>(),
            [cells::RETRANSMISSION]
        );
        assert_eq!(kept.warnings.len(), 1);
        assert_eq!(kept.warnings[0].code, warning_code::DEADLINE_REACHED);
    }
}
