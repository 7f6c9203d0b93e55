//! Russian: the table of messages, and units.

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
