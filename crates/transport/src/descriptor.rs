//! Description of a driver: its capabilities and its options.

use std::{collections::BTreeMap, time::Duration};

use regatta_model::{
    BitRate, Bytes, IpProtocol, OptionValue, Tuning, metric::id, units::parse_duration,
};

/// Unit that a transport carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carries {
    /// Bytes in order, reliably.
    Streams,
    /// Datagrams or records with boundaries.
    Messages,
    /// Whole files, with connections and framing of the transport's own.
    Files,
}

/// Values of options, by the options' names.
pub type OptionValues = BTreeMap<String, OptionValue>;

/// Description of a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DriverDescriptor {
    /// Name in the registry: `tcp-tls`.
    pub name: &'static str,
    /// Title in tables: `TCP with TLS 1.3`.
    pub title: &'static str,
    /// One sentence, without a full stop.
    pub summary: &'static str,
    /// Streams, messages or files.
    pub carries: Carries,
    /// Protocol of the packets between the ends; `None` where the driver does not know.
    pub ip_protocol: Option<IpProtocol>,
    /// Whether every byte of the application is delivered, or the transfer fails.
    pub reliable: bool,
    /// Whether the data is encrypted.
    pub encrypted: bool,
    /// Whether one connection carries several streams that do not block one another.
    pub multiplexes: bool,
    /// Whether the option `cc` chooses the congestion control.
    pub congestion_control_choosable: bool,
    /// Further capabilities, by name: `0-rtt`, `multihoming`, `retry`.
    pub capabilities: &'static [&'static str],
    /// The stack that does the work: `Linux kernel`, `quinn`.
    pub stack: &'static str,
    /// Version of the stack; empty where it is the running kernel's.
    pub stack_version: &'static str,
    /// The options, in the order of help.
    pub options: &'static [OptionDefinition],
    /// Names of the metrics that the stack reports of its connections; those of the path, of the hosts and of the work do
    /// not depend on it.
    pub metrics: &'static [&'static str],
}

/// One option of a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionDefinition {
    /// Name in a study.
    pub name: &'static str,
    /// Kind of values that the option takes.
    pub kind: OptionKind,
    /// The value when it is absent, as it would be written; empty for "not set".
    pub default: &'static str,
    /// One sentence, without a full stop.
    pub help: &'static str,
}

impl OptionDefinition {
    /// Returns the value of the option, if it is set.
    fn value<'o>(&self, options: &'o BTreeMap<String, OptionValue>) -> Option<&'o OptionValue> {
        options.get(self.name)
    }

    /// Whether the option's value holds under a tuning of the hosts: under a kernel's defaults its default does not.
    #[must_use]
    pub fn holds(&self, options: &OptionValues, tuning: Tuning) -> bool {
        tuning == Tuning::Bench || self.value(options).is_some()
    }

    /// Returns the value of a flag, among options that were checked.
    #[must_use]
    pub fn flag(&self, options: &BTreeMap<String, OptionValue>) -> bool {
        match self.value(options) {
            Some(OptionValue::Flag(flag)) => *flag,
            _ => self.default == "true",
        }
    }

    /// Returns the value of an option that is written as text; `None` for an option that is not set and has no
    /// default.
    #[must_use]
    pub fn text<'o>(&self, options: &'o BTreeMap<String, OptionValue>) -> Option<&'o str> {
        match self.value(options) {
            Some(OptionValue::Text(text)) => Some(text),
            _ => Some(self.default).filter(|default| !default.is_empty()),
        }
    }

    /// Returns the value of an option that is a whole number. One that does not fit the type is
    /// not returned.
    #[must_use]
    pub fn number<T: TryFrom<i64>>(&self, options: &BTreeMap<String, OptionValue>) -> Option<T> {
        let number = match self.value(options) {
            Some(OptionValue::Number(number)) => *number,
            _ => self.default.parse().ok()?,
        };
        T::try_from(number).ok()
    }

    /// Returns the value of an option that is a size, in bytes.
    #[must_use]
    pub fn size(&self, options: &BTreeMap<String, OptionValue>) -> Option<u64> {
        Some(self.text(options)?.parse::<Bytes>().ok()?.0)
    }

    /// Returns the value of an option that is a size, in bytes, or the largest number if it is larger than memory can be.
    #[must_use]
    pub fn bytes(&self, options: &OptionValues) -> Option<usize> {
        Some(usize::try_from(self.size(options)?).unwrap_or(usize::MAX))
    }

    /// Returns the value of an option that is a rate.
    #[must_use]
    pub fn rate(&self, options: &BTreeMap<String, OptionValue>) -> Option<BitRate> {
        self.text(options)?.parse().ok()
    }

    /// Returns the value of an option that is a span of time.
    #[must_use]
    pub fn time(&self, options: &BTreeMap<String, OptionValue>) -> Option<Duration> {
        parse_duration(self.text(options)?).ok()
    }
}

