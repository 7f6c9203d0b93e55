//! Emulation of a network path as a pure state machine, which is given the time and reads no clock.
//!
//! A [`EmulatedLink`] is one direction of a path, made from a [`regatta_model::Condition`]. Packets are
//! offered to it with the time of their arrival and come out when they are due. The same condition,
//! seed and sequence of offers always give the same losses and the same times, on every machine, so
//! that a test in simulated time can reproduce what a forwarder does in real time.
//!
//! Times are nanoseconds since an origin that the caller chooses; sizes are bytes of whole IP
//! packets.

mod bottleneck;
mod correlated_delay;
mod delay;
mod discipline;
mod flows;
mod impairments;
mod in_flight;
mod link;
mod outcome;
mod packet;
mod queue;
mod rng;
mod settings;

pub use delay::{DelayMoments, delay_moments, netem_table};
pub use flows::{FlowCounters, FlowPath};
pub use link::EmulatedLink;
pub use outcome::{Counters, Discarded, Due, Offer};
pub use packet::{Ecn, Packet};
pub use settings::{Direction, LinkError};
