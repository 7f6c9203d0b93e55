//! Files of a transfer at the receiver, until they have their names.

use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    io,
    sync::Arc,
};

use super::{journal::Blocks, ranges::Ranges};
use crate::{codec::FileChunks, path::RelativePath};

/// Files by their sequence ids, and by path.
#[derive(Debug, Default)]
pub(super) struct Entries {
    files: BTreeMap<u64, Entry>,
    paths: HashMap<RelativePath, u64>,
    /// Number of files below each directory that their paths lead through.
    directories: HashMap<RelativePath, u64>,
}

/// One file.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) path: RelativePath,
    pub(super) size: u64,
    pub(super) ranges: Ranges,
    /// Blocks that were counted, of this transfer and of earlier ones.
    pub(super) blocks: Blocks,
    /// End offset and CRC-32C of whole blocks that were not counted yet, by start offset.
    pub(super) uncounted: Blocks,
    /// Bytes held from an earlier transfer.
    pub(super) held: u64,
    /// Whether an earlier transfer left the file, and no block of it has arrived in this one.
    pub(super) is_untouched: bool,
    /// Whether the file lies under its own name, complete; else in the staging directory.
    pub(super) is_named: bool,
    /// Whether the file may replace one of its name: an earlier transfer wrote that one.
    pub(super) replaces: bool,
    /// Whether the sender no longer has the file, so that the next transfer must not hold it.
    pub(super) is_gone: bool,
    /// The open file, as long as a part of it is missing.
    pub(super) file: Option<Arc<File>>,
}

impl Entry {
    /// Returns a file of which nothing has come.
    pub(super) fn new(path: RelativePath, size: u64) -> Self {
        Self {
            path,
            size,
            ranges: Ranges::default(),
            blocks: Blocks::new(),
            uncounted: Blocks::new(),
            held: 0,
            is_untouched: false,
            is_named: false,
            replaces: false,
            is_gone: false,
            file: None,
        }
    }

    /// Returns a file that an earlier transfer left with these blocks.
    pub(super) fn held(path: RelativePath, size: u64, blocks: Blocks) -> Self {
        let mut entry = Self {
            is_untouched: true,
            blocks,
            ..Self::new(path, size)
        };
        for (start, end) in entry.chunks() {
            entry.held += end - start;
            entry.ranges.add(start, end);
        }
        entry
    }

    /// Returns the counted ranges, in ascending order and merged; that of an empty file is empty.
    fn chunks(&self) -> Vec<(u64, u64)> {
        let mut chunks: Vec<(u64, u64)> = Vec::new();
        for (&start, &(end, _)) in &self.blocks {
            match chunks.last_mut() {
                Some((_, last)) if start <= *last => *last = end.max(*last),
                _ => chunks.push((start, end)),
            }
        }
        chunks
    }

    /// Whether no part of the file is missing.
    pub(super) fn is_complete(&self) -> bool {
        match self.is_untouched && self.size == 0 {
            true => !self.blocks.is_empty(),
            false => self.ranges.are_all_of(self.size),
        }
    }

    /// Whether this is a part left by an earlier transfer of a file that the sender does not send.
    pub(super) fn is_dropped(&self) -> bool {
        self.is_untouched && !self.is_complete()
    }
}

impl Entries {
    pub(super) fn add(&mut self, sequence: u64, entry: Entry) {
        for directory in entry.path.parents() {
            *self.directories.entry(directory).or_default() += 1;
        }
        self.paths.insert(entry.path.clone(), sequence);
        self.files.insert(sequence, entry);
    }

    pub(super) fn remove(&mut self, sequence: u64) -> Option<Entry> {
        let entry = self.files.remove(&sequence)?;
        self.paths.remove(&entry.path);
        for directory in entry.path.parents() {
            if let Some(files) = self.directories.get_mut(&directory) {
                *files -= 1;
                if *files == 0 {
                    self.directories.remove(&directory);
                }
            }
        }
        Some(entry)
    }

    pub(super) fn get(&self, sequence: u64) -> Option<&Entry> {
        self.files.get(&sequence)
    }

    pub(super) fn get_mut(&mut self, sequence: u64) -> Option<&mut Entry> {
        self.files.get_mut(&sequence)
    }

    /// Returns the sequence id of the file of this path.
    pub(super) fn sequence(&self, path: &RelativePath) -> Option<u64> {
        self.paths.get(path).copied()
    }

    /// Returns the files with their sequence ids, in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Entry)> {
        self.files
            .iter()
            .map(|(sequence, entry)| (*sequence, entry))
    }

    /// Returns the lowest sequence id.
    pub(super) fn first(&self) -> Option<u64> {
        self.files.first_key_value().map(|(sequence, _)| *sequence)
    }

    /// Returns the sequence ids of files that an earlier transfer left and of which nothing has come.
    pub(super) fn untouched(&self) -> Vec<u64> {
        let untouched = self.iter().filter(|(_, entry)| entry.is_untouched);
        untouched.map(|(sequence, _)| sequence).collect()
    }

    /// Returns the files that can be resumed, ordered by sequence id.
    pub(super) fn chunks(&self) -> Vec<FileChunks> {
        let held = self.iter().filter(|(_, entry)| entry.is_untouched);
        let chunks = held.map(|(sequence, entry)| FileChunks {
            sequence,
            path: entry.path.clone(),
            size: entry.size,
            chunks: entry.chunks(),
        });
        chunks.collect()
    }

    /// Returns a path that is both a file and a directory once this file is added.
    pub(super) fn conflict(&self, path: &RelativePath) -> Option<RelativePath> {
        let mut parents = path.parents();
        let in_a_file = parents.find(|parent| self.paths.contains_key(parent));
        in_a_file.or_else(|| self.directories.contains_key(path).then(|| path.clone()))
    }

    /// Returns the bytes that this transfer brought of all files.
    ///
    /// # Errors
    /// Names a file of which a part is missing.
    pub(super) fn complete_bytes(&self) -> io::Result<u64> {
        let mut bytes: u64 = 0;
        for (_, entry) in self.iter() {
            if entry.is_dropped() {
                continue;
            }
            if !entry.is_complete() {
                let hole = format!("a part of `{}` was never sent", entry.path);
                return Err(io::Error::other(hole));
            }
            bytes = bytes.saturating_add(entry.size - entry.held);
        }
        Ok(bytes)
    }
}
