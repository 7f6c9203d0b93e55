//! Ends of the path that the daemons of its hosts make.

use std::{io, net::IpAddr};

use regatta_control::Host;
use regatta_model::PathSetup;

use super::{ANSWER_WITHIN, unexpected};
use crate::{
    daemon_process::DaemonProcess,
    error::BedError,
    hosts::{HostEnd, SessionLauncher, Shaping},
    launch::Launcher,
    messages::{Attach, DAEMON_PROTOCOL_VERSION, End, FromDaemon, PathForm, ToDaemon},
    session::Session,
};

/// Path daemon of a host that was started over a session and told which end of the path to make.
pub(super) struct StartingEnd {
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

impl StartingEnd {
    /// Starts the daemon over a session; `addresses` are those of both hosts on the path.
    pub(super) fn new(
        end: &HostEnd,
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
            attach: match end.shaping.clone() {
                Shaping::None => Attach::AsIs,
                Shaping::Macvlan { parent, prefix } => Attach::Macvlan { parent, prefix },
                Shaping::Interface { name, ssh_ports } => Attach::Interface { name, ssh_ports },
            },
        };
        let mut daemon = DaemonProcess::start(&mut launcher)?;
        let asked = daemon.put(&Ends::hello(path, run_id, Some(order)));
        Ok(Self {
            launcher,
            daemon,
            asked,
        })
    }

    /// Waits until the daemon has made its end.
    pub(super) fn finish(self, end: &HostEnd) -> Result<StartedEnd, BedError> {
        let Self {
            launcher,
            mut daemon,
            asked,
        } = self;
        let answer = daemon.answer(asked, Ends::MADE, ANSWER_WITHIN);
        let ends = Ends::made(answer.map_err(|error| launcher.daemon_error(error))?)?;
        let launcher = match (&end.shaping, &ends.namespaces[..]) {
            (Shaping::Macvlan { .. }, [file]) => launcher.within(daemon.id(), *file),
            _ => launcher,
        };
        Ok(StartedEnd {
            launcher: Box::new(launcher),
            daemon,
            path: ends.path,
        })
    }
}

/// Path that a daemon has made: the whole path, or one end of it.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) user_namespace: bool,
    /// Files of the daemon that hold the hosts' network namespaces.
    pub(super) namespaces: Vec<i32>,
    pub(super) path: PathForm,
}

impl Ends {
    /// Name of the request for a path in errors.
    const MADE: &str = "be made";

    /// Starts a path daemon and has it make the path, or one `end` of it.
    pub(super) fn start(
        launcher: &mut dyn Launcher,
        path: PathSetup,
        run_id: &str,
        end: Option<End>,
    ) -> Result<(DaemonProcess, Self), BedError> {
        let mut daemon = DaemonProcess::start(launcher)?;
        let hello = Self::hello(path, run_id, end);
        let made = Self::made(daemon.ask(&hello, Self::MADE, ANSWER_WITHIN)?)?;
        Ok((daemon, made))
    }

    fn hello(path: PathSetup, run_id: &str, end: Option<End>) -> ToDaemon {
        ToDaemon::Hello {
            protocol: DAEMON_PROTOCOL_VERSION,
            run_id: run_id.to_owned(),
            path,
            end,
        }
    }

    fn made(answer: FromDaemon) -> Result<Self, BedError> {
        match answer {
            FromDaemon::Up {
                protocol: DAEMON_PROTOCOL_VERSION,
                user_namespace,
                namespaces,
                path,
            } => Ok(Self {
                user_namespace,
                namespaces,
                path,
            }),
            other => Err(unexpected(&other)),
        }
    }
}
