//! Connection of a client to a server, and the session over it.

use std::{
    io::{self, Write},
    net::{SocketAddr, TcpStream, ToSocketAddrs, UdpSocket},
    os::unix::net::UnixStream,
    sync::{Arc, OnceLock},
    thread,
    time::{Duration, Instant},
};

use nix::libc::{IPPROTO_TCP, TCP_INFO, tcp_info};
use parking_lot::Mutex;
use regatta_bed::{StopRequest, session};
use regatta_model::{shell::printable, units::format_duration};
use regatta_transport::socket_option::{Plain as _, get_into};
use rustls::{ClientConnection, Connection, pki_types::ServerName};
use socket2::{Domain, Socket, Type};

use crate::{
    args::{ClientArgs, LocalAddress, MAX_CONNECT_TIMEOUT},
    exit::{Failure, OrFailure as _, Result},
    output,
    pinned_tls::{
        Hello, handshake,
        keys::client_config,
        relay, set_up,
        token::{Token, first_message},
    },
};

/// Silence of the server after which the client gives it up, long because control shares the path with a transfer that
/// may fill it; and maximum silence of the client, by which the server knows that the client is alive.
const SILENCE: [Duration; 2] = [Duration::from_secs(15), Duration::from_secs(2)];

/// Longest time between two lines of the server before the session.
const GREETING_TIMEOUT: Duration = Duration::from_secs(15);

/// Default of the longest time for the connection to the server, and of that for the TLS handshake over it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Hint for a token that is another server's.
const COPY_AGAIN: &str = "copy the line that the server printed last: its token changes when it is started again without `--key`";

/// Server and options of a connection.
pub struct Target<'a> {
    pub args: &'a ClientArgs,
    pub host: &'a str,
    pub port: u16,
    pub token: &'a Token,
}

impl Target<'_> {
    fn connect_timeout(&self) -> Duration {
        let within = self.args.connect_timeout;
        within.map_or(CONNECT_TIMEOUT, Duration::from_millis)
    }
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
    let mut tls = shake_hands(&tcp, target)?;
    let (local_end, relay_end) = UnixStream::pair().map_err(failed)?;
    let ending = Arc::<Mutex<Option<String>>>::default();
    let relay_ending = Arc::clone(&ending);
    thread::Builder::new()
        .name("tls".into())
        .spawn(move || {
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
        let bind = target.args.bind.as_ref();
        !is_excluded && bind.is_none_or(|bind| bind.ip().is_ipv4() == it.is_ipv4())
    };
    check_bind(target.args.bind.as_ref())?;
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
fn check_bind(bind: Option<&LocalAddress>) -> Result<()> {
    let Some(bind) = bind else { return Ok(()) };
    let Err(error) = UdpSocket::bind(bind.with_port(0)) else {
        return Ok(());
    };
    Err(Failure::bad(error)
        .context(format!("cannot connect from `{bind}`"))
        .hint("give `-B` an address of this machine: `ip address` lists them"))
}

fn connect_to(address: SocketAddr, target: &Target<'_>) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if let Some(bind) = &target.args.bind {
        socket.bind(&bind.with_port(0).into())?;
    }
    socket.connect_timeout(&address.into(), target.connect_timeout())?;
    set_up(&socket, SILENCE[0])?;
    Ok(socket.into())
}

fn shake_hands(mut tcp: &TcpStream, target: &Target<'_>) -> Result<Connection> {
    let Target { token, host, .. } = target;
    let name = ServerName::try_from("server.regatta.invalid")?;
    let tls = ClientConnection::new(Arc::new(client_config(token)?), name)?;
    let mut tls = Connection::Client(tls);
    let within = target.connect_timeout();
    let written = tcp.write_all(&first_message(&token.secret, rand::random()));
    written
        .and_then(|()| handshake(&mut tls, tcp, Instant::now() + within))
        .map_err(|error| not_shaken(error, host, sent_again(tcp), within))?;
    Ok(tls)
}

/// Returns the number of packets of a connection that were sent again, as far as the system can tell.
fn sent_again(tcp: &TcpStream) -> u32 {
    let mut info = tcp_info::zeroed();
    // A kernel that fills less leaves the rest zero.
    let _ = get_into(tcp, IPPROTO_TCP, TCP_INFO, &mut info);
    info.tcpi_total_retrans
}

/// Returns the failure of a handshake with a host. A server closes the connection of a client whose token it does not know
/// without an answer, and so does a path or a server that fails, which packets that were sent again or the time tell.
fn not_shaken(error: io::Error, host: &str, sent_again: u32, within: Duration) -> Failure {
    let kind = error.kind();
    let failure = Failure::failed(error);
    match kind {
        io::ErrorKind::InvalidData => failure
            .context(format!("`{host}` has another key than the server of the token"))
            .hint(COPY_AGAIN),
        io::ErrorKind::TimedOut => failure
            .context(format!(
                "`{host}` took the connection and did not answer within {}",
                format_duration(within)
            ))
            .hint(format!(
                "a path that loses packets needs longer: give `--connect-timeout {}`; else see whether the server hangs",
                (3 * within).min(MAX_CONNECT_TIMEOUT).as_millis()
            )),
        _ if sent_again > 0 => failure
            .context(format!(
                "`{host}` closed the connection during the handshake, in which packets were lost ({sent_again} were sent again)"
            ))
            .hint("try again: neither end says anything about the token"),
        _ => failure
            .context(format!("`{host}` does not accept the token"))
            .hint(COPY_AGAIN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_undisturbed_end_of_the_handshake_is_about_the_token() {
        let failure = |kind: io::ErrorKind, sent_again| {
            let within = Duration::from_secs(10);
            not_shaken(kind.into(), "lab", sent_again, within).message_and_hint()
        };
        let (message, hint) = failure(io::ErrorKind::UnexpectedEof, 0);
        assert!(
            message.starts_with("`lab` does not accept the token"),
            "{message}"
        );
        assert!(hint.starts_with("copy the line"), "{hint}");
        let (message, hint) = failure(io::ErrorKind::ConnectionReset, 2);
        assert!(
            message.contains("packets were lost (2 were sent again)"),
            "{message}"
        );
        assert!(hint.starts_with("try again"), "{hint}");
        let (message, hint) = failure(io::ErrorKind::TimedOut, 0);
        assert!(message.contains("did not answer within 10 s"), "{message}");
        assert!(hint.contains("`--connect-timeout 30000`"), "{hint}");
        let (message, _) = failure(io::ErrorKind::InvalidData, 0);
        assert!(message.contains("has another key"), "{message}");
    }

    #[test]
    fn an_address_of_another_machine_is_no_place_to_connect_from() {
        assert!(check_bind(None).is_ok());
        let address = |text: &str| text.parse::<LocalAddress>().expect("an address");
        assert!(check_bind(Some(&address("127.0.0.1"))).is_ok());
        // Of a network for documentation (RFC 5737), which no machine has.
        let Err(failure) = check_bind(Some(&address("192.0.2.77"))) else {
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
