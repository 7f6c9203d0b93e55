//! A directory that a receiver puts files into.
//!
//! Until the transfer is over, everything lies in a staging directory `.wdt-NUMBER.part` below the
//! target. [`DirectorySink::commit`] gives every file its own name, each in one step; only then,
//! since the last tag of an encrypted transfer comes after everything else. So a file under its own
//! name is whole and authentic whenever the transfer broke, and a transfer that failed can be tried
//! again. Unfinished files are removed with the sink; after a crash the directory can be recognised
//! by its name. Where a transfer may be resumed, it stays as `.wdt-resume.part` with a [`journal`]
//! of the data received from the sender.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    ffi::{CString, OsStr},
    fs::File,
    io,
    os::unix::{ffi::OsStrExt, fs::FileExt},
    path::Path,
    sync::Arc,
};

use parking_lot::Mutex;

use super::{
    directory_handle::{DirectoryHandle, if_there, reserve},
    journal::{self, staged},
    ranges::Ranges,
};
use crate::{
    codec::{FileChunks, FileHeader},
    path::RelativePath,
    sink::{Sink, SinkWriter},
};

/// Options of a [`DirectorySink`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryOptions {
    /// Whether existing files may be replaced.
    pub overwrite: bool,
    /// Whether a file is synchronised to disk before it counts as whole.
    pub sync: bool,
    /// Whether the files of a failed transfer are kept, and those of an earlier one resumed.
    pub resume: bool,
}

impl Default for DirectoryOptions {
    fn default() -> Self {
        Self {
            overwrite: false,
            sync: true,
            resume: false,
        }
    }
}

/// Sink that puts files into a directory.
#[derive(Clone, Debug)]
pub struct DirectorySink(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    root: DirectoryHandle,
    /// Directory of unfinished files, each named by its sequence id.
    staging: DirectoryHandle,
    staging_name: CString,
    options: DirectoryOptions,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Files by their sequence id.
    files: BTreeMap<u64, Entry>,
    /// Sequence ids by path.
    paths: HashMap<RelativePath, u64>,
    /// Directories that these paths lead through.
    directories: HashSet<RelativePath>,
}

#[derive(Debug)]
struct Entry {
    path: RelativePath,
    size: u64,
    ranges: Ranges,
    /// Ranges that were counted, and so can be resumed.
    counted: Ranges,
    /// Bytes held from an earlier transfer; `touched` is set once a block of this one has come.
    held: u64,
    touched: bool,
    /// The open file, as long as a part of it is missing.
    file: Option<Arc<File>>,
}

impl Entry {
    fn new(path: RelativePath, size: u64) -> Self {
        Self {
            path,
            size,
            ranges: Ranges::default(),
            counted: Ranges::default(),
            held: 0,
            touched: false,
            file: None,
        }
    }

    /// Whether this is a part left by an earlier transfer of a file that the sender no longer
    /// sends.
    fn was_dropped(&self) -> bool {
        self.held > 0 && !self.touched && !self.ranges.are_all_of(self.size)
    }
}

impl State {
    /// Adds a file that an earlier transfer left.
    fn hold(&mut self, file: FileChunks) {
        let mut entry = Entry::new(file.path, file.size);
        for (start, end) in file.chunks {
            entry.held += end - start;
            entry.ranges.add(start, end);
            entry.counted.add(start, end);
        }
        self.add(file.sequence, entry);
    }

    fn add(&mut self, sequence: u64, entry: Entry) {
        self.directories.extend(entry.path.parents());
        self.paths.insert(entry.path.clone(), sequence);
        self.files.insert(sequence, entry);
    }

    /// Returns the files that can be resumed, ordered by sequence id.
    fn held(&self) -> Vec<FileChunks> {
        let held = |(sequence, entry): (&u64, &Entry)| FileChunks {
            sequence: *sequence,
            path: entry.path.clone(),
            size: entry.size,
            chunks: entry.counted.ranges(),
        };
        let held = self.files.iter().map(held);
        held.filter(|file| !file.chunks.is_empty()).collect()
    }

    /// Returns the bytes that this transfer brought of all files.
    ///
    /// # Errors
    /// Names a file of which a part is missing.
    fn complete_bytes(&self) -> io::Result<u64> {
        let mut bytes: u64 = 0;
        for entry in self.files.values() {
            if entry.was_dropped() {
                continue;
            }
            if !entry.ranges.are_all_of(entry.size) {
                let hole = format!("a part of `{}` was never sent", entry.path);
                return Err(io::Error::other(hole));
            }
            bytes = bytes.saturating_add(entry.size - entry.held);
        }
        Ok(bytes)
    }
}

