//! Answers to the prompts of `ssh`, which starts this program for each of them (`SSH_ASKPASS`).
//!
//! Prompt and answer go over a socket in the abstract namespace, whose name alone stands in the environment of
//! `ssh`. Only children of this user's `ssh` that this process has started are answered.

use std::{
    env,
    ffi::OsStr,
    io::{self, Read, Write},
    os::{
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr, UnixListener, UnixStream},
    },
    process::{Child, Command, ExitCode, ExitStatus, Stdio},
    thread,
    time::Duration,
};

use nix::{
    sys::socket::{getsockopt, sockopt},
    unistd::Pid,
};
use regatta_model::shell::printable;
use regatta_process::{Preparation, descendants, wait_without_reaping};
use zeroize::Zeroizing;

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
pub(crate) struct Called {
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
    match answer_of(&name, &prompt) {
        Ok(answer) if !answer.is_empty() => {
            let mut out = io::stdout().lock();
            let written = out.write_all(&answer).and_then(|()| out.write_all(b"\n"));
            match written.and_then(|()| out.flush()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(_) => ExitCode::FAILURE,
            }
        }
        _ => ExitCode::FAILURE,
    }
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

/// Runs a command of `ssh` with `input` as its standard input and answers its prompts.
///
/// # Errors
/// If the command or a thread cannot be started.
pub(crate) fn call(
    mut command: Command,
    input: &[u8],
    answer: &mut Answer<'_>,
) -> io::Result<Called> {
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
    let mut streams = streams(&mut child, input)?;
    // Wakes the listener when the command has ended.
    let address = listener.local_addr()?;
    thread::Builder::new().spawn(move || {
        let _ = wait_without_reaping(pid);
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
    let [output, errors] = [streams.remove(0), streams.remove(0)].map(|reader| {
        let bytes = reader.join().unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    });
    Ok(Called {
        status,
        output,
        errors: printable(errors.trim()),
    })
}

/// Starts the threads that write the standard input and read the other two streams.
fn streams(child: &mut Child, input: &[u8]) -> io::Result<Vec<thread::JoinHandle<Vec<u8>>>> {
    let mut stdin = child.stdin.take();
    let input = input.to_vec();
    thread::Builder::new().spawn(move || {
        // A command that does not read it has its reasons.
        let _ = stdin.as_mut().map(|stdin| stdin.write_all(&input));
    })?;
    let reader = |from: Option<Box<dyn Read + Send>>| {
        thread::Builder::new().spawn(move || {
            let mut bytes = Vec::new();
            if let Some(from) = from {
                // Login scripts may write without end.
                let _ = from.take(1 << 20).read_to_end(&mut bytes);
            }
            bytes
        })
    };
    let output = child.stdout.take().map(|it| Box::new(it) as _);
    let errors = child.stderr.take().map(|it| Box::new(it) as _);
    Ok(vec![reader(output)?, reader(errors)?])
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
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("regatta-askpass-{digits}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_s_output_and_its_end_are_returned() {
        let mut command = Command::new("sh");
        command.args(["-c", "cat; echo words >&2; exit 3"]);
        let called = call(command, b"input", &mut |_| None).unwrap();
        assert_eq!(called.status.code(), Some(3));
        assert_eq!(called.output, "input");
        assert_eq!(called.errors, "words");
    }
}
