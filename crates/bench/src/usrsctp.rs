//! Comparison with usrsctp, the library that users of SCTP in user space know, on plain loopback: a
//! least program on it, compiled when it is needed.

use std::{
    io::{self, BufRead, BufReader, Write},
    net::{Ipv4Addr, UdpSocket},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{
    error::BenchError,
    process::{self, Running},
    rounds::Figures,
};

/// Source of the program, as in the repository.
const SOURCE: &str = include_str!("../usrsctp/transfer.c");

/// Hint for a machine without the library.
const INSTALL: &str = "run `apt-get install build-essential libusrsctp-dev`";

/// Path of the compiled program.
#[derive(Debug)]
pub struct Program(PathBuf);

impl Program {
    /// Compiles the program beside this executable.
    ///
    /// # Errors
    /// [`BenchError::Missing`] without a compiler or the library.
    pub fn compile(executable: &Path) -> Result<Self, BenchError> {
        let program = executable.with_file_name("regatta-bench-usrsctp");
        let missing = || BenchError::Missing {
            program: "libusrsctp",
            hint: INSTALL,
        };
        let mut compiler = Command::new("cc")
            .args(["-O2", "-x", "c", "-", "-o"])
            .arg(&program)
            .args(["-lusrsctp", "-lpthread"])
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => missing(),
                _ => error.into(),
            })?;
        if let Some(mut input) = compiler.stdin.take() {
            // A compiler that ends early reports it with its exit code.
            let _ = input.write_all(SOURCE.as_bytes());
        }
        if compiler.wait()?.success() {
            Ok(Self(program))
        } else {
            Err(missing())
        }
    }

    /// Moves `bytes` in messages of one size over one stream of one association, in IP packets of
    /// at most `mtu` bytes. Returns the receiver's bytes and time.
    ///
    /// # Errors
    /// [`BenchError::Process`] if it fails.
    pub fn race(&self, bytes: u64, message: u64, mtu: u32) -> Result<Figures, BenchError> {
        let [local_port, remote_port] = free_ports()?.map(|port| port.to_string());
        let mtu = mtu.to_string();
        let mut receiver = Running::start(Command::new(&self.0).args([
            "receive",
            &local_port,
            &remote_port,
            &mtu,
        ]))?;
        let mut receiver_output = BufReader::new(receiver.output()?);
        let mut ready = String::new();
        receiver_output.read_line(&mut ready)?;
        let sender = Running::start(Command::new(&self.0).args([
            "send",
            &remote_port,
            &local_port,
            &mtu,
            &message.to_string(),
            &bytes.to_string(),
        ]))?;
        let rest = process::collect(receiver_output.into_inner());
        let cpu_time = sender.finish()? + receiver.finish()?;
        let figures = process::collected(rest)?;
        let (delivered_bytes, seconds) = received(&figures)?;
        Ok(Figures {
            delivered_bytes,
            seconds,
            cpu_seconds: cpu_time.as_secs_f64(),
            lost_ratio: None,
        })
    }
}

/// Returns two UDP ports that are free now.
fn free_ports() -> Result<[u16; 2], BenchError> {
    let free = || UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0));
    let (one, other) = (free()?, free()?);
    Ok([one.local_addr()?.port(), other.local_addr()?.port()])
}

/// Returns the receiver's figures: bytes and seconds.
fn received(output: &str) -> Result<(f64, f64), BenchError> {
    let mut numbers = output.split_whitespace().map(str::parse::<f64>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(bytes)), Some(Ok(ns))) if bytes > 0.0 && ns > 0.0 => Ok((bytes, ns / 1e9)),
        _ => {
            let message = format!("it said `{}`", output.trim());
            Err(BenchError::process(
                "regatta-bench-usrsctp receive",
                message,
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delivered_bytes_are_those_of_the_receiver() {
        assert_eq!(received("300 2000000000\n").expect("figures"), (300.0, 2.0));
        for wrong in ["", "300", "300 x", "0 5"] {
            assert!(received(wrong).is_err(), "{wrong}");
        }
    }
}
