//! Regatta's own file in the form in which it is sent to hosts: without debugging information, compressed,
//! known by its digest.

use std::{
    fs,
    io::{self, Write as _},
    num::NonZero,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

use flate2::{Compression, write::GzEncoder};
use regatta_process::{StopRequest, spawn_scoped};
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use crate::cache::{hexadecimal, mark_used, prune, replace};

/// Directory of the files that were sent, in the cache of a host's user.
pub(crate) const HOST_CACHE: &str = "regatta/agents";

/// Bytes that are compressed between two checks of the stop request: some milliseconds.
const CHUNK_BYTES: usize = 1 << 18;

/// Errors of preparing the file.
#[derive(Debug, thiserror::Error)]
#[error("cannot {step} `{}`", path.display())]
pub struct AgentFileError {
    step: &'static str,
    path: PathBuf,
    source: io::Error,
}

fn failed(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> AgentFileError {
    let path = path.to_owned();
    move |source| AgentFileError { step, path, source }
}

/// File to send.
#[derive(Debug, Clone)]
pub struct AgentFile {
    /// SHA-256 of the file as it is executed, hexadecimal.
    pub digest: String,
    /// The file, compressed by gzip.
    pub compressed: PathBuf,
    /// SHA-256 of the compressed file, hexadecimal.
    pub compressed_digest: String,
    /// Size of the compressed file.
    pub compressed_bytes: u64,
}

impl AgentFile {
    /// Prepares the file of a program, or finds it prepared in the directory `cache`. Debugging information is
    /// removed if there is a `strip`.
    ///
    /// # Errors
    /// [`AgentFileError`] if a file cannot be read or written, or at the stop.
    pub fn prepare(
        executable: &Path,
        cache: &Path,
        stop: &StopRequest,
    ) -> Result<Self, AgentFileError> {
        let metadata = fs::metadata(executable).map_err(failed("read", executable))?;
        fs::create_dir_all(cache).map_err(failed("create the directory", cache))?;
        let key = format!(
            "{:x}-{:x}-{:x}-{:x}",
            metadata.dev(),
            metadata.ino(),
            metadata.size(),
            metadata.mtime_nsec() ^ metadata.mtime()
        );
        let compressed = cache.join(format!("{key}.gz"));
        let digest_file = cache.join(format!("{key}.sha256"));
        // One that was damaged since is made again.
        if let (Ok(known), Ok(content)) = (fs::read_to_string(&digest_file), fs::read(&compressed))
            && let [digest, compressed_digest, _] = known.split(' ').collect::<Vec<_>>()[..]
            && known == entry(digest, compressed_digest)
            && digest_of(&content, stop).map_err(failed("read", &compressed))? == compressed_digest
        {
            mark_used(&compressed);
            return Ok(Self {
                digest: digest.to_owned(),
                compressed,
                compressed_digest: compressed_digest.to_owned(),
                compressed_bytes: content.len() as u64,
            });
        }
        let temporary = NamedTempFile::new_in(cache).map_err(failed("write to", cache))?;
        let (digest, content) = Self::strip_and_compress(executable, temporary.path(), stop)?;
        let compressed_digest = digest_of(&content, stop).map_err(failed("read", executable))?;
        replace(cache, &compressed, &content).map_err(failed("write", &compressed))?;
        // Written last: it marks the entry as complete.
        let known = entry(&digest, &compressed_digest);
        replace(cache, &digest_file, known.as_bytes()).map_err(failed("write", &digest_file))?;
        prune(cache, |path| fs::remove_file(path));
        Ok(Self {
            digest,
            compressed,
            compressed_digest,
            compressed_bytes: content.len() as u64,
        })
    }

    /// Returns the digest of the file and its compressed content; `stripped` is the name of a temporary file.
    fn strip_and_compress(
        executable: &Path,
        stripped: &Path,
        stop: &StopRequest,
    ) -> Result<(String, Vec<u8>), AgentFileError> {
        let strip = Command::new("strip")
            .arg("-o")
            .args([stripped, executable])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let stripping = strip.and_then(|mut strip| {
            stop.kills(strip.id());
            strip.wait()
        });
        let is_stripped = stripping.is_ok_and(|status| status.success());
        let source = if is_stripped { stripped } else { executable };
        check_stop(stop).map_err(failed("strip", executable))?;
        let content = fs::read(source).map_err(failed("read", source))?;
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        thread::scope(|scope| {
            let parts = content.chunks(content.len().div_ceil(cores).max(1));
            let parts: Vec<_> = parts
                .map(|part| spawn_scoped(scope, || compress(part, stop)))
                .collect::<io::Result<_>>()
                .map_err(failed("start a thread for", source))?;
            let digest = digest_of(&content, stop).map_err(failed("read", source))?;
            let mut output = Vec::new();
            for part in parts {
                let part = part.join();
                let part = part.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                output.extend(part.map_err(failed("compress", source))?);
            }
            Ok((digest, output))
        })
    }
}

/// Returns the entry of the digests of a file: both, and their own digest.
fn entry(digest: &str, compressed_digest: &str) -> String {
    let digests = format!("{digest} {compressed_digest}");
    format!("{digests} {}", hexadecimal(&Sha256::digest(&digests)))
}

fn check_stop(stop: &StopRequest) -> io::Result<()> {
    match stop.is_requested() {
        true => Err(io::Error::other("stopped by the user")),
        false => Ok(()),
    }
}

/// Returns the SHA-256 of these bytes, hexadecimal.
fn digest_of(content: &[u8], stop: &StopRequest) -> io::Result<String> {
    let mut digest = Sha256::new();
    for chunk in content.chunks(CHUNK_BYTES) {
        check_stop(stop)?;
        digest.update(chunk);
    }
    Ok(hexadecimal(&digest.finalize()))
}

/// Compresses a part of a file. `gzip` reads concatenated parts as one file.
fn compress(part: &[u8], stop: &StopRequest) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(4));
    for chunk in part.chunks(CHUNK_BYTES) {
        check_stop(stop)?;
        encoder.write_all(chunk)?;
    }
    encoder.finish()
}