impl Shared {
    /// Refuses a path that [`DirectorySink::commit`] could not give to the file.
    fn check(&self, path: &RelativePath) -> io::Result<()> {
        let Some((parent, name)) = if_there(self.root.parent(path, false))? else {
            // It will be made.
            return Ok(());
        };
        if parent.device()? != self.root.device()? {
            return Err(io::Error::other("it would lie on another file system"));
        }
        match parent.is_directory(&name)? {
            Some(_) if !self.options.overwrite => Err(io::ErrorKind::AlreadyExists.into()),
            // Nor is it replaced on request, and it is found out before anything is sent for it.
            Some(true) => Err(io::ErrorKind::IsADirectory.into()),
            _ => Ok(()),
        }
    }

    /// Makes the file when its first block arrives.
    fn make(&self, block: &FileHeader) -> io::Result<Arc<File>> {
        self.check(&block.path)?;
        let name = staged(block.sequence)?;
        let file = self.staging.make(&name)?;
        if let Err(error) = reserve(&file, block.file_size) {
            self.staging.remove(&name)?;
            return Err(error);
        }
        Ok(Arc::new(file))
    }

    fn entry(&self, state: &mut State, block: &FileHeader) -> io::Result<()> {
        if state.paths.contains_key(&block.path) {
            return Ok(());
        }
        if state.files.contains_key(&block.sequence) {
            let wrong = format!("`{}` has the number of another file", block.path);
            return Err(io::Error::other(wrong));
        }
        let mut parents = block.path.parents();
        let in_a_file = parents.find(|parent| state.paths.contains_key(parent));
        let is_a_directory = || state.directories.get(&block.path).cloned();
        if let Some(both) = in_a_file.or_else(is_a_directory) {
            let wrong = format!("`{both}` was sent as a file and as a directory");
            return Err(io::Error::other(wrong));
        }
        let file = self.make(block).map_err(about(&block.path))?;
        let mut entry = Entry::new(block.path.clone(), block.file_size);
        entry.file = Some(file);
        state.add(block.sequence, entry);
        Ok(())
    }
}

/// Returns a function that adds the file's path to an error, and a remedy where one is known.
fn about(path: &RelativePath) -> impl Fn(io::Error) -> io::Error {
    move |error| {
        let text = match error.kind() {
            io::ErrorKind::AlreadyExists => {
                format!("`{path}` exists; receive with `--overwrite` to replace it")
            }
            _ => format!("cannot write `{path}`: {error}"),
        };
        io::Error::new(error.kind(), text)
    }
}

impl DirectorySink {
    /// Returns a sink that puts files into `directory`, which is made if it does not exist.
    ///
    /// # Errors
    /// The error of making the directory, or of writing into it.
    pub fn new(directory: &Path, options: DirectoryOptions) -> io::Result<Self> {
        std::fs::create_dir_all(directory)?;
        let root = DirectoryHandle::open(directory)?;
        let (staging_name, staging) = if options.resume {
            (journal::DIRECTORY.to_owned(), journal::open(&root)?)
        } else {
            let name = CString::new(format!(".wdt-{:08x}.part", mark()))?;
            let staging = root.make_directory(&name)?;
            (name, staging)
        };
        let shared = Shared {
            staging,
            root,
            staging_name,
            options,
            state: Mutex::default(),
        };
        if options.resume {
            let mut state = shared.state.lock();
            let path = directory.join(OsStr::from_bytes(journal::DIRECTORY.to_bytes()));
            for file in journal::load(&shared.staging, &path)? {
                // What could not be named in the end is no use: it comes again, and is refused then.
                if shared.check(&file.path).is_ok() {
                    state.hold(file);
                } else {
                    shared.staging.remove(&staged(file.sequence)?)?;
                }
            }
            drop(state);
        }
        Ok(Self(Arc::new(shared)))
    }

    /// Gives every file its own name, and returns the number of files; to be called once the
    /// transfer has succeeded.
    ///
    /// # Errors
    /// The first file that could not be named, or of which something is missing: the transfer has
    /// then failed all the same. Files that were named before it stay.
    pub fn commit(&self) -> io::Result<u64> {
        let mut state = self.0.state.lock();
        state.complete_bytes()?;
        let mut named = 0;
        while let Some(first) = state.files.first_entry() {
            let (name, entry) = (staged(*first.key())?, first.get());
            if entry.was_dropped() {
                self.0.staging.remove(&name)?;
            } else {
                let moved = self.0.root.parent(&entry.path, true);
                let moved = moved.and_then(|(parent, last)| {
                    parent.take((&self.0.staging, &name), &last, self.0.options.overwrite)
                });
                moved.map_err(about(&entry.path))?;
                named += 1;
            }
            first.remove();
        }
        Ok(named)
    }
}

