//! Journal of the data that transfers with resumption have brought, for the next one.
//!
//! The journal lies beside the unfinished files. A record is appended when a file begins and when a
//! block was counted, so that a receiver that is killed keeps what was counted before. Every record
//! has a CRC-32C, and that of a block has one of the block's content: a record that is damaged ends
//! the journal, and content that does not match is not held.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::{CStr, CString},
    fs::File,
    io::{self, Read, Write},
    os::unix::fs::FileExt as _,
};

use super::directory_handle::{DirectoryHandle, if_there};
use crate::path::RelativePath;

/// Name of the staging directory: unfinished files that a later transfer may resume.
pub(super) const DIRECTORY: &CStr = c".wdt-resume.part";

/// Name of the journal in the staging directory.
const NAME: &CStr = c"journal";
/// Name of a journal that is being written anew.
const NEW_NAME: &CStr = c"journal.new";
/// First bytes of a journal, with its version.
const MAGIC: &[u8] = b"wdt journal 1\n";
/// Bytes before the body of a record: its length and its CRC-32C, both little-endian.
const HEADER_BYTES: usize = 8;
/// Bytes read at once to verify content.
const READ_BYTES: usize = 256 << 10;

/// Returns the name of an unfinished file in the staging directory.
pub(super) fn staged(sequence: u64) -> io::Result<CString> {
    CString::new(sequence.to_string()).map_err(io::Error::other)
}

/// Counted blocks of a file: start offset, end offset and CRC-32C of each, by start offset.
pub(super) type Blocks = BTreeMap<u64, (u64, u32)>;

/// File of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Recorded {
    pub(super) path: RelativePath,
    pub(super) size: u64,
    /// Whether a file that an earlier transfer brought under the same name is to be replaced.
    pub(super) replaces: bool,
    pub(super) blocks: Blocks,
}

/// Files of a journal by their sequence ids.
pub(super) type Files = BTreeMap<u64, Recorded>;

/// One record.
#[derive(Clone, Copy, Debug)]
pub(super) enum Record<'a> {
    /// A file begins, or has another size from now on.
    File {
        sequence: u64,
        path: &'a RelativePath,
        size: u64,
        replaces: bool,
        /// Whether the blocks recorded so far are still valid.
        keeps: bool,
    },
    /// A block was counted.
    Block {
        sequence: u64,
        start: u64,
        end: u64,
        crc: u32,
    },
    /// Nothing is held of this file any more.
    Forgotten(u64),
}

const FILE: u8 = 1;
const BLOCK: u8 = 2;
const FORGOTTEN: u8 = 3;
const REPLACES: u8 = 1;
const KEEPS: u8 = 2;

impl Record<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; HEADER_BYTES]);
        match *self {
            Record::File {
                sequence,
                path,
                size,
                replaces,
                keeps,
            } => {
                let flags = if replaces { REPLACES } else { 0 } | if keeps { KEEPS } else { 0 };
                out.push(FILE);
                out.extend_from_slice(&sequence.to_le_bytes());
                out.extend_from_slice(&size.to_le_bytes());
                out.push(flags);
                out.extend_from_slice(path.as_bytes());
            }
            Record::Block {
                sequence,
                start,
                end,
                crc,
            } => {
                out.push(BLOCK);
                for number in [sequence, start, end] {
                    out.extend_from_slice(&number.to_le_bytes());
                }
                out.extend_from_slice(&crc.to_le_bytes());
            }
            Record::Forgotten(sequence) => {
                out.push(FORGOTTEN);
                out.extend_from_slice(&sequence.to_le_bytes());
            }
        }
        let body = &out[start + HEADER_BYTES..];
        let (length, crc) = (body.len() as u32, crc32c::crc32c(body));
        out[start..start + 4].copy_from_slice(&length.to_le_bytes());
        out[start + 4..start + HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Takes `N` bytes from the front of `bytes`.
fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    take(bytes).map(u64::from_le_bytes)
}

