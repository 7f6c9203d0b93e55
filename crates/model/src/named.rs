//! Enumerations whose values have names in studies, options of the command line and stored records.

use serde::{Deserialize as _, Deserializer, de::Error as _};

/// Value that has a name in studies, options and stored records.
pub trait Named: Copy + PartialEq + 'static {
    /// Names with their values, in the order of messages.
    const NAMES: &'static [(&'static str, Self)];

    /// Returns the name of this value.
    #[must_use]
    fn as_str(self) -> &'static str {
        let known = Self::NAMES.iter().find(|(_, value)| *value == self);
        known.map_or("", |(name, _)| name)
    }

    /// Returns the value with this name.
    #[must_use]
    fn from_name(name: &str) -> Option<Self> {
        let known = Self::NAMES.iter().find(|(known, _)| *known == name);
        known.map(|(_, value)| *value)
    }
}

/// Whether a setting has its default, with which it is not stored.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Reads a value by its name, which is one of `names`.
///
/// # Errors
/// Another name.
pub fn read<'de, T: Named, D: Deserializer<'de>>(
    deserializer: D,
    names: &'static [&'static str],
) -> Result<T, D::Error> {
    let name = String::deserialize(deserializer)?;
    T::from_name(&name).ok_or_else(|| D::Error::unknown_variant(&name, names))
}

/// Defines the names of an enumeration's values, and its form in stored records.
#[macro_export]
macro_rules! named {
    ($type:ty: $($name:literal => $variant:ident),+ $(,)?) => {
        impl $crate::named::Named for $type {
            const NAMES: &'static [(&'static str, Self)] = &[$(($name, Self::$variant)),+];
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str($crate::named::Named::as_str(*self))
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::named::read(deserializer, &[$($name),+])
            }
        }
    };
}
pub use named;
