//! Regatta's bench.

mod error;
mod reference;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    part: Option<Part>,
}

#[derive(Debug, Subcommand)]
enum Part {
    ReferenceReceive { bytes: u64 },
    ReferenceSend { bytes: u64, message: usize },
}

fn main() {
    let arguments = Arguments::parse();
    let done = match arguments.part {
        Some(Part::ReferenceReceive { bytes }) => reference::receive(bytes),
        Some(Part::ReferenceSend { bytes, message }) => reference::send(bytes, message),
        None => Ok(()),
    };
    if let Err(error) = done {
        eprintln!("{error:?} {}", error.hint());
        std::process::exit(1);
    }
}
