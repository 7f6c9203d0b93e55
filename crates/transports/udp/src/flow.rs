//! A connected UDP socket as a flow of messages.

use std::{io, net::Shutdown, sync::Arc};

use regatta_control::Role;
use regatta_model::{Facts, reason};
use regatta_transport::{
    Abort, Arrival, MessageFlow, MonotonicTime, Result, Stop, TransportError, wait,
};
use socket2::Socket;

use crate::{
    batch::{self, LONGEST_PAYLOAD, MAX_SEGMENTS, ReceiveBatch},
    framing::{self, Framing},
    sockets::Opened,
};

/// Maximum size of a batch, in bytes: enough to make a system call cheap beside its work.
const BATCH_BYTES: usize = 64 << 10;

/// A socket whose blocking calls a stop ends.
struct Connected(Socket);

impl Abort for Connected {
    fn abort(&self) {
        // This wakes a sender that waits for room in the send buffer, too. A shut socket gives empty datagrams for
        // ever; the stop distinguishes them from real ones.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// A flow over a connected socket.
pub(crate) struct Flow {
    connected: Arc<Connected>,
    stop: Stop,
    role: Role,
    /// Largest message that fits a packet, in bytes, if several may be handed over as one.
    segment_limit: Option<usize>,
    /// Whether each message has a system call of its own.
    is_single: bool,
    /// Facts that were read back, by their whole names.
    facts: Facts,
    framing: Option<Framing>,
    received: ReceiveBatch,
}

impl Flow {
    pub(crate) fn new(role: Role, opened: Opened, framing: Option<Framing>, stop: &Stop) -> Self {
        let connected = Arc::new(Connected(opened.socket));
        stop.on_stop(&connected);
        Self {
            connected,
            stop: stop.clone(),
            role,
            segment_limit: opened.segment_limit,
            is_single: opened.is_single,
            facts: opened.facts,
            framing,
            received: ReceiveBatch::new(opened.is_single),
        }
    }

    /// Returns the number of messages of this size that are handed over as one; one without
    /// segmentation.
    fn segments(&self, message_bytes: usize) -> usize {
        match self.segment_limit {
            Some(limit) if message_bytes <= limit && message_bytes > 0 => {
                (LONGEST_PAYLOAD / message_bytes).clamp(1, MAX_SEGMENTS)
            }
            _ => 1,
        }
    }

    /// Sends the datagrams of a batch, all of `message_bytes` but the last.
    fn send(&mut self, batch: &[u8], message_bytes: usize) -> Result<()> {
        let mut rest = batch;
        while !rest.is_empty() {
            let segments = self.segments(message_bytes);
            let chunk = segments * message_bytes;
            let segment = u16::try_from(message_bytes).ok().filter(|_| segments > 1);
            let error = match batch::send(&self.connected.0, rest, chunk, segment) {
                Ok(chunks) => {
                    rest = &rest[rest.len().min(chunks * chunk)..];
                    continue;
                }
                Err(error) => error,
            };
            match error.raw_os_error() {
                _ if self.stop.is_stopped() => return Err(TransportError::Cancelled),
                Some(libc::EINTR) => {}
                // The queue of the interface is full, and the kernel has dropped the first chunk.
                Some(libc::ENOBUFS) => rest = &rest[rest.len().min(chunk)..],
                Some(libc::EIO | libc::EINVAL) if segment.is_some() => self.stop_segmenting(),
                _ => return Err(TransportError::io(reason::cannot_send())(error)),
            }
        }
        Ok(())
    }

    fn stop_segmenting(&mut self) {
        self.segment_limit = None;
        if self.role == Role::Sender {
            let fact = "off: the kernel refused it for this path".to_owned();
            self.facts.insert("gso.sender".to_owned(), fact);
        }
    }
}

impl MessageFlow for Flow {
    fn batch_messages(&self, message_bytes: usize) -> usize {
        if self.is_single {
            return 1;
        }
        let header = self.framing.as_ref().map_or(0, |_| framing::HEADER_BYTES);
        let message_bytes = message_bytes + header;
        let segments = self.segments(message_bytes);
        // Whole chunks of segments, so that no call carries a small rest.
        let chunks = (BATCH_BYTES / (segments * message_bytes.max(1))).clamp(1, 16);
        segments * chunks
    }

    async fn send_batch(&mut self, batch: &[u8], message_bytes: usize) -> Result<()> {
        let Some(mut framing) = self.framing.take() else {
            return self.send(batch, message_bytes);
        };
        let framed = framing.frame(batch, message_bytes);
        let result = self.send(framed, message_bytes + framing::HEADER_BYTES);
        self.framing = Some(framing);
        result
    }

    async fn receive_batch(
        &mut self,
        until: MonotonicTime,
        consume: &mut (impl FnMut(Arrival<'_>) + Send),
    ) -> Result<usize> {
        let failed = || TransportError::io(reason::cannot_receive());
        let socket = &self.connected.0;
        loop {
            if self.stop.is_stopped() {
                return Err(TransportError::Cancelled);
            }
            let framing = &mut self.framing;
            let received = self.received.receive(socket, &mut |datagram| {
                let data = match framing {
                    None => Some(datagram),
                    Some(framing) => framing.unframe(datagram),
                };
                if let Some(data) = data {
                    consume(Arrival { data });
                }
            });
            match received {
                Ok(received) if received > 0 => return Ok(received),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !wait::ready(socket, libc::POLLIN, until).map_err(failed())? {
                        return Ok(0);
                    }
                }
                Err(error) => return Err(failed()(error)),
            }
        }
    }

    fn facts(&self) -> Facts {
        let mut facts = self.facts.clone();
        facts.extend(self.framing.iter().flat_map(Framing::marks));
        facts
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        task::{Context, Poll, Waker},
        thread,
    };

    use socket2::{Domain, Type};

    use super::*;

    fn flow(socket: Socket, role: Role, is_single: bool, stop: &Stop) -> Flow {
        let opened = Opened {
            socket,
            segment_limit: None,
            is_single,
            offload: false,
            facts: Facts::default(),
        };
        Flow::new(role, opened, None, stop)
    }

    #[test]
    fn without_batches_each_message_has_a_call_of_its_own() {
        for (is_single, sent, received) in [(false, 16, 3), (true, 1, 1)] {
            let pair = Socket::pair(Domain::UNIX, Type::DGRAM, None).expect("two sockets");
            for _ in 0..3 {
                pair.0.send(&[7]).expect("room");
            }
            let mut flow = flow(pair.1, Role::Receiver, is_single, &Stop::new());
            assert_eq!(flow.batch_messages(1), sent);
            let (mut context, now) = (Context::from_waker(Waker::noop()), MonotonicTime::now());
            let mut consume = |_: Arrival<'_>| {};
            let receiving = pin!(flow.receive_batch(now, &mut consume));
            let Poll::Ready(Ok(count)) = receiving.poll(&mut context) else {
                panic!("datagrams are there");
            };
            assert_eq!(count, received);
        }
    }

    /// The kernel waits for room in the same way for a datagram of UDP and for one to another socket of this machine,
    /// which keeps its room until it is read.
    #[test]
    fn a_stop_ends_the_wait_for_room_in_the_send_buffer() {
        let (socket, _unread) = Socket::pair(Domain::UNIX, Type::DGRAM, None).expect("two sockets");
        socket.set_send_buffer_size(1).expect("a size");
        while socket
            .send_with_flags(&[0; 1000], libc::MSG_DONTWAIT)
            .is_ok()
        {}
        let stop = Stop::new();
        let mut flow = flow(socket, Role::Sender, false, &stop);
        let sent = thread::scope(|scope| {
            let sending = scope.spawn(|| flow.send(&[0; 1000], 1000));
            stop.stop();
            sending.join().expect("no panic")
        });
        assert!(matches!(sent, Err(TransportError::Cancelled)), "{sent:?}");
    }
}
