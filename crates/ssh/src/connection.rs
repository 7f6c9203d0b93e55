//! Call of `ssh` that becomes Regatta's server on the host.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    net::IpAddr,
    os::fd::AsFd,
    path::PathBuf,
    process::{ChildStdin, Command},
    time::Duration,
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};
use regatta_model::shell::printable;

use crate::{AgentFile, agent_file::HOST_CACHE};

/// Longest time in which the connection accepts no byte of the file: one that is cut ends later, see [`ssh`], and one whose
/// `ssh` is stopped never does.
const WRITE_TIMEOUT: Duration = Duration::from_secs(20);

/// Maximum number of bytes that a writable pipe accepts without blocking (`PIPE_BUF`).
const PIPE_BYTES: usize = 4096;

/// Prefix of the script's lines.
const LINE_PREFIX: &str = "regatta-host";

/// Hidden subcommand of `regatta` that is the server on a host.
const SERVER_COMMAND: &str = "host-server";

/// Hidden subcommand of `regatta` that kills a server which hangs during its start.
const GUARD_COMMAND: &str = "host-guard";

/// Time after which a server that has no guard of its own is killed on its host: longer than its controller waits.
const START_LIMIT: Duration = Duration::from_secs(35);

/// Host as `ssh` reaches it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// Destination as the user's own `ssh` takes it; `None` is this machine.
    pub ssh: Option<String>,
    /// Private key of Regatta's own.
    pub key: Option<PathBuf>,
    /// Command that runs the program as another user, such as `sudo -n`.
    pub become_command: Vec<String>,
    /// Path of Regatta on the host; sent there if absent.
    pub agent: Option<PathBuf>,
    /// Further options of `ssh`, before the destination.
    pub options: Vec<OsString>,
}

impl Destination {
    /// Returns the command whose standard input and output carry a session. `silence` is the longest silence
    /// of the controller, `executable` this program.
    #[must_use]
    pub fn command(
        &self,
        file: &AgentFile,
        executable: &std::path::Path,
        silence: Duration,
    ) -> Command {
        let silence = silence.as_millis().to_string();
        let Some(destination) = &self.ssh else {
            let arguments = self.become_command.iter().map(OsString::from);
            let program = self.agent.as_deref().unwrap_or(executable);
            let mut arguments =
                arguments.chain([program.into(), SERVER_COMMAND.into(), silence.into()]);
            let mut command = Command::new(arguments.next().unwrap_or_default());
            command.args(arguments);
            return command;
        };
        self.on_host(destination, &self.script(file, &silence))
    }

    /// Returns the command that kills a server which does not answer, over another connection: the process group of its
    /// script's `shell`, unless the number of that process is another program's by now. `None` for this machine.
    #[must_use]
    pub fn kill_command(&self, shell: u32) -> Option<Command> {
        let become_prefix = self.become_prefix();
        let script = format!(
            "grep -q {SERVER_COMMAND} /proc/{shell}/cmdline && exec {become_prefix}kill -KILL -- -{shell}"
        );
        self.ssh
            .as_ref()
            .map(|destination| self.on_host(destination, &script))
    }

    /// Returns the command that runs a script of the shell on the host: one line without single quotes, which every login
    /// shell passes on as it is.
    fn on_host(&self, destination: &str, script: &str) -> Command {
        let mut command = ssh();
        // Nobody answers prompts.
        command.arg("-oBatchMode=yes");
        if let Some(key) = &self.key {
            command.arg("-i").arg(key);
        }
        command.args(&self.options).arg("--").arg(destination);
        command.arg(format!("exec /bin/sh -c '{script}'"));
        command
    }

    fn become_prefix(&self) -> String {
        let arguments = self.become_command.iter();
        arguments.map(|argument| format!("{argument} ")).collect()
    }

