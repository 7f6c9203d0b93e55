//! A directory that a receiver puts files into.
//!
//! A file has another name, `.wdt-NUMBER-NUMBER.part` beside its place, until every byte of it is
//! there and written to the disk; then it gets its own name in one step. So a file under its own
//! name is whole, whatever broke when. What is unfinished is removed with the sink; after a crash it
//! can be told by its name.

use std::{
    collections::HashMap,
    ffi::CString,
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{
    below::{Below, reserve},
    ranges::Ranges,
};
use crate::{
    path::RelativePath,
    sink::{IncomingBlock, Sink, SinkWriter},
};

/// How files are put into a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryOptions {
    /// Whether a file that is there already may be replaced.
    pub overwrite: bool,
    /// Whether a file is written to the disk before it gets its name.
    pub sync: bool,
}

impl Default for DirectoryOptions {
    fn default() -> Self {
        Self {
            overwrite: false,
            sync: true,
        }
    }
}

/// Puts files into a directory.
#[derive(Debug)]
pub struct DirectorySink(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    root: Below,
    options: DirectoryOptions,
    /// Tells unfinished files of this sink from those of others.
    mark: u32,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By the sender's number.
    files: HashMap<u64, Entry>,
    /// Which number has a path.
    paths: HashMap<RelativePath, u64>,
    whole: u64,
}

#[derive(Debug)]
struct Entry {
    path: RelativePath,
    size: u64,
    /// None once it has its name.
    unfinished: Option<Unfinished>,
}

/// A file that has not got its name yet.
#[derive(Debug)]
struct Unfinished {
    file: Arc<File>,
    parent: Below,
    temporary: CString,
    name: CString,
    ranges: Ranges,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the file of a block that is the first one of it.
    fn make(&self, block: &IncomingBlock) -> io::Result<Unfinished> {
        let (parent, name) = self.root.parent(&block.path, true)?;
        if !self.options.overwrite && parent.has(&name)? {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let temporary = format!(".wdt-{:08x}-{}.part", self.mark, block.sequence);
        let temporary = CString::new(temporary).map_err(io::Error::other)?;
        let file = parent.make(&temporary)?;
        let made = Unfinished {
            file: Arc::new(file),
            parent,
            temporary,
            name,
            ranges: Ranges::default(),
        };
        if let Err(error) = reserve(&made.file, block.file_size_bytes) {
            made.remove();
            return Err(error);
        }
        Ok(made)
    }
}

impl Unfinished {
    fn remove(&self) {
        // It may be gone; there is nobody left to tell.
        let _ = self.parent.remove(&self.temporary);
    }

    fn finish(&self, options: DirectoryOptions) -> io::Result<()> {
        if options.sync {
            self.file.sync_data()?;
        }
        self.parent
            .rename(&self.temporary, &self.name, options.overwrite)
    }
}

/// An error with the file's path, and what to do where that is known.
fn about(path: &RelativePath, error: &io::Error) -> io::Error {
    let kind = error.kind();
    io::Error::new(
        kind,
        match kind {
            io::ErrorKind::AlreadyExists => {
                format!("`{path}` exists; receive with `--overwrite` to replace it")
            }
            _ => format!("cannot write `{path}`: {error}"),
        },
    )
}

impl DirectorySink {
    /// A sink that puts files into a directory, which is made if it is not there.
    ///
    /// # Errors
    /// Why it cannot be made, or written into.
    pub fn new(directory: &Path, options: DirectoryOptions) -> io::Result<Self> {
        std::fs::create_dir_all(directory)?;
        let shared = Shared {
            root: Below::open(directory)?,
            options,
            mark: mark(),
            state: Mutex::default(),
        };
        // Better known now than when the sender waits.
        let probe = CString::new(format!(".wdt-{:08x}.part", shared.mark))?;
        shared.root.make(&probe)?;
        shared.root.remove(&probe)?;
        Ok(Self(Arc::new(shared)))
    }

