//! Hosts of a study that are reached by SSH.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, OnceLock},
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use regatta_bed::{
    BedError, Errors, Exit, Input, LaunchedProcess, StopRequest,
    hosts::{self, Connect, HostEnd, SessionLauncher},
    session::{Opening, SILENCE, Session, SessionError},
};
use regatta_model::{
    Condition, PortRange, Transport,
    study::{Attach, RemoteHost, Shaping},
    units::format_duration,
};
use regatta_process::{end_within, spawn_scoped};
use regatta_ssh::{
    AgentFile, Bootstrap, BootstrapError, Destination, FailedStep, NO_SESSION, Progress,
    old_key_removal,
};

use super::{
    address,
    file::{HostsFile, cache_directory},
    programs::{Programs, stderr_text},
};
use crate::exit::{Failure, OrFailure as _, Result, no_bed, refuse};

/// Longest time between two lines of a host before the session begins: a connection may have to be
/// made through other hosts, and a file sent.
const GREETING_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest time in which a connection kills a server that does not answer.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest time in which a receiver of files ends once the transfer has failed.
const FAILURE_TIMEOUT: Duration = Duration::from_secs(2);

/// Longest time in which a receiver of files gives them their names and writes them to its disk.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(600);

/// Returns the two hosts with these names, each reached once. They are shaped if one of the conditions asks for it, and
/// get the programs of `transports`. The stop ends their sessions at any time.
///
/// # Errors
/// Mistakes in the hosts file; hosts that cannot be reached.
pub fn ends(
    names: [&str; 2],
    (conditions, transports): (&[Condition], &[Transport]),
    hosts_file: Option<&Path>,
    stop: &StopRequest,
) -> Result<[HostEnd; 2]> {
    let is_shaped = conditions
        .iter()
        .any(|condition| !condition.changes_nothing());
    let hosts = HostsFile::read_or_new(hosts_file)?;
    // Mistakes are found before a host is reached.
    let resolve = |name: &str| {
        let mut host = hosts.host(name)?;
        refuse! {
            is_shaped && host.shaping.is_none() =>
                "the study gives the path a delay, losses or a rate, and host `{name}` has no `shaping`";
                "add `[{name}.shaping]` to `{}`, as docs/hosts.md says, or name another file with `--hosts-file`; without `--rtt` and the like the network is used as it is", hosts.path.display();
        }
        host.shaping = host.shaping.filter(|_| is_shaped);
        Ok((name.to_owned(), host))
    };
    let [a, b] = names;
    let named = vec![resolve(a)?, resolve(b)?];
    let mut programs = Programs::of(transports);
    let mut reach = |opened: Result<Opened>| {
        let opened = opened?;
        let environment = match opened.connector.destination.ssh {
            Some(_) => programs.on(
                &opened.name,
                &opened.session,
                opened.host.programs.as_deref(),
            )?,
            None => Vec::new(),
        };
        Ok::<_, Failure>((opened, environment))
    };
    let mut opened = open_all(named, stop)?.map(&mut reach);
    let mut next = || opened.next().expect("one for each");
    let [(a, of_a), (b, of_b)] = [next()?, next()?];
    let addresses = [a.address_towards(&b)?, b.address_towards(&a)?];
    let ports = [a.shaped_ssh_port()?, b.shaped_ssh_port()?];
    let ports: Vec<u16> = ports.into_iter().flatten().collect();
    Ok([
        a.end(addresses[0], &ports, of_a),
        b.end(addresses[1], &ports, of_b),
    ])
}

/// Prepares this program for sending.
pub fn agent_file(stop: &StopRequest) -> Result<AgentFile> {
    let cache = cache_directory()?.join("agents");
    // The file of this process for the programs that prepare it, too.
    let running = format!("/proc/{}/exe", std::process::id());
    AgentFile::prepare(running.as_ref(), &cache, stop).map_err(Failure::failed)
}

/// Host with which a session was opened.
pub struct Opened {
    /// Name in the hosts file.
    pub name: String,
    /// Its table of the hosts file.
    pub host: RemoteHost,
    /// Address in that table, or of the interface that is named there.
    pub address: Option<IpAddr>,
    /// Addresses of this machine and of the host in the connection, if `ssh` made it.
    pub addresses: Option<[IpAddr; 2]>,
    /// Time until the session was open.
    pub connect_time: Duration,
    session: Session,
    connector: Connector,
}

