//! Values of sweeps.

use std::fs;

use regatta_model::{Part, Spacing, Sweep, Sweeps, SweptEntry, SweptValue, TrialRecord, Unit};
use regatta_results::{
    FILE_NAME, Reader, Store, exports,
    tables::{DICTIONARY_FILE_NAME, DICTIONARY_PAGE_NAME, TableFormat, export_tables},
};
use serde_json::Value;
use tempfile::tempdir;

use crate::common::{header, trial};

fn value(text: &str, value: Option<f64>) -> SweptValue {
    SweptValue {
        text: text.to_owned(),
        value,
    }
}

fn sweeps() -> Sweeps {
    let sweep = |part, key: &str, unit, values: &[SweptValue]| Sweep {
        part,
        key: key.to_owned(),
        unit,
        scale: Spacing::Linear,
        zip: None,
        values: values.to_vec(),
    };
    let losses = [value("0 %", Some(0.0)), value("0.1 %", Some(0.001))];
    let entry = |part, name: &str, base: &str, at| SweptEntry {
        part,
        name: name.to_owned(),
        base: base.to_owned(),
        at: vec![at],
    };
    Sweeps {
        sweeps: vec![
            sweep(Part::Condition, "loss", Some(Unit::Ratio), &losses),
            sweep(Part::Transport, "cc", None, &[value("=cubic", None)]),
        ],
        entries: vec![
            entry(Part::Transport, "tcp:cc=cubic", "tcp", [1, 0]),
            entry(Part::Condition, "wan, 0 % loss", "wan", [0, 0]),
            entry(Part::Condition, "wan, 0.1 % loss", "wan", [0, 1]),
        ],
    }
}

fn write(dir: &std::path::Path) {
    let mut header = header();
    header.study.sweeps = sweeps();
    let mut store = Store::create(dir, &header).unwrap();
    let mut swept = TrialRecord {
        transport: "tcp:cc=cubic".into(),
        condition: "wan, 0.1 % loss".into(),
        ..trial(0)
    };
    let mut other = trial(1);
    for trial in [&mut swept, &mut other] {
        // Those of the other tests are no histograms.
        trial.measurements.histograms.clear();
        store.add_trial(trial).unwrap();
    }
}

#[test]
fn parameters_have_rows_and_columns() {
    let dir = tempdir().unwrap();
    write(dir.path());
    let reader = Reader::open(dir.path()).unwrap();
    assert_eq!(reader.header().unwrap().study.sweeps, sweeps());
    let mut csv = Vec::new();
    exports::trials_csv(&reader, &mut csv).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    assert!(
        lines[0].contains(",warnings,condition.loss,transport.cc,"),
        "{csv}"
    );
    assert!(lines[1].contains(",0.001,'=cubic,"), "{csv}");
    assert!(lines[2].contains(",,,"), "{csv}");
    let file = rusqlite::Connection::open(dir.path().join(FILE_NAME)).unwrap();
    let found: (String, f64, String) = file
        .query_row(
            "SELECT key, value, unit FROM parameter WHERE name = 'wan, 0.1 % loss'",
            [],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )
        .unwrap();
    assert_eq!(found, ("loss".into(), 0.001, "ratio".into()));
}

/// A reader of `trials.csv` looks every column up.
#[test]
fn the_dictionary_describes_the_columns_of_trials_csv() {
    let dir = tempdir().unwrap();
    write(dir.path());
    let reader = Reader::open(dir.path()).unwrap();
    let mut csv = Vec::new();
    exports::trials_csv(&reader, &mut csv).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    let head: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    let out = dir.path().join("export");
    export_tables(&reader, &out, &[TableFormat::Csv]).unwrap();
    let dictionary = fs::read_to_string(out.join(DICTIONARY_FILE_NAME)).unwrap();
    let dictionary: Value = serde_json::from_str(&dictionary).unwrap();
    let columns = dictionary["trials_csv"].as_array().unwrap();
    let names: Vec<&str> = columns
        .iter()
        .map(|column| column["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, head);
    let column = |name: &str| {
        let mut columns = columns.iter();
        columns.find(|column| column["name"] == name).unwrap()
    };
    for column in columns {
        assert_ne!(column["meaning"], "", "{column}");
    }
    let types = ["trial", "condition.loss", "transport.cc", "goodput_bps"]
        .map(|name| [&column(name)["type"], &column(name)["unit"]].map(Value::to_string));
    assert_eq!(
        types,
        [
            ["\"int64\"", "null"],
            ["\"float64\"", "\"ratio\""],
            ["\"text\"", "null"],
            ["\"float64\"", "\"bit/s\""]
        ]
    );
    assert!(
        names.iter().any(|name| name.starts_with("fact.")),
        "{names:?}"
    );
    let page = fs::read_to_string(out.join(DICTIONARY_PAGE_NAME)).unwrap();
    assert!(
        page.contains("| `condition.loss` | float64 | ratio | yes | "),
        "{page}"
    );
}

#[test]
fn changed_parameters_are_damage() {
    let dir = tempdir().unwrap();
    write(dir.path());
    let file = rusqlite::Connection::open(dir.path().join(FILE_NAME)).unwrap();
    let changed = file.execute("UPDATE parameter SET value = 0.5 WHERE key = 'loss'", []);
    assert_eq!(changed.unwrap(), 2);
    drop(file);
    let error = Reader::open(dir.path()).unwrap_err();
    assert!(
        error.to_string().contains("row of `parameter` 2"),
        "{error}"
    );
}
