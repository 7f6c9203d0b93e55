//! A directory that a receiver puts files into.
//!
//! Until the transfer is over, everything lies in a staging directory `.wdt-NUMBER.part` below the
//! target. [`DirectorySink::commit`] gives every file its own name, each in one step; only then,
//! since the last tag of an encrypted transfer comes after everything else. So a file under its own
//! name is whole and authentic whenever the transfer broke, and a transfer that failed can be tried
//! again. Unfinished files are removed with the sink; after a crash the directory can be recognised
//! by its name. Where a transfer may be resumed, it stays as `.wdt-resume.part` with a [`journal`]
//! of the data received from the sender, also of the files that have their names.

use std::{
    collections::HashSet,
    ffi::{CString, OsStr},
    fs::File,
    io,
    os::unix::{ffi::OsStrExt, fs::FileExt},
    path::Path,
    sync::Arc,
};

use parking_lot::Mutex;

use super::{
    directory_handle::{DirectoryHandle, reserve},
    entry::{Entries, Entry},
    journal::{self, Journal, Record, staged},
    parents::Parents,
};
use crate::{
    codec::{Allocation, FileChunks, FileHeader},
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
    /// Whether a file that an earlier transfer brought is removed once the sender no longer has it.
    pub delete_extra_files: bool,
}

impl Default for DirectoryOptions {
    fn default() -> Self {
        Self {
            overwrite: false,
            sync: true,
            resume: false,
            delete_extra_files: false,
        }
    }
}

/// Sink that puts files into a directory.
#[derive(Clone, Debug)]
pub struct DirectorySink(Arc<Shared>);

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) root: Arc<DirectoryHandle>,
    /// Device of the file system that holds the root.
    device: libc::dev_t,
    /// Directory of unfinished files, each named by its sequence id.
    pub(super) staging: DirectoryHandle,
    staging_name: CString,
    options: DirectoryOptions,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) entries: Entries,
    pub(super) parents: Parents,
    /// Paths of files that an earlier transfer brought and nobody has changed since.
    pub(super) replaceable: HashSet<RelativePath>,
    /// Absent where a failed transfer leaves nothing.
    journal: Option<Journal>,
    /// Whether a file of the journal has its name.
    has_named: bool,
}

impl State {
    fn record(&mut self, record: &Record<'_>) {
        if let Some(journal) = &mut self.journal {
            journal.append(record);
        }
    }
}

impl Shared {
    /// Refuses a path that [`DirectorySink::commit`] could not give to the file.
    pub(super) fn check(
        &self,
        state: &mut State,
        path: &RelativePath,
        may_replace: bool,
    ) -> io::Result<()> {
        let Some((parent, name)) = state.parents.of(path)? else {
            // It will be made.
            return Ok(());
        };
        if !Arc::ptr_eq(&parent, &self.root) && parent.device()? != self.device {
            return Err(io::Error::other("it would lie on another file system"));
        }
        match parent.is_directory(&name)? {
            Some(false) if !self.options.overwrite && !may_replace => {
                Err(io::ErrorKind::AlreadyExists.into())
            }
            // Nor is it replaced on request, and it is found out before anything is sent for it.
            Some(true) => Err(io::ErrorKind::IsADirectory.into()),
            _ => Ok(()),
        }
    }

    /// Prepares for the first block of a file in this transfer.
    fn prepare(&self, state: &mut State, block: &FileHeader) -> io::Result<()> {
        match block.allocation {
            Allocation::Exists | Allocation::TooSmall(_) => self.reopen(state, block),
            Allocation::New | Allocation::TooLarge(_) | Allocation::Delete => {
                self.create(state, block)
            }
        }
    }

    /// Makes a file; what an earlier transfer left of it, or under its number, is void.
    fn create(&self, state: &mut State, block: &FileHeader) -> io::Result<()> {
        for sequence in [state.entries.sequence(&block.path), Some(block.sequence)] {
            let Some(sequence) = sequence else { continue };
            let Some(entry) = state.entries.get(sequence) else {
                continue;
            };
            if !entry.is_untouched {
                let wrong = match entry.path == block.path {
                    true => format!("`{}` was sent as two files", block.path),
                    false => format!("`{}` has the number of another file", block.path),
                };
                return Err(io::Error::other(wrong));
            }
            self.forget(state, sequence)?;
        }
        if let Some(both) = state.entries.conflict(&block.path) {
            let wrong = format!("`{both}` was sent as a file and as a directory");
            return Err(io::Error::other(wrong));
        }
        let mut entry = Entry::new(block.path.clone(), block.file_size);
        entry.replaces = state.replaceable.contains(&block.path);
        let made = (self.check(state, &block.path, entry.replaces)).and_then(|()| self.make(block));
        entry.file = Some(Arc::new(made.map_err(about(&block.path))?));
        state.record(&Record::File {
            sequence: block.sequence,
            path: &block.path,
            size: block.file_size,
            replaces: entry.replaces,
            keeps: false,
        });
        state.entries.add(block.sequence, entry);
        Ok(())
    }

