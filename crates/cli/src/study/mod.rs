//! Choice of the study for `regatta run`: a file, a built-in one, the default, or one made from
//! options.

pub mod adhoc;
pub mod path_options;
pub mod registry;
pub mod sweeps;
pub mod tunings;
mod work_options;

use std::{path::Path, time::Duration};

use regatta_model::{
    BedKind, Condition, Emulator, Guests, HostTuning, Named as _, Placement, Study, Transport,
    Until,
    shell::printable,
    study::{BUILTIN, Builtin, DEFAULT, StudyFile, builtin, is_host_name},
    units::format_duration,
};
use serde::{Deserialize, Serialize};

use crate::{
    args::{Rounds, RunArgs, TwoHosts, exact, option_messages},
    exit::{Failure, OrFailure as _, Result, did_you_mean, refuse},
    text_file::{self, TextFileError},
};

/// Study to run, checked against the registry.
#[derive(Debug)]
pub struct Chosen {
    /// Study with every default filled in and the options of the command line applied.
    pub study: Study,
    /// Text as the user wrote it.
    pub text: String,
    /// The study that was read and changed; `None` where the command line describes all of it.
    pub read: Option<ReadStudy>,
}

/// A study as it was read, before any option of the command line.
#[derive(Debug)]
pub struct ReadStudy {
    pub file: StudyFile,
    /// The study as it is written.
    pub text: String,
    /// Whether it comes with Regatta.
    pub is_builtin: bool,
}

/// Finds, reads and checks the study that the arguments ask for.
///
/// # Errors
/// Mistakes in the study; nothing has been started then.
pub fn choose(args: &RunArgs) -> Result<Chosen> {
    match (args.bed, &args.hosts) {
        (Some(BedKind::Hosts), None) if args.study.is_none() => return Err(no_hosts()),
        (Some(BedKind::Netns | BedKind::Uml), Some(_)) => {
            return Err(Failure::input(
                "`--hosts` is of the bed `hosts`",
                "leave `--bed` out, or `--hosts`",
            ));
        }
        _ => {}
    }
    let read = match &args.study {
        None if adhoc::is_requested(args) => {
            refuse! {
                args.scale.is_some() => "`--scale` is a part of a study, and this run is described by options alone";
                    "name a study, or leave `--scale` out and give `--rounds` and `--size`";
            }
            let (file, mut text) = adhoc::study(args)?;
            let mut study = file.study;
            rule_options_need_a_rule(args, study.until)?;
            check_placement(args, &study, None)?;
            registry::check_endings(&study)?;
            if args.aa {
                twice(&mut study);
                text.push_str("\n# Changed on the command line:\n#   --aa\n");
            }
            return Ok(Chosen {
                study,
                text,
                read: None,
            });
        }
        None => read_builtin(DEFAULT)?,
        Some(name) if name.ends_with(".json") => {
            let StoredStudy { study, study_text } = read_stored(Path::new(name))?;
            return with_options(args, study, study_text, None);
        }
        Some(name) => match form_for_hosts(args, name) {
            Some(form) => {
                eprintln!("note: between hosts `{name}` is the study `{}`", form.name);
                read_builtin(form.name)?
            }
            None => read(name)?,
        },
    };
    registry::check_file(&read.file).bad()?;
    let (study, text) = (read.file.study.clone(), read.text.clone());
    with_options(args, study, text, Some(read))
}

/// Applies the options of the command line to a study that was read.
fn with_options(
    args: &RunArgs,
    mut study: Study,
    mut text: String,
    read: Option<ReadStudy>,
) -> Result<Chosen> {
    let changes = apply(args, &mut study)?;
    check_placement(args, &study, read.as_ref())?;
    registry::check_probes(&study)?;
    study.check_guest().map_err(|mistake| {
        let hint = mistake.hint.to_string();
        Failure::bad(mistake).hint(hint)
    })?;
    registry::check_endings(&study)?;
    if !changes.is_empty() {
        text.push_str("\n# Changed on the command line:");
        for change in &changes {
            text.push_str(&format!("\n#   {change}"));
        }
        text.push('\n');
    }
    Ok(Chosen { study, text, read })
}

