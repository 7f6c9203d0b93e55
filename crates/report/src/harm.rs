//! Harm to flows of a competition: the part of its goodput alone that a flow loses to the others, in the same round.

use std::collections::BTreeMap;

use regatta_model::{Name, Outcome, Study, TrialRecord, Workload, metric::id};

/// Round, transport, condition and workload of a trial.
type Place<'a> = (u32, [&'a str; 3]);

/// Adds the harm to each flow whose transport has done the same work alone in the same round. Needs the trials of the whole
/// round, so that it is of no single trial's record.
pub(crate) fn add(study: &Study, trials: &mut [TrialRecord]) {
    let competes = |work: &Workload| work.competition.is_some();
    if !study.workloads.iter().any(competes) {
        return;
    }
    let alone: BTreeMap<Place<'_>, f64> = (trials.iter())
        .filter(|trial| trial.outcome == Outcome::Measured)
        .filter_map(|trial| {
            let cell = [&trial.transport, &trial.condition, &trial.workload];
            let place = (trial.round, cell.map(Name::as_str));
            let goodput = trial.measurements.metrics.get(id::GOODPUT_BPS)?;
            (*goodput > 0.0).then_some((place, *goodput))
        })
        .collect();
    let harms: Vec<Option<f64>> = trials
        .iter()
        .map(|trial| harm(study, trial, &alone))
        .collect();
    for (trial, harm) in trials.iter_mut().zip(harms) {
        if let Some(harm) = harm {
            let metrics = &mut trial.measurements.metrics;
            metrics.insert(id::HARM_RATIO, harm);
        }
    }
}

/// Returns the harm to a flow; `None` for work that is done alone, and without a goodput of both.
fn harm(study: &Study, trial: &TrialRecord, alone: &BTreeMap<Place<'_>, f64>) -> Option<f64> {
    let mut works = study.workloads.iter();
    let work = works.find(|it| it.name == trial.workload)?;
    let flow = work.competition.as_ref()?.flow(&trial.transport)?;
    let transport = flow.copy_of.as_ref().unwrap_or(&flow.transport);
    let kind = &work.of_transport(&flow.transport).kind;
    let mut alike = study
        .workloads
        .iter()
        .filter(|it| it.competition.is_none() && it.kind == *kind && it.is_under(&trial.condition));
    let goodput = alike.find_map(|it| {
        let cell = [transport.as_str(), &trial.condition, &it.name];
        alone.get(&(trial.round, cell))
    })?;
    let metrics = &trial.measurements.metrics;
    let beside = match trial.outcome {
        Outcome::Measured => metrics
            .get(id::COMPETING_GOODPUT_BPS)
            .or_else(|| metrics.get(id::GOODPUT_BPS))
            .copied()?,
        // It got nothing.
        Outcome::TimedOut => 0.0,
        Outcome::Failed | Outcome::Invalid | Outcome::Unsupported => return None,
    };
    Some((1.0 - beside / goodput).max(0.0))
}
