//! Colours, marks and dashes of the transports.

use std::collections::BTreeMap;

use super::svg::{COLOURS, STYLES};
use crate::{RunData, analysis::line_label};

/// Styles of the built-in drivers and of usual labels. Those that are usually compared have colours of their own.
const KNOWN: [(&str, usize); 24] = [
    ("tcp", 0),
    ("quic-quinn", 1),
    ("udp", 2),
    ("sctp", 3),
    ("tcp-tls", 4),
    ("quic-quiche", 5),
    ("wdt", 6),
    ("quic-s2n", 7),
    ("mptcp", 8),
    ("udp-reliable", 9),
    ("sctp-userspace", 10),
    ("quic-noq", 11),
    ("tcp-cubic", 12),
    ("quic-quinn-cubic", 13),
    ("tcp-reno", 15),
    ("tcp-tls-cubic", 16),
    ("quic-aioquic", 18),
    ("quic-go", 19),
    ("tcp-bbr", 80),
    ("tcp-hybla", 33),
    ("sctp-pysctp", 22),
    ("quic-quinn-bbr", 23),
    ("wdt-1", 27),
    ("wdt-8", 30),
];

/// Returns the style of a label, whatever else is shown.
fn of_label(label: &str) -> usize {
    let known = KNOWN.iter().find(|(known, _)| *known == label);
    known.map_or_else(|| hash(label) % STYLES, |(_, style)| *style)
}

/// Returns a number that is the same for a text in every version: FNV-1a with 32 bits.
///
/// Source: draft-eastlake-fnv-17, 2.
fn hash(text: &str) -> usize {
    let hash = text.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    hash as usize
}

/// Styles of the labels of a report, as numbers for [`ColourRole::Series`](super::svg::ColourRole::Series) and marks.
///
/// The colour depends on the label alone, so that a transport has the same one in every report. Labels with the same
/// colour and mark get different marks.
#[derive(Debug, Default)]
pub struct Styles(BTreeMap<String, usize>);

impl Styles {
    /// Returns the styles of these labels.
    pub fn new<'a>(labels: impl IntoIterator<Item = &'a str>) -> Self {
        let is_known = |label: &str| KNOWN.iter().any(|(known, _)| *known == label);
        let mut labels: Vec<&str> = labels.into_iter().collect();
        labels.sort_by_key(|label| (!is_known(label), *label));
        labels.dedup();
        let mut used = [false; STYLES];
        let mut styles = BTreeMap::new();
        for label in labels {
            let preferred = of_label(label);
            let mut of_colour = (0..STYLES / COLOURS).map(|n| (preferred + n * COLOURS) % STYLES);
            let free = of_colour.find(|style| !used[*style]);
            let style = free.unwrap_or(preferred);
            used[style] = true;
            styles.insert(label.to_owned(), style);
        }
        Self(styles)
    }

    /// Returns the styles of a run's transports. Those of one line of a sweep have that of the line.
    pub fn of(data: &RunData) -> Self {
        let study = &data.header.study;
        let labels = study.transports.iter().map(|it| it.label.as_str());
        let lines: Vec<(&str, String)> = labels
            .map(|label| (label, line_label(&study.sweeps, label)))
            .collect();
        let mut styles = Self::new(lines.iter().map(|(_, line)| line.as_str()));
        for (label, line) in &lines {
            let style = styles.get(line);
            styles.0.entry((*label).to_owned()).or_insert(style);
        }
        styles
    }

    /// Returns the style of a label.
    pub fn get(&self, label: &str) -> usize {
        self.known(label).unwrap_or_else(|| of_label(label))
    }

    /// Returns the style of one of the labels; `None` for another.
    pub fn known(&self, label: &str) -> Option<usize> {
        self.0.get(label).copied()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_colour_depends_on_nothing_but_the_label() {
        let labels = [
            "tcp",
            "udp",
            "quic-quinn",
            "mine",
            "another",
            "third:cc=bbr",
        ];
        let alone = labels.map(|label| Styles::new([label]).get(label));
        let mut many: Vec<String> = (0..60).map(|n| format!("label-{n}")).collect();
        many.extend(labels.map(str::to_owned));
        let together = Styles::new(many.iter().rev().map(String::as_str));
        for (label, style) in labels.iter().zip(alone) {
            let colour = |style: usize| style % COLOURS;
            assert_eq!(colour(together.get(label)), colour(style), "{label}");
        }
        // The same in every version.
        assert_eq!(hash("foobar"), 0xbf9c_f968);
    }

    #[test]
    fn the_transports_of_a_report_have_different_styles() {
        let known = KNOWN.map(|(label, _)| label.to_owned());
        let styles: BTreeSet<usize> = KNOWN.iter().map(|(_, style)| *style).collect();
        assert_eq!(styles.len(), KNOWN.len());
        // So many that some have the same colour, but not so many that a colour runs out of marks.
        let others = (0..16).map(|n| format!("tcp:cc=bbr:window={n}MB"));
        let labels: Vec<String> = known.into_iter().chain(others).collect();
        let styles = Styles::new(labels.iter().map(String::as_str));
        let shown: BTreeSet<usize> = labels.iter().map(|label| styles.get(label)).collect();
        assert_eq!(shown.len(), labels.len());
    }

    #[test]
    fn drivers_have_distinct_colours() {
        let drivers = KNOWN.iter().take(COLOURS);
        let colours: BTreeSet<usize> = drivers.map(|(_, style)| style % COLOURS).collect();
        assert_eq!(colours.len(), COLOURS);
    }
}
