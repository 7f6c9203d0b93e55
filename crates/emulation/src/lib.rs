//! A network path as a pure state machine: it is told the time and never asks for it.
//!
//! A [`Line`] is one direction of a path, made from a [`regatta_model::Link`]. Packets are offered
//! to it with the time of their arrival and come out when they are due. The same link, seed and
//! sequence of offers always give the same fates and the same times, on every machine, so that
//! what a forwarder does in real time can be had again in a test in simulated time.
//!
//! Times are nanoseconds since an origin that the caller chooses; sizes are bytes of whole IP
//! packets.

mod draws;
mod line;

pub use line::{Cause, Counters, Direction, Due, Line, LinkError, Offer, Packet};
