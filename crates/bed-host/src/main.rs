//! Host program of the bed's own tests and benchmarks, in the place of `regatta`.
//!
//! `path-daemon` is the daemon. `agent` serves one line at a time on its standard input and answers
//! each with one line, `error …` when it could not:
//! - `listen` → `listening PORT`, and after the connection's end `received BYTES NANOSECONDS`, from
//!   the first byte to the last; `listen SECONDS` leaves out what arrived within SECONDS of the
//!   first byte
//! - `send ADDRESS SECONDS CONGESTION_CONTROL` → `sent BYTES CONGESTION_CONTROL`, as read back
//! - `listen-flows FROM TO CONGESTION_CONTROL…` → `listening PORT…`, and after the end of all connections `received BYTES…`
//!   from FROM to TO seconds after the first byte
//! - `send-flows ADDRESS FROM SECONDS APART_MS PORT:CONGESTION_CONTROL…` → `sent RTT_NS…`, the mean smoothed round-trip times
//!   from FROM seconds on
//! - `echo` → `listening PORT`; sends UDP datagrams back until it is killed
//! - `ping ADDRESS COUNT BYTES INTERVAL_NS` → the round-trip delays of the datagrams that came
//!   back, in nanoseconds; without an interval the kernel gets all of them at once, as segments
//! - `collect` → `listening PORT`, and half a second after the last UDP datagram `collected` and
//!   for each of them NUMBER:DELAY_NS:ARRIVAL_NS
//! - `flow ADDRESS COUNT BYTES INTERVAL_NS` → `sent COUNT`, datagrams to be collected
//!
//! `check` makes a bed, prints its description, measures its path and sends through it, and prints
//! a line for each or the error's causes and hint. Words after it ask for a path of netem: `netem`,
//! `ends`, `iptables`. `hold` makes a bed with two agents, prints their process identifiers and
//! keeps it until it is killed. `emulators` compares both emulators with each other and with theory
//! in a guest: see [`emulators`]. `lateness [SECONDS]` prints the lateness of packets of the
//! user-space emulator, with and without each setting with which its thread wakes on time.

mod bulk;
mod controller;
mod emulators;

use std::{
    ffi::OsString,
    io::{self, BufRead, IoSliceMut, Read, Write},
    net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket},
    os::fd::AsRawFd,
    process::ExitCode,
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use regatta_bed::{guest, program, session};
use regatta_path_daemon as path_daemon;

use nix::sys::{
    socket::{ControlMessageOwned, MsgFlags, SockaddrIn, getsockopt, recvmsg, setsockopt, sockopt},
    time::TimeSpec,
};

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some(path_daemon::COMMAND) => path_daemon::main(),
        Some("agent") => agent(),
        Some(session::SERVER_COMMAND) => session::server_main(std::env::args().skip(2)),
        Some(session::GUARD_COMMAND) => session::guard_main(std::env::args().skip(2)),
        Some(path_daemon::INTERFACE_GUARD_COMMAND) => path_daemon::interface_guard_main(),
        Some("check") => controller::check(),
        Some("hold") => controller::hold(),
        Some("emulators") => emulators::main(),
        Some("lateness") => emulators::lateness(),
        Some(guest::DAEMON_COMMAND) => guest::daemon_main(),
        Some(guest::INIT_COMMAND) => guest::init_main(),
        Some(program::SUPERVISOR_COMMAND) => program::main(),
        _ => ExitCode::FAILURE,
    }
}

fn agent() -> ExitCode {
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let fields: Vec<_> = line.split_whitespace().collect();
        let answer = match fields[..] {
            ["listen"] => listen("0"),
            ["listen", skip] => listen(skip),
            ["send", peer, seconds, congestion] => send(peer, seconds, congestion),
            ["listen-flows", from, to, ref controls @ ..] => bulk::listen(from, to, controls),
            ["send-flows", peer, from, lasts, apart, ref flows @ ..] => {
                bulk::send(peer, [from, lasts, apart], flows)
            }
            ["echo"] => echo(),
            ["ping", peer, count, bytes, interval] => ping(peer, count, bytes, interval),
            ["collect"] => collect(),
            ["read", file] => std::fs::read_to_string(file).map(|text| text.trim_end().to_owned()),
            ["flow", peer, count, bytes, interval] => flow(peer, count, bytes, interval),
            _ => Err(io::Error::other(format!("unknown request `{line}`"))),
        };
        print_line(&answer.unwrap_or_else(|error| format!("error {error}")));
    }
    ExitCode::SUCCESS
}

