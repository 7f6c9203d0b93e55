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
    /// Spans of the keys in the file.
    pub spans: BTreeMap<&'static str, Range<usize>>,
    /// Span of the section, for keys that it does not have.
    pub section_span: Range<usize>,
}

impl Draft {
    /// Creates a draft whose keys replace those of `link`.
    pub fn over(link: &Link, section_span: Range<usize>) -> Self {
        Self {
            link: link.clone(),
            queue: None,
            spans: BTreeMap::new(),
            section_span,
        }
    }

    pub fn span_of(&self, key: &str) -> Range<usize> {
        let span = self.spans.get(key).or_else(|| match key {
            // Half of it is the delay.
            "delay" => self.spans.get("rtt"),
            _ => None,
        });
        span.unwrap_or(&self.section_span).clone()
    }
}
