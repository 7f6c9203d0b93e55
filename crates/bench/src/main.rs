//! Regatta's bench: compares its drivers and its emulator with reference programs, in one run,
//! round by round, with gates.
//!
//! `make bench` runs it. Every comparison alternates Regatta's driver and the reference within a
//! round and pairs them by round, so that a machine that slows down slows both. CPU time is that of
//! whole processes, both ends, all threads, taken by `wait4` for both alike.

mod agents;
mod c_program;
mod crypto;
mod emulator;
mod error;
mod forwarder;
mod history;
mod iperf3;
mod process;
mod reference;
mod report;
mod rounds;
mod small_trials;
mod tcp_loop;
mod usrsctp;
mod wdt;

use std::{
    collections::BTreeMap,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use clap::{Parser, Subcommand, ValueEnum};
use regatta_model::{HostFacts, OptionValue, Verify};

use crate::{
    agents::Race,
    error::BenchError,
    history::History,
    process::Running,
    reference::Library,
    report::Report,
    rounds::{Comparison, Figures, Gate},
};

/// Message size of TCP and QUIC, that of iperf3's default.
const MESSAGE_BYTES: u64 = 128 << 10;

/// Message size of SCTP: the largest of `sctp-userspace`.
const SCTP_MESSAGE_BYTES: u64 = 64 << 10;

/// Size of a datagram.
const DATAGRAM_BYTES: u64 = 1400;

/// MTU of the loopback interface.
const LOOPBACK_MTU_BYTES: u32 = 65_536;

/// MTU of the path that QUIC is measured for.
const ETHERNET_MTU_BYTES: u32 = 1500;

/// Minimum ratio of a driver's goodput to that of a program that moves the same bytes in the same
/// way: the reference programs on the QUIC libraries, and iperf3 with its default message. A bound of
/// 1 would be missed by every other bench of two programs that are equally fast; 3 % are for the work
/// that the programs do not do: headers, checks, counters and samples.
const REFERENCE_GATE: f64 = 0.97;

/// Least ratio of the goodput of `tcp` to that of a loop in C of the same system calls, with the default message.
const LOOP_GATE: f64 = 0.98;

/// The congestion control of both sides of every comparison.
const CONGESTION_CONTROL: &str = "cubic";

/// Measures the drivers against reference programs on plain loopback, and the emulator.
#[derive(Debug, Parser)]
#[command(name = "regatta-bench", version)]
struct Arguments {
    /// Number of times that each comparison is made.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Three rounds of less data: to see that it works, not to publish.
    #[arg(long)]
    quick: bool,
    /// Print JSON alone on standard output.
    #[arg(long)]
    json: bool,
    /// Run only these parts.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// Compare only the drivers on these QUIC libraries.
    #[arg(long, value_enum, value_delimiter = ',')]
    libraries: Vec<Library>,
    /// CSV file of earlier ratios: one that is worse than those before it is named, and misses a gate.
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// Add the ratios to the history, and write the table of this page.
    #[arg(long, value_name = "README", requires = "history")]
    record: Option<PathBuf>,
    #[command(subcommand)]
    role: Option<Role>,
}

/// Parts of the bench.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// `tcp` against iperf3.
    Tcp,
    /// The QUIC drivers against the least programs on their libraries.
    Quic,
    /// Drivers that encrypt with one library, against the same with another.
    Crypto,
    /// `udp` against iperf3.
    Udp,
    /// `tcp` and `udp` against iperf3 with small messages.
    Small,
    /// `sctp-userspace` against usrsctp.
    Sctp,
    /// `wdt` against `tcp` with as many flows.
    Wdt,
    /// Time of small trials beside their work.
    SmallTrials,
    /// The emulator.
    Emulator,
}

/// Commands of the processes that the bench starts from its own executable.
#[derive(Debug, Subcommand)]
enum Role {
    /// The listening end of the least program on a library.
    #[command(hide = true)]
    ReferenceReceive { library: Library, bytes: u64 },
    /// The sending end of the least program on a library.
    #[command(hide = true)]
    ReferenceSend {
        library: Library,
        bytes: u64,
        message: usize,
    },
}

/// Comparisons with small messages: the driver and the size. iperf3 writes one byte of TCP at a time,
/// but its datagrams have at least 16 bytes, for their header.
const SMALL: &[(&str, u64)] = &[
    ("tcp", 1),
    ("tcp", 128),
    ("tcp", 1024),
    ("udp", 16),
    ("udp", 1024),
];

/// Number of small messages, in a whole bench.
const SMALL_MESSAGES: u64 = 4_000_000;

