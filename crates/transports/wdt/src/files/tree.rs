//! A file or a directory tree that a sender reads.
//!
//! Only regular files are sent. Symbolic links are not followed unless the options have that, and
//! pipes, sockets and devices are not opened; [`TreeSource::left_out()`] lists them. Empty
//! directories have no file and are not sent. A file that cannot be read is an error before
//! anything is sent, since a tree that arrives with holes would look whole. Names are bytes and
//! need not be UTF-8.

use std::{
    collections::HashSet,
    ffi::CString,
    fmt, fs, io,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileExt, MetadataExt},
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;

use super::{
    directory_handle::DirectoryHandle,
    parents::Parents,
    select::{Listed, Selection},
};
use crate::{
    path::{RelativePath, UnsafePath},
    source::{Source, SourceFile, SourceReader},
};

/// Files below a directory, or one file.
#[derive(Debug)]
pub struct TreeSource {
    root: Arc<DirectoryHandle>,
    parents: Mutex<Parents>,
    files: Vec<SourceFile>,
    /// State of each file when it was listed; absent for one of which a manifest names the number of
    /// bytes, as it may grow.
    listed: Vec<Option<FileState>>,
    /// For a single file: its real name, as the given one may be that of a symbolic link.
    real: Option<RelativePath>,
    /// Whether symbolic links below the directory are followed.
    follows: bool,
    left_out: Vec<LeftOut>,
}

/// Size of a file and time of its content's last change, by which a change is noticed.
type FileState = (u64, i64, i64);

fn state(metadata: &fs::Metadata) -> FileState {
    (metadata.len(), metadata.mtime(), metadata.mtime_nsec())
}

/// Something that is not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Path of the entry.
    pub path: PathBuf,
    /// Kind of the entry, for users.
    pub what: &'static str,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is {}", self.path.display(), self.what)
    }
}

/// Reason why a tree cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// A file or directory that cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// Its path.
        path: PathBuf,
        /// Error of the system call.
        source: io::Error,
    },
    /// Neither a file nor a directory.
    #[error("`{}` is neither a file nor a directory", path.display())]
    Kind {
        /// Its path.
        path: PathBuf,
    },
    /// A name that no receiver accepts.
    #[error("`{}` cannot be sent", path.display())]
    Path {
        /// Its path.
        path: PathBuf,
        /// Reason for the refusal.
        source: UnsafePath,
    },
}

impl TreeSource {
    /// Scans the chosen files below a directory, or one file, which is then sent by its name alone.
    /// The path itself may lead through symbolic links.
    ///
    /// # Errors
    /// The first entry that cannot be sent.
    pub fn selected(path: &Path, selection: &Selection) -> Result<Self, TreeError> {
        let metadata = fs::metadata(path).map_err(unreadable(path))?;
        let below = |directory: &Path| {
            let root = DirectoryHandle::open(directory).map_err(unreadable(path))?;
            let root = Arc::new(root);
            Ok(Self {
                parents: Mutex::new(Parents::new(&root)),
                root,
                files: Vec::new(),
                listed: Vec::new(),
                real: None,
                follows: selection.follow_links && metadata.is_dir(),
                left_out: Vec::new(),
            })
        };
        if metadata.is_dir() {
            let mut source = below(path)?;
            match &selection.manifest {
                Some(listed) => source.list(path, listed)?,
                None => source.walk(path, selection)?,
            }
            return Ok(source);
        }
        let kind = || TreeError::Kind {
            path: path.to_owned(),
        };
        let name = path.file_name().filter(|_| metadata.is_file());
        let name = relative(Path::new(name.ok_or_else(kind)?))?;
        let canonical = fs::canonicalize(path).map_err(unreadable(path))?;
        let parent = canonical.parent().ok_or_else(kind)?;
        let real = relative(Path::new(canonical.file_name().ok_or_else(kind)?))?;
        let mut source = below(parent)?;
        source.check(&real).map_err(unreadable(path))?;
        source.real = Some(real);
        source.add(name, metadata.len(), Some(state(&metadata)));
        Ok(source)
    }

    /// Returns the entries that are not sent.
    #[must_use]
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// Opens a file for reading.
    fn read(&self, path: &RelativePath) -> io::Result<fs::File> {
        if self.follows {
            return self.root.read_through_links(path);
        }
        let (parent, name) = self.parent(path)?;
        parent.read(&name)
    }

