//! Key set-up on a host: with a password that is given once.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use regatta_model::shell::{quoted, quoted_word};
use regatta_process::open_regular;
use zeroize::Zeroizing;

use crate::{
    askpass::{self, Input},
    connection::ssh,
};

/// Comment of the key, by which a user knows its line.
const COMMENT: &str = "regatta";

/// Name of the private key in Regatta's directory.
const KEY: &str = "id_ed25519";

/// Restrictions of the key on a host: no terminal, no forwarding of anything.
const RESTRICTIONS: &str = "restrict";

/// Exit code of `ssh` for errors of its own.
const SSH_FAILED: i32 = 255;

/// First version of OpenSSH that asks a program for passwords although there is a terminal.
const MIN_VERSION: (u32, u32) = (8, 4);

/// Line with which the host requests the key.
const KEY_REQUEST: &str = "regatta-asks";

/// Option of `ssh` that permits the authentication methods without a password.
const WITHOUT_PASSWORD: &str = "-oPreferredAuthentications=publickey,gssapi-with-mic,hostbased";

/// Option of `ssh` that permits those with a password in addition.
const WITH_PASSWORD: &str =
    "-oPreferredAuthentications=publickey,gssapi-with-mic,hostbased,keyboard-interactive,password";

/// Script on the host that appends the line of its standard input, if it is not there. It changes nothing without a
/// line.
const INSTALL: &str = "read -r k || exit 0; umask 077; cd && { [ -d .ssh ] || mkdir -p .ssh; } && \
    f=.ssh/authorized_keys && if [ ! -s $f ]; then printf \"%s\\n\" \"$k\" >>$f; \
    elif ! grep -qxF \"$k\" $f; then [ -z \"$(tail -c 1 $f)\" ] || echo >>$f; printf \"%s\\n\" \"$k\" >>$f; fi && \
    { [ ! -x /sbin/restorecon ] || /sbin/restorecon -R .ssh; } && \
    find . .ssh $f -prune \\( -perm -020 -o -perm -002 \\) -exec echo regatta-writable {} \\;";

/// Script on the host that removes the line of its standard input.
const REMOVE: &str = "umask 077; cd && read -r k && f=.ssh/authorized_keys && { [ ! -f $f ] || \
    { grep -vxF \"$k\" $f >$f.regatta; if [ -h $f ]; then cat $f.regatta >$f && rm -f $f.regatta; \
    else mv -f $f.regatta $f; fi; }; }";

/// Hint for a host at which `ssh` ends without a message: it logs neither the end of a connection during the login nor the
/// refusal of a session as an error.
pub const NO_SESSION: &str = "see what `ssh -v` says: the server may have closed the connection during the login or not answered \
                              for 40 s, or it lets users in and opens no session for them (`MaxSessions 0`)";

/// Errors of key set-up.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// A program cannot be run, or a file cannot be made.
    #[error("cannot {step}")]
    Io {
        /// Step that failed.
        step: &'static str,
        /// Error of the system.
        source: io::Error,
    },
    /// The version of OpenSSH here is too old.
    #[error("this is {found}, which cannot take a password from a program; OpenSSH 8.4 can")]
    OldSsh {
        /// Version, as `ssh -V` has it.
        found: String,
    },
    /// The host's key is not the one that is known.
    #[error("{message}")]
    ChangedHostKey {
        /// Message of `ssh`.
        message: String,
    },
    /// The host's key was not confirmed.
    #[error("the key of the host was not confirmed: `{found}`")]
    UnknownHostKey {
        /// Fingerprint of the host.
        found: String,
    },
    /// Another key than the one that was given.
    #[error("the host has the key `{found}`")]
    OtherFingerprint {
        /// Fingerprint of the host.
        found: String,
    },
    /// The password is wrong, or the host takes none.
    #[error("the host refused the password: {message}")]
    Refused {
        /// Message of `ssh`.
        message: String,
    },
    /// The line was installed, and the host refuses the key.
    #[error("the host has the key and refuses it")]
    KeyRefused {
        /// Files that others may write, which `sshd` does not accept.
        writable: Vec<String>,
    },
    /// `ssh` failed.
    #[error("{0}")]
    Ssh(SshFailure),
    /// `ssh-keygen` failed.
    #[error("{message}")]
    Keygen {
        /// Message of `ssh-keygen`.
        message: String,
    },
}

