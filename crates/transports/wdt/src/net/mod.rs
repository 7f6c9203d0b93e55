//! Both ends over TCP: one thread and one blocking socket for each connection, driven by the state
//! machines.

mod admission;
mod listener;
mod sending;
mod socket;
mod thread;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

pub use listener::Listener;
pub use sending::send;

use crate::failure::Failure;
use crate::status::Status;

/// Maximum duration of a blocking call, so that a thread soon notices changes made by another one.
const SLICE: Duration = Duration::from_millis(200);

fn stopped() -> Failure {
    Failure::new(Status::Abort, "the transfer was stopped here")
}

/// Runs each job on a thread of its own and waits for all; `fail` is told of a thread that cannot be
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
