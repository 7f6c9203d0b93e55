//! Comparison of `tcp` with the least loop in C that writes and reads the same sizes: what is missing to it is the driver's.

use crate::{
    Bench, CONGESTION_CONTROL,
    agents::Race,
    c_program::{Program, Source},
    rounds::Gate,
};

const SOURCE: Source = Source {
    name: "regatta-bench-tcp",
    text: include_str!("../c/tcp.c"),
    libraries: &[],
    missing: ["cc", "run `apt-get install build-essential`"],
};

/// Compares goodput and CPU time of a transfer with those of the loop, with a bound on the goodput where there is one.
pub fn compare(bench: &mut Bench<'_>, name: &str, race: &Race, gate: Option<Gate>) {
    let program = match Program::compile(&SOURCE, bench.executable) {
        Ok(program) => program,
        Err(error) => return bench.report.failed(name, &error),
    };
    let both = [race.message.to_string(), CONGESTION_CONTROL.to_owned()];
    let least = || {
        let send = |port: &str| [&[port.to_owned()], &both[..], &[race.bytes.to_string()]].concat();
        program.race(&both, send)
    };
    bench.compare(name, race, least, [gate, None]);
}
