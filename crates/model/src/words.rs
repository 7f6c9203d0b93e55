//! Values that studies, options of the command line and stored records name by words.

use serde::{Deserialize as _, Deserializer, de::Error as _};

/// Value that has a word in studies, options and stored records.
pub trait Words: Copy + PartialEq + 'static {
    /// Words with their values, in the order of messages.
    const WORDS: &'static [(&'static str, Self)];

    /// Returns the word for this value.
    #[must_use]
    fn word(self) -> &'static str {
        let known = Self::WORDS.iter().find(|(_, value)| *value == self);
        known.map_or("", |(word, _)| word)
    }

    /// Returns the value with this word.
    #[must_use]
    fn of_word(word: &str) -> Option<Self> {
        let known = Self::WORDS.iter().find(|(known, _)| *known == word);
        known.map(|(_, value)| *value)
    }
}

/// Reads a value by its word, which is one of `words`.
///
/// # Errors
/// Another word.
pub fn read<'de, T: Words, D: Deserializer<'de>>(
    deserializer: D,
    words: &'static [&'static str],
) -> Result<T, D::Error> {
    let word = String::deserialize(deserializer)?;
    T::of_word(&word).ok_or_else(|| D::Error::unknown_variant(&word, words))
}

/// Defines the words of an enumeration, and its form in stored records.
#[macro_export]
macro_rules! words {
    ($type:ty: $($word:literal => $variant:ident),+ $(,)?) => {
        impl $crate::words::Words for $type {
            const WORDS: &'static [(&'static str, Self)] = &[$(($word, Self::$variant)),+];
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str($crate::words::Words::word(*self))
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::words::read(deserializer, &[$($word),+])
            }
        }
    };
}
pub use words;