/// Applies the record of this body to `files`; `None` for one that no version has written. `paths`
/// has their sequence ids by path.
fn apply(mut body: &[u8], files: &mut Files, paths: &mut HashMap<RelativePath, u64>) -> Option<()> {
    let body = &mut body;
    let [kind] = take(body)?;
    let sequence = number(body)?;
    match kind {
        FILE => {
            let size = number(body)?;
            let [flags] = take(body)?;
            let path = RelativePath::new(body).ok()?;
            let before = files.remove(&sequence);
            let kept = before.filter(|before| flags & KEEPS != 0 && before.path == path);
            let blocks = kept.map(|before| before.blocks).unwrap_or_default();
            // Of two files with one path the later one is valid.
            if let Some(other) = paths.insert(path.clone(), sequence)
                && files.get(&other).is_some_and(|other| other.path == path)
            {
                files.remove(&other);
            }
            let replaces = flags & REPLACES != 0;
            files.insert(
                sequence,
                Recorded {
                    path,
                    size,
                    replaces,
                    blocks,
                },
            );
        }
        BLOCK => {
            let (start, end) = (number(body)?, number(body)?);
            let crc = u32::from_le_bytes(take(body)?);
            let file = files.get_mut(&sequence)?;
            if start > end || end > file.size {
                return None;
            }
            file.blocks.insert(start, (end, crc));
        }
        FORGOTTEN => _ = files.remove(&sequence),
        _ => return None,
    }
    Some(())
}

/// Returns the files of the records before the first that is damaged or incomplete.
fn decode(bytes: &[u8]) -> Files {
    let (mut files, mut paths) = (Files::new(), HashMap::new());
    let Some(mut rest) = bytes.strip_prefix(MAGIC) else {
        return files;
    };
    while let (Some(length), Some(crc)) = (take(&mut rest), take(&mut rest)) {
        let length = u32::from_le_bytes(length) as usize;
        let Some((body, after)) = rest.split_at_checked(length) else {
            break;
        };
        let is_right = crc32c::crc32c(body) == u32::from_le_bytes(crc);
        if !is_right || apply(body, &mut files, &mut paths).is_none() {
            break;
        }
        rest = after;
    }
    files
}

/// Opens the directory and locks it, as only one receiver may use it.
pub(super) fn open(root: &DirectoryHandle) -> io::Result<DirectoryHandle> {
    let directory = root.enter_or_make(DIRECTORY)?;
    directory.lock().map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => {
            let busy = "another receiver that can be resumed uses this directory";
            io::Error::new(error.kind(), busy)
        }
        _ => error,
    })?;
    Ok(directory)
}

/// Reads the journal; without one, there are no files.
pub(super) fn read(directory: &DirectoryHandle) -> io::Result<Files> {
    let mut bytes = Vec::new();
    if let Some(mut file) = if_there(directory.read(NAME))? {
        file.read_to_end(&mut bytes)?;
    }
    Ok(decode(&bytes))
}

/// Whether a file in the directory is the journal's own.
pub(super) fn is_own(name: &[u8]) -> bool {
    name == NAME.to_bytes()
}

/// Removes the journal, if there is one.
pub(super) fn remove(directory: &DirectoryHandle) -> io::Result<()> {
    if_there(directory.remove(NAME)).map(drop)
}

/// Journal that is being written.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    /// Whether a record could not be written: what follows a damaged one is of no use.
    is_broken: bool,
}

