//! Options of the drivers, most of which set the sockets of TCP up: congestion control, pacing, segment size, buffers,
//! Nagle's algorithm, DSCP.

use std::{collections::BTreeMap, io, os::fd::AsRawFd};

use regatta_model::OptionValue;
use regatta_transport::{
    OptionDefinition, OptionKind, Result, TransportError, Unsupported,
    options::{self, DSCP, RATE},
    socket_option::{set_dscp, set_integer},
};
use regatta_transport_tls::{Crypto, crypto_option};
use socket2::{Domain, Protocol, Socket, Type};

/// The option that chooses the congestion control.
pub const CC: OptionDefinition = OptionDefinition {
    name: "cc",
    kind: OptionKind::KernelCongestionControl,
    default: "cubic",
    help: "congestion control of the kernel, set on every socket and read back",
};

/// Library of the encryption of `tcp-tls`.
pub(crate) const CRYPTO: OptionDefinition = crypto_option(Crypto::AwsLc);

/// Largest segment.
pub(crate) const MSS: OptionDefinition = OptionDefinition {
    name: "mss",
    kind: OptionKind::Number {
        least: 88,
        most: 32_767,
    },
    default: "",
    help: "largest segment in bytes (TCP_MAXSEG); from the path's MTU if not set",
};

/// Size of both socket buffers.
pub(crate) const SOCKET_BUFFERS: OptionDefinition = options::size(
    "socket_buffers",
    "send and receive buffer of each socket, of which the kernel may grant less; tuned by the kernel if not set",
);

/// Whether Nagle's algorithm is off at the connecting end.
pub(crate) const NO_DELAY: OptionDefinition = options::flag(
    "no_delay",
    false,
    "send each message of the connecting end at once, without Nagle's algorithm (TCP_NODELAY)",
);

/// Returns the congestion control that the options ask for.
pub(crate) fn congestion_control(options: &BTreeMap<String, OptionValue>) -> &str {
    CC.text(options).unwrap_or(CC.default)
}

/// Returns the names in one of the kernel's lists of congestion controls.
fn kernel_list(which: &str) -> String {
    let path = format!("/proc/sys/net/ipv4/tcp_{which}_congestion_control");
    std::fs::read_to_string(path)
        .map(|names| names.trim().to_owned())
        .unwrap_or_default()
}

/// Tries the congestion control that the options ask for on a socket: the kernel loads its module if permitted.
pub(crate) fn check_congestion_control(
    options: &BTreeMap<String, OptionValue>,
) -> Result<(), Unsupported> {
    let name = congestion_control(options);
    let attempt = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))
        .and_then(|socket| socket.set_tcp_congestion(name.as_bytes()));
    let Err(error) = attempt else {
        return Ok(());
    };
    if error.kind() == io::ErrorKind::PermissionDenied {
        let allowed = kernel_list("allowed");
        return Err(Unsupported::new(
            format!("this user may not choose congestion control `{name}`; allowed are: {allowed}"),
            format!(
                "run `sysctl -w net.ipv4.tcp_allowed_congestion_control=\"{allowed} {name}\"` as root"
            ),
        ));
    }
    let available = kernel_list("available");
    Err(Unsupported::new(
        format!("this kernel has no congestion control `{name}`; it has: {available}"),
        format!("run `modprobe tcp_{name}` as root"),
    ))
}

/// Part of a second of which a paced socket takes the bytes in advance: a full send buffer would take seconds to leave
/// after the end of a transfer with a duration.
const UNSENT_PER_SECOND: u64 = 50;

/// Least number of bytes that a paced socket takes in advance.
const LEAST_UNSENT: u64 = 4096;

/// Settings of the sockets of one end, as the options ask for them.
#[derive(Debug, Clone, Default)]
pub(crate) struct SocketSettings {
    bytes_per_second: Option<u64>,
    mss: Option<i32>,
    buffers: Option<usize>,
    dscp: Option<i32>,
    pub(crate) no_delay: bool,
}

impl SocketSettings {
    pub(crate) fn of(options: &BTreeMap<String, OptionValue>) -> Self {
        Self {
            bytes_per_second: RATE.rate(options).map(|rate| (rate.0 / 8).max(1)),
            mss: MSS.number(options),
            buffers: SOCKET_BUFFERS
                .size(options)
                .map(|size| usize::try_from(size).unwrap_or(usize::MAX)),
            dscp: DSCP.number(options),
            no_delay: NO_DELAY.flag(options),
        }
    }

    /// Whether the sockets have buffers of a fixed size.
    pub(crate) const fn has_buffers(&self) -> bool {
        self.buffers.is_some()
    }

    /// Applies the settings to a socket that is not connected.
    pub(crate) fn apply(&self, socket: &Socket) -> Result<()> {
        let done = |what: &str, result: io::Result<()>| {
            result.map_err(TransportError::io(format!("cannot set {what}")))
        };
        if let Some(rate) = self.bytes_per_second {
            done("the largest rate (SO_MAX_PACING_RATE)", pace(socket, rate))?;
            let unsent = (rate / UNSENT_PER_SECOND).clamp(LEAST_UNSENT, u32::MAX.into()) as u32;
            let set = socket.set_tcp_notsent_lowat(unsent);
            done("the bytes that wait (TCP_NOTSENT_LOWAT)", set)?;
        }
        if let Some(mss) = self.mss {
            let set = set_integer(socket, libc::IPPROTO_TCP, libc::TCP_MAXSEG, mss);
            done("the largest segment (TCP_MAXSEG)", set)?;
        }
        if let Some(size) = self.buffers {
            let set = socket
                .set_send_buffer_size(size)
                .and_then(|()| socket.set_recv_buffer_size(size));
            done("the socket's buffers", set)?;
        }
        if let Some(dscp) = self.dscp {
            let is_ipv6 = matches!(socket.domain(), Ok(Domain::IPV6));
            done("the code point", set_dscp(socket, is_ipv6, dscp))?;
        }
        Ok(())
    }
}

/// Sets the largest rate at which the kernel sends, in bytes a second.
fn pace(socket: &Socket, rate: u64) -> io::Result<()> {
    // SAFETY: the value is an integer of 64 bits, and its length is given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            (&raw const rate).cast(),
            size_of::<u64>() as libc::socklen_t,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_those_of_the_socket() {
        let text = |value: &str| OptionValue::Text(value.to_owned());
        let options = BTreeMap::from([
            ("rate".to_owned(), text("8Mbit/s")),
            ("mss".to_owned(), OptionValue::Number(1000)),
            ("socket_buffers".to_owned(), text("64KiB")),
            ("dscp".to_owned(), OptionValue::Number(46)),
        ]);
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).expect("TCP");
        SocketSettings::of(&options)
            .apply(&socket)
            .expect("allowed");
        let mut rate = 0_u64;
        let mut length = size_of::<u64>() as libc::socklen_t;
        // SAFETY: the place is valid for writes of its length.
        let read = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_MAX_PACING_RATE,
                (&raw mut rate).cast(),
                &raw mut length,
            )
        };
        assert_eq!((read, rate), (0, 1_000_000));
        // A fiftieth of a second at this rate.
        assert_eq!(socket.tcp_notsent_lowat().expect("set"), 20_000);
        assert_eq!(socket.tcp_mss().expect("a size"), 1000);
        // The kernel doubles it for its own bookkeeping.
        assert_eq!(socket.send_buffer_size().expect("a size"), 128 << 10);
        assert_eq!(socket.tos_v4().expect("a field"), 46 << 2);
    }
}
