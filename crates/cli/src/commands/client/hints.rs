//! Hints of trials in the words of the command that shows them: `regatta client` and `regatta path` have other options
//! than `regatta run`.

use clap::{Args as _, Command};
use regatta_model::{
    Text, Warning,
    template::{Renderer, Template, TemplatePart},
};

use crate::args::{ClientArgs, PathCommandArgs};

/// Options of `regatta run` and of transports, and those of `regatta client` that do the same.
const OF_CLIENT: &[(&str, &str)] = &[
    ("--connect-deadline", "--connect-timeout"),
    ("--size", "--bytes"),
    ("--duration", "--time"),
    ("--rate", "--bitrate"),
    ("rate", "--bitrate"),
    ("zero_copy", "--zero-copy"),
];

/// English with the options of a command.
struct Options {
    command: Command,
    /// Options under other names than those of `regatta run`.
    renamed: &'static [(&'static str, &'static str)],
}

impl Renderer for Options {
    fn text(&self, template: &Template, part: TemplatePart, _: u64) -> &'static str {
        template.english(part)
    }

    fn quantity(&self, english: String) -> String {
        english
    }

    fn option(&self, name: &str) -> Option<String> {
        let mut renamed = self.renamed.iter();
        if let Some((_, own)) = renamed.find(|(of_run, _)| *of_run == name) {
            return Some((*own).to_owned());
        }
        let mut options = self.command.get_arguments();
        // Options of transports are the same in every command.
        let is_known = name
            .strip_prefix("--")
            .is_none_or(|long| options.any(|option| option.get_long() == Some(long)));
        is_known.then(|| name.to_owned())
    }
}

fn client() -> Options {
    Options {
        command: ClientArgs::augment_args(Command::new("client")),
        renamed: OF_CLIENT,
    }
}

/// Returns a hint with the client's options, without the alternatives that name one which the client lacks.
pub fn of_client(hint: &Text) -> String {
    with_options(hint, &client())
}

/// Returns a hint for `regatta path`, without the alternatives that name an option which it lacks, as that of a bed.
pub fn of_path(hint: &Text) -> String {
    let options = Options {
        command: PathCommandArgs::augment_args(Command::new("path")),
        renamed: &[],
    };
    with_options(hint, &options)
}

/// Returns a hint of an error about the directory of the results, which the client calls by another option.
pub fn of_saved(hint: &Text) -> String {
    let options = Options {
        renamed: &[("--out", "--save")],
        ..client()
    };
    with_options(hint, &options)
}

fn with_options(hint: &Text, options: &Options) -> String {
    let phrase = hint.phrase();
    let rendered = phrase.and_then(|phrase| phrase.render(TemplatePart::Message, options));
    rendered.unwrap_or_else(|| hint.to_string())
}

/// Returns warnings with the client's options.
pub fn in_warnings(warnings: &[Warning]) -> Vec<Warning> {
    let options = client();
    let in_client = |warning: &Warning| {
        let content = warning.content.as_ref();
        let render = |part| content.and_then(|content| content.render(part, &options));
        Warning {
            message: render(TemplatePart::Message).unwrap_or_else(|| warning.message.clone()),
            hint: render(TemplatePart::Hint).unwrap_or_else(|| warning.hint.clone()),
            ..warning.clone()
        }
    };
    warnings.iter().map(in_client).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use regatta_model::{Argument, Bytes, Ratio, phrase, reason, warning};

    use super::*;

    #[test]
    fn hints_of_a_path_name_no_bed() {
        let hint = |text: regatta_model::Phrase| of_path(&text.into());
        assert_eq!(
            hint(reason::tun_not_permitted()),
            "this container may not use the device: start it with `--device /dev/net/tun`"
        );
        assert_eq!(
            hint(reason::netem_in_guest()),
            "use Regatta's own emulator with `--emulator userspace`"
        );
    }

    #[test]
    fn hints_name_options_of_the_client() {
        let hint = |text: regatta_model::Phrase| of_client(&text.into());
        assert_eq!(
            hint(reason::longer_transfer()),
            "give the transfer a longer `--time`"
        );
        assert_eq!(
            hint(reason::longer_connect_deadline()),
            "give a longer `--connect-timeout`, or take a path with less loss"
        );
        assert_eq!(
            hint(reason::load_sctp()),
            "run `modprobe sctp` as root, or use `sctp-userspace`"
        );
        assert_eq!(hint(reason::sctp_elsewhere()), "use `sctp-userspace`");
        assert_eq!(
            of_client(&"leave `--bed` alone".into()),
            "leave `--bed` alone"
        );
        assert_eq!(
            hint(reason::leave_option_out(Argument::option("zero_copy"))),
            "leave `--zero-copy` out"
        );
    }

    #[test]
    fn hints_of_results_name_the_directory_of_the_client() {
        let hint = of_saved(&reason::resume_or_other_directory("results").into());
        assert_eq!(
            hint,
            "run `regatta resume results` to go on with it, or choose another directory with `--save`"
        );
    }

    #[test]
    fn warnings_name_options_of_the_client() {
        let shown = |warning: Warning| in_warnings(&[warning]).remove(0);
        let short = warning::short_transfer(Bytes(1), 10, Bytes(1_000_000), 12);
        assert_eq!(shown(short).hint, "send at least `--bytes 12MB`");
        let second = Duration::from_secs(1);
        let stopped =
            warning::deadline_reached(second, phrase::amount(Bytes(1)), phrase::shorter_duration());
        assert_eq!(shown(stopped).hint, "give a shorter `--time`");
        let requested = phrase::requested_option(Argument::option("rate"));
        let slow = warning::rate_not_kept(Ratio(0.5), requested, phrase::lower_rate());
        assert_eq!(
            shown(slow).message,
            "the sender did not keep its rate: it reached 50 % of the option `--bitrate`"
        );
        let overflow = warning::slow_start_overflow(second, 1, Ratio(0.1), 10, 1);
        assert_eq!(
            shown(overflow).hint,
            "give the transport a smaller window where it has such an option"
        );
    }
}
