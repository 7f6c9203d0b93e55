//! Answers to the prompts of `ssh`, which starts this program for each of them (`SSH_ASKPASS`).
//!
//! Prompt and answer go over a socket in the abstract namespace. Only its name is in the environment of
//! `ssh`. Only children of this user's `ssh` that this process has started are answered.

use std::{
    env,
    ffi::OsStr,
    io::{self, BufRead as _, BufReader, Read, Write},
    os::{
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr, UnixListener, UnixStream},
    },
    process::{Child, Command, ExitCode, ExitStatus, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use nix::{
    sys::socket::{getsockopt, sockopt},
    unistd::Pid,
};
use regatta_model::shell::printable;
use regatta_process::{Preparation, descendants, on_end};
use zeroize::Zeroizing;

use crate::cache::hexadecimal;

/// Variable with the name of the socket; with it this program is the helper of `ssh`.
const VARIABLE: &str = "REGATTA_ASKPASS";

/// Longest prompt that is read, in bytes.
const LONGEST_PROMPT: u64 = 64 << 10;

/// Time that a helper has to send its prompt.
const PROMPT_TIMEOUT: Duration = Duration::from_secs(10);

/// Answer to a prompt; `None` refuses it.
pub(crate) type Answer<'a> = dyn FnMut(&str) -> Option<Zeroizing<String>> + 'a;

/// Result of a call of `ssh` with prompts.
#[derive(Debug)]
pub(crate) struct SshOutput {
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: String,
    /// Standard error, printable.
    pub stderr: String,
}

/// Whether this program was started by `ssh` to answer a prompt.
#[must_use]
pub fn is_askpass() -> bool {
    env::var_os(VARIABLE).is_some()
}

/// Sends the prompt to Regatta and prints the answer. Main function of the helper of `ssh`.
#[must_use]
pub fn askpass_main() -> ExitCode {
    let name = env::var_os(VARIABLE).unwrap_or_default();
    let prompt = env::args_os().nth(1).unwrap_or_default();
    match request_answer(&name, &prompt).and_then(|answer| print(&answer)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Prints an answer. Fails if it is empty.
fn print(answer: &[u8]) -> io::Result<()> {
    if answer.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut out = io::stdout().lock();
    out.write_all(answer)?;
    out.write_all(b"\n")?;
    out.flush()
}

fn request_answer(name: &OsStr, prompt: &OsStr) -> io::Result<Zeroizing<Vec<u8>>> {
    let address = SocketAddr::from_abstract_name(name.as_encoded_bytes())?;
    let mut stream = UnixStream::connect_addr(&address)?;
    stream.write_all(prompt.as_encoded_bytes())?;
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut answer = Zeroizing::new(Vec::new());
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}

/// Standard input of a call of `ssh`.
pub(crate) struct Input<'a> {
    pub text: &'a [u8],
    /// Line of the output that requests the text, and whether the text is then sent. Without it the text is sent at once.
    pub request: Option<(&'static str, Arc<AtomicBool>)>,
}

/// Runs a command of `ssh` with this standard input and answers its prompts.
///
/// # Errors
/// If the command or a thread cannot be started.
pub(crate) fn call(
    mut command: Command,
    input: Input<'_>,
    answer: &mut Answer<'_>,
) -> io::Result<SshOutput> {
    let name = name()?;
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
    command
        .env(VARIABLE, &name)
        .env("SSH_ASKPASS", env::current_exe()?)
        .env("SSH_ASKPASS_REQUIRE", "force")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // Without a terminal of its own, `ssh` asks nobody else.
    Preparation {
        session: true,
        dies_with_parent: true,
        ..Preparation::default()
    }
    .apply(&mut command);
    let mut child = command.spawn()?;
    let pid = Pid::from_raw(child.id().cast_signed());
    let streams = streams(&mut child, input)?;
    // Wakes the listener when the command has ended.
    let address = listener.local_addr()?;
    on_end(child.id(), move || {
        let _ = UnixStream::connect_addr(&address);
    })?;
    loop {
        let (stream, _) = listener.accept()?;
        let peer = getsockopt(&stream, sockopt::PeerCredentials)?;
        if peer.pid() == std::process::id().cast_signed() {
            break;
        }
        if peer.uid() == nix::unistd::getuid().as_raw()
            && descendants(pid.as_raw()).contains(&peer.pid())
        {
            // An error closes the stream, which refuses the prompt.
            let _ = serve(stream, answer);
        }
    }
    let status = child.wait()?;
    let [stdout, stderr] = streams.map(|reader| {
        let bytes = reader.join().unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    });
    Ok(SshOutput {
        status,
        stdout,
        // Each line of `ssh` ends with both.
        stderr: printable(stderr.replace("\r\n", "\n").trim()),
    })
}

/// Starts the threads that write the standard input and read the other two streams.
fn streams(child: &mut Child, input: Input<'_>) -> io::Result<[thread::JoinHandle<Vec<u8>>; 2]> {
    let mut stdin = child.stdin.take();
    let (text, request) = (input.text.to_vec(), input.request);
    let line = request.as_ref().map(|(line, _)| *line);
    let (request_tx, request_rx) = mpsc::channel();
    thread::Builder::new().spawn(move || {
        let is_permitted = request.is_none_or(|(_, permitted)| {
            // An error is the end of the output.
            request_rx.recv().is_ok() && permitted.load(Ordering::SeqCst)
        });
        if let (Some(stdin), true) = (&mut stdin, is_permitted) {
            // A command may end without reading its input.
            let _ = stdin.write_all(&text);
        }
    })?;
    let stdout = child.stdout.take().expect("a pipe");
    let stdout = thread::Builder::new().spawn(move || {
        read(stdout, &mut |read| {
            if line.is_some_and(|line| read.trim_ascii_end().ends_with(line.as_bytes())) {
                let _ = request_tx.send(());
            }
        })
    })?;
    let stderr = child.stderr.take().expect("a pipe");
    let stderr = thread::Builder::new().spawn(move || read(stderr, &mut |_| {}))?;
    Ok([stdout, stderr])
}

/// Reads at most 1 MiB of a stream, as login scripts may write without end, and calls `on_line` with each line.
fn read(stream: impl Read, on_line: &mut dyn FnMut(&[u8])) -> Vec<u8> {
    let mut reader = BufReader::new(stream.take(1 << 20));
    let mut bytes = Vec::new();
    loop {
        let begin = bytes.len();
        match reader.read_until(b'\n', &mut bytes) {
            Ok(0) | Err(_) => return bytes,
            Ok(_) => on_line(&bytes[begin..]),
        }
    }
}

fn serve(mut stream: UnixStream, answer: &mut Answer<'_>) -> io::Result<()> {
    stream.set_read_timeout(Some(PROMPT_TIMEOUT))?;
    let mut prompt = Vec::new();
    (&stream).take(LONGEST_PROMPT).read_to_end(&mut prompt)?;
    let prompt = String::from_utf8_lossy(&prompt);
    if let Some(answer) = answer(&printable(&prompt)) {
        stream.write_all(answer.as_bytes())?;
    }
    Ok(())
}

/// Returns a name that nobody can guess.
fn name() -> io::Result<String> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!("regatta-askpass-{}", hexadecimal(&bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_and_exit_status_of_a_command_are_returned() {
        let mut command = Command::new("sh");
        command.args(["-c", "cat; echo failed >&2; exit 3"]);
        let input = Input {
            text: b"input",
            request: None,
        };
        let output = call(command, input, &mut |_| None).unwrap();
        assert_eq!(output.status.code(), Some(3));
        assert_eq!(output.stdout, "input");
        assert_eq!(output.stderr, "failed");
    }

    #[test]
    fn requested_input_is_sent_only_if_permitted() {
        for (permitted, expected) in [(true, "asks\ninput"), (false, "asks\n")] {
            let mut command = Command::new("sh");
            command.args(["-c", "echo asks; cat"]);
            let input = Input {
                text: b"input",
                request: Some(("asks", Arc::new(AtomicBool::new(permitted)))),
            };
            let output = call(command, input, &mut |_| None).unwrap();
            assert_eq!(output.stdout, expected);
        }
    }
}
