//! Errors as another process, or a person at a terminal, gets them.

use std::{error::Error, fmt, io, process::ExitCode};

use nix::{
    errno::Errno,
    sys::resource::{RLIM_INFINITY, Resource, getrlimit},
};
use regatta_model::{Problem, ProblemKind, Text, causes, reason, reasons};

/// Returns an error and its causes in one line.
#[must_use]
pub fn in_one_line(error: &dyn Error) -> String {
    causes(error).join(": ")
}

/// Returns the exit code of a process of this program, after printing an error with `doing` before it.
pub fn exit_code<E: fmt::Display>(result: Result<(), E>, doing: &str) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {doing}{error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the hint for a limit of this process, if one caused an error: nothing else helps against it. Such a limit says
/// nothing of what the machine can do.
#[must_use]
pub fn limit_hint(error: &(dyn Error + 'static)) -> Option<Text> {
    let io_error = error.downcast_ref::<io::Error>();
    let hint = match io_error
        .and_then(io::Error::raw_os_error)
        .map(Errno::from_raw)
    {
        Some(Errno::EMFILE) => reason::more_open_files(),
        // The stack of a thread, too.
        Some(Errno::ENOMEM | Errno::EAGAIN) if is_limited(Resource::RLIMIT_AS) => {
            reason::more_memory()
        }
        Some(Errno::EAGAIN) if is_limited(Resource::RLIMIT_NPROC) => reason::more_threads(),
        Some(Errno::EFBIG) => reason::larger_files(),
        _ => {
            // The source of an `io::Error` made of another error is the source of that one, not the error itself.
            let inner = io_error.and_then(io::Error::get_ref);
            return limit_hint(inner.map_or_else(|| error.source(), |inner| Some(inner))?);
        }
    };
    Some(hint.into())
}

/// Returns the problem that an error is to another process: what a limit of this process causes is not `kind` but a failure,
/// with the hint for the limit.
#[must_use]
pub fn problem(kind: ProblemKind, error: &(dyn Error + 'static), hint: impl Into<Text>) -> Problem {
    match limit_hint(error) {
        Some(hint) => Problem::new(ProblemKind::Failed, reasons(error), hint),
        None => Problem::new(kind, reasons(error), hint),
    }
}

/// Whether a resource of this process has a limit.
#[must_use]
pub fn is_limited(resource: Resource) -> bool {
    getrlimit(resource).is_ok_and(|(limit, _)| limit != RLIM_INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_found_inside_another_io_error() {
        let limit = io::Error::from(Errno::EMFILE);
        let error = io::Error::other(io::Error::other(limit));
        let problem = problem(ProblemKind::Unsupported, &error, "");
        assert_eq!(problem.kind, ProblemKind::Failed);
        assert_eq!(
            problem.hint.to_string(),
            reason::more_open_files().to_string()
        );
    }
}
