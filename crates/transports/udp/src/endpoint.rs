//! Listening for flows and making them, each on a connected socket of its own, so that the kernel
//! keeps the probe's messages out of the transfer's buffer.

use std::{
    collections::BTreeMap,
    future::Future,
    io,
    mem::MaybeUninit,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use regatta_control::{Role, TrialOrder};
use regatta_model::Warning;
use regatta_transport::{
    MessageEndpoint, MonotonicTime, Purpose, Stop, TransportError,
    stream::{block_on_blocking, join_all_with_threads, join_with_threads, sleep_until_blocking},
};
use socket2::{Domain, Protocol, Socket, Type};

use crate::{
    Settings,
    batch::LONGEST_PAYLOAD,
    flow::{Connected, Flow, Tuning},
    framing::{self, Frame, Framing, Kind},
    socket::{address, fragmentation, headers, set_buffers, set_integer, wait_readable},
};

/// How often a listening end looks whether it is stopped.
const LOOK: Duration = Duration::from_millis(20);

/// How long a send call may block on a full buffer.
const SEND_TIME: Duration = Duration::from_millis(100);

/// One end of a trial over UDP.
pub(crate) struct Endpoint {
    role: Role,
    settings: Settings,
    local: IpAddr,
    peer: IpAddr,
    mtu: usize,
    listener: Option<(Socket, SocketAddr)>,
}

impl Endpoint {
    /// Makes an endpoint; at a receiver it listens when this returns.
    pub(crate) fn new(order: &TrialOrder, settings: Settings) -> Result<Self, TransportError> {
        let mut endpoint = Self {
            role: order.role,
            settings,
            local: order.local,
            peer: order.peer,
            mtu: order.path.mtu_bytes as usize,
            listener: None,
        };
        if !order.connects() {
            let (socket, _) = endpoint.socket(SocketAddr::new(order.local, 0))?;
            let address = address(&socket)?;
            endpoint.listener = Some((socket, address));
        }
        Ok(endpoint)
    }

    /// Bytes before each message in its datagram.
    const fn frame_header(&self) -> usize {
        if self.settings.framed {
            framing::HEADER_BYTES
        } else {
            0
        }
    }

    /// Largest datagram that fits one packet of the path, in bytes.
    fn packet_payload(&self) -> usize {
        self.mtu.saturating_sub(headers(self.local))
    }

    /// A bound socket with its buffers and offloads, and what was read back.
    fn socket(&self, local: SocketAddr) -> Result<(Socket, Tuning), TransportError> {
        let socket = Socket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP))
            .map_err(TransportError::io("cannot open a UDP socket"))?;
        // The sockets of the flows share the port that is listened on.
        socket
            .set_reuse_address(true)
            .map_err(TransportError::io("cannot set SO_REUSEADDR"))?;
        let (receive, send) = set_buffers(
            &socket,
            self.settings.receive_buffer,
            self.settings.send_buffer,
        )
        .map_err(TransportError::io("cannot set the socket's buffers"))?;
        // A blocked sender looks now and then whether it is stopped.
        socket
            .set_write_timeout(Some(SEND_TIME))
            .map_err(TransportError::io("cannot set SO_SNDTIMEO"))?;
        let mut tuning = Tuning {
            role: self.role,
            segment_limit: None,
            facts: BTreeMap::new(),
        };
        let mut fact = |name: &str, value: String| {
            tuning.facts.insert(name.to_owned(), value);
        };
        let on = |on: bool| if on { "on" } else { "off" }.to_owned();
        // Either end may send: answers, or all of it. Zero leaves the size to each call; a kernel
        // without it refuses the option.
        let gso =
            self.settings.gso && set_integer(&socket, libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok();
        let gro =
            self.settings.gso && set_integer(&socket, libc::SOL_UDP, libc::UDP_GRO, 1).is_ok();
        tuning.segment_limit = gso.then(|| self.packet_payload());
        match self.role {
            Role::Sender => {
                fact("gso.sender", on(gso));
                fact("send_buffer_bytes.sender", send.to_string());
            }
            Role::Receiver => {
                fact("gro.receiver", on(gro));
                fact("receive_buffer_bytes.receiver", receive.to_string());
            }
        }
        socket
            .bind(&local.into())
            .map_err(TransportError::io(format!(
                "cannot bind to `{}`",
                local.ip()
            )))?;
        Ok((socket, tuning))
    }

    fn flow(
        &self,
        local: SocketAddr,
        peer: SocketAddr,
        framing: Option<Framing>,
        stop: &Stop,
    ) -> Result<Flow, TransportError> {
        let (socket, tuning) = self.socket(local)?;
        socket
            .connect(&peer.into())
            .map_err(TransportError::io(format!(
                "cannot connect to `{}`",
                peer.ip()
            )))?;
        let connected = Connected::new(socket);
        stop.on_stop(&connected);
        Ok(Flow::new(connected, tuning, framing))
    }
}