    /// Returns the script that takes the file if need be and becomes the server.
    ///
    /// A file there is used if it has its digest, and is replaced otherwise. A part that has arrived is kept if the connection
    /// ends before; it has the name of the host, whose home other hosts may share, and the number of the script's process,
    /// so that scripts at the same time have a part each and take none that is being written. The digest, of what was sent,
    /// and unpacking wait for the whole file: pipes between them cost a slow host more processor time than the work itself.
    /// Files that are used no more are left to [`crate::tidy_cache`].
    fn script(&self, file: &AgentFile, silence: &str) -> String {
        let AgentFile {
            digest,
            compressed_digest,
            compressed_bytes,
            ..
        } = file;
        let hello = format!(
            r#"printf "\n{LINE_PREFIX} runs as %s\n{LINE_PREFIX} is %s %s\n" $$ "$(uname -sm)" "$SSH_CONNECTION""#
        );
        if let Some(agent) = &self.agent {
            let agent = agent.display();
            let server = self.server(&format!(r#""{agent}""#), silence);
            return format!("{hello}; {server}");
        }
        let steps = [
            format!(
                r#"d=${{XDG_CACHE_HOME:-$HOME/.cache}}/{HOST_CACHE}; f=$d/{digest}; {hello}"#
            ),
            r#"s=$({ sha256sum <"$f"; } 2>/dev/null)"#.to_owned(),
            format!(r#"if [ "${{s%% *}}" != {digest} ] || [ ! -x "$f" ]"#),
            format!(
                r#"then umask 077; failed() {{ echo "{LINE_PREFIX} failed $1"; exit 1; }}; h=$f.$(uname -n); p=$h.$$.part; mkdir -p "$d" && : >"$p" || failed directory"#
            ),
            // The part of a process that has ended.
            r#"for q in "$h".*.part; do n=${q%.part}; [ -s "$q" ] && ! kill -0 "${n##*.}" 2>/dev/null && mv -f "$q" "$p" && break; done"#.to_owned(),
            r#"n=0; [ ! -s "$p" ] || n=$(wc -c <"$p")"#.to_owned(),
            format!(
                r#"echo {LINE_PREFIX} needs $n; read -r n || {{ [ -s "$p" ] || rm -f "$p"; exit 1; }}"#
            ),
            r#"head -c "$n" >>"$p" || failed space; s=$(sha256sum <"$p")"#.to_owned(),
            format!(
                r#"[ "${{s%% *}}" = "{compressed_digest}" ] || {{ [ $(wc -c <"$p") -lt {compressed_bytes} ] || rm -f "$p"; echo "the file arrived damaged" >&2; failed digest; }}"#
            ),
            r#"gzip -dc <"$p" >"$f.$$" || { rm -f "$f.$$"; failed space; }"#.to_owned(),
            r#"chmod 700 "$f.$$" && mv -f "$f.$$" "$f" || failed directory; rm -f "$p"; fi"#.to_owned(),
            self.server(r#""$f""#, silence),
        ];
        steps.join("; ")
    }

    /// Returns the last command of the script: starts the start guard in the background, and replaces the shell by the
    /// server `program` (`exec`). The guard kills a server that is stopped before it has a guard of its own: such a
    /// server cannot end itself, and its controller may no longer run.
    fn server(&self, program: &str, silence: &str) -> String {
        let become_prefix = self.become_prefix();
        let limit = START_LIMIT.as_millis();
        format!(
            "{program} {GUARD_COMMAND} {limit} $$ {become_prefix}</dev/null >/dev/null 2>&1 & exec {become_prefix}{program} {SERVER_COMMAND} {silence} $!"
        )
    }
}

/// Returns a call of `ssh` with the options of every connection.
pub(crate) fn ssh() -> Command {
    let mut command = Command::new("ssh");
    command.args(["-T", "-x", "-a"]);
    command.args([
        "-oConnectTimeout=10",
        "-oServerAliveInterval=5",
        // After 40 s of silence. During the key exchange `ssh` ends so without a message: who waits for a session gives up before.
        "-oServerAliveCountMax=8",
        // Uses an existing connection of the user, but leaves none open.
        "-oControlMaster=no",
        "-oClearAllForwardings=yes",
        "-oLogLevel=ERROR",
    ]);
    command
}

/// Errors of the dialogue with the script.
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    /// The host has another operating system or processor.
    #[error(
        "the host is `{platform}`, and this program is for `{}`",
        own_platform()
    )]
    Architecture {
        /// System and processor, as `uname` names them.
        platform: String,
    },
    /// The file could not be sent.
    #[error("cannot send this program to the host")]
    Send(#[source] io::Error),
}

impl BootstrapError {
    /// Returns a command or setting that helps; empty if none is known.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Architecture { platform } => match platform.strip_prefix("Linux ") {
                Some(processor) => format!(
                    "build Regatta there, or with `cargo build --release --target {processor}-unknown-linux-gnu`, and \
                     name the file there with `agent = \"PATH\"` in the hosts file"
                ),
                None => "use a host with Linux".to_owned(),
            },
            Self::Send(_) => "try `head -c 20M /dev/zero | ssh HOST 'cat > /dev/null'` with the host's destination: if it \
                              does not end, packets of full size are lost on the way"
                .to_owned(),
        }
    }
}

