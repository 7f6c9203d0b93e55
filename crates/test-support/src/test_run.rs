//! Shared by the test processes of one test run: artefacts, and notes of tests without a judgement.

use std::{
    env,
    fs::{self, File},
    io::{self, Read, Seek, Write},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    thread,
};

/// Environment variable with the directory of this test run, whose test processes share artefacts
/// in it: absent where nothing is shared.
pub const TEST_RUN_DIR: &str = "REGATTA_TEST_RUN_DIR";

/// Returns the result of `read` on an artefact that the test processes of one test run share.
///
/// The first caller with this `key` in a test run makes the artefact; others, also of other
/// processes, wait for that and only read it. `make` and `read` are given the artefact's
/// directory, `$REGATTA_TEST_RUN_DIR/<key>`, which is empty when `make` is called. `make test` sets
/// the variable to a directory that is new in each test run. Without it nothing is shared: this
/// caller makes the artefact for itself, in a temporary directory that is deleted after `read`.
///
/// `key` names a directory: ASCII letters, digits, `.`, `_` and `-`. It must be unique in the
/// whole workspace, so it begins with the name of the crate.
///
/// `make` is called once in a test run, whether or not it succeeds: where it returned an error,
/// panicked or was killed, every later caller fails at once, for the same reason. What `make` and
/// `read` print belongs to the test that called them. `read` must not write.
///
/// # Panics
/// If the artefact cannot be made: with the error of `make`, also in callers that waited for it.
/// If `key` cannot be the name of a directory, or if the directory of the test run cannot be
/// written.
pub fn once_per_test_run<T>(
    key: &str,
    make: impl FnOnce(&Path) -> Result<(), String>,
    read: impl FnOnce(&Path) -> T,
) -> T {
    let sound = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    assert!(
        !key.is_empty() && !key.starts_with('.') && key.chars().all(sound),
        "`{key}` is not the name of an artefact"
    );
    if let Some(directory) = test_run_directory() {
        return shared_in(&directory, key, make, read);
    }
    let directory = Temporary::new()
        .unwrap_or_else(|error| panic!("cannot make a directory for `{key}`: {error}"));
    make(&directory.0).unwrap_or_else(|error| panic!("{error}"));
    read(&directory.0)
}

/// Returns the directory of this test run, if there is one.
#[must_use]
pub fn test_run_directory() -> Option<PathBuf> {
    let directory = env::var_os(TEST_RUN_DIR)?;
    (!directory.is_empty()).then(|| PathBuf::from(directory))
}

/// Says on standard output that the calling test ends without a judgement because of the machine,
/// and notes it in the directory of the test run, for `make test` to print at its end.
///
/// `reason` is evidence that does not depend on what the test judges.
///
/// # Panics
/// If the note cannot be written.
pub fn not_judged(reason: &str) {
    let thread = thread::current();
    let line = format!(
        "not judged: {}: {reason}\n",
        thread.name().unwrap_or("a test")
    );
    print!("{line}");
    if let Some(directory) = test_run_directory() {
        let notes = directory.join("not-judged");
        let notes = File::options().create(true).append(true).open(notes);
        // In one write, so that lines of two tests do not mix.
        let written = notes.and_then(|mut notes| notes.write_all(line.as_bytes()));
        written.unwrap_or_else(|error| panic!("cannot note a test without a judgement: {error}"));
    }
}

/// Does the same as [`once_per_test_run`], with the directory of the test run.
pub(crate) fn shared_in<T>(
    test_run: &Path,
    key: &str,
    make: impl FnOnce(&Path) -> Result<(), String>,
    read: impl FnOnce(&Path) -> T,
) -> T {
    let directory = test_run.join(key);
    let outcome = State::lock(&test_run.join(format!("{key}.state")))
        .and_then(|mut state| state.make_once(&directory, make))
        .unwrap_or_else(|error| panic!("cannot share `{key}` in {}: {error}", test_run.display()));
    if let Err(error) = outcome {
        panic!("`{key}` could not be made: {error}");
    }
    read(&directory)
}

/// File with the state of an artefact, locked until it is dropped or its process ends.
struct State(File);

impl State {
    const PENDING: &str = "making";
    const COMPLETE: &str = "made";
    const FAILED: &str = "failed: ";

