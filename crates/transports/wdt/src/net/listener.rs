//! The receiver's listening sockets and threads.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use socket2::{Domain, Socket, Type};

use super::admission::Admission;
use super::socket::Connected;
use super::thread::Thread;
use super::{no_waker, run_all, stopped, with_port};
use crate::failure::{Failure, Report};
use crate::host::Host;
use crate::receiver::{Connection, Session, Step};
use crate::sink::Sink;

/// Size of the receive buffer, in bytes.
const READ_BYTES: usize = 256 << 10;
/// Backlog of a listening socket, large enough that waiting strangers do not keep the sender out.
const BACKLOG: i32 = 128;

/// The listening sockets of a receiver.
#[derive(Debug, Default)]
pub struct Listener {
    sockets: Vec<Socket>,
    ports: Vec<u16>,
}

impl Listener {
    /// Listens on `ports`; on any free one in place of each 0.
    ///
    /// # Errors
    /// The error of the system, or of `host`.
    pub fn bind(ports: &[u16], host: &dyn Host) -> io::Result<Self> {
        let mut listener = Self::default();
        for port in ports {
            listener.listen(*port, host)?;
        }
        Ok(listener)
    }

    /// Listens on one port more; on any free one in place of 0.
    ///
    /// # Errors
    /// The error of the system, or of `host`.
    pub fn listen(&mut self, port: u16, host: &dyn Host) -> io::Result<()> {
        let no_ipv6 = |error: &io::Error| {
            let code = error.raw_os_error();
            matches!(code, Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL))
        };
        let on = |address| listen(with_port(address, port), host);
        let all = |address: IpAddr| on(SocketAddr::new(address, 0));
        let socket = match host.local() {
            Some(address) => on(address)?,
            // Where the system has no IPv6, IPv4 is every address.
            None => match all(Ipv6Addr::UNSPECIFIED.into()) {
                Err(error) if no_ipv6(&error) => all(Ipv4Addr::UNSPECIFIED.into())?,
                socket => socket?,
            },
        };
        let address = socket.local_addr()?.as_socket();
        self.ports
            .push(address.map_or(port, |address| address.port()));
        self.sockets.push(socket);
        Ok(())
    }

    /// Returns the ports, for the connection URL.
    #[must_use]
    pub fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// Receives everything; returns when every connection has ended. The session's URL must have
    /// been made with [`Listener::ports`].
    ///
    /// # Errors
    /// The reason why not everything arrived.
    pub fn receive<K: Sink>(
        self,
        session: &Arc<Session<K>>,
        host: &dyn Host,
    ) -> Result<Report, Failure> {
        let began = Instant::now();
        let wakers = session.wakers();
        host.begins(wakers);
        let sockets = self.sockets.into_iter().zip(self.ports).enumerate();
        let threads = sockets.map(|(index, (listener, port))| {
            Ok(Thread {
                session,
                index,
                port,
                listener,
                host,
                waker: wakers.add()?,
                began,
            })
        });
        let threads: Vec<_> = threads.collect::<io::Result<_>>().map_err(no_waker)?;
        let jobs = threads.into_iter().map(|thread| move || run(&thread));
        run_all("wdt-receive", jobs, |failure| session.fail(failure));
        session.finish()
    }
}

fn listen(address: SocketAddr, host: &dyn Host) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    host.opened(socket.as_fd())?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    // Connections of an earlier transfer that linger do not hold a requested port.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Serves the connections of a port until the transfer ends.
fn run<K: Sink>(thread: &Thread<'_, K>) {
    let mut connection = Connection::new(thread.session.clone(), thread.index);
    let mut socket: Option<Connected<'_>> = None;
    let mut buffer = vec![0; READ_BYTES];
    let mut admission = Admission(Vec::new());
    loop {
        if thread.host.stopped() {
            thread.session.fail(stopped());
        }
        let step = connection.step(thread.began.elapsed());
        match (step, &socket) {
            (Step::Accept(until), _) => {
                socket = admission.next(thread, &mut connection, &mut buffer, until);
            }
            (Step::Write, Some(socket)) => thread.write(&mut connection, socket),
            (Step::Read(until), Some(socket)) => {
                match socket.read(&mut buffer, &thread.waker, thread.left(until)) {
                    Ok(Some(count)) => {
                        connection.received(&mut buffer[..count], thread.began.elapsed())
                    }
                    Ok(None) => {}
                    Err(error) => connection.read_failed(&error, thread.began.elapsed()),
                }
            }
            (Step::Wait(until), _) => thread.waker.sleep(thread.left(until)),
            (Step::Shutdown, Some(socket)) => socket.shutdown(),
            (Step::Disconnect, _) => socket = None,
            (Step::End, _) => return admission.end(thread, &mut connection, &mut buffer),
            (Step::Write | Step::Read(_) | Step::Shutdown, None) => {
                let error = io::ErrorKind::NotConnected.into();
                connection.read_failed(&error, thread.began.elapsed());
            }
        }
    }
}