impl Opened {
    /// Returns a launcher of processes on the host.
    pub fn launcher(&self) -> SessionLauncher {
        SessionLauncher::new(format!("host `{}`", self.name), self.session.clone())
    }

    /// Returns the host of a bed with this address on the path, and these variables of the environment of processes there;
    /// `ssh_ports` are those of both hosts.
    fn end(
        self,
        address: IpAddr,
        ssh_ports: &[u16],
        environment: Vec<(String, String)>,
    ) -> HostEnd {
        *self.connector.first.lock() = Some(self.session);
        HostEnd {
            name: self.name,
            address,
            ports: self.host.ports,
            shaping: match self.host.shaping {
                None => hosts::Shaping::None,
                Some(Shaping { parent, attach }) => match attach {
                    Attach::Macvlan {
                        address: (_, prefix),
                    } => hosts::Shaping::Macvlan { parent, prefix },
                    Attach::Interface => hosts::Shaping::Interface {
                        name: parent,
                        ssh_ports: ssh_ports.to_vec(),
                    },
                },
            },
            environment,
            connect: Box::new(self.connector),
        }
    }

    fn attach(&self) -> Option<Attach> {
        self.host.shaping.as_ref().map(|shaping| shaping.attach)
    }

    /// Returns the port of the SSH server, whose packets on a shaped interface must be distinguished from others;
    /// `None` without such an interface, and for this machine.
    fn shaped_ssh_port(&self) -> Result<Option<u16>> {
        if self.attach() != Some(Attach::Interface) || self.connector.destination.ssh.is_none() {
            return Ok(None);
        }
        let port = self.connector.ssh_port.get().copied();
        port.map(Some).ok_or_else(|| {
            Failure::input(
                format!(
                    "host `{}` does not say which port its SSH server has, so that its connection could be shaped",
                    self.name
                ),
                "use `attach = \"macvlan\"` in the hosts file, or have the host set `SSH_CONNECTION`",
            )
        })
    }

    /// Returns the address on the path: that of the shaping or of the hosts file, or as the connections show it, this
    /// machine's address towards the other host.
    fn address_towards(&self, other: &Self) -> Result<IpAddr> {
        if let Some(Attach::Macvlan { address }) = self.attach() {
            return Ok(address.0.into());
        }
        let seen = match &self.connector.destination.ssh {
            Some(_) => self.addresses.map(|[_, server]| server),
            None => other.addresses.map(|[client, _]| client),
        };
        self.address.or(seen).ok_or_else(|| {
            Failure::input(
                format!("the address of host `{}` on the path is unknown", self.name),
                "write `address = \"…\"` into its table of the hosts file",
            )
        })
    }
}

/// Opens a session with each of these hosts, which the stop ends.
///
/// # Errors
/// Mistakes in the hosts file; hosts that cannot be reached.
pub fn open<'a>(
    names: impl IntoIterator<Item = &'a str>,
    hosts_file: Option<&Path>,
    stop: &StopRequest,
) -> Result<Vec<Opened>> {
    let hosts = HostsFile::read_or_new(hosts_file)?;
    let named = names.into_iter();
    let named = named
        .map(|name| Ok((name.to_owned(), hosts.host(name)?)))
        .collect::<Result<_>>()?;
    open_all(named, stop)?.collect()
}

/// Opens a session with each of these hosts, with all at the same time.
fn open_all(
    named: Vec<(String, RemoteHost)>,
    stop: &StopRequest,
) -> Result<impl Iterator<Item = Result<Opened>>> {
    let file = Arc::new(agent_file(stop)?);
    // Under its name, by which `become` may permit it.
    let executable = std::env::current_exe().context("cannot find this program's own file")?;
    let connectors: Vec<Connector> = named
        .iter()
        .map(|(name, host)| Connector::new(name, host, (&file, &executable), stop))
        .collect();
    // From this thread, with which the kernel ends what it has started.
    let openings: Vec<_> = connectors.iter().map(Connector::start).collect();
    let greeted: Vec<_> = thread::scope(|scope| {
        let openings = connectors.iter().zip(openings);
        let threads: Vec<_> = openings
            .map(|(connector, opening)| {
                let greet = move || opening.and_then(|opening| connector.greeted(opening));
                spawn_scoped(scope, greet).context("cannot start a thread")
            })
            .collect::<Result<_>>()?;
        let joined = threads.into_iter().map(thread::ScopedJoinHandle::join);
        let joined =
            joined.map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        Ok::<_, Failure>(joined.collect())
    })?;
    let opened = greeted.into_iter().zip(named).zip(connectors);
    Ok(opened.map(|((greeted, (name, host)), connector)| {
        let (session, addresses, connect_time) = greeted.map_err(no_bed)?;
        let address = address::resolve(host.address.as_ref(), &name, &session)?;
        Ok(Opened {
            name,
            host,
            address,
            addresses,
            connect_time,
            session,
            connector,
        })
    }))
}

