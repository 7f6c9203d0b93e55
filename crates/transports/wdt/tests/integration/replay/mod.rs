//! Recordings of the reference against this crate, each recording with each end as a test of its own:
//! the recorded sender against our receiver, and the recorded receiver against our sender.
//!
//! Random parts are left out of the comparison: IVs, the padding, the number of WAITs on each port,
//! and with several ports their assignment of messages. Where our ends differ on purpose, the test
//! says how.

mod player;
mod receiver;
mod sender;

use wdt_protocol::codec::{FileChunks, Reply, decode_frame};
use wdt_protocol::crypto::{PROLOGUE, Secret};

use crate::recorded::plain::Plain;
use crate::recorded::{changed_content, content};

/// Message of a receiver; the list of files that follows CHUNKS is one.
#[derive(Clone, Debug, PartialEq)]
enum Said {
    Reply(Reply),
    List(Vec<FileChunks>),
}

/// Returns the messages of a receiver, up to the last that is complete. One that cannot read its sender answers in
/// clear.
fn said(wire: &[u8], secret: Option<&Secret>) -> Vec<Said> {
    let secret = secret.filter(|_| wire.first() == Some(&PROLOGUE));
    let mut plain = Plain::new(wire.to_vec(), secret);
    let mut said = Vec::new();
    while let Some(reply) = plain.next(Reply::decode) {
        let is_last = matches!(reply, Reply::Done | Reply::Abort(_));
        let Reply::Chunks { files } = reply else {
            said.push(Said::Reply(reply));
            if is_last {
                break;
            }
            continue;
        };
        let mut list = Vec::new();
        while (list.len() as u64) < files {
            let Some(frame) = plain.next(decode_frame) else {
                return said;
            };
            list.extend(frame);
        }
        said.push(Said::List(list));
    }
    said
}

/// Returns the messages without those that are only keep-alives.
fn significant(wire: &[u8], secret: Option<&Secret>) -> Vec<Said> {
    let mut said = said(wire, secret);
    said.retain(|said| !matches!(said, Said::Reply(Reply::Wait | Reply::Heartbeat)));
    said
}

/// Returns the content of a part of a file that the sender of this recording has.
fn sent_content(recording: &str, path: &str, offset: u64, length: usize) -> Vec<u8> {
    match (recording, path) {
        ("r6-changed", "a" | "b") => changed_content(offset, length).collect(),
        _ => content(offset, length).collect(),
    }
}

/// Defines a test for each recording, named like it: the rest of its line are the arguments of `check` after the
/// recording's name.
macro_rules! recordings {
    ($check:path: $($test:ident $name:literal $(, $argument:expr)*;)+) => {
        $(#[test]
        fn $test() {
            $check($name $(, $argument)*);
        })+
    };
}
use recordings;
