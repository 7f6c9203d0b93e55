//! Fixed socket buffers, where the kernel's autotuning would stop short of the path's
//! bandwidth-delay product.

use std::io;

use regatta_control::{Role, TrialOrder};
use regatta_model::{BitRate, Bytes, Warning, phrase, warning};
use regatta_transport::{socket_option::set_integer, tcp_buffer_bytes};
use socket2::{Domain, Protocol, Socket, Type};

/// Buffer size of one end, in bytes as the kernel counts them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Buffer {
    role: Role,
    size: usize,
}

impl Buffer {
    /// Returns the buffer to set: none, unless autotuning's limit is below [`tcp_buffer_bytes`]. The warning says that
    /// neither autotuning nor a fixed buffer can get that large. A limit that the study asks for is not
    /// exceeded.
    pub(crate) fn of(order: &TrialOrder) -> (Option<Self>, Option<Warning>) {
        let path = &order.path;
        if path.keeps_tcp_limits {
            return (None, None);
        }
        let (Some(rate), Some(bdp), Some(needed)) = (
            path.link_rate_bps,
            path.bandwidth_delay_product(),
            tcp_buffer_bytes(path),
        ) else {
            return (None, None);
        };
        let sysctl = match order.role {
            Role::Sender => "tcp_wmem",
            Role::Receiver => "tcp_rmem",
        };
        let limit = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{sysctl}"))
            .ok()
            .and_then(|text| text.split_whitespace().nth(2)?.parse::<usize>().ok());
        let Some(limit) = limit.filter(|limit| *limit < needed) else {
            return (None, None);
        };
        let buffer = Self {
            role: order.role,
            size: needed,
        };
        let got = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))
            .and_then(|socket| buffer.set(&socket))
            .unwrap_or(limit);
        if got >= needed {
            return (Some(buffer), None);
        }
        let warning = warning::tcp_buffer_limited(
            phrase::side(order.role.name()),
            Bytes(got.max(limit) as u64),
            path.round_trip_delay,
            BitRate(rate),
            Bytes(bdp),
            sysctl,
            needed as u64,
        );
        // A fixed buffer that is smaller than autotuning's limit would make it worse.
        ((got > limit).then_some(buffer), Some(warning))
    }

    /// Sets the buffer, with `SO_SNDBUFFORCE` or `SO_RCVBUFFORCE` where permitted; returns its size
    /// as read back, in bytes.
    pub(crate) fn set(self, socket: &Socket) -> io::Result<usize> {
        let half = self.size / 2;
        let value = libc::c_int::try_from(half).unwrap_or(libc::c_int::MAX);
        let force = |name| set_integer(socket, libc::SOL_SOCKET, name, value);
        match self.role {
            Role::Sender => {
                force(libc::SO_SNDBUFFORCE).or_else(|_| socket.set_send_buffer_size(half))?;
                socket.send_buffer_size()
            }
            Role::Receiver => {
                force(libc::SO_RCVBUFFORCE).or_else(|_| socket.set_recv_buffer_size(half))?;
                socket.recv_buffer_size()
            }
        }
    }
}
