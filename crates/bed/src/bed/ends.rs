//! Ends of the path that the daemons of its hosts make.

use std::{io, net::IpAddr};

use regatta_control::Host;
use regatta_model::PathSetup;

use super::ANSWER_WITHIN;
use crate::{
    daemon_process::DaemonProcess,
    error::BedError,
    hosts::{HostEnd, SessionLauncher, Shaping},
    launch::Launcher,
    messages::{DAEMON_PROTOCOL_VERSION, End, Made, PathForm, ToDaemon},
    session::Session,
};

/// Path daemon of a host that was started over a session and told which end of the path to make.
pub(super) struct StartingEnd<'a> {
    end: &'a HostEnd,
    launcher: SessionLauncher,
    daemon: DaemonProcess,
    asked: io::Result<()>,
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
        let asked = daemon.put(&hello(path, run_id, Some(order)));
        Ok(Self {
            end,
            launcher,
            daemon,
            asked,
        })
    }

    /// Waits until the daemon has made its end.
    pub(super) fn finish(mut self) -> Result<StartedEnd, BedError> {
        let made = self.daemon.answer(self.asked, MADE, ANSWER_WITHIN);
        let made = checked(made.map_err(|error| self.launcher.daemon_error(error))?)?;
        let launcher = match (&self.end.shaping, &made.namespaces[..]) {
            (Shaping::Macvlan { .. }, [file]) => self.launcher.within(self.daemon.id(), *file),
            _ => self.launcher,
        };
        Ok(StartedEnd {
            launcher: Box::new(launcher),
            daemon: self.daemon,
            path: made.path,
        })
    }
}

/// Name of the request for a path in errors.
const MADE: &str = "be made";

/// Starts a path daemon and has it make the path with `N` hosts: both, or the one of an `end`. Returns the files that hold
/// their network namespaces, too.
pub(super) fn start<const N: usize>(
    launcher: &mut dyn Launcher,
    path: PathSetup,
    run_id: &str,
    end: Option<End>,
) -> Result<(DaemonProcess, Made, [i32; N]), BedError> {
    let mut daemon = DaemonProcess::start(launcher)?;
    let made = checked(daemon.ask(&hello(path, run_id, end), MADE, ANSWER_WITHIN)?)?;
    match <[i32; N]>::try_from(&made.namespaces[..]) {
        Ok(files) => Ok((daemon, made, files)),
        Err(_) => Err(unexpected(&made)),
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

fn checked(made: Made) -> Result<Made, BedError> {
    match made.protocol {
        DAEMON_PROTOCOL_VERSION => Ok(made),
        _ => Err(unexpected(&made)),
    }
}

fn unexpected(made: &Made) -> BedError {
    BedError::Protocol {
        line: format!("{made:?}"),
    }
}
