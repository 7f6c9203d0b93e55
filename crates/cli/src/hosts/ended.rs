//! Ends of processes that have answered on a host.

use std::time::Duration;

use regatta_bed::{Exit, LaunchedProcess};
use regatta_model::units::format_duration;

use crate::exit::{Failure, Result};

/// Longest time in which a process on a host ends that has closed its output.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// Waits for the end of a process that has answered on a host: what it wrote is the whole answer only if it ended well.
///
/// # Errors
/// A host that is lost, a process that hangs or fails.
pub fn ended_well(host: &str, process: &mut dyn LaunchedProcess) -> Result<()> {
    let reason = match process.ended(END_TIMEOUT) {
        Some(exit) if exit.is_success() => return Ok(()),
        Some(Exit::Unknown(reason)) => reason.to_string(),
        Some(exit) => format!("Regatta's process there: {exit}"),
        None => format!(
            "Regatta's process there did not end within {}",
            format_duration(END_TIMEOUT)
        ),
    };
    Err(Failure::message(reason)
        .context(format!("host `{host}` does not answer"))
        .hint("try again; if it happens again, see on the host whether a process of Regatta is stopped: `ps -C regatta -o pid,stat,args`"))
}
