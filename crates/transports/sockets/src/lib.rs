//! Parts shared by drivers whose stack runs on tokio: the executor ([`executor`]), the UDP socket, whose buffers
//! are sized and read back ([`socket`]), and a timer as exact as the kernel's ([`timer`]).

pub mod executor;
pub mod socket;
pub mod timer;
pub mod wait;
