//! Words that complete a command line beyond its options: transports, studies, labels, metrics. The scripts of
//! `regatta completions` ask for them.

use std::{collections::BTreeSet, path::Path, process::ExitCode};

use clap::{Command, CommandFactory as _};
use regatta_model::{
    METRICS, Study,
    metric::Better,
    study::{BUILTIN, builtin, workload_kinds},
};

use crate::{args::Args, output, study};

/// Command that prints the words, one a line. Its arguments are those of the command line up to the cursor.
pub const COMMAND: &str = "complete-words";

/// Commands whose first argument is a study.
const OF_STUDIES: [&str; 3] = ["run", "plan", "submit"];

/// Addition to the script of bash: words of an option replace the names of files.
pub const BASH: &str = r#"
_regatta_words() {
    _regatta "$@"
    local IFS=$'\n'
    local found=($("$1" complete-words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
    local at
    for at in "${!found[@]}"; do
        [[ ${found[at]} == *" "* ]] && printf -v "found[at]" %q "${found[at]}"
    done
    if [[ ${#found[@]} -gt 0 ]]; then
        case "$3" in
            -* | =) COMPREPLY=("${found[@]}") ;;
            *) COMPREPLY+=("${found[@]}") ;;
        esac
    fi
}
complete -F _regatta_words -o nosort -o bashdefault -o default regatta
"#;

/// Beginning of the function in the script of zsh, which gets another name.
pub const ZSH_FUNCTION: &str = "_regatta() {";

/// Replacement of [`ZSH_FUNCTION`]: the function that asks for words, and the beginning of the other one.
pub const ZSH: &str = r#"_regatta() {
    local -a found
    found=(${(f)"$("${words[1]}" complete-words "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    (( $#found )) && compadd -Q -S '' -a found
    _regatta_options "$@"
}

_regatta_options() {"#;

/// Addition to the script of fish.
pub const FISH: &str = r#"
function __fish_regatta_words
    regatta complete-words (commandline -opc)[2..] (commandline -ct) 2>/dev/null
end
for option in transport workload study condition rank-by
    complete -c regatta -n "__fish_seen_subcommand_from run submit client path" -l $option -x -a "(__fish_regatta_words)"
end
complete -c regatta -n "__fish_seen_subcommand_from run plan submit" -a "(__fish_regatta_words)"
"#;

/// Prints the words.
pub fn main() -> ExitCode {
    let words: Vec<String> = (std::env::args_os().skip(2))
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let lines: String = (candidates(&words).iter())
        .map(|word| format!("{word}\n"))
        .collect();
    match output::out(&lines) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Returns the words that may stand in place of the last one; the first is the command.
fn candidates(words: &[String]) -> Vec<String> {
    let [command, between @ .., current] = words else {
        return Vec::new();
    };
    let mut program = Args::command();
    program.build();
    let Some(command) = program.find_subcommand(command) else {
        return Vec::new();
    };
    // bash has the equals sign as a word of its own.
    let between = match between {
        [before @ .., equals] if equals == "=" => before,
        before => before,
    };
    let (option, current) = match (current.split_once('='), between.last()) {
        (Some((option, value)), _) if option.starts_with("--") => (Some(option), value),
        (_, Some(option)) if takes_a_value(command, option) => (Some(&**option), &**current),
        _ => (None, &**current),
    };
    let study = || study_of(between);
    let names: Vec<String> = match option {
        Some("--transport") => transports(study()),
        Some("--workload") => workloads(study()),
        Some("--condition") => {
            let conditions = study().into_iter().flat_map(|study| study.conditions);
            conditions.map(|condition| condition.name).collect()
        }
        Some("--study") => studies(),
        Some("--rank-by") => {
            let ranking = METRICS.iter().filter(|it| it.better != Better::Neither);
            ranking.map(|metric| metric.name.to_owned()).collect()
        }
        Some(_) => Vec::new(),
        None if current.starts_with('-') => Vec::new(),
        None if OF_STUDIES.contains(&command.get_name()) && study().is_none() => studies(),
        None => Vec::new(),
    };
    // Of a list the last part is completed.
    let is_list = matches!(option, Some("--transport" | "--workload"));
    let (before, last) = match current.rsplit_once(',').filter(|_| is_list) {
        Some((before, last)) => (format!("{before},"), last),
        None => (String::new(), current),
    };
    let taken: BTreeSet<&str> = before.split(',').collect();
    let names = names.into_iter();
    let names = names.filter(|name| name.starts_with(last) && !taken.contains(name.as_str()));
    names.map(|name| format!("{before}{name}")).collect()
}

/// Whether a word is an option of a command that takes a value.
fn takes_a_value(command: &Command, word: &str) -> bool {
    let name = word.strip_prefix("--");
    let mut options = command.get_arguments();
    name.is_some_and(|name| {
        options.any(|it| it.get_long() == Some(name) && it.get_action().takes_values())
    })
}

/// Returns the study that one of these words names, if it can be read.
fn study_of(words: &[String]) -> Option<Study> {
    let named = words.iter().find(|word| {
        let is_file = word.ends_with(".toml") && Path::new(word).is_file();
        is_file || builtin(word).is_some()
    })?;
    Some(study::read(named).ok()?.file.study)
}

fn studies() -> Vec<String> {
    BUILTIN.iter().map(|study| study.name.to_owned()).collect()
}

/// Returns the labels of a study's transports, and the drivers.
fn transports(study: Option<Study>) -> Vec<String> {
    let labels = study.into_iter().flat_map(|study| study.transports);
    let mut names: Vec<String> = labels.map(|transport| transport.label).collect();
    for driver in regatta_agent::registry() {
        let name = driver.descriptor().name;
        if !names.iter().any(|other| other == name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// Returns the names of a study's workloads, and the kinds.
fn workloads(study: Option<Study>) -> Vec<String> {
    let named = study.into_iter().flat_map(|study| study.workloads);
    let mut names: Vec<String> = named.map(|workload| workload.name).collect();
    for kind in workload_kinds() {
        if !names.iter().any(|other| other == kind.name()) {
            names.push(kind.name().to_owned());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(line: &str) -> Vec<String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        candidates(&words)
    }

    #[test]
    fn transports_are_completed() {
        assert_eq!(
            completed("run --transport quic-qui"),
            ["quic-quinn", "quic-quiche"]
        );
        assert_eq!(completed("run --transport=udp-"), ["udp-reliable"]);
        assert_eq!(completed("run --transport = udp-"), ["udp-reliable"]);
        assert_eq!(completed("client x --transport mp"), ["mptcp"]);
    }

    #[test]
    fn the_last_transport_of_a_list_is_completed_without_the_others() {
        assert_eq!(completed("run --transport udp,tcp,tc"), ["udp,tcp,tcp-tls"]);
    }

    #[test]
    fn studies_are_completed_where_one_is_named() {
        assert_eq!(
            completed("run gadasin-2026-mig"),
            ["gadasin-2026-migration"]
        );
        assert_eq!(completed("path --study udpr-m"), ["udpr-messages"]);
        // One is enough, and an option is completed by the shell.
        assert_eq!(completed("run udpr --"), Vec::<String>::new());
        assert_eq!(completed("run udpr ud"), Vec::<String>::new());
        assert_eq!(completed("report udpr"), Vec::<String>::new());
    }

    #[test]
    fn labels_of_a_study_are_completed() {
        let labels = completed("run gadasin-2026 --transport tcp-");
        let study = study::read("gadasin-2026")
            .expect("a built-in study")
            .file
            .study;
        let own = study.transports.iter().map(|it| &it.label);
        let own: Vec<&String> = own.filter(|label| label.starts_with("tcp-")).collect();
        assert!(
            !own.is_empty() && own.iter().all(|label| labels.contains(label)),
            "{labels:?}"
        );
        assert!(labels.contains(&"tcp-tls".to_owned()), "{labels:?}");
        let condition = &study.conditions[0].name;
        let conditions = completed("path --study gadasin-2026 --condition ");
        assert!(conditions.contains(condition), "{conditions:?}");
    }

    #[test]
    fn metrics_that_rank_are_completed() {
        assert_eq!(completed("run --rank-by goodput_b"), ["goodput_bps"]);
    }
}
