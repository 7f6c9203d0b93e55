//! Handle of a guest, for the controller.

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
    path::Path,
    process::Stdio,
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    time::Duration,
};

use regatta_model::{Problem, ProblemKind, reason};
use regatta_process::{Preparation, descendants, is_stopped};

use super::{
    DAEMON_COMMAND,
    order::{GuestMessage, Instructions, Order, PROTOCOL_VERSION},
};
use crate::{
    error::BedError,
    json_child::{ChildOutput, JsonChild},
    launch,
};

/// Longest line of a guest's daemon, in bytes: an event of the run, with the reports of both agents in it.
const LONGEST_LINE: u64 = 1 << 30;

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
    child: JsonChild<Instructions, GuestMessage>,
    messages: Receiver<GuestMessage>,
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
        let child = launch::spawn(&executable, &[DAEMON_COMMAND], &[], streams, preparation)?;
        let (sender, messages) = mpsc::channel();
        let mut sender = Some(sender);
        let put = move |output| {
            let message = match output {
                ChildOutput::Message(message) => Some(message),
                ChildOutput::Malformed(line) => Some(GuestMessage::Console { line: line.text() }),
                // From here on the receiver sees the end.
                ChildOutput::Ended(_) => {
                    sender = None;
                    None
                }
            };
            let sent = sender.as_ref().zip(message);
            let is_read = sent.is_some_and(|(sender, message)| sender.send(message).is_ok());
            on_message();
            is_read
        };
        let child = JsonChild::start(child.into(), "the guest", LONGEST_LINE, put);
        let mut guest = Self {
            child: child.map_err(GuestError::Thread)?,
            messages,
        };
        let instructions = Instructions {
            protocol: PROTOCOL_VERSION,
            order: order.clone(),
            wires: wires.iter().map(AsRawFd::as_raw_fd).collect(),
        };
        let sent = guest.child.send(&instructions);
        sent.map_err(GuestError::Order)?;
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
                let exit = self.child.exit();
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

    /// Whether somebody has stopped a process of the guest with a signal.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        let processes = descendants(self.child.id().cast_signed());
        processes
            .into_iter()
            .any(|process| is_stopped(process.cast_unsigned()))
    }
}
