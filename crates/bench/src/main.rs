//! Regatta's bench: compares its drivers and its emulator with reference programs, in one run,
//! round by round, with gates.
//!
//! `make bench` runs it. Every comparison alternates Regatta's driver and the reference within a
//! round and pairs them by round, so that a machine that slows down slows both. CPU time is that of
//! whole processes, both ends, all threads, taken by `wait4` for both alike.

mod agents;
mod crypto;
mod emulator;
mod error;
mod forwarder;
mod iperf3;
mod process;
mod reference;
mod report;
mod rounds;
mod small_trials;
mod usrsctp;
mod wdt;

use std::{
    collections::BTreeMap,
    io::Write,
    path::Path,
    process::{Command, ExitCode},
};

use clap::{Parser, Subcommand, ValueEnum};
use regatta_model::{HostFacts, OptionValue};

use crate::{
    agents::Race,
    error::BenchError,
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

/// Largest packet of loopback, and of the path that QUIC is measured for.
const LOOPBACK_MTU_BYTES: u32 = 65_536;
const ETHERNET_MTU_BYTES: u32 = 1500;

/// Least ratio of a driver's goodput to that of a program that moves the same bytes in the same
/// way: the reference programs on the QUIC libraries, and iperf3 with its default message. A bound of
/// 1 would be missed by every other bench of two programs that are equally fast; 3 % are for the work
/// that the programs do not do: headers, checks, counters and samples.
const REFERENCE_GATE: f64 = 0.97;

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

/// Comparison with iperf3 at one size of messages.
struct Small {
    driver: &'static str,
    message: u64,
    /// Number of messages, in a whole bench.
    messages: u64,
}

/// Comparisons with small messages. iperf3 writes one byte of TCP at a time, but its datagrams have
/// at least 16 bytes, for their header.
const SMALL: &[Small] = &[
    Small {
        driver: "tcp",
        message: 1,
        messages: 4_000_000,
    },
    Small {
        driver: "tcp",
        message: 1024,
        messages: 4_000_000,
    },
    Small {
        driver: "udp",
        message: 16,
        messages: 4_000_000,
    },
    Small {
        driver: "udp",
        message: 1024,
        messages: 4_000_000,
    },
];

/// Amounts of data and time of the bench's parts.
#[derive(Debug, Clone, Copy)]
struct Amounts {
    rounds: u32,
    tcp_bytes: u64,
    quic_bytes: u64,
    udp_bytes: u64,
    sctp_bytes: u64,
    wdt_bytes: u64,
    udp_seconds: u32,
    packets: u64,
    path_bytes: u64,
    quick: bool,
}

impl Amounts {
    fn of(arguments: &Arguments) -> Self {
        if arguments.quick {
            Self {
                rounds: arguments.rounds.min(3),
                tcp_bytes: 4 << 30,
                quic_bytes: 512 << 20,
                udp_bytes: 1 << 30,
                sctp_bytes: 128 << 20,
                wdt_bytes: 256 << 20,
                udp_seconds: 1,
                packets: 1_000_000,
                path_bytes: 100_000_000,
                quick: true,
            }
        } else {
            Self {
                rounds: arguments.rounds,
                tcp_bytes: 16 << 30,
                quic_bytes: 2 << 30,
                udp_bytes: 6 << 30,
                sctp_bytes: 512 << 20,
                wdt_bytes: 1 << 30,
                udp_seconds: 3,
                packets: 5_000_000,
                path_bytes: 400_000_000,
                quick: false,
            }
        }
    }
}

fn main() -> ExitCode {
    // Both enter namespaces or serve those who did, which a process can do only before it has a
    // second thread, so they are told apart before anything else happens.
    match std::env::args_os().nth(1) {
        Some(role) if role == "agent" => return regatta_agent::main(HostFacts::default()),
        Some(role) if role == "path-daemon" => return regatta_bed::path_daemon::main(),
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

/// Measures and prints the results; returns whether every gate was passed.
fn bench(arguments: &Arguments) -> Result<bool, BenchError> {
    let asked = |part| arguments.only.is_empty() || arguments.only.contains(&part);
    let amounts = Amounts::of(arguments);
    let executable = std::env::current_exe()?;
    let mut report = Report::new(amounts.rounds, arguments.quick);
    if cfg!(debug_assertions) {
        report.warn("this is a debug build: its figures say nothing; run `make bench`");
    }
    if let Some(load) = busy() {
        report.warn(format!(
            "the machine was busy before the first round (load average {load:.1}): ratios of rates \
             swing widely, those of CPU less; run it again on an idle machine"
        ));
    }
    if asked(Part::Tcp) || asked(Part::Udp) || asked(Part::Small) {
        report.reference(iperf3::version()?);
    }
    if asked(Part::Tcp) {
        tcp(&executable, amounts, &mut report);
    }
    if asked(Part::Quic) {
        quic(&executable, amounts, &arguments.libraries, &mut report);
    }
    if asked(Part::Crypto) {
        crypto::compare_libraries(&executable, amounts, &mut report);
    }
    if asked(Part::Udp) {
        udp(&executable, amounts, &mut report);
    }
    if asked(Part::Small) {
        small(&executable, amounts, &mut report);
    }
    if asked(Part::Sctp) {
        sctp(&executable, amounts, &mut report);
    }
    if asked(Part::Wdt) {
        wdt::compare(&executable, amounts, &mut report);
    }
    if asked(Part::SmallTrials) {
        for measured in small_trials::measure(&executable, amounts.quick) {
            match measured {
                Ok(trial) => report.small_trial(trial),
                Err((name, error)) => report.failed(&name, &error),
            }
        }
    }
    if asked(Part::Emulator) {
        let machines = emulator::measure(amounts.rounds, amounts.packets);
        let paths = forwarder::measure(&executable, amounts.rounds, amounts.path_bytes);
        for (name, figures) in [("emulator", machines), ("emulated path", paths)] {
            match figures {
                Ok(figures) => report.emulation(figures),
                Err(error) => report.failed(name, &error),
            }
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

/// Runs Regatta's driver and the reference in every round, each first in every other round. A program
/// that fails ends its comparison, which the report then lists as failed.
fn alternate(
    name: &str,
    rounds: u32,
    report: &mut Report,
    ours: impl Fn() -> Result<Figures, BenchError>,
    theirs: impl Fn() -> Result<Figures, BenchError>,
) -> Vec<(Figures, Figures)> {
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
                report.failed(name, &error);
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

/// Reports the goodput and the CPU time of a comparison, each with the bound on its median ratio, if
/// there is one.
fn compare(
    name: &str,
    pairs: &[(Figures, Figures)],
    goodput: Option<Gate>,
    cpu: Option<Gate>,
    report: &mut Report,
) {
    report.compare(Comparison::new(
        format!("{name}, goodput"),
        "bit/s",
        pairs,
        Figures::goodput_bps,
        goodput,
    ));
    report.compare(Comparison::new(
        format!("{name}, CPU for each GiB"),
        "s/GiB",
        pairs,
        Figures::cpu_seconds_per_gib,
        cpu,
    ));
}

fn cubic() -> BTreeMap<String, OptionValue> {
    BTreeMap::from([(
        "cc".to_owned(),
        OptionValue::Text(CONGESTION_CONTROL.to_owned()),
    )])
}

fn tcp(executable: &Path, amounts: Amounts, report: &mut Report) {
    let race = Race {
        driver: "tcp",
        options: cubic(),
        bytes: amounts.tcp_bytes,
        message: MESSAGE_BYTES,
        flows: 1,
        path: agents::loopback(LOOPBACK_MTU_BYTES),
    };
    let pairs = alternate(
        "tcp / iperf3",
        amounts.rounds,
        report,
        || agents::race(&race, executable),
        || iperf3::tcp(race.bytes, race.message, CONGESTION_CONTROL),
    );
    compare(
        "tcp / iperf3",
        &pairs,
        Some(Gate::AtLeast(REFERENCE_GATE)),
        Some(Gate::AtMost(1.0)),
        report,
    );
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
    let usage = sender.finish()? + receiver.finish()?;
    let transferred: reference::Transferred = serde_json::from_str(&process::collected(output)?)?;
    Ok(Figures {
        delivered_bytes: transferred.bytes as f64,
        seconds: transferred.transfer_time_ns as f64 / 1e9,
        cpu_seconds: usage.seconds(),
        lost_ratio: None,
    })
}

fn quic(executable: &Path, amounts: Amounts, libraries: &[Library], report: &mut Report) {
    let asked = |library: &&Library| libraries.is_empty() || libraries.contains(library);
    for &library in Library::ALL.iter().filter(asked) {
        let race = Race {
            driver: library.driver(),
            options: cubic(),
            bytes: amounts.quic_bytes,
            message: MESSAGE_BYTES,
            flows: 1,
            path: agents::loopback(ETHERNET_MTU_BYTES),
        };
        let name = format!("{} / least {}", race.driver, library.name());
        let pairs = alternate(
            &name,
            amounts.rounds,
            report,
            || agents::race(&race, executable),
            || least(library, executable, &race),
        );
        compare(
            &name,
            &pairs,
            Some(Gate::AtLeast(REFERENCE_GATE)),
            None,
            report,
        );
    }
}

fn udp(executable: &Path, amounts: Amounts, report: &mut Report) {
    let race = Race {
        driver: "udp",
        options: BTreeMap::new(),
        bytes: amounts.udp_bytes,
        message: DATAGRAM_BYTES,
        flows: 1,
        path: agents::loopback(LOOPBACK_MTU_BYTES),
    };
    let pairs = alternate(
        "udp / iperf3",
        amounts.rounds,
        report,
        || agents::race(&race, executable),
        || iperf3::udp(amounts.udp_seconds, race.message),
    );
    report.compare(Comparison::new(
        "udp / iperf3, delivered rate",
        "bit/s",
        &pairs,
        Figures::goodput_bps,
        Some(Gate::AtLeast(3.0)),
    ));
    report.compare(Comparison::new(
        "udp / iperf3, CPU for each GiB",
        "s/GiB",
        &pairs,
        Figures::cpu_seconds_per_gib,
        None,
    ));
    report.lost(&pairs);
}

/// Compares with iperf3 messages of one byte (or iperf3's least) and of 1024: at least as fast as
/// iperf3 with the same `-l`.
fn small(executable: &Path, amounts: Amounts, report: &mut Report) {
    for small in SMALL {
        let share = if amounts.quick { 4 } else { 1 };
        let bytes = small.messages / share * small.message;
        let tcp = small.driver == "tcp";
        let race = Race {
            driver: small.driver,
            options: if tcp { cubic() } else { BTreeMap::new() },
            bytes,
            message: small.message,
            flows: 1,
            path: agents::loopback(LOOPBACK_MTU_BYTES),
        };
        let name = format!("{} / iperf3, {} B", small.driver, small.message);
        let pairs = alternate(
            &name,
            amounts.rounds,
            report,
            || agents::race(&race, executable),
            || {
                if tcp {
                    iperf3::tcp(race.bytes, race.message, CONGESTION_CONTROL)
                } else {
                    iperf3::udp(amounts.udp_seconds, race.message)
                }
            },
        );
        report.compare(Comparison::new(
            format!("{name}, {}", if tcp { "goodput" } else { "delivered rate" }),
            "bit/s",
            &pairs,
            Figures::goodput_bps,
            Some(Gate::AtLeast(1.0)),
        ));
    }
}

fn sctp(executable: &Path, amounts: Amounts, report: &mut Report) {
    let name = "sctp-userspace / usrsctp";
    let program = match usrsctp::Program::compile(executable) {
        Ok(program) => program,
        Err(error) => return report.failed(name, &error),
    };
    let race = Race {
        driver: "sctp-userspace",
        options: BTreeMap::new(),
        bytes: amounts.sctp_bytes,
        message: SCTP_MESSAGE_BYTES,
        flows: 1,
        path: agents::loopback(ETHERNET_MTU_BYTES),
    };
    let pairs = alternate(
        name,
        amounts.rounds,
        report,
        || agents::race(&race, executable),
        || program.race(race.bytes, race.message, ETHERNET_MTU_BYTES),
    );
    compare(name, &pairs, Some(Gate::AtLeast(3.0)), None, report);
}
