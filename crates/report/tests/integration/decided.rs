//! Runs that end when they are decided: the rule that ends them, and their reports.

use regatta_model::{Clock, Outcome, Study, TrialRecord, Until, metric::id};
use regatta_report::{
    Conclusion, RunData, Summary,
    analysis::{digest, is_decided},
    summarise,
};

use crate::common;

/// Most rounds of the runs below.
const AT_MOST: u32 = 30;

/// Returns a study that ends when it is decided.
fn study() -> Study {
    let mut study = common::study();
    study.rounds = AT_MOST;
    study.until = Some(Until::Decided);
    study.published.clear();
    study
}

/// Makes the run of a study whose goodput has this logarithm, of transport, condition and round; `None` is a trial that failed.
fn run(study: Study, log_goodput: impl Fn(&str, &str, u32) -> Option<f64>) -> RunData {
    let value = |trial: &TrialRecord| log_goodput(&trial.transport, &trial.condition, trial.round);
    let mut data = common::run(study, |trial| {
        value(trial)
            .is_none()
            .then_some((Outcome::Failed, "connection lost", ""))
    });
    for trial in &mut data.trials {
        if let Some(log) = log_goodput(&trial.transport, &trial.condition, trial.round) {
            let metrics = &mut trial.measurements.metrics;
            metrics.insert(id::GOODPUT_BPS.to_owned(), 1e7 * log.exp());
            trial.measurements.warnings.clear();
        }
    }
    data
}

