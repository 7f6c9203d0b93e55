//! Number of rounds of a study.

use regatta_model::{Ratio, Study};

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
        (60, Some(Ratio(0.03)))
    );
}

#[test]
fn what_ends_no_run_is_refused() {
    for (rounds, told) in [
        ("rounds = { at_most = 60 }", "`rounds` has no `until`"),
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
            "rounds = { until = \"3%\", at_most = 60, least = 5 }",
            "unknown key `least`",
        ),
        ("rounds = \"5\"", "`rounds` in the study is a whole number"),
    ] {
        let error = study(rounds).expect_err(rounds);
        assert!(error.contains(told), "{rounds}: {error}");
    }
}
