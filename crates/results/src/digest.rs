//! SHA-256 of the results file of a shard, in a file beside it in the form of `sha256sum`.
//!
//! The checksums of records cover what is stored; this one covers every byte, also those that no record has. A shard
//! that was killed has none.

use std::{
    convert::identity,
    fs::{self, File},
    io::{self, Read as _},
    path::Path,
};

use regatta_process::read_regular;
use sha2::{Digest as _, Sha256};

use crate::{FILE_NAME, ResultsError, explain::explain_io, open::beside, replace};

/// End of the name of the file with the digest.
const SUFFIX: &str = ".sha256";

/// Writes the digest of a file that is not written to any more.
pub(crate) fn write(path: &Path) -> io::Result<()> {
    let digest = of(path)?;
    replace(&beside(path, SUFFIX), identity, |out| {
        writeln!(out, "{digest}  {FILE_NAME}")
    })
}

/// Removes the digest of a file that is going to change.
pub(crate) fn remove(path: &Path) -> Result<(), ResultsError> {
    let beside = beside(path, SUFFIX);
    // On a read-only medium also the removal of a file that is not there fails.
    match beside.exists() {
        true => fs::remove_file(&beside).map_err(|e| explain_io(e, "remove", &beside)),
        false => Ok(()),
    }
}

/// Compares a file with its digest, if it has one.
///
/// # Errors
/// [`ResultsError::Damaged`], or an error of reading.
pub(crate) fn check(path: &Path) -> Result<(), ResultsError> {
    let beside = beside(path, SUFFIX);
    let stored = match read_regular(&beside) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        stored => stored.map_err(|e| explain_io(e, "read", &beside))?,
    };
    let found = of(path).map_err(|e| explain_io(e, "read", path))?;
    match stored.split_whitespace().next() == Some(found.as_str()) {
        true => Ok(()),
        false => Err(ResultsError::Damaged {
            path: path.to_owned(),
            what: format!("its SHA-256 is not that of `{}`", beside.display()),
        }),
    }
}

/// Returns the SHA-256 of a file, hexadecimal.
fn of(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => digest.update(&buffer[..read]),
        }
    }
    let digest = digest.finalize();
    Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}
