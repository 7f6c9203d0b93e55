//! Both ends over TCP: one thread and one socket for each connection, driven by the state machines.
//!
//! A thread waits for its socket, for the deadline of its state machine and for its [waker](crate::waker), by which
//! the other threads and the program around the transfer notify it of changes.

mod admission;
mod listener;
mod sending;
mod socket;
mod thread;

use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use listener::Listener;
pub use sending::send;

use crate::failure::Failure;
use crate::status::Status;

fn stopped() -> Failure {
    Failure::new(Status::Abort, "the transfer was stopped here")
}

/// Returns an address of a socket with another port.
fn with_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}

fn no_waker(error: io::Error) -> Failure {
    Failure::new(Status::Error, format!("cannot make an eventfd ({error})"))
}

/// Runs each job on a thread of its own and waits for all; `fail` gets the error of a thread that cannot be
/// started or that panics, as the others would wait for its connection.
fn run_all<J: FnOnce() + Send>(
    name: &str,
    jobs: impl IntoIterator<Item = J>,
    fail: impl Fn(Failure) + Sync,
) {
    let failed = |detail: String| fail(Failure::new(Status::Error, detail));
    std::thread::scope(|scope| {
        for (index, job) in jobs.into_iter().enumerate() {
            let caught = || {
                if catch_unwind(AssertUnwindSafe(job)).is_err() {
                    failed("a thread of the transfer died".to_owned());
                }
            };
            let builder = std::thread::Builder::new().name(format!("{name}-{index}"));
            if let Err(error) = builder.spawn_scoped(scope, caught) {
                failed(format!("cannot start a thread ({error})"));
            }
        }
    });
}
