//! Child processes: starting them so that they end with their parent, waiting for them, exchanging messages with them,
//! and finding and killing everything that they started. Beside them, what the kernel that runs them can do, errors as
//! another process gets them, and files by names that others can guess.

mod contained;
mod exit;
mod line;
mod modules;
mod namespace;
mod own;
mod problem;
mod regular;
mod start;
mod stop;
mod temporary;
mod thread;
mod tree;
mod wait;

pub use contained::{ContainedProcess, PROGRAM_MARK, Pipes, program_mark};
pub use exit::{is_stopped, out_of_memory_kills};
pub use line::{JsonLines, LastLines, MalformedLine, each_line, write_line};
pub use modules::loads_modules;
pub use namespace::NamespaceInit;
pub use own::{become_subreaper, die_with_parent, set_name};
pub use problem::{exit_code, in_one_line, is_limited, limit_hint, problem};
pub use regular::{create_replacing, open_regular, read_regular};
pub use start::{Executable, Preparation};
pub use stop::{OnStop, StopRequest};
pub use temporary::TemporaryDirectory;
pub use thread::spawn_scoped;
pub use tree::{
    ancestors, children, descendants, kill_descendants, kill_descendants_but, kill_marked, marked,
    walk,
};
pub use wait::{await_end, descriptor, end_within, ended_within, on_end, readable, wait_and_reap};
