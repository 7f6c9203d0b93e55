//! Test of the commands and options that messages and hints name.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use clap::{Command, CommandFactory as _, Parser as _, error::ErrorKind};
use regatta_model::study::{WORKLOAD_KEYS, workload_kinds};
use regatta_test_support::machine::repetitions;

use crate::{
    args::{self, Args, HostsCommand},
    commands::{client, path},
    exit::Failure,
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

/// Whether the parser knows command and options of a command line, in which words with a brace stand for values.
fn is_of_program(line: &str) -> bool {
    // A part of a line, to which the program adds the rest.
    let Some(words) = shlex::split(line) else {
        return true;
    };
    let words = words.into_iter().map(|word| match word.contains('{') {
        true => "x".to_owned(),
        false => word,
    });
    let kind = Args::try_parse_from(words).err().map(|error| error.kind());
    !matches!(
        kind,
        Some(ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand)
    )
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
                let is_typed = command.is_some_and(|it| !INTERNAL.contains(&it));
                if !has_all || is_typed && !is_of_program(quoted) {
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

/// Options of `regatta run` whose values name files, hosts or parts of a run, or that stand beside a study.
const OTHERS: [&str; 14] = [
    "color",
    // The path of the test has a delay and a rate.
    "emulator",
    "hosts",
    "hosts-file",
    "shard",
    "done",
    "kernel",
    "out",
    "lang",
    "trace",
    "loss-list",
    "scale",
    "fail-on",
    "prometheus-textfile",
];

/// Values of which each option refuses some.
const VALUES: [&str; 28] = [
    "",
    "x",
    "0",
    "5",
    "-1",
    "1.5",
    "99999999999",
    "1ns",
    "100d",
    "200%",
    "0%",
    "1PB",
    "1B",
    "100MB",
    "1bit/s",
    "9999Tbit/s",
    "true",
    "x=5",
    "message=5",
    "rtt=3",
    "delay=40d",
    "2min",
    "1 kB",
    "9-1",
    "127.0.0.1",
    "127.0.0.1:5#x",
    "a b",
    "/",
];

/// Returns the refusal of a command by its own validation, without any effect.
fn refusal(command: &args::Command) -> Option<Failure> {
    match command {
        args::Command::Run(run) => study::choose(run).err(),
        args::Command::Submit(submit) => study::choose(&submit.run).err(),
        args::Command::Path(args) => path::requested(args).err(),
        args::Command::Client(args) => client::server_of(args)
            .and_then(|(server, _)| client::requested(args, &server))
            .err(),
        args::Command::Hosts(hosts) => match &hosts.command {
            HostsCommand::Add(add) => (add.hosts().err()).map(|it| Failure::input(it, "")),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the text of the refusal of a command line, from its hint on. Nothing is executed.
fn hint_of(line: &[String]) -> Option<String> {
    let all = ["regatta"]
        .into_iter()
        .chain(line.iter().map(String::as_str));
    let refused = match Args::try_parse_from(all).map(|args| args.command) {
        Ok(command) => refusal(&command),
        Err(error) => {
            let text = error.to_string();
            let values = text.lines().find(|it| it.contains("[possible values: "));
            let first = text.lines().next().unwrap_or_default();
            let hint = ["; ", "': it is ", "': "]
                .into_iter()
                .find_map(|it| first.split_once(it));
            let hint = hint.map_or(first, |(_, hint)| hint);
            if error.kind() == ErrorKind::MissingRequiredArgument {
                let missing = text.lines().filter(|it| it.starts_with("  --"));
                let missing = missing.filter_map(|it| it.trim().split([' ', '=', '[']).next());
                let missing: Vec<String> = missing.map(|it| format!("`{it} x`")).collect();
                return Some(format!("add {}", missing.join(" and ")));
            }
            return Some(format!("{hint}{}", values.unwrap_or_default()));
        }
    };
    Some(refused?.message_and_hint().1)
}

/// Returns what a hint about the value of an option tells to type: options with their values.
fn told(option: &str, hint: &str) -> Vec<Vec<String>> {
    let value = |value: &str| vec![format!("--{option}={}", value.trim_matches('"'))];
    // What is added to a table, or is the value of one of its keys, stands alone in no option.
    let is_of_table = [
        "forward",
        "reverse",
        "probe",
        "step",
        "steps",
        "loss-bursts",
    ]
    .contains(&option);
    let mut all = Vec::new();
    for quoted in hint.split('`').skip(1).step_by(2) {
        let begins_with_digit =
            !option.is_empty() && !is_of_table && quoted.starts_with(|c: char| c.is_ascii_digit());
        let is_inside = is_of_table && quoted.contains('=') && !hint.starts_with("add ");
        if quoted.starts_with('-') && quoted.contains(' ') {
            all.extend(shlex::split(quoted));
        } else if begins_with_digit
            || is_inside
            || hint.starts_with("one of `")
            || hint.starts_with("its conditions are: ")
        {
            all.push(value(quoted));
        }
    }
    if option.is_empty() {
        return all;
    }
    // Values that stand in words alone.
    let listed = hint.split_once("[possible values: ");
    let listed = listed.and_then(|(_, it)| it.split_once(']'));
    all.extend(
        listed
            .into_iter()
            .flat_map(|(it, _)| it.split(", ").map(value)),
    );
    if let Some((_, range)) = hint.split_once(" is not in ")
        && let Some((least, most)) = range.split_once("..=")
    {
        all.extend([value(least), value(most.trim())]);
    }
    for example in hint.split(" such as `").skip(1) {
        let example = example.split('`').next().unwrap_or_default();
        if !is_of_table && !example.starts_with('-') {
            all.push(value(example));
        }
    }
    let words: Vec<&str> = hint.split([' ', ',']).collect();
    for pair in words.windows(2) {
        if ["from", "to"].contains(&pair[0]) && pair[1].parse::<u64>().is_ok() {
            all.push(value(pair[1]));
        }
    }
    all
}

/// Types words of hints beside a command line, instead of the options that they set. A hint about another option, which the
/// first one needs, is followed, too.
fn follow(option: &str, line: &[String], typed: &mut Vec<Vec<String>>) -> Result<(), String> {
    let name = |word: &String| word.split('=').next().unwrap_or_default().to_owned();
    let set: Vec<String> = typed.iter().map(|words| name(&words[0])).collect();
    let mut whole: Vec<String> = line
        .iter()
        .filter(|word| !set.contains(&name(word)))
        .cloned()
        .collect();
    whole.extend(typed.iter().flatten().cloned());
    let Some(hint) = hint_of(&whole) else {
        return Ok(());
    };
    let mut next = told(option, &hint);
    if !hint.contains("` and `") {
        next.truncate(1);
    }
    if next.is_empty() || next.iter().any(|words| set.contains(&name(&words[0]))) {
        return Err(hint);
    }
    typed.extend(next);
    follow(option, line, typed)
}

/// Returns the words of a command line beside an option: none that sets the same.
fn beside(words: &[String], option: &str) -> Vec<String> {
    let other = match option {
        "delay" | "steps" => "rtt",
        "rtt-jitter" => "jitter",
        _ => option,
    };
    let first = option.split('-').next().unwrap_or_default();
    let is_kept = |word: &&String| {
        let set = word.strip_prefix("--").and_then(|it| it.split_once('='));
        set.is_none_or(|(set, _)| ![option, other, first].contains(&set))
    };
    words.iter().filter(is_kept).cloned().collect()
}

/// Command lines on which hints were followed.
#[derive(Default)]
struct Followed {
    typed: usize,
    refused: Vec<String>,
}

impl Followed {
    /// Gives an option wrong values beside the words of a command line, also those next to the bounds that hints name, and
    /// types what the hints tell.
    fn option(&mut self, words: &[String], option: &str) {
        let words = beside(words, option);
        let mut values: Vec<String> = VALUES.map(str::to_owned).into();
        let (mut at, mut before) = (0, BTreeSet::new());
        while let Some(value) = values.get(at) {
            at += 1;
            let line = [&words[..], &[format!("--{option}={value}")]].concat();
            let Some(hint) = hint_of(&line) else {
                continue;
            };
            for told in told(option, &hint) {
                let bound = told[0].split_once('=').and_then(|(_, it)| it.parse().ok());
                if let Some(bound) = bound.filter(|_| at <= VALUES.len()) {
                    let bound: i128 = bound;
                    for next in [bound - 1, bound + 1].map(|it| it.to_string()) {
                        if !values.contains(&next) {
                            values.push(next);
                        }
                    }
                }
                self.typed += 1;
                let shown = told.join(" ");
                let is_instead = shown.starts_with(&format!("--{option}="));
                if is_instead && !before.insert(shown.clone()) {
                    continue;
                }
                if let Err(again) = follow(option, &line, &mut vec![told]) {
                    let line = line.join(" ");
                    let refused = format!("{line}\n    {hint}\n    {shown}: {again}");
                    self.refused.push(refused);
                }
            }
        }
    }

    fn assert_accepted(&self, least: usize) {
        let Self { typed, refused } = self;
        assert!(*typed > least, "{typed}");
        let count = refused.len();
        assert!(count == 0, "{count} of {typed}:\n{}", refused.join("\n"));
    }
}

/// Returns the long names of the options of a command that have values.
fn options_of(command: &Command) -> impl Iterator<Item = &str> {
    let options = command.get_arguments();
    let options = options.filter(|it| it.get_action().takes_values());
    options.filter_map(|it| it.get_long())
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

#[test]
fn what_hints_tell_to_type_is_accepted() {
    let program = Args::command();
    let run = program.find_subcommand("run").expect("a command");
    let kinds = [
        "bulk",
        "stop-and-wait",
        "request-response",
        "short-connections",
        "multi-stream",
    ];
    let mut followed = Followed::default();
    for kind in kinds {
        let of_kind = |option: &&str| match WORKLOAD_KEYS
            .iter()
            .find(|key| key.name.replace('_', "-") == **option)
        {
            Some(key) => workload_kinds().any(|mut it| it.name() == kind && key.is_of(&mut it)),
            // Once is enough.
            None => kind == "bulk",
        };
        let path = "run --transport=tcp --rtt=80ms --rate=10Mbit/s --jitter=1ms";
        let words = words(&format!("{path} --workload={kind}"));
        let options = options_of(run).filter(|option| !OTHERS.contains(option));
        for option in options.filter(of_kind) {
            followed.option(&words, option);
        }
    }
    followed.assert_accepted(500);
}

/// Command lines of all commands but `run`, with their required arguments and with the options that others need.
const LINES: &[&str] = &[
    "plan x --detect=5%",
    "path --rtt=80ms --rate=10Mbit/s --jitter=1ms",
    "path --study=gadasin-2026-short",
    "server",
    // A token of zeros.
    "client x:1#AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    "wdt send x y --rate=80Mbit/s",
    "wdt receive x",
    "hosts add x y",
    "hosts list",
    "hosts check x",
    "hosts script x",
    "hosts remove x",
    "monitor x --for=1s --out=x",
    "merge x y",
    "submit --slurm --transport=tcp",
    "status x",
    "resume x",
    "attach x",
    "report x --pdf --figures=x",
    "compare x y",
    "export x",
    "bundle x",
    "list",
    "doctor",
    "completions bash",
    "man x",
];

/// Returns the commands below this one that have no commands below them, each with its name in front.
fn leaves<'c>(command: &'c Command, name: &str) -> Vec<(String, &'c Command)> {
    let inner = command.get_subcommands();
    let inner = inner.filter(|it| it.get_name() != "help");
    let inner: Vec<_> = inner
        .flat_map(|it| leaves(it, format!("{name} {}", it.get_name()).trim_start()))
        .collect();
    match inner.is_empty() {
        true => vec![(name.to_owned(), command)],
        false => inner,
    }
}

#[test]
fn what_hints_of_other_commands_tell_to_type_is_accepted() {
    let mut program = Args::command();
    program.build();
    let of_run: Vec<&str> = program
        .find_subcommand("run")
        .map(|run| options_of(run).collect())
        .unwrap_or_default();
    let mut followed = Followed::default();
    let step = usize::try_from(repetitions(4, 1)).expect("a small number");
    for (name, command) in leaves(&program, "") {
        let lines = LINES
            .iter()
            .filter(|line| format!("{line} ").starts_with(&format!("{name} ")));
        let lines: Vec<_> = lines.collect();
        assert!(name == "run" || !lines.is_empty(), "no line has `{name}`");
        for line in lines {
            let words = words(line);
            assert_eq!(hint_of(&words), None, "{line}");
            let has_study = line.contains("--study");
            let is_other = |option: &&str| match &*name {
                "path" if !has_study && *option == "condition" => false,
                // Those of `run` are tried there.
                "submit" => !of_run.contains(option),
                "path" => !OTHERS.contains(option),
                _ => true,
            };
            for option in options_of(command).filter(is_other).step_by(step) {
                followed.option(&words, option);
            }
        }
    }
    followed.assert_accepted(1200 / step);
}

/// Values of which each option of a driver refuses one.
const WRONG: [&str; 3] = ["", "x", "99999999999"];

/// The same of the options of all drivers, whose hints name values: in quotes, or from one to another.
#[test]
fn what_hints_of_transports_tell_to_type_is_accepted() {
    // The kernel of the machine decides about its controls, and a program has to be there.
    let depends = |driver: &str, option: &str| driver == "external" || option == "cc";
    let (mut typed, mut refused) = (0, Vec::new());
    for driver in regatta_agent::registry() {
        let descriptor = driver.descriptor();
        let options = descriptor.options.iter().map(|it| it.name);
        for option in options.filter(|it| !depends(descriptor.name, it)) {
            let line = |value: &str| {
                let transport = format!("--transport={}:{option}={value}", descriptor.name);
                [
                    "run".to_owned(),
                    transport,
                    "--rtt=80ms".to_owned(),
                    "--rate=10Mbit/s".to_owned(),
                ]
            };
            // An option that needs another one says so; the hint is followed.
            let with_needed = |value: &str| match hint_of(&line(value)) {
                Some(hint) if hint.starts_with("also set `") => {
                    let needed = hint.split('`').nth(1).unwrap_or_default();
                    let needed = needed.replace(" = ", "=").replace('"', "");
                    hint_of(&line(&format!("{value}:{needed}")))
                }
                hint => hint,
            };
            let hints = WRONG.iter().filter_map(|value| with_needed(value));
            for hint in hints.collect::<BTreeSet<_>>() {
                let quoted = hint.split('`').skip(1).step_by(2);
                let quoted = quoted.map(|it| it.trim_matches('"').to_owned());
                let words: Vec<&str> = hint.split([' ', ',']).collect();
                let bounds = words
                    .windows(2)
                    .filter(|pair| ["from", "to"].contains(&pair[0]));
                let bounds = bounds.map(|pair| pair[1].to_owned());
                let bounds = bounds.filter(|it| it.parse::<u64>().is_ok());
                for value in quoted.chain(bounds) {
                    typed += 1;
                    if let Some(again) = with_needed(&value) {
                        refused.push(format!("{}: {hint}: {again}", line(&value)[1]));
                    }
                }
            }
        }
    }
    assert!(typed > 100, "{typed}");
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}
