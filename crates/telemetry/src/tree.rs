//! CPU time and memory of another process and of everything that it started.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicI32, AtomicU64, Ordering},
    },
};

use regatta_process::{children, walk};

use crate::{
    clock::clock_ns,
    host_cpu::tick_ns,
    process::{ProcessCpu, peak_memory_bytes_of, resident_bytes_of},
};

/// Largest number of processes that is read. One end of a trial has fewer; a tree that grows
/// without end is cut here, so that reading it stays cheap.
const MOST_PROCESSES: usize = 256;

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

    /// Raises the largest resident set of the tree to `bytes`, from a reading by anybody.
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

/// CPU time and memory that a tree of processes has used so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TreeUse {
    /// CPU time of all its processes, those included that have ended and were waited for. Of the
    /// latter it is known in ticks of the kernel only (10 ms), of the others to the nanosecond.
    pub cpu: ProcessCpu,
    /// Resident sets of all its processes, in bytes. Memory that two of them share counts twice.
    pub resident_bytes: Option<u64>,
    /// Largest resident set so far, in bytes: the kernel's own mark of a single process. Of
    /// several it is what they have together now, or the largest mark if that is more.
    pub peak_bytes: Option<u64>,
}

/// Reads a process and its descendants; `None` if there is no such process. One that has ended and
/// was not waited for still tells its CPU time.
#[must_use]
pub fn read_tree(root: i32) -> Option<TreeUse> {
    let mut read = TreeUse {
        cpu: own_cpu(root)?,
        resident_bytes: resident_bytes_of(root),
        peak_bytes: peak_memory_bytes_of(root),
    };
    for process in walk(root, MOST_PROCESSES, children) {
        // One that has ended in between is in its parent's account, from the next reading on.
        let Some(cpu) = own_cpu(process) else {
            continue;
        };
        read.cpu.user_ns += cpu.user_ns;
        read.cpu.system_ns += cpu.system_ns;
        read.cpu.total_ns += cpu.total_ns;
        read.resident_bytes = sum(read.resident_bytes, resident_bytes_of(process));
        read.peak_bytes = read.peak_bytes.max(peak_memory_bytes_of(process));
    }
    read.peak_bytes = read.peak_bytes.max(read.resident_bytes);
    Some(read)
}

fn sum(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    }
}

/// Returns the CPU time of one process and of the children that it has waited for.
fn own_cpu(process: i32) -> Option<ProcessCpu> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let [user, system, waited_user, waited_system] = ticks(&stat)?;
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
    let mut clock: libc::clockid_t = 0;
    // SAFETY: `clock` is a valid place for one clock's number.
    let found = unsafe { libc::clock_getcpuclockid(process, &raw mut clock) } == 0;
    found.then(|| clock_ns(clock)).filter(|ns| *ns > 0)
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead as _, BufReader},
        process::{Command, Stdio},
    };

    use super::*;

    #[test]
    fn a_line_of_stat_is_read_whatever_the_name_is() {
        let line = "7 (a) b (c) S 1 7 7 0 -1 4194304 100 0 0 0 11 12 13 14 20 0 1 0";
        assert_eq!(ticks(line), Some([11, 12, 13, 14]));
        assert_eq!(ticks("7 (short) S 1"), None);
    }

    #[test]
    fn clones_of_a_subject_share_the_choice_and_the_peak() {
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
    fn a_child_and_its_children_are_charged_and_this_process_is_not() {
        // A shell that has another one count, and tells when that is done; both then wait.
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
        let tree = read_tree(root).unwrap();
        let alone = own_cpu(root).unwrap();
        for &child in &children {
            // SAFETY: takes no pointer; it is a child of our child, which has not waited for it.
            unsafe { libc::kill(child, libc::SIGKILL) };
        }
        shell.wait().unwrap();
        assert_eq!(children.len(), 1, "{children:?}");
        assert!(
            tree.cpu.total_ns > alone.total_ns + 20_000_000,
            "{tree:?}, the shell alone {alone:?}"
        );
        assert!(tree.resident_bytes > resident_bytes_of(root).or(Some(1)));
        assert_eq!(tree.peak_bytes.max(tree.resident_bytes), tree.peak_bytes);
        assert_eq!(read_tree(root), None, "it is gone");
    }
}