/// Options that make a driver leave files in the directory that its order names: the secrets of its
/// connections, the events of each, what an external program leaves.
pub const FILE_OPTIONS: [&str; 3] = ["keylog", "qlog", "keep"];

/// Kinds of values that an option can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionKind {
    /// `true` or `false`.
    Flag,
    /// A whole number in a range.
    Number {
        /// Minimum value.
        least: i64,
        /// Largest value.
        most: i64,
    },
    /// A name: letters, digits, hyphens, underscores.
    Name,
    /// Name of a congestion control of the kernel that runs the transport: whether that kernel has it
    /// is asked before a run.
    KernelCongestionControl,
    /// One of these.
    OneOf(&'static [&'static str]),
    /// A rate above zero with its unit, `96Mbit/s`.
    Rate,
    /// A size above zero with its unit, `4MiB`.
    Size,
    /// A span of time above zero with its unit, `500ms`.
    Time,
    /// Path of a file on the host of the end that reads it, `./my-driver`.
    Path,
    /// Words on one line.
    Text,
}

/// Longest path or text, in bytes: what a kernel takes as a path.
const LONGEST_TEXT: usize = 4095;

impl OptionKind {
    /// Describes the kind: `a rate such as "96Mbit/s"`.
    #[must_use]
    pub fn description(self) -> String {
        match self {
            Self::Flag => "`true` or `false`".to_owned(),
            Self::Number { least, most } => format!("a whole number from {least} to {most}"),
            Self::Name => "a name".to_owned(),
            Self::KernelCongestionControl => {
                "the name of one of the kernel's congestion controls, such as `\"bbr\"`".to_owned()
            }
            Self::OneOf(names) => format!("one of `{}`", names.join("`, `")),
            Self::Rate => "a rate such as `\"96Mbit/s\"`".to_owned(),
            Self::Size => "a size such as `\"4MiB\"`".to_owned(),
            Self::Time => "a time such as `\"500ms\"`".to_owned(),
            Self::Path => "a path such as `\"./my-driver\"`".to_owned(),
            Self::Text => "words on one line".to_owned(),
        }
    }

    /// Returns the one of several names that a value is but for its capitals.
    fn in_small_letters(self, value: &OptionValue) -> Option<&'static str> {
        match (self, value) {
            (Self::OneOf(names), OptionValue::Text(text)) => {
                let mut names = names.iter().copied();
                names.find(|name| name.eq_ignore_ascii_case(text))
            }
            _ => None,
        }
    }

    fn accepts(self, value: &OptionValue) -> bool {
        match (self, value) {
            (Self::Flag, OptionValue::Flag(_)) => true,
            (Self::Number { least, most }, OptionValue::Number(number)) => {
                (least..=most).contains(number)
            }
            (Self::Name | Self::KernelCongestionControl, OptionValue::Text(text)) => {
                let is_right = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
                // The kernel's names of congestion controls have at most 15 characters.
                (1..=15).contains(&text.len()) && text.bytes().all(is_right)
            }
            (Self::OneOf(names), OptionValue::Text(text)) => names.contains(&text.as_str()),
            (Self::Rate, OptionValue::Text(text)) => {
                text.parse::<BitRate>().is_ok_and(|rate| rate.0 > 0)
            }
            (Self::Size, OptionValue::Text(text)) => {
                text.parse::<Bytes>().is_ok_and(|size| size.0 > 0)
            }
            (Self::Time, OptionValue::Text(text)) => {
                parse_duration(text).is_ok_and(|time| !time.is_zero())
            }
            (Self::Path, OptionValue::Text(text)) => {
                (1..=LONGEST_TEXT).contains(&text.len()) && !text.contains('\0')
            }
            (Self::Text, OptionValue::Text(text)) => {
                text.len() <= LONGEST_TEXT && !text.chars().any(char::is_control)
            }
            _ => false,
        }
    }
}

