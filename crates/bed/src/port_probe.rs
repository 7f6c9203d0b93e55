//! Ports of one host that the other one reaches: finds the firewalls between them.
//!
//! One process on each host (`regatta port-probe`). One listens, on the ports that the hosts file gives it, the other
//! one connects and sends. They take requests and answer as JSON lines over standard input and output: with ports, or
//! with the error.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, BufRead, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::fd::OwnedFd,
    process::ExitCode,
    sync::{Arc, mpsc::Receiver},
    thread,
    time::Duration,
};

use parking_lot::Mutex;
use regatta_control::Host;
use regatta_model::PortRange;
use regatta_path_daemon::OTHER_ADDRESS;
use regatta_process::{JsonLines, exit_code, spawn_scoped, write_line};
use serde::{Deserialize, Serialize};
use socket2::{Domain, Socket, Type};

use crate::{
    bed::Bed,
    error::BedError,
    json_child::{ChildOutput, JsonChild},
    test_bed::TestBed as _,
};

/// Hidden subcommand of `regatta` that probes ports from a host.
pub const COMMAND: &str = "port-probe";

/// Longest message, in bytes; one with all ports that are tried has a kilobyte.
const LONGEST_LINE: u64 = 64 << 10;

/// Maximum number of ports of a range that are tried, spread evenly over it.
const MAX_PORTS: usize = 64;

/// Longest time in which a connection is made: the first packet of it is repeated once in that time.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(2500);

/// Number of datagrams sent to a port.
const DATAGRAMS: u32 = 4;

/// Maximum wait for the answer to a datagram.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(600);

/// Protocol whose ports are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Protocol {
    Tcp,
    Udp,
    /// Not tried where the kernel of a host lacks it.
    Sctp,
}

/// Ports by protocol.
type Ports = BTreeMap<Protocol, BTreeSet<u16>>;

/// Ports at which a datagram has arrived.
type Arrived = Arc<Mutex<BTreeSet<u16>>>;

/// Requests to the process; it answers each with [`Ports`] or an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Request {
    /// Listen; the answer is where.
    Listen {
        address: IpAddr,
        ports: Option<PortRange>,
    },
    /// Connect and send from this address; the answer is what answered.
    Reach {
        from: IpAddr,
        to: IpAddr,
        ports: Ports,
    },
    /// The answer is what has arrived at the ports since they listen; over TCP nothing is noted.
    Arrived,
}

/// Ports of a host that the other host was to reach, over one protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReachedPorts {
    /// Host that connects or sends first.
    pub from: Host,
    /// `TCP`, `UDP`, or `SCTP` where the kernels of both hosts have it.
    pub protocol: &'static str,
    /// Ports that were tried, without those that were in use.
    pub tried: BTreeSet<u16>,
    /// Ports to which nothing came, as far as the host can see.
    pub blocked: BTreeSet<u16>,
    /// Ports to which a datagram came, and from which the answer did not come back.
    pub unanswered: BTreeSet<u16>,
}

impl Bed {
    /// Tries which ports of each host the other one reaches over TCP, UDP and SCTP. Takes seconds where packets are dropped.
    ///
    /// # Errors
    /// If a process on a host cannot be started or breaks.
    pub fn probe_ports(&mut self) -> Result<Vec<ReachedPorts>, BedError> {
        let mut found = Vec::new();
        for from in Host::BOTH {
            let to = from.other();
            let mut server = Probe::start(self, to)?;
            let listening = server.request(&Request::Listen {
                address: self.address(to),
                ports: self.ports(to),
            })?;
            let reached = Probe::start(self, from)?.request(&Request::Reach {
                from: self.address(from),
                to: self.address(to),
                ports: listening.clone(),
            })?;
            let arrived = server.request(&Request::Arrived)?;
            for (protocol, tried) in listening {
                let Some(reached) = reached.get(&protocol) else {
                    continue;
                };
                let arrived = arrived.get(&protocol);
                let (unanswered, blocked) = (&tried - reached)
                    .into_iter()
                    .partition(|port| arrived.is_some_and(|arrived| arrived.contains(port)));
                found.push(ReachedPorts {
                    from,
                    protocol: protocol.name(),
                    tried,
                    blocked,
                    unanswered,
                });
            }
        }
        Ok(found)
    }
}

/// A process on a host; it ends when this is dropped.
struct Probe {
    child: JsonChild<Request, Result<Ports, String>>,
    answers: Receiver<ChildOutput<Result<Ports, String>>>,
}

