//! Content of a transfer, and its check at the receiver.

pub(crate) mod acknowledgement;
mod marks;
pub(crate) mod message_check;
pub(crate) mod noise;
pub(crate) mod part;
pub(crate) mod plan;
pub(crate) mod stream_check;

pub(crate) use marks::Marks;
