//! `regatta hosts`.

mod check;

use std::{
    fmt::Write as _,
    fs::File,
    io::{self, BufRead, Read, Write},
    os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd},
    path::{Path, PathBuf},
    thread,
};

use nix::{
    fcntl::{FcntlArg, fcntl},
    sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr},
};
use parking_lot::Mutex;
use regatta_bed::StopRequest;
use regatta_model::{
    shell::printable,
    study::{Attach, LOCAL, RemoteHost, Shaping},
};
use regatta_process::spawn_scoped;
use regatta_ssh::{Access, HostKey, KeyError, OwnKey, Prompter, SetUp, Zeroizing};

use serde_json::json;

use crate::{
    args::{AddArgs, HostsArgs, HostsCommand},
    exit::{Code, Failure, OrFailure as _, Result, refuse},
    hosts::{
        file::{HostsFile, config_directory},
        remote,
    },
    output,
};

/// Maximum number of bytes of passwords that are read.
const LONGEST_PASSWORDS: u64 = 64 << 10;

/// Runs `regatta hosts`.
///
/// # Errors
/// Mistakes in the hosts file; hosts that cannot be reached or accept no key.
pub fn hosts(args: &HostsArgs) -> Result<Code> {
    let file = args.hosts_file.as_deref();
    match &args.command {
        HostsCommand::Add(args) => add(args, file),
        HostsCommand::List { json: false } => list(file),
        HostsCommand::List { json: true } => list_json(file),
        HostsCommand::Check { names, json } => check::check(names, file, *json),
        HostsCommand::Script { name } => script(name),
        HostsCommand::Remove { name, local_only } => remove(name, *local_only, file),
    }
}

fn add(args: &AddArgs, file: Option<&Path>) -> Result<Code> {
    let example = "write `regatta hosts add lab1 user@address lab2 user@address`";
    let named = (args.hosts()).map_err(|mistake| Failure::input(mistake, example))?;
    let mut hosts = HostsFile::read_or_new(file)?;
    let to_add = |(name, destination): (String, String)| {
        let host = host_to_add(args, &hosts, &name, &destination)?;
        Ok((name, host))
    };
    let named = named.into_iter().map(to_add);
    let named = named.collect::<Result<Vec<_>>>()?;
    let directory = key_directory()?;
    let passwords = Passwords::new(args.password_fd);
    let host_key = match (&args.fingerprint, args.accept_new) {
        (Some(fingerprint), _) => HostKey::Fingerprint(fingerprint.clone()),
        (None, true) => HostKey::AcceptNew,
        (None, false) => HostKey::Ask,
    };
    let set_up: Vec<_> = thread::scope(|scope| {
        // Prepares the file that the first run sends to the hosts, which takes as long as the keys do. If this fails, that
        // run reports the reason.
        let stop = StopRequest::default();
        let _ = spawn_scoped(scope, move || remote::agent_file(&stop));
        let threads: Vec<_> = (named.iter().enumerate())
            .map(|(position, named)| {
                let (passwords, directory) = (&passwords, &directory);
                let host_key = host_key.clone();
                let work = move || set_up(named, host_key, &mut passwords.of(position), directory);
                spawn_scoped(scope, work).context("cannot start a thread")
            })
            .collect::<Result<_>>()?;
        let joined = threads.into_iter().map(thread::ScopedJoinHandle::join);
        let joined =
            joined.map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        Ok::<_, Failure>(joined.collect())
    })?;
    let mut added = Vec::new();
    let mut failed: Option<Failure> = None;
    for ((name, mut host), key) in named.into_iter().zip(set_up) {
        match key.context(format!("cannot set up `{name}`")) {
            Ok(key) => {
                let by = match key {
                    None => "a key of yours opens it",
                    Some(_) => "Regatta's own key opens it",
                };
                host.key = key;
                hosts.put(&name, &host)?;
                added.push((name, by));
            }
            Err(failure) => {
                // The last one is reported by the caller.
                if let Some(earlier) = failed.replace(failure) {
                    output::err(&earlier.render(false));
                }
            }
        }
    }
    print_added(&added, &hosts.path)?;
    failed.map_or(Ok(Code::Measured), Err)
}

fn print_added(added: &[(String, &str)], path: &Path) -> Result<()> {
    let path = path.display();
    let mut text: String = added
        .iter()
        .map(|(name, by)| format!("Host `{name}` is ready: {by}; it is in `{path}`.\n"))
        .collect();
    match added {
        [] => {}
        [(name, _)] => text += &format!("Try `regatta run --hosts {name},local`.\n"),
        [(a, _), (b, _), ..] => text += &format!("Try `regatta run --hosts {a},{b}`.\n"),
    }
    output::out(&text)
}