impl MessageEndpoint for Endpoint {
    type Flow = Flow;

    fn listen_address(&self) -> Option<SocketAddr> {
        self.listener.as_ref().map(|(_, address)| *address)
    }

    fn longest_message(&self) -> usize {
        LONGEST_PAYLOAD - self.frame_header()
    }

    fn pace(&self) -> Option<u64> {
        self.settings.rate
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        block_on_blocking(future)
    }

    async fn connect(
        &self,
        peer: SocketAddr,
        purpose: Purpose,
        stop: &Stop,
    ) -> Result<Flow, TransportError> {
        let framed = self.settings.framed;
        let framing = framed.then(|| Framing::connecting(self.role, purpose));
        self.flow(SocketAddr::new(self.local, 0), peer, framing, stop)
    }

    async fn accept(
        &self,
        until: MonotonicTime,
        stop: &Stop,
        admit: &mut (impl FnMut(&[u8]) -> bool + Send),
    ) -> Result<Flow, TransportError> {
        let Some((listener, address)) = &self.listener else {
            return Err(TransportError::Protocol {
                what: "this end connects, and does not listen".to_owned(),
            });
        };
        let failed = || TransportError::io("cannot receive an opening");
        let begun = MonotonicTime::now();
        let mut place = [MaybeUninit::uninit(); 2048];
        loop {
            if stop.is_stopped() {
                return Err(TransportError::Cancelled);
            }
            let look = until.min(MonotonicTime::now() + LOOK);
            if !wait_readable(listener, look).map_err(failed())? {
                if until.has_passed() {
                    return Err(TransportError::TimedOut {
                        what: "opening of a flow".to_owned(),
                        seconds: MonotonicTime::now().since(begun).as_secs_f64(),
                    });
                }
                continue;
            }
            let received = listener.recv_from_with_flags(&mut place, libc::MSG_DONTWAIT);
            let (length, from) = match received {
                Ok((length, from)) => (length, from.as_socket()),
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                    ) =>
                {
                    continue;
                }
                Err(error) => return Err(failed()(error)),
            };
            let Some(from) = from.filter(|from| from.ip() == self.peer) else {
                continue;
            };
            // SAFETY: the kernel has written the first `length` bytes.
            let message: &[u8] =
                unsafe { std::slice::from_raw_parts(place.as_ptr().cast(), length) };
            let (message, framing) = if self.settings.framed {
                match Frame::decode(message) {
                    Some(conn) if conn.kind == Kind::Conn => {
                        let framing = Framing::accepting(self.role, conn);
                        (conn.message, Some(framing))
                    }
                    // Late, of a flow that has ended.
                    Some(_) => continue,
                    // Whoever it is counts it as refused.
                    None => ([].as_slice(), None),
                }
            } else {
                (message, None)
            };
            if admit(message) {
                return self.flow(*address, from, framing, stop);
            }
        }
    }

    async fn join<A, B, FA, FB>(&self, a: A, b: B) -> (FA::Output, FB::Output)
    where
        A: FnOnce() -> FA + Send,
        B: FnOnce() -> FB + Send,
        FA: Future<Output: Send>,
        FB: Future<Output: Send>,
    {
        join_with_threads(a, b)
    }

    async fn join_all<T, F>(&self, tasks: Vec<T>) -> Vec<F::Output>
    where
        T: FnOnce() -> F + Send,
        F: Future<Output: Send>,
    {
        join_all_with_threads(tasks)
    }

    async fn sleep_until(&self, moment: MonotonicTime) {
        sleep_until_blocking(moment);
    }

    fn warnings(&self, message_bytes: usize) -> Vec<Warning> {
        fragmentation(message_bytes, self.frame_header(), self.mtu, self.local)
            .into_iter()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regatta_transport::testing;

    fn endpoint(mtu: u32) -> Endpoint {
        let mut order = testing::order_for(Role::Sender, "udp", 1, 1);
        order.path.mtu_bytes = mtu;
        Endpoint::new(&order, Settings::new(&BTreeMap::new())).expect("an endpoint")
    }

    #[test]
    fn fragments_are_counted_as_ip_makes_them() {
        let endpoint = endpoint(1500);
        assert!(endpoint.warnings(1472).is_empty());
        // 1473 + 8 bytes in fragments of 1480; 10 000 + 8 of them in seven.
        for (message, fragments) in [(1473, 2), (10_000, 7), (65_507, 45)] {
            let warning = &endpoint.warnings(message)[0];
            assert!(
                warning
                    .message
                    .contains(&format!("{fragments} IP fragments")),
                "{}",
                warning.message
            );
        }
    }
}
