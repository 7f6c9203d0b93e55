//! File of white noise, made once on a host and read in every transfer that asks for it.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
};

use bytes::{Bytes, BytesMut};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use regatta_model::{directories, reason};

use crate::error::{Result, TransportError};

/// Seed of the noise: the same on every host, so that two of them send the same file.
const SEED: u64 = 0x7265_6761_7474_6121;

/// Bytes that are made and written at a time.
const PIECE_BYTES: usize = 1 << 20;

/// The open file.
#[derive(Debug)]
pub(crate) struct Noise {
    file: File,
    path: PathBuf,
}

/// Returns the directory of the file, in which Regatta keeps other things for this user as well.
fn directory() -> PathBuf {
    directories::cache().unwrap_or_else(|| "/var/tmp/regatta".into())
}

/// Returns the path of the file of white noise of this size.
fn noise_file(size: u64) -> PathBuf {
    directory().join(format!("noise-{size}.bin"))
}

/// Whether the file of white noise of this size, in bytes, exists.
#[must_use]
pub fn has_noise_file(size: u64) -> bool {
    fs::metadata(noise_file(size)).is_ok_and(|file| file.size() == size)
}

/// Creates the file of white noise of this size, in bytes, unless it exists: for a guest, which can read the files of
/// this machine and write none. Gives up once `is_stopped` returns true.
///
/// # Errors
/// [`TransportError::Unsupported`] where there is no room, [`TransportError::Cancelled`], [`TransportError::Io`].
pub fn make_noise_file(size: u64, is_stopped: &dyn Fn() -> bool) -> Result<()> {
    if has_noise_file(size) {
        return Ok(());
    }
    let path = noise_file(size);
    let Err(error) = make(&path, size, is_stopped) else {
        return Ok(());
    };
    let shown = path.display().to_string();
    match error.raw_os_error() {
        _ if is_stopped() => Err(TransportError::Cancelled),
        Some(libc::ENOSPC) => Err(TransportError::unsupported(
            reason::no_room_for_file(&shown, regatta_model::Bytes(size)),
            reason::free_some_room(),
        )),
        _ => Err(TransportError::io(reason::cannot_make_file(&shown))(error)),
    }
}

/// Makes the file under another name first, so that a file with the right name is always whole.
fn make(path: &Path, size: u64, is_stopped: &dyn Fn() -> bool) -> io::Result<()> {
    let directory = path.parent().unwrap_or_else(|| Path::new("/"));
    fs::create_dir_all(directory)?;
    // Nobody knows its name, and half of it is removed: it would only take room.
    let mut file = tempfile::Builder::new()
        .prefix("noise-")
        .suffix(".part")
        .tempfile_in(directory)?;
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let mut piece = vec![0; PIECE_BYTES];
    let mut left = size;
    while left > 0 {
        if is_stopped() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        random.fill(&mut piece[..]);
        let part = left.min(PIECE_BYTES as u64) as usize;
        file.write_all(&piece[..part])?;
        left -= part as u64;
    }
    file.persist(path)?;
    Ok(())
}

impl Noise {
    /// Opens the file of `size` bytes, and makes it first if it is not there.
    pub(crate) fn of(size: u64) -> Result<Self> {
        make_noise_file(size, &|| false)?;
        let path = noise_file(size);
        let shown = path.display().to_string();
        let file =
            File::open(&path).map_err(TransportError::io(reason::cannot_open_file(&shown)))?;
        Ok(Self { file, path })
    }

    /// Returns the file's name as shown in results: without directories, which differ between
    /// hosts.
    pub(crate) fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Reads `length` bytes at `offset`. `memory` is used again once nobody holds what was read
    /// before.
    pub(crate) fn read(&self, memory: &mut BytesMut, offset: u64, length: usize) -> Result<Bytes> {
        memory.resize(length, 0);
        let read = self.file.read_exact_at(memory, offset);
        let failed = || reason::cannot_read_file(&self.path.display().to_string());
        read.map_err(|error| TransportError::io(failed())(error))?;
        Ok(memory.split().freeze())
    }
}
