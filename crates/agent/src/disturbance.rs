//! Disturbances of this end from outside during a trial: signals that stop the process, an interface that went down.

use std::{
    net::IpAddr,
    sync::atomic::{AtomicU64, Ordering},
};

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use regatta_control::{Problem, ProblemKind};
use regatta_model::reason;
use regatta_telemetry::{LinkWatch, interface_of};

/// Number of `SIGCONT` signals that this process has received.
static CONTINUED: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_continue(_: libc::c_int) {
    CONTINUED.fetch_add(1, Ordering::Relaxed);
}

/// Installs the handler that counts `SIGCONT` in [`CONTINUED`].
pub(crate) fn prepare() {
    let handler = SigHandler::Handler(on_continue);
    let action = SigAction::new(handler, SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: the handler does nothing but add to an atomic number.
    let _ = unsafe { sigaction(Signal::SIGCONT, &action) };
}

/// Watch over the process and its data interface during one trial.
pub(crate) struct Disturbances {
    continued: u64,
    interface: Option<(String, LinkWatch)>,
}

impl Disturbances {
    /// Begins the watch; `local` is an address of the interface.
    pub(crate) fn watch(local: IpAddr) -> Self {
        let watched = |name: String| LinkWatch::of(&name).map(|watch| (name, watch));
        Self {
            continued: CONTINUED.load(Ordering::Relaxed),
            interface: interface_of(local).and_then(watched),
        }
    }

    /// Returns the result of a trial, which is a failure if it was disturbed.
    pub(crate) fn judge<T>(&self, result: Result<T, Problem>) -> Result<T, Problem> {
        self.failure().map_or(result, Err)
    }

    fn failure(&self) -> Option<Problem> {
        let (reason, hint) = if CONTINUED.load(Ordering::Relaxed) != self.continued {
            (
                reason::own_process_stopped(),
                reason::leave_processes_alone(),
            )
        } else {
            let (name, watch) = self.interface.as_ref()?;
            if !watch.was_down() {
                return None;
            }
            (
                reason::interface_was_down(name),
                reason::look_at_interface(),
            )
        };
        Some(Problem::new(ProblemKind::Disturbed, [reason], hint))
    }
}
