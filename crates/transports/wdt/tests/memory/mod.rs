//! Files in memory, as a source and as a sink.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use wdt_protocol::codec::FileHeader;
use wdt_protocol::path::RelativePath;
use wdt_protocol::sink::{Sink, SinkWriter};
use wdt_protocol::source::{Source, SourceFile, SourceReader};

/// Files in memory.
#[derive(Clone, Debug, Default)]
pub struct MemorySource {
    files: Vec<SourceFile>,
    contents: Vec<Arc<[u8]>>,
}

impl MemorySource {
    /// Returns a source without any file, to which [`MemorySource::add`] adds.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file.
    pub fn add(&mut self, path: RelativePath, content: impl Into<Arc<[u8]>>) {
        let content = content.into();
        self.files.push(SourceFile {
            path,
            size_bytes: content.len() as u64,
        });
        self.contents.push(content);
    }
}

impl Source for MemorySource {
    type Reader = MemoryReader;

    fn files(&self) -> &[SourceFile] {
        &self.files
    }

    fn open(&self, file: usize) -> io::Result<MemoryReader> {
        Ok(MemoryReader(self.contents[file].clone()))
    }
}

/// The content of one file of a [`MemorySource`].
#[derive(Clone, Debug)]
pub struct MemoryReader(Arc<[u8]>);

impl SourceReader for MemoryReader {
    fn read<'a>(
        &'a mut self,
        offset: u64,
        max: usize,
        _scratch: &'a mut [u8],
    ) -> io::Result<&'a [u8]> {
        let rest = usize::try_from(offset)
            .ok()
            .and_then(|offset| self.0.get(offset..));
        match rest {
            Some(rest) if !rest.is_empty() => Ok(&rest[..rest.len().min(max)]),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// Files in memory, by their paths.
#[derive(Clone, Debug, Default)]
pub struct MemorySink {
    files: Files,
    limit_bytes: u64,
}

type Files = Arc<Mutex<BTreeMap<RelativePath, (u64, Vec<u8>)>>>;

impl MemorySink {
    /// Returns a sink for files of at most `limit_bytes` each.
    #[must_use]
    pub fn new(limit_bytes: u64) -> Self {
        Self {
            files: Files::default(),
            limit_bytes,
        }
    }

    /// Removes all files.
    pub fn clear(&self) {
        self.files.lock().unwrap().clear();
    }

    /// Returns the files received so far.
    #[must_use]
    pub fn contents(&self) -> BTreeMap<RelativePath, Vec<u8>> {
        let files = self.files.lock().unwrap();
        files
            .iter()
            .map(|(path, (_, content))| (path.clone(), content.clone()))
            .collect()
    }
}

impl Sink for MemorySink {
    type Writer = MemoryWriter;

    fn begin(&self, block: &FileHeader) -> io::Result<MemoryWriter> {
        if block.file_size > self.limit_bytes {
            return Err(io::Error::other(format!(
                "`{}` has {} bytes, and at most {} are taken into memory",
                block.path, block.file_size, self.limit_bytes
            )));
        }
        let size = usize::try_from(block.file_size).map_err(io::Error::other)?;
        let mut files = self.files.lock().unwrap();
        let (sequence, _) = files
            .entry(block.path.clone())
            .or_insert_with(|| (block.sequence, vec![0; size]));
        if *sequence != block.sequence {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                format!("`{}` was sent as two files", block.path),
            ));
        }
        Ok(MemoryWriter {
            files: self.files.clone(),
            path: block.path.clone(),
        })
    }
}

/// Writer of one block into a [`MemorySink`].
#[derive(Debug)]
pub struct MemoryWriter {
    files: Files,
    path: RelativePath,
}

impl SinkWriter for MemoryWriter {
    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut files = self.files.lock().unwrap();
        let target = usize::try_from(offset).ok().and_then(|offset| {
            files
                .get_mut(&self.path)?
                .1
                .get_mut(offset..offset.checked_add(data.len())?)
        });
        match target {
            Some(target) => {
                target.copy_from_slice(data);
                Ok(())
            }
            None => Err(io::Error::other(format!(
                "{} bytes at {offset} are outside of `{}`",
                data.len(),
                self.path
            ))),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}
