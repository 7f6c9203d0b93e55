//! Several tunings of the hosts on the command line: every condition is run under each of them.

use regatta_model::{Named as _, Part, Study, Tuning};

use crate::args::PathArgs;

/// Returns the tunings of the command line if there are several; none for one, which is a key like others.
pub fn several(args: &PathArgs) -> Vec<Tuning> {
    let all: Vec<Tuning> = (args.keys.tunings())
        .filter_map(Tuning::from_name)
        .collect();
    match all.len() {
        1 => Vec::new(),
        _ => all,
    }
}

/// Returns the name of a condition, or of a group of them, under one of several tunings.
pub fn name(condition: &str, tuning: Tuning) -> String {
    format!("{condition}, tuning {}", tuning.as_str())
}

/// Replaces each condition of a study by one for each tuning, with its parameters of sweeps, its published figures and its
/// claims.
pub fn multiply(study: &mut Study, tunings: &[Tuning]) {
    if tunings.is_empty() {
        return;
    }
    study.conditions = each(&study.conditions, tunings, |condition, tuning| {
        condition.name = name(&condition.name, tuning);
        condition.tuning.base = tuning;
    });
    for workload in &mut study.workloads {
        workload.conditions = each(&workload.conditions, tunings, |condition, tuning| {
            *condition = name(condition, tuning);
        });
    }
    study.published = each(&study.published, tunings, |published, tuning| {
        published.condition = name(&published.condition, tuning);
    });
    study.claims = each(&study.claims, tunings, |claim, tuning| {
        claim.text = name(&claim.text, tuning);
        for [_, condition, _] in claim.cells_mut() {
            *condition = name(condition, tuning);
        }
    });
    let (of_conditions, others) = (std::mem::take(&mut study.sweeps.entries).into_iter())
        .partition::<Vec<_>, _>(|entry| entry.part == Part::Condition);
    study.sweeps.entries = others;
    let entries = each(&of_conditions, tunings, |entry, tuning| {
        entry.name = name(&entry.name, tuning);
        entry.base = name(&entry.base, tuning);
    });
    study.sweeps.entries.extend(entries);
}

/// Returns a changed copy of each item for each tuning.
fn each<T: Clone>(items: &[T], tunings: &[Tuning], change: impl Fn(&mut T, Tuning)) -> Vec<T> {
    let pairs = items
        .iter()
        .flat_map(|item| tunings.iter().map(move |tuning| (item, *tuning)));
    let copies = pairs.map(|(item, tuning)| {
        let mut copy = item.clone();
        change(&mut copy, tuning);
        copy
    });
    copies.collect()
}
