//! Both ends over TCP: one thread and one blocking socket for each connection, driven by the state
//! machines.

mod admission;
mod listener;
mod sending;
mod socket;
mod thread;

use std::time::{Duration, Instant};

pub use listener::Listener;
pub use sending::send;

use crate::failure::Failure;
use crate::status::Status;

/// Maximum duration of a blocking call, so that a thread soon notices changes made by another one.
const SLICE: Duration = Duration::from_millis(200);

/// Clock of the time since the transfer began at this end.
#[derive(Clone, Copy)]
struct Clock(Instant);

impl Clock {
    fn start() -> Self {
        Self(Instant::now())
    }

    fn now(self) -> Duration {
        self.0.elapsed()
    }

    /// Sleeps until `moment`, at most for [`SLICE`].
    fn sleep_until(self, moment: Duration) {
        std::thread::sleep(moment.saturating_sub(self.now()).min(SLICE));
    }
}

fn stopped() -> Failure {
    Failure::new(Status::Abort, "the transfer was stopped here")
}

/// Ends the transfer when a thread of it panics, as the others would wait for its connection.
struct EndsWithThread<F: Fn(Failure)>(F);

impl<F: Fn(Failure)> Drop for EndsWithThread<F> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            (self.0)(Failure::new(Status::Error, "a thread of the transfer died"));
        }
    }
}

fn no_thread(error: &std::io::Error) -> Failure {
    Failure::new(Status::Error, format!("cannot start a thread ({error})"))
}
