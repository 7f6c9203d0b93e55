//! The process at each end of a trial.
//!
//! It reads [`regatta_control::ToAgent`] as JSON lines from its standard input, runs one side of
//! one trial at a time, samples its host meanwhile, and writes [`regatta_control::FromAgent`] to
//! its standard output, where nothing else is ever written. Logs go to standard error.
//!
//! - [`registry`] has every driver.
//! - `input` reads lines, `serve` answers them, `trial` runs a session in a thread of its own and sends its messages to
//!   that loop.
//! - `observer` takes CPU, memory and interface counters exactly at the edges of the transfer
//!   window; `report` puts them into the side's report.
//! - `memory` sets the allocator up.
//! - `served` limits an agent that works for a client of `regatta server`.
//! - `disturbance` notices what somebody outside does to the end while a trial runs.
//! - `fork_server` has a child process serve from each `hello` to the next where the controller asks for it.
//! - `processors` limits the end to a number of the host's processors.
//! - `ending` ends every process that the agent started.

use std::{
    io::{self, BufReader},
    process::ExitCode,
};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use regatta_model::HostFacts;
use regatta_transport::Driver;

mod disturbance;
mod ending;
mod error;
mod failure;
mod fork_server;
mod input;
mod logging;
mod memory;
mod observer;
mod processors;
mod report;
mod serve;
mod served;
mod trial;

pub use error::AgentError;
pub use memory::keep_freed_memory;
pub use regatta_transport_external::{PROGRAMS_VARIABLE, ProgramFiles, program_files};
pub use served::ServedLimits;

use fork_server::Part;

/// Returns every driver, in the order of tables.
#[must_use]
pub fn registry() -> Vec<&'static dyn Driver> {
    [
        regatta_transport_tcp::drivers(),
        regatta_transport_udp::drivers(),
        regatta_transport_quic::drivers(),
        regatta_transport_sctp::drivers(),
        regatta_transport_wdt_driver::drivers(),
        regatta_transport_external::drivers(),
    ]
    .concat()
}

/// Whether this build leaves the stack of a driver out, whose name is that of the feature.
#[must_use]
pub fn is_left_out(driver: &str) -> bool {
    let is_of_sctp = driver == "sctp-userspace" && cfg!(not(feature = "sctp-userspace"));
    is_of_sctp || regatta_transport_quic::LEFT_OUT.contains(&driver)
}

/// Looks a driver up by its name.
#[must_use]
pub fn find_driver(name: &str) -> Option<&'static dyn Driver> {
    registry()
        .into_iter()
        .find(|driver| driver.descriptor().name == name)
}

/// Whether a driver runs another program, which a server does for nobody.
#[must_use]
pub fn runs_a_program(driver: &str) -> bool {
    regatta_transport_external::drivers()
        .iter()
        .any(|it| it.descriptor().name == driver)
}

/// Runs the agent with all drivers: `regatta agent`. Must be called before the process has threads.
/// `build` describes the build of the program, and joins the host's facts.
///
/// Ends the process, with everything that it started: with code 0 at the end of input, with 2 on
/// input that is no message of this protocol, with 1 if its output is closed, with 3 after a session
/// that could not be aborted (the answer is given before).
pub fn main(build: HostFacts) -> ExitCode {
    main_with(registry(), build)
}

/// Runs the agent with these drivers, otherwise as [`main`].
pub fn main_with(drivers: Vec<&'static dyn Driver>, build: HostFacts) -> ExitCode {
    run(drivers, build, None)
}

/// Runs the agent for a client of `regatta server` within `limits` (JSON), otherwise as [`main`]. It has no drivers that
/// run other programs.
pub fn served_main(build: HostFacts, limits: &str) -> ExitCode {
    let Ok(limits) = serde_json::from_str(limits) else {
        return ExitCode::from(2);
    };
    let mut drivers = registry();
    drivers.retain(|driver| !runs_a_program(driver.descriptor().name));
    run(drivers, build, Some(limits))
}

fn run(
    drivers: Vec<&'static dyn Driver>,
    build: HostFacts,
    limits: Option<ServedLimits>,
) -> ExitCode {
    logging::install();
    keep_freed_memory();
    raise_file_limit();
    ending::prepare();
    // Before the process forks, since it takes longer than that.
    let facts = serve::facts(&drivers, build);
    let part = match limits {
        // A client of a server cannot have a new process, which would count from zero what it may use up.
        Some(_) => Ok(Part::Serve(Box::new(io::stdin()))),
        None => fork_server::run(),
    };
    let ended = part.and_then(|part| match part {
        Part::End(code) => Ok(code),
        Part::Serve(input) => {
            // Of this process alone, which may be a child.
            ending::prepare();
            disturbance::prepare();
            serve::serve(BufReader::new(input), drivers, facts, limits).map(|()| 0)
        }
    });
    let code = ended.unwrap_or_else(|error| {
        error::print(&error);
        error.exit_code()
    });
    ending::exit_now(code)
}

/// Raises the number of files that this process may have open, which a transfer of many flows needs, as far as the
/// system lets it.
fn raise_file_limit() {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // A refusal leaves the limit as it was.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}
