//! The user's configuration file: defaults of options, each under the name of its command.

use std::{
    ffi::{OsStr, OsString},
    io::ErrorKind::{NotFound, PermissionDenied},
    path::Path,
};

use clap::{Arg, ArgMatches, Command, CommandFactory as _, parser::ValueSource};
use toml::{Table, Value};

use crate::{
    args::Args,
    exit::{Failure, OrFailure as _, Result, did_you_mean},
    hosts::file::config_directory,
    output,
    text_file::{self, TextFileError},
};

/// Options of `run` that are no part of a study and have their default also beside one.
const BESIDE_A_STUDY: [&str; 3] = ["hosts_file", "kernel", "jobs"];

/// Returns the arguments with the defaults of the user's configuration file, which are printed on standard error. Options
/// on the command line, and those that they exclude, have no default.
///
/// # Errors
/// The file cannot be read, or has a command, an option or a kind of value that there is not.
pub fn with_defaults(mut arguments: Vec<OsString>) -> Result<Vec<OsString>> {
    // Without a home directory there is no such file.
    let Ok(directory) = config_directory() else {
        return Ok(arguments);
    };
    let file = directory.join("config.toml");
    let Some(settings) = read(&file)? else {
        return Ok(arguments);
    };
    let command = Args::command();
    check(&settings, &command, &file)?;
    // An error in the command line is reported by its parser.
    let Ok(matches) = command.clone().try_get_matches_from(&arguments) else {
        return Ok(arguments);
    };
    let Some((name, typed)) = matches.subcommand() else {
        return Ok(arguments);
    };
    let (Some(Value::Table(table)), Some(command)) =
        (settings.get(name), command.find_subcommand(name))
    else {
        return Ok(arguments);
    };
    let mut defaults = Vec::new();
    for (key, value) in table {
        if let Some(argument) = argument(command, key)
            && applies(command, argument, typed)
        {
            defaults.extend(options(key, value));
        }
    }
    if defaults.is_empty() {
        return Ok(arguments);
    }
    let shown: Vec<String> = defaults.iter().map(|it| format!("`{it}`")).collect();
    let (file, shown) = (file.display(), shown.join(", "));
    output::err(&format!("defaults of `{file}`: {shown}"));
    let position = arguments.iter().position(|it| it == OsStr::new(name));
    let after = position.map_or(arguments.len(), |position| position + 1);
    arguments.splice(after..after, defaults.into_iter().map(OsString::from));
    Ok(arguments)
}

/// Reads the file; `None` if there is none.
fn read(file: &Path) -> Result<Option<Table>> {
    let doing = "read the configuration file";
    match text_file::read(file) {
        Ok(text) => text.parse().map(Some).bad().cannot(doing, file),
        // One that another user's directory hides, as under `sudo -u`, is no file of this user.
        Err(TextFileError::Io(error)) if matches!(error.kind(), NotFound | PermissionDenied) => {
            Ok(None)
        }
        error => error.map(|_| None).bad().cannot(doing, file),
    }
}

/// Checks that all commands, options and kinds of values of the file are ones.
fn check(settings: &Table, command: &Command, file: &Path) -> Result<()> {
    let wrong = |message: String, name: &str, known: Vec<&str>| {
        let near = did_you_mean(name, &known);
        Err(Failure::input(
            format!("`{}`: {message}", file.display()),
            format!("{near}`regatta --help` and `regatta COMMAND --help` list what there is"),
        ))
    };
    for (name, table) in settings {
        let Some(command) = command.find_subcommand(name) else {
            let known = command.get_subcommands().map(Command::get_name);
            let message = format!("there is no command `{name}`");
            return wrong(message, name, known.collect());
        };
        let Value::Table(table) = table else {
            let message =
                format!("`{name}` is a command: write `[{name}]`, with its options below");
            return wrong(message, "", Vec::new());
        };
        for (key, value) in table {
            if argument(command, key).is_none() {
                let known = command.get_arguments().filter_map(Arg::get_long);
                let option = key.replace('_', "-");
                let message = format!("`{name}` has no option `--{option}`");
                return wrong(message, &option, known.collect());
            }
            if matches!(value, Value::Table(_) | Value::Datetime(_)) {
                let message = format!(
                    "`{key}` of `[{name}]` is a text, a number, `true`, `false` or a list of these"
                );
                return wrong(message, "", Vec::new());
            }
        }
    }
    Ok(())
}

