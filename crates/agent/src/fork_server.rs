//! Fork server: a child process of its own serves from each `hello` to the next.
//!
//! The process that the controller has started has done nothing but read its input; it forks, and each child begins with
//! the same memory. Nothing of the trials before is then in its random numbers, its caches or its memory. A program that
//! is started from its file would do the same, and take three times as long in a guest.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
};

use nix::{
    sys::{
        signal::{SigHandler, Signal, raise, signal},
        wait::{WaitStatus, waitpid},
    },
    unistd::{ForkResult, Pid, fork},
};
use regatta_control::ToAgent;
use regatta_process::{descriptor, readable};

use crate::{error::AgentError, input::LONGEST_LINE};

/// Bytes that are read at once.
const READ: usize = 16 << 10;

/// Part of this process after [`run`].
pub(crate) enum Part {
    /// Serve, with this input.
    Serve(Box<dyn io::Read + Send>),
    /// End with this code: its children have served.
    End(i32),
}

/// Reads the first line, and forks a child for each `hello` if that one asks for it. Returns in each child, and in this
/// process when the last one has ended. Must be called before the process has threads.
///
/// # Errors
/// [`AgentError::Input`], [`AgentError::Fork`].
pub(crate) fn run() -> Result<Part, AgentError> {
    let mut input = Input::default();
    let first = input.next_line(None).map_err(AgentError::Input)?;
    if !first.as_deref().is_some_and(asks_for_fork) {
        let read = first.unwrap_or_default();
        return Ok(Part::Serve(Box::new(
            io::Cursor::new([read, input.buffered].concat()).chain(io::stdin()),
        )));
    }
    let mut line = first;
    let mut serving: Option<Serving> = None;
    while let Some(text) = line {
        if asks_for_fork(&text) {
            if let Some(code) = serving.take().map(Serving::end).filter(|code| *code != 0) {
                return Ok(Part::End(code));
            }
            let (read, write) = io::pipe().map_err(AgentError::Fork)?;
            // SAFETY: this process has one thread, so the child may do anything.
            match unsafe { fork() }.map_err(|error| AgentError::Fork(error.into()))? {
                ForkResult::Child => return Ok(Part::Serve(Box::new(read))),
                ForkResult::Parent { child } => serving = Some(Serving::new(child, write.into())),
            }
        }
        let Some(serving) = &mut serving else { break };
        // One that has ended reads nothing any more, which the next wait notices.
        let _ = serving.input.write_all(&text);
        line = input
            .next_line(serving.ended.as_ref())
            .map_err(AgentError::Input)?;
    }
    Ok(Part::End(serving.map_or(0, Serving::end)))
}

fn asks_for_fork(line: &[u8]) -> bool {
    matches!(
        serde_json::from_slice(line),
        Ok(ToAgent::Hello { fork: true, .. })
    )
}

/// Child that serves.
struct Serving {
    process: Pid,
    input: File,
    /// Readable when the child has ended; `None` where the system has no descriptors of processes.
    ended: Option<OwnedFd>,
}

impl Serving {
    fn new(process: Pid, input: OwnedFd) -> Self {
        Self {
            process,
            input: input.into(),
            ended: descriptor(process.as_raw().cast_unsigned()),
        }
    }

    /// Closes its input, waits for its end and returns its exit code. A signal that has ended it ends this process, too.
    fn end(self) -> i32 {
        drop(self.input);
        loop {
            match waitpid(self.process, None) {
                Ok(WaitStatus::Exited(_, code)) => return code,
                Ok(WaitStatus::Signaled(_, by, _)) => {
                    end_by(by);
                    return 1;
                }
                Err(nix::errno::Errno::EINTR) | Ok(_) => {}
                Err(_) => return 1,
            }
        }
    }
}

/// Ends this process by a signal.
fn end_by(by: Signal) {
    // SAFETY: the default action is no function.
    let _ = unsafe { signal(by, SigHandler::SigDfl) };
    let _ = raise(by);
}

/// Standard input, by lines.
#[derive(Default)]
struct Input {
    buffered: Vec<u8>,
}

impl Input {
    /// Returns the next line with its end; `None` at the end of input, or when `ended` can be read.
    fn next_line(&mut self, ended: Option<&OwnedFd>) -> io::Result<Option<Vec<u8>>> {
        let mut searched = 0;
        loop {
            if let Some(end) = self.buffered[searched..]
                .iter()
                .position(|byte| *byte == b'\n')
            {
                let rest = self.buffered.split_off(searched + end + 1);
                return Ok(Some(std::mem::replace(&mut self.buffered, rest)));
            }
            searched = self.buffered.len();
            let stdin = io::stdin();
            if let Some(ended) = ended {
                let files: [BorrowedFd<'_>; 2] = [stdin.as_fd(), ended.as_fd()];
                readable(&files, None)?;
                if readable(&files[1..], Some(std::time::Duration::ZERO))? {
                    return Ok(None);
                }
            }
            if searched as u64 > LONGEST_LINE {
                return Ok(Some(std::mem::take(&mut self.buffered)));
            }
            self.buffered.resize(searched + READ, 0);
            let read = nix::unistd::read(stdin.as_fd(), &mut self.buffered[searched..]);
            self.buffered
                .truncate(searched + read.as_ref().copied().unwrap_or(0));
            match read {
                Ok(0) => {
                    return Ok(
                        (!self.buffered.is_empty()).then(|| std::mem::take(&mut self.buffered))
                    );
                }
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
