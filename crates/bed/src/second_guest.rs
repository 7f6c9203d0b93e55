//! Processes in the other guest.
//!
//! With two guests the engine and host a are in one, host b is in the other, and a wire that is not
//! the path joins them. In the other guest the [server](main) waits for the engine on that wire and
//! serves one session with it. Nobody else can reach the server: the wire has two ends, and both are
//! kernels of this run.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use crate::{
    error::{BedError, exit_code},
    guest::{CONTROL_WIRE, is_guest},
    hosts::SessionLauncher,
    launch,
    path_daemon::wire_up,
    session::{Closing, Incoming, Serving, Session, serve},
};

/// First argument of the program that runs in the other guest.
pub const COMMAND: &str = "guest-second";

/// Addresses on the wire for control: of the guest with the engine, and of the other.
const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 61, 0, 1), Ipv4Addr::new(10, 61, 0, 2)];

/// TCP port on which the server listens.
const PORT: u16 = 7000;

/// Longest time that the other guest may take until it can be reached: both are started at once.
const BOOT_WITHIN: Duration = Duration::from_secs(60);

/// Longest silence of the other guest: a busy machine may pause a guest.
const SILENCE: Duration = Duration::from_secs(30);

/// Sets up this end of the wire, waits for the other guest and opens a session with it.
///
/// # Errors
/// [`BedError::Host`].
pub(crate) fn reach() -> Result<SessionLauncher, BedError> {
    let host = "the other guest".to_owned();
    match open() {
        Ok(session) => Ok(SessionLauncher::new(host, session)),
        Err(source) => Err(BedError::Host { host, source }),
    }
}

fn open() -> io::Result<Session> {
    wire_up(CONTROL_WIRE, ADDRESSES[0]).map_err(io::Error::other)?;
    let until = Instant::now() + BOOT_WITHIN;
    let server = SocketAddr::from((ADDRESSES[1], PORT));
    let stream = loop {
        match TcpStream::connect_timeout(&server, Duration::from_secs(1)) {
            Ok(stream) => break stream,
            Err(error) if Instant::now() >= until => return Err(error),
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    };
    stream.set_nodelay(true)?;
    let input = Closing(stream.try_clone()?);
    let output = Incoming::new(stream.into());
    Session::over(input, output, [SILENCE; 2], ToString::to_string)
}

/// Serves the engine in the first guest until the guest ends or the engine goes. The body of `regatta
/// guest-second`.
#[must_use]
pub fn main() -> ExitCode {
    if !is_guest() {
        eprintln!("error: this is not a guest");
        return ExitCode::FAILURE;
    }
    exit_code(serve_engine(), "the second guest cannot serve the first: ")
}

fn serve_engine() -> Result<(), Box<dyn std::error::Error>> {
    wire_up(CONTROL_WIRE, ADDRESSES[1])?;
    let listener = TcpListener::bind((ADDRESSES[1], PORT))?;
    let stream = accept_engine(&listener)?;
    stream.set_nodelay(true)?;
    let serving = Serving {
        executable: launch::open(&std::env::current_exe()?)?,
        silence: SILENCE,
        guard: None,
        client: None,
    };
    serve(stream.try_clone()?.into(), stream, serving)?;
    Ok(())
}

/// Accepts the connection on which the engine sends. It may have given up some before: [`open`] waits a
/// second for each, and a connection that is made only then is closed without a byte.
fn accept_engine(listener: &TcpListener) -> io::Result<TcpStream> {
    loop {
        let (stream, _) = listener.accept()?;
        if matches!(stream.peek(&mut [0]), Ok(1)) {
            return Ok(stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn connections_that_were_given_up_are_passed_over() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let connect = || TcpStream::connect(address).expect("a connection");
        drop(connect());
        let mut engine = connect();
        engine.write_all(b"x").expect("sent");
        let accepted = accept_engine(&listener).expect("a connection");
        let (peer, own) = (accepted.peer_addr(), engine.local_addr());
        assert_eq!(peer.expect("a peer"), own.expect("an address"));
    }
}