/// Amounts of data and time of the bench's parts.
#[derive(Debug, Clone, Copy)]
struct Amounts {
    rounds: u32,
    tcp_bytes: u64,
    quic_bytes: u64,
    udp_bytes: u64,
    sctp_bytes: u64,
    wdt_bytes: u64,
    udp_seconds: u64,
    packets: u64,
    path_bytes: u64,
    quick: bool,
}

impl Amounts {
    fn of(arguments: &Arguments) -> Self {
        let quick = arguments.quick;
        let of = |few: u64, many: u64| if quick { few } else { many };
        Self {
            rounds: arguments.rounds.min(if quick { 3 } else { u32::MAX }),
            tcp_bytes: of(4 << 30, 16 << 30),
            quic_bytes: of(512 << 20, 2 << 30),
            udp_bytes: of(1 << 30, 6 << 30),
            sctp_bytes: of(128 << 20, 512 << 20),
            wdt_bytes: of(256 << 20, 1 << 30),
            udp_seconds: of(1, 3),
            packets: of(1_000_000, 5_000_000),
            path_bytes: of(100_000_000, 400_000_000),
            quick,
        }
    }
}

fn main() -> ExitCode {
    // Both enter namespaces or serve those who did, which a process can do only before it has a
    // second thread, so they are told apart before anything else happens.
    match std::env::args_os().nth(1) {
        Some(role) if role == "agent" => return regatta_agent::main(HostFacts::default()),
        Some(role) if role == regatta_path_daemon::COMMAND => return regatta_path_daemon::main(),
        _ => {}
    }
    let arguments = Arguments::parse();
    // As the agents have it.
    regatta_agent::keep_freed_memory();
    let done = match arguments.role {
        Some(Role::ReferenceReceive { library, bytes }) => {
            reference::receive(library, bytes).map(|()| true)
        }
        Some(Role::ReferenceSend {
            library,
            bytes,
            message,
        }) => reference::send(library, bytes, message).map(|()| true),
        None => bench(&arguments),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {}", error.in_full());
            ExitCode::FAILURE
        }
    }
}

/// A bench under way.
struct Bench<'a> {
    executable: &'a Path,
    amounts: Amounts,
    libraries: &'a [Library],
    report: Report,
}

/// Measurement of a part, which adds its figures to the report.
type Measure = fn(&mut Bench<'_>);

/// Parts of the bench, in the order of the report.
const PARTS: &[(Part, Measure)] = &[
    (Part::Tcp, tcp),
    (Part::Quic, quic),
    (Part::Crypto, crypto::compare_libraries),
    (Part::Udp, udp),
    (Part::Small, small),
    (Part::Sctp, sctp),
    (Part::Wdt, wdt::compare),
    (Part::SmallTrials, small_trials),
    (Part::Emulator, emulation),
];

/// Measures and prints the results; returns whether every gate was passed.
fn bench(arguments: &Arguments) -> Result<bool, BenchError> {
    let selected = |part| arguments.only.is_empty() || arguments.only.contains(&part);
    let amounts = Amounts::of(arguments);
    let executable = std::env::current_exe()?;
    let mut bench = Bench {
        executable: &executable,
        amounts,
        libraries: &arguments.libraries,
        report: Report::new(amounts.rounds, arguments.quick),
    };
    if cfg!(debug_assertions) {
        let debug = "this is a debug build: its figures say nothing; run `make bench`";
        bench.report.warnings.push(debug.to_owned());
    }
    if let Some(load) = busy() {
        bench.report.warnings.push(format!(
            "the machine was busy before the first round (load average {load:.1}): ratios of rates \
             swing widely, those of CPU less; run it again on an idle machine"
        ));
    }
    if selected(Part::Tcp) || selected(Part::Udp) || selected(Part::Small) {
        bench.report.references.push(iperf3::version()?);
    }
    for (_, measure) in PARTS.iter().filter(|(part, _)| selected(*part)) {
        measure(&mut bench);
    }
    let mut report = bench.report;
    if let Some(path) = &arguments.history {
        let mut history = History::read(path)?;
        report.drifted = history.drifted(&report.comparisons);
        if let Some(page) = &arguments.record {
            history.record(path, &report)?;
            history.write_table(page)?;
        }
    }
    let mut out = std::io::stdout().lock();
    let printed = if arguments.json {
        serde_json::to_writer_pretty(&mut out, &report)
            .map_err(std::io::Error::from)
            .and_then(|()| writeln!(out))
    } else {
        out.write_all(report.text().as_bytes())
    };
    match printed {
        // Whoever read it has seen enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
        printed => printed?,
    }
    Ok(report.passed())
}

/// Returns the load average of the last minute, if it is more than half of a core.
fn busy() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    let load: f64 = text.split_whitespace().next()?.parse().ok()?;
    (load > 0.5).then_some(load)
}