impl Probe {
    fn start(bed: &mut Bed, host: Host) -> Result<Self, BedError> {
        let (child, answers) = JsonChild::launch(bed.launcher(host), COMMAND, LONGEST_LINE)?;
        Ok(Self { child, answers })
    }

    fn request(&mut self, request: &Request) -> Result<Ports, BedError> {
        let sent = self.child.send(request);
        let answer = sent.and_then(|()| match self.answers.recv() {
            Ok(ChildOutput::Message(answer)) => Ok(answer),
            Ok(ChildOutput::Malformed(line)) => Err(line.source.into()),
            Ok(ChildOutput::Ended(Err(error))) => Err(error),
            Ok(ChildOutput::Ended(Ok(()))) | Err(_) => Err(io::ErrorKind::UnexpectedEof.into()),
        });
        let answer = answer.map_err(|source| BedError::Host {
            host: format!("`{COMMAND}` on a host"),
            source,
        })?;
        answer.map_err(|reason| BedError::refused("try its ports", &*reason, OTHER_ADDRESS))
    }
}

/// Serves requests until the end of the input. The body of `regatta port-probe`.
#[must_use]
pub fn main() -> ExitCode {
    let served = serve(io::stdin().lock(), &mut io::stdout().lock());
    exit_code(served, &format!("`{COMMAND}`: "))
}

fn serve(input: impl BufRead, output: &mut impl Write) -> io::Result<()> {
    let mut requests = JsonLines::new(input, LONGEST_LINE);
    let arrived = Arrived::default();
    let mut listeners = Vec::new();
    while let Some(request) = requests.receive()? {
        let answer = match request.map_err(|line| line.source)? {
            Request::Listen { address, ports } => listen(address, ports, &arrived)
                .map(|(ports, listening)| {
                    listeners.extend(listening);
                    ports
                })
                .map_err(|error| format!("cannot listen at {address}: {error}")),
            Request::Reach { from, to, ports } => reach(from, to, &ports)
                .map_err(|error| format!("cannot start a thread for each port: {error}")),
            Request::Arrived => Ok(Ports::from([(Protocol::Udp, arrived.lock().clone())])),
        };
        write_line(output, &answer)?;
    }
    Ok(())
}

/// Returns ports of a range, spread evenly, with the lowest and the highest; 0 without a range.
fn sample(range: Option<PortRange>) -> Vec<u16> {
    let Some((first, last)) = range.map(PortRange::bounds) else {
        return vec![0];
    };
    let steps = usize::from(last - first).min(MAX_PORTS - 1);
    let at = |step: usize| usize::from(last - first) * step / steps.max(1);
    (0..=steps).map(|step| first + at(step) as u16).collect()
}

/// Listens on the ports that are free, over TCP, UDP and SCTP. Datagrams are noted in `arrived` and sent back.
fn listen(
    address: IpAddr,
    range: Option<PortRange>,
    arrived: &Arrived,
) -> io::Result<(Ports, Vec<OwnedFd>)> {
    let protocols = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp].into_iter();
    let protocols = protocols.filter(|protocol| protocol.is_here(address));
    let mut ports: Ports = protocols.map(|it| (it, BTreeSet::new())).collect();
    let mut listeners = Vec::new();
    for port in sample(range) {
        let to = SocketAddr::new(address, port);
        for (protocol, open) in &mut ports {
            match protocol.listen(to, arrived) {
                Ok((port, listener)) => {
                    open.insert(port);
                    listeners.extend(listener);
                }
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok((ports, listeners))
}

/// Protocol number of SCTP.
const SCTP: i32 = 132;

/// Returns a one-to-one socket of SCTP for addresses like this one; an error for a kernel without SCTP.
fn sctp_socket(address: IpAddr) -> io::Result<Socket> {
    let domain = Domain::for_address(SocketAddr::new(address, 0));
    Socket::new(domain, Type::STREAM, Some(SCTP.into()))
}

impl Protocol {
    fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        }
    }

    /// Whether this kernel has the protocol for addresses like this one.
    fn is_here(self, address: IpAddr) -> bool {
        self != Self::Sctp || sctp_socket(address).is_ok()
    }

    /// Listens; returns the port, and the socket unless a thread has it. Datagrams are noted in `arrived` and sent back.
    fn listen(self, at: SocketAddr, arrived: &Arrived) -> io::Result<(u16, Option<OwnedFd>)> {
        match self {
            Self::Tcp => {
                let listener = TcpListener::bind(at)?;
                Ok((listener.local_addr()?.port(), Some(listener.into())))
            }
            Self::Sctp => {
                let socket = sctp_socket(at.ip())?;
                socket.bind(&at.into())?;
                socket.listen(1)?;
                let bound = socket.local_addr()?.as_socket();
                Ok((bound.unwrap_or(at).port(), Some(socket.into())))
            }
            Self::Udp => {
                let socket = UdpSocket::bind(at)?;
                let port = socket.local_addr()?.port();
                let arrived = Arc::clone(arrived);
                // It ends with the process.
                thread::Builder::new().spawn(move || {
                    let mut datagram = [0; 16];
                    while let Ok((length, from)) = socket.recv_from(&mut datagram) {
                        arrived.lock().insert(port);
                        let _ = socket.send_to(&datagram[..length], from);
                    }
                })?;
                Ok((port, None))
            }
        }
    }

    /// Whether the other host answers.
    fn answers(self, from: IpAddr, to: SocketAddr) -> bool {
        match self {
            Self::Tcp => TcpStream::connect_timeout(&to, CONNECT_TIMEOUT).is_ok(),
            Self::Udp => answers_a_datagram(from, to).unwrap_or(false),
            Self::Sctp => sctp_socket(to.ip())
                .is_ok_and(|socket| socket.connect_timeout(&to.into(), CONNECT_TIMEOUT).is_ok()),
        }
    }
}

