//! Descendants of a process.

use std::{collections::BTreeMap, fs};

/// Returns every process below `root`, as they are at this moment.
///
/// A process that another one starts during the search may be missed, so a caller that wants to end
/// all of them has to search again.
pub(super) fn descendants(root: i32) -> Vec<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(process) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let status = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        if let Some(parent) = parent(&status) {
            children.entry(parent).or_default().push(process);
        }
    }
    let mut found = Vec::new();
    let mut left = vec![root];
    while let Some(process) = left.pop() {
        // Each is taken out, so that a number that was used again makes no circle.
        for child in children.remove(&process).unwrap_or_default() {
            found.push(child);
            left.push(child);
        }
    }
    found
}

/// Returns the parent in `/proc/PID/stat`: the second field after the name, which stands in
/// brackets and may hold anything.
fn parent(status: &str) -> Option<i32> {
    let (_, rest) = status.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_found_behind_any_name() {
        assert_eq!(parent("12 (sh) S 7 12 12 0"), Some(7));
        assert_eq!(parent("12 (a ) R 9 b) S 7 12"), Some(7));
        assert_eq!(parent("12 (sh"), None);
        assert_eq!(parent(""), None);
    }

    #[test]
    fn children_of_children_are_found() {
        use std::process::{Command, Stdio};
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 60 & echo up; wait"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh");
        let mut up = [0; 3];
        let out = shell.stdout.as_mut().expect("a pipe");
        std::io::Read::read_exact(out, &mut up).expect("a word");
        let root = i32::try_from(std::process::id()).expect("a number");
        let found = descendants(root);
        let below = i32::try_from(shell.id()).expect("a number");
        let sleeping = descendants(below);
        for process in &sleeping {
            nix::sys::signal::kill(
                nix::unistd::Pid::from_raw(*process),
                nix::sys::signal::Signal::SIGKILL,
            )
            .expect("it is there");
        }
        shell.wait().expect("it ends");
        assert_eq!(sleeping.len(), 1);
        assert!(found.contains(&below) && found.contains(&sleeping[0]));
    }
}