/// Failure of a call of `ssh`, or of the command on the host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SshFailure {
    /// It has written a message.
    #[error("{0}")]
    Message(String),
    /// It has written nothing.
    #[error("`ssh` says nothing and ends with {0}")]
    Silent(ExitStatus),
}

impl SshFailure {
    /// Whether the message has these words: `ssh` has one exit code for all of its errors, and no other language.
    fn says(&self, words: &str) -> bool {
        matches!(self, Self::Message(message) if message.contains(words))
    }
}

impl KeyError {
    /// Returns a command or setting that helps to set up the host of this name; empty if none is known.
    #[must_use]
    pub fn hint(&self, name: &str) -> String {
        match self {
            Self::OldSsh { .. } => {
                format!(
                    "run what `regatta hosts script {name}` prints on the host, then add it again"
                )
            }
            Self::ChangedHostKey { message } => format!(
                "make sure that it is the host, remove its old key with `{}`, and add it again",
                old_key_removal(message).unwrap_or_else(|| "ssh-keygen -R HOST".to_owned())
            ),
            Self::UnknownHostKey { found } => format!(
                "make sure that it is the host's and give `--fingerprint {found}`, or take it as it is with `--accept-new`"
            ),
            Self::OtherFingerprint { found } => {
                format!("make sure that it is the host; then give `--fingerprint {found}`")
            }
            Self::Refused { .. } => {
                format!(
                    "give the password again, or run what `regatta hosts script {name}` prints on the host"
                )
            }
            Self::KeyRefused { writable } if writable.is_empty() => {
                "look into the log of `sshd` there; `PubkeyAuthentication` may be off".to_owned()
            }
            Self::KeyRefused { writable } => format!(
                "`sshd` refuses keys where others may write (`StrictModes`): run `chmod go-w {}` in the home \
                 directory there",
                writable.join(" ")
            ),
            Self::Ssh(SshFailure::Silent(_)) => NO_SESSION.to_owned(),
            Self::Io { .. } | Self::Ssh(_) | Self::Keygen { .. } => String::new(),
        }
    }
}

/// Returns the command that removes the old key of a host whose key has changed, from the message of `ssh` about it: the
/// command in it, which not every build of OpenSSH writes, or one for the file and the host that it names.
#[must_use]
pub fn old_key_removal(message: &str) -> Option<String> {
    let after = |words: &str| message.split_once(words).map(|(_, rest)| rest);
    let line = |text: &str| {
        text.split(['\n', ';'])
            .next()
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    if let Some(arguments) = after("ssh-keygen -f ") {
        return Some(format!("ssh-keygen -f {}", line(arguments)));
    }
    let (host, _) = after("Host key for ")?.split_once(" has changed")?;
    let offending = line(after("Offending ")?);
    let (file, _) = offending.split_once(" key in ")?.1.rsplit_once(':')?;
    Some(format!(
        "ssh-keygen -f {} -R {}",
        quoted(Path::new(file)),
        quoted_word(host)
    ))
}

fn failed(step: &'static str) -> impl FnOnce(io::Error) -> KeyError {
    move |source| KeyError::Io { step, source }
}

/// Answers of the user during key set-up.
pub trait Prompter {
    /// Returns the password of an account, or the answer to another question of the host; `None` if there is
    /// none to be had. `is_of_host` is whether the prompt names the account on the host, and not one on a host on
    /// the way there.
    fn secret(&mut self, prompt: &str, is_of_host: bool) -> Option<Zeroizing<String>>;
    /// Whether the user confirms the host's key, which `prompt` shows.
    fn confirms(&mut self, prompt: &str) -> bool;
    /// Maximum number of passwords of an account on the host, one after another, if the host refuses them.
    fn attempts(&self) -> u32;
}

/// Acceptance of a host whose key is not known yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostKey {
    /// The user confirms the key.
    Ask,
    /// Any key is accepted.
    AcceptNew,
    /// The key must have this fingerprint.
    Fingerprint(String),
}