/// Checks that netem is not requested between two machines, where there is only their network.
fn check_placement(args: &RunArgs, study: &Study, read: Option<&ReadStudy>) -> Result<()> {
    const MESSAGE: &str =
        "between two hosts there is only their network: netem stands on both ends of it";
    match args.path.placement {
        _ if study.bed != BedKind::Hosts => Ok(()),
        Some(Placement::Between) => Err(Failure::input(
            MESSAGE,
            "leave `--placement` out, or write `--placement ends`",
        )),
        Some(Placement::Ends) => Ok(()),
        None => {
            let hint =
                "leave `placement` out, or write `placement = \"ends\"` or `--placement ends`";
            let error = read.and_then(|read| read.file.between_error(MESSAGE, hint));
            error.map_or(Ok(()), Err).bad()
        }
    }
}

/// A study with every default filled in and all options applied, as `regatta submit` stores it for
/// the shards.
#[derive(Debug, Serialize, Deserialize)]
pub struct StoredStudy {
    /// The study.
    pub study: Study,
    /// Text as the user wrote it.
    pub study_text: String,
}

/// Reads a stored study, and checks it against the registry.
fn read_stored(path: &Path) -> Result<StoredStudy> {
    let shown = path.display();
    // It may be larger than what a user writes.
    let text = regatta_process::read_regular(path)
        .bad()
        .cannot("read the study file", path)?;
    let stored: StoredStudy = serde_json::from_str(&text)
        .bad()
        .context(format!(
            "`{shown}` is no study that `regatta submit` has stored"
        ))
        .hint("a study that you write is a TOML file, `NAME.toml`")?;
    // It names directories and jobs.
    let name = &stored.study.name;
    if !is_host_name(name) {
        let name = printable(name);
        return Err(Failure::input(
            format!(
                "`{shown}` is no study that `regatta submit` has stored: `{name}` is no name of one"
            ),
            "submit the study file anew",
        ));
    }
    registry::check_all(&stored.study.transports)?;
    registry::check_endings(&stored.study)?;
    Ok(stored)
}

/// Reads a study by the name of its file, also of one that `regatta submit` has stored, or of a built-in one.
///
/// # Errors
/// Error of the file or of the options.
pub fn named(name: &str) -> Result<Study> {
    match name.ends_with(".json") {
        true => Ok(read_stored(Path::new(name))?.study),
        false => Ok(read(name)?.file.study),
    }
}

/// Reads a study file or a built-in study; its transports are not checked.
///
/// # Errors
/// Error of the file or of the options.
pub fn read(name: &str) -> Result<ReadStudy> {
    match name {
        // What looks like a path is one; a bare name is a file if there is one, as a user in that
        // directory expects.
        _ if Path::new(name).exists() => read_file(Path::new(name)),
        _ if builtin(name).is_some() => read_builtin(name),
        _ if name.contains(['/', '.']) => read_file(Path::new(name)),
        _ => Err(no_such(name)),
    }
}

fn no_such(name: &str) -> Failure {
    let names: Vec<&str> = BUILTIN.iter().map(|study| study.name).collect();
    let near = did_you_mean(name, &names);
    Failure::input(
        format!("there is no file and no built-in study `{name}`"),
        format!("{near}the built-in studies are: {}", names.join(", ")),
    )
}

/// Returns the form of a built-in study for two hosts, if it has one and the run is between hosts.
fn form_for_hosts(args: &RunArgs, name: &str) -> Option<&'static Builtin> {
    let is_of_hosts = args.hosts.is_some() || args.bed == Some(BedKind::Hosts);
    let is_builtin = builtin(name).is_some() && !Path::new(name).exists();
    let form = builtin(&format!("{name}-hosts"));
    form.filter(|_| is_of_hosts && is_builtin)
}

fn read_builtin(name: &str) -> Result<ReadStudy> {
    let study = builtin(name).ok_or_else(|| no_such(name))?;
    let file = StudyFile::parse(study.text, &format!("studies/{name}.toml")).bad()?;
    Ok(ReadStudy {
        file,
        text: study.text.to_owned(),
        is_builtin: true,
    })
}

fn no_hosts() -> Failure {
    Failure::input(
        "the bed `hosts` is of two hosts, and none are named",
        "add `--hosts lab1,local`: names of the hosts file, `local` is this machine",
    )
}

fn read_file(path: &Path) -> Result<ReadStudy> {
    let shown = path.display();
    let text = text_file::read(path);
    let hint = match text {
        Err(TextFileError::NotText { .. }) => "save it as UTF-8",
        _ => "name a study file; `regatta list studies` shows the built-in ones",
    };
    let text = text.bad().cannot("read the study file", path).hint(hint)?;
    let beside = path_options::files_in(path.parent().unwrap_or(Path::new("")));
    let file = StudyFile::parse_beside(&text, &shown.to_string(), &beside).bad()?;
    Ok(ReadStudy {
        file,
        text,
        is_builtin: false,
    })
}

