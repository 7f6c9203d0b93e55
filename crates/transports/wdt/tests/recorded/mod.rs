//! Recorded sessions of the reference's two programs: see `tests/vectors/README.md`.

pub mod plain;

use std::io::Read;
use std::path::Path;

use base64::Engine;
use serde::Deserialize;

#[derive(Deserialize)]
pub struct Recorded {
    #[serde(skip)]
    pub name: String,
    pub url: String,
    pub sender_url: Option<String>,
    pub sender_args_summary: String,
    pub files: Vec<RecordedFile>,
    pub connections: Vec<RecordedConnection>,
    pub outcome: Outcome,
}

#[derive(Deserialize)]
pub struct RecordedFile {
    pub path: String,
    pub size: u64,
}

#[derive(Deserialize)]
pub struct RecordedConnection {
    pub port: u16,
    /// Time since the first connection, in milliseconds; 0 in the older recordings.
    #[serde(default)]
    pub ms: u64,
    pub events: Vec<Event>,
    pub closing: Vec<String>,
}

#[derive(Deserialize)]
pub struct Event {
    pub dir: Direction,
    /// Time of the first byte, as [`RecordedConnection::ms`].
    #[serde(default)]
    pub ms: u64,
    pub base64: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    S2r,
    R2s,
}

#[derive(Deserialize)]
pub struct Outcome {
    pub sender_exit: u8,
    pub receiver_exit: u8,
    pub files_arrived: bool,
}

pub const NAMES: [&str; 11] = [
    "01-plain",
    "02-checksum",
    "03-four-ports",
    "04-ctr",
    "05-gcm-tags",
    "06-gcm-iv-change",
    "07-reconnect-plain",
    "07b-reconnect-checksum",
    "07c-reconnect-gcm",
    "08-wrong-id",
    "09-global-checkpoint",
];

impl Recorded {
    pub fn load(name: &str) -> Self {
        // The older ones are numbered.
        let folder = match name.starts_with('r') {
            true => "tests/vectors/resumption",
            false => "tests/vectors",
        };
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join(folder)
            .join(format!("{name}.json.gz"));
        let file = std::fs::File::open(&path).expect("the vector is there");
        let mut text = String::new();
        flate2::read::GzDecoder::new(file)
            .read_to_string(&mut text)
            .expect("it is compressed");
        let mut recorded: Self = serde_json::from_str(&text).expect("it is JSON");
        recorded.name = name.to_owned();
        recorded
    }
}

impl RecordedConnection {
    /// Returns all bytes of one direction.
    pub fn stream(&self, direction: Direction) -> Vec<u8> {
        self.events
            .iter()
            .filter(|event| event.dir == direction)
            .flat_map(Event::bytes)
            .collect()
    }

    /// Whether the recorder dropped the connection.
    pub fn was_cut(&self) -> bool {
        self.closing.iter().any(|end| end == "cut")
    }
}

impl Event {
    pub fn bytes(&self) -> Vec<u8> {
        base64::engine::general_purpose::STANDARD
            .decode(&self.base64)
            .expect("it is base64")
    }
}

/// Returns the content of every recorded file from `offset` on.
pub fn content(offset: u64, length: usize) -> impl Iterator<Item = u8> {
    by_rule((31, 7), offset, length)
}

/// Returns the content of the files that were changed between two sessions.
pub fn changed_content(offset: u64, length: usize) -> impl Iterator<Item = u8> {
    by_rule((37, 11), offset, length)
}

fn by_rule((factor, first): (u64, u64), offset: u64, length: usize) -> impl Iterator<Item = u8> {
    (offset..)
        .take(length)
        .map(move |index| ((index * factor + first) % 251) as u8)
}
