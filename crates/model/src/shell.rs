//! Paths in commands that a user may type again.

use std::path::Path;

/// A path as a POSIX shell and this program's options read it back: quoted where it needs to be,
/// and with `./` in front of a leading `-`, which would be read as an option.
///
/// Control characters are shown as U+FFFD, because terminals obey them; such a path, and one that
/// is not UTF-8, cannot be typed from what is shown.
#[must_use]
pub fn quoted(path: &Path) -> String {
    let shown = path.to_string_lossy();
    let text: String = shown
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
    let text = if text.starts_with('-') {
        format!("./{text}")
    } else {
        text
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_back_what_is_shown() {
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
}
