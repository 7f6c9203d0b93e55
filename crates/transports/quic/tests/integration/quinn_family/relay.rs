//! Path with a delay, on loopback.

use std::{
    collections::VecDeque,
    net::{SocketAddr, UdpSocket},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Relays datagrams both ways after a delay, until `stop`.
pub fn relay(front: &UdpSocket, receiver: SocketAddr, delay: Duration, stop: &AtomicBool) {
    let back = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for socket in [front, &back] {
        socket.set_nonblocking(true).expect("a mode");
    }
    let mut sender = None;
    let mut lines = [VecDeque::new(), VecDeque::new()];
    let mut buffer = vec![0; 65_536];
    while !stop.load(Ordering::Relaxed) {
        while let Ok((length, from)) = front.recv_from(&mut buffer) {
            sender = Some(from);
            lines[0].push_back((Instant::now() + delay, buffer[..length].to_vec()));
        }
        while let Ok((length, _)) = back.recv_from(&mut buffer) {
            lines[1].push_back((Instant::now() + delay, buffer[..length].to_vec()));
        }
        for (line, (from, to)) in lines
            .iter_mut()
            .zip([(&back, Some(receiver)), (front, sender)])
        {
            while line.front().is_some_and(|(due, _)| *due <= Instant::now()) {
                let (_, data) = line.pop_front().expect("it is there");
                // A closed socket gets nothing.
                let _ = to.map(|to| from.send_to(&data, to));
            }
        }
        thread::sleep(Duration::from_micros(200));
    }
}
