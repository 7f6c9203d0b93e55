//! Advice for an undecided ranking: how many rounds would decide it.

use regatta_model::{Clock, Study, Until};
use regatta_results::RunState;
use regatta_stats::{Estimate, rounds_to_detect, sequential_rounds_to_detect};

use super::{
    claims::{Looks, POWER, PairSpread},
    ranking::RankedGroup,
};
use crate::{RunData, language::tr};

/// Level of the interval of the spread between whose ends the number of rounds of a new run lies.
const SPREAD_CONFIDENCE: f64 = 0.5;

/// Returns the sentence that says how an undecided group would be decided, with a space before it, `rounds` being those of
/// [`rounds_to_decide`]; empty for a decided group, for one without a leader, and for a run that is not over.
pub fn sentence(data: &RunData, group: &RankedGroup<'_>, rounds: Option<[u64; 2]>) -> String {
    if group.undecided_claims().is_empty() || data.state != RunState::Complete {
        return String::new();
    }
    let study = &data.header.study;
    match study.until {
        Some(Until::Decided) if data.rounds() < study.rounds => {
            tr!(" The run has spent its time; `regatta resume` goes on.")
        }
        Some(Until::Decided) => spent(study, rounds),
        Some(Until::Narrow(_)) | None => new_run(rounds),
    }
}

/// Returns the sentence of [`sentence`] as a clause; `None` where there is nothing to say.
pub fn clause(data: &RunData, group: &RankedGroup<'_>, rounds: Option<[u64; 2]>) -> Option<String> {
    let sentence = sentence(data, group, rounds);
    let clause = sentence.trim().trim_end_matches('.');
    let mut characters = clause.chars();
    let first = characters.next()?;
    Some(first.to_lowercase().chain(characters).collect())
}

/// Returns the numbers of rounds from which and up to which a new run should decide the leader of a group against every
/// other transport, the largest of all pairs; `None` if it is decided, and if they are not known.
pub fn rounds_to_decide(data: &RunData, group: &RankedGroup<'_>) -> Option<[u64; 2]> {
    let study = &data.header.study;
    let by = (Looks::of(study), study.guest.clock);
    let mut most = None;
    for claim in group.undecided_claims() {
        let of_pair = of_pair(by, &claim.estimate.0?, claim.confidence, group.equivalence)?;
        let [low, high] = most.unwrap_or(of_pair);
        most = Some([of_pair[0].max(low), of_pair[1].max(high)]);
    }
    most
}

/// Returns the numbers of rounds in which a new run has a power of [`POWER`] to decide a pair, with the difference that these
/// rounds show, and the spread at the ends of its interval; no fewer than these rounds. `None` for one round, and above
/// [`PairSpread::MAX_ROUNDS`].
fn of_pair(
    (looks, clock): (Looks, Clock),
    estimate: &Estimate,
    confidence: f64,
    equivalence: f64,
) -> Option<[u64; 2]> {
    if estimate.is_constant() {
        let rounds = match clock {
            Clock::Virtual => 3,
            // The p-value of the sign test halves with each round.
            Clock::Real => 1 + (-(1.0 - confidence).log2()).ceil() as u64,
        };
        return Some([rounds.max(estimate.n as u64); 2]);
    }
    // What is nearer to no difference than to one of the equivalence is decided as the same.
    let difference = estimate.mean.abs();
    let margin = difference.max(equivalence.ln_1p() - difference);
    let rounds = |sd| {
        let most = PairSpread::MAX_ROUNDS;
        let rounds = match looks {
            Looks::Once => rounds_to_detect(sd, margin, confidence, POWER, most),
            Looks::EveryRound => sequential_rounds_to_detect(sd, margin, confidence, POWER, most),
        };
        rounds.map(|rounds| rounds.max(estimate.n) as u64)
    };
    let [low, high] = estimate.interval_of_deviation(SPREAD_CONFIDENCE)?;
    Some([rounds(low)?, rounds(high)?])
}

