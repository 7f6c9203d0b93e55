//! Names in messages: lists, and the nearest of a mistyped one.

/// Shortest beginning of a name that stands for it.
const SHORTEST_BEGINNING: usize = 3;

/// Returns the one of `names` nearest to a mistyped `input`, if one is near, or the first that begins with it.
#[must_use]
pub fn nearest<'n>(input: &str, names: &[&'n str]) -> Option<&'n str> {
    let begins = |name: &&&str| input.len() >= SHORTEST_BEGINNING && name.starts_with(input);
    let length = input.chars().count();
    let distances = names
        .iter()
        .map(|name| (strsim::damerau_levenshtein(input, name), name));
    let near =
        distances.filter(|(distance, name)| *distance <= 1 + name.chars().count().max(length) / 4);
    let nearest = near
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name);
    nearest.or_else(|| names.iter().find(begins)).copied()
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
