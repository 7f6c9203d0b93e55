//! Answers to the prompts of `ssh`, which starts this program for each of them (`SSH_ASKPASS`).
//!
//! Prompt and answer go over a socket in the abstract namespace, whose name alone stands in the environment of
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
const PROMPT_WITHIN: Duration = Duration::from_secs(10);

/// Answer to a prompt; `None` refuses it.
pub(crate) type Answer<'a> = dyn FnMut(&str) -> Option<Zeroizing<String>> + 'a;

/// Result of a call of `ssh` with prompts.
#[derive(Debug)]
pub(crate) struct SshOutput {
    pub status: ExitStatus,
    /// Standard output.
    pub output: String,
    /// Standard error, printable.
    pub errors: String,
}

/// Whether this program was started by `ssh` to answer a prompt.
#[must_use]
pub fn is_askpass() -> bool {
    env::var_os(VARIABLE).is_some()
}

/// Passes the prompt on and prints the answer. The body of the program as the helper of `ssh`.
#[must_use]
pub fn askpass_main() -> ExitCode {
    let name = env::var_os(VARIABLE).unwrap_or_default();
    let prompt = env::args_os().nth(1).unwrap_or_default();
    match answer_of(&name, &prompt).and_then(|answer| print(&answer)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Prints an answer; an error for none.
fn print(answer: &[u8]) -> io::Result<()> {
    if answer.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut out = io::stdout().lock();
    out.write_all(answer)?;
    out.write_all(b"\n")?;
    out.flush()
}

fn answer_of(name: &OsStr, prompt: &OsStr) -> io::Result<Zeroizing<Vec<u8>>> {
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
    /// Line of the output that asks for the text, which is then given if this is true; without it at once.
    pub asked: Option<(&'static str, Arc<AtomicBool>)>,
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
            // One that does not keep to it is closed, which refuses its prompt.
            let _ = serve(stream, answer);
        }
    }
    let status = child.wait()?;
    let [output, errors] = streams.map(|reader| {
        let bytes = reader.join().unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    });
    Ok(SshOutput {
        status,
        output,
        // Each of its lines ends with both.
        errors: printable(errors.replace("\r\n", "\n").trim()),
    })
}

/// Starts the threads that write the standard input and read the other two streams.
fn streams(child: &mut Child, input: Input<'_>) -> io::Result<[thread::JoinHandle<Vec<u8>>; 2]> {
    let mut stdin = child.stdin.take();
    let (text, asked) = (input.text.to_vec(), input.asked);
    let line = asked.as_ref().map(|(line, _)| *line);
    let (asks, is_asked) = mpsc::channel();
    thread::Builder::new().spawn(move || {
        let is_wanted = asked.is_none_or(|(_, wanted)| {
            // An error is the end of the output.
            is_asked.recv().is_ok() && wanted.load(Ordering::SeqCst)
        });
        if let (Some(stdin), true) = (&mut stdin, is_wanted) {
            // A command that does not read it has its reasons.
            let _ = stdin.write_all(&text);
        }
    })?;
    let output = child.stdout.take().expect("a pipe");
    let output = thread::Builder::new().spawn(move || {
        read(output, &mut |read| {
            if line.is_some_and(|line| read.trim_ascii_end().ends_with(line.as_bytes())) {
                let _ = asks.send(());
            }
        })
    })?;
    let errors = child.stderr.take().expect("a pipe");
    let errors = thread::Builder::new().spawn(move || read(errors, &mut |_| {}))?;
    Ok([output, errors])
}

/// Reads a stream, of which login scripts may write without end, and tells of each line.
fn read(from: impl Read, on_line: &mut dyn FnMut(&[u8])) -> Vec<u8> {
    let mut from = BufReader::new(from.take(1 << 20));
    let mut bytes = Vec::new();
    loop {
        let begin = bytes.len();
        match from.read_until(b'\n', &mut bytes) {
            Ok(0) | Err(_) => return bytes,
            Ok(_) => on_line(&bytes[begin..]),
        }
    }
}

fn serve(mut stream: UnixStream, answer: &mut Answer<'_>) -> io::Result<()> {
    stream.set_read_timeout(Some(PROMPT_WITHIN))?;
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
    fn a_command_s_output_and_its_end_are_returned() {
        let mut command = Command::new("sh");
        command.args(["-c", "cat; echo words >&2; exit 3"]);
        let input = Input {
            text: b"input",
            asked: None,
        };
        let called = call(command, input, &mut |_| None).unwrap();
        assert_eq!(called.status.code(), Some(3));
        assert_eq!(called.output, "input");
        assert_eq!(called.errors, "words");
    }

    #[test]
    fn a_command_that_asks_gets_its_input_only_if_it_is_to() {
        for (wanted, expected) in [(true, "asks\ninput"), (false, "asks\n")] {
            let mut command = Command::new("sh");
            command.args(["-c", "echo asks; cat"]);
            let input = Input {
                text: b"input",
                asked: Some(("asks", Arc::new(AtomicBool::new(wanted)))),
            };
            let called = call(command, input, &mut |_| None).unwrap();
            assert_eq!(called.output, expected);
        }
    }
}
