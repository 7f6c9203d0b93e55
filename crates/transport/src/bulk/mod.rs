//! The workload `bulk`: one flow of messages from the connecting end to the listening one.

mod message_check;
mod message_receiver;
pub(crate) mod messages;
pub(crate) mod plan;
mod stream_check;
mod stream_receiver;
pub(crate) mod streams;