/// Error of an option that a driver does not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// The driver has no such option.
    #[error("`{driver}` has no option `{name}`")]
    Unknown {
        /// The driver.
        driver: &'static str,
        /// The name as it was written.
        name: String,
        /// The nearest option, or all options.
        hint: String,
    },
    /// An option that the driver needs is absent.
    #[error("`{driver}` needs the option `{name}`")]
    Missing {
        /// The driver.
        driver: &'static str,
        /// The option.
        name: &'static str,
        /// Kind of value to write.
        hint: String,
    },
    /// A value that the option does not take.
    #[error("`{value}` is not a value of option `{name}` of `{driver}`")]
    Value {
        /// The driver.
        driver: &'static str,
        /// The option.
        name: &'static str,
        /// The value as it was written.
        value: String,
        /// Kind of value to write instead.
        hint: String,
    },
}

impl OptionError {
    /// Returns the option's name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Unknown { name, .. } => name,
            Self::Missing { name, .. } | Self::Value { name, .. } => name,
        }
    }

    /// Returns the hint of the error, which says what to write instead.
    #[must_use]
    pub fn hint(&self) -> &str {
        match self {
            Self::Unknown { hint, .. } => hint,
            Self::Missing { hint, .. } | Self::Value { hint, .. } => hint,
        }
    }
}

fn shown(value: &OptionValue) -> String {
    match value {
        OptionValue::Flag(flag) => flag.to_string(),
        OptionValue::Number(number) => number.to_string(),
        OptionValue::Text(text) => text.clone(),
    }
}

impl DriverDescriptor {
    /// Properties that a driver has unless it says otherwise: it carries streams over the kernel's stack, reliably and in
    /// the clear.
    pub const PLAIN: Self = Self {
        name: "",
        title: "",
        summary: "",
        carries: Carries::Streams,
        ip_protocol: None,
        reliable: true,
        encrypted: false,
        multiplexes: false,
        congestion_control_choosable: false,
        capabilities: &[],
        stack: "Linux kernel",
        stack_version: "",
        options: &[],
        metrics: &[],
    };

