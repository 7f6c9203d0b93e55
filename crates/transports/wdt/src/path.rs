//! Relative paths as they go over the wire, refused where they could lead out of a directory.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The longest path that is sent or accepted, in bytes; the longest that Linux opens at once.
pub const MAX_PATH_BYTES: usize = 4095;
/// The longest name of one file or directory, in bytes.
pub const MAX_NAME_BYTES: usize = 255;

/// A path below the directory of a transfer: none of its names is empty, `.`, `..`, too long or
/// holds a zero byte, so that the path neither begins nor ends with `/` and cannot climb.
///
/// The caller that opens the path must make sure that no directory on its way is a symbolic link elsewhere.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RelativePath(Box<[u8]>);

/// Reason why a path is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each is what its message says")]
pub enum UnsafePath {
    #[error("the path is empty")]
    Empty,
    #[error("the path is longer than {MAX_PATH_BYTES} bytes")]
    TooLong,
    #[error("the path is absolute")]
    Absolute,
    #[error("a name in the path is empty")]
    EmptyName,
    #[error("a name in the path is longer than {MAX_NAME_BYTES} bytes")]
    NameTooLong,
    #[error("the path holds the name `.` or `..`")]
    Climbs,
    #[error("the path holds a zero byte")]
    ZeroByte,
}

impl RelativePath {
    /// Checks a path, by its names alone.
    ///
    /// # Errors
    /// [`UnsafePath`] for a path that is not safe.
    pub fn new(path: &[u8]) -> Result<Self, UnsafePath> {
        match path {
            [] => return Err(UnsafePath::Empty),
            _ if path.len() > MAX_PATH_BYTES => return Err(UnsafePath::TooLong),
            [b'/', ..] => return Err(UnsafePath::Absolute),
            _ if path.contains(&0) => return Err(UnsafePath::ZeroByte),
            _ => {}
        }
        for name in path.split(|byte| *byte == b'/') {
            match name {
                [] => return Err(UnsafePath::EmptyName),
                b"." | b".." => return Err(UnsafePath::Climbs),
                _ if name.len() > MAX_NAME_BYTES => return Err(UnsafePath::NameTooLong),
                _ => {}
            }
        }
        Ok(Self(path.into()))
    }

    /// Checks a path after removing names that are empty or `.`, as the file system would. The
    /// reference accepts such paths from a sender and creates them as they are.
    ///
    /// # Errors
    /// [`UnsafePath`] for one that is not safe: with a trailing `/`, for example.
    pub fn normalised(path: &[u8]) -> Result<Self, UnsafePath> {
        match path {
            [b'/', ..] => return Err(UnsafePath::Absolute),
            [.., b'/'] => return Err(UnsafePath::EmptyName),
            _ => {}
        }
        let names = path.split(|byte| *byte == b'/');
        let names: Vec<_> = names
            .filter(|name| !name.is_empty() && *name != b".")
            .collect();
        Self::new(&names.join(&b'/'))
    }

    /// Returns the directories on the way to the path, the outermost first.
    pub fn parents(&self) -> impl Iterator<Item = Self> + '_ {
        let ends = self.0.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        ends.map(|(end, _)| Self(self.0[..end].into()))
    }

    /// Returns the path's bytes, names separated by `/`.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the path for calls to the file system.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }
}

impl fmt::Display for RelativePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_path().display())
    }
}

impl fmt::Debug for RelativePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_below_the_root_are_accepted() {
        for good in ["a", "a/b", "größe/☃", "...", ".hidden", "a..b/c", " "] {
            assert_eq!(
                RelativePath::new(good.as_bytes()).unwrap().as_path(),
                Path::new(good)
            );
        }
        let long_name = "n".repeat(256);
        let long_path = "a/".repeat(2048) + "a";
        for (bad, why) in [
            ("", UnsafePath::Empty),
            ("/etc/passwd", UnsafePath::Absolute),
            ("..", UnsafePath::Climbs),
            ("a/../../b", UnsafePath::Climbs),
            ("./a", UnsafePath::Climbs),
            ("a//b", UnsafePath::EmptyName),
            ("a/", UnsafePath::EmptyName),
            ("a\0b", UnsafePath::ZeroByte),
            (&long_name, UnsafePath::NameTooLong),
            (&long_path, UnsafePath::TooLong),
        ] {
            assert_eq!(RelativePath::new(bad.as_bytes()), Err(why), "{bad:?}");
        }
    }

    #[test]
    fn empty_and_dot_components_are_removed() {
        for (input, normal) in [
            ("./x", "x"),
            ("a//b", "a/b"),
            ("././a/.//.///b", "a/b"),
            ("a/./b/.", "a/b"),
            ("...", "..."),
        ] {
            let taken = RelativePath::normalised(input.as_bytes()).unwrap();
            assert_eq!(taken.as_path(), Path::new(normal), "{input:?}");
        }
        for (bad, why) in [
            ("", UnsafePath::Empty),
            (".", UnsafePath::Empty),
            ("//a", UnsafePath::Absolute),
            ("a/", UnsafePath::EmptyName),
            ("./", UnsafePath::EmptyName),
            ("./../a", UnsafePath::Climbs),
            ("a/.//..", UnsafePath::Climbs),
        ] {
            assert_eq!(
                RelativePath::normalised(bad.as_bytes()),
                Err(why),
                "{bad:?}"
            );
        }
        let parents: Vec<_> = RelativePath::new(b"a/b/c").unwrap().parents().collect();
        assert_eq!(
            parents
                .iter()
                .map(RelativePath::as_bytes)
                .collect::<Vec<_>>(),
            [&b"a"[..], b"a/b"]
        );
    }
}
