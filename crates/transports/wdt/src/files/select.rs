//! Which files below a directory are sent.

use std::path::Path;

use glob::{MatchOptions, Pattern};

use crate::path::{RelativePath, UnsafePath};

/// A shell pattern for names or paths: `*`, `?`, `[…]`, and `**` for any number of directories.
///
/// Without `/` it is for names, at any depth; with one, for paths from the directory that is sent. What
/// matches a directory matches everything below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    pattern: Pattern,
    of_paths: bool,
}

impl Glob {
    /// Reads a pattern.
    ///
    /// # Errors
    /// What is wrong with it, in words.
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

    /// Whether it matches the path, or a directory that leads to it.
    fn matches(&self, path: &Path) -> bool {
        const OPTIONS: MatchOptions = MatchOptions {
            case_sensitive: true,
            require_literal_separator: true,
            require_literal_leading_dot: false,
        };
        path.ancestors().any(|at| {
            let text = if self.of_paths {
                at.as_os_str()
            } else {
                at.file_name().unwrap_or_default()
            };
            !text.is_empty() && self.pattern.matches_with(&text.to_string_lossy(), OPTIONS)
        })
    }
}

/// Which files are sent; all of them by default.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Where there are some, only what matches one of them.
    pub include: Vec<Glob>,
    /// What matches one of these is not sent, and directories that do are not entered.
    pub exclude: Vec<Glob>,
    /// Symbolic links are followed, also out of the directory.
    pub follow_links: bool,
    /// These files alone, which are looked for nowhere else.
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
    /// Below the directory that is sent.
    pub path: RelativePath,
    /// How many bytes of it are sent; all that it has, if that is not said.
    pub size_bytes: Option<u64>,
}

/// Why a manifest is no good.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the manifest, `{text}`: {what}")]
pub struct ManifestError {
    /// Which line, from 1.
    pub line: usize,
    /// What it says.
    pub text: String,
    /// What is wrong with it.
    pub what: String,
}

/// Reads a manifest as the reference has it: one path in each line, and behind a tab, if it is given, how
/// many bytes of it are sent. Empty lines are left out.
///
/// # Errors
/// The first line that is no good.
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
            digits.and_then(|digits| digits.parse().ok())
        });
        let size_bytes = match size {
            Some(None) => {
                return Err(failed(
                    "what follows the tab is no number of bytes".to_owned(),
                ));
            }
            size => size.flatten(),
        };
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
    fn patterns_are_for_names_or_for_paths_and_for_what_lies_below() {
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
        for (text, line, says) in [
            ("a\n../b", 2, "`..`"),
            ("/a", 1, "absolute"),
            ("a\tmany", 1, "no number"),
            ("a\t-1", 1, "no number"),
        ] {
            let error = read_manifest(text.as_bytes()).unwrap_err();
            assert_eq!(error.line, line);
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
