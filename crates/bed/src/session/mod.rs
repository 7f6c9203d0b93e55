//! Processes on another host, handled as if they were here.
//!
//! A session is one stream of bytes to the host and one back: the standard input and output of an `ssh`,
//! or a TCP connection to another guest. The [server](serve) on the host starts processes of Regatta;
//! their standard streams travel in [frames](Frame), so that agents and path daemons know no
//! difference. A session that is silent for too long has ended, for both sides: a wire that is cut does not
//! end a connection. The server then ends all that it started.

mod carrier;
mod client;
mod error;
mod frame;
mod guard;
mod server;
mod stream;

use std::time::Duration;

pub use client::{GreetingLines, LineHandler, Opening, Session};
pub use error::SessionError;
pub(crate) use frame::{Incoming, NamespaceOf};
pub use guard::{COMMAND as GUARD_COMMAND, main as guard_main};
pub use server::{COMMAND as SERVER_COMMAND, main as server_main};
pub(crate) use server::{Serving, serve};
pub(crate) use stream::Closing;
pub use stream::{open_over, serve_client};

/// Version of the frames and of their contents.
pub(crate) const SESSION_PROTOCOL_VERSION: u32 = 4;

/// First word of the line with which a server begins; lines before it are output of the
/// host's login scripts.
pub(crate) const GREETING: &str = "regatta-session";

/// Default of the longest silence of the other side.
pub const SILENCE: Duration = Duration::from_secs(5);
