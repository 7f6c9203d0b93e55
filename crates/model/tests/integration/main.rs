//! Tests of this crate: one binary for all files, so that its dependencies are linked once.

mod claims;
mod competition;
mod condition;
mod documents;
mod hints;
mod published;
mod rounds;
mod script;
mod study_file;
mod sweep;
