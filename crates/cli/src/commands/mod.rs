//! Commands of the program: a file or a folder for each, or for a few that share their code.

pub mod attach;
pub mod bundle;
pub mod client;
pub mod cluster;
pub mod compare;
pub mod completion;
pub mod doctor;
pub mod export;
pub mod hosts;
pub mod list;
pub mod manual;
pub mod merge;
pub mod monitor;
pub mod path;
pub mod plan;
pub mod report;
pub mod run;
pub mod server;
pub mod wdt;
