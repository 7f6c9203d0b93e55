//! `regatta wdt`: transfer of files over Warp Data Transfer, outside of a study.
//!
//! The URL is printed by the receiver, on standard output, and nowhere else: it holds the key.

mod progress;
mod receive;
mod send;

use std::{
    io,
    net::{IpAddr, TcpStream},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use regatta_transport_wdt::{Failure, host::Host, status::Status};

use crate::{
    args::wdt::{WdtArgs, WdtCommand},
    exit,
    interrupt::Held,
    output::{self, Colour},
};

/// Number of refused connections that a receiver reports.
const REFUSALS_TOLD: usize = 5;

/// Error of an end, with the protocol's status and a hint.
#[derive(Debug)]
struct Trouble {
    status: Status,
    what: String,
    cause: String,
    hint: String,
}

impl Trouble {
    fn new(status: Status, what: impl Into<String>) -> Self {
        Self {
            status,
            what: what.into(),
            cause: String::new(),
            hint: String::new(),
        }
    }

    fn because(mut self, cause: impl ToString) -> Self {
        self.cause = cause.to_string();
        self
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    fn io(status: Status, what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::new(status, what).because(error)
    }

    fn render(&self, colour: bool) -> String {
        let cause = Some(self.cause.clone()).filter(|cause| !cause.is_empty());
        exit::failure(&self.what, cause.as_slice(), &self.hint, colour)
    }
}

/// Creates the error of a failed transfer, with a hint.
fn failed(what: &str, failure: &Failure) -> Trouble {
    let hint = match failure.status {
        Status::Connection | Status::ConnectionRetryable => {
            "look whether the other end still runs, and whether its ports can be reached from here"
        }
        Status::IdMismatch | Status::Encryption => {
            "give the sender the URL of this very receiver, which prints another one each time"
        }
        Status::FileWrite => {
            "make room or a place for the file at the receiver, and start both ends again"
        }
        Status::SourceRead => "make the file readable at the sender, and start both ends again",
        Status::Abort | Status::Timeout | Status::NoProgress => "start both ends again",
        _ => "",
    };
    Trouble::new(failure.status, what)
        .because(failure)
        .hint(hint)
}

/// Runs `regatta wdt`; returns the exit code.
pub fn wdt(args: &WdtArgs, colour: Colour) -> u8 {
    let done = match &args.command {
        WdtCommand::Receive(args) => receive::receive(args),
        WdtCommand::Send(args) => send::send(args),
    };
    match done {
        Ok(()) => 0,
        Err(trouble) => {
            output::styled(&trouble.render(colour.stderr));
            trouble.status.code()
        }
    }
}

/// Terminal of the transfer: messages and the stop signal.
struct Terminal {
    /// Whether this end sends, which tells the receiver before it stops.
    sends: bool,
    local: Option<IpAddr>,
    stopped: Arc<AtomicBool>,
    /// Time at which the sender connected, at a receiver.
    came: OnceLock<Instant>,
    /// Number of connections that were refused, at a receiver.
    refused: AtomicUsize,
}

impl Terminal {
    /// With a signal that ends the transfer in good order: unfinished files are removed.
    fn new(sends: bool, local: Option<IpAddr>) -> Result<Self, Trouble> {
        let stopped = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&stopped);
        Held::new()
            .map_err(io::Error::from)
            .and_then(|held| {
                let stop = move || stop.store(true, Ordering::Relaxed);
                held.end_with("stopping: the transfer is given up", stop, || {})
            })
            .map_err(Trouble::io(Status::Error, "cannot wait for signals"))?;
        Ok(Self {
            sends,
            local,
            stopped,
            came: OnceLock::new(),
            refused: AtomicUsize::new(0),
        })
    }
}

impl Terminal {
    /// Ends the transfer in good order when standard input ends.
    fn stop_at_end_of_input(&self) -> io::Result<()> {
        let stop = Arc::clone(&self.stopped);
        let work = move || {
            let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
            stop.store(true, Ordering::Relaxed);
        };
        thread::Builder::new()
            .name("end of input".to_owned())
            .spawn(work)
            .map(drop)
    }
}

impl Host for Terminal {
    fn local(&self) -> Option<IpAddr> {
        self.local
    }

    fn connected(&self, _port: u16, _socket: &Arc<TcpStream>, _took: Option<Duration>) {
        self.came.get_or_init(Instant::now);
    }

    fn refused(&self, peer: IpAddr, why: &Failure) {
        let before = self.refused.fetch_add(1, Ordering::Relaxed);
        if before < REFUSALS_TOLD {
            let last = before + 1 == REFUSALS_TOLD;
            let more = if last {
                "; no more of these are told"
            } else {
                ""
            };
            output::err(&format!(
                "warning: refused a connection from {peer}: {}{more}",
                why.detail
            ));
        }
    }

    fn stopped(&self) -> bool {
        !self.sends && self.stopped.load(Ordering::Relaxed)
    }

    fn gives_up(&self) -> bool {
        self.sends && self.stopped.load(Ordering::Relaxed)
    }
}
