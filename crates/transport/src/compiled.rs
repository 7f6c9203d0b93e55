//! How this crate was compiled, which decides what every transport's figures are worth.

/// Optimisation level: `3`, `2`, `1`, `0`, `s` or `z`.
pub const OPT_LEVEL: &str = env!("REGATTA_OPT_LEVEL");

/// Whether debug assertions are on.
pub const DEBUG_ASSERTIONS: bool = cfg!(debug_assertions);
