//! Archive whose bytes depend on nothing but its content: a gzipped tar with a digest list at its end.

use std::{
    fs::File,
    io::{self, Read, Write},
    path::PathBuf,
};

use flate2::{Compression, GzBuilder, write::GzEncoder};
use sha2::{Digest as _, Sha256};
use tar::{Builder, EntryType, Header};

/// Name of the digest list.
pub const DIGESTS: &str = "SHA256SUMS";

/// Content of a file of the archive.
pub enum Content {
    /// Bytes in memory.
    Text(Vec<u8>),
    /// A file, which is read when it is added.
    File(PathBuf),
}

/// Archive that is being written.
pub struct Archive<'a, W: Write> {
    tar: Builder<GzEncoder<W>>,
    /// Directory of all files.
    directory: &'a str,
    /// Time of all files, in seconds since the Unix epoch.
    seconds: u64,
    digests: String,
}

impl<'a, W: Write> Archive<'a, W> {
    /// Begins an archive.
    pub fn new(out: W, directory: &'a str, seconds: u64) -> Self {
        // Without a name and a time in its head.
        let gzip = GzBuilder::new().mtime(0).write(out, Compression::default());
        Self {
            tar: Builder::new(gzip),
            directory,
            seconds,
            digests: String::new(),
        }
    }

    /// Adds a file and notes its digest.
    ///
    /// # Errors
    /// Errors of reading and writing.
    pub fn add(&mut self, name: &str, content: &Content) -> io::Result<()> {
        let digest = match content {
            Content::Text(bytes) => self.append(name, bytes.len() as u64, &mut &bytes[..])?,
            Content::File(path) => {
                let file = File::open(path)?;
                let length = file.metadata()?.len();
                // The header has the length: of a growing file no more is read.
                self.append(name, length, &mut file.take(length))?
            }
        };
        self.digests.push_str(&format!("{digest}  {name}\n"));
        Ok(())
    }

    /// Adds the digest list and ends the archive.
    ///
    /// # Errors
    /// Errors of writing.
    pub fn finish(mut self) -> io::Result<()> {
        let digests = std::mem::take(&mut self.digests);
        self.append(DIGESTS, digests.len() as u64, &mut digests.as_bytes())?;
        self.tar.into_inner()?.finish()?.flush()
    }

    /// Returns the digest of what was added, in hexadecimal.
    fn append(&mut self, name: &str, length: u64, content: &mut dyn Read) -> io::Result<String> {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_size(length);
        header.set_mode(0o644);
        header.set_mtime(self.seconds);
        header.set_uid(0);
        header.set_gid(0);
        let mut content = Digested {
            content,
            digest: Sha256::new(),
            length: 0,
        };
        let path = format!("{}/{name}", self.directory);
        self.tar.append_data(&mut header, path, &mut content)?;
        if content.length != length {
            return Err(io::Error::other(format!(
                "`{name}` became shorter while it was read"
            )));
        }
        let digest = content.digest.finalize();
        Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// Reader that computes the digest of what passes.
struct Digested<'a> {
    content: &'a mut dyn Read,
    digest: Sha256,
    length: u64,
}

impl Read for Digested<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.content.read(buffer)?;
        self.digest.update(&buffer[..read]);
        self.length += read as u64;
        Ok(read)
    }
}
