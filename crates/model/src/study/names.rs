//! Names in messages: lists, and the nearest of a mistyped one.

/// Shortest beginning of a name that stands for it.
const SHORTEST_BEGINNING: usize = 3;

/// Returns the one of `names` nearest to a mistyped `input`, if one is near, or the first that begins with it or has it
/// between hyphens, as `quic-quinn` has `quinn`. Capitals make no difference.
#[must_use]
pub fn nearest<'n>(input: &str, names: &[&'n str]) -> Option<&'n str> {
    let input = &*input.to_lowercase();
    let begins = |name: &&&str| input.len() >= SHORTEST_BEGINNING && name.starts_with(input);
    let has_part = |name: &&&str| name.split(['-', '_']).any(|part| part == input);
    let length = input.chars().count();
    let distances = names.iter().map(|name| {
        let distance = strsim::damerau_levenshtein(input, &name.to_lowercase());
        (distance, name)
    });
    let near =
        distances.filter(|(distance, name)| *distance <= 1 + name.chars().count().max(length) / 4);
    let nearest = near
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name);
    nearest
        .or_else(|| names.iter().find(begins))
        .or_else(|| names.iter().find(has_part))
        .copied()
}

/// Returns names in backticks, with commas between.
pub(super) fn list(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

/// Returns names in backticks, with `or` before the last.
pub(super) fn one_of(names: &[&str]) -> String {
    match names {
        [rest @ .., last] if !rest.is_empty() => format!("{} or `{last}`", list(rest)),
        _ => list(names),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_name_stands_for_it() {
        let names = ["tcp", "tcp-tls", "quic-quinn", "quic-noq"];
        assert_eq!(nearest("quinn", &names), Some("quic-quinn"));
        assert_eq!(nearest("noq", &names), Some("quic-noq"));
        assert_eq!(nearest("tls", &names), Some("tcp-tls"));
        assert_eq!(nearest("carrier-pigeon", &names), None);
    }

    #[test]
    fn capitals_are_no_difference() {
        assert_eq!(nearest("BBR", &["cubic", "bbr"]), Some("bbr"));
        assert_eq!(nearest("Cubic", &["cubic", "bbr"]), Some("cubic"));
    }
}
