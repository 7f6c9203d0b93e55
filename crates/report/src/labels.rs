//! Labels of transports, conditions and values, where there is no room for long ones.

use std::collections::{BTreeMap, BTreeSet};

/// Labels that stand beside one another, with the texts that are shown of them: long ones are cut.
#[derive(Debug, Clone, Default)]
pub struct Labels {
    shown: BTreeMap<String, String>,
}

/// Largest number of labels up to which each is compared with every other.
const MAX_COMPARED: usize = 200;

impl Labels {
    /// Cuts the labels that are longer than `most` characters. They are cut in the middle, but not in the part in which
    /// a label differs from the one that is most like it, so that two labels never read alike.
    #[must_use]
    pub fn new<'a, T: AsRef<str> + ?Sized + 'a>(
        labels: impl IntoIterator<Item = &'a T>,
        most: usize,
    ) -> Self {
        let labels: BTreeSet<&str> = labels.into_iter().map(AsRef::as_ref).collect();
        let characters: Vec<Vec<char>> = labels.iter().map(|it| it.chars().collect()).collect();
        let mut used: BTreeSet<String> = (labels.iter().zip(&characters))
            .filter(|(_, characters)| characters.len() <= most)
            .map(|(label, _)| (*label).to_owned())
            .collect();
        let mut shown = BTreeMap::new();
        for (position, (label, own)) in labels.iter().zip(&characters).enumerate() {
            if own.len() <= most {
                shown.insert((*label).to_owned(), (*label).to_owned());
                continue;
            }
            let others = characters.iter().enumerate();
            let others =
                others.filter(|(other, _)| *other != position && labels.len() <= MAX_COMPARED);
            let nearest = others.max_by_key(|(_, other)| {
                let [start, end] = alike(own, other);
                start + end
            });
            let difference = nearest.map_or([0, 0], |(_, other)| differing(own, other, most));
            let text = cuts(own, difference, most).find(|text| !used.contains(text));
            // So many labels that are alike have numbers.
            let text = text.unwrap_or_else(|| {
                let number = position.to_string();
                let room = most.saturating_sub(number.len() + 1);
                let beginning: String = own.iter().take(room).collect();
                format!("{beginning}…{number}")
            });
            used.insert(text.clone());
            shown.insert((*label).to_owned(), text);
        }
        Self { shown }
    }

    /// Returns the text that is shown of a label: the label itself if it is not among the known ones.
    #[must_use]
    pub fn get<'a>(&'a self, label: &'a str) -> &'a str {
        self.shown.get(label).map_or(label, String::as_str)
    }

    /// Iterates over the texts that are shown.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.shown.values().map(String::as_str)
    }
}

/// Returns the number of equal characters at the beginning and at the end of two labels.
fn alike(a: &[char], b: &[char]) -> [usize; 2] {
    let start = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let most = a.len().min(b.len()) - start;
    let ends = a.iter().rev().zip(b.iter().rev()).take(most);
    [start, ends.take_while(|(a, b)| a == b).count()]
}

/// Returns the part of a label in which it differs from another, in whole words where `most` characters have room for
/// them.
fn differing(own: &[char], other: &[char], most: usize) -> [usize; 2] {
    let [start, end] = alike(own, other);
    let part = [start, own.len() - end];
    let [mut from, mut to] = part;
    while from > 0 && own[from - 1].is_alphanumeric() {
        from -= 1;
    }
    while to < own.len() && own[to].is_alphanumeric() {
        to += 1;
    }
    // An ellipsis at either side.
    let room = most.saturating_sub(2);
    match to - from <= room {
        true => [from, to],
        // Of a longer part the beginning, with room for what stands beside it.
        false => [part[0], part[1].min(part[0] + room * 2 / 3)],
    }
}