/// Receiver of files on a host.
pub struct Receiver {
    /// Standard input: its end gives the transfer up.
    input: Option<Box<dyn Input>>,
    process: Box<dyn LaunchedProcess>,
    errors: Option<OwnedFd>,
    /// Connection URL that the receiver printed.
    pub url: String,
}

/// Whether this machine has a route to an address.
fn has_route(address: IpAddr) -> bool {
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // Nothing is sent; the port is that of the discard service.
    UdpSocket::bind((any, 0)).is_ok_and(|socket| socket.connect((address, 9)).is_ok())
}

/// Starts `regatta wdt receive` on a host, into a directory there. It runs with the rights of the account that logs in,
/// also where `become` gives more to trials, so that files go where that account may write and nowhere else.
///
/// # Errors
/// If the host cannot be reached or the receiver does not start.
pub fn receive(
    name: &str,
    directory: &str,
    overwrite: bool,
    hosts_file: Option<&Path>,
) -> Result<Receiver> {
    let mut host = HostsFile::read_or_new(hosts_file)?.host(name)?;
    host.become_command.clear();
    let named = vec![(name.to_owned(), host)];
    let stop = StopRequest::default();
    let mut opened = open_all(named, &stop)?;
    let opened = opened.next().expect("one for the host")?;
    let seen = opened.addresses.map(|[_, server]| server);
    // That of the path between the hosts need not be reached from here.
    let address = opened.address.filter(|address| has_route(*address));
    let address = address.or(seen);
    let address = address.unwrap_or(Ipv4Addr::LOCALHOST.into()).to_string();
    let mut receive = vec!["wdt", "receive", "--no-progress", "--until-end-of-input"];
    receive.extend(["--host", &address]);
    if overwrite {
        receive.push("--overwrite");
    }
    let ports = opened.host.ports.map(PortRange::bounds);
    // A port for each connection, no more than a receiver has by itself.
    let ports =
        ports.map(|(first, last)| (first.to_string(), ((last - first).min(7) + 1).to_string()));
    if let Some((first, count)) = &ports {
        receive.extend(["--start-port", first, "--ports", count]);
    }
    receive.extend(["--", directory]);
    let launcher = opened.launcher();
    let launched = launcher.start(&receive, Errors::Pipe).map_err(no_bed)?;
    let mut receiver = Receiver {
        input: Some(launched.input),
        process: launched.process,
        errors: launched.errors,
        url: String::new(),
    };
    BufReader::new(File::from(launched.output)).read_line(&mut receiver.url)?;
    if receiver.url.trim().is_empty() {
        let reason = receiver.end().unwrap_or_default();
        return Err(Failure::message(reason));
    }
    Ok(receiver)
}

impl Receiver {
    /// Returns the message of the receiver if it has failed. `None` for a receiver that still runs: it has no failure,
    /// is ended, and removes its files.
    pub fn failure(mut self) -> Option<String> {
        if self.process.ended(FAILURE_TIMEOUT).is_some() {
            return self.end();
        }
        self.input = None;
        let _ = self.process.ended(FAILURE_TIMEOUT);
        None
    }

    /// Waits for the end of the receiver. Returns its message if it failed.
    pub fn end(mut self) -> Option<String> {
        let status = self.process.ended(RECEIVE_TIMEOUT);
        if status.as_ref().is_some_and(Exit::is_success) {
            return None;
        }
        self.process.kill();
        let stderr = stderr_text(self.errors);
        Some(match status {
            _ if !stderr.is_empty() => stderr,
            Some(status) => status.to_string(),
            None => format!("it did not end within {}", format_duration(RECEIVE_TIMEOUT)),
        })
    }
}

