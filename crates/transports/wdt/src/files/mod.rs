//! Files on disk: a file or a directory tree as a source, a directory as a sink.
//!
//! Both descend from an open directory, name by name, and follow no symbolic link below it, so that
//! the place of a path cannot be changed while the transfer runs.

mod directory;
mod directory_handle;
mod entry;
mod journal;
mod load;
mod parents;
mod ranges;
mod select;
mod tree;

pub use directory::{DirectoryOptions, DirectorySink, DirectoryWriter};
pub use select::{Glob, Listed, ManifestError, Selection, read_manifest};
pub use tree::{LeftOut, TreeError, TreeReader, TreeSource};