/// Returns the option of a key, which may have underscores for hyphens.
fn argument<'c>(command: &'c Command, key: &str) -> Option<&'c Arg> {
    let option = key.replace('_', "-");
    let mut arguments = command.get_arguments();
    arguments.find(|argument| argument.get_long() == Some(&option))
}

/// Whether an option that was not typed has its default.
fn applies(command: &Command, argument: &Arg, typed: &ArgMatches) -> bool {
    let is_typed =
        |it: &Arg| typed.value_source(it.get_id().as_str()) == Some(ValueSource::CommandLine);
    if is_typed(argument) {
        return false;
    }
    let excludes = |one: &Arg, other: &Arg| {
        let conflicts = command.get_arg_conflicts_with(one);
        conflicts.iter().any(|it| it.get_id() == other.get_id())
    };
    let mut others = command.get_arguments().filter(|other| is_typed(other));
    if others.any(|other| excludes(argument, other) || excludes(other, argument)) {
        return false;
    }
    // Settings of a study are not changed.
    let names_a_study = matches!(typed.try_get_one::<String>("study"), Ok(Some(_)));
    !names_a_study
        || argument.get_help_heading() == Some("Output")
        || BESIDE_A_STUDY.contains(&argument.get_id().as_str())
}

/// Returns an option as it is typed, once for each of its values.
fn options(key: &str, value: &Value) -> Vec<String> {
    let option = key.replace('_', "-");
    match value {
        Value::Boolean(true) => vec![format!("--{option}")],
        Value::Boolean(false) => Vec::new(),
        Value::Array(values) => (values.iter())
            .flat_map(|value| options(key, value))
            .collect(),
        Value::String(text) => vec![format!("--{option}={text}")],
        value => vec![format!("--{option}={value}")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Options of `[run]` that apply beside what is typed.
    fn defaults(settings: &str, typed: &[&str]) -> Vec<String> {
        let command = Args::command();
        let table: Table = settings.parse().expect("TOML");
        let typed = [&["regatta", "run"], typed].concat();
        let matches = command.clone().try_get_matches_from(typed).expect("typed");
        let (_, typed) = matches.subcommand().expect("a command");
        let run = command.find_subcommand("run").expect("run");
        table
            .iter()
            .filter(|(key, _)| applies(run, argument(run, key).expect("an option"), typed))
            .flat_map(|(key, value)| options(key, value))
            .collect()
    }

    #[test]
    fn command_line_overrides_defaults() {
        let settings = "delay = \"10ms\"\nno_progress = true\nrounds = 3\n";
        assert_eq!(
            defaults(settings, &[]),
            ["--delay=10ms", "--no-progress", "--rounds=3"]
        );
        assert_eq!(
            defaults(settings, &["--rounds", "5"]),
            ["--delay=10ms", "--no-progress"]
        );
        // `--rtt` and `--delay` exclude one another, whichever is typed.
        assert_eq!(
            defaults(settings, &["--rtt", "5ms"]),
            ["--no-progress", "--rounds=3"]
        );
        assert_eq!(
            defaults("rtt = \"10ms\"", &["--delay", "5ms"]),
            Vec::<String>::new()
        );
    }

    #[test]
    fn defaults_do_not_override_a_study() {
        let settings = "rounds = 3\nlang = \"ru\"\ntransport = [\"tcp\", \"udp\"]\n";
        assert_eq!(defaults(settings, &["udpr"]), ["--lang=ru"]);
        assert_eq!(
            defaults(settings, &[]),
            [
                "--lang=ru",
                "--rounds=3",
                "--transport=tcp",
                "--transport=udp"
            ]
        );
    }

    #[test]
    fn unknown_names_are_refused_with_the_nearest() {
        for (settings, expected) in [
            ("[rum]\n", "did you mean `run`?"),
            ("[run]\nrond = 1\n", "did you mean `rounds`?"),
            ("rounds = 1\n", "there is no command `rounds`"),
            ("run = 1\n", "write `[run]`"),
            ("[run]\nrounds = { a = 1 }\n", "is a text, a number"),
        ] {
            let table = settings.parse().expect("TOML");
            let failure = check(&table, &Args::command(), Path::new("config.toml"));
            let failure = failure.expect_err(settings).render(false);
            assert!(failure.contains(expected), "{failure}");
        }
    }
}
