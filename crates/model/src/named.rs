//! Values that studies, options of the command line and stored records name by words.

use serde::{Deserialize as _, Deserializer, de::Error as _};

/// Value that has a word in studies, options and stored records.
pub trait Named: Copy + PartialEq + 'static {
    /// Names with their values, in the order of messages.
    const NAMES: &'static [(&'static str, Self)];

    /// Returns the word for this value.
    #[must_use]
    fn as_str(self) -> &'static str {
        let known = Self::NAMES.iter().find(|(_, value)| *value == self);
        known.map_or("", |(word, _)| word)
    }

    /// Returns the value with this word.
    #[must_use]
    fn from_name(word: &str) -> Option<Self> {
        let known = Self::NAMES.iter().find(|(known, _)| *known == word);
        known.map(|(_, value)| *value)
    }
}

/// Reads a value by its word, which is one of `words`.
///
/// # Errors
/// Another word.
pub fn read<'de, T: Named, D: Deserializer<'de>>(
    deserializer: D,
    words: &'static [&'static str],
) -> Result<T, D::Error> {
    let word = String::deserialize(deserializer)?;
    T::from_name(&word).ok_or_else(|| D::Error::unknown_variant(&word, words))
}

/// Defines the words of an enumeration, and its form in stored records.
#[macro_export]
macro_rules! named {
    ($type:ty: $($word:literal => $variant:ident),+ $(,)?) => {
        impl $crate::named::Named for $type {
            const NAMES: &'static [(&'static str, Self)] = &[$(($word, Self::$variant)),+];
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str($crate::named::Named::as_str(*self))
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::named::read(deserializer, &[$($word),+])
            }
        }
    };
}
pub use named;
