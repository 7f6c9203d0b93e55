//! Times in which a hypervisor withheld a processor.

use std::{
    io,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nix::{
    sched::{CpuSet, sched_setaffinity},
    unistd::Pid,
};

/// Interval between two looks at a processor.
const INTERVAL: Duration = Duration::from_millis(1);

/// Lateness of a thread of the highest priority from which on its processor counts as withheld.
const LATE: Duration = Duration::from_micros(500);

/// Watches all processors: one thread of the highest real-time priority on each, which no other
/// thread can keep waiting, sleeps for [`INTERVAL`] and notes how late it wakes.
pub struct Withheld {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<Range<u64>>>>,
}

impl Withheld {
    /// Begins to watch. Where real-time priority is not allowed, nothing counts as withheld.
    pub fn watch() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let threads = (0..processors).map(|processor| {
            let stop = stop.clone();
            thread::spawn(move || match take(processor) {
                Ok(()) => late(&stop),
                Err(_) => Vec::new(),
            })
        });
        let threads = threads.collect();
        Self { stop, threads }
    }

    /// Returns the times (Unix time in nanoseconds) in which a processor was withheld.
    pub fn end(self) -> Vec<Range<u64>> {
        self.stop.store(true, Ordering::Relaxed);
        let threads = self.threads.into_iter();
        let late = threads.flat_map(|thread| thread.join().expect("a watching thread"));
        late.collect()
    }
}

/// Binds the calling thread to a processor and gives it the highest real-time priority.
fn take(processor: usize) -> io::Result<()> {
    let mut only = CpuSet::new();
    only.set(processor)?;
    sched_setaffinity(Pid::from_raw(0), &only)?;
    // SAFETY: takes a number only.
    let sched_priority = unsafe { libc::sched_get_priority_max(libc::SCHED_FIFO) };
    let highest = libc::sched_param { sched_priority };
    // SAFETY: 0 is the calling thread and `highest` a valid parameter.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &highest) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn late(stop: &AtomicBool) -> Vec<Range<u64>> {
    let mut late = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let due = SystemTime::now() + INTERVAL;
        thread::sleep(INTERVAL);
        let now = SystemTime::now();
        if now > due + LATE {
            late.push(unix_ns(due)..unix_ns(now));
        }
    }
    late
}

fn unix_ns(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as u64)
}
