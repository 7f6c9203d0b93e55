//! Samplers of one end's host: CPU of the process and of the host, memory, interface counters,
//! protocol counters, facts, and what the machine can do.
//!
//! Nothing here knows of transports or of the control protocol. What a transport knows of itself
//! comes in through [`FlowSource`]. Everything is read from the network namespace of the thread
//! that opens it (`/proc/thread-self/net`, not sysfs, which shows the mount's namespace), and
//! values that a kernel does not provide are absent, never zero.

pub mod capability;
pub mod clock;
mod ethtool;
pub mod facts;
mod file;
pub mod host_cpu;
pub mod interface;
mod link_watch;
pub mod monitor;
pub mod process;
pub mod protocol;
pub mod reading;
pub mod sampler;
pub mod series;
pub mod tree;

pub use capability::{Capability, capabilities, congestion_controls, has_congestion_control};
pub use clock::monotonic_ns;
pub use facts::host_facts;
pub use interface::{InterfaceCounters, InterfaceInfo, interface_of};
pub use link_watch::LinkWatch;
pub use process::cpu_time_step;
pub use reading::{EcnCounts, Gauges, Instruments, Reading, WindowDeltas};
pub use sampler::Sampler;
pub use series::{FlowSample, FlowSource};
pub use tree::Subject;
