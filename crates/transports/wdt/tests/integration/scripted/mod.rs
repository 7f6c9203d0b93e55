//! Peers that follow a script.

use std::time::Duration;

use wdt_protocol::codec::{Abort, Allocation, Command, Done, FileHeader, Reply, Settings};
use wdt_protocol::crypto::{Cipher, Key, Secret};
use wdt_protocol::path::RelativePath;
use wdt_protocol::status::Status;
use wdt_protocol::url::ConnectionUrl;

pub const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

pub fn path(name: &str) -> RelativePath {
    RelativePath::new(name.as_bytes()).unwrap()
}

pub fn url(ports: u16, secret: Option<Secret>) -> ConnectionUrl {
    ConnectionUrl {
        host: "h".to_owned(),
        ports: (1..=ports).collect(),
        id: b"id".to_vec(),
        version: Some(32),
        secret,
        iv_change_bytes: 0,
        resumption: false,
    }
}

pub fn gcm() -> Secret {
    Secret {
        cipher: Cipher::Aes128Gcm,
        key: Key::new([1; 16]),
        iv_change_bytes: 0,
    }
}

pub fn settings() -> Settings {
    Settings {
        version: 32,
        read_timeout_ms: 5000,
        write_timeout_ms: 5000,
        transfer_id: b"id".to_vec(),
        checksum: false,
        request_chunks: false,
        whole_files: false,
        heartbeats: false,
    }
}

pub fn file(name: &str, sequence: u64, length: u64) -> Command {
    Command::File(FileHeader {
        status: 0,
        path: path(name),
        sequence,
        length,
        offset: 0,
        file_size: length,
        allocation: Allocation::New,
    })
}

pub fn done(blocks: u64, bytes: u64) -> Command {
    Command::Done(Done {
        status: 0,
        blocks,
        bytes,
    })
}

pub fn bytes(commands: &[Command]) -> Vec<u8> {
    let mut out = Vec::new();
    commands.iter().for_each(|command| command.encode(&mut out));
    out
}

pub fn abort(version: u32, status: Status) -> Vec<Reply> {
    vec![Reply::Abort(Abort {
        version,
        code: status.code(),
        blocks: 0,
    })]
}
