//! State that is kept of a program as long as its file stays the same: its description, its digest, and an idle process of one with the
//! capability `repeat`. An interpreter that has to be started, and load its modules, for each answer and each trial
//! would take most of the time between trials.

use std::{
    collections::HashMap,
    fs,
    path::Path,
    sync::LazyLock,
    time::{Duration, SystemTime},
};

use parking_lot::Mutex;
use regatta_model::{Text, reason};
use regatta_transport::Stop;
use sha2::{Digest as _, Sha256};

use crate::{
    contract::{CONTRACT_VERSION, Description, FromProgram, REPEAT, ToProgram},
    error::{ProgramError, ProgramFailure},
    program::{Command, Program},
};

/// Time in which a program must send its description.
const DESCRIBE_LIMIT: Duration = Duration::from_secs(5);

/// Time in which the program must end after that.
const END_LIMIT: Duration = Duration::from_secs(1);

/// A program, with the modification time and length of its file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    command: Command,
    file: Option<(Option<SystemTime>, u64)>,
}

impl Key {
    fn new(command: &Command) -> Self {
        let file = fs::metadata(&command.program).ok();
        Self {
            command: command.clone(),
            file: file.map(|file| (file.modified().ok(), file.len())),
        }
    }
}

static DESCRIPTIONS: LazyLock<Mutex<HashMap<Key, Description>>> = LazyLock::new(Mutex::default);

static DIGESTS: LazyLock<Mutex<HashMap<Key, String>>> = LazyLock::new(Mutex::default);

static IDLE: LazyLock<Mutex<HashMap<Key, Program>>> = LazyLock::new(Mutex::default);

/// Starts a program, or takes its idle process. Its events are put into its inbox, until `stop` is raised.
///
/// With `directory` it keeps its standard error in a file there, and a program that is started for this trial alone has it as
/// its working directory.
pub(crate) fn start(
    command: &Command,
    directory: Option<&Path>,
    stop: &Stop,
) -> Result<Program, ProgramError> {
    let idle = IDLE.lock().remove(&Key::new(command));
    match idle.and_then(|program| program.renew(directory, stop)) {
        Some(program) => Ok(program),
        None => Program::start(command, directory, stop),
    }
}

/// Ends the trial of `program`, which was started with this command, and keeps its process if it has
/// the capability `repeat`; returns a description of its end if that was not a success. It is killed after `within` at
/// the latest.
pub(crate) fn finish(
    program: Program,
    description: &Description,
    command: &Command,
    within: Duration,
) -> Option<Text> {
    if !description.can(REPEAT) {
        return program.finish(within);
    }
    match program.end_trial(within) {
        Ok(program) => {
            IDLE.lock().insert(Key::new(command), program);
            None
        }
        Err(reason) => Some(reason),
    }
}

/// Returns the description of a program, from the cache or by starting the program.
pub(crate) fn describe(command: &Command, stop: &Stop) -> Result<Description, ProgramFailure> {
    let key = Key::new(command);
    if let Some(description) = DESCRIPTIONS.lock().get(&key) {
        return Ok(description.clone());
    }
    let (description, program) = query(command, stop)?;
    if description.can(REPEAT) {
        IDLE.lock().insert(key.clone(), program);
    } else {
        program.finish(END_LIMIT);
    }
    DESCRIPTIONS.lock().insert(key, description.clone());
    Ok(description)
}

/// Returns the description of a program that was asked for it before.
pub(crate) fn known(command: &Command) -> Option<Description> {
    DESCRIPTIONS.lock().get(&Key::new(command)).cloned()
}

/// Returns the SHA-256 of the file of a program, hexadecimal; `None` if it cannot be read.
pub(crate) fn digest(command: &Command) -> Option<String> {
    let key = Key::new(command);
    if let Some(digest) = DIGESTS.lock().get(&key) {
        return Some(digest.clone());
    }
    let digest = Sha256::digest(fs::read(&command.program).ok()?);
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    DIGESTS.lock().insert(key, digest.clone());
    Some(digest)
}

