//! Datagrams of a connection (RFC 9221) between the stack, which asks for them when it makes a
//! packet, and the flow that sends and receives them.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker, ready},
};

use bytes::Bytes;
use parking_lot::Mutex;
use regatta_model::reason;
use regatta_transport::{Abort, Result, TransportError};
use s2n_quic::{
    Connection,
    connection::Error,
    provider::datagram::{
        ConnectionInfo, Endpoint, Packet, PreConnectionInfo, ReceiveContext, Receiver, Sender,
        WriteError,
    },
};

use crate::end::is_done;

/// Overhead of a packet beside a message, in bytes: the short header with a connection identifier
/// of 16 bytes and the longest packet number (RFC 9000 §17.3), the tag (RFC 9001 §5.3), the frame's
/// type and length (RFC 9221 §4).
pub(crate) const OVERHEAD_BYTES: usize = 1 + 16 + 4 + 16 + 3;

/// Largest frame that an end accepts, in bytes: any (RFC 9221 §3).
const LONGEST_FRAME_BYTES: u64 = 65_535;

/// Maximum number of messages that wait to be sent. Small, because a message in the queue is
/// neither sent nor reported as waiting, yet enough for several calls of the kernel.
const WAITING_MESSAGES: usize = 128;

/// Maximum number of received messages that were not taken; further ones are dropped and counted.
const ARRIVED_MESSAGES: usize = 16_384;

/// Number of packets without room for the first message after which that message is dropped. An
/// acknowledgement may take the room of one packet; a message that never fits must not hold up
/// others.
const MAX_MISSES: u32 = 8;

/// Factory of the queues of every connection. Beside streams they have a probe's messages.
#[derive(Debug)]
pub(crate) struct Datagrams;

impl Endpoint for Datagrams {
    type Sender = Half;
    type Receiver = Half;

    fn create_connection(&mut self, info: &ConnectionInfo) -> (Half, Half) {
        let queues = Arc::new(Queues::new(info.waker.clone()));
        (Half(Arc::clone(&queues)), Half(queues))
    }

    fn max_datagram_frame_size(&self, _info: &PreConnectionInfo) -> u64 {
        LONGEST_FRAME_BYTES
    }
}

/// The queues of one connection.
#[derive(Debug)]
pub(crate) struct Queues {
    /// Whether messages wait to be sent: a transfer over streams is polled for them at every packet, too.
    has_waiting: AtomicBool,
    outgoing: Mutex<Outgoing>,
    incoming: Mutex<Incoming>,
    /// Waker that makes the stack look for messages to send.
    connection: Waker,
}

#[derive(Debug, Default)]
struct Outgoing {
    waiting: VecDeque<Bytes>,
    misses: u32,
    dropped: u64,
    end: Option<End>,
    waker: Option<Waker>,
}

#[derive(Debug, Default)]
struct Incoming {
    arrived: VecDeque<Bytes>,
    dropped: u64,
    end: Option<End>,
    waker: Option<Waker>,
}