/// Returns the table of a host that is added, or added again.
fn host_to_add(
    args: &AddArgs,
    hosts: &HostsFile,
    name: &str,
    destination: &str,
) -> Result<RemoteHost> {
    refuse! {
        name == LOCAL => "`local` is this machine, which every study can use";
            "choose another name for the other one";
    }
    let known = hosts.hosts.get(name);
    refuse! {
        known.is_some_and(|known| known.ssh.as_deref() != Some(destination)) =>
            "the hosts file has another host `{name}`";
            "choose another name, or `regatta hosts remove {name}` first";
    }
    let mut host = known.cloned().unwrap_or_else(|| RemoteHost {
        ssh: Some(destination.to_owned()),
        ..RemoteHost::default()
    });
    host.address = args.address.clone().or(host.address);
    host.ports = args.ports.or(host.ports);
    if !args.ssh_option.is_empty() {
        host.ssh_options.clone_from(&args.ssh_option);
    }
    Ok(host)
}

/// Finds or makes a way into a host. Returns the private key of Regatta's own if it takes that.
fn set_up(
    (name, host): &(String, RemoteHost),
    host_key: HostKey,
    user: &mut User<'_>,
    directory: &Path,
) -> Result<Option<PathBuf>> {
    let set_up = SetUp {
        destination: host.ssh.as_deref().unwrap_or_default(),
        options: &host.ssh_options,
        host_key,
        prompter: user,
    }
    .run(directory);
    match set_up {
        Ok(Access::User) => Ok(None),
        Ok(Access::Own) => Ok(Some(own_key(name)?.path)),
        Err(KeyError::Refused { .. }) if user.lacks_terminal => Err(Failure::message(
            "no key opens the host yet, and there is no terminal to ask for the password",
        )
        .hint(format!(
            "give the password by `--password-fd 3 3<FILE`, or run what `regatta hosts script {name}` prints there"
        ))),
        Err(error) => Err(failure_of(error, name)),
    }
}

fn list(file: Option<&Path>) -> Result<Code> {
    let hosts = HostsFile::read_or_new(file)?;
    let mut text = String::new();
    for (name, host) in &hosts.hosts {
        let ssh = host.ssh.as_deref().unwrap_or("this machine");
        let _ = write!(text, "{name:12} {}", printable(ssh));
        if let Some(address) = &host.address {
            let _ = write!(text, ", address {address}");
        }
        if let Some(Shaping { parent, attach }) = &host.shaping {
            let of = match attach {
                Attach::Macvlan { .. } => "a macvlan of ",
                Attach::Interface => "",
            };
            let _ = write!(text, ", shaped on {of}`{}`", printable(parent));
        }
        text.push('\n');
    }
    if text.is_empty() {
        let _ = writeln!(
            text,
            "no hosts yet: `regatta hosts add lab1 user@address` adds one to `{}`",
            hosts.path.display()
        );
    }
    output::show(&text)
}

fn list_json(file: Option<&Path>) -> Result<Code> {
    let hosts = HostsFile::read_or_new(file)?;
    let listed = hosts.hosts.iter().map(|(name, host)| {
        let shaping = host.shaping.as_ref().map(|Shaping { parent, attach }| {
            let attach = match attach {
                Attach::Macvlan { .. } => "macvlan",
                Attach::Interface => "interface",
            };
            json!({ "parent": parent, "attach": attach })
        });
        json!({
            "name": name,
            "ssh": host.ssh,
            "address": host.address.as_ref().map(ToString::to_string),
            "ports": host.ports.as_ref().map(ToString::to_string),
            "shaping": shaping,
        })
    });
    output::json(
        &json!({ "file": hosts.path.display().to_string(), "hosts": listed.collect::<Vec<_>>() }),
    )
}

fn script(name: &str) -> Result<Code> {
    output::show(&own_key(name)?.script())
}

fn remove(name: &str, local_only: bool, file: Option<&Path>) -> Result<Code> {
    let mut hosts = HostsFile::read_or_new(file)?;
    let host = hosts.host(name)?.clone();
    let shared = (hosts.hosts.iter())
        .find(|(other, it)| *other != name && (&it.ssh, &it.key) == (&host.ssh, &host.key))
        .filter(|_| host.key.is_some() && !local_only);
    if let Some((other, _)) = shared {
        let note = format!("Regatta's key stays there for `{other}`, which is the same account.\n");
        output::out(&note)?;
    } else if let (Some(_), Some(destination), false) = (&host.key, &host.ssh, local_only) {
        let key = own_key(name)?;
        let passwords = Passwords::new(None);
        let removed = SetUp {
            destination,
            options: &host.ssh_options,
            host_key: HostKey::Ask,
            prompter: &mut passwords.of(0),
        }
        .remove(&key);
        removed.map_err(|error| {
            failure_of(error, name)
                .context(format!("cannot remove Regatta's key from `{name}`"))
                .hint(format!(
                    "`regatta hosts remove {name} --local-only` leaves the key there"
                ))
        })?;
    }
    hosts.remove(name)?;
    output::show(&format!("Host `{name}` is removed.\n"))
}