/// Applies options to a parsed study; returns each as it was written.
fn apply(args: &RunArgs, study: &mut Study) -> Result<Vec<String>> {
    let mut changes = Vec::new();
    if !args.transport.is_empty() {
        select_transports(args, study)?;
        changes.push(format!("--transport {}", args.transports().join(",")));
    }
    let path_before = study.conditions.clone();
    changes.extend(path_options::apply(&args.path, &mut study.conditions)?);
    changes.extend(work_options::select(&args.work, study)?);
    let work_before = study.workloads.clone();
    let deadline = args.deadline.unwrap_or(study.deadline);
    changes.extend(work_options::apply(&args.work, deadline, study)?);
    if study.conditions != path_before || study.workloads != work_before {
        sweeps::check_distinct(study)?;
        // Published figures and claims belong to the published path and work; beside others they would mislead. Hosts of
        // other tunings are what they are compared with.
        if paths_of(&study.conditions) != paths_of(&path_before) || study.workloads != work_before {
            study.published.clear();
            study.claims.clear();
        }
    }
    let tunings = tunings::several(&args.path);
    tunings::multiply(study, &tunings);
    if !tunings.is_empty() {
        let names = tunings.iter().map(|it| it.as_str());
        changes.push(format!("--tuning {}", names.collect::<Vec<_>>().join(",")));
    }
    apply_deadlines(args, study, &mut changes)?;
    apply_rounds(args, study, &mut changes)?;
    if let Some(scale) = args.scale {
        study.scale(scale);
        changes.push(format!("--scale \"{}\"", exact::ratio(scale)));
    }
    if let Some(metric) = &args.rank_by {
        study.rank_by = Some(metric.clone());
        changes.push(format!("--rank-by {metric}"));
    }
    if let Some(title) = &args.title {
        study.title.clone_from(title);
        changes.push(format!("--title \"{title}\""));
    }
    if let Some(seed) = args.seed {
        study.seed = seed;
        changes.push(format!("--seed {seed}"));
    }
    study.bed = args.bed.unwrap_or(study.bed);
    if let Some(TwoHosts(names)) = &args.hosts {
        study.bed = BedKind::Hosts;
        study.hosts = names.to_vec();
        changes.push(format!("--hosts {}", names.join(",")));
    }
    if study.bed != BedKind::Hosts {
        study.hosts.clear();
    } else if study.hosts.is_empty() {
        return Err(no_hosts());
    }
    apply_guests(args, study, &mut changes);
    study.capture = args.capture.or(study.capture);
    path_options::choose_emulation(&args.path, study.capture.is_some(), &mut study.path)?;
    study.choose_emulator_for_flows().map_err(|mistake| {
        let message = option_messages::in_options(&mistake.message, "");
        // A flow's own delay is written in the study alone.
        Failure::input(
            format!("competition `{}`: {message}", mistake.competition),
            mistake.hint.to_string(),
        )
    })?;
    study.guest.clock = args.clock.unwrap_or(study.guest.clock);
    study.guest.kernel = args.kernel.clone().or(study.guest.kernel.take());
    if args.aa {
        twice(study);
        changes.push("--aa".to_owned());
    }
    Ok(changes)
}

/// Returns the paths of conditions, without the tuning of the hosts.
fn paths_of(conditions: &[Condition]) -> Vec<Condition> {
    let untuned = conditions.iter().map(|condition| Condition {
        tuning: HostTuning::default(),
        ..condition.clone()
    });
    untuned.collect()
}

