//! Processes in the other guest, handled as if they were here.
//!
//! With two guests the engine and host a are in one, host b is in the other, and a wire that is not
//! the path joins them. In the other guest the [`server`](main) waits for the engine on that wire
//! and starts what it is asked to; a process there has a TCP connection as its standard input and
//! output and another as its standard error, so that agents and path daemons know no difference.
//! Nobody else can reach the server: the wire has two ends, and both are kernels of this run.

mod client;
mod server;

use std::{
    io::{self, Read, Write},
    net::Ipv4Addr,
};

pub(crate) use client::SecondGuest;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
pub use server::main;

/// First argument of the program that runs in the other guest.
pub const COMMAND: &str = "guest-second";

/// Addresses on the wire for control: of the guest with the engine, and of the other.
const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 61, 0, 1), Ipv4Addr::new(10, 61, 0, 2)];

/// TCP port on which the server listens.
const PORT: u16 = 7000;

/// Longest line that either side reads, in bytes.
const LONGEST_LINE: usize = 4096;

/// First line of a connection: its purpose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Opening {
    /// Requests and answers.
    Requests,
    /// Standard error of the process that is started next, with this number.
    Errors { number: u32 },
    /// Standard input and output of a process that is started now.
    Start {
        number: u32,
        command: String,
        /// Network namespace in which to start the process: a file of a process that was started
        /// before.
        namespace: Option<NamespaceOf>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct NamespaceOf {
    number: u32,
    file: i32,
}

/// Request about a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Request {
    /// Wait until the process has ended.
    Ended { number: u32, within_ms: u64 },
    /// Kill the process.
    Kill { number: u32 },
}

/// Exit status of the process, in words, if it has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Answer {
    ended: Option<String>,
}

fn write_line(mut to: impl Write, what: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    to.write_all(&line)
}

/// Reads a line byte by byte, so that the bytes after it are left to the next reader.
fn read_line<T: DeserializeOwned>(mut from: impl Read) -> io::Result<T> {
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        match from.read(&mut byte) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) if byte[0] == b'\n' => break,
            Ok(_) if line.len() < LONGEST_LINE => line.push(byte[0]),
            Ok(_) => return Err(io::ErrorKind::InvalidData.into()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(serde_json::from_slice(&line)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_and_nothing_after_it() {
        let mut bytes = Vec::new();
        let opening = Opening::Start {
            number: 3,
            command: "agent".into(),
            namespace: Some(NamespaceOf { number: 1, file: 5 }),
        };
        write_line(&mut bytes, &opening).expect("memory");
        bytes.extend(b"{\"hello\"");
        let mut from = &bytes[..];
        assert_eq!(read_line::<Opening>(&mut from).ok(), Some(opening));
        assert_eq!(from, b"{\"hello\"");
        assert!(read_line::<Opening>(&mut from).is_err());
        let endless = [b'x'; 3 * LONGEST_LINE];
        assert!(read_line::<Opening>(&endless[..]).is_err());
    }
}