    /// Metrics of a stack that reports windows, round-trip times, packets and retransmissions.
    pub const ALL_LEVELS: &'static [&'static str] = &[
        id::RETRANSMITTED_PACKETS,
        id::RETRANSMIT_RATIO,
        id::MIN_RTT_NS,
        id::SMOOTHED_RTT_MEAN_NS,
        id::SMOOTHED_RTT_P50_NS,
        id::SMOOTHED_RTT_LAST_NS,
        id::CONGESTION_WINDOW_MEAN_BYTES,
        id::CONGESTION_WINDOW_MAX_BYTES,
        id::BYTES_IN_FLIGHT_MAX_BYTES,
    ];

    /// The option that names a congestion control of the kernel, and the name, if the options have
    /// it.
    #[must_use]
    pub fn kernel_congestion_control<'o>(
        &self,
        options: &'o BTreeMap<String, OptionValue>,
    ) -> Option<(&'static str, &'o str)> {
        let of_kernel = OptionKind::KernelCongestionControl;
        self.options
            .iter()
            .find_map(|option| match options.get(option.name) {
                Some(OptionValue::Text(name)) if option.kind == of_kernel => {
                    Some((option.name, name.as_str()))
                }
                _ => None,
            })
    }

    /// Checks names and kinds of options.
    ///
    /// # Errors
    /// The first option, by name, that is unknown or has a wrong value.
    pub fn check(&self, options: &BTreeMap<String, OptionValue>) -> Result<(), OptionError> {
        for (name, value) in options {
            let Some(definition) = self.options.iter().find(|it| it.name == name) else {
                return Err(OptionError::Unknown {
                    driver: self.name,
                    name: name.clone(),
                    hint: self.hint_for_unknown(name),
                });
            };
            if definition.kind.accepts(value) {
                continue;
            }
            let hint = match definition.kind.in_small_letters(value) {
                Some(name) => format!("write `{name}`: it has no capitals"),
                None => format!("write {}", definition.kind.description()),
            };
            return Err(OptionError::Value {
                driver: self.name,
                name: definition.name,
                value: shown(value),
                hint,
            });
        }
        Ok(())
    }

    fn hint_for_unknown(&self, name: &str) -> String {
        let names: Vec<_> = self.options.iter().map(|option| option.name).collect();
        // Every transport has a label beside its options.
        let all = names.iter().copied().chain(["label"]);
        let distances = all.map(|near| (strsim::damerau_levenshtein(name, near), near));
        match distances.min() {
            // A name that shares less than half of its letters is not what was meant.
            Some((distance, near)) if distance * 2 <= near.len().max(2) => {
                format!("did you mean `{near}`?")
            }
            _ if names.is_empty() => format!("`{}` takes no options", self.name),
            _ => format!("it has `{}`", names.join("`, `")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRIVER: DriverDescriptor = DriverDescriptor {
        name: "raft",
        title: "Raft",
        summary: "floats",
        ip_protocol: None,
        carries: Carries::Messages,
        reliable: false,
        encrypted: false,
        multiplexes: false,
        congestion_control_choosable: true,
        capabilities: &[],
        stack: "wood",
        stack_version: "1",
        metrics: &[],
        options: &[
            OptionDefinition {
                name: "rate",
                kind: OptionKind::Rate,
                default: "",
                help: "how fast it is paddled",
            },
            OptionDefinition {
                name: "cc",
                kind: OptionKind::Name,
                default: "cubic",
                help: "who steers",
            },
            OptionDefinition {
                name: "receive_window",
                kind: OptionKind::Size,
                default: "",
                help: "how much it takes aboard",
            },
        ],
    };

    #[test]
    fn options_parse_to_their_value_or_default() {
        let option = |name, kind, default| OptionDefinition {
            name,
            kind,
            default,
            help: "",
        };
        let text = |text: &str| OptionValue::Text(text.to_owned());
        let set = BTreeMap::from([
            ("flag".to_owned(), OptionValue::Flag(false)),
            ("number".to_owned(), OptionValue::Number(70_000)),
            ("size".to_owned(), text("1MiB")),
            ("time".to_owned(), text("500ms")),
            ("rate".to_owned(), text("5Mbit/s")),
        ]);
        let unset = BTreeMap::new();
        let flag = option("flag", OptionKind::Flag, "true");
        assert_eq!((flag.flag(&set), flag.flag(&unset)), (false, true));
        let number = OptionKind::Number {
            least: 0,
            most: 1 << 20,
        };
        let number = option("number", number, "15");
        assert_eq!(number.number(&set), Some(70_000_u32));
        assert_eq!(number.number::<u16>(&set), None);
        assert_eq!(number.number(&unset), Some(15_u16));
        let size = option("size", OptionKind::Size, "");
        assert_eq!((size.size(&set), size.size(&unset)), (Some(1 << 20), None));
        let time = option("time", OptionKind::Time, "1s");
        let second = Duration::from_secs(1);
        assert_eq!(
            (time.time(&set), time.time(&unset)),
            (Some(second / 2), Some(second))
        );
        let rate = option("rate", OptionKind::Rate, "");
        assert_eq!(rate.rate(&set), Some(BitRate(5_000_000)));
        assert_eq!(rate.rate(&unset), None);
    }

    fn check(name: &str, value: OptionValue) -> Result<(), OptionError> {
        DRIVER.check(&BTreeMap::from([(name.to_owned(), value)]))
    }

    #[test]
    fn unknown_option_suggests_the_nearest_name() {
        let error = check("raet", OptionValue::Flag(true)).expect_err("unknown");
        assert_eq!(error.to_string(), "`raft` has no option `raet`");
        assert_eq!(error.hint(), "did you mean `rate`?");
        let error = check("quite-other", OptionValue::Flag(true)).expect_err("unknown");
        assert_eq!(error.hint(), "it has `rate`, `cc`, `receive_window`");
    }

    #[test]
    fn a_value_of_the_wrong_kind_or_unit_is_refused() {
        let text = |text: &str| OptionValue::Text(text.to_owned());
        assert!(check("rate", text("96Mbit/s")).is_ok());
        for wrong in [
            text("96"),
            text("0Mbit/s"),
            text("-1Mbit/s"),
            OptionValue::Number(96),
        ] {
            assert!(check("rate", wrong).is_err());
        }
        assert!(check("cc", text("bbr")).is_ok());
        for wrong in ["", "b br", "../../etc", "sixteen-letters-"] {
            assert!(check("cc", text(wrong)).is_err(), "{wrong}");
        }
    }
}
