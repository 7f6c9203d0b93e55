//! Limit of an end to a number of the host's processors.

use std::{
    fs,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use nix::{
    errno::Errno,
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};
use regatta_control::TrialOrder;
use regatta_model::reason;
use regatta_process::descendants;
use regatta_transport::{TransportError, Unsupported};

/// Processors on which this process could run when it had its first limit.
static ALLOWED: OnceLock<Vec<usize>> = OnceLock::new();

/// Whether an earlier trial has set a limit.
static IS_LIMITED: AtomicBool = AtomicBool::new(false);

/// Limits all threads of this process, and those of what it has started, to as many processors as the order says; lifts
/// the limit of an earlier trial if it says nothing. Threads and processes that are started later inherit the limit.
/// Returns the processors, for the facts of the trial.
///
/// # Errors
/// The host has too few processors, or refuses.
pub(crate) fn limit(order: &TrialOrder) -> Result<Option<String>, TransportError> {
    if order.cpus.is_none() && !IS_LIMITED.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let allowed = ALLOWED.get_or_init(|| allowed().unwrap_or_default());
    let chosen = choose(allowed, order.cpus, order.connects())?;
    set(chosen).map_err(|errno| {
        let failed = TransportError::io(reason::cannot_choose_processors());
        failed(errno.into())
    })?;
    IS_LIMITED.store(order.cpus.is_some(), Ordering::Relaxed);
    Ok(order.cpus.map(|_| text(chosen, allowed.len())))
}

/// Returns the processors on which the calling thread may run.
fn allowed() -> Result<Vec<usize>, Errno> {
    let set = sched_getaffinity(Pid::from_raw(0))?;
    let processors = 0..CpuSet::count();
    Ok(processors
        .filter(|processor| set.is_set(*processor).unwrap_or(false))
        .collect())
}

/// Returns the first `cpus` of the allowed processors for the connecting end and the last `cpus` for the listening one.
/// The two do not overlap if both ends are on one host with at least twice `cpus`.
///
/// # Errors
/// [`Unsupported`] if fewer than `cpus` are allowed.
fn choose(allowed: &[usize], cpus: Option<u32>, connects: bool) -> Result<&[usize], Unsupported> {
    let count = cpus.map_or(allowed.len(), |cpus| cpus as usize);
    let chosen = match connects {
        true => allowed.get(..count),
        false => (allowed.len().checked_sub(count)).map(|from| &allowed[from..]),
    };
    chosen.ok_or_else(|| {
        let most = allowed.len();
        Unsupported::new(
            reason::fewer_processors(count as u64, most as u64),
            reason::write_processors(most as u64),
        )
    })
}

/// Names the chosen ones of all processors.
fn text(chosen: &[usize], all: usize) -> String {
    let numbers: Vec<String> = chosen.iter().map(usize::to_string).collect();
    format!("{} of {all}: {}", chosen.len(), numbers.join(", "))
}

/// Sets the processors of all threads of this process and of what it has started.
fn set(processors: &[usize]) -> Result<(), Errno> {
    let mut set = CpuSet::new();
    for processor in processors {
        set.set(*processor)?;
    }
    let own = std::process::id().cast_signed();
    for process in std::iter::once(own).chain(descendants(own)) {
        let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter();
        for thread in threads.flatten().flatten() {
            let number = thread.file_name().to_str().and_then(|it| it.parse().ok());
            let Some(number) = number else { continue };
            match sched_setaffinity(Pid::from_raw(number), &set) {
                // It has ended in between.
                Ok(()) | Err(Errno::ESRCH) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc::channel, thread};

    use super::*;

    #[test]
    fn the_ends_have_different_processors_where_there_are_enough() {
        let chosen =
            |allowed: &'static [usize], cpus, connects| choose(allowed, cpus, connects).ok();
        let four = &[0, 2, 4, 6];
        assert_eq!(chosen(four, Some(1), true), Some(&[0][..]));
        assert_eq!(chosen(four, Some(1), false), Some(&[6][..]));
        assert_eq!(chosen(four, Some(3), true), Some(&[0, 2, 4][..]));
        assert_eq!(chosen(four, None, false), Some(&four[..]));
        assert_eq!(chosen(&[3], Some(1), false), Some(&[3][..]));
        let refused = choose(&[0], Some(2), true).expect_err("one is too few");
        assert!(refused.hint.contains("`cpus = 1`"), "{refused:?}");
        assert_eq!(text(&[0, 2], 4), "2 of 4: 0, 2");
    }

    #[test]
    fn threads_that_run_already_are_limited_too() {
        let all = allowed().expect("processors");
        let (ask, asked) = channel::<()>();
        let (answer, answers) = channel();
        let other = thread::spawn(move || {
            while asked.recv().is_ok() {
                answer
                    .send(allowed().expect("processors"))
                    .expect("a reader");
            }
        });
        for processors in [&all[..1], &all[..]] {
            set(processors).expect("a limit");
            ask.send(()).expect("the thread runs");
            assert_eq!(answers.recv().expect("an answer"), processors);
            assert_eq!(allowed().as_deref(), Ok(processors));
        }
        drop(ask);
        other.join().expect("no panic");
    }
}
