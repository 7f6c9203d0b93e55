//! `regatta hosts`.

use std::{
    fmt::Write as _,
    fs::File,
    io::{self, BufRead, Read, Write},
    os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd},
    path::{Path, PathBuf},
};

use nix::fcntl::{FcntlArg, fcntl};
use regatta_model::{
    shell::printable,
    study::{Attach, LOCAL, RemoteHost, Shaping},
};
use regatta_ssh::{Access, HostKey, KeyError, OwnKey, Prompter, SetUp, Zeroizing};

use crate::{
    args::{AddArgs, HostsArgs, HostsCommand},
    exit::{Code, Failure},
    host_check,
    hosts_file::{HostsFile, config_directory},
    output,
};

/// Longest password, in bytes.
const LONGEST_PASSWORD: u64 = 4096;

/// Runs `regatta hosts`.
///
/// # Errors
/// Mistakes in the hosts file; hosts that cannot be reached or let nobody in.
pub fn hosts(args: &HostsArgs) -> Result<Code, Failure> {
    let file = args.hosts_file.as_deref();
    match &args.command {
        HostsCommand::Add(args) => add(args, file),
        HostsCommand::List => list(file),
        HostsCommand::Check { names } => host_check::check(names, file),
        HostsCommand::Script { .. } => script(),
        HostsCommand::Remove { name, local_only } => remove(name, *local_only, file),
    }
}

fn add(args: &AddArgs, file: Option<&Path>) -> Result<Code, Failure> {
    let AddArgs {
        name, destination, ..
    } = args;
    if name == LOCAL {
        return Err(Failure::input(
            "`local` is this machine, which every study can use",
            "choose another name for the other one",
        ));
    }
    let mut hosts = HostsFile::read_or_new(file)?;
    let known = hosts.hosts.get(name);
    if known.is_some_and(|known| known.ssh.as_deref() != Some(destination)) {
        return Err(Failure::input(
            format!("the hosts file has another host `{name}`"),
            format!("choose another name, or `regatta hosts remove {name}` first"),
        ));
    }
    let mut host = known.cloned().unwrap_or_else(|| RemoteHost {
        ssh: Some(destination.clone()),
        ..RemoteHost::default()
    });
    host.address = args.address.or(host.address);
    host.ports = args.ports.or(host.ports);
    if !args.ssh_option.is_empty() {
        host.ssh_options.clone_from(&args.ssh_option);
    }
    let host_key = match (&args.fingerprint, args.accept_new) {
        (Some(fingerprint), _) => HostKey::Fingerprint(fingerprint.clone()),
        (None, true) => HostKey::AcceptNew,
        (None, false) => HostKey::Ask,
    };
    let mut user = User {
        password_fd: args.password_fd,
        has_answered: false,
        lacks_terminal: false,
    };
    let set_up = SetUp {
        destination,
        options: &host.ssh_options,
        host_key,
        prompter: &mut user,
    }
    .run(&key_directory()?);
    let access = match set_up {
        Ok(access) => access,
        Err(KeyError::Refused { .. }) if user.lacks_terminal => {
            return Err(Failure::failed(anyhow::Error::msg(
                "no key opens the host yet, and there is no terminal to ask for the password",
            ))
            .context(format!("cannot set up `{name}`"))
            .hint(format!(
                "give the password by `--password-fd 3 3<FILE`, or run what `regatta hosts script {name}` prints there"
            )));
        }
        Err(error) => return Err(failure(error).context(format!("cannot set up `{name}`"))),
    };
    host.key = match access {
        Access::User => None,
        Access::Own => Some(
            OwnKey::find_or_make(&key_directory()?)
                .map_err(failure)?
                .path,
        ),
    };
    let by = match access {
        Access::User => "a key of yours opens it",
        Access::Own => "Regatta's own key opens it",
    };
    hosts.put(name, &host)?;
    let path = hosts.path.display();
    let text = format!(
        "Host `{name}` is ready: {by}; it is in `{path}`.\nTry `regatta run --hosts {name},local`.\n"
    );
    output::out(&text).map_err(Failure::failed)?;
    Ok(Code::Measured)
}

