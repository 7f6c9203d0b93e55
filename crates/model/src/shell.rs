//! Text that is safe for terminals, and paths quoted for commands that a user may type.

use std::path::Path;

/// Quotes a path for a POSIX shell and this program's options: with quotation marks where it needs
/// them, and with `./` in front of a leading `-`, which would be read as an option.
///
/// Characters that control a terminal are replaced by U+FFFD; such a path, and one that is not
/// UTF-8, cannot be typed as shown.
#[must_use]
pub fn quoted(path: &Path) -> String {
    let shown = path.to_string_lossy();
    let text = shown.replace(is_obeyed, "\u{fffd}");
    quoted_word(&match text.starts_with('-') {
        true => format!("./{text}"),
        false => text,
    })
}

/// Quotes a word of a command for a POSIX shell, with quotation marks where it needs them.
#[must_use]
pub fn quoted_word(word: &str) -> String {
    let text = word.replace(is_obeyed, "\u{fffd}");
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,=".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// Replaces characters that control a terminal by U+FFFD in text of several lines: control
/// characters other than line feed and tab, and the marks that change the direction of writing.
#[must_use]
pub fn printable(text: &str) -> String {
    text.replace(|c| is_obeyed(c) && !matches!(c, '\n' | '\t'), "\u{fffd}")
}

fn is_obeyed(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || turns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_for_the_shell() {
        let quoted = |text: &str| quoted(Path::new(text));
        assert_eq!(quoted("regatta-results/a_b+1"), "regatta-results/a_b+1");
        assert_eq!(quoted("j i"), "'j i'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted("$HOME"), "'$HOME'");
        assert_eq!(quoted("-dash"), "./-dash");
        assert_eq!(quoted("~"), "'~'");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("a\u{1b}[2J"), "'a\u{fffd}[2J'");
    }

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(printable("a\u{1b}[31m\tb\nc"), "a\u{fffd}[31m\tb\nc");
        assert_eq!(
            printable("\u{9b}2J\u{202e}\u{2066}ä"),
            "\u{fffd}2J\u{fffd}\u{fffd}ä"
        );
    }
}
