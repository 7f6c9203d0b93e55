//! Hosts of a study that are reached by SSH.

use std::{
    fs::File,
    io::Read,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use regatta_bed::{
    BedError, Errors, Launcher as _,
    hosts::{Connect, HostEnd, SessionLauncher},
    session::{SILENCE, Session, SessionError},
};
use regatta_model::{shell::printable, study::RemoteHost, units::format_duration};
use regatta_ssh::{AgentFile, Arrival, ArrivalError, Destination};

use crate::{
    exit::{Code, Failure},
    hosts_file::{HostsFile, cache_directory},
    output,
    run::{no_bed, own_executable},
};

/// Longest time between two lines of a host before the session begins: a connection may have to be
/// made through other hosts, and a file sent.
const GREETING_WITHIN: Duration = Duration::from_secs(30);

/// Returns the two hosts with these names, each reached once.
///
/// # Errors
/// Mistakes in the hosts file; hosts that cannot be reached.
pub fn ends(
    names: [&str; 2],
    hosts_file: Option<&Path>,
    executable: &Path,
) -> Result<[HostEnd; 2], Failure> {
    let hosts = HostsFile::read_or_new(hosts_file)?;
    let file = Arc::new(agent_file(executable)?);
    let reach = |name: &str| {
        let host = hosts.host(name)?;
        let connector = Connector::new(name, &host, &file, executable);
        let (session, addresses) = connector.open().map_err(no_bed)?;
        *connector
            .first
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(session);
        Ok((connector, host.address, addresses))
    };
    let [a, b] = names;
    let (a, b) = (reach(a)?, reach(b)?);
    // As the connections show them: this machine's address towards the other host, and that host's.
    let address = |host: &(Connector, Option<IpAddr>, Option<[IpAddr; 2]>),
                   other: Option<[IpAddr; 2]>| {
        let (connector, given, own) = host;
        let seen = match &connector.destination.ssh {
            Some(_) => own.map(|[_, server]| server),
            None => other.map(|[client, _]| client),
        };
        given.or(seen).ok_or_else(|| {
            Failure::input(
                format!(
                    "the address of host `{}` on the path is unknown",
                    connector.name
                ),
                "write `address = \"…\"` into its table of the hosts file",
            )
        })
    };
    let addresses = [address(&a, b.2)?, address(&b, a.2)?];
    let end = |(connector, ..): (Connector, _, _), address| HostEnd {
        name: connector.name.clone(),
        address,
        connect: Box::new(connector),
    };
    Ok([end(a, addresses[0]), end(b, addresses[1])])
}

/// Prepares this program for sending.
fn agent_file(executable: &Path) -> Result<AgentFile, Failure> {
    AgentFile::prepare(executable, &cache_directory()?.join("agents")).map_err(Failure::failed)
}

/// Runs `regatta hosts check`.
///
/// # Errors
/// If the host cannot be reached.
pub fn check(name: &str, hosts_file: Option<&Path>) -> Result<Code, Failure> {
    let host = HostsFile::read_or_new(hosts_file)?.host(name)?;
    let executable = own_executable()?;
    let file = Arc::new(agent_file(&executable)?);
    let connector = Connector::new(name, &host, &file, &executable);
    let begun = Instant::now();
    let (session, addresses) = connector.open().map_err(no_bed)?;
    let mut text = format!(
        "Host `{name}` is reached in {}.\n",
        format_duration(Duration::from_millis(begun.elapsed().as_millis() as u64))
    );
    if let Some([here, there]) = addresses {
        text.push_str(&format!("SSH goes from {here} to {there}.\n"));
    }
    match (host.address, addresses) {
        (Some(address), _) | (None, Some([_, address])) => {
            text.push_str(&format!("Transfers go to {address}.\n"));
        }
        (None, None) => text.push_str("The address of transfers is taken from the other host.\n"),
    }
    output::out(&text).map_err(Failure::failed)?;
    let doctor =
        SessionLauncher::new(format!("host `{name}`"), session).launch("doctor", Errors::Inherit);
    let mut doctor = doctor.map_err(no_bed)?;
    let mut found = String::new();
    File::from(doctor.output)
        .read_to_string(&mut found)
        .map_err(Failure::failed)?;
    doctor.process.ended(Duration::from_secs(10));
    output::out(&format!(
        "What Regatta can do there:\n{}",
        printable(&found)
    ))
    .map_err(Failure::failed)?;
    Ok(Code::Measured)
}

/// Way to a host, with the session that was opened first.
#[derive(Debug)]
struct Connector {
    name: String,
    destination: Destination,
    file: Arc<AgentFile>,
    executable: PathBuf,
    first: Mutex<Option<Session>>,
}

impl Connector {
    fn new(name: &str, host: &RemoteHost, file: &Arc<AgentFile>, executable: &Path) -> Self {
        let host = host.clone();
        Self {
            name: name.to_owned(),
            destination: Destination {
                ssh: host.ssh,
                key: host.key,
                become_words: host.become_words,
                agent: host.agent,
                options: host.ssh_options.into_iter().map(Into::into).collect(),
            },
            file: Arc::clone(file),
            executable: executable.to_owned(),
            first: Mutex::default(),
        }
    }

    /// Opens a session. Returns the addresses of this machine and of the host in the connection, too, if `ssh`
    /// made it.
    fn open(&self) -> Result<(Session, Option<[IpAddr; 2]>), BedError> {
        let command = self
            .destination
            .command(&self.file, &self.executable, SILENCE);
        let mut arrival = Arrival::new(&self.file, self.destination.agent.is_some());
        let session = Session::start(command, GREETING_WITHIN, SILENCE, &mut |line, input| {
            arrival.line(line, input).map_err(Into::into)
        });
        match session {
            Ok(session) => Ok((session, arrival.addresses)),
            Err(error) => Err(BedError::Session {
                host: format!("host `{}`", self.name),
                hint: self.hint(&error),
                source: Box::new(error),
            }),
        }
    }

    /// Returns a command that helps against an error of a session.
    fn hint(&self, error: &SessionError) -> String {
        let name = &self.name;
        match error {
            SessionError::Talk(error) => error
                .downcast_ref()
                .map_or_else(String::new, ArrivalError::hint),
            SessionError::Version { .. } => {
                format!(
                    "leave `agent` of `{name}` out of the hosts file, so that this Regatta is sent there"
                )
            }
            _ => match &self.destination.ssh {
                Some(destination) => format!(
                    "try `ssh {destination} true`; `regatta hosts add {name} {destination}` sets up a key"
                ),
                None => String::new(),
            },
        }
    }
}

impl Connect for Connector {
    fn connect(&self) -> Result<Session, BedError> {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        match first.take().filter(|session| session.ended().is_none()) {
            Some(session) => Ok(session),
            None => self.open().map(|(session, _)| session),
        }
    }
}