/// Key pair of Regatta's own, in a directory of its own.
#[derive(Debug, Clone)]
pub struct OwnKey {
    /// File of the private key.
    pub path: PathBuf,
    /// Line for `authorized_keys`.
    pub line: String,
}

impl OwnKey {
    /// Finds the key in `directory`; `None` if there is none.
    fn find(directory: &Path) -> Option<Self> {
        let path = directory.join(KEY);
        let public = fs::read_to_string(path.with_extension("pub")).ok()?;
        path.exists().then(|| Self::of(path, &public))
    }

    fn of(path: PathBuf, public: &str) -> Self {
        Self {
            line: format!("{RESTRICTIONS} {}", public.trim()),
            path,
        }
    }

    /// Finds the key in `directory`, or makes it.
    ///
    /// # Errors
    /// If `ssh-keygen` fails.
    pub fn find_or_make(directory: &Path) -> Result<Self, KeyError> {
        let mut builder = fs::DirBuilder::new();
        let created = builder.recursive(true).mode(0o700).create(directory);
        created.map_err(failed("create the directory of the key"))?;
        // Hosts that are set up at the same time, also by several commands, get the same key.
        let mut options = File::options();
        let options = options.write(true).create(true).truncate(false);
        let lock = open_regular(&directory.join("lock"), options);
        let lock = lock.and_then(|lock| lock.lock().map(|()| lock));
        let _lock = lock.map_err(failed("lock the directory of the key"))?;
        let path = directory.join(KEY);
        if !path.exists() {
            let mut command = Command::new("ssh-keygen");
            command.args(["-q", "-t", "ed25519", "-N", "", "-C", COMMENT, "-f"]);
            let output = command
                .arg(&path)
                .output()
                .map_err(failed("run `ssh-keygen`"))?;
            if !output.status.success() {
                let message = String::from_utf8_lossy(&output.stderr);
                let message = regatta_model::shell::printable(message.trim());
                return Err(KeyError::Keygen { message });
            }
        }
        let public = fs::read_to_string(path.with_extension("pub"));
        let public = public.map_err(failed("read the public key"))?;
        Ok(Self::of(path, &public))
    }

    /// Returns a script that installs the key, to be run on the host by hand.
    #[must_use]
    pub fn script(&self) -> String {
        format!(
            "#!/bin/sh\n# Lets Regatta in with a key of its own.\n{{ {INSTALL}; }} <<'KEY'\n{}\nKEY\n",
            self.line
        )
    }
}

/// Key with which Regatta logs in to a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// Keys of the user, which `ssh` finds.
    User,
    /// Regatta's own key.
    Own,
}

/// Key set-up on one host.
pub struct SetUp<'a> {
    /// Destination in the message of `ssh`.
    pub destination: &'a str,
    /// Further options of `ssh`.
    pub options: &'a [String],
    /// Acceptance of a host whose key is not known yet.
    pub host_key: HostKey,
    /// Answers of the user.
    pub prompter: &'a mut dyn Prompter,
}