fn own_platform() -> String {
    format!("Linux {}", std::env::consts::ARCH)
}

/// Step of the script that failed on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailedStep {
    /// The directory cannot be made or written.
    Directory,
    /// The directory takes no more: its disk is full, or a limit is reached.
    Space,
    /// The file that arrived has another digest than the one sent.
    Digest,
}

/// Progress of the script on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Whether a shell of the host has run the script.
    pub reached: bool,
    /// Step that failed.
    pub failed: Option<FailedStep>,
}

/// Facts about a host from the dialogue with its script.
#[derive(Debug)]
pub struct Bootstrap<'a> {
    file: &'a AgentFile,
    /// Progress of the script.
    pub progress: Progress,
    /// Process ID of the shell, which becomes the server's.
    pub shell: Option<u32>,
    /// Whether the file is sent, not found or named by the user.
    pub sent: bool,
    /// Addresses of this machine and of the host in the connection, as the host sees them.
    pub addresses: Option<[IpAddr; 2]>,
    /// Port of the host's server in the connection, as the host sees it.
    pub port: Option<u16>,
    /// Whether a host may have another processor, as the user has named a file there.
    pub has_own_file: bool,
}

impl<'a> Bootstrap<'a> {
    /// Begins a dialogue.
    #[must_use]
    pub const fn new(file: &'a AgentFile, has_own_file: bool) -> Self {
        Self {
            file,
            progress: Progress {
                reached: false,
                failed: None,
            },
            shell: None,
            sent: false,
            addresses: None,
            port: None,
            has_own_file,
        }
    }

    /// Handles a line of the host, and sends the file if the line requests it. Other lines are ignored.
    ///
    /// # Errors
    /// [`BootstrapError`].
    pub fn line(&mut self, line: &str, input: &mut ChildStdin) -> Result<(), BootstrapError> {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        match fields[..] {
            [LINE_PREFIX, "runs", "as", shell] => {
                self.shell = shell.parse().ok();
                Ok(())
            }
            [LINE_PREFIX, "is", system, processor, ref connection @ ..] => {
                self.progress.reached = true;
                let platform = format!("{system} {processor}");
                let fits = system == "Linux" && (self.has_own_file || platform == own_platform());
                if !fits {
                    let platform = printable(&platform);
                    return Err(BootstrapError::Architecture { platform });
                }
                // `SSH_CONNECTION`: address and port of the client, then of the server.
                if let [client, _, server, port] = connection {
                    self.port = port.parse().ok();
                    let address = |text: &str| text.split('%').next()?.parse().ok();
                    self.addresses = address(client)
                        .zip(address(server))
                        .map(<[IpAddr; 2]>::from);
                }
                Ok(())
            }
            [LINE_PREFIX, "failed", step] => {
                self.progress.failed = match step {
                    "directory" => Some(FailedStep::Directory),
                    "space" => Some(FailedStep::Space),
                    "digest" => Some(FailedStep::Digest),
                    _ => None,
                };
                Ok(())
            }
            [LINE_PREFIX, "needs", offset] => {
                self.sent = true;
                let offset = offset.parse().unwrap_or(0);
                self.send(offset, input).map_err(BootstrapError::Send)
            }
            _ => Ok(()),
        }
    }

    /// Sends the compressed file from `offset` on.
    fn send(&self, offset: u64, input: &mut ChildStdin) -> io::Result<()> {
        // A part that is longer than the file belongs to another file; the digest detects it.
        let offset = offset.min(self.file.compressed_bytes);
        let mut file = File::open(&self.file.compressed)?;
        file.seek(SeekFrom::Start(offset))?;
        writeln!(input, "{}", self.file.compressed_bytes - offset)?;
        copy(&mut file, input, WRITE_TIMEOUT)
    }
}

