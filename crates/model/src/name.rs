//! Names that many records share.

use std::{
    borrow::Borrow,
    collections::BTreeSet,
    fmt::{self, Display},
    ops::Deref,
    sync::Arc,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::table::{Cell, FromCell, Kind, Phrases, Value};

/// Name of a transport, condition or workload in the record of a trial. A copy is cheap, and has no memory of its own.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// Returns the name as a string slice.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self
    }

    /// Makes this name share the memory of an equal one of `known`, to which it is added if there is none.
    pub fn share(&mut self, known: &mut BTreeSet<Self>) {
        match known.get(self) {
            Some(same) => *self = same.clone(),
            None => {
                known.insert(self.clone());
            }
        }
    }
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        self
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        self
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for Name {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<&String> for Name {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        (*name).to_owned()
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        **self == *other
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, other: &&str) -> bool {
        **self == **other
    }
}

impl PartialEq<String> for Name {
    fn eq(&self, other: &String) -> bool {
        **self == **other
    }
}

impl PartialEq<Name> for String {
    fn eq(&self, other: &Name) -> bool {
        **self == **other
    }
}

impl Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(&**self, f)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(String::deserialize(deserializer)?.into())
    }
}

impl Cell for Name {
    const KIND: Kind = Kind::Text;

    fn value(&self) -> Value<'_> {
        Value::Text(self)
    }
}

impl<'a> FromCell<'a> for Name {
    fn from_cell(value: Value<'a>, _: &Phrases) -> Option<Self> {
        match value {
            Value::Text(text) => Some(text.into()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_share_their_memory() {
        let mut known = BTreeSet::new();
        let mut names = ["tcp", "udp", "tcp"].map(Name::from);
        for name in &mut names {
            name.share(&mut known);
        }
        assert_eq!(names, ["tcp", "udp", "tcp"]);
        assert!(Arc::ptr_eq(&names[0].0, &names[2].0));
        assert_eq!(known.len(), 2);
    }
}
