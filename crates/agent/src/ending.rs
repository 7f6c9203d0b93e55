//! End of the agent: the agent does not outlive its parent, and nothing that it started outlives
//! the agent.

use std::{collections::BTreeSet, fs, io::Write};

/// Asks the kernel to end this process with its parent, and to hand it the orphans of what it
/// started, so that they can be ended too. Errors are ignored: end of input does the same a little
/// later.
pub(crate) fn prepare() {
    // SAFETY: none of these calls takes a pointer. SIGINT from a terminal goes to the whole group;
    // the controller then aborts the trial and closes this end's input.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong);
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1 as libc::c_ulong);
        libc::signal(libc::SIGINT, libc::SIG_IGN);
    }
    // It may be started from an open file, whose number would be its name in lists of processes.
    // SAFETY: the name ends with a zero byte.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"regatta".as_ptr()) };
}

/// Returns the parent of each process that this one's `/proc` shows; `None` if it shows those of
/// another namespace of processes, where the same numbers mean others.
fn parents() -> Option<Vec<(i32, i32)>> {
    let own = fs::read_link("/proc/self").ok()?;
    if own.to_str()? != std::process::id().to_string() {
        return None;
    }
    let parent_of = |stat: &str| {
        // The name in brackets may hold anything, brackets and blanks included.
        let (_, after_name) = stat.rsplit_once(')')?;
        after_name.split_ascii_whitespace().nth(1)?.parse().ok()
    };
    let processes = fs::read_dir("/proc").ok()?.flatten().filter_map(|entry| {
        let process: i32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        Some((process, parent_of(&stat)?))
    });
    Some(processes.collect())
}

/// Returns all descendants of the process `root`, from `parents`: pairs of a process and its
/// parent.
fn descendants(root: i32, parents: &[(i32, i32)]) -> BTreeSet<i32> {
    let mut found = BTreeSet::new();
    let mut waiting = vec![root];
    while let Some(above) = waiting.pop() {
        for &(process, parent) in parents {
            if parent == above && process != root && found.insert(process) {
                waiting.push(process);
            }
        }
    }
    found
}

/// Kills all descendants of this process.
fn end_descendants() {
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    // A process that forks while it is being ended may leave a child, which is then ours: a few
    // passes find it.
    for _ in 0..8 {
        let found = parents().map_or_else(BTreeSet::new, |parents| descendants(own, &parents));
        if found.is_empty() {
            return;
        }
        for process in found {
            // SAFETY: takes no pointer. The process descends from this one, which takes in
            // orphans and has not waited for it, so its number is still its own.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_are_found_at_any_depth_and_nobody_else() {
        let parents = [
            (1, 0),
            (10, 1),
            (11, 10),
            (12, 11),
            (13, 12),
            (20, 1),
            (21, 20),
        ];
        assert_eq!(descendants(10, &parents), BTreeSet::from([11, 12, 13]));
        assert!(descendants(13, &parents).is_empty());
        // A loop, as a number that was used again between two reads could make.
        assert_eq!(descendants(5, &[(6, 5), (5, 6)]), BTreeSet::from([6]));
    }

    #[test]
    fn this_process_and_its_parent_are_seen() {
        let own = i32::try_from(std::process::id()).unwrap();
        let above = i32::try_from(std::os::unix::process::parent_id()).unwrap();
        assert!(parents().unwrap().contains(&(own, above)));
    }
}
