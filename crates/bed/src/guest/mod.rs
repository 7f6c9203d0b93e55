//! Guest: a User Mode Linux kernel that runs one program over this host's files.
//!
//! A guest needs neither root nor hardware virtualisation, and its kernel has SCTP, netem and every
//! congestion control whatever the host's kernel lacks. [`Guest::start`] starts this very program
//! again as the guest's daemon ([`daemon_main`]), which makes namespaces of its own in which the
//! host's files cannot be written, and starts the kernel in them; the kernel starts this very
//! program a third time as its first process ([`init_main`]), which prepares the guest and runs the
//! program of the [`Order`] in it.
//!
//! A guest ends with the controller: the daemon's first process in its process namespace ends with
//! the controller, and with that process the kernel ends all others and removes the mounts, so that
//! no process and no file is left, also after `kill -9`.
//!
//! With [`Clock::Virtual`] the guest's time stands still while it works and jumps to the next timer
//! while it waits: nothing that runs on the host changes what is measured inside. The host can
//! therefore not take part in a measurement: its answer would always come too late. All parts of a
//! measurement run inside and only report to the controller ([`send_message`]).

mod daemon;
mod guest_side;
mod handle;
mod image;
mod init;
mod mounts;
mod order;
mod wire;

pub use daemon::main as daemon_main;
pub use guest_side::{
    FILES, forgets_random_numbers, is_guest, payload, seed_random_numbers, send_message,
    wait_for_long_timers, wait_for_short_timers, wait_for_timers,
};
pub use handle::{Guest, GuestError};
pub use image::{CONGESTION_CONTROLS, Image, ImageError, VIRTUAL_KERNEL_HINT, find};
pub use init::main as init_main;
pub use order::{GuestMessage, Order};
pub use regatta_model::Clock;
pub use wire::{CONTROL_WIRE, PATH_WIRE, Wires, wires};

pub use regatta_forwarder::clock::is_virtual;

/// Hidden subcommand of `regatta` that is the daemon of a guest.
pub const DAEMON_COMMAND: &str = "guest-daemon";

/// Hidden subcommand of `regatta` that is the first process (init) of a guest.
pub const INIT_COMMAND: &str = "guest-init";
