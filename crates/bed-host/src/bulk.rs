//! TCP flows of an agent that send at the same time, each as much as it can.

use std::{
    ffi::OsString,
    io::{self, Read, Write},
    net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream},
    os::fd::AsRawFd,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, connect, setsockopt, socket, sockopt,
};

use super::{number, print_line};

/// Time between two readings of a flow's smoothed round-trip time.
const SAMPLES: Duration = Duration::from_millis(10);

/// Listens on a port for each of these congestion controls; then returns the bytes of each flow that arrived from `from` to
/// `to` seconds after the first byte of all.
pub(crate) fn listen(from: &str, to: &str, controls: &[&str]) -> io::Result<String> {
    let [from, to] = [seconds(from)?, seconds(to)?];
    let listeners = controls.iter().map(|control| {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        // One that needs ECN (DCTCP) answers a peer that asks for it only if it is that of the listener.
        setsockopt(&listener, sockopt::TcpCongestion, &OsString::from(control))?;
        Ok(listener)
    });
    let listeners = listeners.collect::<io::Result<Vec<_>>>()?;
    let ports = listeners.iter().map(TcpListener::local_addr);
    let ports = ports.collect::<io::Result<Vec<_>>>()?;
    let ports: Vec<String> = ports.iter().map(|it| it.port().to_string()).collect();
    print_line(&format!("listening {}", ports.join(" ")));
    let began = Arc::new(OnceLock::new());
    let receivers: Vec<JoinHandle<io::Result<u64>>> = listeners
        .into_iter()
        .map(|listener| {
            let began = Arc::clone(&began);
            thread::spawn(move || receive(&listener, &began, [from, to]))
        })
        .collect();
    let received = receivers.into_iter().map(joined);
    let received = received.collect::<io::Result<Vec<u64>>>()?;
    let received: Vec<String> = received.iter().map(u64::to_string).collect();
    Ok(format!("received {}", received.join(" ")))
}

fn receive(
    listener: &TcpListener,
    began: &OnceLock<Instant>,
    [from, to]: [Duration; 2],
) -> io::Result<u64> {
    let (mut flow, _) = listener.accept()?;
    let mut buffer = vec![0; 1 << 18];
    let mut total = 0;
    loop {
        let read = match flow.read(&mut buffer) {
            Ok(0) => return Ok(total),
            Ok(read) => read as u64,
            // The sender gives up what it has not sent.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(total),
            Err(error) => return Err(error),
        };
        let since = began.get_or_init(Instant::now).elapsed();
        if since >= from && since < to {
            total += read;
        }
    }
}

/// Sends to ports of `peer`, each with its congestion control (`PORT:NAME`), for `lasts` seconds; the flows begin `apart`
/// milliseconds after one another. Returns the mean smoothed round-trip time of each after `from` seconds, in nanoseconds.
pub(crate) fn send(
    peer: &str,
    [from, lasts, apart]: [&str; 3],
    flows: &[&str],
) -> io::Result<String> {
    let peer: Ipv4Addr = number(peer)?;
    let [from, lasts] = [seconds(from)?, seconds(lasts)?];
    let apart = Duration::from_millis(number(apart)?);
    let begun = Instant::now();
    let mut senders = Vec::new();
    for (index, flow) in flows.iter().enumerate() {
        let (port, control) = flow
            .split_once(':')
            .ok_or_else(|| io::Error::other("no congestion control"))?;
        let address = SocketAddrV4::new(peer, number(port)?);
        let control = OsString::from(control);
        let begins = begun + apart * index as u32;
        senders.push(thread::spawn(move || {
            thread::sleep(begins.saturating_duration_since(Instant::now()));
            send_one(address, &control, [begun + from, begun + lasts])
        }));
    }
    let round_trips = senders.into_iter().map(joined);
    let round_trips = round_trips.collect::<io::Result<Vec<f64>>>()?;
    let round_trips: Vec<String> = round_trips.iter().map(f64::to_string).collect();
    Ok(format!("sent {}", round_trips.join(" ")))
}

fn send_one(
    address: SocketAddrV4,
    control: &OsString,
    [from, to]: [Instant; 2],
) -> io::Result<f64> {
    let socket = socket(
        AddressFamily::Inet,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    // One that needs ECN asks for it in its SYN.
    setsockopt(&socket, sockopt::TcpCongestion, control)?;
    connect(socket.as_raw_fd(), &SockaddrIn::from(address))?;
    let mut flow = TcpStream::from(socket);
    let ended = Arc::new(AtomicBool::new(false));
    let (sampled, has_ended) = (flow.try_clone()?, Arc::clone(&ended));
    let sampler = thread::spawn(move || {
        let mut round_trips = Vec::new();
        while !has_ended.load(Ordering::Relaxed) {
            thread::sleep(SAMPLES);
            if Instant::now() >= from {
                round_trips.push(smoothed_rtt_ns(&sampled)?);
            }
        }
        Ok(round_trips.iter().sum::<f64>() / round_trips.len() as f64)
    });
    let buffer = vec![b'D'; 1 << 16];
    while Instant::now() < to {
        flow.write_all(&buffer)?;
    }
    ended.store(true, Ordering::Relaxed);
    let mean = joined(sampler)?;
    let reset = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    setsockopt(&flow, sockopt::Linger, &reset)?;
    Ok(mean)
}

/// Returns the smoothed round-trip time of a connection (`tcpi_rtt`).
fn smoothed_rtt_ns(flow: &TcpStream) -> io::Result<f64> {
    // SAFETY: a structure of integers.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to a structure of that length.
    let read = unsafe {
        libc::getsockopt(
            flow.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    match read {
        0 => Ok(f64::from(info.tcpi_rtt) * 1e3),
        _ => Err(io::Error::last_os_error()),
    }
}

fn seconds(text: &str) -> io::Result<Duration> {
    number(text).map(Duration::from_secs_f64)
}

fn joined<T>(thread: JoinHandle<io::Result<T>>) -> io::Result<T> {
    let ended = thread.join();
    ended.map_err(|_| io::Error::other("a flow's thread panicked"))?
}
