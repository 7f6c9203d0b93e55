//! Parts shared by drivers whose stack runs on tokio: the executor ([`executor`]), the UDP socket, whose buffers
//! are sized and read back ([`socket`]), a timer as exact as the kernel's ([`timer`]), and the I/O loop of
//! protocols that have none of their own ([`driver`]). Buffers of a socket ([`option`]) and batches of messages
//! ([`message`]) are used by blocking drivers as well.

pub mod driver;
pub mod endpoints;
pub mod executor;
pub mod message;
pub mod option;
pub mod socket;
pub mod timer;
pub mod wait;