/// Noise between −0.5 and 0.5, other for each cell and round.
fn noise(transport: &str, condition: &str, round: u32) -> f64 {
    let bytes = transport.bytes().chain(condition.bytes());
    let mut hash = bytes.chain(round.to_le_bytes()).fold(7_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash ^= hash >> 29;
    hash = hash.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((hash ^ (hash >> 32)) >> 11) as f64 / (1_u64 << 53) as f64 - 0.5
}

/// Leaves the first rounds of a run.
fn first_rounds(data: &RunData, rounds: u32) -> RunData {
    let mut data = data.clone();
    data.trials.retain(|trial| trial.round < rounds);
    data
}

fn is_enough(data: &RunData) -> bool {
    let study = &data.header.study;
    let digests = data.trials.iter().map(|trial| digest(study, trial));
    is_decided(study, digests.collect())
}

/// Returns the first number of rounds after which the rule ends a run.
fn end(data: &RunData) -> Option<u32> {
    (3..=AT_MOST).find(|rounds| is_enough(&first_rounds(data, *rounds)))
}

/// Returns the pairs of the leader of each place and another ranked transport that the report leaves undecided.
fn undecided(summary: &Summary) -> usize {
    let mut undecided = 0;
    for verdict in &summary.verdict.conditions {
        let lead = verdict.leaders.first().expect("one leads");
        for other in &verdict.ranking {
            let pair = summary.comparisons.iter().find(|it| {
                let pair = [&it.a, &it.b];
                it.metric == verdict.metric
                    && it.condition == verdict.condition
                    && pair.contains(&lead)
                    && pair.contains(&&other.transport)
                    && it.a != it.b
            });
            let conclusion = pair.map(|it| it.claim.conclusion);
            undecided += usize::from(conclusion == Some(Conclusion::Undecided));
        }
    }
    undecided
}

/// Goodput of transports of which two are alike, one fails now and then, and one does not retransmit and is ahead of all.
fn with_failures(transport: &str, condition: &str, round: u32) -> Option<f64> {
    let level = match transport {
        "udp" => 1.0,
        "tcp" | "tcp-bbr" => 0.5,
        "tcp-tls" => 0.45,
        "tcp-hybla" if round % 4 == 1 => return None,
        _ => 0.0,
    };
    Some(level + 0.02 * noise(transport, condition, round))
}

#[test]
fn a_run_that_ended_as_decided_is_reported_as_decided() {
    let data = run(study(), with_failures);
    let rounds = end(&data).expect("it ends");
    assert!((4..AT_MOST).contains(&rounds), "{rounds}");
    assert_eq!(undecided(&summarise(&first_rounds(&data, rounds))), 0);
    let before = summarise(&first_rounds(&data, rounds - 1));
    assert!(undecided(&before) > 0, "it ended late");
    // The interval that is shown is the one that decided.
    let after = summarise(&first_rounds(&data, rounds));
    for it in after
        .comparisons
        .iter()
        .filter(|it| it.metric == id::GOODPUT_BPS)
    {
        let Some([low, high]) = it.claim.interval else {
            continue;
        };
        let is_outside = low > 1.0 || high < 1.0;
        let is_cut = low == 1.0 || high == 1.0;
        let is_claimed = it.claim.conclusion.is_difference();
        assert!(is_outside == is_claimed || is_cut, "{it:?}");
        let is_within = low >= 1.0 / 1.03 && high <= 1.03;
        assert_eq!(
            it.claim.conclusion == Conclusion::Same,
            is_within && !is_claimed
        );
    }
}

/// The rule reads digests as it would read the records.
#[test]
fn digests_decide_as_records_do() {
    let mut data = run(study(), with_failures);
    // One delivers little by its deadline, so that it is not ranked.
    for trial in &mut data.trials {
        if trial.transport == "quic-quinn" && trial.round == 2 {
            let warning = regatta_model::Warning::of_texts("deadline_reached", "", "");
            trial.measurements.warnings.push(warning);
            let metrics = &mut trial.measurements.metrics;
            metrics.insert(id::GOODPUT_BPS.to_owned(), 1e5);
        }
    }
    for rounds in [3, 6, 10, 20] {
        let data = first_rounds(&data, rounds);
        let study = &data.header.study;
        let of_records = is_decided(study, data.trials.clone());
        assert_eq!(is_enough(&data), of_records, "{rounds}");
    }
}

/// Of two transports that differ by no more than chance one is never ahead for certain; within 3 % they are the same when the
/// interval is narrow enough.
#[test]
fn alike_transports_are_the_same_when_their_interval_is_narrow() {
    let mut study = study();
    study.transports.truncate(2);
    let alike = |spread: f64| {
        move |transport: &str, condition: &str, round: u32| {
            Some(spread * noise(transport, condition, round))
        }
    };
    let data = run(study.clone(), alike(0.04));
    let rounds = end(&data).expect("it ends");
    let summary = summarise(&first_rounds(&data, rounds));
    assert!(rounds > 4, "{rounds}");
    assert!(
        summary
            .comparisons
            .iter()
            .filter(|it| it.metric == id::GOODPUT_BPS)
            .all(|it| it.claim.conclusion == Conclusion::Same)
    );
    let wide = run(study, alike(0.5));
    assert_eq!(end(&wide), None);
}

/// Without randomness, a run in virtual time has the same values in every round.
#[test]
fn constant_values_in_virtual_time_are_decided_after_three_rounds() {
    let mut study = study();
    study.guest.clock = Clock::Virtual;
    let level = |transport: &str, _: &str, _: u32| {
        Some(if transport.starts_with("tcp") {
            0.5
        } else {
            0.0
        })
    };
    let data = run(study, level);
    assert_eq!(end(&data), Some(3));
    assert_eq!(undecided(&summarise(&first_rounds(&data, 3))), 0);
    // With a real clock three rounds are no proof.
    let mut real = data;
    real.header.study.guest.clock = Clock::Real;
    assert!(!is_enough(&first_rounds(&real, 3)));
}

/// More rounds rank nothing that fails, and nothing that does not retransmit.
#[test]
fn a_run_without_a_ranked_pair_ends_after_three_rounds() {
    let mut study = study();
    study
        .transports
        .retain(|it| ["tcp", "udp"].contains(&&*it.label));
    let spread = |transport: &str, condition: &str, round: u32| {
        Some(0.5 * noise(transport, condition, round))
    };
    assert_eq!(end(&run(study, spread)), Some(3));
    assert_eq!(end(&run(self::study(), |_, _, _| None)), Some(3));
}

#[test]
fn a_transport_whose_trials_were_spoiled_is_waited_for() {
    let mut study = study();
    study.transports.truncate(3);
    let level = |transport: &str, condition: &str, round: u32| {
        let level = if transport == "tcp" { 0.5 } else { 0.0 };
        Some(level + 0.01 * noise(transport, condition, round))
    };
    let mut data = run(study, level);
    let usual = end(&data).expect("it ends");
    let spoiled = data.trials.iter_mut();
    for trial in spoiled.filter(|it| it.transport == "tcp-hybla" && it.round < usual) {
        trial.outcome = Outcome::Invalid;
        trial.measurements.metrics.retain(|_, _| false);
    }
    let later = end(&data).expect("it ends");
    assert!(later >= usual + 3, "{later} after {usual}");
}

/// The other metrics of such a run have the intervals of any run.
#[test]
fn only_the_ranking_holds_at_any_stop() {
    let data = first_rounds(&run(study(), with_failures), 8);
    let mut fixed = data.clone();
    fixed.header.study.until = None;
    let [sequential, fixed] = [&data, &fixed].map(summarise);
    let mut wider = 0;
    for (sequential, fixed) in sequential.comparisons.iter().zip(&fixed.comparisons) {
        if sequential.metric == id::GOODPUT_BPS {
            let width = |it: Option<[f64; 2]>| it.map(|[low, high]| high / low);
            let widths = width(sequential.claim.interval).zip(width(fixed.claim.interval));
            wider += usize::from(widths.is_some_and(|(sequential, fixed)| sequential > fixed));
        } else {
            assert_eq!(sequential.claim, fixed.claim);
        }
    }
    assert!(wider > 5, "{wider}");
    assert_eq!(sequential.differences, fixed.differences);
}

/// Returns what the verdict of a run of two alike transports says last, and the rounds that it proposes.
fn proposal(change: impl Fn(&mut RunData)) -> (String, Option<[u64; 2]>) {
    let mut study = study();
    (study.rounds, study.until) = (5, None);
    study.transports.truncate(2);
    study.conditions.truncate(1);
    let mut data = run(study, |transport, condition, round| {
        Some(0.2 * noise(transport, condition, round))
    });
    change(&mut data);
    let summary = summarise(&data);
    let [verdict] = &summary.verdict.conditions[..] else {
        panic!("several places");
    };
    let (_, last) = verdict.text.split_once(". ").unwrap_or_default();
    (last.to_owned(), verdict.rounds_to_decide)
}

#[test]
fn an_undecided_run_of_fixed_rounds_proposes_a_new_one() {
    let (text, rounds) = proposal(|_| ());
    let [low, high] = rounds.expect("rounds");
    assert!(5 < low && low < high && high < 10_000, "{low} {high}");
    assert_eq!(
        text,
        format!(
            "A new run of {low} to {high} rounds should decide it, or one with `--rounds decided`."
        )
    );
    let (text, rounds) = proposal(|data| data.state = regatta_results::RunState::Running);
    assert_eq!((text.as_str(), rounds.is_some()), ("", true));
}

#[test]
fn an_undecided_run_that_has_spent_its_budget_says_how_it_would_be_decided() {
    let until_decided = |rounds: u32| {
        move |data: &mut RunData| {
            data.header.study.until = Some(Until::Decided);
            data.header.study.rounds = rounds;
        }
    };
    let (text, rounds) = proposal(until_decided(5));
    let [low, high] = rounds.expect("rounds");
    assert_eq!(
        text,
        format!(
            "The run has spent its 5 rounds; a new one with `--rounds decided --at-most {high}` should be decided after {low} to {high}."
        )
    );
    let (text, _) = proposal(until_decided(60));
    assert_eq!(
        text,
        "The run has spent its time; `regatta resume` goes on."
    );
}