impl Journal {
    /// Replaces the journal by one with these files.
    ///
    /// # Errors
    /// The error of writing it.
    pub(super) fn create<'a>(
        directory: &DirectoryHandle,
        files: impl IntoIterator<Item = (u64, &'a RelativePath, u64, bool, &'a Blocks)>,
    ) -> io::Result<Self> {
        let mut bytes = MAGIC.to_vec();
        for (sequence, path, size, replaces, blocks) in files {
            let file = Record::File {
                sequence,
                path,
                size,
                replaces,
                keeps: false,
            };
            file.encode(&mut bytes);
            for (&start, &(end, crc)) in blocks {
                let block = Record::Block {
                    sequence,
                    start,
                    end,
                    crc,
                };
                block.encode(&mut bytes);
            }
        }
        if_there(directory.remove(NEW_NAME))?;
        let mut file = directory.make(NEW_NAME)?;
        file.write_all(&bytes)?;
        file.sync_data()?;
        directory.take((directory, NEW_NAME), NAME, true)?;
        Ok(Self {
            file,
            is_broken: false,
        })
    }

    /// Appends a record. What cannot be written is as if it had never come.
    pub(super) fn append(&mut self, record: &Record<'_>) {
        if self.is_broken {
            return;
        }
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        self.is_broken = self.file.write_all(&bytes).is_err();
    }
}

/// Removes the blocks whose content in `file` is not the recorded one.
///
/// # Errors
/// The error of reading the file.
pub(super) fn verify(file: &File, blocks: &mut Blocks) -> io::Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    for (start, (end, crc)) in std::mem::take(blocks) {
        if content_crc(file, start, end, &mut buffer)? == Some(crc) {
            blocks.insert(start, (end, crc));
        }
    }
    Ok(())
}

/// Returns the CRC-32C of a part of a file; `None` if the file ends before it.
fn content_crc(file: &File, start: u64, end: u64, buffer: &mut [u8]) -> io::Result<Option<u32>> {
    let (mut at, mut crc) = (start, 0);
    while at < end {
        let most = usize::try_from(end - at).unwrap_or(usize::MAX);
        let most = most.min(buffer.len());
        match file.read_at(&mut buffer[..most], at) {
            Ok(0) => return Ok(None),
            Ok(read) => {
                crc = crc32c::crc32c_append(crc, &buffer[..read]);
                at += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Some(crc))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelativePath {
        RelativePath::new(text.as_bytes()).expect("a safe path")
    }

    fn journal() -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let (a, b) = (path("a"), path("d/b"));
        let file = |sequence, path, size, keeps| Record::File {
            sequence,
            path,
            size,
            replaces: false,
            keeps,
        };
        let block = |sequence, start, end| Record::Block {
            sequence,
            start,
            end,
            crc: 0x0102_0304,
        };
        for record in [
            file(0, &b, 16, false),
            file(2, &a, 20, false),
            block(2, 0, 20),
            file(2, &a, 30, true),
            block(2, 20, 30),
            block(0, 8, 16),
        ] {
            record.encode(&mut bytes);
        }
        bytes
    }

    #[test]
    fn records_are_read_up_to_the_first_incomplete_one() {
        let all = decode(&journal());
        let block = |start, end| (start, (end, 0x0102_0304));
        assert_eq!(all[&2].blocks, Blocks::from([block(0, 20), block(20, 30)]));
        assert_eq!((all[&2].size, all[&0].size), (30, 16));
        assert_eq!(all[&0].blocks, Blocks::from([block(8, 16)]));
        for length in 0..journal().len() {
            let part = decode(&journal()[..length]);
            for (sequence, file) in part {
                assert_eq!(file.path, all[&sequence].path);
                assert!(file.blocks.len() <= all[&sequence].blocks.len());
            }
        }
        let mut forgotten = journal();
        Record::Forgotten(2).encode(&mut forgotten);
        assert_eq!(decode(&forgotten).into_keys().collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn a_flipped_bit_never_adds_or_changes_a_record() {
        let all = decode(&journal());
        for bit in 0..journal().len() * 8 {
            let mut damaged = journal();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let files = decode(&damaged);
            assert_ne!(files, all, "bit {bit}");
            for (sequence, file) in &files {
                let right = &all[sequence];
                let known = |(start, block)| right.blocks.get(start) == Some(block);
                assert_eq!(file.path, right.path, "bit {bit}");
                assert!(file.blocks.iter().all(known), "bit {bit}");
            }
        }
    }
}
