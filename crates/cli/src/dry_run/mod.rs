//! Work of `regatta run` before anything is run, which is all that `regatta run --dry-run` does.

pub mod checks;
pub mod describe;
