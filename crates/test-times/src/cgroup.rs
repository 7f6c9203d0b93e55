//! Control group of one test, in which the kernel counts the CPU time of all its processes.
//!
//! The CPU time of a process that nobody has waited for is in no process's sum. This happens to those that the kernel
//! kills with their PID namespace, such as the guest of a run that was killed. A control group has it, too, but needs
//! root and version 2 of control groups.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

/// Control group below that of this process. It is removed when this is dropped; processes that still run in it get
/// back into that of this process.
#[derive(Debug)]
pub struct ControlGroup {
    parent: PathBuf,
    directory: PathBuf,
    /// CPU time before the test: an earlier process of the same number may have left the group.
    before: Duration,
}

impl ControlGroup {
    /// Makes a control group; `None` if this process may not, or if there are none of version 2.
    pub fn new() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
        let parent = mounts.lines().find_map(mount_point)?.join(own);
        let directory = parent.join(format!("regatta-test-{}", std::process::id()));
        match fs::create_dir(&directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return None,
            _ => {}
        }
        let mut group = Self {
            parent,
            directory,
            before: Duration::ZERO,
        };
        group.before = group.cpu()?;
        Some(group)
    }

    /// Returns the file to which a process writes `0` to enter the group.
    pub fn entrance(&self) -> io::Result<File> {
        File::options()
            .write(true)
            .open(self.directory.join("cgroup.procs"))
    }

    /// Returns the user and system time of all processes since [`ControlGroup::new`]; `None` if the kernel does not
    /// tell.
    pub fn cpu(&self) -> Option<Duration> {
        let text = fs::read_to_string(self.directory.join("cpu.stat")).ok()?;
        let us = text
            .lines()
            .find_map(|line| line.strip_prefix("usage_usec "))?;
        Some(Duration::from_micros(us.parse().ok()?).saturating_sub(self.before))
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        remove(&self.directory, &self.parent);
    }
}

/// Returns where control groups of version 2 are mounted, of a line of `/proc/self/mountinfo`, if all of them are.
fn mount_point(line: &str) -> Option<PathBuf> {
    let (mount, system) = line.split_once(" - ")?;
    let mut fields = mount.split(' ').skip(3);
    let (root, directory) = (fields.next()?, fields.next()?);
    (root == "/" && system.starts_with("cgroup2 ")).then(|| PathBuf::from(directory))
}

/// Removes a group and those below, which a wrapper that was killed may have left, after it has moved their processes
/// to `parent`. What cannot be removed stays: it costs some kB of memory.
fn remove(directory: &Path, parent: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path(), parent);
        }
    }
    let processes = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
    for process in processes.lines() {
        let file = File::options()
            .write(true)
            .open(parent.join("cgroup.procs"));
        // A process may have ended in between.
        let _ = file.and_then(|mut file| file.write_all(process.as_bytes()));
    }
    let _ = fs::remove_dir(directory);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_version_2_are_found_where_all_of_them_are_mounted() {
        let found = mount_point(
            "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw",
        );
        assert_eq!(found, Some(PathBuf::from("/sys/fs/cgroup/unified")));
        for other in [
            "33 31 0:30 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu",
            "41 31 0:38 /a /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw",
        ] {
            assert_eq!(mount_point(other), None, "{other}");
        }
    }
}
