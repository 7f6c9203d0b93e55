//! Text in the character set of the user's locale.

use std::{borrow::Cow, ffi::OsString, sync::LazyLock};

static IS_UTF8: LazyLock<bool> = LazyLock::new(|| names_utf8(|name| std::env::var_os(name)));

/// Whether the terminal, or any other reader of standard output and standard error, takes UTF-8.
pub fn is_utf8() -> bool {
    *IS_UTF8
}

/// Converts text to the locale's character set: unchanged for UTF-8, to ASCII for any other.
pub fn encoded(text: &str) -> Cow<'_, str> {
    if is_utf8() || text.is_ascii() {
        text.into()
    } else {
        ascii(text).into()
    }
}

/// Whether the character set of the locale that these environment variables choose is UTF-8: the first
/// of them that is set and not empty counts, and without any the locale is `C`, which has ASCII.
///
/// Source: POSIX.1-2024, Base Definitions, 8.2.
fn names_utf8(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .filter_map(variable)
        .find(|value| !value.is_empty());
    let name = locale.unwrap_or_default().to_string_lossy().to_lowercase();
    name.contains("utf-8") || name.contains("utf8")
}

/// Converts text to ASCII. A character that becomes several takes the place of the spaces after it
/// if there are two or more, so that columns stay aligned.
fn ascii(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut wider = 0_usize;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\n' => wider = 0,
            ' ' if wider > 0 && characters.peek() == Some(&' ') => {
                wider -= 1;
                continue;
            }
            _ => {}
        }
        let before = plain.len();
        match in_ascii(character) {
            Some(same) => plain.push_str(same),
            None if character.is_ascii() => plain.push(character),
            None => plain.extend(character.escape_unicode()),
        }
        wider += plain.len() - before - 1;
    }
    plain
}

/// Returns the usual ASCII form of a character that is not ASCII.
fn in_ascii(character: char) -> Option<&'static str> {
    Some(match character {
        '–' | '—' | '−' | '─' | '·' => "-",
        '│' | '├' | '└' | '┴' => "|",
        '…' => "...",
        '±' => "+-",
        '×' => "x",
        '≤' => "<=",
        '≥' => ">=",
        '≠' => "!=",
        '▶' => ">",
        '§' => "section ",
        'µ' | 'μ' => "u",
        '²' => "^2",
        '✓' => "ok",
        '✗' => "no",
        '‘' | '’' => "'",
        '“' | '”' => "\"",
        '\u{a0}' | '\u{202f}' => " ",
        char::REPLACEMENT_CHARACTER => "?",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_set_variable_selects_the_character_set() {
        let utf8 = |set: &[(&str, &str)]| {
            names_utf8(|name| {
                let found = set.iter().find(|(set, _)| *set == name);
                found.map(|(_, value)| OsString::from(value))
            })
        };
        assert!(utf8(&[("LANG", "de_DE.UTF-8")]));
        assert!(utf8(&[("LC_ALL", ""), ("LC_CTYPE", "C.utf8")]));
        assert!(!utf8(&[("LC_ALL", "C"), ("LANG", "de_DE.UTF-8")]));
        assert!(!utf8(&[("LANG", "de_DE.ISO-8859-1")]));
        assert!(!utf8(&[]));
    }

    #[test]
    fn columns_keep_their_positions() {
        let table = "name    goodput   loss\ntcp     94 ± 1    0 %\nß…";
        let plain = "name    goodput   loss\ntcp     94 +- 1   0 %\n\\u{df}...";
        assert_eq!(ascii(table), plain);
    }

    #[test]
    fn output_is_ascii_only() {
        let all: String = ('\u{80}'..='\u{2fff}').collect();
        assert!(ascii(&all).is_ascii());
    }
}
