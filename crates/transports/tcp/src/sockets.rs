//! The sockets of one end, with the congestion control set and read back.

use std::{
    net::{IpAddr, SocketAddr},
    os::fd::{AsFd, BorrowedFd},
    sync::Arc,
};

use regatta_control::{Role, TrialOrder};
use regatta_model::{Facts, PortRange, StackFacts, Warning, reason};
use regatta_transport::{
    MonotonicTime, Result, Stop, TransportError, addresses::scoped,
    options::KernelCongestionControl, socket_option::set_integer, wait,
};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::{buffer::Buffer, info, settings::SocketOptions, socket::Connected, stack};

/// Backlog of the listening socket, for all flows of a transfer at once; the kernel caps it at `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// Common settings of the sockets of one end.
pub struct Sockets {
    role: Role,
    local: IpAddr,
    /// Ports to listen on.
    ports: Option<PortRange>,
    buffer: Option<Buffer>,
    pub(crate) options: SocketOptions,
    /// Whether they are sockets of MPTCP.
    pub(crate) multipath: bool,
    /// Facts that do not depend on a connection.
    stated: StackFacts,
    warning: Option<Warning>,
}

impl Sockets {
    /// Returns the settings that the options and the path ask for, for sockets of TCP.
    #[must_use]
    pub fn new(order: &TrialOrder) -> Self {
        let (buffer, warning) = Buffer::of(order);
        let options = SocketOptions::read(&order.transport.options);
        Self {
            role: order.role,
            local: order.local,
            ports: order.ports,
            buffer,
            multipath: false,
            stated: stack::of_end(&options.cc.0),
            options,
            warning,
        }
    }

