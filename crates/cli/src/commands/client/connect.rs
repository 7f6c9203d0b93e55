//! Connection of a client to a server, and the session over it.

use std::{
    io::{self, Write},
    net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket},
    os::unix::net::UnixStream,
    sync::{Arc, OnceLock},
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use regatta_bed::{StopRequest, session};
use regatta_model::{shell::printable, units::format_duration};
use rustls::{ClientConnection, Connection, pki_types::ServerName};
use socket2::{Domain, Socket, Type};

use crate::{
    args::ClientArgs,
    exit::{Failure, OrFailure as _, Result},
    output,
    pinned_tls::{
        Hello,
        keys::client_config,
        relay, set_up,
        token::{Token, first_message},
    },
};

/// Longest silence of the server before it is given up, since control shares the path with a transfer that may fill it;
/// and that of this side, by which the server knows that it is there.
const SILENCE: [Duration; 2] = [Duration::from_secs(15), Duration::from_secs(2)];

/// Longest time between two lines of the server before the session.
const GREETING_TIMEOUT: Duration = Duration::from_secs(15);

/// Default of the longest time for the connection to the server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest time for the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Server and options of a connection.
pub struct Target<'a> {
    pub args: &'a ClientArgs,
    pub host: &'a str,
    pub port: u16,
    pub token: &'a Token,
}

/// Session with a server.
pub struct Opened {
    pub session: session::Session,
    /// Addresses of this machine and of the server in the connection.
    pub addresses: [SocketAddr; 2],
}

/// Connects to a server and waits for its turn; `allowed` judges the server's limits before.
///
/// # Errors
/// A server that cannot be reached, does not know the token, or refuses.
pub fn open(
    target: &Target<'_>,
    stop: &StopRequest,
    allowed: &mut dyn FnMut(&Hello) -> Result<()>,
) -> Result<Opened> {
    let failed = |error: io::Error| {
        Failure::failed(error).context(format!("cannot reach `{}`", target.host))
    };
    let (tcp, addresses) = connect(target)?;
    let tls = shake_hands(&tcp, target.token).context(format!("`{}` does not accept the token", target.host))
            .hint("copy the line that the server printed last: its token changes when it is started again without `--key`")?;
    let (local_end, relay_end) = UnixStream::pair().map_err(failed)?;
    let ending = Arc::<Mutex<Option<String>>>::default();
    let relay_ending = Arc::clone(&ending);
    thread::Builder::new()
        .name("tls".into())
        .spawn(move || {
            let mut tls = Connection::Client(tls);
            let carried = relay(&mut tls, &tcp, &relay_end, &OnceLock::new());
            let reason = carried.err().map(|error| error.to_string());
            *relay_ending.lock() = reason;
        })
        .map_err(failed)?;
    let started_at = Instant::now();
    let limit = Arc::<OnceLock<Duration>>::default();
    let server_limit = Arc::clone(&limit);
    let mut refusal = None;
    let session = session::open_over(
        local_end,
        (GREETING_TIMEOUT, SILENCE),
        &mut |line| {
            if stop.is_requested() {
                return Err("stopped".into());
            }
            let hello = serde_json::from_str(line)?;
            match &hello {
                Hello::Limits { max_time_ns, .. } => {
                    let _ = limit.set(Duration::from_nanos(*max_time_ns));
                }
                Hello::Waiting { ahead } => output::err(&format!(
                    "waiting for {} before this one",
                    output::counted(*ahead, "client")
                )),
                Hello::Refused { reason } => return Err(printable(reason).into()),
            }
            allowed(&hello).map_err(|failure| {
                refusal = Some(failure);
                "it allows less than is asked for".into()
            })
        },
        move |error| {
            let limit = server_limit.get().copied();
            explain(
                error,
                &ending,
                limit.filter(|it| started_at.elapsed() >= *it),
            )
        },
    );
    match (session, refusal) {
        (Ok(session), _) => Ok(Opened { session, addresses }),
        (Err(_), Some(refusal)) => Err(refusal),
        (Err(error), None) => {
            Err(Failure::failed(error).context(format!("`{}` serves no session", target.host)))
        }
    }
}

