//! Ends of the path that the daemons of its hosts make.

use std::{io, net::IpAddr};

use regatta_control::Host;
use regatta_model::PathSetup;
use regatta_path_daemon::messages::{DAEMON_PROTOCOL_VERSION, End, HelloReply, PathForm, ToDaemon};

use super::ANSWER_TIMEOUT;
use crate::{
    daemon_process::DaemonProcess,
    error::BedError,
    hosts::{HostEnd, SessionLauncher, Shaping},
    launch::Launcher,
    session::Session,
};

/// Path daemon of a host that was started over a session, and the request for its end of the path.
pub(super) struct StartingEnd<'a> {
    end: &'a HostEnd,
    launcher: SessionLauncher,
    daemon: DaemonProcess,
    sent: io::Result<()>,
}

/// End of the path that a host's daemon has made.
pub(super) struct StartedEnd {
    /// Launcher of the host's processes.
    pub(super) launcher: Box<dyn Launcher>,
    pub(super) daemon: DaemonProcess,
    pub(super) path: PathForm,
}

impl<'a> StartingEnd<'a> {
    /// Starts the daemon over a session; `addresses` are those of both hosts on the path.
    pub(super) fn new(
        end: &'a HostEnd,
        host: Host,
        (session, addresses): (Session, [IpAddr; 2]),
        path: PathSetup,
        run_id: &str,
    ) -> Result<Self, BedError> {
        let mut launcher = SessionLauncher::new(format!("host `{}`", end.name), session)
            .with_environment(end.environment.clone());
        let order = End {
            host,
            addresses,
            shaping: end.shaping.clone(),
        };
        let mut daemon = DaemonProcess::start(&mut launcher)?;
        let sent = daemon.put(&hello(path, run_id, Some(order)));
        Ok(Self {
            end,
            launcher,
            daemon,
            sent,
        })
    }

    /// Waits until the daemon has made its end.
    pub(super) fn finish(mut self) -> Result<StartedEnd, BedError> {
        let reply = self.daemon.answer(self.sent, REQUEST_NAME, ANSWER_TIMEOUT);
        let reply = checked(reply.map_err(|error| self.launcher.daemon_error(error))?)?;
        let launcher = match (&self.end.shaping, &reply.namespaces[..]) {
            (Shaping::Macvlan { .. }, [file]) => self.launcher.within(self.daemon.id(), *file),
            _ => self.launcher,
        };
        Ok(StartedEnd {
            launcher: Box::new(launcher),
            daemon: self.daemon,
            path: reply.path,
        })
    }
}

/// Name of the request for a path in errors.
const REQUEST_NAME: &str = "be made";

/// Starts a path daemon and has it make the path with `N` hosts: both, or the one of an `end`. Returns the files that hold
/// their network namespaces, too.
pub(super) fn start<const N: usize>(
    launcher: &mut dyn Launcher,
    path: PathSetup,
    run_id: &str,
    end: Option<End>,
) -> Result<(DaemonProcess, HelloReply, [i32; N]), BedError> {
    let mut daemon = DaemonProcess::start(launcher)?;
    let reply =
        checked(daemon.request(&hello(path, run_id, end), REQUEST_NAME, ANSWER_TIMEOUT)?)?;
    match <[i32; N]>::try_from(&reply.namespaces[..]) {
        Ok(files) => Ok((daemon, reply, files)),
        Err(_) => Err(unexpected(&reply)),
    }
}

fn hello(path: PathSetup, run_id: &str, end: Option<End>) -> ToDaemon {
    ToDaemon::Hello {
        protocol: DAEMON_PROTOCOL_VERSION,
        run_id: run_id.to_owned(),
        path,
        end,
    }
}

fn checked(reply: HelloReply) -> Result<HelloReply, BedError> {
    match reply.protocol {
        DAEMON_PROTOCOL_VERSION => Ok(reply),
        _ => Err(unexpected(&reply)),
    }
}

fn unexpected(reply: &HelloReply) -> BedError {
    BedError::Protocol {
        line: format!("{reply:?}"),
    }
}