fn query(command: &Command, stop: &Stop) -> Result<(Description, Program), ProgramFailure> {
    let mut program = Program::start(command, None, stop)?;
    program.send(&ToProgram::Describe {
        contract: CONTRACT_VERSION,
    })?;
    let when = reason::when_describing();
    let description =
        program.await_message("description", DESCRIBE_LIMIT, when, |reply| match reply {
            FromProgram::Description(description) => Ok(description),
            reply => Err(reply),
        })?;
    if description.contract != CONTRACT_VERSION {
        let version = description.contract;
        return Err(ProgramFailure::invalid(reason::other_contract(
            version.into(),
            CONTRACT_VERSION.into(),
        )));
    }
    Ok((description, program))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use nix::{
        sys::signal::{Signal, kill},
        unistd::Pid,
    };

    use regatta_transport::MonotonicTime;

    use super::*;

    /// Longest time for an answer that comes.
    const TIMEOUT: Duration = Duration::from_secs(60);

    /// A program with the capability `repeat`, which answers `end` with `answer`.
    struct Repeating {
        _directory: tempfile::TempDir,
        command: Command,
        description: Description,
    }

    impl Repeating {
        fn new(answer: &str) -> Self {
            let described = r#"{"type":"description","contract":2,"name":"test","version":"1","workloads":["bulk"],"capabilities":["repeat"]}"#;
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("driver");
            let script = format!(
                "#!/bin/sh\nwhile read -r line; do case $line in *describe*) echo '{described}';; *end*) {answer};; esac; done\n"
            );
            fs::write(&path, script).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            let command = Command {
                program: path,
                arguments: Vec::new(),
                environment: Vec::new(),
            };
            let description = describe(&command, &Stop::new()).unwrap();
            Self {
                _directory: directory,
                command,
                description,
            }
        }

        fn start(&self) -> Program {
            start(&self.command, None, &Stop::new()).unwrap()
        }

        fn finish(&self, program: Program, within: Duration) -> Option<Text> {
            finish(program, &self.description, &self.command, within)
        }
    }

    #[test]
    fn a_program_that_repeats_is_started_once() {
        let repeating = Repeating::new(r#"echo '{"type":"over"}'"#);
        let program = repeating.start();
        let first = program.process();
        assert_eq!(repeating.finish(program, TIMEOUT), None);
        let program = repeating.start();
        assert_eq!(program.process(), first);
    }

    #[test]
    fn an_idle_program_that_was_killed_is_started_again() {
        let repeating = Repeating::new(r#"echo '{"type":"over"}'"#);
        let program = repeating.start();
        let (first, inbox) = (program.process(), program.inbox().clone());
        assert_eq!(repeating.finish(program, TIMEOUT), None);
        kill(Pid::from_raw(first.cast_signed()), Signal::SIGKILL).unwrap();
        assert!(
            inbox
                .wait_for_exit(MonotonicTime::now() + TIMEOUT)
                .is_some()
        );
        let mut program = repeating.start();
        assert!(program.send(&ToProgram::Stop).is_ok());
    }

    #[test]
    fn a_program_that_does_not_end_its_trial_is_not_kept() {
        for (answer, why, within) in [
            (
                "true",
                "did not answer `end` with `over` within 1 s",
                Duration::from_secs(1),
            ),
            (
                "echo no >&2; exit 3",
                "ended with exit code 3; its last lines of standard error: `no`",
                TIMEOUT,
            ),
        ] {
            let repeating = Repeating::new(answer);
            let program = repeating.start();
            let first = program.process();
            assert_eq!(repeating.finish(program, within).as_deref(), Some(why));
            assert_ne!(repeating.start().process(), first);
        }
    }

    #[test]
    fn a_program_that_changes_has_another_digest() {
        let directory = tempfile::tempdir().unwrap();
        let command = Command {
            program: directory.path().join("driver"),
            arguments: Vec::new(),
            environment: Vec::new(),
        };
        assert_eq!(digest(&command), None);
        fs::write(&command.program, "abc").unwrap();
        // FIPS 180-2, B.1.
        let of_abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest(&command).as_deref(), Some(of_abc));
        fs::write(&command.program, "abcd").unwrap();
        assert_ne!(digest(&command).as_deref(), Some(of_abc));
    }
}
