//! CPU time and memory of another process and of everything that it started.

use std::{
    iter,
    sync::{
        Arc,
        atomic::{AtomicI32, AtomicU64, Ordering},
    },
};

use nix::{time::clock_getcpuclockid, unistd::Pid};
use regatta_process::{children, walk};

use crate::{
    clock::clock_ns,
    file::{ProcFile, bytes_of},
    host_cpu::tick_ns,
    process::ProcessCpu,
};

/// Largest number of processes that is read. One end of a trial has fewer; a tree that grows
/// without end is cut here, so that reading it stays cheap.
const MAX_PROCESSES: usize = 256;

/// Process whose CPU time and memory are read: this one, or another that does the work for it, with
/// its descendants. Clones share the choice, so that it can be made when that process starts.
#[derive(Debug, Clone, Default)]
pub struct Subject(Arc<Chosen>);

#[derive(Debug, Default)]
struct Chosen {
    /// Number of the other process; zero for this one.
    process: AtomicI32,
    /// Largest resident set that any reading of the tree has seen, in bytes.
    peak_bytes: AtomicU64,
}

impl Subject {
    /// Chooses this process, until [`Subject::set`] names another.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Chooses `process` and its descendants instead of this process.
    pub fn set(&self, process: u32) {
        let process = i32::try_from(process).unwrap_or_default();
        self.0.peak_bytes.store(0, Ordering::Relaxed);
        self.0.process.store(process, Ordering::Release);
    }

    /// Returns the number of the other process; `None` for this one.
    #[must_use]
    pub fn other(&self) -> Option<i32> {
        Some(self.0.process.load(Ordering::Acquire)).filter(|process| *process > 0)
    }

    /// Raises the largest resident set of the tree to `bytes`, from a reading by any thread.
    pub(crate) fn note_peak(&self, bytes: Option<u64>) {
        let bytes = bytes.unwrap_or_default();
        self.0.peak_bytes.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Returns the largest resident set of the tree that any reading has seen, in bytes; absent if
    /// none has.
    pub(crate) fn peak_bytes(&self) -> Option<u64> {
        Some(self.0.peak_bytes.load(Ordering::Relaxed)).filter(|bytes| *bytes > 0)
    }
}

/// CPU time and memory that a tree of processes has used until now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TreeUse {
    /// CPU time of all its processes, those included that have ended and were waited for. Of the
    /// latter it is known in ticks of the kernel only (10 ms), of the others to the nanosecond.
    pub cpu: ProcessCpu,
    /// Resident sets of all its processes, in bytes. Memory that two of them share counts twice.
    pub resident_bytes: Option<u64>,
    /// Largest resident set until now, in bytes: the kernel's own mark of a single process. Of
    /// several it is what they have together now, or the largest mark if that is more.
    pub peak_bytes: Option<u64>,
}

/// A process and its descendants, whose files in `/proc` stay open between readings: a program that is
/// sampled ten times a second would otherwise cost fifty system calls a sample.
#[derive(Debug)]
pub struct Tree {
    root: i32,
    /// The root first; the others as they were at the last search.
    members: Vec<Member>,
    /// `/proc/loadavg`, whose last field is the ID of the newest process or thread.
    newest: Option<ProcFile>,
    /// Last field of `/proc/loadavg` before the last search; absent if the next reading has to search again.
    searched_at: Option<u64>,
}

/// Open files of one process.
#[derive(Debug)]
struct Member {
    process: i32,
    stat: ProcFile,
    status: ProcFile,
}

impl Tree {
    /// Makes the tree of `root`; a process that does not exist is found out by [`Tree::read`].
    #[must_use]
    pub fn new(root: i32) -> Self {
        Self {
            root,
            members: Vec::new(),
            newest: ProcFile::open("/proc/loadavg"),
            searched_at: None,
        }
    }

    /// Returns the process ID of the root.
    pub(crate) fn root(&self) -> i32 {
        self.root
    }

    /// Reads all processes; `None` if there is no process `root` any more. One that has ended and was not
    /// waited for still has its CPU time.
    pub fn read(&mut self) -> Option<TreeUse> {
        self.search();
        let mut read = TreeUse::default();
        let found = self.members.len();
        // One that has ended in between is in its parent's account, from the next reading on.
        let mut add = |member: &mut Member| member.add_to(&mut read).is_some();
        self.members.retain_mut(&mut add);
        if self.members.len() < found {
            self.searched_at = None;
        }
        if self.members.first()?.process != self.root {
            return None;
        }
        read.peak_bytes = read.peak_bytes.max(read.resident_bytes);
        Some(read)
    }

    /// Searches for the members, if any process has begun since the last search.
    fn search(&mut self) {
        let newest = self.newest.as_mut().and_then(newest_process);
        if newest.is_some() && newest == self.searched_at {
            return;
        }
        let mut known = std::mem::take(&mut self.members);
        let below = walk(self.root, MAX_PROCESSES, children);
        let mut member = |process| {
            let at = known.iter().position(|member| member.process == process);
            at.map(|at| known.swap_remove(at))
                .or_else(|| Member::open(process))
        };
        let all = iter::once(self.root).chain(below);
        self.members = all.filter_map(&mut member).collect();
        self.searched_at = newest;
    }
}

impl Member {
    fn open(process: i32) -> Option<Self> {
        let open = |name| ProcFile::open(&format!("/proc/{process}/{name}"));
        Some(Self {
            process,
            stat: open("stat")?,
            status: open("status")?,
        })
    }

