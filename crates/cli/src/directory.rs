//! Directory of a run's results.

use std::path::{Path, PathBuf};

use jiff::{Timestamp, tz::TimeZone};
use nix::{
    fcntl::{AT_FDCWD, AtFlags},
    unistd::{AccessFlags, faccessat},
};
use regatta_model::shell::quoted;
use regatta_results::{FILE_NAME, ResultsError, leftover};

use crate::exit::Failure;

/// Directory for the results of runs without `--out`.
pub const RESULTS: &str = "regatta-results";

/// Creates the directory for a new run: `asked`, or a new one named after the study and the time.
/// Files of an earlier run are never changed.
///
/// # Errors
/// The directory already holds files of a run, or cannot be created or written.
pub fn make(asked: Option<&Path>, study: &str) -> Result<PathBuf, Failure> {
    absolute(asked.unwrap_or(Path::new(RESULTS)))?;
    match asked {
        Some(dir) => {
            match leftover(dir) {
                None => {}
                Some(found) if found == FILE_NAME => {
                    return Err(Failure::input(
                        format!("`{}` holds the results of a run already", dir.display()),
                        format!(
                            "run `regatta resume {}` to go on with it, or choose another `--out`",
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
            std::fs::create_dir_all(dir).map_err(|error| cannot_make(dir, error))?;
            faccessat(
                AT_FDCWD,
                dir,
                AccessFlags::W_OK | AccessFlags::X_OK,
                AtFlags::AT_EACCESS,
            )
            .map_err(|errno| {
                cannot(
                    format!("cannot write to the directory `{}`", dir.display()),
                    errno.into(),
                )
            })?;
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
    let absolute = std::path::absolute(path).map_err(|error| {
        Failure::bad(error).context(format!("`{}` names nothing", path.display()))
    })?;
    match absolute.to_str() {
        Some(_) => Ok(absolute),
        None => Err(Failure::input(
            format!("the name `{}` is not UTF-8", absolute.display()),
            "choose another directory whose name is",
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
        .hint("choose another one with `--out DIR`")
}
