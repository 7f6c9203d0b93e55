//! Receiving: one call of the kernel for all readers, and the assignment of data to them.

use std::{
    io, mem,
    task::{Context, Poll, ready},
};

use parking_lot::MutexGuard;
use regatta_transport::Result;

use super::{Association, FINISHED, Reader, SCRATCH_BYTES, SLOTS, State, ending};
use crate::{
    association::{Ending, number},
    kernel::{
        options::LONGEST_MESSAGE_BYTES,
        socket::{self, Piece},
    },
};

/// Minimum size of a reader's own receive buffer, in bytes: with less, a large message would arrive
/// in many pieces.
const MIN_SCRATCH_BYTES: usize = 16 << 10;

/// Maximum number of bytes in inboxes. Above it, the socket's own window holds the peer back.
const MAX_WAITING_BYTES: usize = 16 << 20;

impl Association {
    /// Receives data of a stream, and passes it to `consume`; zero bytes are the end of its
    /// direction.
    pub(crate) fn poll_read(
        &self,
        id: u16,
        scratch: &mut [u8],
        consume: &mut impl FnMut(&[u8]),
        context: &mut Context<'_>,
    ) -> Poll<Result<usize>> {
        loop {
            let mut state = self.state.lock();
            if let Some(inbox) = state.inboxes.get_mut(&id) {
                let pieces = mem::take(&mut inbox.pieces);
                if !pieces.is_empty() {
                    let bytes: usize = pieces.iter().map(Vec::len).sum();
                    state.waiting_bytes -= bytes;
                    if !state.held_up.is_empty() {
                        state.held_up.clear();
                        state.wake_all();
                    }
                    drop(state);
                    pieces.iter().for_each(|piece| consume(piece));
                    return Poll::Ready(Ok(bytes));
                }
                if inbox.finished {
                    return Poll::Ready(Ok(0));
                }
            }
            if let Some(ending) = &state.ended {
                return Poll::Ready(ending.of_reading().map(|()| 0));
            }
            let reader = Reader::Stream(id);
            match ready!(self.poll_fill(state, reader, scratch, consume, context)) {
                0 => {}
                bytes => return Poll::Ready(Ok(bytes)),
            }
        }
    }

    /// Makes one receive call, on behalf of all readers; passes the data of `reader` to `consume`, and
    /// returns its bytes.
    pub(super) fn poll_fill(
        &self,
        mut state: MutexGuard<'_, State>,
        reader: Reader,
        scratch: &mut [u8],
        consume: &mut impl FnMut(&[u8]),
        context: &mut Context<'_>,
    ) -> Poll<usize> {
        state.readers.insert(reader, context.waker().clone());
        if state.waiting_bytes > MAX_WAITING_BYTES {
            state.held_up.insert(reader);
            return Poll::Pending;
        }
        let mut own = mem::take(&mut state.scratch);
        let memory = if scratch.len() < MIN_SCRATCH_BYTES {
            own.resize(SCRATCH_BYTES, 0);
            &mut own
        } else {
            scratch
        };
        let slots = if state.more { SLOTS } else { 1 };
        let slot_bytes = memory.len() / slots;
        let received = self.poll_receive(&mut state, memory, slot_bytes, context);
        let bytes = received.map(|lost| {
            let bytes = self.sort(&mut state, reader, memory, consume);
            lost.into_iter().for_each(|ending| state.end(ending));
            bytes
        });
        state.scratch = own;
        bytes
    }

    /// Makes one receive call into slots of `memory`: into the first alone, unless more may wait. Returns
    /// the reason for which the association has ended, if it has.
    fn poll_receive(
        &self,
        state: &mut State,
        memory: &mut [u8],
        slot_bytes: usize,
        context: &mut Context<'_>,
    ) -> Poll<Option<Ending>> {
        let State { pieces, more, .. } = state;
        pieces.clear();
        let received = ready!(self.socket.poll_read_ready(context)).and_then(|mut guard| {
            let received = socket::receive(self.socket(), memory, slot_bytes, *more, pieces);
            *more = received.as_ref().is_ok_and(|after| after.more);
            if let (Ok(_), Some(paths)) = (&received, &self.cache.paths) {
                paths.delivered(pieces, memory);
            }
            if received.as_ref().err().is_none_or(waits) && !*more {
                // A reader is notified again of data that arrives from now on.
                guard.clear_ready();
                if let Some(paths) = &self.cache.paths {
                    paths.nothing_left();
                }
            }
            received
        });
        let lost = match received {
            Ok(after) => after.lost.map(io::Error::from_raw_os_error),
            Err(error) => Some(error).filter(|error| !waits(error)),
        };
        Poll::Ready(lost.as_ref().map(ending))
    }