/// Returns the ports that answer.
fn reach(from: IpAddr, to: IpAddr, ports: &Ports) -> io::Result<Ports> {
    thread::scope(|scope| {
        let here = ports.iter().filter(|(protocol, _)| protocol.is_here(from));
        let trying = here.map(|(&protocol, ports)| {
            let try_one = |&port: &u16| {
                let to = SocketAddr::new(to, port);
                let thread = spawn_scoped(scope, move || protocol.answers(from, to))?;
                Ok((port, thread))
            };
            let threads = ports.iter().map(try_one).collect::<io::Result<Vec<_>>>()?;
            Ok((protocol, threads))
        });
        // All at the same time.
        let trying: Vec<_> = trying.collect::<io::Result<_>>()?;
        let answers = trying.into_iter().map(|(protocol, threads)| {
            let ports = threads.into_iter();
            let ports =
                ports.filter_map(|(port, thread)| thread.join().unwrap_or(false).then_some(port));
            (protocol, ports.collect())
        });
        Ok(answers.collect())
    })
}

fn answers_a_datagram(from: IpAddr, to: SocketAddr) -> io::Result<bool> {
    let socket = UdpSocket::bind((from, 0))?;
    socket.connect(to)?;
    socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let mut answer = [0; 16];
    for _ in 0..DATAGRAMS {
        // A firewall that rejects makes these fail, and the next attempt is as good.
        let _ = socket.send(b"regatta");
        if socket.recv(&mut answer).is_ok() {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn range(text: &str) -> Option<PortRange> {
        Some(text.parse().expect("a range"))
    }

    #[test]
    fn ports_are_spread_over_the_range() {
        assert_eq!(sample(None), [0]);
        assert_eq!(sample(range("7")), [7]);
        assert_eq!(sample(range("7-9")), [7, 8, 9]);
        let many = sample(range("1-65535"));
        assert_eq!(many.len(), MAX_PORTS);
        assert_eq!((many[0], many[MAX_PORTS - 1]), (1, 65535));
    }

    #[test]
    fn only_listening_ports_are_reached() {
        let local = IpAddr::V4(Ipv4Addr::new(127, 98, 0, 1));
        let taken = TcpListener::bind((local, 7301)).expect("a port");
        let arrived = Arc::new(Mutex::default());
        let (ports, listeners) = listen(local, range("7300-7302"), &arrived).expect("listening");
        let [all, free] = [vec![7300, 7301, 7302], vec![7300, 7302]].map(BTreeSet::from_iter);
        let found = [Protocol::Tcp, Protocol::Udp].map(|protocol| &ports[&protocol]);
        assert_eq!(found, [&free, &all]);
        let mut requested = ports.clone();
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            requested.entry(protocol).or_default().insert(7309);
        }
        assert_eq!(reach(local, local, &requested).unwrap(), ports);
        assert_eq!(*arrived.lock(), all);
        drop((taken, listeners));
    }
}