/// Returns the ways to cut a label to `most` characters, the best first: one cut outside of the part `difference`, as
/// near to the middle as possible and not at an end, then one at either side of that part, then any.
fn cuts(own: &[char], difference: [usize; 2], most: usize) -> impl Iterator<Item = String> {
    let room = most.saturating_sub(1);
    let mut heads: Vec<usize> = (0..=room).collect();
    heads.sort_by_key(|head| (2 * head).abs_diff(room));
    let one = |head: usize| {
        let tail = own.len() - (room - head);
        let text: String = own[..head]
            .iter()
            .chain(&['…'])
            .chain(&own[tail..])
            .collect();
        let is_intact = tail <= difference[0] || head >= difference[1];
        (text, is_intact && head.min(room - head) >= most / 5)
    };
    let texts: Vec<(String, bool)> = heads.into_iter().map(one).collect();
    let part = &own[difference[0]..difference[1]];
    let rest = most.saturating_sub(part.len() + 2);
    let (head, tail) = (rest / 2, rest - rest / 2);
    // Nothing is cut before a part at the beginning.
    let before: &[char] = if difference[0] > 0 { &['…'] } else { &[] };
    let around: String = (own[..head.min(difference[0])].iter())
        .chain(before)
        .chain(part)
        .chain(['…'].iter())
        .chain(&own[own.len() - tail.min(own.len() - difference[1])..])
        .collect();
    let around = (part.len() + 2 <= most).then_some(around);
    let (intact, cut): (Vec<_>, Vec<_>) = texts.into_iter().partition(|(_, is_intact)| *is_intact);
    let [intact, cut] = [intact, cut].map(|texts| texts.into_iter().map(|(text, _)| text));
    intact.chain(around).chain(cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the texts of labels, in their order.
    fn shown(labels: &[&str], most: usize) -> Vec<String> {
        let all = Labels::new(labels.iter().copied(), most);
        labels
            .iter()
            .map(|label| all.get(label).to_owned())
            .collect()
    }

    #[test]
    fn labels_are_cut_where_they_are_alike() {
        assert_eq!(shown(&["größer"], 6), ["größer"]);
        assert_eq!(shown(&["one-very-long-label"], 11), ["one-v…label"]);
        assert_eq!(
            shown(&["quic-quinn-with-cubic", "quic-quinn-with-bbr"], 16),
            ["quic-qu…th-cubic", "quic-qu…with-bbr"]
        );
        // The difference is in the middle.
        assert_eq!(
            shown(
                &[
                    "tcp-with-a-window-of-16MB-and-bbr",
                    "tcp-with-a-window-of-1MB-and-bbr"
                ],
                16
            ),
            ["tcp…16MB-and-bbr", "tcp-…1MB-and-bbr"]
        );
        assert_eq!(
            shown(
                &[
                    "a-long-beginning-1-and-a-long-end",
                    "a-long-beginning-2-and-a-long-end"
                ],
                16
            ),
            ["a-long…1…ong-end", "a-long…2…ong-end"]
        );
        // Too long to be kept whole.
        assert_eq!(
            shown(
                &[
                    "quic-quinn:initial_window=10:payload=1200B · a-long-path",
                    "tcp:cc=cubic · a-long-path",
                    "tcp:cc=reno · a-long-path"
                ],
                20
            ),
            [
                "quic-quinn:i…ng-path",
                "tcp:cc=cubic…ng-path",
                "tcp:cc=reno…ong-path"
            ]
        );
        // At the beginning.
        assert_eq!(
            shown(&["ab-the-same-label-twice", "ac-the-same-label-twice"], 10),
            ["ab-t…twice", "ac-t…twice"]
        );
    }

    #[test]
    fn no_two_labels_read_alike() {
        let label = |n: u32| format!("{}{}{}", "x".repeat(20 + n as usize % 3), n, "y".repeat(30));
        for count in [3, 60, 300] {
            let labels: Vec<String> = (0..count).map(label).collect();
            let texts = shown(&labels.iter().map(String::as_str).collect::<Vec<_>>(), 12);
            let distinct: BTreeSet<&String> = texts.iter().collect();
            assert_eq!(distinct.len(), texts.len());
            assert!(
                texts.iter().all(|text| text.chars().count() <= 12),
                "{texts:?}"
            );
        }
    }
}
