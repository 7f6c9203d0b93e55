//! Hints of trials in the words of `regatta client`, which has other options than `regatta run`.

use clap::{Args as _, Command};
use regatta_model::Warning;

use crate::args::{ClientArgs, PathCommandArgs, RunArgs};

/// Parts of hints about options of `regatta run`, and what does the same here.
const PHRASES: [(&str, &str); 9] = [
    ("a longer `--duration` or `--deadline`", "a longer `--time`"),
    ("give it a longer `--deadline`, or let", "let"),
    ("a longer `--deadline` or ", ""),
    ("`--connect-deadline`", "`--connect-timeout`"),
    ("`--size`", "`--bytes`"),
    ("`--size ", "`--bytes "),
    ("`--duration`", "`--time`"),
    ("the option `rate`", "`--bitrate`"),
    ("a lower `--rate`", "a lower `--bitrate`"),
];

/// Returns a hint with the client's options, without the alternatives that name one which the client lacks.
pub fn of_client(hint: &str) -> String {
    let phrases = PHRASES.iter();
    let hint = phrases.fold(hint.to_owned(), |hint, (run, client)| {
        hint.replace(run, client)
    });
    without_options_of_run(&hint, &ClientArgs::augment_args(Command::new("client")))
}

/// Returns a hint for `regatta path`, without the alternatives that name an option which it lacks, as that of a bed.
pub fn of_path(hint: &str) -> String {
    without_options_of_run(hint, &PathCommandArgs::augment_args(Command::new("path")))
}

/// Returns a hint without the alternatives, between semicolons, that name an option which `run` has and `command` lacks.
fn without_options_of_run(hint: &str, command: &Command) -> String {
    let run = RunArgs::augment_args(Command::new("run"));
    let has = |command: &Command, option: &str| {
        let mut arguments = command.get_arguments();
        arguments.any(|it| it.get_long() == Some(option))
    };
    let is_known = |option: &str| has(command, option) || !has(&run, option);
    let has_known_options = |alternative: &&str| {
        let quoted = alternative.split('`').skip(1).step_by(2);
        let mut options = quoted.filter_map(|text| {
            let option = text.strip_prefix("--")?;
            let end = option.find(|c: char| !c.is_ascii_alphanumeric() && c != '-');
            Some(&option[..end.unwrap_or(option.len())])
        });
        options.all(is_known)
    };
    let alternatives: Vec<&str> = hint.split("; ").filter(has_known_options).collect();
    let hint = alternatives.join("; ");
    hint.strip_prefix("or ").unwrap_or(&hint).to_owned()
}

/// Returns warnings with hints of the client.
pub fn in_warnings(warnings: &[Warning]) -> Vec<Warning> {
    let in_client = |warning: &Warning| Warning {
        hint: of_client(&warning.hint),
        // Its template has the hint of `run`.
        content: None,
        ..warning.clone()
    };
    warnings.iter().map(in_client).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sources of the hints that a trial against a server can have.
    const SOURCES: [&str; 4] = [
        include_str!("../../model/src/warning/mod.rs"),
        include_str!("../../model/src/warning/phrase.rs"),
        include_str!("../../transport/src/driver.rs"),
        include_str!("../../engine/src/run/trial.rs"),
    ];

    #[test]
    fn every_phrase_is_of_a_hint() {
        for (run, _) in PHRASES {
            assert!(SOURCES.iter().any(|source| source.contains(run)), "{run}");
        }
    }

    #[test]
    fn hints_of_a_path_name_no_bed() {
        assert_eq!(
            of_path(
                "start it with `--device /dev/net/tun`; or run with `--bed uml --clock virtual`, which works without it"
            ),
            "start it with `--device /dev/net/tun`"
        );
        assert_eq!(
            of_path("run in a guest with `--bed uml`; or use it with `--emulator userspace`"),
            "use it with `--emulator userspace`"
        );
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
        assert_eq!(
            of_client("give a longer `--deadline` or a shorter `--duration`"),
            "give a shorter `--time`"
        );
        assert_eq!(
            of_client("give a longer `--connect-deadline`, or a path with less loss"),
            "give a longer `--connect-timeout`, or a path with less loss"
        );
        assert_eq!(of_client("ask for a larger `--queue`"), "");
        assert_eq!(
            of_client(
                "run `modprobe sctp` as root; or give `--bed uml`, whose kernel has it; or use `sctp-userspace`"
            ),
            "run `modprobe sctp` as root; or use `sctp-userspace`"
        );
        assert_eq!(
            of_client("give `--bed uml`, whose kernel has it; or use `sctp-userspace`"),
            "use `sctp-userspace`"
        );
        assert_eq!(
            of_client("leave the machine alone"),
            "leave the machine alone"
        );
    }
}
