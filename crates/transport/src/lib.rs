//! Driver traits, and the workloads, which are written once for all drivers.
//!
//! A driver is registered as a [`Driver`]: it describes itself, checks its options, checks whether it
//! can run on this host, and prepares a [`Session`] for one end of one trial. The rest is generic
//! code. A driver of streams implements [`StreamEndpoint`], [`StreamConnection`] and [`ByteStream`]
//! and passes them to [`StreamSession`]. A driver of messages implements [`MessageEndpoint`] and
//! [`MessageFlow`] and passes them to [`MessageSession`]. The sessions run the workload: idle
//! probe, transfer, probe under load, end of trial by agreement of both ends, deadline.
//!
//! A driver's `prepare` ends with `Box::new(StreamSession::new(endpoint, order, context)?)`.
//!
//! The process that runs a session gives it a [`TrialContext`]: live counters, an observer of the
//! edges of the transfer window, a way to the other end over the control stream, and a stop.

pub mod addresses;
mod applicable;
pub mod clock;
pub mod compiled;
mod connections;
mod content;
pub mod context;
mod delivered;
pub mod descriptor;
pub mod driver;
pub mod error;
mod exchange;
mod executor;
pub mod message;
mod message_flow;
pub mod opening;
pub mod options;
pub mod peer;
mod probe;
mod session;
pub mod socket_option;
mod statistics;
pub mod stop;
pub mod stream;
mod stream_flows;
mod sync;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod timeout;
pub mod transfer;
mod trial;
pub mod wait;
mod window;

pub use clock::MonotonicTime;
pub use content::noise::{has_noise_file, make_noise_file};
pub use content::plan::message_content;
pub use context::{
    LiveCounters, Observer, Phase, ProtocolSample, StatisticsSource, TrialContext, WindowEdge,
    WindowLimit, WindowLimited, WindowStatistics,
};
pub use delivered::Delivered;
pub use descriptor::{
    Carries, DriverDescriptor, FILE_OPTIONS, OptionDefinition, OptionError, OptionKind,
    OptionValues,
};
pub use driver::{Driver, Session};
pub use error::{Result, TimeLimit, TransportError, Unsupported};
pub use exchange::stated::StatedExchange;
pub use executor::{Blocking, Executor};
pub use message::{Arrival, MessageEndpoint, MessageFlow};
pub use opening::Purpose;
pub use peer::{Peer, PeerEvent, PeerState};
pub use probe::idle_messages_at_once;
pub use regatta_process::loads_modules;
pub use session::{MessageSession, StreamSession, TransferSession, complete_stack_facts};
pub use stop::{Abort, Stop};
pub use stream::{ByteStream, HandshakeMade, Received, StreamConnection, StreamEndpoint};
pub use transfer::TransferEndpoint;
pub use trial::{Trial, findings::Findings, stated_probe::StatedProbe, watch::ClientEnd};
pub use window::{WindowRange, WindowSizes, tcp_buffer_bytes};
