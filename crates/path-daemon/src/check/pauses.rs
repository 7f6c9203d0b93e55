//! Evidence that the machine, and not the path, caused the findings of a check.

use std::{
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use regatta_forwarder::{LinkCounters, clock};
use regatta_model::{PacketCounter, Phrase, Ratio, reason};

use crate::{error::DaemonError, spawn};

/// Time between two looks at the clock.
const TICK: Duration = Duration::from_millis(1);

/// Shortest pause that counts.
const SHORTEST: Duration = Duration::from_millis(1);

/// Share of a check in which the machine may pause: five milliseconds of a second are two or three of
/// 300 round trips, or half of a train's head start.
const MAX_PAUSED: f64 = 0.005;

/// Share of the packets that may leave the path too late.
const MAX_LATE: f64 = 0.01;

/// Share of the packets that may be lost because an interface was not emptied in time.
const MAX_REFUSED: f64 = 1e-4;

/// Share of all processors that other processes may use. Beyond it, a thread that is due may have
/// to wait, by less than a pause of its own, and find a queue that has filled meanwhile.
const MAX_BUSY: f64 = 0.5;

/// Time that all processors together spent idle, and that this process used, in seconds.
#[derive(Debug, Clone, Copy)]
struct Processors {
    idle: f64,
    own_cpu: f64,
}

impl Processors {
    /// Reads `/proc/stat`; `None` where there is none.
    fn read() -> Option<Self> {
        let stat = std::fs::read_to_string("/proc/stat").ok()?;
        let mut ticks = stat.lines().next()?.split_ascii_whitespace().skip(4);
        // SAFETY: takes no pointer.
        let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
        let mut next = || ticks.next()?.parse::<f64>().ok();
        Some(Self {
            idle: (next()? + next()?) / per_second as f64,
            own_cpu: clock::process_cpu_ns() as f64 / 1e9,
        })
    }

    /// Returns the share of all processors that other processes have used between `self` and `now`,
    /// a time of `of`.
    fn others(self, now: Self, of: Duration) -> f64 {
        let cores = thread::available_parallelism().map_or(1, usize::from) as f64;
        let all = of.as_secs_f64().max(1e-9) * cores;
        1.0 - (now.idle - self.idle + now.own_cpu - self.own_cpu) / all
    }
}

/// Thread that asks to be woken every millisecond, as precisely as the forwarder does, and adds up
/// how late it is woken.
#[derive(Debug)]
pub(crate) struct PauseWatch {
    /// Dropping it ends the thread, also where the check fails.
    keep_running: Arc<()>,
    begun: Instant,
    before: Option<Processors>,
    thread: JoinHandle<Duration>,
}

impl PauseWatch {
    pub(crate) fn start() -> Result<Self, DaemonError> {
        let keep_running = Arc::new(());
        let watched = Arc::downgrade(&keep_running);
        let thread = spawn("pauses", move || {
            clock::wake_on_time();
            let mut paused = Duration::ZERO;
            while watched.strong_count() > 0 {
                let asleep = Instant::now();
                thread::sleep(TICK);
                let late = asleep.elapsed().saturating_sub(TICK);
                if late >= SHORTEST {
                    paused += late;
                }
            }
            paused
        })?;
        Ok(Self {
            keep_running,
            begun: Instant::now(),
            before: Processors::read(),
            thread,
        })
    }

    /// Stops the watch and returns the evidence, if there is some, against the check that was made
    /// meanwhile; `links` is what the path counted in it.
    pub(crate) fn finish(self, links: &[LinkCounters; 2]) -> Option<Phrase> {
        drop(self.keep_running);
        let paused = self.thread.join().unwrap_or_default();
        let of = self.begun.elapsed();
        let others = self.before.zip(Processors::read());
        let others = others.map_or(0.0, |(before, now)| before.others(now, of));
        evidence(paused, of, links, others)
    }
}

fn evidence(
    paused: Duration,
    of: Duration,
    links: &[LinkCounters; 2],
    others: f64,
) -> Option<Phrase> {
    let share = paused.as_secs_f64() / of.as_secs_f64().max(1e-9);
    if share > MAX_PAUSED {
        let tenths =
            |time: Duration, per_second: f64| (time.as_secs_f64() * per_second).round() as u64;
        return Some(reason::check_paused(
            Duration::from_micros(tenths(paused, 1e4) * 100),
            Duration::from_millis(tenths(of, 10.0) * 100),
        ));
    }
    let delivered: u64 = links.iter().map(|link| link.delivered).sum();
    let late: u64 = links.iter().map(|link| link.late_packets).sum();
    let late = late as f64 / delivered.max(1) as f64;
    if late > MAX_LATE {
        return Some(reason::check_packets_late(to_digits(late, 3)));
    }
    let refused: u64 = links
        .iter()
        .map(|link| link.packets[PacketCounter::Refused])
        .sum();
    let refused = refused as f64 / (delivered + refused).max(1) as f64;
    if refused > MAX_REFUSED {
        return Some(reason::check_packets_refused(to_digits(refused, 4)));
    }
    (others > MAX_BUSY).then(|| reason::processors_busy(to_digits(others, 2)))
}

/// Returns a part rounded to decimals.
fn to_digits(part: f64, digits: i32) -> Ratio {
    let scale = 10_f64.powi(digits);
    Ratio((part * scale).round() / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_late_and_refused_packets_and_other_processes_invalidate_a_check() {
        let second = Duration::from_secs(1);
        let links = |late_packets| {
            [LinkCounters {
                delivered: 1000,
                late_packets,
                ..LinkCounters::default()
            }; 2]
        };
        let five_ms = Duration::from_millis(5);
        assert_eq!(evidence(five_ms, second, &links(10), 0.5), None);
        let says = |found: Option<Phrase>, expected: &str| {
            assert_eq!(
                found.map(|found| found.to_string()).as_deref(),
                Some(expected)
            );
        };
        let paused = evidence(Duration::from_millis(6), second, &links(0), 0.0);
        says(paused, "it paused for 6 ms of 1 s");
        let late = evidence(Duration::ZERO, second, &links(11), 0.0);
        says(late, "1.1 % of the check's packets left too late");
        let mut refusing = links(0);
        refusing[1].packets[PacketCounter::Refused] = 20;
        let refused = evidence(Duration::ZERO, second, &refusing, 0.0);
        says(
            refused,
            "0.99 % of the check's packets were lost because it did not keep up",
        );
        let busy = evidence(Duration::ZERO, second, &links(0), 0.6);
        says(busy, "other processes used 60 % of the processors");
    }
}