impl Bench<'_> {
    /// Runs Regatta's driver and the reference in every round, each first in every other round. A
    /// program that fails ends its comparison, which the report then lists as failed.
    fn alternate(
        &mut self,
        name: &str,
        race: &Race,
        theirs: impl Fn() -> Result<Figures, BenchError>,
    ) -> Vec<(Figures, Figures)> {
        let ours = || agents::race(race, self.executable);
        let rounds = self.amounts.rounds;
        let mut pairs = Vec::new();
        for round in 0..rounds {
            let pair = if round % 2 == 0 {
                ours().and_then(|ours| Ok((ours, theirs()?)))
            } else {
                theirs().and_then(|theirs| Ok((ours()?, theirs)))
            };
            let pair = match pair {
                Ok(pair) => pair,
                Err(error) => {
                    self.report.failed(name, &error);
                    return Vec::new();
                }
            };
            let goodput = |figures: &Figures| report::scaled(figures.goodput_bps(), "bit/s");
            eprintln!(
                "{name}, round {}/{rounds}: ours {}, theirs {}",
                round + 1,
                goodput(&pair.0),
                goodput(&pair.1)
            );
            pairs.push(pair);
        }
        pairs
    }

    /// Reports the rate of a comparison, with the bound on its median ratio, if there is one.
    fn rate(&mut self, name: String, pairs: &[(Figures, Figures)], gate: Option<Gate>) {
        let compared = Comparison::new(name, "bit/s", pairs, Figures::goodput_bps, gate);
        self.report.comparisons.extend(compared);
    }

    /// Reports the CPU time of a comparison, in the same way.
    fn cpu(&mut self, name: &str, pairs: &[(Figures, Figures)], gate: Option<Gate>) {
        let name = format!("{name}, CPU for each GiB");
        let compared = Comparison::new(name, "s/GiB", pairs, Figures::cpu_seconds_per_gib, gate);
        self.report.comparisons.extend(compared);
    }

    /// Compares Regatta's driver with a reference; reports the goodput and the CPU time, each with
    /// its bound.
    fn compare(
        &mut self,
        name: &str,
        race: &Race,
        theirs: impl Fn() -> Result<Figures, BenchError>,
        [goodput, cpu]: [Option<Gate>; 2],
    ) {
        let pairs = self.alternate(name, race, theirs);
        self.rate(format!("{name}, goodput"), &pairs, goodput);
        self.cpu(name, &pairs, cpu);
    }
}

fn cubic() -> BTreeMap<String, OptionValue> {
    let cubic = OptionValue::Text(CONGESTION_CONTROL.to_owned());
    BTreeMap::from([("cc".to_owned(), cubic)])
}

fn tcp(bench: &mut Bench<'_>) {
    let race = Race::new("tcp", bench.amounts.tcp_bytes, LOOPBACK_MTU_BYTES);
    let iperf3 =
        |further: &[&str]| iperf3::tcp(race.bytes, race.message, CONGESTION_CONTROL, further);
    let gates = [Gate::AtLeast(REFERENCE_GATE), Gate::AtMost(1.0)];
    bench.compare("tcp / iperf3", &race, || iperf3(&[]), gates.map(Some));
    let gate = Some(Gate::AtLeast(LOOP_GATE));
    tcp_loop::compare(bench, "tcp / least loop in C", &race, gate);
    let mut zero_copy = race.clone();
    let flag = OptionValue::Flag(true);
    zero_copy.options.insert("zero_copy".to_owned(), flag);
    let gates = [Some(Gate::AtLeast(1.0)), None];
    bench.compare(
        "tcp / iperf3 -Z",
        &zero_copy,
        || iperf3(&["--zerocopy"]),
        gates,
    );
    if iperf3::knows("--skip-rx-copy") {
        zero_copy.verify = Verify::None;
        let both = ["--zerocopy", "--skip-rx-copy"];
        let name = "tcp / iperf3 -Z --skip-rx-copy";
        bench.compare(name, &zero_copy, || iperf3(&both), gates);
    }
}

/// Runs both ends of the least program on a library, in processes of their own.
fn least(library: Library, executable: &Path, race: &Race) -> Result<Figures, BenchError> {
    use std::io::{BufRead, BufReader};

    let bytes = race.bytes.to_string();
    let message = race.message.to_string();
    let name = library.name();
    let mut receiver =
        Running::start(Command::new(executable).args(["reference-receive", name, &bytes]))?;
    let mut first = String::new();
    BufReader::new(receiver.output()?).read_line(&mut first)?;
    let mut sender =
        Running::start(Command::new(executable).args(["reference-send", name, &bytes, &message]))?;
    sender.write(first.as_bytes())?;
    let output = process::collect(sender.output()?);
    let cpu_time = sender.finish()? + receiver.finish()?;
    let transferred: reference::Transferred = serde_json::from_str(&process::collected(output)?)?;
    Ok(Figures {
        delivered_bytes: transferred.bytes as f64,
        seconds: transferred.transfer_time_ns as f64 / 1e9,
        cpu_seconds: cpu_time.as_secs_f64(),
        lost_ratio: None,
    })
}

