//! A controller in a process of its own, to be run as another user or to be killed.

use std::{
    error::Error,
    fs::File,
    io::{self, BufRead, BufReader, Read, Write},
    process::ExitCode,
    time::Duration,
};

use regatta_bed::{Bed, BedError, Host, Launched, TestBed as _};
use regatta_model::{BedKind, BitRate, Condition, Emulator, Link, LossBy, PathSetup, Placement};

/// Makes a bed with the path that the arguments after the first name: the user-space emulator, or
/// netem with any of `netem`, `ends`, `iptables`.
fn bed() -> Result<Bed, BedError> {
    let mut path = PathSetup::USERSPACE;
    for argument in std::env::args().skip(2) {
        path.emulator = Emulator::Netem;
        match argument.as_str() {
            "ends" => path.placement = Placement::Ends,
            "iptables" => path.loss_by = LossBy::Iptables,
            _ => {}
        }
    }
    let executable = std::env::current_exe().map_err(|source| BedError::Spawn {
        what: "this program".into(),
        source,
    })?;
    Bed::up(BedKind::Netns, path, &[], &executable, "host")
}

fn report(error: &BedError) -> ExitCode {
    println!("error: {error}");
    let mut cause = error.source();
    while let Some(next) = cause {
        println!("caused by: {next}");
        cause = next.source();
    }
    println!("hint: {}", error.hint());
    ExitCode::FAILURE
}

pub(crate) fn check() -> ExitCode {
    let mut bed = match bed() {
        Ok(bed) => bed,
        Err(error) => return report(&error),
    };
    let link = Link {
        delay: Duration::from_millis(15),
        rate: Some(BitRate(100_000_000)),
        ..Link::default()
    };
    let condition = Condition {
        name: "check".into(),
        forward: link.clone(),
        reverse: link,
        mtu_bytes: Condition::DEFAULT_MTU_BYTES,
        schedule: Vec::new(),
        tuning: regatta_model::HostTuning::default(),
    };
    println!("{}", bed.description());
    let quantities = match bed.check_path(&condition) {
        Ok(check) => check.quantities,
        Err(error) => return report(&error),
    };
    for quantity in quantities {
        println!(
            "{} asked {} achieved {} n {}",
            quantity.name, quantity.asked, quantity.achieved, quantity.n
        );
    }
    match bed.counters() {
        Ok(counters) => println!("{counters:?}"),
        Err(error) => return report(&error),
    }
    let agents = (bed.spawn_agent(Host::Client), bed.spawn_agent(Host::Server));
    let (mut a, mut b) = match agents {
        (Ok(a), Ok(b)) => (a, b),
        (Err(error), _) | (_, Err(error)) => return report(&error),
    };
    let outcome = transfer(&bed, &mut a, &mut b);
    for agent in [&mut a, &mut b] {
        agent.process.kill();
    }
    match outcome {
        Ok(line) => println!("{line}"),
        Err(error) => println!("error: {error}"),
    }
    ExitCode::SUCCESS
}

fn transfer(bed: &Bed, a: &mut Launched, b: &mut Launched) -> io::Result<String> {
    let mut output = BufReader::new(File::from(b.output.try_clone()?));
    let mut line = String::new();
    writeln!(b.input, "listen")?;
    output.read_line(&mut line)?;
    let port = line
        .trim()
        .rsplit(' ')
        .next()
        .unwrap_or_default()
        .to_owned();
    writeln!(a.input, "send {}:{port} 1 cubic", bed.address(Host::Server))?;
    line.clear();
    output.read_line(&mut line)?;
    Ok(line.trim().to_owned())
}

pub(crate) fn hold() -> ExitCode {
    let mut bed = match bed() {
        Ok(bed) => bed,
        Err(error) => return report(&error),
    };
    let agents: Result<Vec<_>, _> = [Host::Client, Host::Server]
        .into_iter()
        .map(|host| bed.spawn_agent(host))
        .collect();
    let mut agents = match agents {
        Ok(agents) => agents,
        Err(error) => return report(&error),
    };
    let pids: Vec<_> = agents
        .iter()
        .map(|agent| agent.process.id().to_string())
        .collect();
    println!("agents {}", pids.join(" "));
    // Until it is killed, or its input ends.
    let _ = io::stdin().read_to_end(&mut Vec::new());
    for agent in &mut agents {
        agent.process.kill();
    }
    ExitCode::SUCCESS
}