impl SetUp<'_> {
    /// Finds a key that the host accepts: one of the user, or Regatta's own in `directory`, which is
    /// installed with a password if need be.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn run(&mut self, directory: &Path) -> Result<Access, KeyError> {
        if let HostKey::Fingerprint(_) = self.host_key {
            // `ssh` shows the key only of an unknown host, so the files of known hosts are left out.
            let unknown = [
                "-oUserKnownHostsFile=/dev/null",
                "-oGlobalKnownHostsFile=/dev/null",
                "-oPreferredAuthentications=none",
            ];
            // Without an authentication method this fails once the key was accepted.
            let _ = self.call(&unknown, "true", "", false)?;
        }
        // A host that was added before, or by the script.
        if let Some(key) = OwnKey::find(directory)
            && self.accepts_key(&key)?
        {
            let by_user = self.call(&[WITHOUT_PASSWORD], "true", "", false)?;
            return Ok(by_user.map_or(Access::Own, |_| Access::User));
        }
        let key = OwnKey::find_or_make(directory)?;
        let line = format!("{}\n", key.line);
        let version = version()?;
        let is_old = version.1.is_some_and(|found| found < MIN_VERSION);
        // First the user's keys, then in the same connection the password. The question for the host's key comes
        // first.
        let attempts = format!("-oNumberOfPasswordPrompts={}", self.prompter.attempts());
        let with_password = [WITH_PASSWORD, &*attempts];
        let options = match is_old {
            true => &[WITHOUT_PASSWORD][..],
            false => &with_password,
        };
        let install = format!("echo {KEY_REQUEST}; {INSTALL}");
        let mut installed = self.call(options, &install, &line, !is_old)?;
        if let Err(failure) = &installed
            && !is_old
            && failure.says("Too many authentication failures")
        {
            // Caused by keys that the host does not know, before the password was tried.
            let options = [&["-oPubkeyAuthentication=no"], options].concat();
            installed = self.call(&options, &install, &line, true)?;
        }
        let stdout = match installed {
            Ok(output) if !output.has_password => return Ok(Access::User),
            Ok(output) => output.stdout,
            Err(_) if is_old => return Err(KeyError::OldSsh { found: version.0 }),
            Err(failure) if failure.says("Permission denied") => {
                let message = failure.to_string();
                return Err(KeyError::Refused { message });
            }
            Err(failure) => return Err(KeyError::Ssh(failure)),
        };
        if self.accepts_key(&key)? {
            return Ok(Access::Own);
        }
        let writable = stdout
            .lines()
            .filter_map(|line| line.strip_prefix("regatta-writable "));
        Err(KeyError::KeyRefused {
            writable: writable.map(regatta_model::shell::printable).collect(),
        })
    }

    /// Removes the line of Regatta's own key from the host, which it opens.
    ///
    /// # Errors
    /// [`KeyError`] if the host cannot be reached.
    pub fn remove(&mut self, key: &OwnKey) -> Result<(), KeyError> {
        let identity = format!("-i{}", key.path.display());
        let line = format!("{}\n", key.line);
        let removed = self.call(&[&identity], REMOVE, &line, false)?;
        removed.map(drop).map_err(KeyError::Ssh)
    }

    /// Whether the host accepts this key without any other.
    fn accepts_key(&mut self, key: &OwnKey) -> Result<bool, KeyError> {
        let identity = format!("-i{}", key.path.display());
        let only = "-oPreferredAuthentications=publickey";
        let options = [&identity, "-oIdentitiesOnly=yes", only];
        match self.call(&options, "true", "", false)? {
            Ok(_) => Ok(true),
            Err(failure) if failure.says("Permission denied") => Ok(false),
            Err(failure) => Err(KeyError::Ssh(failure)),
        }
    }

    /// Runs a command on the host; returns its output, or the message of `ssh` if it failed. If `takes_password`, a
    /// password is prompted for where `ssh` needs one. Only then the command gets its input, once it has written the
    /// line [`KEY_REQUEST`]. Otherwise the command gets it at once.
    fn call(
        &mut self,
        options: &[&str],
        script: &str,
        input: &str,
        takes_password: bool,
    ) -> Result<Result<CommandOutput, SshFailure>, KeyError> {
        let mut command = ssh();
        // A connection of the user's own would hide whether a key works.
        command.args(["-oStrictHostKeyChecking=ask", "-oControlPath=none"]);
        command.args(options).args(self.options);
        command.arg("--").arg(self.destination);
        // One line without single quotes, which every login shell passes on as it is.
        command.arg(format!("exec /bin/sh -c '{script}'"));
        let account = match takes_password {
            true => account(self.options, self.destination)?,
            false => String::new(),
        };
        let (host_key, prompter) = (&self.host_key, &mut *self.prompter);
        let mut rejected = None;
        let has_password = Arc::new(AtomicBool::new(false));
        let mut answer = |prompt: &str| {
            if prompt.contains("(yes/no") {
                return answer_to_host_key(host_key, prompter, prompt, &mut rejected);
            }
            // A passphrase protects a key of the user.
            let is_passphrase = prompt.to_lowercase().contains("passphrase");
            if !takes_password && !is_passphrase {
                return None;
            }
            let secret = prompter.secret(prompt, names_account(prompt, &account));
            has_password.fetch_or(!is_passphrase && secret.is_some(), Ordering::SeqCst);
            secret
        };
        let input = Input {
            text: input.as_bytes(),
            request: takes_password.then(|| (KEY_REQUEST, Arc::clone(&has_password))),
        };
        let output = askpass::call(command, input, &mut answer);
        let output = output.map_err(failed("run `ssh`"))?;
        if output.status.success() {
            return Ok(Ok(CommandOutput {
                stdout: output.stdout,
                has_password: has_password.load(Ordering::SeqCst),
            }));
        }
        let failure = match output.status.code() {
            Some(SSH_FAILED) if output.stderr.is_empty() => SshFailure::Silent(output.status),
            _ => SshFailure::Message(output.stderr),
        };
        if failure.says("IDENTIFICATION HAS CHANGED") {
            let message = failure.to_string();
            return Err(KeyError::ChangedHostKey { message });
        }
        rejected.map_or(Ok(Err(failure)), Err)
    }
}

