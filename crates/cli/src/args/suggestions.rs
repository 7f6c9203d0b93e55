//! Suggestions beside errors of the command line: what other programs call otherwise, or take otherwise.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
};

use clap::{
    Command, CommandFactory as _, Error,
    builder::StyledStr,
    error::{ContextKind, ContextValue, ErrorKind},
};
use regatta_model::{
    shell::{quoted, quoted_word},
    study::builtin,
};

use super::Args;

/// Option that somebody may type, the one that does the same where the command has it, and what that one is.
type Synonym = (&'static str, &'static str, &'static str);

/// Options of other programs and words of other people.
const SYNONYMS: &[Synonym] = &[
    ("latency", "delay", "one way"),
    ("latency", "rtt", "there and back"),
    ("ping", "rtt", "there and back"),
    ("bandwidth", "rate", ""),
    ("bandwidth", "bitrate", ""),
    ("bw", "rate", ""),
    ("speed", "rate", ""),
    ("packet-loss", "loss", ""),
    ("plr", "loss", ""),
    ("buffer", "queue", ""),
    ("limit", "queue", ""),
    ("protocol", "transport", ""),
    ("protocols", "transport", ""),
    ("driver", "transport", ""),
    ("cc", "transport", "with the option, as in `tcp:cc=bbr`"),
    (
        "congestion",
        "transport",
        "with the option, as in `tcp:cc=bbr`",
    ),
    ("download", "direction", "with `reverse`: the server sends"),
    (
        "upload",
        "direction",
        "with `forward`, the default: the client sends",
    ),
    ("parallel", "flows", ""),
    ("bytes", "size", ""),
    ("time", "duration", ""),
    ("runs", "rounds", ""),
    ("repeat", "rounds", ""),
    ("repetitions", "rounds", ""),
    ("iterations", "rounds", ""),
    ("trials", "rounds", ""),
    ("output", "out", ""),
    ("output-dir", "out", ""),
];

/// Replaces the suggestion of an error of the command line by a better one, if there is one.
pub fn improve(mut error: Error, arguments: &[OsString]) -> Error {
    let Some((tip, usage)) = tip(&error, arguments) else {
        return error;
    };
    for kind in [
        ContextKind::SuggestedArg,
        ContextKind::SuggestedSubcommand,
        ContextKind::SuggestedValue,
    ] {
        error.remove(kind);
    }
    let tips = ContextValue::StyledStrs(vec![StyledStr::from(tip)]);
    error.insert(ContextKind::Suggested, tips);
    // That of the parser is made of its own suggestion.
    error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
    error
}

/// Returns a tip for an error, and the usage of the command.
fn tip(error: &Error, arguments: &[OsString]) -> Option<(String, StyledStr)> {
    let mut program = Args::command();
    let word = |kind| match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word.as_str()),
        _ => None,
    };
    if error.kind() == ErrorKind::InvalidSubcommand {
        let tip = tip_of_command(word(ContextKind::InvalidSubcommand)?)?;
        return Some((tip, program.render_usage()));
    }
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    program.build();
    let words = arguments.iter().filter_map(|it| it.to_str()).skip(1);
    let mut names = words.filter(|word| !word.starts_with('-'));
    let command = names.find_map(|name| program.find_subcommand(name))?;
    let word = word(ContextKind::InvalidArg)?;
    let tip = match word.strip_prefix("--") {
        Some(option) => synonym(option, command)?,
        None if command.get_name() == "path" && !word.starts_with('-') => {
            let typed = arguments.iter().skip(1);
            let typed: Vec<String> = typed.map(|it| quoted_word(&it.to_string_lossy())).collect();
            let at = typed.iter().rposition(|it| it == "path")? + 1;
            let program = at + typed[at..].iter().position(|it| it == word)?;
            let (options, program) = typed.split_at(program);
            format!(
                "two hyphens stand before the program: `regatta {} -- {}`",
                options.join(" "),
                program.join(" ")
            )
        }
        None => return None,
    };
    Some((tip, command.clone().render_usage()))
}

