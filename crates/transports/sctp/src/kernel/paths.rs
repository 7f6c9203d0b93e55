//! Paths of a multihomed association: confirmation of the further paths, failure of the primary
//! path, and time until data arrives over another one.

use std::{
    io,
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use regatta_transport::{
    MonotonicTime, Purpose,
    opening::{self, OPENING_BYTES, Token},
    socket_option::Plain,
};
use regatta_transport_sockets::timer;
use socket2::{SockFilter, Socket};
use tokio::sync::Notify;

use super::{
    socket::{self, Piece},
    uapi,
};

/// Paths of one association.
pub(crate) struct Paths {
    /// Addresses of the primary path: this end's and the peer's.
    primary: [IpAddr; 2],
    /// Time after the beginning of the transfer at which the primary path is taken down.
    down_after: Option<Duration>,
    token: Token,
    /// Notified when the transfer begins.
    begun: Notify,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Whether the first data was examined.
    examined: bool,
    down: Option<MonotonicTime>,
    /// Whether all data that came before the failure is taken.
    drained: bool,
    resumed: Option<MonotonicTime>,
    /// Time at which a sample first saw the primary path given up.
    given_up: Option<MonotonicTime>,
    refused: Option<String>,
}

impl Paths {
    pub(crate) fn new(primary: [IpAddr; 2], down_after: Option<Duration>, token: Token) -> Self {
        Self {
            primary,
            down_after,
            token,
            begun: Notify::new(),
            state: Mutex::default(),
        }
    }

    /// Asks for a heartbeat on each further path at once: before the answer the kernel uses none of
    /// them (RFC 9260 §5.4), and on its own it asks only after the first retransmission time-out.
    pub(crate) fn confirm(&self, socket: &Socket) {
        for address in socket::peer_addresses(socket).unwrap_or_default() {
            if address.ip() == self.primary[1] {
                continue;
            }
            let demand = uapi::PeerAddrParams {
                address: socket::storage(address),
                flags: uapi::SPP_HB_DEMAND,
                ..Plain::zeroed()
            };
            // Without it the path is confirmed later.
            let _ = socket::set(socket, libc::SCTP_PEER_ADDR_PARAMS, &demand);
        }
    }

    /// Records the beginning of the transfer, from which the time of the failure is counted.
    pub(crate) fn begin(&self) {
        self.begun.notify_one();
    }

    /// Takes the primary path of an association down at the configured time. Runs as a task of the
    /// end.
    pub(crate) async fn take_down(self: Arc<Self>, association: Weak<impl AsRef<Socket>>) {
        let Some(after) = self.down_after else {
            return;
        };
        self.begun.notified().await;
        timer::sleep_until(MonotonicTime::now() + after).await;
        let Some(association) = association.upgrade() else {
            return;
        };
        let socket = (*association).as_ref();
        let done = drop_packets_of(socket, self.primary);
        let waiting = socket::has_data(socket);
        let mut state = self.state.lock();
        match done {
            Ok(()) => {
                state.down = Some(MonotonicTime::now());
                state.drained = !waiting;
            }
            Err(error) => state.refused = Some(error.to_string()),
        }
    }

    /// Records that data was delivered to the application.
    pub(crate) fn delivered(&self, pieces: &[Piece], memory: &[u8]) {
        let Some(first) = pieces.iter().find(|piece| piece.length > 0) else {
            return;
        };
        let mut state = self.state.lock();
        if !std::mem::replace(&mut state.examined, true) {
            let opening = first.data(memory).first_chunk();
            let purpose =
                opening.and_then(|bytes: &[u8; OPENING_BYTES]| opening::decode(bytes, self.token));
            if purpose == Some(Purpose::Transfer) {
                self.begin();
            }
        }
        if state.drained {
            state.resumed.get_or_insert_with(MonotonicTime::now);
        }
    }

    /// Records that all received data is taken.
    pub(crate) fn nothing_left(&self) {
        let mut state = self.state.lock();
        state.drained |= state.down.is_some();
    }

    /// Records the state of a path that a sample saw.
    pub(crate) fn seen(&self, address: IpAddr, path_state: i32) {
        let given_up = [uapi::PATH_INACTIVE, uapi::PATH_POTENTIALLY_FAILED].contains(&path_state);
        let mut state = self.state.lock();
        if address == self.primary[1] && given_up && state.down.is_some() {
            state.given_up.get_or_insert_with(MonotonicTime::now);
        }
    }

    /// Returns the time from the failure of the primary path at this end to the first data over
    /// another one.
    pub(crate) fn fail_over_time(&self) -> Option<Duration> {
        let state = self.state.lock();
        Some(state.resumed?.since(state.down?))
    }

    /// Returns the time from the failure of the primary path until a sample saw the kernel give it
    /// up.
    pub(crate) fn given_up_after(&self) -> Option<Duration> {
        let state = self.state.lock();
        Some(state.given_up?.since(state.down?))
    }

    /// Describes the result of taking the primary path down; `None` if that was not
    /// configured.
    pub(crate) fn outcome(&self) -> Option<String> {
        self.down_after?;
        let state = self.state.lock();
        Some(match (&state.refused, state.down) {
            (Some(why), _) => format!("not taken down: {why}"),
            (None, Some(_)) => "taken down: its packets are dropped at this end's socket".into(),
            (None, None) => "not taken down: the transfer ended before".into(),
        })
    }
}

/// Makes the socket drop every packet between these two addresses: with the same at the other end,
/// the path loses everything both ways. Needs no privilege, and ends with the socket.
fn drop_packets_of(socket: &Socket, [here, there]: [IpAddr; 2]) -> io::Result<()> {
    let (IpAddr::V4(here), IpAddr::V4(there)) = (here, there) else {
        let only = "only paths of IPv4 addresses can be taken down";
        return Err(io::Error::new(io::ErrorKind::Unsupported, only));
    };
    socket.attach_filter(&filter(here, there))
}

/// Returns a program of the kernel's packet filter that lets every packet pass but those from
/// `there` and those to `here`.
fn filter(here: Ipv4Addr, there: Ipv4Addr) -> [SockFilter; 6] {
    const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
    /// Offset of the IP header, and in it of the addresses (RFC 791).
    const NETWORK: u32 = libc::SKF_NET_OFF as u32;
    const SOURCE: u32 = NETWORK.wrapping_add(12);
    const DESTINATION: u32 = NETWORK.wrapping_add(16);
    let step = |code: u32, jump_true: u8, jump_false: u8, value: u32| {
        SockFilter::new(code as u16, jump_true, jump_false, value)
    };
    [
        step(LOAD, 0, 0, SOURCE),
        step(EQUAL, 3, 0, u32::from(there)),
        step(LOAD, 0, 0, DESTINATION),
        step(EQUAL, 1, 0, u32::from(here)),
        step(RETURN, 0, 0, u32::MAX),
        step(RETURN, 0, 0, 0),
    ]
}

/// Returns the name of a path's state.
pub(crate) const fn state_name(state: i32) -> &'static str {
    match state {
        uapi::PATH_INACTIVE => "inactive",
        uapi::PATH_POTENTIALLY_FAILED => "potentially failed",
        uapi::PATH_ACTIVE => "active",
        uapi::PATH_UNCONFIRMED => "unconfirmed",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 60, 0, 1));
    const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 60, 0, 2));

    fn piece(length: usize) -> Piece {
        Piece {
            stream: 0,
            protocol: 0,
            start: 0,
            length,
            ends: true,
        }
    }

    #[test]
    fn data_received_before_the_outage_does_not_end_fail_over() {
        let token = Token([7; 16]);
        let paths = Paths::new([HERE, THERE], Some(Duration::from_millis(1)), token);
        let memory = opening::encode(token, Purpose::Transfer);
        let come = || paths.delivered(&[piece(OPENING_BYTES)], &memory);
        come();
        assert_eq!(paths.fail_over_time(), None, "nothing is down");
        paths.nothing_left();
        let down = MonotonicTime::now();
        paths.state.lock().down = Some(down);
        come();
        assert_eq!(paths.fail_over_time(), None, "it had come before");
        paths.nothing_left();
        come();
        let time = paths.fail_over_time().expect("data came over another path");
        come();
        assert_eq!(paths.fail_over_time(), Some(time), "the first counts");
        paths.seen(THERE, uapi::PATH_ACTIVE);
        assert_eq!(paths.given_up_after(), None);
        paths.seen(THERE, uapi::PATH_POTENTIALLY_FAILED);
        assert!(paths.given_up_after().is_some());
    }

    #[test]
    fn filter_drops_only_packets_of_the_path() {
        // Over loopback, with datagrams: the filter looks at the IP header alone.
        let first = Ipv4Addr::new(127, 0, 0, 1);
        let socket = std::net::UdpSocket::bind((first, 0)).expect("a socket");
        let address = socket.local_addr().expect("an address");
        socket
            .set_read_timeout(Some(Duration::from_millis(50)))
            .expect("a time-out");
        let send = |from: Ipv4Addr| {
            let sender = std::net::UdpSocket::bind((from, 0)).expect("a socket");
            sender.send_to(&[1], address).expect("it leaves");
        };
        let mut byte = [0];
        let socket = Socket::from(socket);
        let dropped = [Ipv4Addr::new(127, 0, 0, 9), Ipv4Addr::new(127, 0, 0, 3)].map(IpAddr::V4);
        drop_packets_of(&socket, dropped).expect("a filter");
        let socket = std::net::UdpSocket::from(socket);
        send(Ipv4Addr::new(127, 0, 0, 3));
        assert!(socket.recv(&mut byte).is_err(), "from the dead path");
        send(Ipv4Addr::new(127, 0, 0, 4));
        assert_eq!(socket.recv(&mut byte).ok(), Some(1), "from the other one");
        let dropped = [first, Ipv4Addr::new(127, 0, 0, 3)].map(IpAddr::V4);
        let socket = Socket::from(socket);
        drop_packets_of(&socket, dropped).expect("a filter");
        let socket = std::net::UdpSocket::from(socket);
        send(Ipv4Addr::new(127, 0, 0, 4));
        assert!(socket.recv(&mut byte).is_err(), "to the dead path");
    }
}
