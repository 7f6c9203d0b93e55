//! Messages about a study, with command-line options in place of keys.

use clap::CommandFactory;

use crate::args::Args;

/// Returns a message with the keys of a study that it quotes as the options which set them: `` `rate =
/// "1Gbit/s"` `` becomes `` `--rate 1Gbit/s` ``. `table` is where the mistake is: what an option takes as
/// `KEY=VALUE`, such as `--forward`, is written so.
pub fn in_options(message: &str, table: &str) -> String {
    let mut parts = message.split('`');
    let mut text = parts.next().unwrap_or_default().to_owned();
    // Every second part is quoted.
    while let Some(quoted) = parts.next() {
        let option = format!("`{}`", option(quoted, table));
        // Key and option, of which a hint for a study file names both, are the same option here.
        let is_again = text
            .strip_suffix(", or ")
            .is_some_and(|before| before.trim_end_matches(" too").ends_with(&option));
        if is_again {
            text.truncate(text.len() - ", or ".len());
        } else {
            text += &option;
        }
        text += parts.next().unwrap_or_default();
    }
    text
}

/// Returns a line `key = value` of a study as what sets it on the command line, within an option such as `--forward`, too.
pub fn setting(line: &str, table: &str) -> String {
    let setting = option(line, table);
    let inside = table
        .rsplit_once('.')
        .map(|(_, name)| name.replace('_', "-"));
    match inside.filter(|name| is_option(name)) {
        Some(name) => format!("--{name} {setting}"),
        None => setting,
    }
}

fn option(quoted: &str, table: &str) -> String {
    let (key, value) = match quoted.split_once(" = ") {
        Some((key, value)) => (key, Some(value.trim_matches('"'))),
        None => (quoted, None),
    };
    let is_key = !key.is_empty() && key.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    let is_inside = table.contains('.') || table == "transport";
    let name = key.replace('_', "-");
    match value {
        _ if !is_key => quoted.to_owned(),
        Some(value) if is_inside || !is_option(&name) => format!("{key}={value}"),
        Some("true") => format!("--{name}"),
        Some(value) if value.contains(' ') => format!("--{name} \"{value}\""),
        Some(value) => format!("--{name} {value}"),
        None if is_inside || !is_option(&name) => quoted.to_owned(),
        None => format!("--{name}"),
    }
}

fn is_option(name: &str) -> bool {
    let command = Args::command();
    let run = command.find_subcommand("run");
    run.is_some_and(|run| run.get_arguments().any(|it| it.get_long() == Some(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_shown_as_options() {
        for (table, line, expected) in [
            ("workload", "duration = \"0 ms\"", "--duration \"0 ms\""),
            ("", "connect_deadline = \"1s\"", "--connect-deadline 1s"),
            (
                "condition.forward",
                "delay = \"40d\"",
                "--forward delay=40d",
            ),
            ("workload.probe", "message = \"1B\"", "--probe message=1B"),
            (
                "condition.loss_bursts",
                "to_bad = \"5x\"",
                "--loss-bursts to_bad=5x",
            ),
            ("transport", "label = \"\"", "label="),
        ] {
            assert_eq!(setting(line, table), expected);
        }
    }

    #[test]
    fn study_keys_in_messages_are_shown_as_options() {
        for (table, message, expected) in [
            (
                "condition",
                "add `rate = \"1Gbit/s\"`, or no `codel_target`",
                "add `--rate 1Gbit/s`, or no `--codel-target`",
            ),
            (
                "condition.forward",
                "add `rate = \"1Gbit/s\"`",
                "add `rate=1Gbit/s`",
            ),
            (
                "transport",
                "give one another: `label = \"tcp-2\"`",
                "give one another: `label=tcp-2`",
            ),
            (
                "",
                "write `bed = \"uml\"` too, or `--bed uml`, or leave it out",
                "write `--bed uml` too, or leave it out",
            ),
            (
                "",
                "write `emulator = \"netem\"`, or `--emulator netem`",
                "write `--emulator netem`",
            ),
            (
                "",
                "two have the label `tcp`, as `x y`",
                "two have the label `tcp`, as `x y`",
            ),
        ] {
            assert_eq!(in_options(message, table), expected);
        }
    }
}
