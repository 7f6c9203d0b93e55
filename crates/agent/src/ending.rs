//! End of the agent: the agent does not outlive its parent, and nothing that it started outlives
//! the agent.

use std::io::Write;

use regatta_process::{become_subreaper, die_with_parent, kill_descendants, set_name};

/// Asks the kernel to end this process with its parent, and to hand it the orphans of what it
/// started, so that they can be ended too. Errors are ignored: end of input does the same a little
/// later.
pub(crate) fn prepare() {
    let _ = die_with_parent();
    let _ = become_subreaper();
    // From a terminal it goes to the whole group; the controller then aborts the trial and closes this
    // end's input.
    // SAFETY: takes no pointer.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
    set_name(c"regatta");
}

/// Ends the process at once, whatever its threads are doing: destructors of libraries must not run
/// while a session still uses them.
pub(crate) fn exit_now(code: i32) -> ! {
    let _ = std::io::stdout().flush();
    kill_descendants();
    // SAFETY: takes no pointer and does not return.
    unsafe { libc::_exit(code) }
}
