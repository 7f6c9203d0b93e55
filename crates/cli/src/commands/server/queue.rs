//! Turns of the clients of a server.

use std::{collections::VecDeque, io, time::Duration};

use parking_lot::{Condvar, Mutex};

/// Time between two messages to a waiting client.
const UPDATE_INTERVAL: Duration = Duration::from_secs(1);

/// Clients that measure, and those that wait for their turn, in the order of their arrival.
#[derive(Debug)]
pub struct Queue {
    parallel: usize,
    max_clients: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    running: usize,
    waiting: VecDeque<u64>,
}

/// Slot of a client that measures, which is freed when this is dropped.
#[derive(Debug)]
pub struct QueueSlot<'a>(&'a Queue);

/// Reason why a client gets no turn.
#[derive(Debug)]
pub enum QueueError {
    /// There are too many clients.
    Full,
    /// The client has disconnected while it waited.
    Disconnected,
}

impl Queue {
    /// Makes a queue in which `parallel` clients measure at once. `max_clients` includes those that wait.
    pub fn new(parallel: usize, max_clients: usize) -> Self {
        Self {
            parallel,
            max_clients: max_clients.max(parallel),
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Waits for the turn of a client. `send_position` sends the number of clients ahead, and fails once the client has
    /// disconnected.
    ///
    /// # Errors
    /// [`QueueError`].
    pub fn enter(
        &self,
        client: u64,
        mut send_position: impl FnMut(usize) -> io::Result<()>,
    ) -> Result<QueueSlot<'_>, QueueError> {
        let mut state = self.state.lock();
        if state.running + state.waiting.len() >= self.max_clients {
            return Err(QueueError::Full);
        }
        state.waiting.push_back(client);
        loop {
            let position = state.waiting.iter().position(|it| *it == client);
            let position = position.unwrap_or_default();
            if position == 0 && state.running < self.parallel {
                state.waiting.pop_front();
                state.running += 1;
                drop(state);
                // The next one may have a turn, too.
                self.changed.notify_all();
                return Ok(QueueSlot(self));
            }
            let ahead = position + state.running;
            drop(state);
            let sent = send_position(ahead);
            state = self.state.lock();
            if sent.is_err() {
                state.waiting.retain(|it| *it != client);
                drop(state);
                self.changed.notify_all();
                return Err(QueueError::Disconnected);
            }
            let is_first = state.waiting.front() == Some(&client);
            if !(is_first && state.running < self.parallel) {
                self.changed.wait_for(&mut state, UPDATE_INTERVAL);
            }
        }
    }
}

impl Drop for QueueSlot<'_> {
    fn drop(&mut self) {
        self.0.state.lock().running -= 1;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::mpsc::{self, Sender},
        thread,
    };

    use super::*;

    fn no_messages(_: usize) -> io::Result<()> {
        Ok(())
    }

    #[test]
    fn clients_are_served_in_order_of_arrival() {
        let queue = Queue::new(1, 10);
        let (order, turns) = mpsc::channel();
        let enter = |client: u64, waits: Sender<()>, order: Sender<u64>| {
            let send_position = |ahead: usize| {
                assert!(ahead > 0);
                let _ = waits.send(());
                Ok(())
            };
            let _turn = queue.enter(client, send_position).expect("a turn");
            order.send(client).expect("received");
        };
        thread::scope(|scope| {
            let first = queue.enter(0, no_messages).expect("it is free");
            for client in 1..=5 {
                let (waits, waiting) = mpsc::channel();
                let order = order.clone();
                let enter = &enter;
                scope.spawn(move || enter(client, waits, order));
                waiting.recv().expect("it waits");
            }
            drop(first);
        });
        drop(order);
        assert_eq!(turns.iter().collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn full_queue_refuses_clients_and_disconnected_ones_free_their_slot() {
        let queue = Queue::new(1, 2);
        let turn = queue.enter(0, no_messages).expect("it is free");
        let disconnected = queue.enter(1, |_| Err(io::ErrorKind::BrokenPipe.into()));
        assert!(matches!(disconnected, Err(QueueError::Disconnected)));
        let full = queue.enter(2, |_| {
            assert!(matches!(queue.enter(3, no_messages), Err(QueueError::Full)));
            Err(io::ErrorKind::BrokenPipe.into())
        });
        assert!(matches!(full, Err(QueueError::Disconnected)));
        drop(turn);
        assert!(queue.enter(4, no_messages).is_ok());
    }
}
