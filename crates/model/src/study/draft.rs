//! Link of a condition while the keys of its sections are read.

use std::{collections::BTreeMap, ops::Range};

use crate::{condition::Link, units::QueueSize};

/// Link under construction: settings that depend on the whole path are not known yet.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    pub link: Link,
    /// Queue size as written; multiples of the bandwidth-delay product become bytes when the whole
    /// path is known.
    pub queue: Option<QueueSize>,
    /// Places of the keys in the file.
    pub places: BTreeMap<&'static str, Range<usize>>,
    /// Place of the section, for keys that it does not have.
    pub whole: Range<usize>,
}

impl Draft {
    /// Creates a draft whose keys replace those of `link`.
    pub fn over(link: &Link, whole: Range<usize>) -> Self {
        Self {
            link: link.clone(),
            queue: None,
            places: BTreeMap::new(),
            whole,
        }
    }

    pub fn place(&self, key: &str) -> Range<usize> {
        let place = self.places.get(key).or_else(|| match key {
            // Half of it is the delay.
            "delay" => self.places.get("rtt"),
            _ => None,
        });
        place.unwrap_or(&self.whole).clone()
    }
}