/// Returns a random number for the name of a staging directory; a name that exists is an error.
fn mark() -> u32 {
    use std::hash::{BuildHasher as _, Hasher as _};
    let random = std::collections::hash_map::RandomState::new();
    random.build_hasher().finish() as u32 ^ std::process::id()
}

impl Sink for DirectorySink {
    type Writer = DirectoryWriter;

    fn held(&self) -> Vec<FileChunks> {
        self.0.state.lock().held()
    }

    fn forget(&self) -> io::Result<()> {
        let mut state = self.0.state.lock();
        for sequence in state.files.keys() {
            self.0.staging.remove(&staged(*sequence)?)?;
        }
        *state = State::default();
        journal::remove(&self.0.staging)
    }

    fn counted(&self, block: &FileHeader) {
        if let Some(entry) = self.0.state.lock().files.get_mut(&block.sequence) {
            let end = block.offset.saturating_add(block.length);
            entry.counted.add(block.offset, end);
        }
    }

    fn check(&self, bytes: u64) -> io::Result<()> {
        let complete = self.0.state.lock().complete_bytes()?;
        if complete == bytes {
            return Ok(());
        }
        let wrong =
            format!("blocks of {bytes} bytes were sent for files of {complete}: some overlap");
        Err(io::Error::other(wrong))
    }

    fn begin(&self, block: &FileHeader) -> io::Result<DirectoryWriter> {
        let mut state = self.0.state.lock();
        if let Some(previous) = block.allocation.replaces()
            && previous != block.sequence
            && state.paths.get(&block.path) == Some(&previous)
        {
            journal::remove(&self.0.staging)?;
            self.0.staging.remove(&staged(previous)?)?;
            state.paths.remove(&block.path);
            state.files.remove(&previous);
        }
        self.0.entry(&mut state, block)?;
        let entry = state.files.get_mut(&block.sequence);
        let Some(entry) = entry.filter(|entry| entry.path == block.path) else {
            let wrong = format!("`{}` was sent as two files", block.path);
            return Err(io::Error::other(wrong));
        };
        if entry.size != block.file_size {
            let wrong = format!("`{}` was sent with two sizes", block.path);
            return Err(io::Error::other(wrong));
        }
        entry.touched = true;
        entry.ranges.begin(block.offset, block.length);
        let file = match &entry.file {
            Some(file) => Arc::clone(file),
            // A block that is sent again, as the first one was not authenticated.
            None => Arc::new(self.0.staging.write(&staged(block.sequence)?)?),
        };
        Ok(DirectoryWriter {
            shared: Arc::clone(&self.0),
            block: block.clone(),
            at: block.offset,
            file,
            finished: false,
        })
    }
}

/// Writer of one block into a file of a [`DirectorySink`].
#[derive(Debug)]
pub struct DirectoryWriter {
    shared: Arc<Shared>,
    block: FileHeader,
    /// Offset of the next byte in the file.
    at: u64,
    file: Arc<File>,
    finished: bool,
}

impl SinkWriter for DirectoryWriter {
    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        let end = offset.checked_add(data.len() as u64);
        let most = self.block.offset.saturating_add(self.block.length);
        if offset != self.at || end.is_none_or(|end| end > most) {
            return Err(io::Error::other("a block was not written front to back"));
        }
        let written = self.file.write_all_at(data, offset);
        written.map_err(about(&self.block.path))?;
        self.at += data.len() as u64;
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.finished = true;
        let mut state = self.shared.state.lock();
        let Some(entry) = state.files.get_mut(&self.block.sequence) else {
            return Ok(());
        };
        entry.ranges.add(self.block.offset, self.at);
        if entry.ranges.are_all_of(entry.size) {
            entry.file = None;
            drop(state);
            // Takes time, in which other files go on. It writes all of the file, also the data of other threads.
            if self.shared.options.sync {
                self.file.sync_data().map_err(about(&self.block.path))?;
            }
        }
        Ok(())
    }
}

impl Drop for DirectoryWriter {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let mut state = self.shared.state.lock();
        if let Some(entry) = state.files.get_mut(&self.block.sequence) {
            entry.ranges.cut(self.block.offset, self.at);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let state = self.state.lock();
        if self.options.resume {
            let held = state.held();
            // What cannot be kept is as if it had never come.
            if !held.is_empty() && journal::save(&self.staging, &held).is_ok() {
                // What the journal does not name is removed when it is read.
                return;
            }
            let _ = journal::remove(&self.staging);
        }
        for sequence in state.files.keys() {
            // There is no way to report this; what stays can be recognised by its directory's name.
            if let Ok(name) = staged(*sequence) {
                let _ = self.staging.remove(&name);
            }
        }
        let _ = self.root.remove_directory(&self.staging_name);
    }
}
