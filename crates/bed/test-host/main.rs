//! What the bed's own tests and bench start in the place of `regatta`.
//!
//! `path-keeper` is the keeper. `agent` serves one line at a time on its standard input and answers
//! each with one line, `error …` when it could not:
//! - `listen` → `listening PORT`, and after the connection's end `received BYTES NANOSECONDS`, from
//!   the first byte to the last
//! - `send ADDRESS SECONDS CONGESTION_CONTROL` → `sent BYTES CONGESTION_CONTROL`, as read back
//! - `echo` → `listening PORT`; sends UDP datagrams back until it is killed
//! - `ping ADDRESS COUNT BYTES INTERVAL_NS` → the round-trip delays that came back, in nanoseconds
//!
//! `check` makes a bed, measures its path and sends through it, and prints a line for each or the
//! error's causes and hint. `hold` makes a bed with two agents, prints their process identifiers
//! and keeps it until it is killed.

mod controller;

use std::{
    ffi::OsString,
    io::{self, BufRead, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    process::ExitCode,
    str::FromStr,
    thread,
    time::{Duration, Instant},
};

use nix::sys::socket::{getsockopt, setsockopt, sockopt};

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("path-keeper") => regatta_bed::keeper::main(),
        Some("agent") => agent(),
        Some("check") => controller::check(),
        Some("hold") => controller::hold(),
        _ => ExitCode::FAILURE,
    }
}

fn agent() -> ExitCode {
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let words: Vec<_> = line.split_whitespace().collect();
        let answer = match words[..] {
            ["listen"] => listen(),
            ["send", peer, seconds, congestion] => send(peer, seconds, congestion),
            ["echo"] => echo(),
            ["ping", peer, count, bytes, interval] => ping(peer, count, bytes, interval),
            _ => Err(io::Error::other(format!("unknown request `{line}`"))),
        };
        say(&answer.unwrap_or_else(|error| format!("error {error}")));
    }
    ExitCode::SUCCESS
}

fn say(line: &str) {
    // Whoever does not listen any more does not miss it.
    let _ = writeln!(io::stdout(), "{line}");
}

fn number<T: FromStr<Err: std::fmt::Display>>(text: &str) -> io::Result<T> {
    text.parse()
        .map_err(|error| io::Error::other(format!("`{text}`: {error}")))
}

fn listen() -> io::Result<String> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    say(&format!("listening {}", listener.local_addr()?.port()));
    let (mut flow, _) = listener.accept()?;
    let mut buffer = vec![0; 1 << 18];
    let mut total = 0u64;
    let mut span = None;
    loop {
        let read = flow.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        total += read as u64;
        let now = Instant::now();
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

/// A socket that holds what arrives while its reader is kept waiting.
fn datagrams() -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let bytes = 16 << 20;
    if setsockopt(&socket, sockopt::RcvBufForce, &bytes).is_err() {
        setsockopt(&socket, sockopt::RcvBuf, &bytes)?;
    }
    Ok(socket)
}

fn echo() -> io::Result<String> {
    let socket = datagrams()?;
    say(&format!("listening {}", socket.local_addr()?.port()));
    let mut buffer = [0; 65536];
    loop {
        let (length, from) = socket.recv_from(&mut buffer)?;
        socket.send_to(&buffer[..length], from)?;
    }
}

/// Sends datagrams at fixed times and takes the answers on a second thread, so that neither waits
/// for the other.
fn ping(peer: &str, count: &str, bytes: &str, interval: &str) -> io::Result<String> {
    let peer: SocketAddr = number(peer)?;
    let count: u32 = number(count)?;
    let bytes: usize = number::<usize>(bytes)?.max(8);
    let interval = Duration::from_nanos(number(interval)?);
    let socket = datagrams()?;
    socket.connect(peer)?;
    socket.set_read_timeout(Some(Duration::from_millis(500)))?;
    let receiving = socket.try_clone()?;
    let started = Instant::now();
    let receiver = thread::spawn(move || {
        let mut delays = Vec::new();
        let mut buffer = [0; 65536];
        while let Ok(length) = receiving.recv(&mut buffer) {
            let now = started.elapsed().as_nanos() as u64;
            if let Some(sent) = buffer[..length].first_chunk::<8>() {
                delays.push(now.saturating_sub(u64::from_le_bytes(*sent)));
            }
        }
        delays
    });
    // SAFETY: takes numbers only. The default slack of 50 µs is half of a packet's interval here.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1u64) };
    let mut datagram = vec![0; bytes];
    for index in 0..count {
        thread::sleep((interval * index).saturating_sub(started.elapsed()));
        datagram[..8].copy_from_slice(&(started.elapsed().as_nanos() as u64).to_le_bytes());
        socket.send(&datagram)?;
    }
    let delays = receiver
        .join()
        .map_err(|_| io::Error::other("the receiving thread panicked"))?;
    let words: Vec<_> = delays.iter().map(u64::to_string).collect();
    Ok(words.join(" "))
}
