//! `regatta wdt`: transfer of files over Warp Data Transfer, outside of a study.
//!
//! The URL is printed by the receiver, on standard output, and nowhere else: it holds the key.

mod progress;
mod receive;
mod send;

use std::{
    io,
    net::{IpAddr, SocketAddr, TcpStream},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use wdt_protocol::{self as transport_wdt, host::Host, status::Status, waker::Wakers};

use crate::{
    args::wdt::{WdtArgs, WdtCommand},
    exit::{Code, Failure, OrFailure as _, Result},
    interrupt::Held,
    output,
};

/// Number of refused connections that a receiver reports.
const MAX_REPORTED_REFUSALS: usize = 5;

/// Creates the error of an end, whose exit code is the protocol's.
fn transfer_error(status: Status, message: impl Into<String>) -> Failure {
    Failure::message(message).code(status)
}

impl From<Status> for Code {
    fn from(status: Status) -> Self {
        Self::Of(status.code())
    }
}

/// Creates the error of a failed transfer, with a hint.
fn failed(message: &str, failure: transport_wdt::Failure) -> Failure {
    let status = failure.status;
    let hint = match status {
        Status::Connection | Status::ConnectionRetryable => {
            "look whether the other end still runs, and whether its ports can be reached from here"
        }
        Status::SocketRead | Status::SocketWrite => {
            "look whether the other end still runs, and whether the sender has the URL of this very receiver"
        }
        Status::IdMismatch | Status::Encryption => {
            "give the sender the URL of this very receiver, which prints another one each time"
        }
        Status::Protocol => {
            "give the sender the URL of this very receiver; if it has that one, the other end has a fault"
        }
        Status::FileWrite => {
            "make room or a place for the file at the receiver, or let it replace files with `--overwrite`, and start both ends again"
        }
        Status::SourceRead => {
            "make the file readable at the sender, or leave it out with `--exclude`, and start both ends again"
        }
        Status::Abort | Status::Timeout | Status::NoProgress => "start both ends again",
        _ => "",
    };
    (Failure::failed(failure).context(message).hint(hint)).code(status)
}

/// Runs `regatta wdt`.
///
/// # Errors
/// A transfer that does not come to its end; the exit code is the protocol's.
pub fn wdt(args: &WdtArgs) -> Result<Code> {
    match &args.command {
        WdtCommand::Receive(args) => receive::receive(args),
        WdtCommand::Send(args) => send::send(args),
    }
}

/// Request to stop the transfer.
#[derive(Default)]
struct Stop {
    is_requested: AtomicBool,
    /// Threads that the request wakes, once they run.
    threads: Mutex<Wakers>,
}

impl Stop {
    fn request(&self) {
        self.is_requested.store(true, Ordering::Relaxed);
        self.threads.lock().wake();
    }
}

/// Terminal of the transfer: messages and the stop signal.
struct Terminal {
    /// Whether this end sends. A sender notifies the receiver before it stops.
    sends: bool,
    local: Option<SocketAddr>,
    stop: Arc<Stop>,
    /// Time at which the sender connected, at a receiver.
    connected_at: OnceLock<Instant>,
    /// Number of connections that were refused, at a receiver.
    refused: AtomicUsize,
}

impl Terminal {
    /// With a signal that ends the transfer in good order: unfinished files are removed.
    fn new(sends: bool, local: Option<SocketAddr>) -> Result<Self> {
        let stop = Arc::<Stop>::default();
        let signal_stop = Arc::clone(&stop);
        Held::new()
            .map_err(io::Error::from)
            .and_then(|held| {
                let stop = move || signal_stop.request();
                held.end_with("stopping: the transfer is given up", stop, || {})
            })
            .context("cannot wait for signals")
            .code(Status::Error)?;
        Ok(Self {
            sends,
            local,
            stop,
            connected_at: OnceLock::new(),
            refused: AtomicUsize::new(0),
        })
    }

    /// Ends the transfer in good order when standard input ends.
    fn stop_at_end_of_input(&self) -> Result<()> {
        let stop = Arc::clone(&self.stop);
        let work = move || {
            let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
            stop.request();
        };
        thread::Builder::new()
            .name("end of input".to_owned())
            .spawn(work)
            .map(drop)
            .context("cannot start a thread")
            .code(Status::Error)
    }
}

impl Host for Terminal {
    fn begins(&self, wakers: &Wakers) {
        *self.stop.threads.lock() = wakers.clone();
    }

    fn local(&self) -> Option<SocketAddr> {
        self.local
    }

    fn connected(&self, _port: u16, _socket: &Arc<TcpStream>, _took: Option<Duration>) {
        self.connected_at.get_or_init(Instant::now);
    }

    fn refused(&self, peer: IpAddr, failure: &transport_wdt::Failure) {
        let before = self.refused.fetch_add(1, Ordering::Relaxed);
        if before < MAX_REPORTED_REFUSALS {
            let more = match before + 1 {
                MAX_REPORTED_REFUSALS => "; no more of these are told",
                _ => "",
            };
            output::err(&format!(
                "warning: refused a connection from {peer}: {}{more}",
                failure.detail
            ));
        }
    }

    fn stopped(&self) -> bool {
        !self.sends && self.stop.is_requested.load(Ordering::Relaxed)
    }

    fn gives_up(&self) -> bool {
        self.sends && self.stop.is_requested.load(Ordering::Relaxed)
    }
}