fn list(file: Option<&Path>) -> Result<Code, Failure> {
    let hosts = HostsFile::read_or_new(file)?;
    let mut text = String::new();
    for (name, host) in &hosts.hosts {
        let ssh = host.ssh.as_deref().unwrap_or("this machine");
        let address = host
            .address
            .map_or_else(String::new, |address| format!(", address {address}"));
        let shaping = match &host.shaping {
            None => String::new(),
            Some(Shaping { parent, attach }) => match attach {
                Attach::Macvlan { .. } => format!(", shaped on a macvlan of `{parent}`"),
                Attach::Interface => format!(", shaped on `{parent}`"),
            },
        };
        let shaping = printable(&shaping);
        let _ = writeln!(text, "{name:12} {}{address}{shaping}", printable(ssh));
    }
    if text.is_empty() {
        let _ = writeln!(
            text,
            "no hosts yet: `regatta hosts add lab1 user@address` adds one to `{}`",
            hosts.path.display()
        );
    }
    output::out(&text).map_err(Failure::failed)?;
    Ok(Code::Measured)
}

fn script() -> Result<Code, Failure> {
    let key = OwnKey::find_or_make(&key_directory()?).map_err(failure)?;
    output::out(&key.script()).map_err(Failure::failed)?;
    Ok(Code::Measured)
}

fn remove(name: &str, local_only: bool, file: Option<&Path>) -> Result<Code, Failure> {
    let mut hosts = HostsFile::read_or_new(file)?;
    let host = hosts.host(name)?.clone();
    if let (Some(_), Some(destination), false) = (&host.key, &host.ssh, local_only) {
        let key = OwnKey::find_or_make(&key_directory()?).map_err(failure)?;
        let mut user = User {
            password_fd: None,
            has_answered: true,
            lacks_terminal: false,
        };
        let removed = SetUp {
            destination,
            options: &host.ssh_options,
            host_key: HostKey::Ask,
            prompter: &mut user,
        }
        .remove(&key);
        removed.map_err(|error| {
            failure(error)
                .context(format!("cannot remove Regatta's key from `{name}`"))
                .hint(format!(
                    "`regatta hosts remove {name} --local-only` leaves the key there"
                ))
        })?;
    }
    hosts.remove(name)?;
    output::out(&format!("Host `{name}` is removed.\n")).map_err(Failure::failed)?;
    Ok(Code::Measured)
}

fn failure(error: KeyError) -> Failure {
    let hint = error.hint();
    Failure::failed(error).hint(hint)
}

/// Returns the directory of Regatta's own key.
fn key_directory() -> Result<PathBuf, Failure> {
    Ok(config_directory()?.join("ssh"))
}

/// The user at the terminal, or a descriptor with a password.
struct User {
    password_fd: Option<RawFd>,
    /// Whether the password was given: a second question is another one.
    has_answered: bool,
    lacks_terminal: bool,
}

impl Prompter for User {
    fn secret(&mut self, prompt: &str, is_of_host: bool) -> Option<Zeroizing<String>> {
        // At the terminal the user reads whose password is asked for.
        if let (Some(fd), false, true) = (self.password_fd, self.has_answered, is_of_host) {
            self.has_answered = true;
            return password_from(fd).ok();
        }
        if self.password_fd.is_some() {
            return None;
        }
        match rpassword::prompt_password(format!("{} ", prompt.trim_end())) {
            Ok(secret) => Some(Zeroizing::new(secret)),
            Err(_) => {
                self.lacks_terminal = true;
                None
            }
        }
    }

    fn confirms(&mut self, prompt: &str) -> bool {
        let asked = || -> io::Result<bool> {
            let mut terminal = File::options().read(true).write(true).open("/dev/tty")?;
            write!(terminal, "{} ", prompt.trim_end())?;
            let mut line = String::new();
            io::BufReader::new(terminal).read_line(&mut line)?;
            Ok(line.trim() == "yes")
        };
        asked().unwrap_or(false)
    }
}

/// Reads the first line of a descriptor that this process was given.
fn password_from(fd: RawFd) -> io::Result<Zeroizing<String>> {
    // A number that is not open is a mistake of the user, and must not become another file later.
    // SAFETY: it is used for this call only, which takes any number.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    fcntl(borrowed, FcntlArg::F_GETFD)?;
    // SAFETY: it is open, and the user gave it for this.
    let file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
    let mut bytes = Zeroizing::new(Vec::with_capacity(LONGEST_PASSWORD as usize));
    file.take(LONGEST_PASSWORD).read_to_end(&mut bytes)?;
    let line = bytes
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    let text = std::str::from_utf8(line).map_err(io::Error::other)?;
    Ok(Zeroizing::new(text.to_owned()))
}
