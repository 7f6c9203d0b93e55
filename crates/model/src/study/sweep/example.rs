//! Examples for hints about a sweep, which fit its key and its study.

use super::Part;
use crate::{
    named::Named as _,
    study::{
        key::KeyKind,
        keys::PATH_KEYS,
        section::{Section, toml_text},
        steps::doubled,
        work_keys::{PROBE_KEYS, WORKLOAD_KEYS},
    },
};

/// Keys that every condition can have, whatever else it has.
const FREE: [&str; 3] = ["loss", "duplicate", "corrupt"];

/// Returns the keys by which entries of a part are named. The first of them that an entry has is its name.
pub(super) const fn name_keys(part: Part) -> &'static [&'static str] {
    match part {
        Part::Transport => &["label", "driver"],
        Part::Condition => &["name"],
        Part::Workload => &["name", "kind"],
    }
}

/// Returns a key, as TOML, that no condition has and no sweep sets.
pub(super) fn free_key(root: &Section<'_>) -> String {
    let is_swept = |full_key: &str| {
        let keys = root.peek_tables("sweep").filter_map(|it| it.get("key"));
        keys.filter_map(|it| it.get_ref().as_str())
            .any(|it| it == full_key)
    };
    let is_free = |name: &&&str| {
        let is_set = (root.peek_tables("condition")).any(|it| it.contains_key(**name));
        !is_set && !is_swept(&format!("condition.{name}"))
    };
    let free = FREE.iter().find(is_free).unwrap_or(&FREE[0]);
    toml_text(&format!("condition.{free}"))
}

/// Returns a list, as TOML, with the name of the first entry of a part.
pub(super) fn entry_list(root: &Section<'_>, part: Part) -> String {
    let first = root.peek_tables(part.as_str()).next();
    let names = name_keys(part).iter();
    let mut texts = names.filter_map(|key| first?.get(*key)?.get_ref().as_str());
    let name = texts.next().unwrap_or("bulk");
    format!("[{}]", toml_text(name))
}

/// Returns two values of a key, as TOML.
pub(super) fn values(part: Part, key: &str) -> [String; 2] {
    let name = key.rsplit('.').next().unwrap_or_default();
    let of_work = |example: &str, kind| match kind {
        KeyKind::Enum(..) | KeyKind::Flag => of_kind(kind),
        KeyKind::Number { .. } => [example.to_owned(), doubled(example)],
        _ => quantities(example),
    };
    let found = match part {
        Part::Transport => (name == "cc").then(|| ["cubic", "bbr"].map(toml_text)),
        Part::Condition if key.contains("loss_bursts.") => Some(of_kind(KeyKind::Ratio)),
        Part::Condition => {
            (PATH_KEYS.iter().find(|known| known.name == name)).map(|known| of_kind(known.kind))
        }
        Part::Workload if key.contains('.') => (PROBE_KEYS.iter())
            .find(|known| known.name == name)
            .map(|known| of_work(known.example, known.kind)),
        Part::Workload => (WORKLOAD_KEYS.iter())
            .find(|known| known.name == name)
            .map(|known| of_work(known.example, known.kind)),
    };
    found.unwrap_or_else(|| ["1", "2"].map(str::to_owned))
}

fn quantities(example: &str) -> [String; 2] {
    [toml_text(example), toml_text(&doubled(example))]
}

fn of_kind(kind: KeyKind) -> [String; 2] {
    match kind {
        KeyKind::Time => quantities("10ms"),
        KeyKind::Ratio => quantities("1%"),
        KeyKind::Rate => quantities("10Mbit/s"),
        KeyKind::Size => quantities("20kB"),
        KeyKind::Queue => quantities("100kB"),
        KeyKind::PacketSize => ["1000", "1500"].map(str::to_owned),
        KeyKind::Enum(_, names) => {
            let first = names.first().copied().unwrap_or_default();
            [first, names.get(1).copied().unwrap_or(first)].map(toml_text)
        }
        KeyKind::Flag => ["true", "false"].map(str::to_owned),
        KeyKind::Number { least, most } => [least, most.min(least + 1)].map(|it| it.to_string()),
        KeyKind::Numbers | KeyKind::File | KeyKind::Table(..) => quantities("1"),
    }
}
