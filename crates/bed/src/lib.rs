//! Test bed of a study: two hosts and the path between them.
//!
//! [`Bed::up`] starts a process that keeps the path (`path-daemon`, [`regatta_path_daemon::main`]): two network
//! namespaces, a TUN device in each, and one thread that carries packets between them through
//! `regatta_emulation`. Agents are started inside the namespaces. All of them end with the
//! controller: when it ends, however it ends, the daemon and the agents end, and with the last
//! process in them the namespaces are removed.

mod bed;
pub mod capture;
mod clocks;
mod daemon_process;
mod error;
mod exit;
pub mod guest;
pub mod hosts;
mod json_child;
mod launch;
pub mod port_probe;
pub mod program;
mod second_guest;
mod server_bed;
pub mod session;
mod test_bed;

pub use bed::{Bed, HOST_MONITOR, with_emulator_for};
pub use clocks::{HostClocks, RemoteClock};
pub use daemon_process::OnDaemonEnd;
pub use error::BedError;
pub use exit::Exit;
pub use json_child::{ChildOutput, JsonChild, ProcessEnd};
pub use launch::{ChildProcess, Errors, Input, Launched, LaunchedProcess, Launcher};
pub use regatta_control::Host;
pub use regatta_forwarder::{CompetingFlow, FlowCounters, LinkCounters, UnsupportedCounters};
pub use regatta_path_daemon::messages::PathCounters;
pub use regatta_process::{
    Executable, LastLines, MalformedLine, OnStop, StopRequest, problem, write_line,
};
pub use second_guest::{COMMAND as SECOND_GUEST_COMMAND, main as second_guest_main};
pub use server_bed::ServerBed;
pub use test_bed::TestBed;
