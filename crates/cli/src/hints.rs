//! Test of the commands and options that messages and hints name.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use clap::{Command, CommandFactory as _, Parser as _};

use crate::{
    args::{self, Args},
    study,
};

/// Options of other programs, which messages name without them: those of Docker, of the node exporter and of Cargo.
const FOREIGN: [&str; 4] = [
    "cap-add",
    "collector.textfile.directory",
    "device",
    "features",
];

/// Commands of the program that its help does not have.
const INTERNAL: [&str; 1] = ["agent"];

/// Adds the names of the commands below this one, and the long options of all.
fn add_names(command: &Command, commands: &mut BTreeSet<String>, options: &mut BTreeSet<String>) {
    let long = command.get_arguments().filter_map(|it| it.get_long());
    options.extend(long.map(str::to_owned));
    for inner in command.get_subcommands() {
        commands.insert(inner.get_name().to_owned());
        add_names(inner, commands, options);
    }
}

/// Adds the Rust files below a directory.
fn add_sources(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => add_sources(&path, files),
            false if path.extension().is_some_and(|it| it == "rs") => files.push(path),
            false => {}
        }
    }
}

#[test]
fn messages_name_only_commands_and_options_that_exist() {
    let (mut commands, mut options) = (BTreeSet::new(), BTreeSet::new());
    let mut program = Args::command();
    program.build();
    add_names(&program, &mut commands, &mut options);
    commands.extend(INTERNAL.map(str::to_owned));
    options.extend(FOREIGN.map(str::to_owned));
    let mut files = Vec::new();
    for each in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).expect("crates") {
        let source = each.expect("an entry").path().join("src");
        if source.is_dir() {
            add_sources(&source, &mut files);
        }
    }
    let (mut found, mut unknown) = (0, Vec::new());
    for file in files {
        let text = fs::read_to_string(&file).expect("text");
        let lines = text.lines().zip(1..);
        for (line, number) in lines.filter(|(line, _)| !line.trim_start().starts_with("//")) {
            // Templates have options in braces.
            let line = line.replace("{--", "--").replace('}', "");
            for quoted in line.split('`').skip(1).step_by(2) {
                let is_command = quoted.starts_with("regatta ");
                if !is_command && !quoted.starts_with("--") {
                    continue;
                }
                let command = quoted.split(' ').nth(1).filter(|it| {
                    is_command && it.bytes().all(|b| b.is_ascii_lowercase()) && !it.is_empty()
                });
                let named = quoted.split(' ').filter_map(|it| it.strip_prefix("--"));
                let named = named.map(|it| it.split(['=', '{', '[']).next().unwrap_or_default());
                let has_all = command.is_none_or(|it| commands.contains(it))
                    && named
                        .filter(|it| !it.is_empty())
                        .all(|it| options.contains(it));
                found += 1;
                if !has_all {
                    unknown.push(format!("{}:{number}: {quoted}", file.display()));
                }
            }
        }
    }
    assert!(found > 100, "only {found} were found");
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
}

/// Returns the message about a command line of `regatta run` that is refused.
fn refused(options: &[&str]) -> Option<String> {
    let line = [&["regatta", "run"], options].concat();
    let Ok(Args {
        command: args::Command::Run(run),
        ..
    }) = Args::try_parse_from(line)
    else {
        panic!("another command");
    };
    Some(study::choose(&run).err()?.message_and_hint().0)
}

#[test]
fn bursts_of_loss_of_one_direction_are_given_as_those_of_both() {
    let bursts = "loss_bursts=to_bad=1%:to_good=30%";
    let line = ["--transport", "tcp", "--forward", bursts];
    assert_eq!(refused(&line), None);
}
