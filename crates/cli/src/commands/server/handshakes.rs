//! Handshakes under way: a further one than the most closes the oldest, so that nobody holds them all.

use std::{
    collections::VecDeque,
    net::{Shutdown, TcpStream},
    sync::Arc,
};

use parking_lot::Mutex;

/// Handshakes that may be under way at once.
pub const MAX_HANDSHAKES: usize = 32;

/// Connections whose handshake is under way, the oldest first, each with the number of its client.
#[derive(Debug)]
pub struct Handshakes {
    most: usize,
    connections: Mutex<VecDeque<(u64, Arc<TcpStream>)>>,
}

/// Handshake under way, until this is dropped.
#[derive(Debug)]
pub struct UnderWay<'a>(&'a Handshakes, u64);

impl Handshakes {
    /// Makes a list of at most this many.
    pub fn new(most: usize) -> Self {
        Self {
            most: most.max(1),
            connections: Mutex::default(),
        }
    }

    /// Adds a handshake. Closes the connection of the oldest one if there are too many.
    pub fn begin(&self, client: u64, connection: &Arc<TcpStream>) -> UnderWay<'_> {
        let mut connections = self.connections.lock();
        if connections.len() >= self.most
            && let Some((_, oldest)) = connections.pop_front()
        {
            // Its thread sees the end.
            let _ = oldest.shutdown(Shutdown::Both);
        }
        connections.push_back((client, Arc::clone(connection)));
        UnderWay(self, client)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut connections = self.0.connections.lock();
        connections.retain(|(client, _)| *client != self.1);
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Read as _, net::TcpListener};

    use super::*;

    #[test]
    fn a_further_handshake_closes_the_oldest_under_way() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let connect = || {
            let peer = TcpStream::connect(address).expect("it listens");
            let (accepted, _) = listener.accept().expect("a connection");
            (peer, Arc::new(accepted))
        };
        let handshakes = Handshakes::new(2);
        let connections = [connect(), connect(), connect(), connect()];
        let begin = |number: usize| handshakes.begin(number as u64, &connections[number].1);
        let over = begin(0);
        let _second = begin(1);
        drop(over);
        let _third = begin(2);
        let _fourth = begin(3);
        let mut byte = [0];
        let [(first, _), (second, _), (third, _), _] = &connections;
        assert_eq!((&mut &*second).read(&mut byte).expect("an end"), 0);
        for open in [first, third] {
            open.set_nonblocking(true).expect("a flag");
            assert!((&mut &*open).read(&mut byte).is_err(), "still open");
        }
    }
}
