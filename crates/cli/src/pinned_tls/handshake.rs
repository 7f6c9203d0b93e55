//! TLS handshake at either end, with one deadline for the whole of it.

use std::{io, net::TcpStream, os::fd::AsFd, time::Instant};

use nix::poll::{PollFd, PollFlags};
use rustls::Connection;

use super::relay::{or_later, poll_until};

/// Carries out the handshake over a connection, which does not block afterwards.
///
/// # Errors
/// `TimedOut` at the deadline, `UnexpectedEof` if the other end closes the connection, `InvalidData` for another key or
/// for bytes that are no TLS, and any error of the connection.
pub fn handshake(tls: &mut Connection, mut tcp: &TcpStream, deadline: Instant) -> io::Result<()> {
    tcp.set_nonblocking(true)?;
    while tls.is_handshaking() || tls.wants_write() {
        let mut events = PollFlags::POLLIN;
        events.set(PollFlags::POLLOUT, tls.wants_write());
        poll_until(&mut [PollFd::new(tcp.as_fd(), events)], Some(deadline))?;
        if Instant::now() >= deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if tls.wants_write() {
            or_later(tls.write_tls(&mut tcp))?;
        }
        match or_later(tls.read_tls(&mut tcp))? {
            Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Some(_) => {
                if let Err(error) = tls.process_new_packets() {
                    // The alert, by which the other end knows the reason.
                    let _ = tls.write_tls(&mut tcp);
                    return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                }
            }
            None => {}
        }
    }
    Ok(())
}
