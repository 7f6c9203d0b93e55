//! Tests that run in a guest.
//!
//! A test of any crate that has this one among its dev-dependencies begins with
//!
//! ```ignore
//! use regatta_bed::guest::testing::{Clock, in_guest};
//!
//! #[test]
//! fn sctp_has_streams() {
//!     if !in_guest("sctp_has_streams", Clock::Real) {
//!         return;
//!     }
//!     // … as root, on a kernel with SCTP, netem and every congestion control
//! }
//! ```
//!
//! The same test program is started again in a guest, with this one test; its failure there is
//! this test's failure, with its output. A boot takes about a second, so tests that can share a
//! guest do: name a module (`"in_guest::"`) and all of it runs there.

use std::{
    env,
    ffi::{c_char, c_int},
    fs::{self, File},
    io::{self, Read, Seek, Write},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

pub use super::Clock;
use super::{Guest, INIT_COMMAND, KEEPER_COMMAND, Order, Said, find, is_guest};

/// Environment variable with the directory of this test run, whose test processes share artefacts
/// in it: absent where nothing is shared.
pub const TEST_RUN_DIR: &str = "REGATTA_TEST_RUN_DIR";

/// Longest that a guest may take for its tests.
const LONGEST: Duration = Duration::from_secs(180);

/// Whether this is a guest, in which the test is to be run. Where it is not, the tests of this
/// program whose names contain `filter` are run in a new guest, and `false` is returned when they
/// have succeeded.
///
/// `filter` should be the whole name with its modules, or a module's with `::` behind it.
///
/// # Panics
/// If there is no kernel for a guest, if the guest does not start, or if a test fails in it: with
/// everything that was heard of it.
#[must_use]
pub fn in_guest(filter: &str, clock: Clock) -> bool {
    if is_guest() {
        return true;
    }
    // Whatever refers to it keeps the linker from leaving it out.
    std::hint::black_box(DIVERT);
    let kernel = find(None, clock).unwrap_or_else(|error| panic!("{error}; {}", error.hint()));
    let executable = env::current_exe().expect("this program's file");
    let mut arguments = vec![
        filter.to_owned(),
        "--nocapture".to_owned(),
        "--test-threads=1".to_owned(),
    ];
    if !filter.ends_with("::") {
        arguments.push("--exact".to_owned());
    }
    let directory = env::current_dir().expect("a directory");
    let mut environment: Vec<(String, String)> = env::vars()
        .filter(|(name, _)| name == "PATH" || name == "HOME" || name.starts_with("REGATTA_"))
        .collect();
    environment.push(("PWD".to_owned(), directory.display().to_string()));
    environment.push(("RUST_BACKTRACE".to_owned(), "1".to_owned()));
    let order = Order {
        kernel: kernel.path,
        clock,
        seed: 1,
        memory_mib: Order::DEFAULT_MEMORY_MIB,
        arguments,
        environment,
        files: None,
        payload: String::new(),
    };
    let mut guest = Guest::start(&executable, &order).expect("a guest's keeper");
    let until = Instant::now() + LONGEST;
    let mut heard = Vec::new();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match guest.hear(left) {
            Some(Said::Up { release }) => heard.push(format!("guest with Linux {release}")),
            Some(Said::Beat) => {}
            Some(Said::Console { line }) => heard.push(format!("console: {line}")),
            Some(Said::Output { line } | Said::Message { text: line }) => heard.push(line),
            Some(Said::Ended { code: 0 }) => break,
            Some(other) => panic!("in the guest:\n{}\n{other:?}", heard.join("\n")),
            None => panic!(
                "the guest did not end within {LONGEST:?}:\n{}",
                heard.join("\n")
            ),
        }
    }
    let heard = heard.join("\n");
    println!("{heard}");
    // A name that no test has would succeed, too.
    assert!(
        !heard.contains("running 0 tests") && heard.contains("test result: ok."),
        "no test ran in the guest: is `{filter}` its whole name?"
    );
    false
}

/// A test program has a `main` that is not ours. This runs before it and makes the program a
/// guest's keeper or first process where it was started as one.
#[used]
#[unsafe(link_section = ".init_array")]
static DIVERT: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = divert;