fn quic(bench: &mut Bench<'_>) {
    let (executable, selected) = (bench.executable, bench.libraries);
    for &library in Library::value_variants() {
        if !selected.is_empty() && !selected.contains(&library) {
            continue;
        }
        let race = Race::new(
            library.driver(),
            bench.amounts.quic_bytes,
            ETHERNET_MTU_BYTES,
        );
        let name = format!("{} / least {}", race.driver, library.name());
        let least = || least(library, executable, &race);
        let gates = [Some(Gate::AtLeast(REFERENCE_GATE)), None];
        bench.compare(&name, &race, least, gates);
    }
}

fn udp(bench: &mut Bench<'_>) {
    let name = "udp / iperf3";
    let seconds = bench.amounts.udp_seconds;
    let race = Race {
        options: BTreeMap::new(),
        message: DATAGRAM_BYTES,
        ..Race::new("udp", bench.amounts.udp_bytes, LOOPBACK_MTU_BYTES)
    };
    let pairs = bench.alternate(name, &race, || iperf3::udp(seconds, race.message, &[]));
    let gate = Some(Gate::AtLeast(3.0));
    bench.rate(format!("{name}, delivered rate"), &pairs, gate);
    bench.cpu(name, &pairs, None);
    bench.report.lost(&pairs);
    if iperf3::knows("--gsro") {
        let name = "udp / iperf3 --gsro";
        let gsro = || iperf3::udp(seconds, race.message, &["--gsro"]);
        let pairs = bench.alternate(name, &race, gsro);
        let gate = Some(Gate::AtLeast(1.0));
        bench.rate(format!("{name}, delivered rate"), &pairs, gate);
        bench.cpu(name, &pairs, None);
    }
}

/// Compares with iperf3 messages of one byte (or iperf3's least) and of 1024: at least as fast as
/// iperf3 with the same `-l`.
fn small(bench: &mut Bench<'_>) {
    let share = if bench.amounts.quick { 4 } else { 1 };
    let seconds = bench.amounts.udp_seconds;
    for &(driver, message) in SMALL {
        let tcp = driver == "tcp";
        let bytes = SMALL_MESSAGES / share * message;
        let race = Race {
            options: if tcp { cubic() } else { BTreeMap::new() },
            message,
            ..Race::new(driver, bytes, LOOPBACK_MTU_BYTES)
        };
        let name = format!("{driver} / iperf3, {message} B");
        let pairs = bench.alternate(&name, &race, || match tcp {
            true => iperf3::tcp(bytes, message, CONGESTION_CONTROL, &[]),
            false => iperf3::udp(seconds, message, &[]),
        });
        let rate = if tcp { "goodput" } else { "delivered rate" };
        bench.rate(format!("{name}, {rate}"), &pairs, Some(Gate::AtLeast(1.0)));
        if tcp {
            let name = format!("tcp / least loop in C, {message} B");
            tcp_loop::compare(bench, &name, &race, None);
        }
    }
}

fn sctp(bench: &mut Bench<'_>) {
    let name = "sctp-userspace / usrsctp";
    let program = match usrsctp::Program::compile(bench.executable) {
        Ok(program) => program,
        Err(error) => return bench.report.failed(name, &error),
    };
    let race = Race {
        options: BTreeMap::new(),
        message: SCTP_MESSAGE_BYTES,
        ..Race::new(
            "sctp-userspace",
            bench.amounts.sctp_bytes,
            ETHERNET_MTU_BYTES,
        )
    };
    let usrsctp = || program.race(race.bytes, race.message, ETHERNET_MTU_BYTES);
    bench.compare(name, &race, usrsctp, [Some(Gate::AtLeast(3.0)), None]);
}

fn small_trials(bench: &mut Bench<'_>) {
    for measured in small_trials::measure(bench.executable, bench.amounts.quick) {
        match measured {
            Ok(trial) => bench.report.small_trials.push(trial),
            Err((name, error)) => bench.report.failed(&name, &error),
        }
    }
}

fn emulation(bench: &mut Bench<'_>) {
    let amounts = bench.amounts;
    let machines = emulator::measure(amounts.rounds, amounts.packets);
    let paths = forwarder::measure(bench.executable, amounts.rounds, amounts.path_bytes);
    for (name, figures) in [("emulator", machines), ("emulated path", paths)] {
        match figures {
            Ok(figures) => bench.report.emulation.extend(figures),
            Err(error) => bench.report.failed(name, &error),
        }
    }
}
