//! Receiving: one call of the kernel for all readers, and the assignment of data to them.

use std::{
    io,
    sync::MutexGuard,
    task::{Context, Poll, ready},
};

use regatta_transport::TransportError;

use super::{Association, Ending, FINISHED, Reader, SCRATCH_BYTES, SLOTS, State};
use crate::kernel::socket::{self, After};

/// Minimum size of a reader's own receive buffer, in bytes: with less, a large message would arrive
/// in many pieces.
const LEAST_SCRATCH_BYTES: usize = 16 << 10;

/// Maximum number of bytes in inboxes. Above it, the socket's own window holds the peer back.
const MOST_WAITING_BYTES: usize = 16 << 20;

/// Result of a receive call.
pub(super) enum Came {
    /// Number of bytes received for the reader itself.
    Own(usize),
    /// Data for other readers, or no data.
    Else,
}

impl Association {
    /// Receives data of a stream, and passes it to `consume`; zero bytes are the end of its
    /// direction.
    pub(crate) fn poll_read(
        &self,
        id: u16,
        scratch: &mut [u8],
        consume: &mut impl FnMut(&[u8]),
        context: &mut Context<'_>,
    ) -> Poll<Result<usize, TransportError>> {
        loop {
            let mut state = self.lock();
            if let Some(inbox) = state.inboxes.get_mut(&id) {
                let pieces = std::mem::take(&mut inbox.pieces);
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
            match &state.ended {
                Some(Ending::Done) => return Poll::Ready(Ok(0)),
                Some(ending) => return Poll::Ready(Err(ending.error())),
                None => {}
            }
            let reader = Reader::Stream(id);
            match ready!(self.poll_fill(state, reader, scratch, context)) {
                Came::Else => {}
                Came::Own(bytes) => {
                    let mut state = self.lock();
                    let pieces = std::mem::take(&mut state.pieces);
                    // A caller with too little memory finds it in the association's.
                    let memory = if scratch.len() < LEAST_SCRATCH_BYTES {
                        Some(std::mem::take(&mut state.scratch))
                    } else {
                        None
                    };
                    drop(state);
                    let place: &[u8] = memory.as_deref().unwrap_or(scratch);
                    for piece in &pieces {
                        if piece.stream == id && piece.protocol != FINISHED {
                            consume(&place[piece.start..piece.start + piece.length]);
                        }
                    }
                    let mut state = self.lock();
                    state.pieces = pieces;
                    if let Some(memory) = memory {
                        state.scratch = memory;
                    }
                    return Poll::Ready(Ok(bytes));
                }
            }
        }
    }

    /// Makes one receive call, on behalf of all readers.
    pub(super) fn poll_fill(
        &self,
        mut state: MutexGuard<'_, State>,
        reader: Reader,
        scratch: &mut [u8],
        context: &mut Context<'_>,
    ) -> Poll<Came> {
        state.readers.insert(reader, context.waker().clone());
        if state.waiting_bytes > MOST_WAITING_BYTES {
            state.held_up.insert(reader);
            return Poll::Pending;
        }
        let mut guard = match ready!(self.socket.poll_read_ready(context)) {
            Ok(guard) => guard,
            Err(error) => {
                state.end(Ending::of(&error));
                return Poll::Ready(Came::Else);
            }
        };
        let state = &mut *state;
        let memory = if scratch.len() < LEAST_SCRATCH_BYTES {
            state.scratch.resize(SCRATCH_BYTES, 0);
            &mut state.scratch
        } else {
            &mut *scratch
        };
        let lost;
        let many = state.more;
        let slot_bytes = if many {
            memory.len() / SLOTS
        } else {
            memory.len()
        };
        match socket::receive(self.socket(), memory, slot_bytes, many, &mut state.pieces) {
            Ok(After { more, lost: gone }) => {
                state.more = more;
                lost = gone;
                if let Some(paths) = &self.known.paths {
                    paths.delivered(&state.pieces, memory);
                }
                if !more {
                    // Whatever comes from now on is told anew.
                    guard.clear_ready();
                    self.nothing_left();
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                state.more = false;
                guard.clear_ready();
                self.nothing_left();
                return Poll::Ready(Came::Else);
            }
            Err(error) => {
                state.end(Ending::of(&error));
                return Poll::Ready(Came::Else);
            }
        }
        let came = self.sort(state, reader, scratch);
        if let Some(error) = lost {
            state.end(Ending::of(&io::Error::from_raw_os_error(error)));
        }
        Poll::Ready(came)
    }

    fn nothing_left(&self) {
        if let Some(paths) = &self.known.paths {
            paths.nothing_left();
        }
    }

    /// Receives whole messages of any stream, into slots of `slot_bytes` of `memory`.
    pub(crate) fn poll_messages(
        &self,
        memory: &mut [u8],
        slot_bytes: usize,
        partial: &mut Vec<u8>,
        consume: &mut impl FnMut(&[u8]),
        context: &mut Context<'_>,
    ) -> Poll<Result<usize, TransportError>> {
        let mut count = 0;
        loop {
            let mut state = self.lock();
            if let Some(error) = state.error() {
                return Poll::Ready(Err(error));
            }
            let waker = context.waker().clone();
            state.readers.insert(Reader::Streams, waker);
            let received = ready!(self.socket.poll_read_ready(context)).and_then(|mut guard| {
                let many = state.more;
                let received =
                    socket::receive(self.socket(), memory, slot_bytes, many, &mut state.pieces);
                state.more = received.as_ref().is_ok_and(|after| after.more);
                if let (Ok(_), Some(paths)) = (&received, &self.known.paths) {
                    paths.delivered(&state.pieces, memory);
                }
                let nothing =
                    matches!(&received, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
                if nothing || (received.is_ok() && !state.more) {
                    guard.clear_ready();
                    self.nothing_left();
                }
                received
            });
            let lost = match received {
                Ok(after) => after.lost,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => {
                    state.end(Ending::of(&error));
                    continue;
                }
            };
            for piece in &state.pieces {
                let data = &memory[piece.start..piece.start + piece.length];
                if !piece.ends || !partial.is_empty() {
                    partial.extend_from_slice(data);
                }
                if !piece.ends {
                    continue;
                }
                count += 1;
                if partial.is_empty() {
                    consume(data);
                } else {
                    consume(partial);
                    partial.clear();
                }
            }
            if state.pieces.iter().any(|piece| piece.length == 0) {
                self.look();
                state.end(Ending::Done);
            }
            if let Some(error) = lost {
                state.end(Ending::of(&io::Error::from_raw_os_error(error)));
            }
            if count > 0 {
                return Poll::Ready(Ok(count));
            }
        }
    }

    /// Assigns received data to its reader.
    pub(super) fn sort(&self, state: &mut State, reader: Reader, scratch: &[u8]) -> Came {
        let pieces = std::mem::take(&mut state.pieces);
        let mut own = 0;
        for piece in &pieces {
            if piece.length == 0 {
                // The last chance for its figures.
                self.look();
                state.end(Ending::Done);
                break;
            }
            self.note_stream(state, piece.stream);
            let to = Reader::Stream(piece.stream);
            if piece.protocol == FINISHED {
                state.inboxes.entry(piece.stream).or_default().finished = true;
            } else if to == reader {
                own += piece.length;
                continue;
            } else {
                let memory = if scratch.len() < LEAST_SCRATCH_BYTES {
                    &state.scratch
                } else {
                    scratch
                };
                let copy = memory[piece.start..piece.start + piece.length].to_vec();
                state.waiting_bytes += piece.length;
                state
                    .inboxes
                    .entry(piece.stream)
                    .or_default()
                    .pieces
                    .push_back(copy);
            }
            if to != reader {
                state.wake(to);
            }
        }
        state.pieces = pieces;
        if own > 0 { Came::Own(own) } else { Came::Else }
    }

    /// Records a stream that the other end opened.
    pub(super) fn note_stream(&self, state: &mut State, id: u16) {
        if state.inboxes.contains_key(&id) {
            return;
        }
        let index = if self.connects {
            state.streams.saturating_sub(1).saturating_sub(id)
        } else {
            id
        };
        if index >= state.opened_there {
            state.opened_there = index.saturating_add(1);
            state.wake(Reader::Streams);
        }
    }

    /// Ends a reader's wait: another reader receives for all from now on.
    pub(crate) fn leave(&self, reader: Reader) {
        let mut state = self.lock();
        state.readers.remove(&reader);
        state.held_up.remove(&reader);
        if let Some((_, waker)) = state.readers.pop_first() {
            waker.wake();
        }
    }
}
