//! What somebody outside did to this end while a trial ran, which is no finding about its transport.

use std::{
    net::IpAddr,
    sync::atomic::{AtomicU64, Ordering},
};

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use regatta_control::{Problem, ProblemKind};
use regatta_model::reason;
use regatta_telemetry::{LinkWatch, interface_of};

/// Number of times that this process was told to go on after it was stopped.
static CONTINUED: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_continue(_: libc::c_int) {
    CONTINUED.fetch_add(1, Ordering::Relaxed);
}

/// Counts from now on how often this process is stopped and told to go on.
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
