//! Program that is killed with all that it starts.

use std::{
    fs, io,
    process::{ChildStderr, ChildStdin, ChildStdout, Command},
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

use nix::{
    sys::{
        signal::{SigSet, Signal, kill, killpg},
        wait::WaitStatus,
    },
    unistd::Pid,
};

use crate::{
    namespace::NamespaceInit,
    start::Preparation,
    tree::{children, kill_marked, walk},
    wait::{await_end, wait_without_reaping},
};

/// Environment variable that marks a program and the processes that it starts.
pub const PROGRAM_MARK: &str = "REGATTA_PROGRAM";

/// Maximum time to kill a program; the kernel needs milliseconds.
const END_LIMIT: Duration = Duration::from_secs(2);

/// Maximum time to wait for the kernel to write the memory of crashed processes to core files. A trial that is aborted must end
/// within two seconds.
const CORE_DUMP_LIMIT: Duration = Duration::from_millis(1500);

/// Maximum number of descendants of a program that are examined for core dumps.
const MAX_EXAMINED: usize = 256;

/// Returns a value of [`PROGRAM_MARK`] that no other program of this machine has.
#[must_use]
pub fn program_mark() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{}-{}-{count}", std::process::id(), now.as_nanos())
}

/// Pipes of standard input, output and error.
pub type Pipes = (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>);

/// Program that is killed, with all that it started, when this is dropped. One that has crashed has time to leave a complete
/// core file: 1.5 seconds.
///
/// Where the system allows it, the program has a process namespace of its own ([`NamespaceInit`]): when the program or
/// this process ends, for whatever reason, the kernel kills everything in there. Elsewhere the program is the leader of
/// a session, whose process group is killed; processes that have left the group are found by a mark in their environment.
#[derive(Debug)]
pub struct ContainedProcess {
    leader: Pid,
    /// First process of its namespace.
    init: Option<Pid>,
    /// Mark of the processes that it started, where it has no namespace.
    mark: Option<String>,
    /// Dropped when the leader may be reaped, so that its number is used again.
    release: Option<Sender<()>>,
    reaped: Receiver<()>,
}

/// Kills the processes with this mark, without `leader`.
fn kill_strays(mark: Option<&str>, leader: Pid) {
    if let Some(mark) = mark {
        kill_marked(PROGRAM_MARK, mark, leader.as_raw());
    }
}

/// Waits until the kernel has written the core files of `leader` and its descendants, if it is writing any: a process that is
/// killed meanwhile leaves a part of its file.
fn await_core_dumps(leader: Pid) {
    let until = Instant::now() + CORE_DUMP_LIMIT;
    let descendants = walk(leader.as_raw(), MAX_EXAMINED, children);
    for process in std::iter::once(leader.as_raw()).chain(descendants) {
        if is_dumping(process) {
            let remaining = until.saturating_duration_since(Instant::now());
            let _ = await_end(process.cast_unsigned(), remaining);
        }
    }
}

/// Whether the kernel is writing the core file of a process.
fn is_dumping(process: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    status.lines().any(|line| line == "CoreDumping:\t1")
}

