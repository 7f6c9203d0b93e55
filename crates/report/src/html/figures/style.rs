//! Colours, marks and dashes of the transports.

use std::collections::BTreeMap;

use regatta_model::Study;

use super::svg::{COLOURS, DASHES, MARKS, style};
use crate::{RunData, analysis::line_label};

/// Colours and preferred marks of the built-in drivers and of usual labels. Those that are usually compared have colours
/// that differ also for colour-blind readers, and marks of their own.
const KNOWN: [(&str, usize, usize); 27] = [
    ("tcp", 0, 0),
    ("quic-quinn", 1, 1),
    ("udp", 2, 2),
    ("sctp", 3, 3),
    ("tcp-tls", 6, 4),
    ("quic-quiche", 5, 5),
    ("wdt", 10, 6),
    ("quic-s2n", 7, 0),
    ("mptcp", 8, 1),
    ("udp-reliable", 9, 2),
    ("sctp-userspace", 4, 3),
    ("quic-noq", 11, 4),
    ("tcp-cubic", 0, 5),
    ("quic-quinn-cubic", 1, 6),
    ("tcp-reno", 3, 1),
    ("tcp-tls-cubic", 6, 2),
    ("quic-aioquic", 6, 4),
    ("quic-go", 7, 5),
    ("tcp-bbr", 8, 3),
    ("tcp-hybla", 9, 4),
    ("sctp-pysctp", 10, 1),
    ("quic-quinn-bbr", 11, 2),
    ("wdt-1", 3, 6),
    ("wdt-8", 6, 2),
    ("cubic", 0, 0),
    ("bbr", 8, 3),
    ("reno", 3, 1),
];

/// Returns the position of a label in [`KNOWN`]; labels of congestion controls are often capitals.
fn known(label: &str) -> Option<usize> {
    KNOWN
        .iter()
        .position(|(known, ..)| known.eq_ignore_ascii_case(label))
}

