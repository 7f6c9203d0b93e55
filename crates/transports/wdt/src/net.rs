//! Both ends over TCP: one thread and one blocking socket for each connection, which do what the
//! state machines ask for.

mod admission;
mod listener;
mod sending;
mod socket;

use std::time::{Duration, Instant};

pub use listener::Listener;
pub use sending::send;

use crate::failure::Failure;
use crate::status::Status;

/// How long a call blocks at most, so that a thread sees soon what another one found.
const SLICE: Duration = Duration::from_millis(200);

/// Time since the transfer began at this end.
#[derive(Clone, Copy)]
struct Clock(Instant);

impl Clock {
    fn start() -> Self {
        Self(Instant::now())
    }

    fn now(self) -> Duration {
        self.0.elapsed()
    }

    /// Sleeps until then, or for a slice.
    fn sleep_until(self, moment: Duration) {
        std::thread::sleep(moment.saturating_sub(self.now()).min(SLICE));
    }
}

fn stopped() -> Failure {
    Failure::new(Status::Abort, "the transfer was stopped here")
}

/// Ends the transfer when a thread of it dies, as the others would wait for its connection.
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