/// Returns the reason for the end of a session.
fn explain(error: &io::Error, ending: &Mutex<Option<String>>, limit: Option<Duration>) -> String {
    let reason = ending.lock().take();
    match (limit, reason) {
        (Some(limit), _) => format!(
            "the server ends a client after {} (its `--max-time`)",
            format_duration(limit)
        ),
        (None, Some(reason)) => format!("the connection to the server broke: {reason}"),
        (None, None) if error.kind() == io::ErrorKind::UnexpectedEof => {
            "the server closed the connection".to_owned()
        }
        (None, None) => error.to_string(),
    }
}

fn connect(target: &Target<'_>) -> Result<(TcpStream, [SocketAddr; 2])> {
    let named = (target.host, target.port);
    let found = named
        .to_socket_addrs()
        .context(format!("cannot find `{}`", target.host))
        .hint(
            "check the name, or write the address of the server instead, as in `192.0.2.1:5201#…`",
        )?;
    let found: Vec<SocketAddr> = found.collect();
    let is_of_kind = |it: &&SocketAddr| {
        let is_excluded = match it.is_ipv4() {
            true => target.args.ipv6,
            false => target.args.ipv4,
        };
        let bind = target.args.bind;
        !is_excluded && bind.is_none_or(|bind| bind.is_ipv4() == it.is_ipv4())
    };
    check_bind(target.args.bind)?;
    let candidates: Vec<&SocketAddr> = found.iter().filter(is_of_kind).collect();
    if candidates.is_empty() {
        let addresses: Vec<String> = found.iter().map(|it| it.ip().to_string()).collect();
        return Err(Failure::input(
            format!(
                "`{}` has no address of the family that is asked for",
                target.host
            ),
            format!(
                "it has {}: leave out `-4` or `-6`, or give `-B` an address of the same family",
                addresses.join(", ")
            ),
        ));
    }
    let mut last = io::Error::other("it has no address");
    for address in candidates {
        match connect_to(*address, target) {
            Ok(stream) => {
                let local = stream.local_addr()?;
                return Ok((stream, [local, *address]));
            }
            Err(error) => last = error,
        }
    }
    Err(Failure::failed(last)
        .context(format!("cannot reach `{}`, TCP port {}", target.host, target.port))
        .hint("is `regatta server` running there, and does a firewall let TCP and UDP in to its ports?"))
}

/// Checks that this machine has the address from which to connect.
fn check_bind(bind: Option<IpAddr>) -> Result<()> {
    let Some(bind) = bind else { return Ok(()) };
    let Err(error) = UdpSocket::bind(SocketAddr::new(bind, 0)) else {
        return Ok(());
    };
    Err(Failure::bad(error)
        .context(format!("cannot connect from `{bind}`"))
        .hint("give `-B` an address of this machine: `ip address` lists them"))
}

fn connect_to(address: SocketAddr, target: &Target<'_>) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if let Some(bind) = target.args.bind {
        socket.bind(&SocketAddr::new(bind, 0).into())?;
    }
    let within = target.args.connect_timeout;
    let within = within.map_or(CONNECT_TIMEOUT, Duration::from_millis);
    socket.connect_timeout(&address.into(), within)?;
    set_up(&socket, SILENCE[0])?;
    Ok(socket.into())
}

fn shake_hands(tcp: &TcpStream, token: &Token) -> Result<ClientConnection> {
    tcp.set_read_timeout(Some(HANDSHAKE_TIMEOUT))?;
    (&mut &*tcp).write_all(&first_message(&token.secret, rand::random()))?;
    let name = ServerName::try_from("server.regatta.invalid")?;
    let mut tls = ClientConnection::new(Arc::new(client_config(token)?), name)?;
    while tls.is_handshaking() {
        tls.complete_io(&mut &*tcp)?;
    }
    Ok(tls)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_another_machine_is_no_place_to_connect_from() {
        assert!(check_bind(None).is_ok());
        assert!(check_bind(Some([127, 0, 0, 1].into())).is_ok());
        // Of a network for documentation (RFC 5737), which no machine has.
        let Err(failure) = check_bind(Some([192, 0, 2, 77].into())) else {
            panic!("it is not here");
        };
        let (message, hint) = failure.message_and_hint();
        assert!(
            message.starts_with("cannot connect from `192.0.2.77`"),
            "{message}"
        );
        assert!(hint.contains("`-B`"), "{hint}");
    }
}