/// Connector to a host, with the session that was opened first.
#[derive(Debug)]
struct Connector {
    name: String,
    destination: Destination,
    file: Arc<AgentFile>,
    executable: PathBuf,
    /// Request that ends its sessions.
    stop: StopRequest,
    first: Mutex<Option<Session>>,
    /// Port of the SSH server, once a connection has shown it.
    ssh_port: OnceLock<u16>,
}

impl Connector {
    fn new(
        name: &str,
        host: &RemoteHost,
        (file, executable): (&Arc<AgentFile>, &Path),
        stop: &StopRequest,
    ) -> Self {
        let host = host.clone();
        Self {
            name: name.to_owned(),
            destination: Destination {
                ssh: host.ssh,
                key: host.key,
                become_command: host.become_command,
                agent: host.agent,
                options: host.ssh_options.into_iter().map(Into::into).collect(),
            },
            file: Arc::clone(file),
            executable: executable.to_owned(),
            stop: stop.clone(),
            first: Mutex::default(),
            ssh_port: OnceLock::new(),
        }
    }

    /// Starts to open a session, which the kernel ends with the calling thread.
    fn start(&self) -> Result<Opening, BedError> {
        let command = self
            .destination
            .command(&self.file, &self.executable, SILENCE);
        let opening =
            Opening::start(command).map_err(|error| self.unreached(error, Progress::default()))?;
        opening.ends_with(&self.stop);
        Ok(opening)
    }

    /// Sends this program, if need be, and waits until the host's server answers. Returns the session, the addresses of
    /// this machine and of the host if `ssh` made the connection, and the time that it took.
    fn greeted(
        &self,
        opening: Opening,
    ) -> Result<(Session, Option<[IpAddr; 2]>, Duration), BedError> {
        let start = Instant::now();
        let mut bootstrap = Bootstrap::new(&self.file, self.destination.agent.is_some());
        let session = opening.greeted(GREETING_TIMEOUT, SILENCE, &mut |line, input| {
            bootstrap.line(line, input).map_err(Into::into)
        });
        let session = session.map_err(|error| {
            if let (SessionError::Silent { .. }, Some(shell)) = (&error, bootstrap.shell) {
                self.kill(shell);
            }
            self.unreached(error, bootstrap.progress)
        })?;
        if let Some(port) = bootstrap.port {
            // That of the first connection stays.
            let _ = self.ssh_port.set(port);
        }
        Ok((session, bootstrap.addresses, start.elapsed()))
    }

    /// Kills a server that has sent nothing, such as one that is stopped while it starts. Later its guard does.
    fn kill(&self, shell: u32) {
        let killing = self.destination.kill_command(shell);
        let streams = |mut command: Command| {
            let command = command.stdin(Stdio::null()).stdout(Stdio::null());
            command.stderr(Stdio::null()).spawn()
        };
        if let Some(Ok(mut killing)) = killing.map(streams) {
            self.stop.kills(killing.id());
            end_within(&mut killing, KILL_TIMEOUT);
        }
    }

    fn unreached(&self, error: SessionError, progress: Progress) -> BedError {
        BedError::Session {
            host: format!("host `{}`", self.name),
            hint: hint(&self.name, &self.destination, &error, progress).into(),
            source: Box::new(error),
        }
    }
}

/// Exit code of `ssh` for an error of its own.
const SSH_FAILED: i32 = 255;

