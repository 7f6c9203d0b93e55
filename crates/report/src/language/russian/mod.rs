//! Russian: the tables of messages, units, and the parts of sentences of a run.

mod figures;
mod network;
mod report;
mod tables;
mod verdict;
mod warnings;
mod work;

/// English text, and its forms in Russian: one, or those for 1, 2 and 5.
pub type Message = (&'static str, &'static [&'static str]);

/// Name of a metric, its title and its definition in Russian.
pub type Metric = (&'static str, &'static str, &'static str);

/// All tables of messages.
pub const TABLES: &[&[Message]] = &[
    report::MESSAGES,
    verdict::MESSAGES,
    tables::MESSAGES,
    figures::MESSAGES,
    warnings::MESSAGES,
];

/// All tables of metrics.
pub const METRICS: &[&[Metric]] = &[work::METRICS, network::METRICS];

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

/// Whether a table has a message, also while compiling.
pub const fn is_known(english: &str) -> bool {
    let mut table = 0;
    while table < TABLES.len() {
        let mut row = 0;
        while row < TABLES[table].len() {
            if is_same(TABLES[table][row].0.as_bytes(), english.as_bytes()) {
                return true;
            }
            row += 1;
        }
        table += 1;
    }
    false
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// Splits a sentence into a pattern and its arguments in Russian: quantities with their units, and words in backticks.
pub fn parts(sentence: &str) -> (String, Vec<String>) {
    let mut pattern = String::new();
    let mut arguments = Vec::new();
    for (position, part) in sentence.split('`').enumerate() {
        if position % 2 == 1 {
            pattern.push_str("{}");
            arguments.push(format!("`{part}`"));
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
            pattern.push_str("{}");
            arguments.push(number.replace('.', ",") + &unit);
        }
        pattern.push_str(rest);
    }
    (pattern, arguments)
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
