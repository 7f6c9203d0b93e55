//! Handle of a guest, for the controller.

use std::{
    io::{self, BufRead, BufReader},
    os::fd::{AsRawFd, OwnedFd},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    thread::JoinHandle,
    time::Duration,
};

use regatta_model::{Problem, ProblemKind, reason};
use regatta_process::{
    Preparation, descendants, end_within, ended_within, is_stopped, out_of_memory_kills, write_line,
};

use super::{
    DAEMON_COMMAND,
    order::{GuestMessage, Instructions, Order, PROTOCOL_VERSION},
};
use crate::{error::BedError, exit::Exit, launch};

/// Time that a daemon has to end by itself before it is killed.
const EXIT_LIMIT: Duration = Duration::from_millis(500);

/// Errors of starting a guest, before the guest itself can report any.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// The guest's daemon could not be started.
    #[error(transparent)]
    Daemon(#[from] BedError),
    /// The guest's daemon could not be given its order.
    #[error("cannot send the order to the guest's daemon")]
    Order(#[source] io::Error),
    /// The sockets that join two guests could not be created.
    #[error("cannot create the virtual Ethernet between two guests")]
    Wires(#[source] io::Error),
    /// A thread could not be started.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
}

/// Running guest. It ends when this is dropped, and also with the *thread* that started it.
#[derive(Debug)]
pub struct Guest {
    child: Child,
    /// [`out_of_memory_kills`] when the daemon was started.
    kills_before: u64,
    /// Standard input of the daemon; closing it ends the daemon.
    orders: Option<ChildStdin>,
    messages: Receiver<GuestMessage>,
    reader: Option<JoinHandle<()>>,
}

impl Guest {
    /// Starts `executable guest-daemon` and gives it its order.
    ///
    /// # Errors
    /// [`GuestError`]; errors in the daemon are reported as [`GuestMessage::Failed`].
    pub fn start(executable: &Path, order: &Order) -> Result<Self, GuestError> {
        Self::start_joined(executable, order, &[], || {})
    }

    /// Starts a guest as [`Guest::start`] does, with `wires`: its ends of the wires that
    /// [`wires`](super::wires) makes. `on_message` is called whenever [`Guest::receive`] has something to return.
    ///
    /// # Errors
    /// As [`Guest::start`].
    pub fn start_joined(
        executable: &Path,
        order: &Order,
        wires: &[OwnedFd],
        on_message: impl Fn() + Send + 'static,
    ) -> Result<Self, GuestError> {
        let executable = launch::open(executable)?;
        let streams = [Stdio::piped(), Stdio::piped(), Stdio::inherit()];
        let preparation = Preparation {
            inherited: wires.iter().map(AsRawFd::as_raw_fd).collect(),
            ..Preparation::default()
        };
        let mut child = launch::spawn(&executable, &[DAEMON_COMMAND], &[], streams, preparation)?;
        let (sender, messages) = mpsc::channel();
        let orders = child.stdin.take();
        let output = child.stdout.take();
        // From here on dropping it ends the process.
        let mut guest = Self {
            child,
            kills_before: out_of_memory_kills(),
            orders,
            messages,
            reader: None,
        };
        let instructions = Instructions {
            protocol: PROTOCOL_VERSION,
            order: order.clone(),
            wires: wires.iter().map(AsRawFd::as_raw_fd).collect(),
        };
        if let Some(orders) = &mut guest.orders {
            write_line(orders, &instructions).map_err(GuestError::Order)?;
        }
        if let Some(output) = output {
            let reader = std::thread::Builder::new()
                .name("messages of the guest".into())
                .spawn(move || {
                    read(output, &sender, &on_message);
                    // From here on the receiver sees the end.
                    drop(sender);
                    on_message();
                })
                .map_err(GuestError::Thread)?;
            guest.reader = Some(reader);
        }
        Ok(guest)
    }

    /// Returns the process identifier of the daemon.
    #[must_use]
    pub fn daemon_pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for at most `within` for the next message of the guest and returns it.
    ///
    /// No message comes after [`GuestMessage::Ended`] or [`GuestMessage::Failed`]. A daemon that was killed is
    /// reported as [`GuestMessage::Failed`] too.
    pub fn receive(&mut self, within: Duration) -> Option<GuestMessage> {
        match self.messages.recv_timeout(within) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                let status = ended_within(&mut self.child, EXIT_LIMIT).ok().flatten();
                let exit = status.map(|status| Exit::new(status, self.kills_before));
                let reason = match &exit {
                    Some(exit) => reason::guest_daemon_ended_with(exit.text()),
                    None => reason::guest_daemon_ended(),
                };
                let kind = match exit.is_some_and(|exit| exit.is_from_outside()) {
                    true => ProblemKind::Disturbed,
                    false => ProblemKind::Failed,
                };
                Some(GuestMessage::Failed(Problem::new(kind, [reason], "")))
            }
        }
    }
}

impl Guest {
    /// Whether somebody has stopped a process of the guest with a signal.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        let processes = descendants(self.child.id().cast_signed());
        processes
            .into_iter()
            .any(|process| is_stopped(process.cast_unsigned()))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // End of input ends it.
        self.orders = None;
        // The first process of the guest's namespace goes with it.
        end_within(&mut self.child, EXIT_LIMIT);
        if let Some(reader) = self.reader.take() {
            // All writers have ended.
            let _ = reader.join();
        }
    }
}

fn read(output: ChildStdout, sender: &Sender<GuestMessage>, on_message: &impl Fn()) {
    for line in BufReader::new(output).split(b'\n') {
        let Ok(line) = line else { return };
        let message = serde_json::from_slice(&line).unwrap_or_else(|_| GuestMessage::Console {
            line: String::from_utf8_lossy(&line).into_owned(),
        });
        if sender.send(message).is_err() {
            return;
        }
        on_message();
    }
}