fn own_key(name: &str) -> Result<OwnKey> {
    OwnKey::find_or_make(&key_directory()?).map_err(|error| failure_of(error, name))
}

fn failure_of(error: KeyError, name: &str) -> Failure {
    let hint = error.hint(name);
    Failure::failed(error).hint(hint)
}

/// Returns the directory of Regatta's own key.
fn key_directory() -> Result<PathBuf> {
    Ok(config_directory()?.join("ssh"))
}

/// Passwords of hosts: those of a descriptor, or the user's at the terminal, one prompt at a time.
struct Passwords {
    fd: Option<RawFd>,
    /// Lines of the descriptor, once they were read. Locked during a prompt.
    lines: Mutex<Option<Vec<Zeroizing<String>>>>,
}

impl Passwords {
    const fn new(fd: Option<RawFd>) -> Self {
        Self {
            fd,
            lines: Mutex::new(None),
        }
    }

    /// Returns the answers for the host of this place on the command line.
    const fn of(&self, position: usize) -> User<'_> {
        User {
            passwords: self,
            position,
            has_answered: false,
            lacks_terminal: false,
        }
    }
}

/// Asks for a secret on the terminal, whose echo is off before the question appears: what is typed
/// at once is not shown either.
fn prompt_secret(prompt: &str) -> io::Result<String> {
    let terminal = File::options().read(true).write(true).open("/dev/tty")?;
    let before = tcgetattr(&terminal)?;
    let mut silent = before.clone();
    silent.local_flags.remove(LocalFlags::ECHO);
    tcsetattr(&terminal, SetArg::TCSANOW, &silent)?;
    let secret = rpassword::prompt_password(prompt);
    tcsetattr(&terminal, SetArg::TCSANOW, &before)?;
    secret
}

/// Answers for one host.
struct User<'a> {
    passwords: &'a Passwords,
    position: usize,
    /// Whether the password was given: a second question is another one.
    has_answered: bool,
    lacks_terminal: bool,
}

impl Prompter for User<'_> {
    fn secret(&mut self, prompt: &str, is_of_host: bool) -> Option<Zeroizing<String>> {
        let mut lines = self.passwords.lines.lock();
        let Some(fd) = self.passwords.fd else {
            let again = match is_of_host && self.has_answered {
                true => "The host refused that password.\n",
                false => "",
            };
            let secret = prompt_secret(&format!("{again}{} ", prompt.trim_end()));
            self.has_answered |= is_of_host;
            self.lacks_terminal = secret.is_err();
            return secret.ok().map(Zeroizing::new);
        };
        // At the terminal the user reads whose password is asked for.
        if self.has_answered || !is_of_host {
            return None;
        }
        self.has_answered = true;
        if lines.is_none() {
            *lines = Some(passwords_from(fd).ok()?);
        }
        let lines = lines.as_ref()?;
        lines.get(self.position).or(lines.last()).cloned()
    }

    fn attempts(&self) -> u32 {
        match self.passwords.fd {
            // Another time it would be the same one.
            Some(_) => 1,
            None => 3,
        }
    }

    fn confirms(&mut self, prompt: &str) -> bool {
        let _one_at_a_time = self.passwords.lines.lock();
        let confirm = || -> io::Result<bool> {
            let mut terminal = File::options().read(true).write(true).open("/dev/tty")?;
            write!(terminal, "{} ", prompt.trim_end())?;
            let mut line = String::new();
            io::BufReader::new(terminal).read_line(&mut line)?;
            // The prompt of `ssh` offers both.
            let mut shown = prompt.split_ascii_whitespace();
            let mut is_shown = |answer: &str| {
                answer.starts_with("SHA256:") && shown.any(|it| it.trim_end_matches('.') == answer)
            };
            Ok(line.trim() == "yes" || is_shown(line.trim()))
        };
        confirm().unwrap_or(false)
    }
}

/// Reads the lines of a descriptor that this process was given.
fn passwords_from(fd: RawFd) -> io::Result<Vec<Zeroizing<String>>> {
    // A number that is not open is a mistake of the user, and must not become another file later.
    // SAFETY: it is used for this call only, which takes any number.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    fcntl(borrowed, FcntlArg::F_GETFD)?;
    // SAFETY: it is open, and the user gave it for this.
    let file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
    let mut bytes = Zeroizing::new(Vec::with_capacity(LONGEST_PASSWORDS as usize));
    file.take(LONGEST_PASSWORDS).read_to_end(&mut bytes)?;
    let text = std::str::from_utf8(&bytes).map_err(io::Error::other)?;
    Ok(text
        .lines()
        .map(|line| Zeroizing::new(line.to_owned()))
        .collect())
}
