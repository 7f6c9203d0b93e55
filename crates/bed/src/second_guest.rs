//! Processes in the other guest.
//!
//! With two guests the engine and host a are in one, host b is in the other, and a wire that is not
//! the path joins them. In the other guest the [server](main) announces itself to the engine on that wire, waits for
//! it and serves one session with it. Nobody else can reach the server: the wire has two ends, and both are
//! kernels of this run.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::fd::AsFd,
    process::ExitCode,
    time::{Duration, Instant},
};

use regatta_path_daemon::wire_up;
use regatta_process::{Executable, exit_code, readable};

use crate::{
    error::BedError,
    guest::{CONTROL_WIRE, is_guest},
    hosts::SessionLauncher,
    session::{Closing, Incoming, Serving, Session, serve},
};

/// Hidden subcommand of `regatta` that runs in the second of two guests.
pub const COMMAND: &str = "guest-second";

/// Addresses on the wire for control: of the guest with the engine, and of the other.
const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 61, 0, 1), Ipv4Addr::new(10, 61, 0, 2)];

/// TCP port on which the server listens, and UDP port on which the engine receives its announcement.
const PORT: u16 = 7000;

/// Longest time that the other guest may take until it can be reached: both are started at once.
const BOOT_TIMEOUT: Duration = Duration::from_secs(60);

/// Longest time that one attempt to reach the server takes, and until the next one without an announcement of the server.
const ATTEMPT: Duration = Duration::from_secs(1);

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
    let until = Instant::now() + BOOT_TIMEOUT;
    // Before the first attempt: if that is too early, the server's message is still to come.
    let messages = UdpSocket::bind((ADDRESSES[0], PORT))?;
    let server = SocketAddr::from((ADDRESSES[1], PORT));
    let stream = connect(&messages, ATTEMPT, until, || {
        TcpStream::connect_timeout(&server, ATTEMPT)
    })?;
    stream.set_nodelay(true)?;
    let input = Closing(stream.try_clone()?);
    let output = Incoming::new(stream.into());
    Session::over(input, output, [SILENCE; 2], ToString::to_string)
}

/// Calls `attempt` until it succeeds or `until` has come: at once, again after an announcement of the server, and
/// `pause` after an attempt without such a message.
fn connect<T>(
    messages: &UdpSocket,
    pause: Duration,
    until: Instant,
    mut attempt: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    loop {
        match attempt() {
            Err(_) if Instant::now() < until => {}
            result => return result,
        }
        let remaining = until.saturating_duration_since(Instant::now());
        if readable(&[messages.as_fd()], Some(remaining.min(pause)))? {
            messages.recv(&mut [0])?;
        }
    }
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
    // An engine that is not there yet finds the server listening.
    let announced = UdpSocket::bind((ADDRESSES[1], 0))?.send_to(&[0], (ADDRESSES[0], PORT));
    announced.map(drop)?;
    let stream = accept_engine(&listener)?;
    stream.set_nodelay(true)?;
    let serving = Serving {
        executable: Executable::running()?,
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
    fn an_announcement_of_the_server_triggers_the_next_attempt() {
        let messages = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let engine = messages.local_addr().expect("an address");
        let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let mut attempts = 0;
        let attempt = || {
            attempts += 1;
            if attempts == 2 {
                return Ok("reached");
            }
            server.send_to(&[0], engine)?;
            Err(io::ErrorKind::ConnectionRefused.into())
        };
        let never = Duration::from_secs(3600);
        let reached = connect(&messages, never, Instant::now() + never, attempt);
        assert_eq!(reached.expect("reached"), "reached");
        let refused = || Err::<(), _>(io::ErrorKind::ConnectionRefused.into());
        let late = connect(&messages, never, Instant::now(), refused);
        let error = late.expect_err("the time is over");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn abandoned_connections_are_skipped() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let connect = || TcpStream::connect(address).expect("a connection");
        drop(connect());
        let mut engine = connect();
        engine.write_all(b"x").expect("sent");
        let accepted = accept_engine(&listener).expect("a connection");
        let (peer, local) = (accepted.peer_addr(), engine.local_addr());
        assert_eq!(peer.expect("a peer"), local.expect("an address"));
    }
}
