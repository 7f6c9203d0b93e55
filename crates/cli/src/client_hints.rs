//! Hints of trials in the words of `regatta client`, which has other options than `regatta run`.

use clap::{Args as _, Command};
use regatta_model::Warning;

use crate::args::ClientArgs;

/// Parts of hints about options of `regatta run`, and what does the same here.
const PHRASES: [(&str, &str); 6] = [
    ("a longer `--duration` or `--deadline`", "a longer `--time`"),
    (
        "a longer `--deadline` or a smaller `--size`",
        "a smaller `--bytes`",
    ),
    ("give it a longer `--deadline`, or let", "let"),
    ("`--size ", "`--bytes "),
    ("`--duration`", "`--time`"),
    ("a lower `--rate`", "a lower `--bitrate`"),
];

/// Returns a hint with the client's options; empty if it names one that the client lacks.
pub fn of_client(hint: &str) -> String {
    let phrases = PHRASES.iter();
    let hint = phrases.fold(hint.to_owned(), |hint, (run, client)| {
        hint.replace(run, client)
    });
    let known = ClientArgs::augment_args(Command::new("client"));
    let is_known = |option: &str| {
        known
            .get_arguments()
            .any(|it| it.get_long() == Some(option))
    };
    let quoted = hint.split('`').skip(1).step_by(2);
    let mut options = quoted.filter_map(|text| {
        let option = text.strip_prefix("--")?;
        let end = option.find(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        Some(&option[..end.unwrap_or(option.len())])
    });
    match options.all(is_known) {
        true => hint,
        false => String::new(),
    }
}

/// Returns warnings with hints of the client.
pub fn in_warnings(warnings: &[Warning]) -> Vec<Warning> {
    let in_client = |warning: &Warning| Warning {
        hint: of_client(&warning.hint),
        ..warning.clone()
    };
    warnings.iter().map(in_client).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sources of the hints that a trial against a server can have.
    const SOURCES: [&str; 3] = [
        include_str!("../../engine/src/plausible.rs"),
        include_str!("../../engine/src/shortfall.rs"),
        include_str!("../../engine/src/run/trial.rs"),
    ];

    #[test]
    fn every_phrase_is_of_a_hint() {
        for (run, _) in PHRASES {
            assert!(SOURCES.iter().any(|source| source.contains(run)), "{run}");
        }
    }

    #[test]
    fn hints_name_options_of_the_client() {
        assert_eq!(
            of_client("give the transfer a longer `--duration` or `--deadline`"),
            "give the transfer a longer `--time`"
        );
        assert_eq!(
            of_client("send at least `--size 12MB`"),
            "send at least `--bytes 12MB`"
        );
        assert_eq!(of_client("ask for a larger `--queue`"), "");
        assert_eq!(
            of_client("leave the machine alone"),
            "leave the machine alone"
        );
    }
}