/// Returns a tip for a word that is no command.
fn tip_of_command(word: &str) -> Option<String> {
    let is_study = Path::new(word).extension() == Some(OsStr::new("toml"));
    if is_study || builtin(word).is_some() {
        return Some(format!(
            "`regatta run {}` runs a study",
            quoted(Path::new(word))
        ));
    }
    let driver = regatta_agent::find_driver(word)?.descriptor().name;
    Some(format!(
        "`regatta run --transport {driver}` runs a transport, `regatta list {driver}` describes it"
    ))
}

/// Returns the options of a command that do what an unknown one may stand for.
fn synonym(option: &str, command: &Command) -> Option<String> {
    let name = option.split('=').next().unwrap_or_default();
    let has = |name: &str| {
        command
            .get_arguments()
            .any(|it| it.get_long() == Some(name))
    };
    let found = SYNONYMS
        .iter()
        .filter(|(word, known, _)| *word == name && has(known));
    let found: Vec<String> = found
        .map(|(_, known, meaning)| match *meaning {
            "" => format!("`--{known}`"),
            meaning => format!("`--{known}` ({meaning})"),
        })
        .collect();
    (!found.is_empty()).then(|| format!("did you mean {}?", found.join(" or ")))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    /// The message for a command line that is refused.
    fn refused(line: &str) -> String {
        let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let error = Args::try_parse_from(&arguments).expect_err("an error");
        improve(error, &arguments).render().to_string()
    }

    #[test]
    fn words_of_other_programs_have_the_options_of_this_one() {
        for (line, expected) in [
            (
                "regatta run --latency 30ms",
                "tip: did you mean `--delay` (one way) or `--rtt` (there and back)?",
            ),
            ("regatta run --bandwidth=10M", "tip: did you mean `--rate`?"),
            (
                "regatta path --bandwidth 10M -- true",
                "tip: did you mean `--rate`?",
            ),
            (
                "regatta client x --bandwidth 10M",
                "tip: did you mean `--bitrate`?",
            ),
        ] {
            let message = refused(line);
            assert!(message.contains(expected), "{message}");
            assert!(!message.contains("--lang"), "{message}");
        }
    }

    #[test]
    fn every_synonym_is_of_an_option_and_is_none_itself() {
        let program = Args::command();
        let run = program.find_subcommand("run").expect("the command");
        let client = program.find_subcommand("client").expect("the command");
        for (word, option, _) in SYNONYMS {
            let command = if *option == "bitrate" { client } else { run };
            let has = |name: &str| {
                command
                    .get_arguments()
                    .any(|it| it.get_long() == Some(name))
            };
            assert!(has(option) && !has(word), "{word} {option}");
        }
    }

    #[test]
    fn a_program_of_a_path_stands_after_two_hyphens() {
        let message = refused("regatta path --rtt 30ms iperf3 -c 10.60.0.2");
        let tip = "`regatta path --rtt 30ms -- iperf3 -c 10.60.0.2`";
        assert!(message.contains(tip), "{message}");
        let message = refused("regatta path --loss 1% ping x");
        assert!(
            message.contains("`regatta path --loss 1% -- ping x`"),
            "{message}"
        );
    }

    #[test]
    fn a_study_or_a_transport_in_place_of_a_command_has_the_command() {
        let message = refused("regatta my.toml");
        assert!(
            message.contains("`regatta run my.toml` runs a study"),
            "{message}"
        );
        let message = refused("regatta gadasin-2026-short");
        assert!(
            message.contains("`regatta run gadasin-2026-short`"),
            "{message}"
        );
        let message = refused("regatta tcp");
        assert!(
            message.contains("`regatta run --transport tcp`"),
            "{message}"
        );
    }

    #[test]
    fn other_errors_keep_the_suggestions_of_the_parser() {
        let message = refused("regatta run --raet 10M");
        assert!(message.contains("'--rate'"), "{message}");
    }
}
