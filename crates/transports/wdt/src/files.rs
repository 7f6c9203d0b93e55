//! Files on disk: a file or a directory tree as a source, a directory as a sink.
//!
//! Both go from an open directory down, name by name, and follow no symbolic link below it: where a
//! path leads does not depend on what somebody puts in its way while the transfer runs.

mod below;
mod directory;
mod journal;
mod ranges;
mod select;
mod tree;

pub use directory::{DirectoryOptions, DirectorySink, DirectoryWriter};
pub use select::{Glob, Listed, ManifestError, Selection, read_manifest};
pub use tree::{LeftOut, TreeError, TreeReader, TreeSource};
