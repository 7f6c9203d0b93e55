//! Hosts of a study that are reached by SSH.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use regatta_bed::{
    BedError,
    hosts::{Connect, HostEnd},
    session::{SILENCE, Session, SessionError},
};
use regatta_ssh::{AgentFile, Arrival, ArrivalError, Destination};

use crate::{exit::Failure, run::no_bed};

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
    let entries = read(hosts_file)?;
    let file = AgentFile::prepare(executable, &cache()?).map_err(Failure::failed)?;
    let file = Arc::new(file);
    let reach = |name: &str| {
        let entry = match entries.get(name) {
            Some(entry) => entry.clone(),
            None if name == "local" => Entry::default(),
            None => {
                return Err(Failure::input(
                    format!("the hosts file has no host `{name}`"),
                    format!("add it with `regatta hosts add {name} USER@ADDRESS`"),
                ));
            }
        };
        let connector = Connector {
            name: name.to_owned(),
            destination: Destination {
                ssh: entry.ssh,
                key: entry.key,
                become_words: entry.become_words,
                agent: entry.agent,
                options: entry.ssh_options.into_iter().map(Into::into).collect(),
            },
            file: Arc::clone(&file),
            executable: executable.to_owned(),
            first: Mutex::default(),
        };
        let (session, addresses) = connector.open().map_err(no_bed)?;
        *connector
            .first
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(session);
        Ok((connector, entry.address, addresses))
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

/// Table of the hosts file.
#[derive(Debug, Clone, Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Entry {
    ssh: Option<String>,
    ssh_options: Vec<String>,
    address: Option<IpAddr>,
    key: Option<PathBuf>,
    #[serde(rename = "become")]
    become_words: Vec<String>,
    agent: Option<PathBuf>,
}

fn read(hosts_file: Option<&Path>) -> Result<BTreeMap<String, Entry>, Failure> {
    let path = hosts_file.map_or_else(|| PathBuf::from("hosts.toml"), Path::to_owned);
    let text = std::fs::read_to_string(&path).map_err(Failure::bad)?;
    toml::from_str(&text).map_err(Failure::bad)
}

/// Returns the directory for files that are sent to hosts.
fn cache() -> Result<PathBuf, Failure> {
    let named = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let usual = std::env::home_dir().map(|home| home.join(".cache"));
    let base = named.filter(|path| path.is_absolute()).or(usual);
    let base = base.ok_or_else(|| {
        Failure::input(
            "there is no home directory",
            "set `HOME` or `XDG_CACHE_HOME`",
        )
    })?;
    Ok(base.join("regatta").join("agents"))
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
