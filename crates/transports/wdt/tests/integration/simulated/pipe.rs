//! One simulated connection.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use super::{Cut, NEVER};

const ROOM: u64 = 20_000;

/// Both directions of a connection.
pub struct Pipe {
    pub to_receiver: Direction,
    pub to_sender: Direction,
}

/// Break of a connection, with its time.
#[derive(Clone, Copy, PartialEq)]
enum Break {
    Loud(Duration),
    Silent,
}

pub struct Direction {
    delay: Duration,
    in_flight: VecDeque<(Duration, Vec<u8>)>,
    carried: u64,
    cut_after: Option<u64>,
    silent: bool,
    /// Break of the connection, shared by both directions.
    break_state: Rc<Cell<Option<Break>>>,
    closed: Option<Duration>,
    /// Time at which the writer gets the reader's reset.
    reset: Option<Duration>,
    vanished: u64,
}

impl Pipe {
    pub fn new(delay: Duration, cut: Option<Cut>) -> Self {
        let break_state = Rc::new(Cell::new(None));
        let direction = |of_sender: bool| Direction {
            delay,
            in_flight: VecDeque::new(),
            carried: 0,
            cut_after: cut
                .filter(|cut| cut.of_sender == of_sender)
                .map(|cut| cut.after),
            silent: cut.is_some_and(|cut| cut.silent),
            break_state: break_state.clone(),
            closed: None,
            reset: None,
            vanished: 0,
        };
        Self {
            to_receiver: direction(true),
            to_sender: direction(false),
        }
    }
}

impl Direction {
    /// Writes a part; returns the number of bytes.
    pub fn put(&mut self, now: Duration, bytes: &[u8], most: u64) -> io::Result<usize> {
        match self.break_state.get() {
            Some(Break::Loud(at)) if now >= at + self.delay => {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            Some(_) => {
                let room = ROOM.saturating_sub(self.vanished).min(bytes.len() as u64);
                self.vanished += room;
                return Ok(room as usize);
            }
            None => {}
        }
        if self.reset.is_some_and(|at| now >= at) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let held: u64 = self
            .in_flight
            .iter()
            .map(|(_, piece)| piece.len() as u64)
            .sum();
        let mut count = (bytes.len() as u64)
            .min(most)
            .min(ROOM.saturating_sub(held));
        if let Some(cut) = self.cut_after {
            count = count.min(cut.saturating_sub(self.carried));
        }
        if count > 0 {
            let piece = bytes[..count as usize].to_vec();
            self.in_flight.push_back((now + self.delay, piece));
            self.carried += count;
        }
        if self.cut_after.is_some_and(|cut| self.carried >= cut) {
            let how = if self.silent {
                Break::Silent
            } else {
                Break::Loud(now)
            };
            self.break_state.set(Some(how));
        }
        Ok(count as usize)
    }

    /// Reads a part; `None` if there is none yet.
    pub fn take(&mut self, now: Duration, most: u64) -> io::Result<Option<Vec<u8>>> {
        if let Some((at, piece)) = self.in_flight.front_mut()
            && *at <= now
        {
            let count = (piece.len() as u64).min(most) as usize;
            let taken: Vec<u8> = piece.drain(..count).collect();
            if piece.is_empty() {
                self.in_flight.pop_front();
            }
            return Ok(Some(taken));
        }
        if !self.in_flight.is_empty() {
            return Ok(None);
        }
        match self.break_state.get() {
            Some(Break::Loud(at)) if now >= at + self.delay => {
                Err(io::ErrorKind::ConnectionReset.into())
            }
            Some(_) => Ok(None),
            None if self.closed.is_some_and(|at| now >= at) => {
                Err(io::ErrorKind::UnexpectedEof.into())
            }
            None => Ok(None),
        }
    }

    /// Returns the time of the next change.
    pub fn next(&self, now: Duration) -> Duration {
        let break_at = match self.break_state.get() {
            Some(Break::Loud(at)) => Some(at + self.delay),
            _ => None,
        };
        let arrival = self.in_flight.front().map(|(at, _)| *at);
        [break_at, arrival, self.closed, self.reset]
            .into_iter()
            .flatten()
            .filter(|at| *at > now)
            .min()
            .unwrap_or(NEVER)
    }

    /// Returns the number of bytes that have not arrived.
    pub fn undelivered(&self, now: Duration) -> u64 {
        let in_flight: usize = self
            .in_flight
            .iter()
            .filter(|(at, _)| *at > now)
            .map(|(_, piece)| piece.len())
            .sum();
        in_flight as u64 + self.vanished
    }

    /// Closes the writer's end.
    pub fn close(&mut self, now: Duration) {
        if self.break_state.get() != Some(Break::Silent) {
            self.closed.get_or_insert(now + self.delay);
        }
    }

    /// Closes the reader's end.
    pub fn reset(&mut self, now: Duration) {
        if self.break_state.get() != Some(Break::Silent) {
            self.reset.get_or_insert(now + self.delay);
        }
    }
}
