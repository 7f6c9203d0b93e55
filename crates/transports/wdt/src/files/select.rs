//! Choice of the files to send below a directory.

use std::path::Path;

use glob::{MatchOptions, Pattern};

use crate::path::{RelativePath, UnsafePath};

/// A shell pattern for names or paths: `*`, `?`, `[…]`, and `**` for any number of directories.
///
/// A pattern without `/` is for names, at any depth; one with `/` for paths relative to the
/// directory that is sent. A pattern that matches a directory matches everything below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    pattern: Pattern,
    of_paths: bool,
}

impl Glob {
    /// Parses a pattern.
    ///
    /// # Errors
    /// Description of the fault in the pattern.
    pub fn new(pattern: &str) -> Result<Self, String> {
        let relative = pattern.trim_start_matches('/').trim_end_matches('/');
        if relative.is_empty() {
            return Err("the pattern is empty".to_owned());
        }
        Ok(Self {
            pattern: Pattern::new(relative).map_err(|error| error.to_string())?,
            of_paths: pattern.trim_end_matches('/').contains('/'),
        })
    }

    /// Whether the pattern matches `path` or one of its parent directories.
    fn matches(&self, path: &Path) -> bool {
        const OPTIONS: MatchOptions = MatchOptions {
            case_sensitive: true,
            require_literal_separator: true,
            require_literal_leading_dot: false,
        };
        path.ancestors().any(|at| {
            let text = match self.of_paths {
                true => at.as_os_str(),
                false => at.file_name().unwrap_or_default(),
            };
            !text.is_empty() && self.pattern.matches_with(&text.to_string_lossy(), OPTIONS)
        })
    }
}

/// Choice of the files to send; all of them by default.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Patterns of which a file must match one, unless there are none.
    pub include: Vec<Glob>,
    /// Patterns of files that are not sent, and of directories that are not entered.
    pub exclude: Vec<Glob>,
    /// Whether symbolic links are followed, also out of the directory.
    pub follow_links: bool,
    /// Files to send instead of a search of the directory.
    pub manifest: Option<Vec<Listed>>,
}

impl Selection {
    pub(super) fn excludes(&self, path: &Path) -> bool {
        self.exclude.iter().any(|glob| glob.matches(path))
    }

    pub(super) fn includes(&self, path: &Path) -> bool {
        self.include.is_empty() || self.include.iter().any(|glob| glob.matches(path))
    }
}

/// A file of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Path below the directory that is sent.
    pub path: RelativePath,
    /// Number of bytes to send from the start of the file; `None` for all of it.
    pub size_bytes: Option<u64>,
}

/// Error in a line of a manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the manifest, `{text}`: {what}")]
pub struct ManifestError {
    /// Line number, from 1.
    pub line: usize,
    /// Text of the line.
    pub text: String,
    /// Description of the fault.
    pub what: String,
}

/// Parses a manifest in the reference's format: one path per line, optionally followed by a tab and
/// the number of bytes to send. Empty lines are skipped.
///
/// # Errors
/// The first line that is not valid.
pub fn read_manifest(text: &[u8]) -> Result<Vec<Listed>, ManifestError> {
    let mut listed = Vec::new();
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        let failed = |what: String| ManifestError {
            line: index + 1,
            text: String::from_utf8_lossy(line).into_owned(),
            what,
        };
        let mut fields = line.splitn(2, |byte| *byte == b'\t');
        let path = RelativePath::normalised(fields.next().unwrap_or_default())
            .map_err(|why: UnsafePath| failed(why.to_string()))?;
        let size = fields.next().map(|size| {
            let digits = std::str::from_utf8(size).ok().map(str::trim);
            let size = digits.and_then(|digits| digits.parse().ok());
            size.ok_or_else(|| failed("what follows the tab is no number of bytes".to_owned()))
        });
        let size_bytes = size.transpose()?;
        listed.push(Listed { path, size_bytes });
    }
    Ok(listed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        Glob::new(pattern).unwrap().matches(Path::new(path))
    }

    #[test]
    fn patterns_match_names_paths_and_descendants() {
        for (pattern, path, expected) in [
            ("*.log", "a.log", true),
            ("*.log", "d/e/a.log", true),
            ("*.log", "d/a.log.1", false),
            ("*.log", "old.log/a", true),
            ("cache", "x/cache/y/z", true),
            ("cache/", "x/cache/y/z", true),
            ("d/*.log", "d/a.log", true),
            ("d/*.log", "x/d/a.log", false),
            ("d/*.log", "d/e/a.log", false),
            ("/d", "d/a", true),
            ("/d", "x/d", false),
            ("d/**/a", "d/e/f/a", true),
            ("**/d/a", "x/d/a", true),
            ("?", "a", true),
            ("[ab]", "c", false),
            ("*", ".hidden", true),
        ] {
            assert_eq!(matches(pattern, path), expected, "{pattern} {path}");
        }
        for bad in ["", "/", "a**b", "[a"] {
            assert!(Glob::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_manifest_is_read_line_by_line() {
        let path = |path: &str| RelativePath::new(path.as_bytes()).unwrap();
        let listed = |name: &str, size_bytes| Listed {
            path: path(name),
            size_bytes,
        };
        assert_eq!(
            read_manifest(b"./a//b\t12\n\nwith space\r\nlast").unwrap(),
            [
                listed("a/b", Some(12)),
                listed("with space", None),
                listed("last", None)
            ]
        );
        for (text, line, expected) in [
            ("a\n../b", 2, "`..`"),
            ("/a", 1, "absolute"),
            ("a\tmany", 1, "no number"),
            ("a\t-1", 1, "no number"),
        ] {
            let error = read_manifest(text.as_bytes()).unwrap_err();
            assert_eq!(error.line, line);
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
