//! What is sent, and how its receiver knows that it is that.

mod marks;
pub(crate) mod message_check;
pub(crate) mod plan;
pub(crate) mod stream_check;

pub(crate) use marks::Marks;
