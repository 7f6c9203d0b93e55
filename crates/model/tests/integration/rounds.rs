//! Number of rounds of a study.

use std::time::Duration;

use regatta_model::{CellEnd, CellTrials, Ratio, Study, Until};

fn study(rounds: &str) -> Result<Study, String> {
    let text = format!(
        "{rounds}\n[[transport]]\ndriver = \"tcp\"\n[[condition]]\nname = \"a\"\n[[workload]]\nkind = \"bulk\"\n"
    );
    Study::parse(&text, "study.toml").map_err(|error| error.to_string())
}

#[test]
fn rounds_are_a_number_or_end_with_narrow_intervals() {
    let of = |rounds: &str| {
        let study = study(rounds).expect("it is one");
        (study.rounds, study.until)
    };
    assert_eq!(of(""), (5, None));
    assert_eq!(of("rounds = 20"), (20, None));
    assert_eq!(
        of("rounds = { until = \"3%\", at_most = 60 }"),
        (60, Some(Until::Narrow(Ratio(0.03))))
    );
    assert_eq!(
        of("rounds = { until = \"decided\", at_most = 3 }"),
        (3, Some(Until::Decided))
    );
}

#[test]
fn a_rule_has_a_time_limit() {
    let of = |rounds: &str| study(rounds).expect("it is one").time_limit;
    assert_eq!(
        of("rounds = { until = \"decided\", at_most = 60, for = \"2h\" }"),
        Some(Duration::from_secs(7200))
    );
    assert_eq!(of("rounds = { until = \"3%\", at_most = 60 }"), None);
}

#[test]
fn failed_trials_add_rounds_up_to_the_maximum() {
    let study = study("rounds = { successes = 3, at_most = 5 }").expect("it is one");
    assert_eq!(
        (study.rounds, study.cell_end, study.until),
        (5, Some(CellEnd::Successes(3)), None)
    );
    let trials = |others| study.trials_of_cell(CellTrials { counted: 0, others });
    assert_eq!([0, 1, 2, 3, 5].map(trials), [3, 4, 5, 5, 5]);
    assert!(study.may_end_early());
}

#[test]
fn a_trial_that_reached_the_deadline_ends_its_cell() {
    let study = study("rounds = { deadlines = 2, at_most = 5 }").expect("it is one");
    assert_eq!(
        (study.rounds, study.cell_end),
        (5, Some(CellEnd::Deadlines(2)))
    );
    let trials = |(counted, others)| study.trials_of_cell(CellTrials { counted, others });
    let expected = [5, 5, 2, 3, 5];
    assert_eq!(
        [(0, 0), (1, 2), (2, 0), (2, 1), (2, 3)].map(trials),
        expected
    );
    assert!(study.may_end_early());
}

#[test]
fn a_study_names_the_metric_of_its_ranking() {
    let of = |key: &str| {
        let study = study(key).expect("it is one");
        study.primary_metric(&study.workloads[0]).to_owned()
    };
    assert_eq!(of(""), "goodput_bps");
    assert_eq!(of("rank_by = \"transfer_time_ns\""), "transfer_time_ns");
    for (key, expected) in [
        (
            "rank_by = \"transfer_time\"",
            "did you mean `transfer_time_ns`",
        ),
        ("rank_by = \"bytes_sent\"", "ranks nothing"),
    ] {
        let error = study(key).expect_err(key);
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_series_has_a_period_and_a_length() {
    let of = |rounds: &str| {
        let study = study(rounds).expect("it is one");
        (study.rounds, study.every)
    };
    let every = Some(Duration::from_secs(150));
    assert_eq!(of("every = \"150s\"\nfor = \"6h\""), (144, every));
    assert_eq!(of("every = \"150s\"\nfor = \"299s\""), (1, every));
    assert_eq!(of("every = \"150s\"\nrounds = 7"), (7, every));
    assert_eq!(of("every = \"150s\""), (5, every));
    for (rounds, expected) in [
        ("for = \"6h\"", "has no `every`"),
        ("every = \"150s\"\nfor = \"100s\"", "is not 1 to"),
        ("every = \"0s\"\nfor = \"100s\"", "longer than zero"),
        (
            "every = \"1s\"\nfor = \"1min\"\nrounds = 3",
            "`rounds` and `for` cannot stand together",
        ),
    ] {
        let error = study(rounds).expect_err(rounds);
        assert!(error.contains(expected), "{rounds}: {error}");
    }
}

#[test]
fn rounds_without_a_valid_end_are_refused() {
    for (rounds, expected) in [
        ("rounds = { at_most = 60 }", "`rounds` has no `until`"),
        ("rounds = { successes = 3 }", "`rounds` has no `at_most`"),
        (
            "rounds = { successes = 3, at_most = 2 }",
            "`at_most` cannot be 2",
        ),
        (
            "rounds = { successes = 3, until = \"3%\", at_most = 20 }",
            "`until` and `successes`",
        ),
        (
            "rounds = { successes = 3, deadlines = 1, at_most = 20 }",
            "`successes` and `deadlines`",
        ),
        (
            "rounds = { deadlines = 6, at_most = 5 }",
            "`at_most` cannot be 5",
        ),
        ("rounds = { until = \"3%\" }", "`rounds` has no `at_most`"),
        (
            "rounds = { until = \"0%\", at_most = 60 }",
            "intervals of this width",
        ),
        (
            "rounds = { until = \"3%\", at_most = 9 }",
            "`at_most` cannot be 9",
        ),
        (
            "rounds = { until = \"decided\", at_most = 2 }",
            "`at_most` cannot be 2",
        ),
        (
            "rounds = { until = \"pleased\", at_most = 60 }",
            "write `decided`",
        ),
        (
            "rounds = { until = \"decided\", at_most = 60, for = \"0s\" }",
            "longer than zero",
        ),
        (
            "rounds = { successes = 3, at_most = 5, for = \"2h\" }",
            "unknown key `for`",
        ),
        (
            "rounds = { until = \"3%\", at_most = 60, least = 5 }",
            "unknown key `least`",
        ),
        ("rounds = \"5\"", "`rounds` in the study is a whole number"),
    ] {
        let error = study(rounds).expect_err(rounds);
        assert!(error.contains(expected), "{rounds}: {error}");
    }
}