/// Returns the colour and the preferred mark of a label, whatever else is shown.
fn preferred(label: &str) -> (usize, usize) {
    let known = known(label).map(|position| (KNOWN[position].1, KNOWN[position].2));
    known.unwrap_or_else(|| {
        let hash = hash(label);
        (hash % COLOURS, hash / COLOURS % MARKS)
    })
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
/// The colour depends on the label alone, so that a transport has the same one in every report. Mark and dash are given
/// within the report: up to seven labels have marks of their own, and up to 42 a pair of mark and dash, so that they can
/// be told apart in grey.
#[derive(Debug, Default)]
pub struct Styles(BTreeMap<String, usize>);

impl Styles {
    /// Returns the styles of these labels.
    pub fn new<'a>(labels: impl IntoIterator<Item = &'a str>) -> Self {
        let mut labels: Vec<&str> = labels.into_iter().collect();
        labels.sort_by_key(|label| (known(label).unwrap_or(KNOWN.len()), *label));
        labels.dedup();
        // Number of labels that have each mark.
        let mut uses = [0; MARKS];
        let mut styles = BTreeMap::new();
        for label in labels {
            let (colour, mark) = preferred(label);
            let marks = (0..MARKS).map(|n| (mark + n) % MARKS);
            let mark = marks.min_by_key(|mark| uses[*mark]).unwrap_or(mark);
            let dash = (mark + uses[mark]) % DASHES;
            uses[mark] += 1;
            styles.insert(label.to_owned(), style(colour, mark, dash));
        }
        Self(styles)
    }

    /// Returns the styles of a run's transports.
    pub fn of(data: &RunData) -> Self {
        Self::of_study(&data.header.study)
    }

    /// Returns the styles of a study's transports. All transports of one line of a sweep have the style of that line.
    pub fn of_study(study: &Study) -> Self {
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

    /// Returns the number of the style of a label; for one that the run does not have, by its name.
    pub fn get(&self, label: &str) -> usize {
        self.known(label).unwrap_or_else(|| {
            let (colour, mark) = preferred(label);
            style(colour, mark, mark % DASHES)
        })
    }

    /// Returns the number of the style of a label; `None` for a label that the run does not have.
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

    /// Returns the mark and the dash of a style.
    fn in_grey(style: usize) -> usize {
        style / COLOURS
    }

    #[test]
    fn labels_of_a_report_can_be_told_apart_in_grey() {
        let known = KNOWN.map(|(label, ..)| label.to_owned());
        let others = (0..15).map(|n| format!("tcp:cc=bbr:window={n}MB"));
        let labels: Vec<String> = known.into_iter().chain(others).collect();
        let styles = Styles::new(labels.iter().map(String::as_str));
        let shown: BTreeSet<usize> = labels
            .iter()
            .map(|label| in_grey(styles.get(label)))
            .collect();
        assert_eq!(shown.len(), 42);
    }

    #[test]
    fn seven_labels_have_marks_of_their_own() {
        for labels in [
            ["CUBIC", "BBR", "a", "b", "c", "d", "e"],
            [
                "tcp",
                "tcp-bbr",
                "tcp-cubic",
                "tcp-reno",
                "quic-noq",
                "wdt-8",
                "z",
            ],
        ] {
            let styles = Styles::new(labels);
            let marks = labels.map(|label| in_grey(styles.get(label)) % MARKS);
            assert_eq!(BTreeSet::from(marks).len(), labels.len(), "{marks:?}");
        }
    }

    #[test]
    fn drivers_have_distinct_colours() {
        let drivers = KNOWN.iter().take(COLOURS);
        let colours: BTreeSet<usize> = drivers.map(|(_, colour, _)| *colour).collect();
        assert_eq!(colours.len(), COLOURS);
    }

    /// Returns a colour of the light page in CIELAB, as normal and red- or green-blind readers see it.
    ///
    /// Source: Machado, Oliveira and Fernandes (2009), <https://doi.org/10.1109/TVCG.2009.113>, severity 1.
    fn seen(colour: usize) -> [[f64; 3]; 3] {
        const READERS: [[[f64; 3]; 3]; 3] = [
            [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
            [
                [0.152_286, 1.052_583, -0.204_868],
                [0.114_503, 0.786_281, 0.099_216],
                [-0.003_882, -0.048_116, 1.051_998],
            ],
            [
                [0.367_322, 0.860_646, -0.227_968],
                [0.280_085, 0.672_501, 0.047_413],
                [-0.011_820, 0.042_940, 0.968_881],
            ],
        ];
        const XYZ: [[f64; 3]; 3] = [
            [0.412_456, 0.357_576, 0.180_438],
            [0.212_673, 0.715_152, 0.072_175],
            [0.019_334, 0.119_192, 0.950_304],
        ];
        const WHITE: [f64; 3] = [0.950_47, 1.0, 1.088_83];
        let multiplied = |matrix: [[f64; 3]; 3], by: [f64; 3]| {
            matrix.map(|row| row.iter().zip(by).map(|(a, b)| a * b).sum::<f64>())
        };
        let name = format!("--c{colour}");
        let mut colours = crate::html::colours();
        let (_, hex) = colours.find(|(known, _)| *known == name).expect("a colour");
        let linear = [1, 3, 5].map(|at| {
            let value = u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
            (f64::from(value) / 255.0).powf(2.2)
        });
        READERS.map(|reader| {
            let light = multiplied(reader, linear).map(|it| it.clamp(0.0, 1.0));
            let xyz = multiplied(XYZ, light);
            let [x, y, z] = [0, 1, 2].map(|n| (xyz[n] / WHITE[n]).max(0.009).cbrt());
            [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
        })
    }

    #[test]
    fn colours_of_usual_transports_differ_for_every_reader() {
        let usual = ["tcp", "tcp-tls", "udp", "quic-quinn", "sctp"];
        for pair in itertools::Itertools::tuple_combinations::<(&str, &str)>(usual.into_iter()) {
            let [a, b] = [pair.0, pair.1].map(|label| seen(preferred(label).0));
            for (a, b) in a.iter().zip(b) {
                let square: f64 = a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum();
                assert!(square.sqrt() > 15.0, "{pair:?}: {}", square.sqrt());
            }
        }
    }
}