    /// Makes the staged file.
    fn make(&self, block: &FileHeader) -> io::Result<File> {
        let name = staged(block.sequence)?;
        let file = self.staging.make(&name)?;
        if let Err(error) = reserve(&file, block.file_size) {
            self.staging.remove(&name)?;
            return Err(error);
        }
        Ok(file)
    }

    /// Goes on with a file that an earlier transfer has left, which becomes larger if need be.
    fn reopen(&self, state: &mut State, block: &FileHeader) -> io::Result<()> {
        let name = staged(block.sequence)?;
        let State {
            entries, parents, ..
        } = state;
        let held = entries.get_mut(block.sequence);
        let Some(entry) = held.filter(|entry| entry.is_untouched && entry.path == block.path)
        else {
            let wrong = format!("`{}` is to be continued, and nothing is here", block.path);
            return Err(io::Error::other(wrong));
        };
        let failed = about(&block.path);
        if entry.is_named {
            // A file under its name stays as it is until it is replaced by a whole one.
            let (parent, last) = parents.made(&entry.path).map_err(&failed)?;
            let copied = parent.read(&last).and_then(|mut from| {
                let mut to = self.staging.make(&name)?;
                io::copy(&mut from, &mut to)
            });
            copied.map_err(&failed)?;
            (entry.is_named, entry.replaces) = (false, true);
        }
        let file = self.staging.write(&name).map_err(&failed)?;
        if entry.size < block.file_size {
            reserve(&file, block.file_size).map_err(&failed)?;
            entry.size = block.file_size;
        }
        (entry.file, entry.is_untouched) = (Some(Arc::new(file)), false);
        let (size, replaces) = (entry.size, entry.replaces);
        state.record(&Record::File {
            sequence: block.sequence,
            path: &block.path,
            size,
            replaces,
            keeps: true,
        });
        Ok(())
    }

    /// Drops a file that an earlier transfer has left; one that has its name stays there.
    fn forget(&self, state: &mut State, sequence: u64) -> io::Result<()> {
        if let Some(entry) = state.entries.remove(sequence) {
            state.record(&Record::Forgotten(sequence));
            if !entry.is_named {
                self.staging.remove(&staged(sequence)?)?;
            }
        }
        Ok(())
    }

    /// Removes everything that is staged, and the staging directory.
    fn remove_staging(&self, state: &State) {
        for (sequence, _) in state.entries.iter().filter(|(_, entry)| !entry.is_named) {
            // There is no way to report this; what stays can be recognised by its directory's name.
            let _ = staged(sequence).and_then(|name| self.staging.remove(&name));
        }
        let _ = journal::remove(&self.staging);
        let _ = self.root.remove_directory(&self.staging_name);
    }
}

/// Returns a function that adds the file's path to an error.
fn about(path: &RelativePath) -> impl Fn(io::Error) -> io::Error {
    move |error| {
        let text = match error.kind() {
            io::ErrorKind::AlreadyExists => {
                format!("`{path}` exists and is not to be replaced")
            }
            _ => format!("cannot write `{path}`: {error}"),
        };
        io::Error::new(error.kind(), text)
    }
}