    /// Adds the CPU time of the process and of the children that it has waited for, and its memory; `None` if it does
    /// not exist any more.
    fn add_to(&mut self, sum: &mut TreeUse) -> Option<()> {
        let cpu = own_cpu(self.process, self.stat.read().ok()?)?;
        sum.cpu.user_ns += cpu.user_ns;
        sum.cpu.system_ns += cpu.system_ns;
        sum.cpu.total_ns += cpu.total_ns;
        // A process that has ended has no memory.
        let status = self.status.read().unwrap_or_default();
        if let Some(bytes) = bytes_of(status, "VmRSS").filter(|bytes| *bytes > 0) {
            *sum.resident_bytes.get_or_insert_default() += bytes;
        }
        sum.peak_bytes = sum.peak_bytes.max(bytes_of(status, "VmHWM"));
        Some(())
    }
}

/// Returns the number that the kernel gave to a process or thread last, from `/proc/loadavg`.
fn newest_process(file: &mut ProcFile) -> Option<u64> {
    let text = std::str::from_utf8(file.read_start(256).ok()?).ok()?;
    text.split_ascii_whitespace().last()?.parse().ok()
}

/// Returns the CPU time of a process and of the children that it has waited for, from its `/proc/PID/stat`.
fn own_cpu(process: i32, stat: &[u8]) -> Option<ProcessCpu> {
    let [user, system, waited_user, waited_system] = ticks(&String::from_utf8_lossy(stat))?;
    let ns = |ticks: i64| ticks.saturating_mul(tick_ns());
    let exact = process_clock_ns(process).unwrap_or_else(|| ns(user + system));
    Some(ProcessCpu {
        user_ns: ns(user + waited_user),
        system_ns: ns(system + waited_system),
        total_ns: exact + ns(waited_user + waited_system),
    })
}

/// Reads `utime`, `stime`, `cutime`, `cstime` of a line of `/proc/PID/stat`, in ticks.
fn ticks(stat: &str) -> Option<[i64; 4]> {
    // The name in brackets may hold anything, brackets and blanks included. After it the state is
    // field 3 of proc_pid_stat(5), and `utime` field 14.
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let mut next = || fields.next()?.parse().ok();
    Some([next()?, next()?, next()?, next()?])
}

/// Returns the CPU time of all threads of another process, those that have ended included, in
/// nanoseconds.
fn process_clock_ns(process: i32) -> Option<i64> {
    let clock = clock_getcpuclockid(Pid::from_raw(process)).ok()?;
    Some(clock_ns(clock)).filter(|ns| *ns > 0)
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead as _, BufReader},
        os::unix::process::CommandExt as _,
        process::{Command, Stdio},
    };

    use super::*;

    #[test]
    fn stat_line_is_parsed_with_any_process_name() {
        let line = "7 (a) b (c) S 1 7 7 0 -1 4194304 100 0 0 0 11 12 13 14 20 0 1 0";
        assert_eq!(ticks(line), Some([11, 12, 13, 14]));
        assert_eq!(ticks("7 (short) S 1"), None);
    }

    #[test]
    fn clones_of_a_subject_share_process_and_peak() {
        let subject = Subject::new();
        let other = subject.clone();
        assert_eq!((other.other(), other.peak_bytes()), (None, None));
        subject.set(7);
        subject.note_peak(Some(5));
        other.note_peak(Some(9));
        subject.note_peak(None);
        assert_eq!((other.other(), subject.peak_bytes()), (Some(7), Some(9)));
        subject.set(8);
        assert_eq!(other.peak_bytes(), None, "another tree has its own");
    }

    #[test]
    fn process_tree_is_charged_without_this_process() {
        // A shell that has another one count, and prints `done` after that; both then wait.
        let count = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo done; read x";
        let mut shell = Command::new("sh")
            .args(["-c", "exec 3<&0; sh -c \"$1\" <&3 & wait", "sh", count])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let root = i32::try_from(shell.id()).unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let children = children(root);
        let mut tree = Tree::new(root);
        let used = tree.read().unwrap();
        let mut alone = TreeUse::default();
        tree.members[0].add_to(&mut alone).unwrap();
        for &child in &children {
            // SAFETY: takes no pointer; it is a child of our child, which has not waited for it.
            unsafe { libc::kill(child, libc::SIGKILL) };
        }
        shell.wait().unwrap();
        assert_eq!(children.len(), 1, "{children:?}");
        assert!(
            used.cpu.total_ns > alone.cpu.total_ns + 20_000_000,
            "{used:?}, the shell alone {alone:?}"
        );
        assert!(used.resident_bytes > alone.resident_bytes, "{used:?}");
        assert!(used.peak_bytes >= used.resident_bytes, "{used:?}");
        assert_eq!(tree.read(), None, "it is gone");
    }

    #[test]
    fn process_started_between_readings_is_in_the_second() {
        let script = "read x; sleep 1000 & echo begun; wait";
        let mut shell = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let root = i32::try_from(shell.id()).unwrap();
        let mut tree = Tree::new(root);
        tree.read().unwrap();
        let before = tree.members.len();
        drop(shell.stdin.take());
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        tree.read().unwrap();
        let after = tree.members.len();
        // SAFETY: takes no pointer; the group is that of our child, which has not been waited for.
        unsafe { libc::kill(-root, libc::SIGKILL) };
        shell.wait().unwrap();
        assert_eq!((before, after), (1, 2));
    }
}