/// Returns a command that helps against an error of a session with a host, whose script has come so far.
fn hint(name: &str, destination: &Destination, error: &SessionError, progress: Progress) -> String {
    let Destination {
        become_command,
        ssh,
        ..
    } = destination;
    match (progress.failed, error) {
        (Some(FailedStep::Space), _) => format!(
            "make room for some 50 MB in `~/.cache` on `{name}`, or set `XDG_CACHE_HOME` there to another place"
        ),
        (Some(FailedStep::Digest), _) => "try again: the file is sent whole then".to_owned(),
        (Some(FailedStep::Directory), _) => in_cache(name),
        (None, SessionError::Interrupted { during, .. }) => bootstrap_hint(&**during),
        (None, SessionError::Bootstrap(error)) => bootstrap_hint(&**error),
        (None, SessionError::Ended { .. }) if progress.reached => {
            match (&become_command[..], ssh, &destination.agent) {
                ([program, ..], Some(address), _) => {
                    let become_text = become_command.join(" ");
                    format!(
                        "`ssh {address} {become_text} true` has to work without a question: allow it there (for `{program}`, \
                         NOPASSWD in its rules), or leave `become` of `{name}` out of the hosts file"
                    )
                }
                (_, _, Some(agent)) => format!(
                    "make sure that `{}` on `{name}` is a Regatta which this user may execute, or leave `agent` out of the \
                     hosts file, so that this one is sent there",
                    agent.display()
                ),
                _ => in_cache(name),
            }
        }
        (
            None,
            SessionError::Ended {
                silent_code: Some(SSH_FAILED),
                ..
            },
        ) => NO_SESSION.to_owned(),
        (None, SessionError::Version { .. }) => format!(
            "leave `agent` of `{name}` out of the hosts file, so that this Regatta is sent there"
        ),
        (None, SessionError::Ended { reason, .. }) if old_key_removal(reason).is_some() => format!(
            "the host's own key has changed: make sure that it is the host, and remove the old one with `{}`",
            old_key_removal(reason).unwrap_or_default()
        ),
        (None, _) => match ssh {
            Some(address) => format!(
                "try `ssh {address} true`; `regatta hosts add {name} {address}` sets up a key"
            ),
            None => String::new(),
        },
    }
}

/// Returns the hint for a host on which this program cannot be stored or executed.
fn in_cache(name: &str) -> String {
    format!(
        "Regatta is sent to `~/.cache/regatta` on `{name}`, which has to let this user write and execute files \
         there; or set `XDG_CACHE_HOME` there to another place, or name a file there with `agent` in the hosts file"
    )
}

fn bootstrap_hint(error: &(dyn std::error::Error + Send + Sync + 'static)) -> String {
    error
        .downcast_ref()
        .map_or_else(String::new, BootstrapError::hint)
}

impl Connect for Connector {
    fn connect(&self) -> Result<Session, BedError> {
        let mut first = self.first.lock();
        match first.take().filter(|session| session.ended().is_none()) {
            Some(session) => Ok(session),
            None => Ok(self.greeted(self.start()?)?.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hint for a session that ended with these words.
    fn hint_for(reason: &str, silent_code: Option<i32>, progress: Progress) -> String {
        let destination = Destination {
            ssh: Some("alice@lab".to_owned()),
            key: None,
            become_command: Vec::new(),
            agent: None,
            options: Vec::new(),
        };
        let error = SessionError::Ended {
            reason: reason.to_owned(),
            silent_code,
        };
        hint("lab", &destination, &error, progress)
    }

    fn failed(step: FailedStep) -> Progress {
        Progress {
            reached: true,
            failed: Some(step),
        }
    }

    #[test]
    fn a_full_disk_is_known_in_every_language() {
        let words = "cat: Schreibfehler: Auf dem Gerät ist kein Speicherplatz mehr verfügbar";
        let hint = hint_for(words, None, failed(FailedStep::Space));
        assert!(hint.starts_with("make room for some 50 MB"), "{hint}");
    }

    #[test]
    fn words_of_other_programs_choose_no_hint() {
        let reached = Progress {
            reached: true,
            failed: None,
        };
        let hint = hint_for("motd: No space left on device", None, reached);
        assert!(hint.starts_with("Regatta is sent to"), "{hint}");
        let hint = hint_for("Host key verification failed.", None, Progress::default());
        assert!(hint.starts_with("try `ssh alice@lab true`"), "{hint}");
        let changed =
            "remove with:; ssh-keygen -f \"/k\" -R \"lab\"; Host key verification failed.";
        let hint = hint_for(changed, None, Progress::default());
        assert!(
            hint.ends_with("with `ssh-keygen -f \"/k\" -R \"lab\"`"),
            "{hint}"
        );
    }

    #[test]
    fn steps_of_the_script_have_their_hints() {
        let hint = hint_for("", None, failed(FailedStep::Digest));
        assert!(hint.starts_with("try again"), "{hint}");
        let hint = hint_for("", None, failed(FailedStep::Directory));
        assert!(hint.contains("XDG_CACHE_HOME"), "{hint}");
    }

    #[test]
    fn ssh_that_ends_without_a_word_has_its_own_hint() {
        let silent = hint_for("", Some(255), Progress::default());
        assert_eq!(silent, NO_SESSION);
        let other = hint_for("", Some(1), Progress::default());
        assert!(other.starts_with("try `ssh"), "{other}");
    }
}