/// Applies `--rounds`, `--at-most` and `--for`.
fn apply_rounds(args: &RunArgs, study: &mut Study, changes: &mut Vec<String>) -> Result<()> {
    match args.rounds {
        None => {}
        Some(Rounds::Number(rounds)) => {
            study.rounds = rounds;
            (study.until, study.time_limit) = (None, None);
            study.successes = None;
            changes.push(format!("--rounds {rounds}"));
        }
        Some(Rounds::Decided) => {
            if study.until.is_none() {
                study.rounds = Until::AT_MOST;
            }
            study.until = Some(Until::Decided);
            study.successes = None;
            changes.push(format!("--rounds {}", Until::DECIDED));
        }
    }
    rule_options_need_a_rule(args, study.until)?;
    if let Some(rounds) = args.at_most {
        let least = study.until.map_or(0, Until::min_rounds);
        refuse! {
            rounds < least => "`--at-most {rounds}` of a rule that looks at a run after {least} rounds";
            "write `--at-most {least}` or more";
        }
        study.rounds = rounds;
        changes.push(format!("--at-most {rounds}"));
    }
    if let Some(time) = args.time_limit {
        study.time_limit = Some(time);
        changes.push(format!("--for \"{}\"", exact::time(time)));
    }
    Ok(())
}

/// Refuses `--at-most` and `--for` for a run that has all its rounds.
///
/// # Errors
/// One of the options without a rule.
fn rule_options_need_a_rule(args: &RunArgs, until: Option<Until>) -> Result<()> {
    for (flag, is_given) in [
        ("--at-most", args.at_most.is_some()),
        ("--for", args.time_limit.is_some()),
    ] {
        refuse! {
            is_given && until.is_none() => "`{flag}` is of a run that ends by a rule, and this one has all its rounds";
            "add `--rounds decided`";
        }
    }
    Ok(())
}

/// Applies `--deadline` and `--connect-deadline`.
fn apply_deadlines(args: &RunArgs, study: &mut Study, changes: &mut Vec<String>) -> Result<()> {
    for (flag, deadline) in [
        ("--deadline", args.deadline),
        ("--connect-deadline", args.connect_deadline),
    ] {
        refuse! {
            deadline.is_some_and(|deadline| deadline > Duration::from_secs(30 * 86_400)) =>
                "a `{flag}` of more than 30 days";
                "write a time such as `{flag} 30s`";
        }
    }
    if let Some(deadline) = args.connect_deadline {
        study.connect_deadline = deadline;
        let deadline = format_duration(deadline);
        changes.push(format!("--connect-deadline \"{deadline}\""));
    }
    if let Some(deadline) = args.deadline {
        for workload in &study.workloads {
            if let Some((key, part)) = workload.kind.part_not_within(deadline) {
                return Err(Failure::input(
                    format!(
                        "`{key}` of the workload `{}` is {}, and the deadline ends every transfer \
                         after {}",
                        workload.name,
                        format_duration(part),
                        format_duration(deadline)
                    ),
                    "write a longer `--deadline`, or change the study file",
                ));
            }
        }
        study.deadline = deadline;
        changes.push(format!("--deadline \"{}\"", format_duration(deadline)));
    }
    Ok(())
}

/// Applies `--guests`.
fn apply_guests(args: &RunArgs, study: &mut Study, changes: &mut Vec<String>) {
    if let Some(guests) = args.guests {
        study.guest.guests = match guests {
            1 => Guests::One,
            _ => Guests::Two,
        };
        // Default of two guests. Another one is refused with the reason.
        let emulator = args.path.emulator.unwrap_or(study.path.emulator);
        if guests == 2 && emulator != Emulator::Userspace {
            study.path.placement = Placement::Ends;
        }
        changes.push(format!("--guests {guests}"));
    }
}

/// Adds a copy of each transport under a second label, to run it against itself.
fn twice(study: &mut Study) {
    let mut all = Vec::new();
    for transport in &study.transports {
        let taken = |label: &String| study.transports.iter().any(|t| t.label == *label);
        let mut second = transport.clone();
        second.label += "-again";
        while taken(&second.label) {
            second.label += "-again";
        }
        sweeps::copy_entry(&mut study.sweeps, &transport.label, &second.label);
        all.extend([transport.clone(), second]);
    }
    study.transports = all;
}

/// Label of the transport in a study for which `--transport` names another one, and beside which the study's others stay.
const UNDER_TEST: &str = "under-test";

/// Puts a transport in the place of the one under test, with its label in every text of the study.
fn put_under_test(study: &mut Study, transport: &Transport) -> Result<()> {
    fn rename(value: &mut serde_json::Value, label: &str) {
        match value {
            serde_json::Value::String(text) => *text = text.replace(UNDER_TEST, label),
            serde_json::Value::Array(items) => items.iter_mut().for_each(|it| rename(it, label)),
            serde_json::Value::Object(map) => map.values_mut().for_each(|it| rename(it, label)),
            _ => {}
        }
    }
    for known in &mut study.transports {
        if known.label == UNDER_TEST
            || study.workloads.iter().any(|work| {
                let flow = work
                    .competition
                    .as_ref()
                    .and_then(|it| it.flow(&known.label));
                flow.is_some_and(|flow| flow.copy_of.as_deref() == Some(UNDER_TEST))
            })
        {
            known.driver.clone_from(&transport.driver);
            known.options.clone_from(&transport.options);
        }
    }
    let mut value = serde_json::to_value(&*study)?;
    rename(&mut value, &transport.label);
    *study = serde_json::from_value(value)?;
    Ok(())
}

