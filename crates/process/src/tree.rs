//! Descendants of a process.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::fd::{AsFd as _, OwnedFd},
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    sys::{
        signal::{Signal, kill},
        wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid},
    },
    unistd::Pid,
};

use crate::wait::{descriptor, readable};

/// Maximum number of passes over the processes that are to be killed: one that starts another while it is being
/// killed leaves that one for the next pass.
const PASSES: usize = 8;

/// Longest wait for the ends of processes that were killed, in all passes together: one of them may be in a system call
/// that cannot be interrupted.
const END_TIMEOUT: Duration = Duration::from_millis(200);

/// Returns the parent in a line of `/proc/PID/stat`: the second field after the name, which stands in
/// brackets and may hold anything, brackets and blanks included.
fn parent_in(stat: &str) -> Option<i32> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Returns the numbers of all processes that `/proc` shows.
fn processes() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Whether `/proc` shows the processes of this process's own namespace; in another one the same
/// numbers mean other processes.
fn shows_own_namespace() -> bool {
    let own = fs::read_link("/proc/self").ok();
    own.is_some_and(|own| own.to_str() == Some(&std::process::id().to_string()))
}

/// Returns every process below `root`, as they are at this moment, nearest first.
///
/// A process that another one starts during the search may be missed, so a caller that wants to end
/// all of them has to search again.
#[must_use]
pub fn descendants(root: i32) -> Vec<i32> {
    let mut by_parent: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for process in processes() {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        if let Some(parent) = parent_in(&stat) {
            by_parent.entry(parent).or_default().push(process);
        }
    }
    walk(root, usize::MAX, |process| {
        by_parent.remove(&process).unwrap_or_default()
    })
}

/// Returns the processes below `root`, nearest first, `at_most` of them; `children_of` returns the
/// children of a process.
pub fn walk(root: i32, at_most: usize, mut children_of: impl FnMut(i32) -> Vec<i32>) -> Vec<i32> {
    // A number that is used again between two readings could make a loop.
    let mut known = BTreeSet::from([root]);
    let mut found = Vec::new();
    let mut next = Some(root);
    let mut position = 0;
    while let Some(process) = next {
        for child in children_of(process) {
            if found.len() < at_most && known.insert(child) {
                found.push(child);
            }
        }
        next = found.get(position).copied();
        position += 1;
    }
    found
}

/// Returns the processes above `process`, its parent first.
#[must_use]
pub fn ancestors(process: i32) -> Vec<i32> {
    let parent = |process: i32| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        parent_in(&stat).filter(|parent| *parent > 0)
    };
    walk(process, usize::MAX, |process| {
        parent(process).into_iter().collect()
    })
}

/// Returns the children of all threads of a process, from the kernel's own lists, which is cheaper than
/// [`descendants`]. A kernel without `CONFIG_PROC_CHILDREN` has no lists; then the parent of every process is read.
#[must_use]
pub fn children(process: i32) -> Vec<i32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else {
        return Vec::new();
    };
    let mut children = Vec::new();
    for thread in threads.flatten() {
        match fs::read_to_string(thread.path().join("children")) {
            Ok(text) => children.extend(
                text.split_ascii_whitespace()
                    .filter_map(|number| number.parse::<i32>().ok()),
            ),
            Err(error) if error.kind() == io::ErrorKind::NotFound && thread.path().exists() => {
                return children_by_parent(process);
            }
            // The thread has ended in between.
            Err(_) => {}
        }
    }
    children
}

fn children_by_parent(parent: i32) -> Vec<i32> {
    let is_child = |process: &i32| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        parent_in(&stat) == Some(parent)
    };
    processes().filter(is_child).collect()
}

/// Kills all descendants of this process and reaps them. This process should be a
/// [subreaper](crate::become_subreaper), so that their numbers are their own.
pub fn kill_descendants() {
    kill_descendants_but(|_| false);
}

/// Kills and reaps descendants of this process as [`kill_descendants`], except those for whose number `is_spared` is true.
pub fn kill_descendants_but(is_spared: impl Fn(i32) -> bool) {
    // Without a child there is nothing below it either, and no need to look at all processes.
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    if waitid(Id::All, flags) == Err(Errno::ECHILD) || !shows_own_namespace() {
        return;
    }
    let own = Pid::this().as_raw();
    let until = Instant::now() + END_TIMEOUT;
    for _ in 0..PASSES {
        let mut found = descendants(own);
        found.retain(|process| !is_spared(*process));
        if found.is_empty() {
            return;
        }
        kill_all(&found, until);
        // Without blocking: this could wait for a process that cannot be killed.
        while matches!(
            waitpid(None, Some(WaitPidFlag::WNOHANG)),
            Ok(status) if status != WaitStatus::StillAlive
        ) {}
    }
}