/// Command on the host that has succeeded.
struct CommandOutput {
    stdout: String,
    /// Whether a password opened the host.
    has_password: bool,
}

/// Returns user and address of a destination, as prompts of `ssh` name them.
fn account(options: &[String], destination: &str) -> Result<String, KeyError> {
    let mut command = Command::new("ssh");
    command.arg("-G").args(options).args(["--", destination]);
    let output = command.output().map_err(failed("run `ssh`"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let value = |key: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        let found = lines.find(|(name, _)| *name == key);
        found.map(|(_, value)| value.to_owned()).unwrap_or_default()
    };
    Ok(format!("{}@{}", value("user"), value("hostname")))
}

/// Whether a prompt for a password names this account: `user@address's password:`, or `(user@address) Password:`.
fn names_account(prompt: &str, account: &str) -> bool {
    let prompt = prompt.trim_start();
    prompt.starts_with(&format!("{account}'s ")) || prompt.starts_with(&format!("({account}) "))
}

fn answer_to_host_key(
    host_key: &HostKey,
    prompter: &mut dyn Prompter,
    prompt: &str,
    rejected: &mut Option<KeyError>,
) -> Option<Zeroizing<String>> {
    let found = prompt
        .split_ascii_whitespace()
        .find(|field| field.starts_with("SHA256:"));
    let found = found.unwrap_or_default().trim_end_matches('.');
    let is_accepted = match host_key {
        HostKey::Ask => prompter.confirms(prompt),
        HostKey::AcceptNew => true,
        HostKey::Fingerprint(fingerprint) => fingerprint == found,
    };
    if is_accepted {
        return Some(Zeroizing::new("yes".to_owned()));
    }
    let found = found.to_owned();
    *rejected = Some(match host_key {
        HostKey::Fingerprint(_) => KeyError::OtherFingerprint { found },
        _ => KeyError::UnknownHostKey { found },
    });
    None
}

/// Returns the version of `ssh` as it names itself, and its number.
fn version() -> Result<(String, Option<(u32, u32)>), KeyError> {
    let output = Command::new("ssh").arg("-V").output();
    let output = output.map_err(failed("run `ssh`"))?;
    let message = String::from_utf8_lossy(&output.stderr);
    let name = message.split([',', ' ']).next().unwrap_or_default();
    Ok((name.to_owned(), number(name)))
}

fn number(name: &str) -> Option<(u32, u32)> {
    let (major, rest) = name.strip_prefix("OpenSSH_")?.split_once('.')?;
    let minor: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn password_prompts_name_the_account_of_the_host() {
        let account = account(&[], "alice@10.0.0.7").unwrap();
        assert_eq!(account, "alice@10.0.0.7");
        assert!(names_account("alice@10.0.0.7's password: ", &account));
        assert!(names_account("(alice@10.0.0.7) Password: ", &account));
        assert!(!names_account("alice@10.0.0.77's password: ", &account));
        assert!(!names_account("bob@jump's password: ", &account));
        assert!(!names_account("Password: ", &account));
    }

    #[test]
    fn ssh_versions_are_parsed() {
        assert_eq!(number("OpenSSH_9.2p1"), Some((9, 2)));
        assert_eq!(number("OpenSSH_8.10p1"), Some((8, 10)));
        assert_eq!(number("Sun_SSH_1.1"), None);
    }

    /// Runs a script of this module in a home directory of its own.
    fn run(script: &str, line: &str, home: &Path) {
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(format!("{{ {script}; }} <<'KEY'\n{line}\nKEY"));
        let output = command.env("HOME", home).output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    #[test]
    fn key_line_is_appended_once_and_removed_without_others() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join(".ssh/authorized_keys");
        let read = || fs::read_to_string(&file).unwrap();
        run(INSTALL, "restrict key one", home.path());
        run(INSTALL, "restrict key one", home.path());
        assert_eq!(read(), "restrict key one\n");
        // A last line without a newline.
        fs::write(&file, "first key\nsecond key").unwrap();
        run(INSTALL, "restrict key one", home.path());
        assert_eq!(read(), "first key\nsecond key\nrestrict key one\n");
        run(REMOVE, "restrict key one", home.path());
        assert_eq!(read(), "first key\nsecond key\n");
        run(REMOVE, "restrict key one", home.path());
        assert_eq!(read(), "first key\nsecond key\n");
    }

    #[test]
    fn the_removal_of_an_old_key_is_the_command_of_ssh() {
        let upstream = "Offending ED25519 key in /home/a b/known_hosts:3\nHost key for [lab1]:2222 has changed and you have \
                        requested strict checking.\nHost key verification failed.";
        assert_eq!(
            old_key_removal(upstream).unwrap(),
            "ssh-keygen -f '/home/a b/known_hosts' -R '[lab1]:2222'"
        );
        let command = r#"ssh-keygen -f "/home/a/known_hosts" -R "lab1""#;
        // Of Debian, with the lines as a session joins them.
        let debian = format!(
            "Offending ED25519 key in /home/a/known_hosts:3;   remove with:;   {command}; Host key for lab1 has changed and"
        );
        assert_eq!(old_key_removal(&debian).unwrap(), command);
        assert_eq!(old_key_removal("Host key verification failed."), None);
    }

    #[test]
    fn scripts_have_no_single_quotes_or_newlines() {
        for script in [INSTALL, REMOVE] {
            assert!(!script.contains(['\'', '\n']), "{script}");
        }
    }

    #[test]
    fn only_an_ssh_without_a_message_has_the_hint_of_a_host_without_sessions() {
        use std::os::unix::process::ExitStatusExt as _;
        let silent = SshFailure::Silent(ExitStatus::from_raw(255 << 8));
        let error = KeyError::Ssh(silent);
        assert_eq!(
            error.to_string(),
            "`ssh` says nothing and ends with exit status: 255"
        );
        assert_eq!(error.hint("a"), NO_SESSION);
        // The same words of a host are a message of it.
        let message = SshFailure::Message(error.to_string());
        assert_eq!(KeyError::Ssh(message).hint("a"), "");
    }
}
