//! Error rates, coverage and power of a report's statistics with synthetic data: the short form of
//! `make validity`.
//!
//! Seeds are fixed. Each bound is one that a sound procedure passes for all but one seed in 10 000.

use regatta_stats::plausible_counts;

use crate::{
    draws::Kind,
    runs::{Setup, look, repeat},
};

/// Returns an upper bound for the number of `n` runs with an event whose probability is at most
/// `p`.
fn most(n: u64, p: f64) -> u64 {
    plausible_counts(n, p, 2e-4).1
}

fn few_false_claims(kind: Kind, transports: usize, rounds: usize) {
    let totals = repeat(&Setup::equal(kind, transports, rounds), 200, 1);
    let wrong = totals.false_in_ranking;
    println!("{wrong} runs of {} with a false claim", totals.runs);
    assert!(wrong <= most(totals.runs, 0.05));
    // A run without any difference has no other share than none and all.
    assert!(totals.false_share.round() as u64 <= most(totals.runs, 0.05));
}

#[test]
fn few_runs_of_equal_transports_claim_a_difference() {
    few_false_claims(Kind::LogNormal, 5, 5);
}

#[test]
fn two_modes_make_no_false_claims() {
    few_false_claims(Kind::Bimodal, 3, 10);
}

#[test]
fn a_machine_that_drifts_makes_no_false_claims() {
    few_false_claims(Kind::DriftingMachine, 3, 20);
}

#[test]
fn a_busy_machine_makes_no_false_claims() {
    few_false_claims(Kind::BusyMachine, 4, 5);
}

#[test]
fn heavy_tails_make_no_false_claims() {
    few_false_claims(Kind::HeavyTails, 5, 5);
}

/// Five transports 2 % apart, with a spread of 0.2 % in five rounds: every pair is told apart.
#[test]
fn small_differences_are_found_in_five_rounds() {
    let setup = Setup {
        levels: (0..5).map(|t| 0.02_f64.ln_1p() * f64::from(t)).collect(),
        scale: 0.002 / 0.06,
        ..Setup::equal(Kind::LogNormal, 5, 5)
    };
    let totals = repeat(&setup, 200, 4);
    let missed = totals.neighbours.of - totals.neighbours.held;
    println!(
        "{missed} of {} pairs missed, {} named",
        totals.neighbours.of, totals.named
    );
    assert!(missed <= most(totals.neighbours.of, 0.01));
    // Also by the sentences: the best is faster than all others under both conditions.
    assert!(totals.named >= 2 * totals.runs - most(2 * totals.runs, 0.01));
}

#[test]
fn trials_missing_in_slow_rounds_cause_no_false_claims() {
    few_false_claims(Kind::MissingByRound, 3, 10);
}

#[test]
fn slow_trials_missing_for_all_transports_cause_no_false_claims() {
    few_false_claims(Kind::MissingByTrial, 3, 10);
}

#[test]
fn rounds_that_remember_cause_few_false_claims_from_ten_on() {
    for (kind, rounds) in [(Kind::OwnAr1Weak, 10), (Kind::OwnAr1, 20)] {
        let totals = repeat(&Setup::equal(kind, 4, rounds), 200, 1);
        let wrong = totals.false_in_ranking;
        println!(
            "{kind:?}: {wrong} runs of {} with a false claim",
            totals.runs
        );
        assert!(wrong <= most(totals.runs, 0.06), "{kind:?}");
    }
}

/// Checks a coverage of 95 %, within chance and one per cent for values that are not exactly
/// normal.
#[test]
fn intervals_cover_the_true_value() {
    for kind in [Kind::LogNormal, Kind::Bimodal] {
        let totals = repeat(&Setup::simple(kind, &[0.0, 0.05], 10), 600, 2);
        for (what, held) in [
            ("the ratio", totals.pairs),
            ("the geometric mean", totals.geometric),
        ] {
            println!("{kind:?}: {} of {} intervals of {what}", held.held, held.of);
            // The two cells of a run share its rounds: counted as one.
            let runs = held.of.min(totals.runs);
            let missed = (held.of - held.held) * runs / held.of;
            let (least, most) = (plausible_counts(runs, 0.04, 2e-4).0, most(runs, 0.06));
            assert!(
                (least..=most).contains(&missed),
                "{kind:?}: {missed} of {runs} miss {what}"
            );
        }
    }
}

/// Checks a power of 80 % at the number of rounds that the plan names, within chance and three per
/// cent for the rounding to whole rounds.
#[test]
fn the_planned_rounds_detect_the_difference() {
    let rounds =
        regatta_stats::rounds_to_detect(0.02_f64.hypot(0.03), 0.03_f64.ln_1p(), 0.95, 0.8, 100);
    let rounds = rounds.expect("few are enough");
    let setup = Setup::simple(Kind::LogNormal, &[0.03_f64.ln_1p(), 0.0], rounds);
    let totals = repeat(&setup, 400, 3);
    let (least, _) = plausible_counts(400, 0.8, 2e-4);
    let (_, most) = plausible_counts(400, 0.83, 2e-4);
    println!("{} of 400 at {rounds} rounds", totals.detected);
    assert!((least..=most).contains(&totals.detected));
}

/// Looks after every round do not make more claims false than the bound of one look.
#[test]
fn many_looks_at_runs_that_end_when_decided_make_no_false_claims() {
    let setup = Setup::until_decided(Kind::DriftingMachine, &[0.0; 3], 12);
    let looks = look(&setup, 30, 5, true);
    println!(
        "{} runs of {} with a false claim",
        looks.false_at_any, looks.runs
    );
    assert!(looks.false_at_any <= most(looks.runs, 0.02));
}

/// Transports 2 % apart, with a spread of 0.2 %: the leader is decided after seven rounds.
#[test]
fn runs_that_end_when_decided_find_small_differences_by_round_seven() {
    let levels: Vec<f64> = (0..5).map(|t| 0.02_f64.ln_1p() * f64::from(t)).collect();
    let setup = Setup {
        scale: 0.002 / 0.06,
        ..Setup::until_decided(Kind::LogNormal, &levels, 12)
    };
    let looks = look(&setup, 100, 6, false);
    let late = looks.runs - looks.decided_by(7);
    println!("{late} of {} runs took more than seven rounds", looks.runs);
    assert!(late <= most(looks.runs, 0.01));
    assert!(looks.false_at_end <= most(looks.runs, 0.02));
}