/// Returns the sentence that proposes a new run, of these numbers of rounds if they are known. More rounds of the old run
/// are not proposed: a test of a fixed number of rounds may not be repeated until it pleases.
fn new_run(rounds: Option<[u64; 2]>) -> String {
    match rounds {
        Some([low, high]) if low == high => tr!(
            " A new run of {} rounds should decide it, or one with `--rounds decided`.",
            low
        ),
        Some([low, high]) => tr!(
            " A new run of {} to {} rounds should decide it, or one with `--rounds decided`.",
            low,
            high
        ),
        None => tr!(" A new run with `--rounds decided` has the rounds that decide it."),
    }
}

fn spent(study: &Study, rounds: Option<[u64; 2]>) -> String {
    match rounds {
        Some([low, high]) if low == high => tr!(
            " The run has spent its {0} rounds; a new one with `--rounds decided --at-most {1}` should be decided.",
            study.rounds,
            high
        ),
        Some([low, high]) => tr!(
            " The run has spent its {0} rounds; a new one with `--rounds decided --at-most {2}` should be decided after {1} to {2}.",
            study.rounds,
            low,
            high
        ),
        None => tr!(" The run has spent its {} rounds.", study.rounds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds that differ by a tenth of the mean: standard deviation 0.01, so that a difference of one deviation takes 10
    /// rounds (Cohen 1988) and three for the autocorrelation of few.
    fn around(mean: f64, rounds: usize) -> Estimate {
        let deviation = |round: usize| if round.is_multiple_of(2) { 0.01 } else { -0.01 };
        let values: Vec<f64> = (0..rounds).map(|it| mean + deviation(it)).collect();
        Estimate::of(&values, 0.0).expect("an estimate")
    }

    #[test]
    fn the_rounds_are_those_of_the_spread_at_both_ends() {
        // Of 100 rounds the spread is known: 0.01 · √(100 / 99) within 5 %.
        let [low, high] =
            of_pair((Looks::Once, Clock::Real), &around(0.01, 100), 0.95, 0.0).expect("rounds");
        assert_eq!([low, high], [100; 2], "no fewer than these");
        let few = around(0.01, 4);
        let [low, high] = of_pair((Looks::Once, Clock::Real), &few, 0.95, 0.0).expect("rounds");
        assert!(
            (8..=14).contains(&low) && (22..=40).contains(&high),
            "{low} {high}"
        );
        // More where every round is looked at.
        let [more, most] =
            of_pair((Looks::EveryRound, Clock::Real), &few, 0.95, 0.0).expect("rounds");
        assert!(low < more && high < most, "{more} {most}");
    }

    /// What shows no difference is shown to be the same, for which the interval lies within the equivalence.
    #[test]
    fn alike_sides_take_the_rounds_that_show_them_to_be_the_same() {
        let of = |mean, equivalence: f64| {
            of_pair(
                (Looks::Once, Clock::Real),
                &around(mean, 4),
                0.95,
                equivalence.exp_m1(),
            )
        };
        assert_eq!(of(0.0, 0.01), of(0.01, 0.0));
        assert_eq!(of(0.01, 0.03), of(0.02, 0.0));
        assert_eq!(of(0.02, 0.03), of(0.02, 0.0));
        assert_eq!(of(0.0, 0.0), None);
    }

    /// By hand: 2^(1 − n) is at most 5 % from the sixth round on, and 0.1 % from the eleventh.
    #[test]
    fn constant_values_take_the_rounds_of_the_sign_test() {
        let constant = Estimate::of(&[0.1; 3], 0.0).expect("an estimate");
        for (confidence, rounds) in [(0.95, 6), (0.999, 11)] {
            let found = of_pair((Looks::Once, Clock::Real), &constant, confidence, 0.03);
            assert_eq!(found, Some([rounds; 2]));
        }
        let one = Estimate::of(&[0.1], 0.0).expect("an estimate");
        assert_eq!(of_pair((Looks::Once, Clock::Real), &one, 0.95, 0.03), None);
    }
}