    /// Receives whole messages of any stream; returns their number.
    pub(crate) fn poll_messages(
        &self,
        consume: &mut impl FnMut(&[u8]),
        context: &mut Context<'_>,
    ) -> Poll<Result<usize>> {
        let mut count = 0;
        loop {
            let mut guard = self.state.lock();
            let state = &mut *guard;
            state.check()?;
            let waker = context.waker().clone();
            state.readers.insert(Reader::Streams, waker);
            let mut memory = mem::take(&mut state.scratch);
            if memory.is_empty() {
                memory = vec![0; SLOTS * LONGEST_MESSAGE_BYTES];
            }
            let received = self.poll_receive(state, &mut memory, LONGEST_MESSAGE_BYTES, context);
            if received.is_ready() {
                for piece in &state.pieces {
                    count += state.partial.add(piece, piece.data(&memory), consume);
                }
            }
            state.scratch = memory;
            let lost = ready!(received);
            if state.pieces.iter().any(|piece| piece.length == 0) {
                self.snapshot();
                state.end(Ending::Done);
            }
            lost.into_iter().for_each(|ending| state.end(ending));
            if count > 0 {
                return Poll::Ready(Ok(count));
            }
        }
    }

    /// Receives the next message; keeps those that came together with it.
    pub(crate) fn poll_message(&self, context: &mut Context<'_>) -> Poll<Result<Vec<u8>>> {
        let mut arrived = mem::take(&mut self.state.lock().early);
        if arrived.is_empty() {
            let mut consume = |data: &[u8]| arrived.push_back(data.to_vec());
            ready!(self.poll_messages(&mut consume, context))?;
        }
        let first = arrived.pop_front().unwrap_or_default();
        self.state.lock().early = arrived;
        Poll::Ready(Ok(first))
    }

    /// Assigns received data to its reader: passes that of `reader` to `consume`, and returns its bytes.
    fn sort(
        &self,
        state: &mut State,
        reader: Reader,
        memory: &[u8],
        consume: &mut impl FnMut(&[u8]),
    ) -> usize {
        let pieces = mem::take(&mut state.pieces);
        let mut own = 0;
        for piece in &pieces {
            if piece.length == 0 {
                // The last chance for its figures.
                self.snapshot();
                state.end(Ending::Done);
                break;
            }
            self.note_stream(state, piece.stream);
            let to = Reader::Stream(piece.stream);
            let data = piece.data(memory);
            if to == reader && piece.protocol != FINISHED {
                own += piece.length;
                consume(data);
                continue;
            }
            let inbox = state.inboxes.entry(piece.stream).or_default();
            if piece.protocol == FINISHED {
                inbox.finished = true;
            } else {
                inbox.pieces.push_back(data.to_vec());
                state.waiting_bytes += piece.length;
            }
            if to != reader {
                state.wake(to);
            }
        }
        state.pieces = pieces;
        own
    }

    /// Records a stream that the other end opened.
    fn note_stream(&self, state: &mut State, id: u16) {
        if state.inboxes.contains_key(&id) {
            return;
        }
        let index = number(!self.connects, id, state.streams);
        if index >= state.opened_there {
            state.opened_there = index.saturating_add(1);
            state.wake(Reader::Streams);
        }
    }

    /// Ends a reader's wait: another reader receives for all from now on.
    pub(crate) fn leave(&self, reader: Reader) {
        let mut state = self.state.lock();
        state.readers.remove(&reader);
        state.held_up.remove(&reader);
        if let Some((_, waker)) = state.readers.pop_first() {
            waker.wake();
        }
    }
}

/// Whether an error of the socket means that nothing waits.
pub(super) fn waits(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// A message of which pieces have arrived, but not the last.
#[derive(Default)]
pub(super) struct Partial(Vec<u8>);

impl Partial {
    /// Adds a piece, and passes the message to `consume` if that is its last; returns the number of
    /// messages passed.
    fn add(&mut self, piece: &Piece, data: &[u8], consume: &mut impl FnMut(&[u8])) -> usize {
        if !piece.ends || !self.0.is_empty() {
            self.0.extend_from_slice(data);
        }
        if !piece.ends {
            return 0;
        }
        if self.0.is_empty() {
            consume(data);
        } else {
            consume(&self.0);
            self.0.clear();
        }
        1
    }
}
