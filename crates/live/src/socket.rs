//! The Unix socket of a run, on which other processes get its state as lines of JSON.

use std::{
    fs::OpenOptions,
    io,
    os::{
        fd::AsRawFd,
        unix::{
            fs::OpenOptionsExt as _,
            net::{UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
    sync::Arc,
    task::Context,
};

use nix::{
    libc,
    sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket},
};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

use crate::{
    http,
    model::Update,
    shared::{Shared, Watching},
};

/// Name of the socket in the directory of the run.
pub const SOCKET_NAME: &str = "live.sock";

/// Name of the socket until it listens: a process that waits for [`SOCKET_NAME`] can connect at once.
const NEW_SOCKET_NAME: &str = "live.sock.new";

/// Largest number of processes that are served at once.
pub const MAX_CLIENTS: usize = 16;

/// Longest line that is read, in bytes: many times the state of a run with 10 000 cells.
const LONGEST_LINE: usize = 64 << 20;

/// Calls a function with a path of a socket that is short enough for its address, whatever the directory's is.
fn with_short_path<T>(
    dir: &Path,
    name: &str,
    call: impl FnOnce(&Path) -> io::Result<T>,
) -> io::Result<T> {
    // Nothing else is waited for, such as the other end of a pipe.
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECTORY)
        .open(dir)?;
    let fd = opened.as_raw_fd();
    call(&PathBuf::from(format!("/proc/self/fd/{fd}/{name}")))
}

/// Socket of a run, which is removed with this value.
pub struct RunSocket {
    listener: tokio::net::UnixListener,
    path: PathBuf,
}

impl RunSocket {
    /// Listens in the directory of a run that this process writes. Replaces the socket of a process that was killed.
    /// To be called within the executor.
    ///
    /// # Errors
    /// Errors of the system, such as of a file system without sockets.
    pub fn listen(dir: &Path) -> io::Result<Self> {
        let [new, path] = [NEW_SOCKET_NAME, SOCKET_NAME].map(|name| dir.join(name));
        let _ = std::fs::remove_file(&new);
        let listener = with_short_path(dir, NEW_SOCKET_NAME, |short| UnixListener::bind(short))?;
        if let Err(error) = std::fs::rename(&new, &path) {
            let _ = std::fs::remove_file(&new);
            return Err(error);
        }
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener: tokio::net::UnixListener::from_std(listener)?,
            path,
        })
    }

    /// Serves all clients, until it is dropped.
    pub async fn serve(self, shared: Arc<Shared>) {
        let serve = |stream, responses: http::Responses| {
            let (shared, response) = (Arc::clone(&shared), responses.begin());
            async move {
                let _response = response;
                // An error of a client does not affect the run.
                let _ = write_state(stream, &shared).await;
            }
        };
        let next = |context: &mut Context<'_>| self.listener.poll_accept(context);
        http::accept(MAX_CLIENTS, next, serve).await;
    }
}

impl Drop for RunSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Writes the state and its changes as lines until the run ends. A slow reader skips states.
async fn write_state(mut stream: tokio::net::UnixStream, shared: &Shared) -> io::Result<()> {
    let _watching = Watching::new(shared);
    let mut updates = shared.updates();
    while let Some(line) = updates.next().await {
        stream.write_all(line.json.as_bytes()).await?;
        stream.write_all(b"\n").await?;
    }
    stream.shutdown().await
}

/// State of a run of another process.
pub struct RunClient {
    reader: BufReader<tokio::net::UnixStream>,
    /// Beginning of the next line.
    line: Vec<u8>,
}

impl RunClient {
    /// Connects to the run in a directory, without waiting for a process that does not accept.
    ///
    /// # Errors
    /// Errors of the system: `NotFound` or `ConnectionRefused` where no run listens, `WouldBlock` where too many wait.
    pub fn connect(dir: &Path) -> io::Result<UnixStream> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let stream = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
        with_short_path(dir, SOCKET_NAME, |short| {
            connect(stream.as_raw_fd(), &UnixAddr::new(short)?).map_err(io::Error::from)
        })?;
        Ok(stream.into())
    }

    /// Reads from a connection. To be called within the executor.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn new(stream: UnixStream) -> io::Result<Self> {
        let stream = tokio::net::UnixStream::from_std(stream)?;
        Ok(Self {
            reader: BufReader::new(stream),
            line: Vec::new(),
        })
    }

    /// Waits for the next part of the state. `None` when the process has ended, or a line is malformed or too long. May be
    /// cancelled: what has arrived of a line is kept.
    pub async fn next(&mut self) -> Option<Update> {
        let most = LONGEST_LINE.saturating_sub(self.line.len()) as u64;
        let mut reader = (&mut self.reader).take(most);
        reader.read_until(b'\n', &mut self.line).await.ok()?;
        let update = serde_json::from_slice(&self.line).ok();
        self.line.clear();
        update
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// Returns the number of bytes that a client reads of a process that writes one line of `bytes` bytes, and whether the line
    /// was read as a state.
    fn read(line: &[u8]) -> (usize, bool) {
        let (mut process, client) = UnixStream::pair().expect("a connection");
        client.set_nonblocking(true).expect("nonblocking");
        let executor = tokio::runtime::Builder::new_current_thread();
        let executor = { executor }.enable_io().build().expect("an executor");
        std::thread::scope(|scope| {
            let written = scope.spawn(move || {
                let mut written = 0;
                for part in line.chunks(1 << 16) {
                    if process.write_all(part).is_err() {
                        break;
                    }
                    written += part.len();
                }
                written
            });
            let is_state = executor.block_on(async {
                let mut client = RunClient::new(client).expect("a client");
                client.next().await.is_some()
            });
            (written.join().expect("no panic"), is_state)
        })
    }

    #[test]
    fn a_line_that_never_ends_is_read_up_to_a_limit() {
        let line = vec![b' '; 2 * LONGEST_LINE];
        let (written, is_state) = read(&line);
        assert!(!is_state);
        assert!(written < line.len(), "{written}");
    }

    #[test]
    fn a_line_of_many_bytes_is_read() {
        let update = serde_json::to_string(&Update::Cells(Vec::new())).expect("JSON");
        let line = format!("{}{update}\n", " ".repeat(LONGEST_LINE / 8));
        assert_eq!(read(line.as_bytes()), (line.len(), true));
    }
}
