//! Messages about studies as values: keys and settings in them are written as in a file, or as options of the command line.

use std::fmt;

/// Message or hint about a study. Its display is that for a study file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Message(Vec<MessagePart>);

/// Part of a [`Message`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessagePart {
    /// Text, the same everywhere.
    Text(String),
    /// Name of a key.
    Key(String),
    /// Key with a value, as a study has it.
    Setting {
        /// The key.
        key: String,
        /// The value as TOML.
        value: String,
    },
    /// Key with a value, where an option beside the study does the same.
    SettingOrOption {
        /// The key.
        key: String,
        /// The value as TOML.
        value: String,
    },
}

/// Makes a [`Message`] of a literal, which may name variables, of a variable, or of parts in brackets.
macro_rules! message {
    ([$($part:expr),+ $(,)?]) => {
        $crate::study::message::Message::of([$($crate::study::message::MessagePart::from($part)),+])
    };
    ($value:ident) => {
        $crate::study::message::Message::from($value)
    };
    ($text:literal) => {
        $crate::study::message::Message::from(format!($text))
    };
}
pub(super) use message;

/// Returns the name of a key as a part of a message.
pub(super) fn key(name: &str) -> MessagePart {
    MessagePart::Key(name.to_owned())
}

/// Returns the names of keys, with commas between.
pub(super) fn keys(names: &[&str]) -> Vec<MessagePart> {
    let commas = std::iter::repeat_n(", ", names.len().saturating_sub(1)).chain([""]);
    let named = names.iter().zip(commas);
    let mut parts = Vec::new();
    for (name, comma) in named {
        parts.extend([key(name), comma.into()]);
    }
    parts
}

/// Returns a key with a value as TOML.
pub(super) fn setting(key: &str, value: impl fmt::Display) -> MessagePart {
    MessagePart::Setting {
        key: key.to_owned(),
        value: value.to_string(),
    }
}

/// Returns a key with a text.
pub(super) fn text_setting(key: &str, text: impl fmt::Display) -> MessagePart {
    setting(key, format_args!("\"{text}\""))
}

/// Returns a key with a text, or the option that does the same beside a study.
pub(super) fn setting_or_option(key: &str, text: &str) -> MessagePart {
    MessagePart::SettingOrOption {
        key: key.to_owned(),
        value: format!("\"{text}\""),
    }
}

impl Message {
    /// Makes a message of parts.
    pub fn of(parts: impl IntoIterator<Item = MessagePart>) -> Self {
        Self(parts.into_iter().collect())
    }

    /// Returns the parts.
    #[must_use]
    pub fn parts(&self) -> &[MessagePart] {
        &self.0
    }

    /// Whether the message names a key, with a value or without.
    #[must_use]
    pub fn names(&self, name: &str) -> bool {
        self.0.iter().any(|part| match part {
            MessagePart::Text(_) => false,
            MessagePart::Key(key)
            | MessagePart::Setting { key, .. }
            | MessagePart::SettingOrOption { key, .. } => key == name,
        })
    }

    /// Returns the message with a text before it.
    #[must_use]
    pub fn after(mut self, text: &str) -> Self {
        self.0.insert(0, text.into());
        self
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|part| match part {
            MessagePart::Text(text) => f.write_str(text),
            MessagePart::Key(key) => write!(f, "`{key}`"),
            MessagePart::Setting { key, value } => write!(f, "`{key} = {value}`"),
            MessagePart::SettingOrOption { key, value } => {
                let (option, bare) = (key.replace('_', "-"), value.trim_matches('"'));
                write!(f, "`{key} = {value}` or `--{option} {bare}`")
            }
        })
    }
}

impl From<&str> for Message {
    fn from(text: &str) -> Self {
        Self(vec![text.into()])
    }
}

impl From<String> for Message {
    fn from(text: String) -> Self {
        Self(vec![text.into()])
    }
}

impl From<&str> for MessagePart {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for MessagePart {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_written_as_in_a_study() {
        let hint = message!([
            "give a rate, such as ",
            setting_or_option("rate", "100Mbit/s"),
            ", ",
            setting("mtu", 1500),
            " or no ",
            key("queue"),
        ]);
        assert_eq!(
            hint.to_string(),
            "give a rate, such as `rate = \"100Mbit/s\"` or `--rate 100Mbit/s`, `mtu = 1500` or no `queue`"
        );
        assert!(hint.names("mtu") && hint.names("queue") && !hint.names("loss"));
    }
}