    /// Opens the directory of a file, and returns the file's name too.
    fn parent(&self, path: &RelativePath) -> io::Result<(Arc<DirectoryHandle>, CString)> {
        let there = self.parents.lock().of(path)?;
        there.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Checks that a regular file may be read.
    fn check(&self, path: &RelativePath) -> io::Result<()> {
        if self.follows {
            return self.read(path).map(drop);
        }
        let (parent, name) = self.parent(path)?;
        parent.check_readable(&name)
    }

    /// Adds the files of a manifest.
    fn list(&mut self, root: &Path, listed: &[Listed]) -> Result<(), TreeError> {
        let mut paths = HashSet::new();
        for Listed { path, size_bytes } in listed {
            let shown = root.join(path.as_path());
            let there = self.read(path).and_then(|file| file.metadata());
            let metadata = there.map_err(unreadable(&shown))?;
            let there = metadata.len();
            let size = size_bytes.unwrap_or(there);
            let wrong = if size > there {
                format!("the manifest says {size} bytes, and it has {there}")
            } else if !paths.insert(path) {
                "the manifest has it twice".to_owned()
            } else {
                let listed = size_bytes.is_none().then(|| state(&metadata));
                self.add(path.clone(), size, listed);
                continue;
            };
            return Err(unreadable(&shown)(io::Error::other(wrong)));
        }
        Ok(())
    }

    /// Adds a file of this size, with its state if a change of it is noticed.
    fn add(&mut self, path: RelativePath, size_bytes: u64, listed: Option<FileState>) {
        self.files.push(SourceFile { path, size_bytes });
        self.listed.push(listed);
    }

    fn walk(&mut self, root: &Path, selection: &Selection) -> Result<(), TreeError> {
        // With the directories that each lies in, which a link may lead back to.
        let mut directories = vec![(PathBuf::new(), Vec::new())];
        while let Some((directory, mut above)) = directories.pop() {
            let shown = root.join(&directory);
            let metadata = fs::metadata(&shown).map_err(unreadable(&shown))?;
            above.push(identity(&metadata));
            let mut entries = fs::read_dir(&shown)
                .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                .map_err(unreadable(&shown))?;
            entries.sort_by_key(fs::DirEntry::file_name);
            for entry in entries {
                let path = directory.join(entry.file_name());
                if selection.excludes(&path) {
                    continue;
                }
                let shown = root.join(&path);
                // Of the link itself, where it is one.
                let mut metadata = entry.metadata().map_err(unreadable(&shown))?;
                if metadata.is_symlink() && self.follows {
                    let target = self.target(&shown, &above);
                    match target.map_err(unreadable(&shown))? {
                        Some(target) => metadata = target,
                        None => continue,
                    }
                }
                if metadata.is_dir() {
                    directories.push((path, above.clone()));
                } else if selection.includes(&path) {
                    self.take(root, &path, &metadata)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the metadata of a symbolic link's target; `None` if the link is left out.
    fn target(&mut self, link: &Path, above: &[(u64, u64)]) -> io::Result<Option<fs::Metadata>> {
        let what = match fs::metadata(link) {
            Ok(target) if above.contains(&identity(&target)) => {
                "a symbolic link to a directory that it lies in"
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                "a symbolic link that leads nowhere"
            }
            target => return target.map(Some),
        };
        self.leave_out(link.to_owned(), what);
        Ok(None)
    }

    /// Adds a regular file; lists anything else as left out.
    fn take(&mut self, root: &Path, path: &Path, found: &fs::Metadata) -> Result<(), TreeError> {
        let shown = root.join(path);
        if !found.is_file() {
            let what = match found.is_symlink() {
                true => "a symbolic link",
                false => "a pipe, a socket or a device",
            };
            self.leave_out(shown, what);
            return Ok(());
        }
        let relative = relative(path)?;
        self.check(&relative).map_err(unreadable(&shown))?;
        self.add(relative, found.len(), Some(state(found)));
        Ok(())
    }

    fn leave_out(&mut self, path: PathBuf, what: &'static str) {
        self.left_out.push(LeftOut { path, what });
    }
}

/// Returns the device and inode number, which are equal for two names of one directory only.
fn identity(metadata: &fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Returns a conversion of errors of reading `path`.
fn unreadable(path: &Path) -> impl Fn(io::Error) -> TreeError {
    |source| TreeError::Read {
        path: path.to_owned(),
        source,
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
        Ok(TreeReader {
            file: self.read(path)?,
            listed: self.listed[file],
        })
    }
}

/// An open file of a [`TreeSource`].
#[derive(Debug)]
pub struct TreeReader {
    file: fs::File,
    listed: Option<FileState>,
}

impl SourceReader for TreeReader {
    fn read<'a>(
        &'a mut self,
        offset: u64,
        max: usize,
        scratch: &'a mut [u8],
    ) -> io::Result<&'a [u8]> {
        let length = scratch.len().min(max);
        let buffer = &mut scratch[..length];
        loop {
            match self.file.read_at(buffer, offset) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => return Ok(&buffer[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn check_unchanged(&self) -> io::Result<()> {
        match self.listed {
            Some(listed) if state(&self.file.metadata()?) != listed => {
                Err(io::Error::other("it was changed during the transfer"))
            }
            _ => Ok(()),
        }
    }
}