extern "C" fn divert(
    count: c_int,
    arguments: *const *const c_char,
    _environment: *const *const c_char,
) {
    if count < 2 || arguments.is_null() {
        return;
    }
    // SAFETY: the C library gives as many arguments as it says, each a C string.
    let first = unsafe { std::ffi::CStr::from_ptr(*arguments.add(1)) };
    let code = match first.to_str() {
        Ok(KEEPER_COMMAND) => super::keeper_main(),
        Ok(INIT_COMMAND) => super::init_main(),
        _ => return,
    };
    std::process::exit(i32::from(code != std::process::ExitCode::SUCCESS));
}

/// Result of `read` on an artefact that the test processes of one test run share.
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
    let shared = env::var_os(TEST_RUN_DIR).filter(|directory| !directory.is_empty());
    if let Some(directory) = shared {
        return shared_in(Path::new(&directory), key, make, read);
    }
    let directory = Temporary::new()
        .unwrap_or_else(|error| panic!("cannot make a directory for `{key}`: {error}"));
    make(&directory.0).unwrap_or_else(|error| panic!("{error}"));
    read(&directory.0)
}

/// [`once_per_test_run`] with the directory of the test run.
fn shared_in<T>(
    test_run: &Path,
    key: &str,
    make: impl FnOnce(&Path) -> Result<(), String>,
    read: impl FnOnce(&Path) -> T,
) -> T {
    let directory = test_run.join(key);
    let made = State::lock(&test_run.join(format!("{key}.state")))
        .and_then(|mut state| state.make_once(&directory, make))
        .unwrap_or_else(|error| panic!("cannot share `{key}` in {}: {error}", test_run.display()));
    if let Err(error) = made {
        panic!("`{key}` could not be made: {error}");
    }
    read(&directory)
}

/// File with the state of an artefact, locked until it is dropped or its process ends.
struct State(File);

impl State {
    const MAKING: &str = "making";
    const MADE: &str = "made";
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

    /// Makes the artefact unless somebody tried before; the inner error is that of `make`.
    fn make_once(
        &mut self,
        directory: &Path,
        make: impl FnOnce(&Path) -> Result<(), String>,
    ) -> io::Result<Result<(), String>> {
        let mut state = String::new();
        self.0.read_to_string(&mut state)?;
        if state == Self::MADE {
            return Ok(Ok(()));
        }
        if let Some(error) = state.strip_prefix(Self::FAILED) {
            return Ok(Err(error.to_owned()));
        }
        if state == Self::MAKING {
            return Ok(Err("the process that was making it was killed".to_owned()));
        }
        self.set(Self::MAKING)?;
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
            Ok(()) => self.set(Self::MADE)?,
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
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> io::Result<Self> {
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
    use std::thread;

    use super::*;

    fn message(panic: &(dyn std::any::Any + Send)) -> String {
        let text = panic.downcast_ref::<String>().cloned();
        text.unwrap_or_else(|| panic.downcast_ref::<&str>().unwrap_or(&"").to_string())
    }

    /// Each caller opens the state for itself, as callers in different processes do.
    #[test]
    fn an_artefact_is_made_once_and_read_by_all() {
        let test_run = Temporary::new().expect("a directory");
        let made = AtomicU32::new(0);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let make = |directory: &Path| {
                        made.fetch_add(1, Ordering::Relaxed);
                        thread::sleep(Duration::from_millis(20));
                        fs::write(directory.join("it"), "all of it").map_err(|e| e.to_string())
                    };
                    let read = |directory: &Path| fs::read_to_string(directory.join("it"));
                    let text = shared_in(&test_run.0, "bed-one", make, read);
                    assert_eq!(text.expect("the artefact"), "all of it");
                });
            }
        });
        assert_eq!(made.into_inner(), 1);
    }

    #[test]
    fn what_keeps_an_artefact_from_being_made_is_everybody_s_failure() {
        let test_run = Temporary::new().expect("a directory");
        let makers: [fn(&Path) -> Result<(), String>; 3] = [
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
        fs::write(test_run.0.join("bed-killed.state"), State::MAKING).expect("a state");
        let shared = || shared_in(&test_run.0, "bed-killed", makers[2], |_| ());
        let panic = catch_unwind(shared).expect_err("it was not made");
        assert!(message(&*panic).ends_with("was killed"));
    }

    #[test]
    fn a_directory_of_its_own_is_deleted() {
        let directory = Temporary::new().expect("a directory");
        let path = directory.0.clone();
        fs::write(path.join("it"), "x").expect("a file");
        drop(directory);
        assert!(!path.exists());
    }
}
