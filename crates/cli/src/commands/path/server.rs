//! Server program on the other host.

use std::{
    fs,
    io::{self, BufRead, BufReader, PipeReader, Write},
    process::Stdio,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use regatta_bed::{
    Bed, Host,
    program::{Program, ProgramOrder},
};

use super::{Signals, code};
use crate::{
    exit::{Failure, OrFailure as _},
    output,
};

/// Interval between checks of the server's sockets: the kernel has no event for a socket that begins to listen. Signals and
/// the server's end are waited for between them.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// State of a TCP socket that listens, in `/proc/net/tcp`.
const LISTENS: &str = "0A";

/// Longest line of the server's output that is printed in one piece, in bytes.
const LONGEST_LINE: u64 = 64 << 10;

/// Result of waiting for the server.
pub enum Ready {
    /// Server that listens.
    Listens,
    /// Time-out before the server listened.
    NotYet,
    /// Signal of the user to stop.
    Stopped(Signal),
}

/// Server, with the thread that prints its output.
pub struct Server {
    program: Option<Program>,
    printer: Option<JoinHandle<()>>,
    ended: bool,
}

impl Server {
    /// Starts the server on the listening host.
    pub fn start(
        bed: &Bed,
        command: &str,
        environment: Vec<(String, String)>,
    ) -> Result<Self, Failure> {
        const DOING: &str = "cannot start the server";
        let (reader, writer) = io::pipe().context(DOING)?;
        let errors = writer.try_clone().context(DOING)?;
        let order = ProgramOrder {
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), command.into()],
            environment,
            streams: [Stdio::null(), writer.into(), errors.into()],
            // Ctrl-C is the command's; the server ends after it.
            apart: true,
        };
        let program = bed.start_program(Host::Server, order)?;
        let printer = thread::Builder::new()
            .name("server".to_owned())
            .spawn(move || print_output(reader))
            .context(DOING)?;
        Ok(Self {
            program: Some(program),
            printer: Some(printer),
            ended: false,
        })
    }

    /// Waits until a program on the server's host listens, on `port` or on any.
    pub fn until_listening(
        &mut self,
        signals: &Signals,
        within: Duration,
        port: Option<u16>,
    ) -> Result<Ready, Failure> {
        let until = Instant::now() + within;
        let Some(program) = &mut self.program else {
            return Ok(Ready::NotYet);
        };
        loop {
            const DOING: &str = "cannot wait for the server";
            if let Some(status) = program.ended().context(DOING)? {
                let code = code(status);
                return Err(Failure::message(format!(
                    "the server ended with exit code {code} before it listened"
                ))
                .hint("type the command of `--server` in a shell to see what it lacks"));
            }
            if signals.path_has_ended().context(DOING)? {
                return Err(Failure::message(
                    "the path broke before the server listened",
                ));
            }
            if within.is_zero() || listens(program.pid(), port) {
                return Ok(Ready::Listens);
            }
            let remaining = until.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return Ok(Ready::NotYet);
            }
            let received = signals.wait(Some(POLL_INTERVAL.min(remaining)));
            if let Some((signal, _)) = received.context(DOING)? {
                return Ok(Ready::Stopped(signal));
            }
        }
    }

    /// Warns once if the server has ended while it was needed.
    pub fn warn_if_ended(&mut self) {
        if self.ended {
            return;
        }
        if let Some(Ok(Some(status))) = self.program.as_mut().map(Program::ended) {
            self.ended = true;
            output::err(&format!(
                "warning: the server ended with exit code {} while the command runs",
                code(status)
            ));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.program = None;
        if let Some(printer) = self.printer.take() {
            // The pipe has ended with all processes that could write to it.
            let _ = printer.join();
        }
    }
}

/// Prints the server's output, line by line, each with a prefix.
fn print_output(reader: PipeReader) {
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = io::Read::take(&mut reader, LONGEST_LINE).read_until(b'\n', &mut line);
        match read {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        if line.last() != Some(&b'\n') {
            line.push(b'\n');
        }
        let mut marked = b"server: ".to_vec();
        marked.append(&mut line);
        // An error of this cannot be reported.
        let _ = io::stderr().lock().write_all(&marked);
    }
}

/// Whether a socket of the host of `process` listens, or waits for datagrams, on `port` or on any.
fn listens(process: u32, port: Option<u16>) -> bool {
    let table = |name: &str| fs::read_to_string(format!("/proc/{process}/net/{name}"));
    let any = |name: &str, stream: bool| {
        table(name).is_ok_and(|text| {
            let mut sockets = text.lines().skip(1).filter_map(socket);
            sockets.any(|(own, state)| {
                (!stream || state == LISTENS) && port.is_none_or(|port| port == own)
            })
        })
    };
    any("tcp", true)
        || any("tcp6", true)
        || any("udp", false)
        || any("udp6", false)
        // The kernel's SCTP has a table of another form; its ports are not looked at.
        || (port.is_none() && table("sctp/eps").is_ok_and(|text| text.lines().count() > 1))
}

/// Returns port and state of a socket, from its line in `/proc/net/tcp` or `udp`.
fn socket(line: &str) -> Option<(u16, &str)> {
    let mut fields = line.split_whitespace().skip(1);
    let (_, port) = fields.next()?.rsplit_once(':')?;
    let state = fields.nth(1)?;
    Some((u16::from_str_radix(port, 16).ok()?, state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_lines_of_proc_net_are_parsed() {
        let line = "   0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000";
        assert_eq!(socket(line), Some((8080, LISTENS)));
        let six = "  1: 00000000000000000000000000000000:0035 00000000000000000000000000000000:0000 07 00";
        assert_eq!(socket(six), Some((53, "07")));
        assert_eq!(
            socket("  sl  local_address rem_address   st tx_queue"),
            None
        );
        assert_eq!(socket(""), None);
    }
}