impl DirectorySink {
    /// Returns a sink that puts files into `directory`, which is made if it does not exist. What an
    /// earlier transfer has left is read and verified, if it is to be resumed.
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
        let root = Arc::new(root);
        let shared = Shared {
            device: root.device()?,
            staging,
            staging_name,
            options,
            state: Mutex::new(State {
                entries: Entries::default(),
                parents: Parents::new(&root),
                replaceable: HashSet::new(),
                journal: None,
                has_named: false,
            }),
            root,
        };
        if options.resume {
            let state = &mut *shared.state.lock();
            let path = directory.join(OsStr::from_bytes(journal::DIRECTORY.to_bytes()));
            shared.load(state, &path)?;
            state.has_named = state.entries.iter().any(|(_, entry)| entry.is_named);
            let files = state.entries.iter().map(|(sequence, entry)| {
                let Entry { path, size, .. } = entry;
                (sequence, path, *size, entry.replaces, &entry.blocks)
            });
            state.journal = Some(Journal::create(&shared.staging, files)?);
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
        let state = &mut *self.0.state.lock();
        state.entries.complete_bytes()?;
        // Directories may have come and gone since.
        state.parents.forget();
        let mut named = 0;
        while let Some(sequence) = state.entries.first() {
            let Some(entry) = state.entries.get(sequence) else {
                break;
            };
            if entry.is_dropped() {
                self.0.forget(state, sequence)?;
                continue;
            }
            if !entry.is_named {
                let replaces = self.0.options.overwrite || entry.replaces;
                let name = staged(sequence)?;
                let moved = state.parents.made(&entry.path);
                let moved = moved.and_then(|(parent, last)| {
                    parent.take((&self.0.staging, &name), &last, replaces)
                });
                moved.map_err(about(&entry.path))?;
                named += 1;
            }
            let is_gone = entry.is_gone;
            state.entries.remove(sequence);
            match is_gone {
                true => state.record(&Record::Forgotten(sequence)),
                false => state.has_named = true,
            }
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
        self.0.state.lock().entries.chunks()
    }

    fn forget(&self) -> io::Result<()> {
        let state = &mut *self.0.state.lock();
        for sequence in state.entries.untouched() {
            self.0.forget(state, sequence)?;
        }
        Ok(())
    }

    fn gone(&self, file: &FileHeader) -> io::Result<()> {
        let state = &mut *self.0.state.lock();
        let held = state.entries.get_mut(file.sequence);
        let Some(entry) = held.filter(|entry| entry.is_untouched && entry.path == file.path) else {
            return Ok(());
        };
        let deletes = self.0.options.delete_extra_files;
        if deletes && entry.is_named {
            let (parent, name) = state.parents.made(&file.path)?;
            parent.remove(&name)?;
            state.replaceable.remove(&file.path);
        } else if !deletes && !entry.is_named && entry.is_complete() {
            entry.is_gone = true;
            return Ok(());
        }
        self.0.forget(state, file.sequence)
    }

    fn counted(&self, block: &FileHeader) {
        let state = &mut *self.0.state.lock();
        let Some(entry) = state.entries.get_mut(block.sequence) else {
            return;
        };
        let Some((end, crc)) = entry.uncounted.remove(&block.offset) else {
            return;
        };
        entry.blocks.insert(block.offset, (end, crc));
        state.record(&Record::Block {
            sequence: block.sequence,
            start: block.offset,
            end,
            crc,
        });
    }

    fn check(&self, bytes: u64) -> io::Result<()> {
        let complete = self.0.state.lock().entries.complete_bytes()?;
        if complete == bytes {
            return Ok(());
        }
        let wrong =
            format!("blocks of {bytes} bytes were sent for files of {complete}: some overlap");
        Err(io::Error::other(wrong))
    }

    fn begin(&self, block: &FileHeader) -> io::Result<DirectoryWriter> {
        let state = &mut *self.0.state.lock();
        let known = state.entries.get(block.sequence);
        if known.is_none_or(|entry| entry.is_untouched || entry.path != block.path) {
            self.0.prepare(state, block)?;
        }
        let Some(entry) = state.entries.get_mut(block.sequence) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        if entry.size != block.file_size {
            let wrong = format!("`{}` was sent with two sizes", block.path);
            return Err(io::Error::other(wrong));
        }
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
            crc: self.0.options.resume.then_some(0),
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
    /// CRC-32C of the bytes so far, for a journal.
    crc: Option<u32>,
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
        self.crc = self.crc.map(|crc| crc32c::crc32c_append(crc, data));
        self.at += data.len() as u64;
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.finished = true;
        let mut state = self.shared.state.lock();
        let Some(entry) = state.entries.get_mut(self.block.sequence) else {
            return Ok(());
        };
        entry.ranges.add(self.block.offset, self.at);
        if let Some(crc) = self.crc {
            entry.uncounted.insert(self.block.offset, (self.at, crc));
        }
        if entry.is_complete() {
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
        if let Some(entry) = state.entries.get_mut(self.block.sequence) {
            entry.ranges.cut(self.block.offset, self.at);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let state = self.state.lock();
        // What the journal does not name is removed when it is read.
        let is_kept = state.has_named || state.entries.first().is_some();
        if !self.options.resume || !is_kept {
            self.remove_staging(&state);
        }
    }
}