    /// Returns the warnings about these sockets over this path.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        self.warning.iter().cloned().collect()
    }

    /// Opens and binds a socket.
    fn open(&self) -> Result<Socket> {
        let (protocol, what) = match self.multipath {
            true => (Protocol::MPTCP, reason::cannot_open_mptcp_socket()),
            false => (Protocol::TCP, reason::cannot_open_socket("TCP")),
        };
        let address = |port| scoped(SocketAddr::new(self.local, port), self.local);
        let domain = Domain::for_address(address(0));
        let socket =
            Socket::new(domain, Type::STREAM, Some(protocol)).map_err(TransportError::io(what))?;
        self.set_up(socket.as_fd())?;
        // Of many connections one after another each would keep its port from all others for a
        // minute after its end, were the port chosen here and not when it connects.
        set_integer(&socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1).map_err(
            TransportError::io(reason::cannot_set("IP_BIND_ADDRESS_NO_PORT")),
        )?;
        if self.ports.is_some() {
            // Connections of an earlier trial that linger do not hold the few ports.
            socket
                .set_reuse_address(true)
                .map_err(TransportError::io(reason::cannot_set("SO_REUSEADDR")))?;
        }
        let failed = TransportError::io(reason::cannot_bind(&self.local.to_string()));
        PortRange::bind(self.ports, |port| socket.bind(&address(port).into())).map_err(failed)?;
        Ok(socket)
    }

    /// Applies the common settings to a socket that is not connected.
    ///
    /// # Errors
    /// A setting that the kernel does not allow.
    pub fn set_up(&self, socket: BorrowedFd<'_>) -> Result<()> {
        let socket = &*SockRef::from(&socket);
        let KernelCongestionControl(cc) = &self.options.cc;
        let failed = TransportError::io(reason::cannot_set_control(cc));
        socket.set_tcp_congestion(cc.as_bytes()).map_err(failed)?;
        if let Some(buffer) = self.buffer {
            let failed = TransportError::io(reason::cannot_set_socket_buffers());
            buffer.set(socket).map_err(failed)?;
        }
        self.options.apply(socket)
    }

    /// Returns a listening socket and its address.
    pub(crate) fn listen(&self) -> Result<(Socket, SocketAddr)> {
        let socket = self.open()?;
        let failed = TransportError::io(reason::cannot_listen());
        socket.listen(BACKLOG).map_err(failed)?;
        let failed = TransportError::io(reason::cannot_listen_without_blocking());
        socket.set_nonblocking(true).map_err(failed)?;
        let failed = TransportError::io(reason::cannot_read_listening_address());
        let address = socket.local_addr().map_err(failed)?.as_socket();
        let none = || TransportError::protocol(reason::no_internet_address());
        let address = address.ok_or_else(none)?;
        Ok((socket, address))
    }

    /// Returns a connected socket, waiting until `until` at most.
    pub(crate) fn connect(
        &self,
        peer: SocketAddr,
        until: MonotonicTime,
        stop: &Stop,
    ) -> Result<Arc<Connected>> {
        let failed = || TransportError::io(reason::cannot_connect(&peer.ip().to_string()));
        let socket = self.open()?;
        socket.set_nonblocking(true).map_err(failed())?;
        let begun = MonotonicTime::now();
        let connecting = socket.connect(&peer.into());
        let socket = Arc::new(Connected(socket));
        stop.on_stop(&socket);
        match connecting {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {
                if !wait::ready(&socket.0, libc::POLLOUT, until).map_err(failed())? {
                    let what = reason::answer_to_connect(&peer.ip().to_string());
                    return Err(TransportError::timed_out_since(what, begun));
                }
                if let Some(error) = socket.0.take_error().map_err(failed())? {
                    return Err(failed()(error));
                }
            }
            Err(error) => return Err(failed()(error)),
        }
        if stop.is_stopped() {
            return Err(TransportError::Cancelled);
        }
        socket.0.set_nonblocking(false).map_err(failed())?;
        Ok(socket)
    }

    /// Returns the facts of a connected socket, whose congestion control must be the one that was
    /// asked for.
    ///
    /// # Errors
    /// The kernel's use of another congestion control.
    pub fn facts(&self, socket: BorrowedFd<'_>) -> Result<Facts> {
        let socket = &*SockRef::from(&socket);
        let end = self.role.name();
        let (which, size) = match self.role {
            Role::Sender => ("send_buffer", socket.send_buffer_size()),
            Role::Receiver => ("receive_buffer", socket.recv_buffer_size()),
        };
        let fixed = self.buffer.is_some() || self.options.socket_buffers.is_some();
        let tuning = if fixed { "fixed" } else { "by the kernel" };
        let control = self.read_back(socket)?;
        let mut facts = stack::of_socket(&self.stated, socket, fixed).of_end(end);
        facts.extend([
            (format!("congestion_control.{end}"), control),
            (format!("{which}_tuning.{end}"), tuning.to_owned()),
        ]);
        if self.options.zero_copy {
            let zero_copy = "splice of pages in memory";
            facts.insert(format!("zero_copy.{end}"), zero_copy.to_owned());
        }
        if let Some(has_ecn) = info::has_ecn(socket) {
            let ecn = if has_ecn {
                "negotiated"
            } else {
                "not negotiated"
            };
            facts.insert("tcp.ecn".to_owned(), ecn);
        }
        if let Ok(size) = size {
            // Of a buffer that the kernel tunes this is where it begins.
            facts.insert(format!("{which}_bytes.{end}"), size.to_string());
        }
        Ok(facts)
    }

    fn read_back(&self, socket: &Socket) -> Result<String> {
        let failed = TransportError::io(reason::cannot_read_control());
        let name = socket.tcp_congestion().map_err(failed)?;
        let name: Vec<u8> = name.into_iter().take_while(|byte| *byte != 0).collect();
        let name = String::from_utf8_lossy(&name).into_owned();
        let KernelCongestionControl(requested) = &self.options.cc;
        if name == *requested {
            return Ok(name);
        }
        Err(TransportError::protocol(reason::other_control(
            &name, requested,
        )))
    }
}
