//! Nothing outlives the agent: neither the agent its parent, nor what it started the agent.

use std::{collections::BTreeSet, fs, io::Write};

/// Asks the kernel to end this process with its parent, and to hand it the orphans of what it
/// started, so that they can be ended too. Errors are left: end of input does the same a little
/// later.
pub(crate) fn prepare() {
    // SAFETY: none of these calls takes a pointer. SIGINT from a terminal goes to the whole group;
    // the controller then aborts the trial and closes this end's input.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong);
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1 as libc::c_ulong);
        libc::signal(libc::SIGINT, libc::SIG_IGN);
    }
}

/// Children of a process, from every one of its threads.
fn children_of(process: i32) -> Vec<i32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else {
        return Vec::new();
    };
    threads
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok())
        .flat_map(|text| {
            text.split_ascii_whitespace()
                .filter_map(|word| word.parse().ok())
                .collect::<Vec<i32>>()
        })
        .collect()
}

/// Ends everything that this process started, and what that started.
fn end_descendants() {
    // A process that forks while it is being ended may leave a child, which is then ours: a few
    // passes find it.
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    for _ in 0..8 {
        let mut found = BTreeSet::new();
        let mut waiting = children_of(own);
        while let Some(process) = waiting.pop() {
            if process > 1 && found.insert(process) {
                waiting.extend(children_of(process));
            }
        }
        if found.is_empty() {
            return;
        }
        for process in found {
            // SAFETY: takes no pointer. The process is a descendant of this one, which has not
            // been waited for, so its number is still its own.
            unsafe { libc::kill(process, libc::SIGKILL) };
        }
        // SAFETY: a null status is allowed; without WNOHANG this could wait for a process that
        // cannot be ended.
        while unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } > 0 {}
        std::thread::yield_now();
    }
}

/// Ends the process at once, whatever its threads are doing: destructors of libraries must not run
/// while a session still uses them.
pub(crate) fn leave(code: i32) -> ! {
    let _ = std::io::stdout().flush();
    end_descendants();
    // SAFETY: takes no pointer and does not return.
    unsafe { libc::_exit(code) }
}
