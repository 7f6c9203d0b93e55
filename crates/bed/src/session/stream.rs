//! Sessions over one connected stream, between `regatta client` and `regatta server`.

use std::{
    io::{self, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use super::{
    GREETING, SESSION_PROTOCOL_VERSION,
    client::{Greeting, GreetingLines, Session, greet},
    error::SessionError,
    frame::Incoming,
    server::{ClientLimits, Serving, serve},
};
use crate::launch;

/// Maximum number of agents of a client, one after another: one that died is replaced.
const AGENTS: u32 = 4;

/// Opens a session over a stream to a server. `on_line` is called with each line before the server's greeting, which
/// must come `within` this time of one another; `silence` is the longest one of the server, and of this side;
/// `explain` returns the reason for the end of the session.
///
/// # Errors
/// [`SessionError`]; an error of `on_line` is [`SessionError::Bootstrap`].
pub fn open_over(
    stream: UnixStream,
    (within, silence): (Duration, [Duration; 2]),
    on_line: &mut GreetingLines<'_>,
    explain: impl FnOnce(&io::Error) -> String + Send + 'static,
) -> Result<Session, SessionError> {
    let failed = |source| SessionError::Spawn {
        what: "a session".to_owned(),
        source,
    };
    let input = Closing(stream.try_clone().map_err(failed)?);
    let mut incoming = Incoming::new(stream.into());
    greet(&mut incoming, within, on_line).map_err(|error| match error {
        Greeting::Session(error) => error,
        Greeting::Io(error) if error.kind() == io::ErrorKind::TimedOut => {
            SessionError::Silent { within }
        }
        Greeting::Io(_) => SessionError::Ended {
            reason: "the server closed the connection".to_owned(),
            silent_code: None,
        },
    })?;
    Session::over(input, incoming, silence, explain).map_err(failed)
}

/// Stream whose end the other side sees when this is dropped: both directions are one socket.
#[derive(Debug)]
pub(crate) struct Closing<S: Close>(pub(crate) S);

/// Stream of which the sending direction can be shut down.
pub(crate) trait Close: Write {
    fn close(&self) -> io::Result<()>;
}

impl Close for UnixStream {
    fn close(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

impl Close for std::net::TcpStream {
    fn close(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

impl<S: Close> Write for Closing<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl<S: Close> Drop for Closing<S> {
    fn drop(&mut self) {
        // Fails for a connection that has ended.
        let _ = self.0.close();
    }
}

/// Serves the controller of another person over a stream until its end: it can start agents, and nothing else. `agent`
/// are the arguments with which an agent is started; `on_line` is called with each line of the client's.
///
/// # Errors
/// Errors of threads and of the stream, and a client that was silent for `silence`; the end of the stream is none.
pub fn serve_client(
    mut stream: UnixStream,
    executable: &Path,
    agent: Vec<String>,
    silence: Duration,
    on_line: Box<dyn FnMut(&str) + Send>,
) -> io::Result<()> {
    let executable = launch::open(executable).map_err(io::Error::other)?;
    let version = env!("CARGO_PKG_VERSION");
    writeln!(stream, "{GREETING} {SESSION_PROTOCOL_VERSION} {version}")?;
    let serving = Serving {
        executable,
        silence,
        guard: None,
        client: Some(ClientLimits {
            agent,
            agents: AGENTS,
            on_line,
        }),
    };
    serve(stream.try_clone()?.into(), stream, serving)
}
