//! Compact letter display: items that do not differ share a letter.

/// Letters for `n` items in the order of a ranking; two items share a letter if and only if they do
/// not differ. `a` is the letter of the first item's group, and so on down the ranking; after `z`
/// comes `aa`.
///
/// `differ` must be symmetric; its arguments are positions.
///
/// Source: Piepho 2004, J. Comput. Graph. Stat. 13, 456–466 (insert and absorb).
#[must_use]
pub fn compact_letters(n: usize, differ: impl Fn(usize, usize) -> bool) -> Vec<String> {
    let mut columns: Vec<Vec<usize>> = vec![(0..n).collect()];
    for i in 0..n {
        for j in i + 1..n {
            if !differ(i, j) {
                continue;
            }
            // A column that holds both becomes two, each without one of them.
            let (split, mut next_columns): (Vec<_>, Vec<_>) = columns
                .into_iter()
                .partition(|column| column.contains(&i) && column.contains(&j));
            for column in split {
                for without in [j, i] {
                    next_columns.push(column.iter().copied().filter(|&k| k != without).collect());
                }
            }
            columns = absorb(next_columns);
        }
    }
    columns.sort();
    let mut letters = vec![String::new(); n];
    for (number, column) in columns.iter().enumerate() {
        for &item in column {
            letters[item].push_str(&letter(number));
        }
    }
    letters
}

/// Leaves out every column that lies within another.
fn absorb(mut columns: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
    columns.sort_by_key(|column| std::cmp::Reverse(column.len()));
    let mut maximal: Vec<Vec<usize>> = Vec::new();
    for column in columns {
        let within = |known: &Vec<usize>| column.iter().all(|item| known.contains(item));
        if !maximal.iter().any(within) {
            maximal.push(column);
        }
    }
    maximal
}

fn letter(number: usize) -> String {
    let last = char::from(b'a' + (number % 26) as u8);
    match number / 26 {
        0 => last.to_string(),
        before => letter(before - 1) + &last.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Source: Piepho 2004, section 2: eight treatments with these significant pairs (numbered from
    /// 1: 1-7, 1-8, 2-4, 2-5, 3-5, 3-6, 3-7, 3-8, 4-6, 4-7, 4-8, 5-7, 5-8). Every pair must be shown
    /// rightly, which is what the display is for.
    #[test]
    fn items_share_a_letter_if_and_only_if_they_do_not_differ() {
        let pairs = [
            (1, 7),
            (1, 8),
            (2, 4),
            (2, 5),
            (3, 5),
            (3, 6),
            (3, 7),
            (3, 8),
            (4, 6),
            (4, 7),
            (4, 8),
            (5, 7),
            (5, 8),
        ];
        let differ =
            |i: usize, j: usize| pairs.contains(&(i + 1, j + 1)) || pairs.contains(&(j + 1, i + 1));
        let letters = compact_letters(8, differ);
        for i in 0..8 {
            for j in i + 1..8 {
                let shared = letters[i].chars().any(|c| letters[j].contains(c));
                assert_eq!(shared, !differ(i, j), "{i} {j}: {letters:?}");
            }
        }
    }

    #[test]
    fn letters_follow_the_ranking() {
        assert_eq!(compact_letters(3, |_, _| false), ["a", "a", "a"]);
        assert_eq!(compact_letters(3, |_, _| true), ["a", "b", "c"]);
        assert_eq!(
            compact_letters(3, |i, j| i.abs_diff(j) == 2),
            ["a", "ab", "b"]
        );
        assert!(compact_letters(0, |_, _| true).is_empty());
        assert_eq!(letter(25), "z");
        assert_eq!(letter(26), "aa");
        assert_eq!(letter(52), "ba");
    }
}
