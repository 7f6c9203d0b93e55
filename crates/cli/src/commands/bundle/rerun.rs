//! Command that runs the study of a run again.

use std::fs;

use clap::Parser as _;
use regatta_model::{Named as _, RunHeader, Study, shell::quoted_word};
use regatta_process::TemporaryDirectory;

use crate::{
    args::{Args, Command},
    study,
};

/// Command, and whether it was checked to ask for the study of the run.
pub struct RerunCommand {
    /// The command, for a shell in the directory of the archive.
    pub line: String,
    /// Reason for which it would not run the same study.
    pub checked: Result<(), String>,
}

/// Line before the options of the command line in the text of a study.
const CHANGED: &str = "# Changed on the command line:";

/// Returns the command for the study of a run, which is in `study.toml`.
pub fn command(header: &RunHeader) -> RerunCommand {
    let changed = header.study_text.rsplit_once(CHANGED);
    let lines = changed.map_or("", |(_, lines)| lines).lines();
    let mut options: Vec<String> = lines
        .filter_map(|line| line.strip_prefix("#   "))
        .map(str::to_owned)
        .collect();
    let study_of = |options: &[String]| chosen(&header.study_text, options);
    // Options of the command line that the study's text does not have.
    if let Ok(read) = study_of(&options) {
        let study = &header.study;
        if read.bed != study.bed {
            options.push(format!("--bed {}", study.bed.as_str()));
        }
        if read.guest.clock != study.guest.clock {
            options.push(format!("--clock {}", study.guest.clock.as_str()));
        }
    }
    let checked = study_of(&options).and_then(|read| {
        let mut expected = header.study.clone();
        // What is captured, and which kernel was found, changes nothing of what is measured.
        expected.capture = read.capture;
        expected.guest.kernel.clone_from(&read.guest.kernel);
        match read == expected {
            true => Ok(()),
            false => Err("its study differs from that of the run, which `results.sqlite` has as `study_json`".to_owned()),
        }
    });
    options.insert(0, "regatta run study.toml".to_owned());
    options.push("--out again".to_owned());
    let line: Vec<String> = options.iter().map(|it| quoted(it)).collect();
    RerunCommand {
        line: line.join(" "),
        checked,
    }
}

/// Returns options with each word quoted for a shell: the text of a study is data, and of whoever made it.
fn quoted(options: &str) -> String {
    let words = shlex::split(options).unwrap_or_else(|| vec![options.to_owned()]);
    let words: Vec<_> = words.iter().map(|word| quoted_word(word)).collect();
    words.join(" ")
}

/// Returns the study that a command asks for.
fn chosen(text: &str, options: &[String]) -> Result<Study, String> {
    let dir = TemporaryDirectory::new("regatta-bundle-").map_err(|error| error.to_string())?;
    let file = dir.path().join("study.toml");
    fs::write(&file, text).map_err(|error| error.to_string())?;
    let mut arguments = ["regatta", "run"].map(str::to_owned).to_vec();
    arguments.push(file.display().to_string());
    for option in options {
        arguments.extend(shlex::split(option).ok_or_else(|| format!("`{option}` is no option"))?);
    }
    let args = Args::try_parse_from(arguments).map_err(|error| error.to_string())?;
    let Command::Run(args) = args.command else {
        return Err("no run is asked for".to_owned());
    };
    match study::choose(&args) {
        Ok(chosen) => Ok(chosen.study),
        // Such as a trace beside the study file. The archive has the study in its own directory.
        Err(failure) => {
            let reason = failure.message_and_hint().0;
            Err(reason.replace(&*file.to_string_lossy(), "study.toml"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_somebody_else_runs_nothing_in_a_shell() {
        for (options, expected) in [
            ("--rate '8 Mbit/s' --seed 7", "--rate '8 Mbit/s' --seed 7"),
            ("--seed $(touch x)", "--seed '$(touch' 'x)'"),
            ("--seed 7; touch x", "--seed '7;' touch x"),
            ("--seed `id` | sh", "--seed '`id`' '|' sh"),
            ("--name 'unclosed", "'--name '\\''unclosed'"),
        ] {
            assert_eq!(quoted(options), expected);
        }
    }
}
