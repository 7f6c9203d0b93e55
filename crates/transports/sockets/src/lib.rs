//! Parts shared by drivers whose stack runs on tokio over a UDP socket: the socket, whose buffers
//! are sized and read back ([`socket`]), and a timer as exact as the kernel's ([`timer`]).

pub mod socket;
pub mod timer;
