//! Hosts of a bed that are reached over sessions: other machines, and other guests.

use std::{
    fmt::Debug,
    io,
    net::IpAddr,
    thread,
    time::{Duration, Instant},
};

use crate::{
    error::BedError,
    launch::{Errors, Launched, Launcher},
    session::{NamespaceOf, Session},
};

/// First pause before a host that could not be reached is tried again, and the longest; each pause is
/// twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// Time between two looks at whether the run is to stop.
const LOOK: Duration = Duration::from_millis(100);

/// Longest time for which a host is tried that was lost during a run.
const RECONNECT_WITHIN: Duration = Duration::from_secs(60);

/// Opens sessions with one host.
pub trait Connect: Debug {
    /// Opens a session. May be called again after a session has ended.
    ///
    /// # Errors
    /// [`BedError::Session`].
    fn connect(&self) -> Result<Session, BedError>;
}

/// One host of the bed `hosts`.
#[derive(Debug)]
pub struct HostEnd {
    /// Name in the hosts file.
    pub name: String,
    /// Address on the path.
    pub address: IpAddr,
    /// Interface of the host for a macvlan with the address, and the length of the address's prefix; absent, the
    /// network is used as it is.
    pub macvlan: Option<(String, u8)>,
    /// Way to the host.
    pub connect: Box<dyn Connect>,
}

impl HostEnd {
    /// Opens a session with a host that was lost, in several attempts; the error of the last one is
    /// returned. Gives up early once `is_stopped`.
    pub(crate) fn reconnect(&self, is_stopped: &dyn Fn() -> bool) -> Result<Session, BedError> {
        let until = Instant::now() + RECONNECT_WITHIN;
        let mut pause = FIRST_PAUSE;
        loop {
            let error = match self.connect.connect() {
                Ok(session) => return Ok(session),
                Err(error) => error,
            };
            let next = Instant::now() + pause;
            while Instant::now() < next {
                if is_stopped() || next >= until {
                    return Err(error);
                }
                thread::sleep(LOOK);
            }
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }
}

/// Starts processes on a host over a session.
#[derive(Debug, Clone)]
pub struct SessionLauncher {
    /// Name of the host in errors.
    host: String,
    session: Session,
    namespace: Option<NamespaceOf>,
}

impl SessionLauncher {
    /// Returns a launcher on the host of a session; `host` is its name in errors.
    #[must_use]
    pub const fn new(host: String, session: Session) -> Self {
        Self {
            host,
            session,
            namespace: None,
        }
    }

    /// Returns a launcher of processes in a network namespace there, which a file of the process
    /// `daemon` holds.
    pub(crate) fn within(&self, daemon: u32, file: i32) -> Self {
        let process = daemon;
        Self {
            namespace: Some(NamespaceOf { process, file }),
            ..self.clone()
        }
    }

    /// Starts `regatta` with these arguments on the host.
    ///
    /// # Errors
    /// [`BedError::Host`] if the session has ended.
    pub fn start(&self, arguments: &[&str], errors: Errors) -> Result<Launched, BedError> {
        self.session
            .launch(arguments, self.namespace, errors)
            .map_err(|source| self.lost(source))
    }

    fn lost(&self, source: io::Error) -> BedError {
        BedError::Host {
            host: self.host.clone(),
            source,
        }
    }
}

impl Launcher for SessionLauncher {
    fn launch(&mut self, command: &str, errors: Errors) -> Result<Launched, BedError> {
        self.start(&[command], errors)
    }

    fn daemon_error(&self, error: BedError) -> BedError {
        match (error, self.session.ended()) {
            (BedError::TimedOut(_) | BedError::Gone { .. }, Some(reason)) => {
                self.lost(io::Error::other(reason))
            }
            (BedError::TimedOut(within), None) => self.lost(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("its path daemon gave no answer within {within:?}"),
            )),
            (other, _) => other,
        }
    }
}
