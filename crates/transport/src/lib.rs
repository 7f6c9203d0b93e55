//! Driver traits, and the workloads, which are written once for all drivers.
//!
//! A driver is registered as a [`Driver`]: it describes itself, checks its options, checks whether it
//! can run on this host, and makes the sessions of both ends of a trial. The rest is generic code.
//! A driver implements [`Client`] and [`Server`], and, if it is one of streams, [`StreamConnection`]
//! and [`ByteStream`], if it is one of messages, [`MessageEndpoint`] and [`MessageFlow`]. It passes its
//! ends to [`StreamSession`] or [`MessageSession`]. These run the workload: idle probe, transfer, probe
//! under load, end of trial by agreement of both ends, deadline.
//!
//! [`Driver::client`] and [`Driver::server`] end with `Ok(StreamSession::new(endpoint, order, context)?)`.
//!
//! The process that runs a session gives it a [`TrialContext`]: live counters, an observer of the
//! edges of the transfer window, a way to the other end over the control stream, and a stop.

pub mod addresses;
pub mod applicable;
pub mod clock;
pub mod compiled;
mod connections;
mod content;
pub mod context;
mod delivered;
pub mod descriptor;
pub mod driver;
pub mod endpoint;
pub mod error;
mod exchange;
mod executor;
mod flows;
pub mod message;
pub mod opening;
pub mod options;
pub mod peer;
mod probe;
mod session;
pub mod socket_option;
mod statistics;
pub mod stop;
pub mod stream;
mod sync;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod timeout;
pub mod transfer;
mod trial;
pub mod wait;
mod window;
#[cfg(test)]
mod wire;

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
pub use driver::{ClientSession, Driver, ServerSession, Session};
pub use endpoint::{Accepted, Client, Endpoint, Server};
pub use error::{Result, TimeLimit, TransportError, Unsupported};
pub use exchange::stated::StatedExchange;
pub use executor::{Blocking, Executor};
pub use message::{Arrival, MessageEndpoint, MessageFlow};
pub use opening::Purpose;
pub use peer::{Peer, PeerEvent, PeerState};
pub use probe::idle_messages_at_once;
pub use regatta_process::{create_replacing, loads_modules};
pub use session::{MessageSession, StreamSession, TransferSession, complete_stack_facts};
pub use stop::{Abort, Stop};
pub use stream::{ByteStream, HandshakeMade, Received, StreamConnection};
pub use transfer::{FileReceiver, FileSender, TransferEndpoint};
pub use trial::{Trial, findings::Findings, stated_probe::StatedProbe, watch::ClientEnd};
pub use window::{WindowRange, WindowSizes, tcp_buffer_bytes};