/// Copies a file into a pipe.
///
/// # Errors
/// If the pipe accepts nothing for `timeout`, or any other error of the file or the pipe.
fn copy(file: &mut File, pipe: &mut ChildStdin, timeout: Duration) -> io::Result<()> {
    let limit = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
    let mut chunk = [0; PIPE_BYTES];
    loop {
        let length = file.read(&mut chunk)?;
        if length == 0 {
            return Ok(());
        }
        let ready = loop {
            match poll(&mut [PollFd::new(pipe.as_fd(), PollFlags::POLLOUT)], limit) {
                Err(Errno::EINTR) => {}
                ready => break ready?,
            }
        };
        if ready == 0 {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("nothing of it was taken for {timeout:?}"),
            ));
        }
        pipe.write_all(&chunk[..length])?;
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead as _, BufReader},
        process::Stdio,
    };

    use super::*;

    #[test]
    fn copy_into_a_blocked_pipe_times_out() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 1 << 20]).unwrap();
        file.rewind().unwrap();
        let mut child = Command::new("sleep")
            .arg("60")
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut pipe = child.stdin.take().unwrap();
        let copied = copy(&mut file, &mut pipe, Duration::from_millis(50));
        assert_eq!(copied.unwrap_err().kind(), io::ErrorKind::TimedOut);
        // The error of a closed connection is another one.
        child.kill().unwrap();
        child.wait().unwrap();
        let copied = copy(&mut file, &mut pipe, Duration::from_secs(60));
        assert_eq!(copied.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    fn destination() -> Destination {
        Destination {
            ssh: Some("alice@lab".into()),
            key: None,
            become_command: vec!["sudo".into(), "-n".into()],
            agent: None,
            options: Vec::new(),
        }
    }

    #[test]
    fn script_is_one_line_without_single_quotes() {
        for agent in [None, Some("/opt/regatta".into())] {
            let destination = Destination {
                agent,
                ..destination()
            };
            let file = AgentFile {
                digest: "d1935".to_owned(),
                compressed: "file.gz".into(),
                compressed_digest: "6b86b".to_owned(),
                compressed_bytes: 5,
            };
            let script = destination.script(&file, "5000");
            assert!(!script.contains(['\'', '\n']), "{script}");
            let checked = Command::new("sh").args(["-n", "-c", &script]).status();
            assert!(checked.unwrap().success(), "{script}");
        }
    }

    /// Runs the script of a file with this digest, without a host, and returns the last step that failed.
    fn failed_step(directory: &std::path::Path, sent: &[u8], digest: &str) -> Option<FailedStep> {
        let compressed = directory.join("sent");
        std::fs::write(&compressed, sent).expect("a file");
        let file = AgentFile {
            digest: "d1935".to_owned(),
            compressed,
            compressed_digest: digest.to_owned(),
            compressed_bytes: sent.len() as u64,
        };
        let destination = Destination {
            become_command: Vec::new(),
            ..destination()
        };
        let mut shell = Command::new("sh")
            .args(["-c", &destination.script(&file, "5000")])
            .env("XDG_CACHE_HOME", directory.join("cache"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        let mut input = shell.stdin.take().expect("its input");
        let mut bootstrap = Bootstrap::new(&file, true);
        for line in BufReader::new(shell.stdout.take().expect("its output")).lines() {
            let _ = bootstrap.line(&line.expect("text"), &mut input);
        }
        shell.wait().expect("its end");
        assert!(bootstrap.progress.reached);
        bootstrap.progress.failed
    }

    #[test]
    fn a_file_that_arrives_damaged_is_a_step_that_failed() {
        let directory = tempfile::tempdir().expect("a directory");
        let failed = failed_step(directory.path(), b"other", "6b86b");
        assert_eq!(failed, Some(FailedStep::Digest));
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_a_step_that_failed() {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("cache"), "a file").expect("a file");
        let failed = failed_step(directory.path(), b"other", "6b86b");
        assert_eq!(failed, Some(FailedStep::Directory));
    }
}
