//! Tests of this crate: one binary for all files, so that its dependencies are linked once.

mod brief;
mod browser;
mod claims;
mod claims_shown;
mod common;
mod compare;
mod decided;
mod devtools;
mod figures;
mod files;
mod interaction;
mod kernels;
mod pdf;
mod pdf_numbers;
mod print;
mod russian;
mod scale;
mod series;
mod snapshots;
mod successes;
mod summary;
mod sweeps;
mod typesetter;
mod validity;
mod verdict;
mod verdict_values;

#[path = "../../examples/validity/draws.rs"]
mod draws;
#[path = "../../examples/validity/runs.rs"]
mod runs;
