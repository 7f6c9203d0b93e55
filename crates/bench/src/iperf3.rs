//! `iperf3`, the program that users know, run on plain loopback.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    error::BenchError,
    process::{self, Running},
    rounds::Figures,
};

/// Hint for a machine without iperf3.
const INSTALL: &str = "run `apt-get install iperf3`";

/// Longest time that the server may take until it listens.
const START: Duration = Duration::from_secs(5);

/// Returns the version line of the installed `iperf3`.
///
/// # Errors
/// [`BenchError::Missing`] if there is none.
pub fn version() -> Result<String, BenchError> {
    let output = Command::new("iperf3")
        .arg("--version")
        .output()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => BenchError::Missing {
                program: "iperf3",
                hint: INSTALL,
            },
            _ => error.into(),
        })?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// Whether the installed `iperf3` has an option: one that is older has not all of them.
pub fn knows(option: &str) -> bool {
    let output = Command::new("iperf3").arg("--help").output();
    output.is_ok_and(|output| {
        let text = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&text).contains(option)
    })
}

/// Returns a port that is free now.
fn free_port() -> Result<u16, BenchError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

/// Waits until a socket listens on the port, without connecting to it: the server would serve that
/// connection as its one client.
fn wait_for_listener(port: u16) -> Result<(), BenchError> {
    let until = Instant::now() + START;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    while Instant::now() < until {
        // A port on which somebody listens cannot be bound.
        if TcpListener::bind(address).is_err() {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(20));
    }
    let message = format!("it does not listen on {address}");
    Err(BenchError::process("iperf3 --server", message))
}

/// Runs a server and a client to the end; returns the receiver's figures, with the CPU time of both.
fn run(client: &[&str]) -> Result<Figures, BenchError> {
    let port = free_port()?;
    let port_text = port.to_string();
    let mut server = Running::start(Command::new("iperf3").args([
        "--server",
        "--one-off",
        "--json",
        "--bind",
        "127.0.0.1",
        "--port",
        &port_text,
    ]))?;
    let server_output = process::collect(server.output()?);
    wait_for_listener(port)?;
    let mut sender = Running::start(
        Command::new("iperf3")
            .args(["--client", "127.0.0.1", "--json", "--port", &port_text])
            .args(client),
    )?;
    let client_output = process::collect(sender.output()?);
    let sender = sender.finish();
    let report = process::collected(client_output)?;
    if let Err(error) = sender {
        return Err(with_reason(error, &report));
    }
    let cpu_time = sender? + server.finish()?;
    let receiver: Value = serde_json::from_str(&process::collected(server_output)?)?;
    received(&receiver, cpu_time)
}

/// Adds the reason to an error: iperf3 with `--json` writes it to standard output.
fn with_reason(error: BenchError, report: &str) -> BenchError {
    let reason = serde_json::from_str::<Value>(report)
        .ok()
        .and_then(|report| report["error"].as_str().map(str::to_owned));
    match (error, reason) {
        (BenchError::Process { command, message }, Some(reason)) => BenchError::Process {
            command,
            message: format!("{message}: {reason}"),
        },
        (error, _) => error,
    }
}

/// Returns the figures of the receiver's report.
fn received(receiver: &Value, cpu_time: Duration) -> Result<Figures, BenchError> {
    let sum = &receiver["end"]["sum_received"];
    let positive = |name: &str| sum[name].as_f64().filter(|value| *value > 0.0);
    let missing = || BenchError::process("iperf3 --server", "its report has no bytes received");
    Ok(Figures {
        delivered_bytes: positive("bytes").ok_or_else(missing)?,
        seconds: positive("seconds").ok_or_else(missing)?,
        cpu_seconds: cpu_time.as_secs_f64(),
        lost_ratio: (sum["lost_packets"].as_f64().zip(positive("packets")))
            .map(|(lost, packets)| lost / packets),
    })
}

/// Moves bytes over one TCP connection with the congestion control `cc` and further options.
///
/// # Errors
/// [`BenchError::Process`] if it fails.
pub fn tcp(bytes: u64, message: u64, cc: &str, further: &[&str]) -> Result<Figures, BenchError> {
    let (bytes_text, message_text) = (bytes.to_string(), message.to_string());
    let amounts = ["--bytes", &bytes_text, "--length", &message_text];
    run(&[&amounts[..], &["--congestion", cc], further].concat())
}

/// Sends datagrams without a limit of rate, with further options. The delivered bytes are those that the receiver
/// counted, as the summary of the sender in iperf3 3.12 shows the bytes sent.
///
/// # Errors
/// [`BenchError::Process`] if it fails.
pub fn udp(seconds: u64, message: u64, further: &[&str]) -> Result<Figures, BenchError> {
    let (seconds_text, message_text) = (seconds.to_string(), message.to_string());
    let amounts = ["--length", &message_text, "--time", &seconds_text];
    run(&[&["--udp", "--bitrate", "0"], &amounts[..], further].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delivered_bytes_are_those_of_the_receiver() {
        let report = serde_json::json!({"end": {
            "sum_sent": {"bytes": 10, "seconds": 1.0},
            "sum_received": {"bytes": 7, "seconds": 2.0, "lost_packets": 3, "packets": 10},
        }});
        let cpu_time = Duration::from_secs(1);
        let figures = received(&report, cpu_time).expect("figures");
        assert_eq!((figures.delivered_bytes, figures.seconds), (7.0, 2.0));
        assert_eq!(figures.lost_ratio, Some(0.3));
        assert!(received(&serde_json::json!({"end": {}}), cpu_time).is_err());
    }

    #[test]
    fn the_printed_reason_is_added_to_the_error() {
        let error = BenchError::Process {
            command: "iperf3".to_owned(),
            message: "exit status: 1".to_owned(),
        };
        let error = with_reason(error, r#"{"error": "unable to connect"}"#);
        assert!(
            error
                .to_string()
                .ends_with("exit status: 1: unable to connect")
        );
    }
}
