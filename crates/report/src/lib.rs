//! Reports from a results file alone: the summary as JSON, tables for a terminal, one
//! self-contained HTML page.
//!
//! ```text
//! results.sqlite ─▶ load ─▶ RunData ─▶ summarise ─▶ Summary ─▶ terminal::render
//!                              │                       ├─────▶ html::render
//!                              └───────────────────────┴─────▶ summary.json
//! ```
//! This crate measures nothing and reads saved data only, so that any report can be made again.

pub mod analysis;
pub mod answer;
mod brief;
pub mod compare;
mod data;
mod error;
pub mod figure_files;
pub mod format;
mod harm;
pub mod html;
pub mod labels;
pub mod language;
mod outcomes;
mod path_text;
pub mod pdf;
pub mod terminal;
mod text;
pub mod timeline;
mod write;

pub use analysis::{Conclusion, Summary, describe_metric, digest, is_decided, summarise, value_of};
pub use data::{RunData, load};
pub use error::ReportError;
pub use regatta_results::RunState;
pub use timeline::HostTimeline;
pub use write::{
    Written, write_all, write_comparison, write_figure_file, write_files, write_html,
    write_monitor, write_pdf, write_summary,
};