/// Marks this program as used, if it was sent to this host. Removes from its cache files that were not used for a long
/// time. Errors are ignored.
pub fn tidy_cache() {
    if let Ok(executable) = std::env::current_exe()
        && let Some(cache) = executable.parent()
        && cache.ends_with(HOST_CACHE)
    {
        mark_used(&executable);
        prune(cache, |path| fs::remove_file(path));
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Read};

    use flate2::read::MultiGzDecoder;

    use super::*;

    #[test]
    fn file_is_prepared_again_only_after_a_change() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("program");
        let cache = directory.path().join("cache");
        let stop = StopRequest::default();
        fs::write(&program, "#!/bin/sh\n").unwrap();
        let first = AgentFile::prepare(&program, &cache, &stop).unwrap();
        let mut content = String::new();
        MultiGzDecoder::new(File::open(&first.compressed).unwrap())
            .read_to_string(&mut content)
            .unwrap();
        assert_eq!(content, "#!/bin/sh\n");
        assert_eq!(
            first.digest,
            "a8076d3d28d21e02012b20eaf7dbf75409a6277134439025f282e368e3305abf"
        );
        let again = AgentFile::prepare(&program, &cache, &stop).unwrap();
        assert_eq!(again.compressed, first.compressed);
        let written = || fs::metadata(&first.compressed).unwrap().ino();
        let kept = written();
        AgentFile::prepare(&program, &cache, &stop).unwrap();
        assert_eq!(written(), kept);
        fs::write(&program, "#!/bin/sh\nexit 1\n").unwrap();
        let other = AgentFile::prepare(&program, &cache, &stop).unwrap();
        assert_ne!(other.digest, first.digest);
    }

    #[test]
    fn a_damaged_copy_is_made_again() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("program");
        let cache = directory.path().join("cache");
        let stop = StopRequest::default();
        fs::write(&program, "#!/bin/sh\n").unwrap();
        let first = AgentFile::prepare(&program, &cache, &stop).unwrap();
        let whole = fs::read(&first.compressed).unwrap();
        let digests = first.compressed.with_extension("sha256");
        let mut flipped = whole.clone();
        flipped[whole.len() / 2] ^= 1;
        for damaged in [&whole[..whole.len() / 2], &flipped, &[]] {
            fs::write(&first.compressed, damaged).unwrap();
            let again = AgentFile::prepare(&program, &cache, &stop).unwrap();
            assert_eq!(fs::read(&again.compressed).unwrap(), whole);
            assert_eq!(again.compressed_bytes, whole.len() as u64);
        }
        let known = fs::read_to_string(&digests).unwrap();
        let other = known.replacen(&first.digest[..1], "x", 1);
        for damaged in [&known[..10], &other] {
            fs::write(&digests, damaged).unwrap();
            let again = AgentFile::prepare(&program, &cache, &stop).unwrap();
            assert_eq!(again.digest, first.digest);
        }
    }
}
