//! A file or a directory tree that a sender reads.
//!
//! What is sent are files. Symbolic links are not followed, and pipes, sockets and devices are not
//! opened: they are left out, and who asks is told of each. Empty directories have no file and are
//! not sent. What cannot be read is an error before anything is sent, since a tree that arrives with
//! holes would look whole. Names are bytes and need not be UTF-8.

use std::{
    fmt, fs, io,
    os::unix::{ffi::OsStrExt, fs::FileExt},
    path::{Path, PathBuf},
};

use super::below::Below;
use crate::{
    path::{RelativePath, UnsafePath},
    source::{Source, SourceFile, SourceReader},
};

/// Files below a directory, or one file.
#[derive(Debug)]
pub struct TreeSource {
    root: Below,
    files: Vec<SourceFile>,
    /// Of one file: its own name, where it was given by a link's.
    real: Option<RelativePath>,
    left_out: Vec<LeftOut>,
}

/// Something that is not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Where it is.
    pub path: PathBuf,
    /// What it is, in words.
    pub what: &'static str,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is {}", self.path.display(), self.what)
    }
}

/// Why a tree cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// Something in it cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// What.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Neither a file nor a directory.
    #[error("`{}` is neither a file nor a directory", path.display())]
    Kind {
        /// What.
        path: PathBuf,
    },
    /// A name that no receiver would take.
    #[error("`{}` cannot be sent", path.display())]
    Path {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: UnsafePath,
    },
}

impl TreeSource {
    /// Looks at everything below a directory, or at one file, which is then sent by its name alone.
    /// The path itself may lead through symbolic links.
    ///
    /// # Errors
    /// The first thing that cannot be sent.
    pub fn new(path: &Path) -> Result<Self, TreeError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            |source| TreeError::Read { path, source }
        };
        let metadata = fs::metadata(path).map_err(failed(path))?;
        if metadata.is_dir() {
            let mut source = Self {
                root: Below::open(path).map_err(failed(path))?,
                files: Vec::new(),
                real: None,
                left_out: Vec::new(),
            };
            source.walk(path)?;
            return Ok(source);
        }
        let kind = || TreeError::Kind {
            path: path.to_owned(),
        };
        let name = path.file_name().filter(|_| metadata.is_file());
        let name = relative(Path::new(name.ok_or_else(kind)?))?;
        let whole = fs::canonicalize(path).map_err(failed(path))?;
        let parent = whole.parent().ok_or_else(kind)?;
        let real = relative(Path::new(whole.file_name().ok_or_else(kind)?))?;
        let source = Self {
            root: Below::open(parent).map_err(failed(path))?,
            files: vec![SourceFile {
                path: name,
                size_bytes: metadata.len(),
            }],
            real: Some(real.clone()),
            left_out: Vec::new(),
        };
        source.check(&real).map_err(failed(path))?;
        Ok(source)
    }

    /// What is not sent.
    #[must_use]
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    fn check(&self, path: &RelativePath) -> io::Result<()> {
        let (parent, name) = self.root.parent(path, false)?;
        parent.read(&name).map(drop)
    }

    fn walk(&mut self, root: &Path) -> Result<(), TreeError> {
        let mut directories = vec![PathBuf::new()];
        while let Some(directory) = directories.pop() {
            let shown = root.join(&directory);
            let failed = |source| TreeError::Read {
                path: shown.clone(),
                source,
            };
            let mut entries = fs::read_dir(&shown)
                .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                .map_err(failed)?;
            entries.sort_by_key(fs::DirEntry::file_name);
            for entry in entries {
                let path = directory.join(entry.file_name());
                let failed = |source| TreeError::Read {
                    path: root.join(&path),
                    source,
                };
                // Of the link itself, where it is one.
                let metadata = entry.metadata().map_err(failed)?;
                let kind = metadata.file_type();
                if kind.is_dir() {
                    directories.push(path);
                } else if kind.is_file() {
                    let relative = relative(&path)?;
                    self.check(&relative).map_err(failed)?;
                    self.files.push(SourceFile {
                        path: relative,
                        size_bytes: metadata.len(),
                    });
                } else {
                    let what = match kind.is_symlink() {
                        true => "a symbolic link",
                        false => "a pipe, a socket or a device",
                    };
                    let path = root.join(path);
                    self.left_out.push(LeftOut { path, what });
                }
            }
        }
        Ok(())
    }
}

fn relative(path: &Path) -> Result<RelativePath, TreeError> {
    RelativePath::new(path.as_os_str().as_bytes()).map_err(|source| TreeError::Path {
        path: path.to_owned(),
        source,
    })
}

impl Source for TreeSource {
    type Reader = TreeReader;

    fn files(&self) -> &[SourceFile] {
        &self.files
    }

    fn open(&self, file: usize) -> io::Result<TreeReader> {
        let path = self.real.as_ref().unwrap_or(&self.files[file].path);
        let (parent, name) = self.root.parent(path, false)?;
        parent.read(&name).map(TreeReader)
    }
}

/// An open file of a [`TreeSource`].
#[derive(Debug)]
pub struct TreeReader(fs::File);

impl SourceReader for TreeReader {
    fn read<'a>(
        &'a mut self,
        offset: u64,
        max: usize,
        scratch: &'a mut [u8],
    ) -> io::Result<&'a [u8]> {
        let length = scratch.len().min(max);
        let place = &mut scratch[..length];
        loop {
            match self.0.read_at(place, offset) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => return Ok(&place[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