/// Kills processes and waits until they have ended, or `until` has come.
fn kill_all(processes: &[i32], until: Instant) {
    let descriptors = processes.iter().map(|it| descriptor(it.cast_unsigned()));
    let descriptors: Vec<OwnedFd> = descriptors.flatten().collect();
    let is_waited_for = descriptors.len() == processes.len();
    for process in processes {
        // It may have ended at this moment.
        let _ = kill(Pid::from_raw(*process), Signal::SIGKILL);
    }
    for process in descriptors {
        let remaining = until.saturating_duration_since(Instant::now());
        let _ = readable(&[process.as_fd()], Some(remaining));
    }
    if !is_waited_for {
        // A kernel before Linux 5.3, or a process that had ended: the next look must find the others ended.
        std::thread::sleep(
            Duration::from_millis(5).min(until.saturating_duration_since(Instant::now())),
        );
    }
}

/// Returns the processes that have `variable=value` in their environment.
#[must_use]
pub fn marked(variable: &str, value: &str) -> Vec<i32> {
    let mark = format!("{variable}={value}");
    let is_marked = |process: &i32| {
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        (environment.split(|byte| *byte == 0)).any(|entry| entry == mark.as_bytes())
    };
    processes().filter(is_marked).collect()
}

/// Kills the processes that are [`marked`], except `other`, and those that they start meanwhile.
pub fn kill_marked(variable: &str, value: &str, other: i32) {
    let until = Instant::now() + END_TIMEOUT;
    for _ in 0..PASSES {
        // Their numbers were their own a moment ago, and numbers are used again only after all others.
        let mut found = marked(variable, value);
        found.retain(|process| *process != other);
        if found.is_empty() {
            return;
        }
        kill_all(&found, until);
        for process in found {
            // Its parent may have ended, and then it is a child of this process.
            let _ = waitpid(Pid::from_raw(process), Some(WaitPidFlag::WNOHANG));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Read as _,
        process::{Command, Stdio},
    };

    use super::*;

    #[test]
    fn the_parent_is_parsed_after_any_process_name() {
        assert_eq!(parent_in("12 (sh) S 7 12 12 0"), Some(7));
        assert_eq!(parent_in("12 (a ) R 9 b) S 7 12"), Some(7));
        assert_eq!(parent_in("12 (sh"), None);
        assert_eq!(parent_in(""), None);
    }

    #[test]
    fn a_walk_finds_descendants_at_any_depth_and_no_others() {
        let children_of = |process: i32| match process {
            1 => vec![10, 20],
            10 => vec![11],
            11 => vec![12, 13],
            // A number that was used again.
            13 => vec![10],
            20 => vec![21],
            _ => Vec::new(),
        };
        assert_eq!(walk(10, usize::MAX, children_of), [11, 12, 13]);
        assert_eq!(walk(10, 2, children_of), [11, 12]);
        assert_eq!(walk(12, usize::MAX, children_of), Vec::<i32>::new());
    }

    /// Starts a shell, in a session of its own, that has started another process.
    fn shell(mark: &str) -> std::process::Child {
        let mut shell = Command::new("setsid")
            .args(["sh", "-c", "sleep 60 & echo up; wait"])
            .env("REGATTA_TEST_MARK", mark)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut up = [0; 3];
        shell.stdout.as_mut().unwrap().read_exact(&mut up).unwrap();
        shell
    }

    #[test]
    fn descendants_are_found_and_killed_by_their_mark() {
        let own = Pid::this().as_raw();
        let mark = format!("tree {own}");
        let mut shell = shell(&mark);
        let below = shell.id().cast_signed();
        let sleeping = children(below);
        assert_eq!(sleeping.len(), 1);
        assert_eq!(children_by_parent(below), sleeping);
        assert_eq!(descendants(below), sleeping);
        assert!(shows_own_namespace() && descendants(own).contains(&sleeping[0]));
        kill_marked("REGATTA_TEST_MARK", &mark, below);
        // The shell ends when what it waits for has ended.
        assert!(shell.wait().unwrap().success());
    }
}
