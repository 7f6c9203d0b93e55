//! Tests of this crate: one binary for all files, so that its dependencies are linked once.

#[cfg(feature = "default")]
mod contract;
#[cfg(feature = "default")]
mod every_stack;
#[cfg(feature = "quiche")]
mod quiche;
#[cfg(all(feature = "quinn", feature = "noq"))]
mod quinn_family;
#[cfg(feature = "s2n")]
mod s2n;
