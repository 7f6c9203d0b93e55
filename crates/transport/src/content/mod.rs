//! What is sent, and how its receiver knows that it is that.

pub(crate) mod acknowledgement;
mod marks;
pub(crate) mod message_check;
pub(crate) mod noise;
pub(crate) mod plan;
pub(crate) mod stream_check;

pub(crate) use marks::Marks;
