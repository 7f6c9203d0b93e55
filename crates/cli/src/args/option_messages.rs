//! Messages about a study, with its keys as the options of the command line that set them.

use std::{collections::BTreeSet, sync::LazyLock};

use clap::CommandFactory;
use regatta_model::study::{Message, MessagePart};

use super::Args;

/// Returns a message with the options that set the keys of a study which it names. `table` is where the mistake is: what an
/// option takes as `KEY=VALUE`, such as `--forward`, is written so.
pub fn in_options(message: &Message, table: &str) -> String {
    let parts = message.parts().iter();
    let texts = parts.map(|part| match part {
        MessagePart::Text(text) => text.clone(),
        MessagePart::Key(key) => match is_an_option(key, table) {
            true => format!("`--{}`", key.replace('_', "-")),
            false => format!("`{key}`"),
        },
        MessagePart::Setting { key, value } | MessagePart::SettingOrOption { key, value } => {
            format!("`{}`", option(key, value, table))
        }
    });
    texts.collect()
}

/// Returns a key of a study with its value, as TOML, as what sets it on the command line, within an option such as
/// `--forward`, too.
pub fn setting(key: &str, value: &str, table: &str) -> String {
    let setting = option(key, value, table);
    match option_of(table).filter(|name| is_option(name)) {
        Some(name) => format!("--{name} {setting}"),
        None => setting,
    }
}

/// Tables within a condition, as the text of a condition without its study names them.
const OF_CONDITION: [&str; 5] = ["forward", "reverse", "loss_bursts", "step", "steps"];

/// Returns the option whose value a table inside another one is.
fn option_of(table: &str) -> Option<String> {
    let inside = table.rsplit_once('.').map(|(_, name)| name);
    let inside = inside.or_else(|| OF_CONDITION.contains(&table).then_some(table));
    inside.map(|name| name.replace('_', "-"))
}

fn option(key: &str, value: &str, table: &str) -> String {
    let value = value.trim_matches('"');
    let name = key.replace('_', "-");
    match value {
        _ if !is_an_option(key, table) => format!("{key}={value}"),
        "true" => format!("--{name}"),
        value if value.contains(' ') => format!("--{name} \"{value}\""),
        value => format!("--{name} {value}"),
    }
}

/// Whether a key of a table is set by an option of its own.
fn is_an_option(key: &str, table: &str) -> bool {
    let is_inside = option_of(table).is_some() || table == "transport";
    !is_inside && is_option(&key.replace('_', "-"))
}

fn is_option(name: &str) -> bool {
    static OPTIONS: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
        let command = Args::command();
        let run = command.find_subcommand("run");
        let arguments = run.into_iter().flat_map(clap::Command::get_arguments);
        let long = arguments.filter_map(|it| it.get_long());
        long.map(str::to_owned).collect()
    });
    OPTIONS.contains(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_shown_as_options() {
        for (table, key, value, expected) in [
            ("workload", "duration", "\"0 ms\"", "--duration \"0 ms\""),
            ("", "connect_deadline", "\"1s\"", "--connect-deadline 1s"),
            (
                "condition.forward",
                "delay",
                "\"40d\"",
                "--forward delay=40d",
            ),
            ("forward", "delay", "\"40d\"", "--forward delay=40d"),
            ("workload.probe", "message", "\"1B\"", "--probe message=1B"),
            (
                "condition.loss_bursts",
                "to_bad",
                "\"5x\"",
                "--loss-bursts to_bad=5x",
            ),
            ("transport", "label", "\"\"", "label="),
        ] {
            assert_eq!(setting(key, value, table), expected);
        }
    }

    fn part(key: &str, value: &str) -> MessagePart {
        MessagePart::Setting {
            key: key.to_owned(),
            value: value.to_owned(),
        }
    }

    #[test]
    fn keys_of_a_message_are_options() {
        let message = Message::of([
            "add ".into(),
            part("rate", "\"1Gbit/s\""),
            ", or no ".into(),
            MessagePart::Key("aqm_target".to_owned()),
        ]);
        assert_eq!(
            in_options(&message, "condition"),
            "add `--rate 1Gbit/s`, or no `--aqm-target`"
        );
        assert_eq!(
            in_options(&message, "condition.forward"),
            "add `rate=1Gbit/s`, or no `aqm_target`"
        );
        let label = Message::of([part("label", "\"tcp-2\"")]);
        assert_eq!(in_options(&label, "transport"), "`label=tcp-2`");
    }

    #[test]
    fn a_setting_that_is_an_option_too_is_one_option() {
        let bed = MessagePart::SettingOrOption {
            key: "bed".to_owned(),
            value: "\"uml\"".to_owned(),
        };
        let message = Message::of(["write ".into(), bed, " too".into()]);
        assert_eq!(in_options(&message, ""), "write `--bed uml` too");
        assert_eq!(
            message.to_string(),
            "write `bed = \"uml\"` or `--bed uml` too"
        );
    }

    /// A name in quotation marks is no key, whatever its letters.
    #[test]
    fn text_of_a_message_is_left_as_it_is() {
        let message = Message::from("two have the label `rate`, as `x = y`");
        assert_eq!(
            in_options(&message, ""),
            "two have the label `rate`, as `x = y`"
        );
    }
}
