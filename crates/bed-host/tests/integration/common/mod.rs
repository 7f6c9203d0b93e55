//! Helpers of the bed's tests: a bed of the tests' own host program, and agents to talk to.

use std::{
    fs::File,
    io::{BufRead, BufReader, Write},
    net::{IpAddr, SocketAddr},
    path::Path,
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use regatta_bed::{Bed, BedError, Host, Launched, TestBed as _};
use regatta_model::{
    AskedAchieved, BedKind, BitRate, Condition, Link, PathCheck, PathSetup, Ratio,
};
use regatta_test_support::machine::MachineLoad;
use regatta_test_support::test_run::not_judged;

pub mod withheld;

use withheld::Withheld;

/// Share of a path check for which processors may be withheld: one that finds 1 % of its round trips late has
/// been disturbed for longer.
const MAX_WITHHELD: f64 = 0.003;

/// Returns the program that stands in for `regatta`.
pub fn executable() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_regatta-bed-host"))
}

/// Makes a bed whose draws are the same in every run of the tests: a statistical assertion either
/// always holds or never.
pub fn bed() -> Bed {
    bed_of(PathSetup::USERSPACE).unwrap_or_else(|error| panic!("{}", explain(&error)))
}

/// Makes such a bed with the path `path`.
pub fn bed_of(path: PathSetup) -> Result<Bed, BedError> {
    Bed::up(BedKind::Netns, path, &[], executable(), "bed tests")
}

/// Formats an error with its causes.
pub fn explain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}

/// Returns a condition that is the same both ways; a `rate_mbps` of 0 is no rate.
pub fn condition(round_trip_ms: u64, rate_mbps: u64, loss: f64) -> Condition {
    let link = Link {
        delay: Duration::from_micros(round_trip_ms * 500),
        loss: Ratio(loss),
        rate: (rate_mbps > 0).then_some(BitRate(rate_mbps * 1_000_000)),
        ..Link::default()
    };
    Condition {
        name: "test".into(),
        forward: link.clone(),
        reverse: link,
        mtu_bytes: Condition::DEFAULT_MTU_BYTES,
        schedule: Vec::new(),
        tuning: regatta_model::HostTuning::default(),
    }
}

/// Returns a quantity of a path check by its name.
pub fn quantity<'a>(check: &'a PathCheck, name: &str) -> Option<&'a AskedAchieved> {
    check
        .quantities
        .iter()
        .find(|quantity| quantity.name == name)
}

/// Makes path checks until one is as `is_sound` says of it and of the time that it took, or was not
/// disturbed; returns it with that time, or nothing as [`until_undisturbed`].
///
/// As in a run, a check that the machine disturbed is made again unless it found the path sound all the same. What
/// counts as a disturbance does not depend on what was found.
pub fn check_path(
    bed: &mut Bed,
    condition: &Condition,
    is_sound: impl Fn(&PathCheck, Duration) -> bool,
) -> Option<(PathCheck, Duration)> {
    until_undisturbed(|| {
        // A guest has one processor, whose pauses the check itself notes.
        let watch = thread::available_parallelism()
            .is_ok_and(|processors| processors.get() > 1)
            .then(Withheld::watch);
        let started = Instant::now();
        let check = bed
            .check_path(condition)
            .unwrap_or_else(|error| panic!("{}", explain(&error)));
        let took = started.elapsed();
        let late = watch.map_or_else(Vec::new, Withheld::end);
        let withheld: u64 = late.iter().map(|late| late.end - late.start).sum();
        let withheld = withheld as f64 / took.as_nanos() as f64;
        println!("{:.2} % withheld, {check:?}", withheld * 100.0);
        let disturbed = check.spoiled.is_some() || withheld > MAX_WITHHELD;
        (!disturbed || is_sound(&check, took)).then_some((check, took))
    })
}

/// An agent of the host program; killed when dropped.
pub struct Agent {
    launched: Launched,
    answers: BufReader<File>,
    pub address: IpAddr,
}

impl Agent {
    pub fn start(bed: &mut Bed, host: Host) -> Self {
        let launched = bed
            .spawn_agent(host)
            .unwrap_or_else(|error| panic!("{}", explain(&error)));
        let output = launched.output.try_clone().expect("a descriptor");
        Self {
            answers: BufReader::new(output.into()),
            launched,
            address: bed.address(host),
        }
    }

    pub fn send(&mut self, line: &str) {
        writeln!(self.launched.input, "{line}").expect("the agent listens");
    }

    pub fn receive(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }

    /// Makes the agent listen with the command `command` and returns its address.
    pub fn listen(&mut self, command: &str) -> SocketAddr {
        self.send(command);
        let line = self.receive();
        let port = line
            .strip_prefix("listening ")
            .and_then(|port| port.parse().ok())
            .unwrap_or_else(|| panic!("`{line}` is not `listening PORT`"));
        SocketAddr::new(self.address, port)
    }
}

/// Returns the departure (Unix time) and the delay of each answer to `ping`, in nanoseconds.
pub fn answers(line: &str) -> Vec<(u64, u64)> {
    let answer = |field: &str| {
        let (departed, delay) = field.split_once(':')?;
        Some((departed.parse().ok()?, delay.parse().ok()?))
    };
    line.split_whitespace()
        .map(|field| answer(field).unwrap_or_else(|| panic!("`{field}` is not `DEPARTED:DELAY`")))
        .collect()
}

/// Returns the delays of the answers to `ping`, in nanoseconds.
pub fn delays(line: &str) -> Vec<u64> {
    answers(line).into_iter().map(|(_, delay)| delay).collect()
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.launched.process.kill();
    }
}

/// Makes measurements until one is undisturbed, which `measure` says by returning it, with a pause
/// after each, as long as the process of the test is younger than 150 seconds. Without one the test
/// cannot judge, and is noted among those ([`not_judged`]).
///
/// The decision must not depend on the measured value: then this is no retrying until it passes.
#[must_use]
pub fn until_undisturbed<T>(mut measure: impl FnMut() -> Option<T>) -> Option<T> {
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    let begun = *BEGUN.get_or_init(Instant::now);
    let all = MachineLoad::watch();
    loop {
        let load = MachineLoad::watch();
        if let Some(value) = measure() {
            return Some(value);
        }
        println!("set aside: {}", load.line());
        if begun.elapsed() > Duration::from_secs(150) {
            not_judged(&all.line());
            return None;
        }
        thread::sleep(Duration::from_secs(2));
    }
}

/// Makes a measurement on an otherwise idle machine: the hypervisor withheld at most 2 % of its
/// time and other processes used at most 15 %, since no process can keep time without a processor.
#[must_use]
pub fn undisturbed<T>(mut measure: impl FnMut() -> T) -> Option<T> {
    until_undisturbed(|| {
        let load = MachineLoad::watch();
        let value = measure();
        let shares = load.shares();
        (shares.steal <= 0.02 && shares.others <= 0.15).then_some(value)
    })
}

/// Makes a measurement twice, and a third time unless both are good, to be judged by the medians: those of two good ones
/// and any third one are good.
#[must_use]
pub fn two_or_three<T>(
    mut measure: impl FnMut() -> Option<T>,
    is_good: impl Fn(&T) -> bool,
) -> Option<Vec<T>> {
    let mut found = vec![measure()?, measure()?];
    if !found.iter().all(is_good) {
        found.push(measure()?);
    }
    Some(found)
}

/// Returns the median of three values, or the larger one of two.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
