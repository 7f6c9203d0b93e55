//! `regatta server`: clients measure against this machine, one after another unless more are allowed at once.

mod admission;
mod client_session;
mod handshakes;
mod keys_file;
mod queue;

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket},
    path::Path,
    sync::Arc,
    thread,
};

use nix::sys::resource::{Resource, getrlimit};
use parking_lot::Mutex;
use regatta_model::{PortRange, shell::printable};
use rustls::ServerConfig;
use serde::Serialize;
use socket2::{Domain, Socket, Type};

use self::{
    admission::{Admission, MAX_PENDING},
    client_session::Client,
    handshakes::{Handshakes, MAX_HANDSHAKES},
    queue::Queue,
};
use super::client::events::ClientEvent;
use crate::{
    args::{LocalAddress, ServerArgs},
    exit::{Code, OrFailure as _, Result, own_executable},
    hosts::address::of_interfaces,
    output::{self, line_output::LineOutput},
};

/// Command of the agent of a client.
pub const AGENT_COMMAND: &str = "served-agent";

/// Ports on which trials listen, unless others are given.
const DATA_PORTS: u16 = 16;

/// Connections that the system keeps until they are accepted.
const BACKLOG: i32 = 128;

/// State that the threads of all clients share.
pub struct Server<'a> {
    args: &'a ServerArgs,
    tls: Arc<ServerConfig>,
    handshakes: Handshakes,
    queue: Queue,
    data_ports: PortRange,
    executable: &'static Path,
    events: EventOutput,
}

/// Output of the events of clients.
#[derive(Clone)]
struct EventOutput {
    output: Arc<Mutex<LineOutput>>,
    json: bool,
}

/// Event of a client with its number.
#[derive(Serialize)]
struct Numbered<'a> {
    client: u64,
    #[serde(flatten)]
    event: &'a ClientEvent,
}

impl EventOutput {
    fn write(&self, client: u64, event: &ClientEvent) {
        // A full disk does not end the service.
        let _ = if self.json {
            self.output.lock().json(&Numbered { client, event })
        } else {
            let text = event.text(false, None);
            let lines = text.lines().map(|line| format!("[{client}] {line}\n"));
            self.output.lock().text(&lines.collect::<String>())
        };
    }
}

impl Server<'_> {
    /// Returns the most bytes that one client may send and receive.
    fn max_bytes(&self) -> Option<u64> {
        self.args.max_bytes.map(|bytes| bytes.0)
    }

    /// Writes a line about a client; with JSON on standard error.
    fn note(&self, client: u64, text: &str) {
        let line = format!("[{client}] {}\n", printable(text));
        if self.events.json {
            output::err(line.trim_end());
            return;
        }
        let _ = self.events.output.lock().text(&line);
    }
}

/// Runs `regatta server` until it is ended by a signal.
///
/// # Errors
/// Mistakes in the options, a port that is in use.
pub fn server(args: &ServerArgs) -> Result<Code> {
    let keys = match &args.key {
        Some(path) => keys_file::read_or_make(path)?,
        None => keys_file::generate(),
    };
    const TLS: &str = "cannot set up TLS";
    let token = keys.token().context(TLS)?;
    let listeners = listen(args)?;
    let files = getrlimit(Resource::RLIMIT_NOFILE).map_or(usize::MAX, |(files, _)| files as usize);
    let server = Server {
        args,
        tls: Arc::new(keys.config().context(TLS)?),
        handshakes: Handshakes::new(MAX_HANDSHAKES.min(files / 8)),
        queue: Queue::new(args.parallel, args.max_clients),
        data_ports: data_ports(args),
        executable: own_executable(),
        events: EventOutput {
            output: Arc::new(Mutex::new(LineOutput::open(args.logfile.as_deref(), None)?)),
            json: args.json,
        },
    };
    let names = match &args.name {
        Some(name) => vec![name.clone()],
        None => names_of_this_machine(args),
    };
    let listening = format!(
        "listening on TCP port {}; trials use the ports {} of TCP, UDP and SCTP\n",
        args.port, server.data_ports
    );
    if args.logfile.is_some() && !args.json {
        server.events.output.lock().text(&listening)?;
    }
    // The file can be for others, too, and the token is a secret.
    let (port, token) = (args.port, token.encode());
    let lines = names.iter();
    let lines: String = lines
        .map(|name| format!("regatta client '{name}:{port}#{token}'\n"))
        .collect();
    output::out(&format!("{listening}{lines}"))?;
    // Strangers have a part of the files alone.
    let max_pending = MAX_PENDING.min(files / 4).max(1);
    serve(
        &server,
        Admission::new(&listeners, keys.secret, max_pending),
    )
}