    /// Waits for the lock.
    fn lock(path: &Path) -> io::Result<Self> {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        let mut options = File::options();
        let file = options.create(true).truncate(false).read(true).write(true);
        let file = file.open(path)?;
        file.lock()?;
        Ok(Self(file))
    }

    /// Makes the artefact unless another caller has tried before; the inner error is that of
    /// `make`.
    fn make_once(
        &mut self,
        directory: &Path,
        make: impl FnOnce(&Path) -> Result<(), String>,
    ) -> io::Result<Result<(), String>> {
        let mut state = String::new();
        self.0.read_to_string(&mut state)?;
        if state == Self::COMPLETE {
            return Ok(Ok(()));
        }
        if let Some(error) = state.strip_prefix(Self::FAILED) {
            return Ok(Err(error.to_owned()));
        }
        if state == Self::PENDING {
            return Ok(Err("the process that was making it was killed".to_owned()));
        }
        self.set(Self::PENDING)?;
        fs::create_dir(directory)?;
        let result = match catch_unwind(AssertUnwindSafe(|| make(directory))) {
            Ok(result) => result,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
                let text = text.unwrap_or("what made it panicked");
                self.set(&format!("{}{text}", Self::FAILED))?;
                resume_unwind(panic);
            }
        };
        match &result {
            Ok(()) => self.set(Self::COMPLETE)?,
            Err(error) => self.set(&format!("{}{error}", Self::FAILED))?,
        }
        Ok(result)
    }

    fn set(&mut self, state: &str) -> io::Result<()> {
        self.0.set_len(0)?;
        self.0.rewind()?;
        self.0.write_all(state.as_bytes())
    }
}

/// Directory that is deleted when this is dropped.
pub(crate) struct Temporary(pub(crate) PathBuf);

impl Temporary {
    pub(crate) fn new() -> io::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("regatta-test-{}-{count}", std::process::id());
        let path = env::temp_dir().join(name);
        fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::{thread, time::Duration};

    use super::*;

    fn message(panic: &(dyn std::any::Any + Send)) -> String {
        let text = panic.downcast_ref::<String>().cloned();
        text.unwrap_or_else(|| panic.downcast_ref::<&str>().unwrap_or(&"").to_string())
    }

    /// Each caller opens the state for itself, as callers in different processes do.
    #[test]
    fn an_artefact_is_made_once_and_read_by_all() {
        let test_run = Temporary::new().expect("a directory");
        let calls = AtomicU32::new(0);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let make = |directory: &Path| {
                        calls.fetch_add(1, Ordering::Relaxed);
                        thread::sleep(Duration::from_millis(20));
                        fs::write(directory.join("it"), "all of it").map_err(|e| e.to_string())
                    };
                    let read = |directory: &Path| fs::read_to_string(directory.join("it"));
                    let text = shared_in(&test_run.0, "bed-one", make, read);
                    assert_eq!(text.expect("the artefact"), "all of it");
                });
            }
        });
        assert_eq!(calls.into_inner(), 1);
    }

    type Make = fn(&Path) -> Result<(), String>;

    #[test]
    fn a_failure_to_make_an_artefact_fails_every_reader() {
        let test_run = Temporary::new().expect("a directory");
        let makers: [Make; 3] = [
            |_| Err("no kernel".to_owned()),
            |_| panic!("no kernel at all"),
            |_| Ok(()),
        ];
        for (key, first, expected) in [
            ("bed-error", makers[0], "no kernel"),
            ("bed-panic", makers[1], "no kernel at all"),
        ] {
            for make in [first, makers[2]] {
                let shared = || shared_in(&test_run.0, key, make, |_| ());
                let panic = catch_unwind(shared).expect_err("it was not made");
                let text = message(&*panic);
                assert!(text.ends_with(expected), "{text}");
            }
        }
        // The lock of a process that was killed is free, and the state as it was.
        fs::write(test_run.0.join("bed-killed.state"), State::PENDING).expect("a state");
        let shared = || shared_in(&test_run.0, "bed-killed", makers[2], |_| ());
        let panic = catch_unwind(shared).expect_err("it was not made");
        assert!(message(&*panic).ends_with("was killed"));
    }

    #[test]
    fn a_temporary_directory_is_deleted_on_drop() {
        let directory = Temporary::new().expect("a directory");
        let path = directory.0.clone();
        fs::write(path.join("it"), "x").expect("a file");
        drop(directory);
        assert!(!path.exists());
    }
}
