//! The trial's content as files: generated in memory or read from a file at the sender, checked and
//! discarded at the receiver.

use std::{collections::HashMap, io, sync::Arc};

use regatta_transport::{
    TransportError,
    transfer::{Incoming, IncomingPart, Outgoing, OutgoingPart},
};
use wdt_protocol::{
    codec::FileHeader,
    path::RelativePath,
    sink::{Sink, SinkWriter},
    source::{Source, SourceFile, SourceReader},
};

/// Files per directory.
const DIRECTORY_FILES: u64 = 1000;

/// Returns the files that content of `bytes` is cut into, the same at both ends, and the offset of
/// each in the content.
pub(crate) fn files(bytes: u64, count: u64) -> Vec<(SourceFile, u64)> {
    let mut start = 0;
    let mut files = Vec::new();
    for number in 0..count {
        let path = match count {
            1 => "content".to_owned(),
            _ => format!("{:03}/{number:06}", number / DIRECTORY_FILES),
        };
        let Ok(path) = RelativePath::new(path.as_bytes()) else {
            unreachable!("a path of digits leads nowhere else");
        };
        // The first ones have one byte more where it does not divide.
        let size_bytes = bytes / count + u64::from(number < bytes % count);
        files.push((SourceFile { path, size_bytes }, start));
        start += size_bytes;
    }
    files
}

/// Source of the content at the sender.
pub(crate) struct ContentSource {
    outgoing: Arc<Outgoing>,
    files: Vec<SourceFile>,
    starts: Vec<u64>,
}

impl ContentSource {
    pub(crate) fn new(outgoing: &Arc<Outgoing>, count: u64) -> Self {
        let (files, starts) = files(outgoing.size(), count).into_iter().unzip();
        Self {
            outgoing: Arc::clone(outgoing),
            files,
            starts,
        }
    }
}

impl Source for ContentSource {
    type Reader = ContentReader;

    fn files(&self) -> &[SourceFile] {
        &self.files
    }

    fn open(&self, file: usize) -> io::Result<ContentReader> {
        let start = self.starts[file];
        Ok(ContentReader {
            part: self.outgoing.part(start),
            start,
            size: self.files[file].size_bytes,
        })
    }
}

/// Reader of one block.
pub(crate) struct ContentReader {
    part: OutgoingPart,
    start: u64,
    size: u64,
}

impl SourceReader for ContentReader {
    fn read<'a>(
        &'a mut self,
        offset: u64,
        max: usize,
        scratch: &'a mut [u8],
    ) -> io::Result<&'a [u8]> {
        let left = self.size.saturating_sub(offset);
        let max = usize::try_from(left).unwrap_or(usize::MAX).min(max);
        if max == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.part
            .read(self.start + offset, max, scratch)
            .map_err(failed)
    }
}

fn failed(error: TransportError) -> io::Error {
    match error {
        TransportError::Io { source, .. } => source,
        error => io::Error::other(error.to_string()),
    }
}

/// Destination of the content at the receiver.
pub(crate) struct ContentSink {
    incoming: Arc<Incoming>,
    files: HashMap<RelativePath, (u64, u64)>,
}

impl ContentSink {
    pub(crate) fn new(incoming: &Arc<Incoming>, count: u64) -> Self {
        let files = files(incoming.size(), count).into_iter();
        Self {
            incoming: Arc::clone(incoming),
            files: files
                .map(|(file, start)| (file.path, (file.size_bytes, start)))
                .collect(),
        }
    }
}

impl Sink for ContentSink {
    type Writer = ContentWriter;

    fn begin(&self, block: &FileHeader) -> io::Result<ContentWriter> {
        match self.files.get(&block.path) {
            Some((size, start)) if *size == block.file_size => Ok(ContentWriter {
                // An empty rest begins where another block may be.
                part: (block.length > 0).then(|| self.incoming.part(start + block.offset)),
                at: block.offset,
            }),
            _ => Err(io::Error::other(format!(
                "`{}` with {} bytes is no file of this trial",
                block.path, block.file_size
            ))),
        }
    }
}

/// Writer of one block.
pub(crate) struct ContentWriter {
    part: Option<IncomingPart>,
    at: u64,
}

impl SinkWriter for ContentWriter {
    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        match &mut self.part {
            Some(part) if offset == self.at => {
                self.at += data.len() as u64;
                part.take(data).map_err(failed)
            }
            None if data.is_empty() => Ok(()),
            _ => Err(io::Error::other("a block did not come front to back")),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        self.part = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_cover_the_content_with_sizes_equal_within_a_byte() {
        for (bytes, count) in [(0, 1), (0, 3), (10, 1), (10, 3), (2, 5), (1_000_000, 2500)] {
            let files = files(bytes, count);
            assert_eq!(files.len() as u64, count);
            let mut end = 0;
            for (file, start) in &files {
                assert_eq!(*start, end);
                assert!((bytes / count..=bytes / count + 1).contains(&file.size_bytes));
                end += file.size_bytes;
            }
            assert_eq!(end, bytes);
        }
        let paths = files(10, 2500);
        assert_eq!(paths[2499].0.path.as_bytes(), b"002/002499");
    }
}