fn serve(server: &Server<'_>, mut admission: Admission<'_>) -> Result<Code> {
    thread::scope(|scope| {
        let mut number = 0;
        loop {
            let admitted = admission.next()?;
            for (stream, address) in admitted {
                number += 1;
                let client = Client {
                    stream: Arc::new(stream),
                    address,
                    number,
                };
                if server.args.one_off {
                    client.run(server);
                    return Ok(Code::Measured);
                }
                let thread = thread::Builder::new().name(format!("client {number}"));
                // Without a thread the connection is closed.
                if let Err(error) = thread.spawn_scoped(scope, move || client.run(server)) {
                    server.note(number, &format!("{address} cannot be served: {error}"));
                }
            }
        }
    })
}

fn data_ports(args: &ServerArgs) -> PortRange {
    let last = args.port.saturating_add(DATA_PORTS - 1);
    let range = format!("{}-{last}", args.port).parse();
    args.data_ports.or(range.ok()).expect("a port is not 0")
}

/// Opens the listening sockets.
fn listen(args: &ServerArgs) -> Result<Vec<TcpListener>> {
    let one = |address: &LocalAddress, both: bool| {
        let address = address.with_port(args.port);
        listen_on(address, both)
            .bad()
            .context(format!("cannot listen on `{address}`"))
            .hint("choose another port with `-p`, or an address of this machine with `-B`")
    };
    if !args.bind.is_empty() {
        let addresses = args.bind.iter();
        return addresses.map(|address| one(address, false)).collect();
    }
    let v4 = IpAddr::from(Ipv4Addr::UNSPECIFIED).into();
    let v6 = IpAddr::from(Ipv6Addr::UNSPECIFIED).into();
    let listener = match (args.ipv4, args.ipv6) {
        (true, _) => one(&v4, false),
        (_, true) => one(&v6, false),
        // A kernel without IPv6 has IPv4.
        _ => one(&v6, true).or_else(|_| one(&v4, false)),
    };
    Ok(vec![listener?])
}

fn listen_on(address: SocketAddr, both: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(!both)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Returns addresses by which others may reach this machine: the one that was given, or that of its default route, or
/// without one all that it has.
fn names_of_this_machine(args: &ServerArgs) -> Vec<String> {
    let written = |address: &LocalAddress| match address.ip() {
        IpAddr::V4(_) => address.to_string(),
        IpAddr::V6(_) => format!("[{address}]"),
    };
    let given = args.bind.first();
    if let Some(address) = given.filter(|it| !it.ip().is_unspecified()) {
        return vec![written(address)];
    }
    let has_v4 = !args.ipv6 && given.is_none_or(|it| it.ip().is_ipv4());
    let has_v6 = !args.ipv4 && given.is_none_or(|it| it.ip().is_ipv6());
    // Nothing is sent: the kernel selects the address that it would use. These networks are for documentation.
    let towards = |from: IpAddr, to: &str| -> Option<IpAddr> {
        let socket = UdpSocket::bind((from, 0)).ok()?;
        socket.connect(to).ok()?;
        socket.local_addr().ok().map(|address| address.ip())
    };
    let v4 = || towards(Ipv4Addr::UNSPECIFIED.into(), "192.0.2.1:9");
    let v6 = || towards(Ipv6Addr::UNSPECIFIED.into(), "[2001:db8::1]:9");
    let v4 = has_v4.then(v4).flatten();
    let routed = v4.or_else(|| has_v6.then(v6).flatten());
    let mut all: Vec<IpAddr> = match routed {
        Some(address) => vec![address],
        None => of_interfaces().into_iter().map(|(_, it)| it).collect(),
    };
    all.retain(|it| !it.is_loopback() && if it.is_ipv4() { has_v4 } else { has_v6 });
    all.sort_by_key(IpAddr::is_ipv6);
    if all.is_empty() {
        // Nobody else can reach it.
        all.push(match has_v4 {
            true => Ipv4Addr::LOCALHOST.into(),
            false => Ipv6Addr::LOCALHOST.into(),
        });
    }
    all.into_iter().map(|it| written(&it.into())).collect()
}
