//! List of the records that a run has committed, in a file beside its results file while that has a write-ahead log.
//!
//! SQLite ignores a log from its first damaged frame on, and takes any log that is sound. This list says which
//! records are then missing. It claims too little rather than too much: an entry is written after the commit, which is on the
//! disk by then, and read before the snapshot that it is compared with. An entry that is incomplete or damaged claims nothing.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{
        self,
        ErrorKind::{InvalidInput, NotFound},
        Read as _,
    },
    os::unix::fs::FileExt as _,
    path::Path,
};

use regatta_process::open_regular;

use crate::{
    FILE_NAME, ResultsError,
    checksum::{HOST_SAMPLES, Kind, PATH_CHECK, Sealed, TRIAL, WARNING},
    explain::explain_io,
    open::beside,
    run_file::RunFile,
};

/// End of the name of the list.
pub(crate) const SUFFIX: &str = "-commits";

/// Kinds of records that are listed, with their names for messages. Other records are committed with one of these.
const LISTED: [(&Kind, &str); 4] = [
    (&TRIAL, "trials"),
    (&PATH_CHECK, "path checks"),
    (&WARNING, "warnings of the run"),
    (&HOST_SAMPLES, "rows of `host_samples`"),
];

/// Number of the entry of the run, whose checksum is that of its identifier.
const RUN: u32 = LISTED.len() as u32;

/// Bytes of an entry.
const ENTRY: usize = 20;

/// Largest number of keys that a message names.
const MAX_NAMED: usize = 8;

/// Record that was committed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    /// Position in [`LISTED`], or [`RUN`].
    kind: u32,
    key: i64,
    checksum: u32,
}

impl Entry {
    fn of_run(run_id: &str) -> Self {
        Self {
            kind: RUN,
            key: 0,
            checksum: crc32fast::hash(run_id.as_bytes()),
        }
    }

    fn of_record(record: Sealed) -> Option<Self> {
        let kind = LISTED
            .iter()
            .position(|(kind, _)| kind.has_table(record.table))?;
        Some(Self {
            kind: u32::try_from(kind).ok()?,
            key: record.key,
            checksum: record.checksum,
        })
    }

    fn encode(self) -> [u8; ENTRY] {
        let mut bytes = [0; ENTRY];
        bytes[..4].copy_from_slice(&self.kind.to_le_bytes());
        bytes[4..12].copy_from_slice(&self.key.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.checksum.to_le_bytes());
        let check = crc32fast::hash(&bytes[..16]);
        bytes[16..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// Decodes an entry. `None` if it is damaged or of another kind, such as one that was never written.
    fn decode(bytes: &[u8; ENTRY]) -> Option<Self> {
        let word = |at: usize| bytes[at..].first_chunk().map(|it| u32::from_le_bytes(*it));
        let entry = Self {
            kind: word(0)?,
            key: i64::from_le_bytes(*bytes[4..].first_chunk()?),
            checksum: word(12)?,
        };
        let is_sound = word(16)? == crc32fast::hash(&bytes[..16]) && entry.kind <= RUN;
        is_sound.then_some(entry)
    }
}

/// List of a run that is being written.
#[derive(Debug)]
pub(crate) struct CommitList {
    file: File,
    /// Number of entries, with those that are damaged.
    entries: u64,
}

impl CommitList {
    /// Opens the list of the results file at `path`, or creates it. A new run begins it anew.
    ///
    /// # Errors
    /// The error of the system; a list that is no regular file.
    pub(crate) fn open(path: &Path, run_id: &str, is_new: bool) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(is_new);
        let file = open_regular(&beside(path, SUFFIX), options)?;
        let mut list = Self {
            entries: file.metadata()?.len() / ENTRY as u64,
            file,
        };
        list.write(Entry::of_run(run_id))?;
        Ok(list)
    }

    /// Adds records that have been committed. On a full disk they are not listed.
    pub(crate) fn add(&mut self, records: &[Sealed]) {
        for entry in records.iter().filter_map(|it| Entry::of_record(*it)) {
            // The records are stored, which the caller has asked for.
            let _ = self.write(entry);
        }
    }

    /// Writes an entry. One that is incomplete is overwritten by the next.
    fn write(&mut self, entry: Entry) -> io::Result<()> {
        self.file
            .write_all_at(&entry.encode(), self.entries * ENTRY as u64)?;
        self.entries += 1;
        Ok(())
    }
}

/// Reads the list of the results file at `path`: no entries if there is none.
///
/// # Errors
/// The list cannot be read.
pub(crate) fn read(path: &Path) -> Result<Vec<Entry>, ResultsError> {
    let list = beside(path, SUFFIX);
    let mut bytes = Vec::new();
    let opened = open_regular(&list, OpenOptions::new().read(true));
    match opened.and_then(|mut file| file.read_to_end(&mut bytes)) {
        Ok(_) => {}
        // The run is one plain file. Anything else that has the list's name is no list.
        Err(error) if matches!(error.kind(), NotFound | InvalidInput) => {}
        Err(error) => return Err(explain_io(error, "read", &list)),
    }
    let (entries, _) = bytes.as_chunks();
    Ok(entries.iter().filter_map(Entry::decode).collect())
}

/// Removes the list of the results file at `path`, if there is one.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(beside(path, SUFFIX)) {
        Err(error) if error.kind() == NotFound => Ok(()),
        removed => removed,
    }
}

/// Compares a results file with the entries of its commit list, which were read before the file was opened.
///
/// # Errors
/// [`ResultsError::OtherRun`] if the list belongs to another run, [`ResultsError::Incomplete`] if a listed record is missing or
/// differs, and errors of reading the file.
pub(crate) fn check(file: &RunFile, entries: &[Entry]) -> Result<(), ResultsError> {
    if entries.is_empty() {
        return Ok(());
    }
    let path = file.path.clone();
    let list = beside(&path, SUFFIX);
    let of_run = Entry::of_run(&file.one::<String>("SELECT run_id FROM run")?);
    let is_of_another = |it: &Entry| it.kind == RUN && it.checksum != of_run.checksum;
    if entries.iter().any(is_of_another) {
        return Err(ResultsError::OtherRun { path, list });
    }
    let mut missing = Vec::new();
    for (number, (kind, name)) in (0..).zip(LISTED) {
        let listed = entries.iter().filter(|it| it.kind == number);
        let listed: BTreeMap<i64, u32> = listed.map(|it| (it.key, it.checksum)).collect();
        if listed.is_empty() {
            continue;
        }
        let stored = kind.checksums(file)?;
        let is_missing = |(key, checksum): &(&i64, &u32)| stored.get(key) != Some(checksum);
        let keys: Vec<i64> = (listed.iter())
            .filter(is_missing)
            .map(|(key, _)| *key)
            .collect();
        if !keys.is_empty() {
            missing.push(described(name, &keys, listed.len()));
        }
    }
    match missing.is_empty() {
        true => Ok(()),
        false => {
            let what = format!(
                "{}; its log `{FILE_NAME}-wal` is damaged, missing or of another run",
                missing.join(", ")
            );
            Err(ResultsError::Incomplete { path, list, what })
        }
    }
}

/// Returns the number of records of a kind that are missing, with the first keys.
fn described(name: &str, keys: &[i64], listed: usize) -> String {
    let named: Vec<String> = keys.iter().take(MAX_NAMED).map(i64::to_string).collect();
    let more = if keys.len() > MAX_NAMED { ", …" } else { "" };
    let (missing, named) = (keys.len(), named.join(", "));
    format!("{missing} of the {listed} {name} that were stored are missing ({named}{more})")
}
