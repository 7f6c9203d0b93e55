//! Hosts of a bed that are reached over sessions: other machines, and other guests.

use std::{
    fmt::Debug,
    io, mem,
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use regatta_model::PortRange;
pub use regatta_path_daemon::messages::Shaping;
use regatta_process::StopRequest;

use crate::{
    clocks::RemoteClock,
    error::BedError,
    launch::{Errors, Launched, Launcher},
    session::{NamespaceOf, Session},
};

/// Pause after the first failed attempt to reach a host; each pause is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// Maximum pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// Longest time for which a host is tried that was lost during a run.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(60);

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
    /// Ports on which the host may listen; `None` if any port will do.
    pub ports: Option<PortRange>,
    /// Way in which the path is shaped here.
    pub shaping: Shaping,
    /// Variables of the environment of processes there.
    pub environment: Vec<(String, String)>,
    /// Way to the host.
    pub connect: Box<dyn Connect>,
}

impl HostEnd {
    /// Opens a session with a host that was lost, in several attempts; the error of the last one is
    /// returned. Gives up at the stop.
    pub(crate) fn reconnect(&self, stop: &StopRequest) -> Result<Session, BedError> {
        let until = Instant::now() + RECONNECT_TIMEOUT;
        let mut pause = FIRST_PAUSE;
        loop {
            let error = match self.connect.connect() {
                Ok(session) => return Ok(session),
                Err(error) => error,
            };
            if Instant::now() + pause >= until || stop.sleep(pause) {
                return Err(error);
            }
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }
}

/// Checks that both hosts are attached to the path in the same way.
///
/// # Errors
/// [`BedError::Refused`] if they are not.
pub(crate) fn attached_alike(ends: &[HostEnd; 2]) -> Result<(), BedError> {
    let [a, b] = ends.each_ref().map(|end| mem::discriminant(&end.shaping));
    if a == b {
        return Ok(());
    }
    let reason = "its hosts are attached to the path in different ways";
    let hint = "give both the same `attach` in the hosts file";
    Err(BedError::refused("be made", reason, hint))
}

/// Starts processes on a host over a session.
#[derive(Debug, Clone)]
pub struct SessionLauncher {
    /// Name of the host in errors.
    host: String,
    session: Session,
    namespace: Option<NamespaceOf>,
    /// Variables of the processes' environment.
    environment: Vec<(String, String)>,
}

impl SessionLauncher {
    /// Returns a launcher on the host of a session; `host` is its name in errors.
    #[must_use]
    pub const fn new(host: String, session: Session) -> Self {
        Self {
            host,
            session,
            namespace: None,
            environment: Vec::new(),
        }
    }

    /// Returns a launcher whose processes have these variables, too.
    #[must_use]
    pub fn with_environment(self, environment: Vec<(String, String)>) -> Self {
        Self {
            environment,
            ..self
        }
    }

    /// Returns a launcher of processes in a network namespace there, which a file of `process` holds.
    pub(crate) fn within(&self, process: u32, file: i32) -> Self {
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
            .launch(arguments, (self.namespace, &self.environment), errors)
            .map_err(|source| self.lost(source))
    }

    /// Makes the error of a host that does not answer.
    pub(crate) fn lost(&self, source: io::Error) -> BedError {
        BedError::Host {
            host: self.host.clone(),
            source,
        }
    }
}

impl Launcher for SessionLauncher {
    fn clock(&self) -> Option<Arc<dyn RemoteClock>> {
        Some(Arc::new(self.session.clone()))
    }

    fn launch(&mut self, command: &str, errors: Errors) -> Result<Launched, BedError> {
        self.start(&[command], errors)
    }

    fn daemon_error(&self, error: BedError) -> BedError {
        match (error, self.session.ended()) {
            (BedError::TimedOut(_) | BedError::DaemonEnded { .. }, Some(reason)) => {
                self.lost(io::Error::other(reason))
            }
            (BedError::TimedOut(within), None) => self.lost(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("its path daemon gave no answer within {within:?}"),
            )),
            (BedError::Refused { what, source }, _) => BedError::Refused {
                what,
                source: source.of_host(&self.host),
            },
            (other, _) => other,
        }
    }
}