impl ContainedProcess {
    /// Starts a program and returns it with the pipes that the command asks for. When the program has ended and what it
    /// started has been killed, another thread calls `on_end` with the result of the wait; that must not panic. The
    /// program's number stays its own until this value is dropped.
    ///
    /// # Errors
    /// The error of starting the program, or a thread.
    pub fn start(
        mut command: Command,
        on_end: impl FnOnce(nix::Result<WaitStatus>) + Send + 'static,
    ) -> io::Result<(Self, Pipes)> {
        let mark = program_mark();
        command.env(PROGRAM_MARK, &mark);
        Preparation {
            // This process may block the signals that end it, and ignore SIGINT, until it has cleaned up.
            signal_mask: Some(SigSet::empty()),
            session: true,
            default_signals: vec![Signal::SIGINT],
            dies_with_parent: true,
            ..Preparation::default()
        }
        .apply(&mut command);
        let (started_tx, started_rx) = channel();
        let (release, released) = channel();
        let (reaped_tx, reaped) = channel();
        // The kernel kills the program with the thread that started it, so the thread stays; and a thread with a process
        // namespace for its children can start nothing else.
        thread::Builder::new()
            .name("program".into())
            .spawn(move || {
                let init = NamespaceInit::new().ok();
                let mut child = match command.spawn() {
                    Ok(child) => child,
                    Err(error) => return drop(started_tx.send(Err(error))),
                };
                let leader = Pid::from_raw(child.id().cast_signed());
                let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
                let mark = init.is_none().then_some(mark);
                let number = init.as_ref().map(|init| Pid::from_raw(init.id()));
                let _ = started_tx.send(Ok((leader, number, pipes, mark.clone())));
                let kill_strays = || kill_strays(mark.as_deref(), leader);
                let status = wait_without_reaping(leader);
                // A remaining descendant would hold the pipes open.
                let _ = killpg(leader, Signal::SIGKILL);
                init.iter().for_each(NamespaceInit::kill);
                kill_strays();
                on_end(status);
                let _ = released.recv();
                let _ = child.wait();
                drop(init);
                // A process outside the group can have started more until its parent had ended.
                kill_strays();
                drop(reaped_tx);
            })?;
        let started = started_rx.recv().map_err(|_| io::ErrorKind::BrokenPipe)?;
        let (leader, init, pipes, mark) = started?;
        let process = Self {
            leader,
            init,
            mark,
            release: Some(release),
            reaped,
        };
        Ok((process, pipes))
    }

    /// Returns the program's process ID in the namespace of this process.
    #[must_use]
    pub fn id(&self) -> i32 {
        self.leader.as_raw()
    }
}

impl Drop for ContainedProcess {
    fn drop(&mut self) {
        await_core_dumps(self.leader);
        // Until it is released, its number and its group's are its own. They may have ended.
        let _ = kill(self.leader, Signal::SIGKILL);
        let _ = killpg(self.leader, Signal::SIGKILL);
        if let Some(init) = self.init {
            let _ = kill(init, Signal::SIGKILL);
        }
        // Here too, as the thread waits for a leader that the kernel cannot end yet.
        kill_strays(self.mark.as_deref(), self.leader);
        self.release = None;
        // The thread drops its end after the last process.
        let _ = self.reaped.recv_timeout(END_LIMIT);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead as _, BufReader},
        path::Path,
        process::Stdio,
    };

    use super::*;
    use crate::tree::marked;

    fn start(script: &str) -> (ContainedProcess, Pipes, Receiver<nix::Result<WaitStatus>>) {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(Stdio::piped());
        let (ended_tx, ended) = channel();
        let on_end = move |status| ended_tx.send(status).unwrap();
        let (process, pipes) = ContainedProcess::start(command, on_end).unwrap();
        (process, pipes, ended)
    }

    #[test]
    fn an_ended_process_is_reaped_when_it_is_dropped() {
        let (process, _, ended) = start("exit 7");
        let id = Pid::from_raw(process.id());
        assert_eq!(ended.recv().unwrap(), Ok(WaitStatus::Exited(id, 7)));
        let directory = format!("/proc/{id}");
        assert!(Path::new(&directory).exists());
        drop(process);
        assert!(!Path::new(&directory).exists());
    }

    /// The first process of a namespace would ignore it.
    #[test]
    fn a_process_ends_by_a_signal_that_it_sends_to_itself() {
        let (process, _, ended) = start("kill -ABRT $$; exit 7");
        let status = ended.recv().unwrap();
        assert!(
            matches!(status, Ok(WaitStatus::Signaled(_, Signal::SIGABRT, _))),
            "{status:?}"
        );
        drop(process);
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        let error = ContainedProcess::start(Command::new("/nothing/here"), |_| {}).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_drop_kills_the_process_and_a_session_that_it_started() {
        let (process, (_, output, _), ended) =
            start("setsid sleep 3600 & echo $REGATTA_PROGRAM; wait");
        let mut mark = String::new();
        let mut output = BufReader::new(output.unwrap());
        output.read_line(&mut mark).unwrap();
        let mark = mark.trim_end();
        assert!(!marked(PROGRAM_MARK, mark).is_empty());
        drop(process);
        let status = ended.recv().unwrap();
        assert!(
            matches!(status, Ok(WaitStatus::Signaled(_, Signal::SIGKILL, _))),
            "{status:?}"
        );
        assert_eq!(marked(PROGRAM_MARK, mark), Vec::<i32>::new());
    }
}
