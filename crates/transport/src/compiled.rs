//! Optimisation level of this crate, on which the figures of every transport depend.

/// Optimisation level: `3`, `2`, `1`, `0`, `s` or `z`.
pub const OPT_LEVEL: &str = env!("REGATTA_OPT_LEVEL");

/// Whether debug assertions are on.
pub const DEBUG_ASSERTIONS: bool = cfg!(debug_assertions);