impl Incoming {
    /// Waits until a message has arrived, or none can arrive any more.
    fn poll(&mut self, context: &Context<'_>) -> Poll<Result<(), End>> {
        if !self.arrived.is_empty() {
            return Poll::Ready(Ok(()));
        }
        if let Some(end) = self.end {
            return Poll::Ready(Err(end));
        }
        self.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

/// Reason for which a queue takes no more messages.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    /// The flow was stopped at this end.
    Stopped,
    /// The connection is over.
    Closed(Error),
}

impl End {
    pub(crate) fn error(self) -> TransportError {
        match self {
            Self::Stopped => TransportError::Cancelled,
            Self::Closed(error) if is_done(&error) => TransportError::Closed {
                flow: "QUIC connection",
            },
            Self::Closed(error) => TransportError::stack(reason::quic_connection_broke())(error),
        }
    }
}

/// Returns the queues of a connection, as long as its stack knows it.
pub(crate) fn queues(connection: &Connection) -> Result<Arc<Queues>> {
    connection
        .datagram_mut(|half: &mut Half| Arc::clone(&half.0))
        .map_err(|error| error.to_string())
        .map_err(TransportError::stack(reason::no_datagrams_of_connection()))
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

impl Queues {
    fn new(connection: Waker) -> Self {
        Self {
            has_waiting: AtomicBool::new(false),
            outgoing: Mutex::default(),
            incoming: Mutex::default(),
            connection,
        }
    }

    /// Notes whether messages wait.
    fn note(&self, outgoing: &Outgoing) {
        let has_waiting = !outgoing.waiting.is_empty();
        self.has_waiting.store(has_waiting, Ordering::Release);
    }

    /// Queues a message if there is room; drops it otherwise.
    pub(crate) fn send(&self, message: &[u8]) -> Result<(), End> {
        let mut outgoing = self.outgoing.lock();
        if let Some(end) = outgoing.end {
            return Err(end);
        }
        if outgoing.waiting.len() < WAITING_MESSAGES {
            outgoing.waiting.push_back(Bytes::copy_from_slice(message));
            self.note(&outgoing);
        }
        drop(outgoing);
        self.connection.wake_by_ref();
        Ok(())
    }

    /// Queues the messages of a batch from `at` on, all of `size` but the last, which may be
    /// shorter, and advances `at` to their end; ready when all are queued.
    pub(crate) fn poll_send(
        &self,
        batch: &Bytes,
        size: usize,
        at: &mut usize,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), End>> {
        let mut outgoing = self.outgoing.lock();
        if let Some(end) = outgoing.end {
            return Poll::Ready(Err(end));
        }
        let before = *at;
        while *at < batch.len() && outgoing.waiting.len() < WAITING_MESSAGES {
            let end = batch.len().min(*at + size);
            outgoing.waiting.push_back(batch.slice(*at..end));
            *at = end;
        }
        self.note(&outgoing);
        let all = *at == batch.len();
        if !all {
            outgoing.waker = Some(context.waker().clone());
        }
        drop(outgoing);
        if *at > before {
            self.connection.wake_by_ref();
        }
        match all {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    }

    /// Waits until no message waits to be sent, or none can be sent any more.
    pub(crate) fn poll_sent(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut outgoing = self.outgoing.lock();
        if outgoing.waiting.is_empty() || matches!(outgoing.end, Some(End::Closed(_))) {
            return Poll::Ready(());
        }
        outgoing.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Swaps `empty` with the received messages, at least one. Messages that arrived before the end
    /// come before it.
    pub(crate) fn poll_arrived(
        &self,
        empty: &mut VecDeque<Bytes>,
        context: &Context<'_>,
    ) -> Poll<Result<(), End>> {
        let mut incoming = self.incoming.lock();
        ready!(incoming.poll(context))?;
        std::mem::swap(&mut incoming.arrived, empty);
        Poll::Ready(Ok(()))
    }

    /// Takes one received message, as [`Queues::poll_arrived`] takes all.
    pub(crate) fn poll_message(&self, context: &Context<'_>) -> Poll<Result<Bytes, End>> {
        let mut incoming = self.incoming.lock();
        ready!(incoming.poll(context))?;
        Poll::Ready(Ok(incoming.arrived.pop_front().unwrap_or_default()))
    }

    /// Discards the messages that wait to be sent, and returns their number.
    pub(crate) fn give_up(&self) -> u64 {
        let mut outgoing = self.outgoing.lock();
        let given_up = std::mem::take(&mut outgoing.waiting);
        self.note(&outgoing);
        given_up.len() as u64
    }

    /// Ends the queues: they take no more messages, and waiting tasks are woken.
    pub(crate) fn end(&self, end: End) {
        let mut outgoing = self.outgoing.lock();
        outgoing.end = Some(end);
        wake(&mut outgoing.waker);
        drop(outgoing);
        let mut incoming = self.incoming.lock();
        incoming.end = Some(end);
        wake(&mut incoming.waker);
    }

    /// Returns the numbers of messages dropped at this end: those too long for the path's packets,
    /// and those that arrived while the queue was full.
    pub(crate) fn dropped(&self) -> (u64, u64) {
        let outgoing = self.outgoing.lock().dropped;
        (outgoing, self.incoming.lock().dropped)
    }
}

impl Abort for Queues {
    /// Wakes a flow that is stopped.
    fn abort(&self) {
        self.end(End::Stopped);
    }
}

/// Queues as the stack calls them.
#[derive(Debug, Clone)]
pub(crate) struct Half(pub(crate) Arc<Queues>);

impl Sender for Half {
    fn on_transmit<P: Packet>(&mut self, packet: &mut P) {
        let queues = &self.0;
        if !self.has_transmission_interest() {
            return;
        }
        let outgoing = &mut *queues.outgoing.lock();
        let mut written = false;
        while let Some(first) = outgoing.waiting.front() {
            match packet.write_datagram(first) {
                Ok(()) => {
                    written = true;
                    outgoing.misses = 0;
                }
                Err(WriteError::ExceedsPacketCapacity)
                    if written || outgoing.misses < MAX_MISSES =>
                {
                    outgoing.misses += u32::from(!written);
                    break;
                }
                Err(_) => {
                    outgoing.misses = 0;
                    outgoing.dropped += 1;
                }
            }
            outgoing.waiting.pop_front();
        }
        queues.note(outgoing);
        // A flow that is woken for every packet would fill the queue one by one.
        if outgoing.waiting.len() <= WAITING_MESSAGES / 2 {
            wake(&mut outgoing.waker);
        }
    }

    fn has_transmission_interest(&self) -> bool {
        self.0.has_waiting.load(Ordering::Acquire)
    }

    fn on_connection_error(&mut self, error: Error) {
        self.0.end(End::Closed(error));
    }
}

impl Receiver for Half {
    fn on_datagram(&mut self, _context: &ReceiveContext<'_>, datagram: &[u8]) {
        let mut incoming = self.0.incoming.lock();
        if incoming.arrived.len() >= ARRIVED_MESSAGES {
            incoming.dropped += 1;
            return;
        }
        incoming.arrived.push_back(Bytes::copy_from_slice(datagram));
        wake(&mut incoming.waker);
    }

    fn on_connection_error(&mut self, error: Error) {
        self.0.end(End::Closed(error));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packet with this much room, in bytes.
    struct Room(usize);

    impl Packet for Room {
        fn remaining_capacity(&self) -> usize {
            self.0
        }

        fn write_datagram(&mut self, data: &[u8]) -> Result<(), WriteError> {
            if data.len() > self.0 {
                return Err(WriteError::ExceedsPacketCapacity);
            }
            self.0 -= data.len();
            Ok(())
        }

        fn write_datagram_vectored(&mut self, data: &[&[u8]]) -> Result<(), WriteError> {
            self.write_datagram(&data.concat())
        }

        fn has_pending_streams(&self) -> bool {
            false
        }

        fn datagrams_prioritized(&self) -> bool {
            true
        }
    }

    fn outlet() -> (Half, Arc<Queues>) {
        let queues = Arc::new(Queues::new(Waker::noop().clone()));
        (Half(Arc::clone(&queues)), queues)
    }

    fn send(queues: &Queues, bytes: usize, size: usize) -> usize {
        let batch = Bytes::from(vec![0; bytes]);
        let mut at = 0;
        let mut context = Context::from_waker(Waker::noop());
        let _ = queues.poll_send(&batch, size, &mut at, &mut context);
        at
    }

    #[test]
    fn a_message_without_room_waits_for_the_next_packet() {
        let (mut outlet, queues) = outlet();
        assert_eq!(send(&queues, 2500, 1000), 2500);
        let mut first = Room(2200);
        outlet.on_transmit(&mut first);
        assert_eq!(first.0, 200);
        // An acknowledgement took the room.
        outlet.on_transmit(&mut Room(400));
        outlet.on_transmit(&mut Room(1400));
        assert!(!outlet.has_transmission_interest());
        assert_eq!(queues.dropped(), (0, 0));
    }

    #[test]
    fn message_that_never_fits_is_dropped_without_blocking_others() {
        let (mut outlet, queues) = outlet();
        assert_eq!(send(&queues, 3000, 2000), 3000);
        for _ in 0..MAX_MISSES {
            outlet.on_transmit(&mut Room(1400));
            assert!(outlet.has_transmission_interest());
        }
        outlet.on_transmit(&mut Room(1400));
        assert!(!outlet.has_transmission_interest());
        assert_eq!(queues.dropped(), (1, 0));
    }

    #[test]
    fn queue_of_waiting_messages_is_bounded() {
        let (mut outlet, queues) = outlet();
        assert_eq!(send(&queues, 1000, 1), WAITING_MESSAGES);
        assert_eq!(send(&queues, 1000, 1), 0);
        outlet.on_transmit(&mut Room(3));
        assert_eq!(send(&queues, 1000, 1), 3);
        queues.end(End::Stopped);
        assert_eq!(send(&queues, 1000, 1), 0);
    }
}