fn print_line(line: &str) {
    // Whoever does not listen any more does not miss it.
    let _ = writeln!(io::stdout(), "{line}");
}

fn number<T: FromStr<Err: std::fmt::Display>>(text: &str) -> io::Result<T> {
    text.parse()
        .map_err(|error| io::Error::other(format!("`{text}`: {error}")))
}

fn listen(skip: &str) -> io::Result<String> {
    let skip = Duration::from_secs_f64(number(skip)?);
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    print_line(&format!("listening {}", listener.local_addr()?.port()));
    let (mut flow, _) = listener.accept()?;
    let mut buffer = vec![0; 1 << 18];
    let mut total = 0u64;
    let mut began = None;
    let mut span = None;
    loop {
        let read = flow.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        let now = Instant::now();
        if now - *began.get_or_insert(now) < skip {
            continue;
        }
        total += read as u64;
        span = Some((span.map_or(now, |(first, _)| first), now));
    }
    let elapsed = span.map_or(Duration::ZERO, |(first, last)| last - first);
    Ok(format!("received {total} {}", elapsed.as_nanos()))
}

fn send(peer: &str, seconds: &str, congestion: &str) -> io::Result<String> {
    let peer: SocketAddr = number(peer)?;
    let duration = Duration::from_secs_f64(number(seconds)?);
    // The congestion control has to be set before the first packet of data, not before SYN.
    let mut flow = TcpStream::connect(peer)?;
    setsockopt(&flow, sockopt::TcpCongestion, &OsString::from(congestion))?;
    let used = getsockopt(&flow, sockopt::TcpCongestion)?;
    let used = used.to_string_lossy().trim_end_matches('\0').to_owned();
    let buffer = vec![b'D'; 1 << 18];
    let started = Instant::now();
    let mut total = 0u64;
    while started.elapsed() < duration {
        total += flow.write(&buffer)? as u64;
    }
    Ok(format!("sent {total} {used}"))
}

/// Time without a datagram after which no more is expected.
const QUIET: Duration = Duration::from_millis(500);

/// Opens a socket whose buffer holds the datagrams that arrive while its reader is kept waiting.
fn datagrams() -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let bytes = 16 << 20;
    if setsockopt(&socket, sockopt::RcvBufForce, &bytes).is_err() {
        setsockopt(&socket, sockopt::RcvBuf, &bytes)?;
    }
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
    Ok(socket)
}

/// Returns the time of the wall clock, in nanoseconds: the clock of the kernel's receive time
/// stamps.
fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as u64)
}

/// Receives the next datagram: its length, its sender, and its arrival time at this host.
fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr, u64)> {
    let mut control = nix::cmsg_space!(TimeSpec);
    let mut slices = [IoSliceMut::new(buffer)];
    let message = recvmsg::<SockaddrIn>(
        socket.as_raw_fd(),
        &mut slices,
        Some(&mut control),
        MsgFlags::empty(),
    )?;
    let from = message.address.ok_or(io::ErrorKind::AddrNotAvailable)?;
    let stamp = message.cmsgs()?.find_map(|message| match message {
        ControlMessageOwned::ScmTimestampns(stamp) => Some(Duration::from(stamp)),
        _ => None,
    });
    let stamp = stamp.ok_or_else(|| io::Error::other("no time stamp"))?;
    let from = SocketAddrV4::from(from).into();
    Ok((message.bytes, from, stamp.as_nanos() as u64))
}

