//! Disturbances of runs over hosts at random moments: processes killed, stopped and continued, wires cut, machines without
//! power. After each, nothing of Regatta is left on a host, no trial that was reported is lost, and the run is resumed
//! to its end.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    thread,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use parking_lot::Mutex;
use regatta_process::children;
use regatta_results::{Reader, RunState};
use regatta_test_support::machine::repetitions;
use serde_json::Value;

use super::*;
use crate::help::Random;

/// Longest time after a disturbance in which a run may reach a lost host again, and end.
const END_TIMEOUT: Duration = Duration::from_secs(150);

/// First arguments of the processes of a host.
const ROLES: [&str; 6] = [
    "host-server",
    "host-guard",
    "path-daemon",
    "agent",
    "host-monitor",
    "interface-guard",
];

/// Processes and wires of a lab, as a disturbance needs them.
struct Field {
    lab: Lab,
    is_guests: bool,
    /// Options of the run.
    options: &'static [&'static str],
    /// Network devices, addresses and disciplines of each host.
    before: [Option<String>; 2],
}

/// Disturbance, with its place in the list of what came of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Disturbance {
    /// A signal to the controller.
    Controller(Signal),
    /// A signal to the controller's `ssh` of a host.
    Ssh(usize, Signal),
    /// A signal to a process with this first argument on a host.
    OnHost(usize, &'static str, Signal),
    /// Such a process is stopped, and continued after this time, in milliseconds.
    Pause(usize, &'static str, u64),
    /// A network device in the controller's network carries nothing for this time, in milliseconds.
    Wire(&'static str, u64),
    /// The wire between the hosts is cut for this time, in milliseconds.
    DataWire(u64),
    /// A machine has no power for a moment.
    Power(usize),
}

/// Group of disturbances that a test draws from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    Controller,
    Hosts,
    Wires,
    All,
}

impl Disturbance {
    fn draw(random: &mut Random, group: Group, is_guests: bool) -> Self {
        let host = random.below(2) as usize;
        let pick = |random: &mut Random, of: &[Signal]| of[random.below(of.len() as u64) as usize];
        let group = match group {
            Group::All => [Group::Controller, Group::Hosts, Group::Hosts, Group::Wires]
                [random.below(4) as usize],
            one => one,
        };
        let time = 200 + random.below(12_000);
        match group {
            Group::Controller => {
                let ends = [
                    Signal::SIGKILL,
                    Signal::SIGSTOP,
                    Signal::SIGTERM,
                    Signal::SIGINT,
                    Signal::SIGHUP,
                ];
                match random.below(3) {
                    0 => Self::Ssh(
                        host,
                        pick(random, &[Signal::SIGKILL, Signal::SIGSTOP, Signal::SIGTERM]),
                    ),
                    _ => Self::Controller(pick(random, &ends)),
                }
            }
            Group::Hosts | Group::All => {
                let roles = ROLES.len() as u64 - u64::from(!is_guests);
                let role = ROLES[random.below(roles) as usize];
                let signals = [Signal::SIGKILL, Signal::SIGSTOP, Signal::SIGTERM];
                match random.below(4) {
                    0 => Self::Pause(host, role, time),
                    _ => Self::OnHost(host, role, pick(random, &signals)),
                }
            }
            Group::Wires => match (is_guests, random.below(3)) {
                (true, 0) => Self::Power(host),
                (true, _) => Self::Wire(["tap1", "tap2"][host], time),
                (false, 0) => Self::DataWire(time),
                (false, _) => Self::Wire(["manage1", "manage2"][host], time),
            },
        }
    }

    /// Name by which disturbances are counted.
    fn kind(self) -> String {
        match self {
            Self::Controller(signal) => format!("controller {signal}"),
            Self::Ssh(_, signal) => format!("ssh {signal}"),
            Self::OnHost(_, role, signal) => format!("{role} {signal}"),
            Self::Pause(_, role, _) => format!("{role} SIGSTOP, SIGCONT"),
            Self::Wire(..) => "wire to a host".to_owned(),
            Self::DataWire(_) => "wire between the hosts".to_owned(),
            Self::Power(_) => "machine without power".to_owned(),
        }
    }
}

/// Run of the controller that is watched.
struct Run {
    child: Child,
    /// Events of `--json`.
    events: Arc<Mutex<Vec<Value>>>,
    errors: PathBuf,
}

impl Run {
    fn start(mut command: Command, errors: PathBuf) -> Self {
        let file = fs::File::create(&errors).expect("a file");
        let mut child = (command.stdout(Stdio::piped()).stderr(file))
            .spawn()
            .expect("nsenter");
        let events = Arc::<Mutex<Vec<Value>>>::default();
        let (out, to) = (child.stdout.take().expect("a pipe"), Arc::clone(&events));
        thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                // The last line of one that is killed may be cut off.
                if let Ok(event) = serde_json::from_str(&line) {
                    to.lock().push(event);
                }
            }
        });
        Self {
            child,
            events,
            errors,
        }
    }

    fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Waits for the end; kills the run that has none in time.
    fn end(&mut self, within: Duration) -> Result<i32, String> {
        let until = Instant::now() + within;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return Ok(status.code().unwrap_or(-1));
            }
            if Instant::now() > until {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return Err(format!(
                    "the run did not end within {within:?}: {}",
                    self.output()
                ));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn output(&self) -> String {
        fs::read_to_string(&self.errors).unwrap_or_default()
    }

    /// Returns the trials that were reported as committed: index, attempt, outcome.
    fn reported(&self) -> BTreeSet<(u64, u64, String)> {
        let events = self.events.lock();
        let ended = events
            .iter()
            .filter(|event| event["event"] == "trial_ended");
        ended
            .map(|event| {
                let trial = &event["trial"];
                let number = |key: &str| trial[key].as_u64().expect("a number");
                let outcome = trial["outcome"].as_str().expect("an outcome");
                (number("index"), number("attempt"), outcome.to_owned())
            })
            .collect()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // One that was stopped, of a disturbance that failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Field {
    fn of(lab: Lab, is_guests: bool, options: &'static [&'static str]) -> Self {
        let mut field = Self {
            lab,
            is_guests,
            options,
            before: [None, None],
        };
        field.before = field.interfaces();
        assert!(field.before.iter().all(Option::is_some));
        field
    }

    fn start(&self, out: &str) -> Run {
        let more = ["--json", "--deadline", "4s", "--connect-deadline", "3s"];
        let mut command = self.lab.race(out, &more);
        command.args(self.options);
        Run::start(command, self.lab.bench.path(&format!("{out}.errors")))
    }

    /// Returns what of a host's network Regatta may change.
    fn interfaces(&self) -> [Option<String>; 2] {
        // The kernel finds the carrier of a new link later.
        let sed = "sed -E 's/NO-CARRIER,|,LOWER_UP//g; s/ state [A-Z]+//'";
        let command = format!("ip -o -details link | {sed}; ip -o -4 addr; tc qdisc show");
        ["a", "b"].map(|host| match self.is_guests {
            true => self.lab.in_guest(host, &command),
            false => Some(self.lab.output_on(host, &command)),
        })
    }

    /// Returns the processes of Regatta on a host, with their first arguments; `None` if it cannot be reached.
    fn processes(&self, host: usize) -> Option<Vec<(i32, String)>> {
        if self.is_guests {
            // The brackets keep the pattern from the command line that looks for it.
            let list = "ps ax -o pid,stat,args | grep 'cache/[r]egatta' || true";
            let found = self.lab.in_guest(["a", "b"][host], list)?;
            let process = |line: &str| {
                let mut fields = line.split_ascii_whitespace();
                let (pid, state) = (fields.next()?.parse().ok()?, fields.next()?);
                let role = fields.nth(1).unwrap_or_default().to_owned();
                (!state.starts_with('Z')).then_some((pid, role))
            };
            return Some(found.lines().filter_map(process).collect());
        }
        let mark = self.lab.home(["a", "b"][host]).join(".cache/regatta");
        let named = |pid: i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let role = line.split(|byte| *byte == 0).nth(1).unwrap_or_default();
            (pid, String::from_utf8_lossy(role).into_owned())
        };
        let found = running_with(&mark.to_string_lossy()).into_iter();
        Some(found.map(named).collect())
    }

    /// Runs a command with which a host's processes are signalled.
    fn shell(&self, host: usize, command: &str) {
        if self.is_guests {
            let _ = self.lab.in_guest(["a", "b"][host], command);
        } else {
            let _ = Command::new("sh").args(["-c", command]).status();
        }
    }

    /// Disturbs a run; returns how long the disturbance goes on, or `None` if there was nothing to disturb.
    fn disturb(&self, run: &Run, disturbance: Disturbance) -> Option<Duration> {
        let shell = |down: &str, up: &str, ms: u64| {
            format!(
                "{down}; (sleep {}.{:03}; {up}) >/dev/null 2>&1 </dev/null &",
                ms / 1000,
                ms % 1000
            )
        };
        let process_of_role = |host: usize, role: &str| {
            let found = self.processes(host)?;
            found.into_iter().find(|(_, name)| name == role)
        };
        match disturbance {
            Disturbance::Controller(signal) => {
                kill(Pid::from_raw(run.pid()), signal).ok()?;
                Some(Duration::ZERO)
            }
            Disturbance::Ssh(host, signal) => {
                let destination = self.lab.ways[host].0.as_bytes();
                let is_ssh_to_host = |pid: &i32| {
                    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                    line.split(|byte| *byte == 0)
                        .any(|word| word == destination)
                };
                let ssh = children(run.pid()).into_iter().find(is_ssh_to_host)?;
                kill(Pid::from_raw(ssh), signal).ok()?;
                Some(Duration::ZERO)
            }
            Disturbance::OnHost(host, role, signal) => {
                let (pid, _) = process_of_role(host, role)?;
                self.shell(host, &format!("kill -{} {pid}", signal as i32));
                Some(Duration::ZERO)
            }
            Disturbance::Pause(host, role, ms) => {
                let (pid, _) = process_of_role(host, role)?;
                let [stop, resume] = ["STOP", "CONT"].map(|to| format!("kill -s {to} {pid}"));
                self.shell(host, &shell(&stop, &resume, ms));
                Some(Duration::from_millis(ms))
            }
            Disturbance::Wire(name, ms) => {
                // A guest's Ethernet that cannot send, as its device is down, never works again.
                let states = [["down", "up"], ["nomaster", "master lan"]];
                let [down, up] = states[usize::from(self.is_guests)]
                    .map(|to| format!("ip link set {name} {to}"));
                self.lab.in_network(&shell(&down, &up, ms));
                Some(Duration::from_millis(ms))
            }
            Disturbance::DataWire(ms) => {
                let [down, up] = ["down", "up"].map(|to| format!("ip link set data {to}"));
                self.lab.on_host("a", &shell(&down, &up, ms));
                Some(Duration::from_millis(ms))
            }
            Disturbance::Power(host) => {
                let kernel = self.lab.directory.join(["a/kernel", "b/kernel"][host]);
                for pid in running_with(&kernel.display().to_string()) {
                    let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
                }
                Some(Duration::ZERO)
            }
        }
    }

    /// Returns the time since `begun` until nothing of Regatta is left on both hosts and their networks are as before. A
    /// host that cannot be reached, as it boots, shows nothing.
    fn wait_until_restored(&self, start: Instant) -> Result<Duration, String> {
        loop {
            let elapsed = start.elapsed();
            let remaining = [0, 1].map(|host| self.processes(host));
            let interfaces = self.interfaces();
            let is_empty = remaining
                .iter()
                .all(|remaining| remaining.as_ref().is_some_and(Vec::is_empty));
            if is_empty && interfaces == self.before {
                return Ok(start.elapsed());
            }
            let is_reachable =
                remaining.iter().all(Option::is_some) && interfaces.iter().all(Option::is_some);
            let timeout = [END_TIMEOUT, CLEANUP_TIMEOUT][usize::from(is_reachable)];
            if elapsed > timeout {
                let mut error = format!("left on the hosts after {elapsed:?}: {remaining:?}");
                if interfaces != self.before {
                    error += &format!("; interfaces {interfaces:#?}, before {:#?}", self.before);
                }
                return Err(error);
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Ends what a failed disturbance has left, so that the next one can be judged.
    fn clean(&self) {
        for host in [0, 1] {
            for (pid, _) in self.processes(host).unwrap_or_default() {
                self.shell(host, &format!("kill -KILL {pid}"));
            }
        }
    }

    /// Disturbs a run at a moment, and checks what comes of it. Returns the time until nothing was left; `None` if the
    /// run has ended before.
    fn check_disturbance(
        &self,
        out: &str,
        moment: Duration,
        disturbance: Disturbance,
    ) -> Result<Option<Duration>, String> {
        let start = Instant::now();
        let mut run = self.start(out);
        thread::sleep(moment);
        // A victim that is not there yet is waited for.
        let duration = loop {
            if run.child.try_wait().expect("a child").is_some() {
                return Ok(None);
            }
            if let Some(duration) = self.disturb(&run, disturbance) {
                break duration;
            }
            assert!(start.elapsed() < END_TIMEOUT, "{}", run.output());
            thread::sleep(Duration::from_millis(20));
        };
        let disturbed = Instant::now();
        let cleanup_time = match disturbance {
            Disturbance::Controller(Signal::SIGKILL) => {
                run.child.wait().expect("an end");
                self.wait_until_restored(disturbed)?
            }
            Disturbance::Controller(Signal::SIGSTOP) => {
                let cleanup_time = self.wait_until_restored(disturbed)?;
                let _ = kill(Pid::from_raw(run.pid()), Signal::SIGCONT);
                run.end(END_TIMEOUT)?;
                cleanup_time.max(self.wait_until_restored(Instant::now())?)
            }
            Disturbance::Controller(_) => {
                // The report is written after the hosts are left.
                let cleanup_time = self.wait_until_restored(disturbed)?;
                run.end(CLEANUP_TIMEOUT)?;
                cleanup_time
            }
            _ => {
                run.end(END_TIMEOUT)?;
                thread::sleep(duration.saturating_sub(disturbed.elapsed()));
                let again = Instant::now();
                while [0, 1].iter().any(|host| self.processes(*host).is_none()) {
                    if again.elapsed() > END_TIMEOUT {
                        return Err("a host cannot be reached again".to_owned());
                    }
                    thread::sleep(Duration::from_millis(50));
                }
                self.wait_until_restored(Instant::now())?
            }
        };
        let output = run.output();
        if output.contains("panicked") {
            return Err(output);
        }
        self.check_trials_kept(out, &run)
            .and_then(|()| self.check_resume(out))
            .map_err(|error| format!("{error}\n{output}"))?;
        Ok(Some(cleanup_time))
    }

    /// Checks that the results file has the trials that were reported.
    fn check_trials_kept(&self, out: &str, run: &Run) -> Result<(), String> {
        let reported = run.reported();
        let dir = self.lab.bench.path(out);
        if reported.is_empty() && !dir.join("results.sqlite").exists() {
            return Ok(());
        }
        let trials = Reader::open(&dir).and_then(|reader| reader.trials());
        let trials = trials.map_err(|error| format!("the results cannot be read: {error}"))?;
        let stored: BTreeSet<_> = (trials.iter())
            .map(|trial| {
                let outcome = serde_json::to_value(trial.outcome).expect("JSON");
                let outcome = outcome.as_str().expect("a word").to_owned();
                (u64::from(trial.index), u64::from(trial.attempt), outcome)
            })
            .collect();
        if reported.is_subset(&stored) {
            return Ok(());
        }
        Err(format!("reported {reported:?}, stored {stored:?}"))
    }

    /// Resumes a run to its end, if it is not complete.
    fn check_resume(&self, out: &str) -> Result<(), String> {
        let dir = self.lab.bench.path(out);
        if !dir.join("results.sqlite").exists() {
            return Ok(());
        }
        let state = || Reader::open(&dir).and_then(|reader| reader.state());
        if matches!(state(), Ok(RunState::Complete)) {
            return Ok(());
        }
        let command = self
            .lab
            .regatta(&["resume", out, "--json", "--no-progress"]);
        let mut run = Run::start(command, self.lab.bench.path(&format!("{out}.resume")));
        let code = run.end(END_TIMEOUT)?;
        if !matches!(state(), Ok(RunState::Complete)) {
            return Err(format!(
                "resumed: exit {code}, {:?}\n{}",
                state(),
                run.output()
            ));
        }
        self.wait_until_restored(Instant::now()).map(drop)
    }

    /// Disturbs this many runs.
    fn run_disturbances(&self, group: Group, times: u64) {
        let mut random = Random::new();
        let mut counts = BTreeMap::<String, u64>::new();
        let mut failures = Vec::new();
        let mut longest = Duration::ZERO;
        // Guess of the time that a run takes: the machine may be busy.
        let mut run_time = Duration::from_secs(if self.is_guests { 20 } else { 4 });
        let mut runs = 0;
        while counts.values().sum::<u64>() < times {
            runs += 1;
            let disturbance = Disturbance::draw(&mut random, group, self.is_guests);
            let moment = Duration::from_millis(random.below(run_time.as_millis() as u64));
            match self.check_disturbance(&format!("out-{runs}"), moment, disturbance) {
                Ok(None) => {
                    run_time = run_time * 3 / 4;
                    continue;
                }
                Ok(Some(cleanup_time)) => longest = longest.max(cleanup_time),
                Err(error) => {
                    let error = format!("{disturbance:?} after {moment:?}: {error}");
                    eprintln!("{error}");
                    failures.push(error);
                    self.clean();
                }
            }
            run_time = run_time * 21 / 20;
            *counts.entry(disturbance.kind()).or_default() += 1;
            eprintln!(
                "{:?} {moment:?} {disturbance:?}",
                counts.values().sum::<u64>()
            );
        }
        eprintln!("nothing was left after at most {longest:?}; disturbances: {counts:#?}");
        assert!(
            failures.is_empty(),
            "{} of {times}: {failures:#?}",
            failures.len()
        );
    }
}

impl Lab {
    /// Returns the output of a command in a host's network.
    fn output_on(&self, host: &str, command: &str) -> String {
        let pid = fs::read_to_string(self.bench.path(host).join("pid")).expect("a number");
        let output = Command::new("nsenter")
            .args([
                "--target",
                &self.controller.to_string(),
                "--pid",
                "--mount",
                "--",
            ])
            .args(["nsenter", "--target", pid.trim(), "--net", "--"])
            .args(["sh", "-c", command])
            .output()
            .expect("nsenter");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

/// Disturbs runs over hosts in namespaces, whose network is used as it is.
fn namespaces(group: Group, times: u64) {
    let Some(lab) = Lab::start() else { return };
    lab.add_both();
    Field::of(lab, false, &["--rounds", "3"]).run_disturbances(group, times);
}

#[test]
fn of_the_controller() {
    namespaces(Group::Controller, repetitions(1, 70));
}

#[test]
fn of_processes_on_hosts() {
    namespaces(Group::Hosts, repetitions(2, 100));
}

#[test]
fn of_wires() {
    namespaces(Group::Wires, repetitions(1, 80));
}

/// Disturbs runs over guests, of which the path is shaped in this way.
fn shaped(shaping: [&str; 2], times: u64) {
    // The short form is the kill in `hosts::guests`.
    if times == 0 {
        return;
    }
    let Some(lab) = Lab::shaped(shaping) else {
        return;
    };
    const OPTIONS: &[&str] = &["--rounds", "1", "--rtt", "20ms", "--rate", "20Mbit/s"];
    Field::of(lab, true, OPTIONS).run_disturbances(Group::All, times);
}

mod guests {
    use super::*;
    use crate::hosts::guests::{INTERFACES, MACVLANS};

    #[test]
    fn of_hosts_that_are_shaped_on_macvlans() {
        shaped(MACVLANS, repetitions(0, 25));
    }

    #[test]
    fn of_hosts_that_are_shaped_on_interfaces() {
        shaped(INTERFACES, repetitions(0, 25));
    }
}