    /// How many files are there whole, under their own names.
    #[must_use]
    pub fn whole_files(&self) -> u64 {
        self.0.lock().whole
    }
}

/// A number that two sinks hardly share.
fn mark() -> u32 {
    use std::hash::{BuildHasher as _, Hasher as _};
    let random = std::collections::hash_map::RandomState::new();
    random.build_hasher().finish() as u32 ^ std::process::id()
}

impl Sink for DirectorySink {
    type Writer = DirectoryWriter;

    fn begin(&self, block: &IncomingBlock) -> io::Result<DirectoryWriter> {
        let mut guard = self.0.lock();
        let state = &mut *guard;
        let sequence = block.sequence;
        match state.paths.get(&block.path) {
            Some(known) if *known != sequence => {
                return Err(io::Error::other(format!(
                    "`{}` was sent as two files",
                    block.path
                )));
            }
            Some(_) => {}
            None => {
                if state.files.contains_key(&sequence) {
                    return Err(io::Error::other(format!(
                        "`{}` has the number of another file",
                        block.path
                    )));
                }
                let made = self
                    .0
                    .make(block)
                    .map_err(|error| about(&block.path, &error))?;
                state.paths.insert(block.path.clone(), sequence);
                let entry = Entry {
                    path: block.path.clone(),
                    size: block.file_size_bytes,
                    unfinished: Some(made),
                };
                state.files.insert(sequence, entry);
            }
        }
        let Some(entry) = state.files.get_mut(&sequence) else {
            return Err(io::Error::other("a file was forgotten"));
        };
        if entry.size != block.file_size_bytes {
            return Err(io::Error::other(format!(
                "`{}` was sent with two sizes",
                block.path
            )));
        }
        // A block that comes again after its file was whole is the same once more.
        let file = entry.unfinished.as_mut().map(|unfinished| {
            unfinished.ranges.begin(block.offset);
            Arc::clone(&unfinished.file)
        });
        Ok(DirectoryWriter {
            shared: Arc::clone(&self.0),
            sequence,
            start: block.offset,
            at: block.offset,
            end: block.offset.saturating_add(block.length),
            file,
            finished: false,
        })
    }
}

/// Writes one block into a file of a [`DirectorySink`].
#[derive(Debug)]
pub struct DirectoryWriter {
    shared: Arc<Shared>,
    sequence: u64,
    start: u64,
    at: u64,
    end: u64,
    file: Option<Arc<File>>,
    finished: bool,
}

impl SinkWriter for DirectoryWriter {
    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        let end = offset.checked_add(data.len() as u64);
        if offset != self.at || end.is_none_or(|end| end > self.end) {
            return Err(io::Error::other("a block was not written front to back"));
        }
        if let Some(file) = &self.file
            && let Err(error) = file.write_all_at(data, offset)
        {
            let state = self.shared.lock();
            return Err(match state.files.get(&self.sequence) {
                Some(entry) => about(&entry.path, &error),
                None => error,
            });
        }
        self.at += data.len() as u64;
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.finished = true;
        self.file = None;
        let mut guard = self.shared.lock();
        let state = &mut *guard;
        let Some(entry) = state.files.get_mut(&self.sequence) else {
            return Ok(());
        };
        let Some(unfinished) = &mut entry.unfinished else {
            return Ok(());
        };
        unfinished.ranges.add(self.start, self.at);
        if !unfinished.ranges.are_all_of(entry.size) {
            return Ok(());
        }
        let (path, options) = (entry.path.clone(), self.shared.options);
        let Some(unfinished) = entry.unfinished.take() else {
            return Ok(());
        };
        // Writing to the disk takes time, in which other files go on.
        drop(guard);
        let finished = unfinished.finish(options);
        if finished.is_err() {
            unfinished.remove();
        }
        finished.map_err(|error| about(&path, &error))?;
        self.shared.lock().whole += 1;
        Ok(())
    }
}

impl Drop for DirectoryWriter {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let mut state = self.shared.lock();
        let entry = state.files.get_mut(&self.sequence);
        if let Some(unfinished) = entry.and_then(|entry| entry.unfinished.as_mut()) {
            unfinished.ranges.cut(self.start, self.at);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        for entry in state.files.values() {
            if let Some(unfinished) = &entry.unfinished {
                unfinished.remove();
            }
        }
    }
}