/// Reads a field of a datagram: departure at the pinging host, its arrival here, its departure
/// here.
fn field(datagram: &[u8], index: usize) -> u64 {
    let bytes = datagram.get(8 * index..).and_then(<[u8]>::first_chunk);
    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn set_field(datagram: &mut [u8], index: usize, value: u64) {
    if let Some(bytes) = datagram.get_mut(8 * index..8 * index + 8) {
        bytes.copy_from_slice(&value.to_le_bytes());
    }
}

fn echo() -> io::Result<String> {
    let socket = datagrams()?;
    print_line(&format!("listening {}", socket.local_addr()?.port()));
    let mut buffer = [0; 65536];
    loop {
        let (length, from, arrived) = receive(&socket, &mut buffer)?;
        set_field(&mut buffer[..length], 1, arrived);
        set_field(&mut buffer[..length], 2, now());
        socket.send_to(&buffer[..length], from)?;
    }
}

/// Sends datagrams and takes the answers on a second thread, so that neither waits for the other.
/// The delays are the path's: from a call to send to the kernel's receive time stamp, both ways.
fn ping(peer: &str, count: &str, bytes: &str, interval: &str) -> io::Result<String> {
    let peer: SocketAddr = number(peer)?;
    let count: u32 = number(count)?;
    let bytes: usize = number::<usize>(bytes)?.max(24);
    let interval = Duration::from_nanos(number(interval)?);
    let socket = datagrams()?;
    socket.connect(peer)?;
    socket.set_read_timeout(Some(QUIET))?;
    let receiving = socket.try_clone()?;
    let all_sent = Arc::new(AtomicBool::new(false));
    let no_more = Arc::clone(&all_sent);
    let receiver = thread::spawn(move || {
        let mut answers = Vec::new();
        let mut buffer = [0; 65536];
        loop {
            let Ok((length, _, arrived)) = receive(&receiving, &mut buffer) else {
                // Before the last one is sent, the sender may have been kept waiting.
                if no_more.load(Ordering::Relaxed) {
                    break;
                }
                continue;
            };
            let [departed, there, back] = [0, 1, 2].map(|index| field(&buffer[..length], index));
            let delay = there.saturating_sub(departed) + arrived.saturating_sub(back);
            answers.push(format!("{departed}:{delay}"));
        }
        answers
    });
    if interval.is_zero() {
        setsockopt(&socket, sockopt::UdpGsoSegment, &(bytes as i32))?;
        let mut datagrams = vec![0; bytes * count as usize];
        let departed = now();
        (datagrams.chunks_mut(bytes)).for_each(|datagram| set_field(datagram, 0, departed));
        socket.send(&datagrams)?;
    } else {
        let mut datagram = vec![0; bytes];
        at_intervals(count, interval, |_| {
            set_field(&mut datagram, 0, now());
            socket.send(&datagram)
        })?;
    }
    all_sent.store(true, Ordering::Relaxed);
    let answers = receiver
        .join()
        .map_err(|_| io::Error::other("the receiving thread panicked"))?;
    Ok(answers.join(" "))
}

fn at_intervals(
    count: u32,
    interval: Duration,
    mut send: impl FnMut(u32) -> io::Result<usize>,
) -> io::Result<()> {
    // SAFETY: takes numbers only. The default slack of 50 µs is half of a packet's interval here.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1u64) };
    let mut next = Instant::now();
    for number in 0..count {
        thread::sleep(next.saturating_duration_since(Instant::now()));
        // After a pause of this process nothing is caught up: a burst would wait in the path's
        // queue, as it should, and that is no error of its delay.
        next = Instant::now() + interval;
        send(number)?;
    }
    Ok(())
}

fn flow(peer: &str, count: &str, bytes: &str, interval: &str) -> io::Result<String> {
    let peer: SocketAddr = number(peer)?;
    let count: u32 = number(count)?;
    let interval = Duration::from_nanos(number(interval)?);
    let socket = datagrams()?;
    socket.connect(peer)?;
    let mut datagram = vec![0; number::<usize>(bytes)?.max(16)];
    at_intervals(count, interval, |number| {
        set_field(&mut datagram, 1, number.into());
        set_field(&mut datagram, 0, now());
        socket.send(&datagram)
    })?;
    Ok(format!("sent {count}"))
}

fn collect() -> io::Result<String> {
    let socket = datagrams()?;
    print_line(&format!("listening {}", socket.local_addr()?.port()));
    let mut collected = "collected".to_owned();
    let mut buffer = [0; 65536];
    // The first may take as long as it will.
    while let Ok((length, _, arrived)) = receive(&socket, &mut buffer) {
        socket.set_read_timeout(Some(QUIET))?;
        let [departed, number] = [0, 1].map(|index| field(&buffer[..length], index));
        let delay = arrived.saturating_sub(departed);
        collected.push_str(&format!(" {number}:{delay}:{arrived}"));
    }
    Ok(collected)
}
