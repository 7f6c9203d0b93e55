//! Russian: the table of messages, units, and the parts of sentences of a run.

/// Entry of the table: its context, an English text, and its forms in Russian: one, or those for 1, 2 and 5. With the
/// context `title` or `definition` the text is the name of the metric that has them.
pub type Message = (&'static str, &'static str, &'static [&'static str]);

/// Table of messages, which `build.rs` makes of the `.po` files beside this one; those of metrics stand last.
pub const MESSAGES: &[Message] = include!(concat!(env!("OUT_DIR"), "/russian.rs"));

/// Units of quantities in sentences.
const UNITS: [(&str, &str); 19] = [
    ("ns/B", "нс/Б"),
    ("ns", "нс"),
    ("µs", "мкс"),
    ("ms", "мс"),
    ("s", "с"),
    ("min", "мин"),
    ("h", "ч"),
    ("d", "сут"),
    ("bit/s", "бит/с"),
    ("kbit/s", "кбит/с"),
    ("Mbit/s", "Мбит/с"),
    ("Gbit/s", "Гбит/с"),
    ("B", "Б"),
    ("kB", "кБ"),
    ("MB", "МБ"),
    ("GB", "ГБ"),
    ("TB", "ТБ"),
    ("% of a core", "% ядра"),
    ("thousands", "тыс."),
];

/// Returns the symbol of a unit.
pub fn unit(symbol: &str) -> Option<&'static str> {
    let mut units = UNITS.iter();
    let found = units.find(|(english, russian)| [*english, *russian].contains(&symbol));
    found.map(|(_, russian)| *russian)
}

/// Returns a quantity, such as `1.5 ms` or `2 min 5 s`.
pub fn quantity(english: &str) -> String {
    let words = english.split(' ');
    let number = |word: &str| match word.parse::<f64>() {
        Ok(_) => word.replace('.', ","),
        Err(_) => word.to_owned(),
    };
    let words = words.map(|word| unit(word).map_or_else(|| number(word), str::to_owned));
    words.collect::<Vec<String>>().join(" ")
}

/// Units of the two quantities of a time span such as `2 min 5 s`.
const TWO_UNITS: [[&str; 2]; 3] = [[" сут", " ч"], [" ч", " мин"], [" мин", " с"]];

/// Splits a sentence into a pattern and its arguments in Russian: quantities with their units, and words in backticks.
/// A time span in two units and a list of words in backticks with commas are one argument each.
pub fn parts(sentence: &str) -> (String, Vec<String>) {
    let mut pattern = String::new();
    let mut arguments: Vec<String> = Vec::new();
    for (position, part) in sentence.split('`').enumerate() {
        if position % 2 == 1 {
            let word = format!("`{part}`");
            match arguments.last_mut() {
                Some(list) if pattern.ends_with("{}, ") && list.ends_with('`') => {
                    pattern.truncate(pattern.len() - ", ".len());
                    list.push_str(", ");
                    list.push_str(&word);
                }
                _ => {
                    pattern.push_str("{}");
                    arguments.push(word);
                }
            }
            continue;
        }
        let mut rest = part;
        while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
            let within_word =
                rest[..start].ends_with(|c: char| c.is_alphanumeric() || "-_".contains(c));
            let length = rest[start..]
                .find(|c: char| !c.is_ascii_digit() && !".,".contains(c))
                .unwrap_or(rest.len() - start);
            let number = rest[start..start + length].trim_end_matches(['.', ',']);
            pattern.push_str(&rest[..start]);
            rest = &rest[start + number.len()..];
            if within_word {
                pattern.push_str(number);
                continue;
            }
            let (unit, after) = unit_after(rest);
            rest = after;
            // With several points it is a version.
            let quantity = match number.matches('.').count() {
                1 => number.replace('.', ",") + &unit,
                _ => number.to_owned() + &unit,
            };
            match arguments.last_mut() {
                Some(span) if pattern.ends_with("{} ") && is_continued(span.as_str(), &unit) => {
                    pattern.truncate(pattern.len() - " ".len());
                    span.push(' ');
                    span.push_str(&quantity);
                }
                _ => {
                    pattern.push_str("{}");
                    arguments.push(quantity);
                }
            }
        }
        pattern.push_str(rest);
    }
    (pattern, arguments)
}

/// Whether a quantity in `unit` is the smaller part of the time span that `larger` begins.
fn is_continued(larger: &str, unit: &str) -> bool {
    let mut pairs = TWO_UNITS.iter();
    pairs.any(|[first, second]| larger.ends_with(*first) && unit == *second)
}

/// Splits a sentence as [`parts`] does, with what stands in parentheses as one argument, in which `in_russian` replaces
/// the items of a list.
pub fn parts_beside_parentheses(
    sentence: &str,
    in_russian: impl Fn(&str) -> String,
) -> (String, Vec<String>) {
    let mut pattern = String::new();
    let mut arguments = Vec::new();
    let mut rest = sentence;
    while let Some((before, after)) = rest.split_once('(')
        && let Some((inner, after)) = after.split_once(')')
    {
        let (found, quantities) = parts(before);
        pattern.push_str(&found);
        pattern.push_str("({})");
        arguments.extend(quantities);
        let items: Vec<String> = inner.split(", ").map(&in_russian).collect();
        arguments.push(items.join(", "));
        rest = after;
    }
    let (found, quantities) = parts(rest);
    pattern.push_str(&found);
    arguments.extend(quantities);
    (pattern, arguments)
}

/// Splits a sentence at a separator outside of backticks and parentheses.
pub fn clauses<'a>(sentence: &'a str, separator: &str) -> Vec<&'a str> {
    let mut clauses = Vec::new();
    let mut start = 0;
    let mut depth = 0_usize;
    let mut is_quoted = false;
    for (at, character) in sentence.char_indices() {
        match character {
            '`' => is_quoted = !is_quoted,
            '(' if !is_quoted => depth += 1,
            ')' if !is_quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
        if !is_quoted && depth == 0 && sentence[at..].starts_with(separator) {
            clauses.push(&sentence[start..at]);
            start = at + separator.len();
        }
    }
    clauses.push(&sentence[start..]);
    clauses
}

/// Returns the unit at the beginning of a text, in Russian after its space, and the rest; an empty one if there is none.
fn unit_after(text: &str) -> (String, &str) {
    let Some(after) = text.strip_prefix(' ') else {
        return (String::new(), text);
    };
    let end = after
        .find(|c: char| !(c.is_alphabetic() || "/%".contains(c)))
        .unwrap_or(after.len());
    match &after[..end] {
        "%" => (" %".to_owned(), &after[end..]),
        symbol => match unit(symbol) {
            Some(unit) => (format!(" {unit}"), &after[end..]),
            None => (String::new(), text),
        },
    }
}
