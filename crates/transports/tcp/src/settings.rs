//! Options of the drivers, most of which set the sockets of TCP up: congestion control, pacing, segment size, buffers,
//! Nagle's algorithm, DSCP.

use std::{io, time::Duration};

use regatta_model::{BitRate, Bytes, Phrase, reason};
use regatta_transport::{
    OptionValues, Result, TransportError, Unsupported, driver_options, loads_modules,
    options::{DSCP, KernelCongestionControl, RATE, saturating_usize},
    socket_option::{self, set_dscp},
};
use regatta_transport_tls::{Crypto, crypto_option};
use socket2::{Domain, Protocol, Socket, Type};

driver_options! {
    /// Options of `tcp`: settings of the sockets of one end.
    #[derive(Debug, Clone)]
    pub struct SocketOptions {
        cc: KernelCongestionControl = "cubic", "congestion control of the kernel, set on every socket and read back";
        rate: Option<BitRate> = RATE;
        mss: Option<u32> [88..=32_767], "largest segment in bytes (TCP_MAXSEG); from the path's MTU if not set";
        socket_buffers: Option<Bytes>,
            "size of the send and the receive buffer of each socket, of which the kernel may grant less; tuned by the \
             kernel if not set";
        no_delay: bool = false,
            "send each message of the connecting end at once, without Nagle's algorithm (TCP_NODELAY)";
        dscp: Option<u16> = DSCP;
        zero_copy: bool = false,
            "send the messages of a bulk transfer, of more than 4 KiB, from pages of memory that the kernel takes without a copy (splice)";
    }
}

driver_options! {
    /// Options of `tcp-tls`.
    pub(crate) struct TlsOptions {
        ..SocketOptions::{cc};
        crypto: Crypto = crypto_option(Crypto::AwsLc);
        ..SocketOptions::{rate, mss, socket_buffers, no_delay, dscp};
    }
}

driver_options! {
    /// Options of `mptcp`.
    pub(crate) struct MultipathOptions {
        ..SocketOptions::{cc};
        subflow_down_after: Option<Duration>,
            "time after the transfer's connection is made at which the additional subflows are taken down";
    }
}

/// Returns the names in one of the kernel's lists of congestion controls.
fn kernel_list(which: &str) -> Vec<String> {
    let path = format!("/proc/sys/net/ipv4/tcp_{which}_congestion_control");
    let names = std::fs::read_to_string(path).unwrap_or_default();
    names.split_whitespace().map(str::to_owned).collect()
}

/// Checks that this host has the congestion control that the options ask for, by trying it on a socket: the kernel loads
/// its module if permitted.
///
/// # Errors
/// The reason why not, with a command that may help.
pub fn check_congestion_control(options: &OptionValues) -> Result<(), Unsupported> {
    let KernelCongestionControl(name) = &SocketOptions::cc.read(options);
    let attempt = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))
        .and_then(|socket| socket.set_tcp_congestion(name.as_bytes()));
    let Err(error) = attempt else {
        return Ok(());
    };
    if error.kind() == io::ErrorKind::PermissionDenied {
        let allowed = kernel_list("allowed");
        let hint = reason::allow_control(&allowed.join(" "), name);
        return Err(Unsupported::new(
            reason::control_not_allowed(name, allowed),
            hint,
        ));
    }
    let available = kernel_list("available");
    Err(Unsupported::new(
        reason::no_control(name, available.clone()),
        missing_control_hint(name, available, loads_modules()),
    ))
}

/// Returns the hint where the kernel, which `loads_modules` or not, has only the congestion controls `available`.
fn missing_control_hint(name: &str, available: Vec<String>, loads_modules: bool) -> Phrase {
    match loads_modules {
        true => reason::choose_or_load_control(available, name),
        false => reason::choose_control(available),
    }
}

/// Part of a second of which a paced socket takes the bytes in advance: a full send buffer would take seconds to leave
/// after the end of a transfer with a duration.
const UNSENT_PER_SECOND: u64 = 50;

/// Sets the largest rate at which a socket sends, in bytes per second; `u64::MAX` is no limit.
pub(crate) fn set_rate(socket: &Socket, bytes_per_second: u64) -> io::Result<()> {
    let option = libc::SO_MAX_PACING_RATE;
    socket_option::set(socket, libc::SOL_SOCKET, option, &bytes_per_second)
}

impl SocketOptions {
    /// Applies the settings to a socket that is not connected.
    pub(crate) fn apply(&self, socket: &Socket) -> Result<()> {
        let done = |what: Phrase, result: io::Result<()>| result.map_err(TransportError::io(what));
        if let Some(rate) = self.rate {
            let rate = (rate.0 / 8).max(1);
            done(
                reason::cannot_set("SO_MAX_PACING_RATE"),
                set_rate(socket, rate),
            )?;
            let unsent = (rate / UNSENT_PER_SECOND).clamp(1, u32::MAX.into()) as u32;
            let set = socket.set_tcp_notsent_lowat(unsent);
            done(reason::cannot_set("TCP_NOTSENT_LOWAT"), set)?;
        }
        if let Some(mss) = self.mss {
            done(reason::cannot_set("TCP_MAXSEG"), socket.set_tcp_mss(mss))?;
        }
        if let Some(size) = self.socket_buffers {
            let size = saturating_usize(size);
            let set = socket
                .set_send_buffer_size(size)
                .and_then(|()| socket.set_recv_buffer_size(size));
            done(reason::cannot_set_socket_buffers(), set)?;
        }
        if let Some(dscp) = self.dscp {
            let is_ipv6 = matches!(socket.domain(), Ok(Domain::IPV6));
            done(
                reason::cannot_set_code_point(),
                set_dscp(socket, is_ipv6, dscp.into()),
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use regatta_model::OptionValue;

    use super::*;

    #[test]
    fn a_missing_congestion_control_has_the_names_of_others() {
        let hint = |loads_modules| {
            let available = ["reno", "cubic"].map(str::to_owned).to_vec();
            missing_control_hint("bbr", available, loads_modules).to_string()
        };
        assert_eq!(hint(false), "choose one that it has (`reno`, `cubic`)");
        assert!(hint(true).contains("; or run `modprobe tcp_bbr` as root"));
    }

    #[test]
    fn settings_are_applied_to_the_socket() {
        let text = |value: &str| OptionValue::Text(value.to_owned());
        let options = OptionValues::from([
            ("rate".to_owned(), text("8Mbit/s")),
            ("mss".to_owned(), OptionValue::Number(1000)),
            ("socket_buffers".to_owned(), text("64KiB")),
            ("dscp".to_owned(), OptionValue::Number(46)),
        ]);
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).expect("TCP");
        SocketOptions::read(&options)
            .apply(&socket)
            .expect("allowed");
        let mut rate = 0_u64;
        let option = libc::SO_MAX_PACING_RATE;
        let read = socket_option::get_into(&socket, libc::SOL_SOCKET, option, &mut rate);
        assert_eq!((read.ok(), rate), (Some(8), 1_000_000));
        // A fiftieth of a second at this rate.
        assert_eq!(socket.tcp_notsent_lowat().expect("set"), 20_000);
        assert_eq!(socket.tcp_mss().expect("a size"), 1000);
        // The kernel doubles it for its own bookkeeping.
        assert_eq!(socket.send_buffer_size().expect("a size"), 128 << 10);
        assert_eq!(socket.tos_v4().expect("a field"), 46 << 2);
    }
}
