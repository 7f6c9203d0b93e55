//! Directory of a run's results.

use std::{
    io,
    path::{Path, PathBuf},
};

use jiff::{Timestamp, tz::TimeZone};
use nix::errno::Errno;
use regatta_model::shell::quoted;
use regatta_results::{DEFAULT_DIRECTORY, FILE_NAME, ResultsError, leftover};

use crate::exit::{Failure, OrFailure as _};

/// Directory in which runs leave their results unless another is asked for.
pub const RESULTS: &str = DEFAULT_DIRECTORY;

/// The directory of a run that is named by it or by the results file in it.
pub fn of_run(named: &Path) -> &Path {
    match named.parent() {
        Some(dir) if named.ends_with(FILE_NAME) && named.is_file() => {
            match dir.as_os_str().is_empty() {
                true => Path::new("."),
                false => dir,
            }
        }
        _ => named,
    }
}

/// Checks that a directory can be made for a new run; nothing that it makes stays.
///
/// # Errors
/// If the directory that was asked for holds a run or something of one already, or if it cannot be
/// made or written.
pub fn check(asked: Option<&Path>) -> Result<(), Failure> {
    let dir = asked.unwrap_or(Path::new(RESULTS));
    absolute(dir)?;
    match asked.and_then(leftover) {
        None => {}
        Some(found) if found == FILE_NAME => {
            return Err(Failure::input(
                format!("`{}` holds the results of a run already", dir.display()),
                format!(
                    "run `regatta resume {}` to go on with it, or choose another directory with `--out`",
                    quoted(dir)
                ),
            ));
        }
        Some(found) => {
            return Err(Failure::bad(ResultsError::AlreadyExists {
                dir: dir.to_owned(),
                found,
            }));
        }
    }
    check_writable(dir)
}

/// Checks that files can be made in a directory, or the directory in the nearest one above that is
/// there: by making a directory there and removing it, since some file systems refuse what their
/// permissions allow.
fn check_writable(dir: &Path) -> Result<(), Failure> {
    let mut missing = dir;
    for above in dir.ancestors() {
        let above = match above.as_os_str().is_empty() {
            true => Path::new("."),
            false => above,
        };
        match above.metadata() {
            // What is there and leads nowhere is a link.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if above.symlink_metadata().is_ok() {
                    return Err(cannot_make(dir, Errno::EEXIST.into()));
                }
                missing = above;
            }
            Err(error) => return Err(cannot_make(dir, error)),
            Ok(metadata) if !metadata.is_dir() => {
                return Err(cannot_make(dir, Errno::ENOTDIR.into()));
            }
            Ok(_) if above == dir => {
                let trial = above.join(format!(".regatta-{}", std::process::id()));
                return try_to_make(&trial).map_err(|error| {
                    let what = format!("cannot write to the directory `{}`", dir.display());
                    cannot(what, error)
                });
            }
            Ok(_) => return try_to_make(missing).map_err(|error| cannot_make(dir, error)),
        }
    }
    Ok(())
}

/// Makes a directory and removes it again. Another run may make the same one meanwhile, and have put
/// something into it.
fn try_to_make(dir: &Path) -> io::Result<()> {
    match std::fs::create_dir(dir) {
        Ok(()) => {
            let _ = std::fs::remove_dir(dir);
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Makes the directory for a new run that [`check`] has found possible: the one that was asked for, or
/// a new one named after the study and the time.
///
/// # Errors
/// If it cannot be made.
pub fn make(asked: Option<&Path>, study: &str) -> Result<PathBuf, Failure> {
    match asked {
        Some(dir) => {
            std::fs::create_dir_all(dir).map_err(|error| cannot_make(dir, error))?;
            Ok(dir.to_owned())
        }
        None => {
            let time = Timestamp::now()
                .to_zoned(TimeZone::UTC)
                .strftime("%Y%m%dT%H%M%SZ")
                .to_string();
            let parent = Path::new(RESULTS);
            std::fs::create_dir_all(parent).map_err(|error| cannot_make(parent, error))?;
            // Another run may start in the same second.
            let mut name = format!("{study}-{time}");
            for n in 2.. {
                let dir = parent.join(&name);
                match std::fs::create_dir(&dir) {
                    Ok(()) => return Ok(dir),
                    Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                        name = format!("{study}-{time}-{n}");
                    }
                    Err(error) => return Err(cannot_make(&dir, error)),
                }
            }
            unreachable!("one of all numbers is free")
        }
    }
}

/// Returns the absolute path, which the processes of a run receive as text.
///
/// # Errors
/// The path is not text, or there is no working directory.
pub fn absolute(path: &Path) -> Result<PathBuf, Failure> {
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

fn cannot_make(dir: &Path, error: std::io::Error) -> Failure {
    cannot(
        format!("cannot make the result directory `{}`", dir.display()),
        error,
    )
}

fn cannot(what: String, error: std::io::Error) -> Failure {
    Failure::bad(error)
        .context(what)
        .hint("choose another directory with `--out`")
}