/// Keeps the transports with these labels; a driver's name that is no label adds that driver.
fn select_transports(args: &RunArgs, study: &mut Study) -> Result<()> {
    if study.transports.iter().any(|it| it.label == UNDER_TEST) {
        let named = args.transports();
        refuse! {
            named.len() > 1 => "`{}` tests one transport, and `--transport` names {}", study.name, named.len();
                "name one, and run the study again for each other one";
        }
        let transport = adhoc::transport(&named[0])?;
        registry::check_all(std::slice::from_ref(&transport))?;
        refuse! {
            study.transports.iter().any(|it| it.label == transport.label) =>
                "the study `{}` has another transport `{}`", study.name, transport.label;
                "give yours a name of its own: `--transport {},label=mine`", named[0];
        }
        return put_under_test(study, &transport);
    }
    let mut chosen = Vec::new();
    for text in &args.transports() {
        let of_sweep = sweeps::transports_of(study, text);
        if !of_sweep.is_empty() {
            chosen.extend(of_sweep);
            continue;
        }
        let transport = match study.transports.iter().find(|t| t.label == *text) {
            Some(transport) => transport.clone(),
            None => {
                let transport = adhoc::transport(text)?;
                registry::check_all(std::slice::from_ref(&transport))?;
                transport
            }
        };
        refuse! {
            chosen.contains(&transport) => "transport `{text}` is named twice";
                "name each once; `--rounds` says how often it is run";
        }
        chosen.push(transport);
    }
    // A competition needs all of its flows, of which copies come with their transport.
    let is_chosen = |label: &str| chosen.iter().any(|it: &Transport| it.label == label);
    study.workloads.retain(|work| {
        let mut flows = work.competition.iter().flat_map(|it| &it.flows);
        flows.all(|flow| is_chosen(flow.copy_of.as_deref().unwrap_or(&flow.transport)))
    });
    refuse! {
        study.workloads.is_empty() => "every competition of `{}` has a flow of another transport", study.name;
            "name all transports of one, as `regatta run {} --dry-run` shows them", study.name;
    }
    let copies = study
        .transports
        .iter()
        .filter(|it| study.is_copy(&it.label));
    let copies: Vec<Transport> = copies.cloned().collect();
    chosen.extend(copies);
    study.transports = chosen;
    sweeps::forget_missing(study);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::Parser as _;

    use super::*;
    use crate::args::{Args, Command};

    /// A built-in study with options.
    fn with_options(name: &str, options: &[&str]) -> Result<Study> {
        let line = ["regatta", "run", name].into_iter();
        let args = Args::try_parse_from(line.chain(options.iter().copied())).expect("options");
        let Command::Run(run) = args.command else {
            panic!("another command")
        };
        Ok(choose(&run)?.study)
    }

    #[test]
    fn title_and_ranking_metric_replace_those_of_a_study() {
        let options = ["--title", "My lab", "--rank-by", "transfer_time_ns"];
        let study = with_options("udpr", &options).expect("a study");
        assert_eq!(study.title, "My lab");
        assert_eq!(study.rank_by.as_deref(), Some("transfer_time_ns"));
    }

    #[test]
    fn a_workload_of_a_study_has_each_of_several_sizes() {
        let workloads = |options: &[&str]| {
            let study = with_options("olkhovik-2025-short", options);
            study.expect("a study").workloads
        };
        let (before, after) = (workloads(&[]), workloads(&["--size", "1MB,2MB"]));
        assert_eq!(after.len(), 2 * before.len());
        assert_eq!(after[0].name, format!("{} 1 MB", before[0].name));
        assert_eq!(after[1].name, format!("{} 2 MB", before[0].name));
        assert_eq!(after[1].kind.bytes(), 2_000_000);
    }

    #[test]
    fn conditions_published_figures_and_claims_are_there_under_each_of_several_tunings() {
        let before = with_options("olkhovik-2025", &[]).expect("a study");
        let one = with_options("olkhovik-2025", &["--tuning", "defaults"]).expect("a study");
        assert_eq!(one.published, before.published);
        let both = with_options("olkhovik-2025", &["--tuning", "bench,defaults"]);
        let both = both.expect("a study");
        assert_eq!(both.conditions.len(), 2 * before.conditions.len());
        for (number, tuning) in ["bench", "defaults"].into_iter().enumerate() {
            let condition = &both.conditions[number];
            let name = format!("{}, tuning {tuning}", before.conditions[0].name);
            assert_eq!(condition.name, name);
            assert_eq!(condition.tuning.base.as_str(), tuning);
            let published = |study: &Study, name: &str| {
                let all = study.published.iter();
                all.filter(|it| it.condition == name).count()
            };
            let expected = published(&before, &before.conditions[0].name);
            assert_eq!(published(&both, &name), expected);
        }
        assert_eq!(both.claims.len(), 2 * before.claims.len());
        let names: Vec<&str> = both.conditions.iter().map(|it| it.name.as_str()).collect();
        for mut claim in both.claims {
            for [_, condition, _] in claim.cells_mut() {
                assert!(names.contains(&condition.as_str()), "{condition}");
            }
        }
    }

    #[test]
    fn the_transport_under_test_is_replaced_wherever_a_study_names_it() {
        let options = ["--transport", "quic-quinn:cc=reno,label=mine"];
        let study = with_options("rfc9743", &options).expect("a study");
        assert!(study.title.ends_with("mine"), "{}", study.title);
        let of_subject = study
            .transports
            .iter()
            .filter(|it| it.driver == "quic-quinn");
        let labels: Vec<&str> = of_subject.map(|it| it.label.as_str()).collect();
        assert_eq!(labels[..2], ["mine", "mine 2"]);
        assert_eq!(labels.len(), 10);
        let names = study.workloads.iter().map(|it| it.name.as_str());
        assert!(names.clone().any(|name| name == "mine against cubic"));
        assert!(names.clone().all(|name| !name.contains(UNDER_TEST)));
        assert_eq!(
            study.claims.len(),
            with_options("rfc9743", &[]).expect("a study").claims.len()
        );
        let two = with_options("rfc9743", &["--transport", "tcp,udp"]).expect_err("one too many");
        assert!(two.render(false).contains("tests one transport"));
        let other = with_options("rfc9743", &["--transport", "tcp:label=cubic"]);
        let other = other.expect_err("a label that is there");
        assert!(other.render(false).contains("another transport `cubic`"));
    }

    #[test]
    fn competitions_stay_whose_flows_are_all_chosen() {
        let chosen = with_options("competition-bbr", &["--transport", "bbr,cubic"]);
        let names: Vec<String> = (chosen.expect("a study").workloads.into_iter())
            .map(|work| work.name)
            .collect();
        assert_eq!(names, ["a minute", "bbr against cubic"]);
    }

    #[test]
    fn work_keeps_its_conditions_under_several_tunings() {
        let study = with_options("rfc9743", &["--tuning", "bench,defaults"]).expect("a study");
        let single = with_options("rfc9743", &[]).expect("a study");
        assert_eq!(study.cells(), 2 * single.cells());
    }

    #[test]
    fn several_sizes_beside_a_sweep_of_workloads_are_refused() {
        let error = with_options("udpr", &["--size", "1MB,2MB"]).expect_err("refused");
        assert!(error.render(false).contains("sweeps its workloads"));
    }

    /// The name stands in scripts for Slurm and names directories, whoever wrote the file.
    #[test]
    fn a_stored_study_has_a_name_that_a_study_can_have() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("study.json");
        let text = "name = \"two\"\n[[transport]]\ndriver = \"tcp\"\n[[condition]]\nname = \"lan\"\n[[workload]]\nkind = \"bulk\"\n";
        let mut study = Study::parse(text, "two").expect("a study");
        for (name, is_read) in [("two", true), ("$(id)", false), ("../two", false)] {
            study.name = name.to_owned();
            let stored = StoredStudy {
                study: study.clone(),
                study_text: text.to_owned(),
            };
            let json = serde_json::to_string(&stored).expect("JSON");
            fs::write(&file, json).expect("a file");
            assert_eq!(read_stored(&file).is_ok(), is_read, "{name}");
        }
    }
}
