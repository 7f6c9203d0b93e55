//! Directory of a run's results.

use std::{
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use jiff::{Timestamp, tz::TimeZone};
use nix::errno::Errno;
use regatta_model::{reason, shell::quoted};
use regatta_results::{DEFAULT_DIRECTORY, FILE_NAME, ResultsError, leftover};

use crate::exit::{Failure, OrFailure as _, Result};

/// Default directory of the results of runs.
pub const RESULTS: &str = DEFAULT_DIRECTORY;

/// The directory of a run that is named by it or by the results file in it.
pub fn of_run(named: &Path) -> &Path {
    match named.parent() {
        Some(dir) if named.ends_with(FILE_NAME) && named.is_file() => or_here(dir),
        _ => named,
    }
}

/// Returns the working directory for the empty path, which is above every relative one.
fn or_here(dir: &Path) -> &Path {
    match dir.as_os_str().is_empty() {
        true => Path::new("."),
        false => dir,
    }
}

/// Checks that a directory can be made for a new run; nothing that it makes stays.
///
/// # Errors
/// If the requested directory holds a run or something of one already, or if it cannot be
/// made or written.
pub fn check(requested: Option<&Path>) -> Result<()> {
    let dir = requested.unwrap_or(Path::new(RESULTS));
    absolute(dir)?;
    let shown = dir.display();
    match requested.and_then(leftover) {
        None => check_writable(dir),
        Some(found) if found == FILE_NAME => Err(Failure::input(
            format!("`{shown}` holds the results of a run already"),
            reason::resume_or_other_directory(&quoted(dir)),
        )),
        Some(found) => Err(Failure::bad(ResultsError::AlreadyExists {
            dir: dir.to_owned(),
            found,
        })),
    }
}

/// Checks that files can be made in a directory, or the directory in the nearest one above that is
/// there: by making a directory there and removing it, since some file systems refuse what their
/// permissions allow.
fn check_writable(dir: &Path) -> Result<()> {
    let mut missing = dir;
    for above in dir.ancestors().map(or_here) {
        match above.metadata() {
            // An entry without a target is a dangling link.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if above.symlink_metadata().is_ok() {
                    return with_context(dir, Err(Errno::EEXIST.into()));
                }
                missing = above;
            }
            Err(error) => return with_context(dir, Err(error)),
            Ok(metadata) if !metadata.is_dir() => {
                return with_context(dir, Err(Errno::ENOTDIR.into()));
            }
            Ok(_) if above == dir => {
                let trial = above.join(format!(".regatta-{}", std::process::id()));
                let tried = try_to_make(&trial).bad();
                return tried
                    .cannot("write to the directory", dir)
                    .hint(reason::other_directory());
            }
            Ok(_) => return with_context(dir, try_to_make(missing)),
        }
    }
    Ok(())
}

/// Makes a directory and removes it again. Another run may make the same one meanwhile, and have put
/// something into it.
fn try_to_make(dir: &Path) -> io::Result<()> {
    match fs::create_dir(dir) {
        Ok(()) => drop(fs::remove_dir(dir)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Makes the directory for a new run that [`check`] has found possible: the requested one, or
/// a new one named after the study and the time.
///
/// # Errors
/// If it cannot be made.
pub fn make(requested: Option<&Path>, study: &str) -> Result<PathBuf> {
    if let Some(dir) = requested {
        with_context(dir, fs::create_dir_all(dir))?;
        return Ok(dir.to_owned());
    }
    let first = new_name(study, Timestamp::now());
    let parent = Path::new(RESULTS);
    with_context(parent, fs::create_dir_all(parent))?;
    let mut dir = parent.join(&first);
    // Another run may start in the same second.
    for n in 2.. {
        match fs::create_dir(&dir) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                dir = parent.join(format!("{first}-{n}"));
            }
            result => {
                with_context(&dir, result)?;
                break;
            }
        }
    }
    Ok(dir)
}

/// Returns the name of the directory of a run that begins at this time, which is the same in every time zone.
fn new_name(study: &str, begun: Timestamp) -> String {
    let time = begun.to_zoned(TimeZone::UTC);
    format!("{study}-{}", time.strftime("%Y%m%dT%H%M%SZ"))
}

/// Returns the absolute path, which the processes of a run receive as text.
///
/// # Errors
/// The path is not text, or there is no working directory.
pub fn absolute(path: &Path) -> Result<PathBuf> {
    let absolute = std::path::absolute(path)
        .bad()
        .context(format!("`{}` names nothing", path.display()))?;
    match absolute.to_str() {
        Some(_) => Ok(absolute),
        None => Err(Failure::input(
            format!("the name `{}` is not UTF-8", absolute.display()),
            "choose another directory whose name is UTF-8",
        )),
    }
}

/// Names the directory in the error of an operation that makes it.
fn with_context(dir: &Path, result: io::Result<()>) -> Result<()> {
    result
        .bad()
        .cannot("make the result directory", dir)
        .hint(reason::other_directory())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `make tests` runs in a time zone that is not UTC.
    #[test]
    fn the_name_of_a_new_run_has_the_time_in_utc() {
        assert_eq!(
            new_name("race", Timestamp::UNIX_EPOCH),
            "race-19700101T000000Z"
        );
    }
}
