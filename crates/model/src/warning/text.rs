//! Texts of results, which a reader sees in one language or another.

use std::{
    borrow::{Borrow, Cow},
    cmp::Ordering,
    fmt,
    ops::Deref,
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use super::template::{Argument, Phrase};

/// Text of a result, such as a reason: in English, with the phrase that it is made of.
///
/// Texts of other programs and of the system have no phrase, and are the same in every language. Texts are compared by their English form.
#[derive(Debug, Clone, Default, Eq, Serialize, Deserialize)]
#[serde(from = "Message", into = "Message")]
pub struct Text {
    english: String,
    phrase: Option<Arc<Phrase>>,
}

/// Text in a message: a string, or with its phrase an object.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Message {
    Plain(String),
    Made { text: String, content: Phrase },
}

impl Text {
    /// Creates a text of its English form and the phrase that this was made of.
    #[must_use]
    pub const fn new(english: String, phrase: Option<Arc<Phrase>>) -> Self {
        Self { english, phrase }
    }

    /// Returns the text in English.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.english
    }

    /// Returns the phrase that the text is made of; `None` for a text that is the same in every language.
    #[must_use]
    pub fn phrase(&self) -> Option<&Phrase> {
        self.phrase.as_deref()
    }

    /// Returns the text without its phrase, as machine outputs have it.
    #[must_use]
    pub fn in_english(&self) -> Self {
        self.english.clone().into()
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.english
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.english.fmt(f)
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        &self.english
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.english == other.english
    }
}

impl PartialOrd for Text {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Text {
    fn cmp(&self, other: &Self) -> Ordering {
        self.english.cmp(&other.english)
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.english == other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.english == *other
    }
}

impl PartialEq<String> for Text {
    fn eq(&self, other: &String) -> bool {
        self.english == *other
    }
}

impl From<Phrase> for Text {
    fn from(phrase: Phrase) -> Self {
        Self::new(phrase.to_string(), Some(Arc::new(phrase)))
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self::new(text, None)
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<Cow<'_, str>> for Text {
    fn from(text: Cow<'_, str>) -> Self {
        text.into_owned().into()
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.english
    }
}

impl From<Text> for Argument {
    fn from(text: Text) -> Self {
        match text.phrase {
            Some(phrase) => Self::Phrase(Arc::unwrap_or_clone(phrase)),
            None => Self::Text(text.english),
        }
    }
}

impl From<Message> for Text {
    fn from(message: Message) -> Self {
        match message {
            Message::Plain(text) => text.into(),
            Message::Made { text, content } => Self::new(text, Some(Arc::new(content))),
        }
    }
}

impl From<Text> for Message {
    fn from(Text { english, phrase }: Text) -> Self {
        match phrase {
            None => Self::Plain(english),
            Some(content) => Self::Made {
                text: english,
                content: Arc::unwrap_or_clone(content),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reason;

    #[test]
    fn a_text_is_the_same_after_it_was_sent() {
        for (text, json) in [
            (Text::from("exit status: 1"), r#""exit status: 1""#),
            (
                reason::larger_mtu(1228).into(),
                r#"{"text":"set the condition's MTU to at least 1228","content":{"template":"larger_mtu","arguments":{"least":{"count":1228}}}}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&text).unwrap(), json);
            let sent = serde_json::from_str::<Text>(json).unwrap();
            assert_eq!((sent.phrase(), &sent), (text.phrase(), &text));
        }
    }
}
