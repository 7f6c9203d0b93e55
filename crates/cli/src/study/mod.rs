//! Choice of the study for `regatta run`: a file, a built-in one, the default, or one made from
//! options.

pub mod adhoc;
pub mod head_options;
pub mod path_options;
pub mod registry;
pub mod sweeps;
pub mod tunings;
mod work_options;

use std::path::{Path, PathBuf};

use regatta_model::{
    BedKind, Condition, HostTuning, Named as _, Part, Study, Transport, Workload,
    shell::printable,
    study::{BUILTIN, Builtin, DEFAULT, Overlay, StudyFile, builtin, is_host_name},
};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::{
    args::{RunArgs, exact},
    exit::{Failure, OrFailure as _, Result, did_you_mean, refuse},
    text_file::{self, TextFileError},
};

/// Study to run, checked against the registry.
#[derive(Debug)]
pub struct Chosen {
    /// Study with every default filled in and the options of the command line applied.
    pub study: Study,
    /// Text of the study file, or the file that options of the command line were written as. Options that changed a
    /// study are comments at its end.
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
    /// Directory of the file; `None` for a study that comes with Regatta.
    directory: Option<PathBuf>,
}

impl ReadStudy {
    /// Whether it comes with Regatta.
    pub fn is_builtin(&self) -> bool {
        self.directory.is_none()
    }

    /// Reads the study again, with options in the place of its own keys, in the conditions and workloads that `applies`
    /// says.
    ///
    /// # Errors
    /// Mistakes in the options: the study itself has none.
    pub fn with_options(
        &self,
        keys: &Table,
        applies: &dyn Fn(Part, &str) -> bool,
    ) -> Result<Study> {
        let is_empty = |value: &Value| value.as_table().is_some_and(Table::is_empty);
        if keys.values().all(is_empty) {
            return Ok(self.file.study.clone());
        }
        let overlay = Overlay {
            keys: &toml::to_string(keys)?,
            applies,
            beside: &path_options::files_in(Path::new("")),
        };
        let beside = path_options::files_in(self.directory.as_deref().unwrap_or(Path::new("")));
        let file = self.file.with_options(&beside, overlay);
        let file = file.map_err(|error| match error.entry() {
            Some(entry) => {
                let doing = format!("these options do not fit {entry}");
                Failure::of_options(error).context(doing)
            }
            None if error.is_in_file() => Failure::bad(error),
            None => Failure::of_options(error),
        })?;
        Ok(file.study)
    }
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
            let stored = read_stored(Path::new(name))?;
            refuse! {
                !changes(args, &stored.study)?.is_empty() =>
                    "`{name}` is a study that `regatta submit` has stored with its options, and takes no others";
                    "leave them out, or submit the study file anew";
            }
            let StoredStudy {
                mut study,
                study_text,
            } = stored;
            work_options::check(&args.work, &study)?;
            work_options::select(&args.work, &mut study);
            return selected(args, study, study_text, None);
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
    let study = with_options(args, &read)?;
    let text = read.text.clone();
    selected(args, study, text, Some(read))
}

/// Returns the options that change a study before its transports are chosen, as they may be typed again.
///
/// # Errors
/// Options that contradict each other.
fn changes(args: &RunArgs, study: &Study) -> Result<Vec<String>> {
    let (_, of_conditions) = path_options::keys(&args.path)?;
    let (_, of_study) = head_options::keys(args, Some(study))?;
    let of_workloads = work_options::typed(&args.work);
    Ok([of_conditions, of_workloads, of_study].concat())
}

/// Reads a study with the options of the command line in the place of its own keys.
///
/// # Errors
/// Mistakes in the options.
fn with_options(args: &RunArgs, read: &ReadStudy) -> Result<Study> {
    let before = &read.file.study;
    work_options::check(&args.work, before)?;
    if args.bed == Some(BedKind::Hosts) && args.hosts.is_none() && before.hosts.is_empty() {
        return Err(no_hosts());
    }
    path_options::check_emulation(&args.path, &before.path)?;
    let (mut keys, _) = head_options::keys(args, Some(before))?;
    let (of_conditions, _) = path_options::keys(&args.path)?;
    keys.insert("condition".to_owned(), of_conditions.into());
    let sizes = work_options::sizes(&args.work)?;
    work_options::check_sizes(&sizes, before)?;
    let is_meant = |part: Part, name: &str| match part {
        Part::Workload => work_options::is_meant(&args.work, before, name),
        _ => true,
    };
    let mut of_sizes = Vec::new();
    for size in &sizes {
        let of_workloads = work_options::keys(&args.work, *size)?;
        keys.insert("workload".to_owned(), of_workloads.into());
        let mut study = read.with_options(&keys, &is_meant)?;
        work_options::select(&args.work, &mut study);
        of_sizes.push(study);
    }
    let mut study = work_options::each_size(&sizes, of_sizes);
    let is_unchanged = |work: &Workload| before.workloads.contains(work);
    let has_work = study.workloads.iter().all(is_unchanged);
    if study.conditions != before.conditions || !has_work {
        sweeps::check_distinct(&study)?;
    }
    // Published figures and claims belong to the published path and work; beside others they would mislead. Hosts of
    // other tunings are what they are compared with.
    if paths_of(&study.conditions) != paths_of(&before.conditions) || !has_work {
        study.published.clear();
        study.claims.clear();
    }
    Ok(study)
}

/// Chooses the transports and tunings of a study that the options ask for, and how much of it is run.
fn selected(
    args: &RunArgs,
    mut study: Study,
    mut text: String,
    read: Option<ReadStudy>,
) -> Result<Chosen> {
    let mut changes = changes(args, &study)?;
    if !args.work.workload.is_empty() {
        changes.push(format!("--workload {}", args.work.workload.join(",")));
    }
    if !args.transport.is_empty() {
        select_transports(args, &mut study)?;
        changes.push(format!("--transport {}", args.transports().join(",")));
    }
    let tunings = tunings::several(&args.path);
    tunings::multiply(&mut study, &tunings);
    if !tunings.is_empty() {
        let names = tunings.iter().map(|it| it.as_str());
        changes.push(format!("--tuning {}", names.collect::<Vec<_>>().join(",")));
    }
    if let Some(scale) = args.scale {
        study.scale(scale);
        changes.push(format!("--scale \"{}\"", exact::ratio(scale)));
    }
    if args.aa {
        twice(&mut study);
        changes.push("--aa".to_owned());
    }
    registry::check_probes(&study)?;
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

/// A study with every default filled in and all options applied, as `regatta submit` stores it for
/// the shards.
#[derive(Debug, Serialize, Deserialize)]
pub struct StoredStudy {
    /// The study.
    pub study: Study,
    /// Text of the study, see [`Chosen::text`].
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
        directory: None,
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
    let directory = path.parent().unwrap_or(Path::new("")).to_owned();
    let file = {
        let beside = path_options::files_in(&directory);
        StudyFile::parse_beside(&text, &shown.to_string(), &beside).bad()?
    };
    Ok(ReadStudy {
        file,
        text,
        directory: Some(directory),
    })
}

/// Returns the paths of conditions, without the tuning of the hosts.
fn paths_of(conditions: &[Condition]) -> Vec<Condition> {
    let untuned = conditions.iter().map(|condition| Condition {
        tuning: HostTuning::default(),
        ..condition.clone()
    });
    untuned.collect()
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
