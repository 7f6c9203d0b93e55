//! Journal of the data that a failed transfer has left, for one that resumes it.
//!
//! The journal lies beside the unfinished files and holds the frames that are sent to the sender.
//! It is written when the transfer has ended, and names only blocks that were counted: where there
//! are tags, those that a tag has verified.

use std::{
    collections::HashSet,
    ffi::{CStr, CString},
    io::{self, Read, Write},
    os::unix::ffi::OsStrExt,
    path::Path,
};

use super::directory_handle::{DirectoryHandle, if_there};
use crate::codec::{Decoded, FileChunks, decode_frame, encode_frames};

/// Name of the directory of unfinished files that a later transfer may resume.
pub(super) const DIRECTORY: &CStr = c".wdt-resume.part";
const NAME: &CStr = c"journal";

/// Returns the name of an unfinished file in the staging directory.
pub(super) fn staged(sequence: u64) -> io::Result<CString> {
    CString::new(sequence.to_string()).map_err(io::Error::other)
}

/// Opens the directory and locks it, as only one receiver may use it.
pub(super) fn open(root: &DirectoryHandle) -> io::Result<DirectoryHandle> {
    let directory = root.enter_or_make(DIRECTORY)?;
    directory.lock().map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => {
            let busy = "another receiver with `--resume` uses this directory";
            io::Error::new(error.kind(), busy)
        }
        _ => error,
    })?;
    Ok(directory)
}

/// Returns the files of the journal that exist with the right size; none without a readable
/// journal. Anything else in the directory, whose path is `path`, is removed.
pub(super) fn load(directory: &DirectoryHandle, path: &Path) -> io::Result<Vec<FileChunks>> {
    let mut bytes = Vec::new();
    if let Some(mut file) = if_there(directory.read(NAME))? {
        file.read_to_end(&mut bytes)?;
    }
    let mut files = read(&bytes).unwrap_or_default();
    let is_there = |file: &FileChunks| {
        let there = staged(file.sequence).and_then(|name| directory.read(&name)?.metadata());
        there.is_ok_and(|there| there.len() == file.size)
    };
    files.retain(is_there);
    let known: HashSet<_> = files.iter().map(|file| file.sequence.to_string()).collect();
    for entry in std::fs::read_dir(path)? {
        let name = entry?.file_name();
        let is_known = name.to_str().is_some_and(|name| known.contains(name));
        if !is_known && name.as_bytes() != NAME.to_bytes() {
            directory.remove(&CString::new(name.as_bytes())?)?;
        }
    }
    Ok(files)
}

/// Decodes the entries of a journal; `None` for one that is damaged.
fn read(mut bytes: &[u8]) -> Option<Vec<FileChunks>> {
    let mut files = Vec::new();
    while !bytes.is_empty() {
        let Ok(Decoded::Whole { value, length }) = decode_frame(bytes) else {
            return None;
        };
        files.extend(value);
        bytes = &bytes[length..];
    }
    Some(files)
}

/// Writes the journal, after the files that it names are synchronised to disk.
pub(super) fn save(directory: &DirectoryHandle, files: &[FileChunks]) -> io::Result<()> {
    for file in files {
        directory.read(&staged(file.sequence)?)?.sync_data()?;
    }
    remove(directory)?;
    let mut bytes = Vec::new();
    encode_frames(files, &mut bytes);
    let mut journal = directory.make(NAME)?;
    journal.write_all(&bytes)?;
    journal.sync_all()
}

/// Removes the journal, if there is one.
pub(super) fn remove(directory: &DirectoryHandle) -> io::Result<()> {
    if_there(directory.remove(NAME)).map(drop)
}
