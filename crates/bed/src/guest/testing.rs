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
    time::{Duration, Instant},
};

pub use super::Clock;
use super::{Guest, INIT_COMMAND, KEEPER_COMMAND, Order, Said, find, is_guest};

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
