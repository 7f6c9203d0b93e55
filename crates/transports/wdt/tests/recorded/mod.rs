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
    pub events: Vec<Event>,
    pub closing: Vec<String>,
}

#[derive(Deserialize)]
pub struct Event {
    pub dir: Direction,
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
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/vectors")
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
    (offset..)
        .take(length)
        .map(|index| ((index * 31 + 7) % 251) as u8)
}
