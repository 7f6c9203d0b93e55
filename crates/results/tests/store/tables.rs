//! Export of all tables as Parquet and CSV.

use std::{collections::BTreeMap, env, fs, path::Path, process::Command};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hdrhistogram::{
    Histogram as Hdr,
    serialization::{Serializer, V2Serializer},
};
use regatta_model::{HostSample, HostSamples, Outcome, Warning, metric};
use regatta_results::{
    Reader, Store,
    tables::{TableFormat, export_tables},
};
use serde_json::Value;

use crate::common::{failed, header, path_check, trial, warning};

const BOTH: [TableFormat; 2] = [TableFormat::Parquet, TableFormat::Csv];

/// Writes a run with something in every table but `parameter`, and exports it.
fn export(dir: &Path) {
    let mut store = Store::create(dir, &header()).expect("a new directory");
    let mut invalid = failed(0);
    invalid.outcome = Outcome::Invalid;
    invalid.measurements.warnings = vec![Warning::of_texts("=cmd|' /C calc'!A0", "a, \"b\"", "")];
    let mut again = trial(5);
    (again.attempt, again.round) = (2, 0);
    let mut histogram = Hdr::<u64>::new(3).expect("3 digits");
    histogram.record_n(30_000_000, 7).expect("in its range");
    histogram.record(90_000_001).expect("in its range");
    let mut bytes = Vec::new();
    V2Serializer::new()
        .serialize(&histogram, &mut bytes)
        .expect("memory");
    again.measurements.histograms[0].hdr_v2_base64 = STANDARD.encode(bytes);
    for record in [&invalid, &again] {
        store.add_trial(record).expect("a new trial");
    }
    store.add_path_check(&path_check()).expect("a check");
    store.add_warning(&warning()).expect("a warning");
    let sample = |unix_ns, value| HostSample {
        unix_ns,
        monotonic_ns: unix_ns - 1,
        values: vec![value, Some(0.1)],
    };
    store
        .add_host_samples(&[HostSamples {
            host: "sender".to_owned(),
            trial: None,
            names: vec![
                "cpu.0.busy_ratio".to_owned(),
                "of.another.version".to_owned(),
            ],
            samples: vec![
                sample(1_790_000_000_000_000_001, None),
                sample(2, Some(0.5)),
            ],
        }])
        .expect("samples");
    drop(store);
    let reader = Reader::open(dir).expect("a whole file");
    export_tables(&reader, &dir.join("export"), &BOTH).expect("a writable directory");
}

/// Prints the rows of each Parquet file as JSON: names of columns, and values as Python shows them.
const READ: &str = "import json, pathlib, pyarrow.parquet, sys
print(json.dumps({path.stem: [
    [[name, repr(value)] for name, value in row.items()] for row in pyarrow.parquet.read_table(path).to_pylist()
] for path in pathlib.Path(sys.argv[1]).glob('*.parquet')}))";

/// Rows of a table, with the names of the columns.
type Rows = Vec<Vec<(String, String)>>;

/// Returns the rows of all Parquet files by table, read with pyarrow in the environment of `make export-readers`.
fn parquet(dir: &Path) -> BTreeMap<String, Rows> {
    let environment = env::var_os("REGATTA_EXPORT_READERS").map_or_else(
        || Path::new(&env::var_os("HOME").expect("HOME")).join(".cache/regatta/export-readers"),
        Into::into,
    );
    let output = Command::new(environment.join("bin/python"))
        .args(["-I", "-c", READ])
        .arg(dir.join("export"))
        .output()
        .expect("hint: run `make export-readers`, then the test again");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    serde_json::from_slice(&output.stdout).expect("tables")
}

fn csv(dir: &Path, table: &str) -> String {
    fs::read_to_string(dir.join(format!("export/{table}.csv"))).expect("a file")
}

#[test]
fn values_are_those_of_the_run_in_both_formats() {
    let parent = tempfile::tempdir().expect("a temporary directory");
    let dir = parent.path().join("run");
    export(&dir);

    let tables = parquet(&dir);
    let trials = &tables["trial"];
    let value = |row: usize, name: &str| {
        let found = trials[row].iter().find(|(column, _)| column == name);
        found.expect("a column").1.clone()
    };
    assert_eq!(value(0, "seed"), u64::MAX.to_string());
    assert_eq!(value(0, "outcome"), "'invalid'");
    let counts = [0, 1].map(|row| value(row, "is_last_attempt"));
    assert_eq!(counts, ["False", "True"]);
    let expected = "trial,attempt,is_last_attempt,round,transport,condition,workload,started_unix_ns,seed,outcome,hint\n\
                    0,1,FALSE,0,tcp,loss-5,bulk,1790000001000000000,18446744073709551615,invalid,\"look, then try again\"\n\
                    5,2,TRUE,0,tcp,loss-5,bulk,1790000001000000005,18446744073709551610,measured,\n";
    assert_eq!(csv(&dir, "trial"), expected);

    let values: Vec<String> = tables["sample"]
        .iter()
        .map(|row| row[5].1.clone())
        .collect();
    assert_eq!(
        values,
        ["0.3333333333333333", "95000000.0", "-0.0"],
        "to the last bit"
    );
    assert!(csv(&dir, "sample").contains("5,receiver,goodput_bps,bit/s,-1,-0\n"));
    assert!(csv(&dir, "metric").contains("5,goodput_bps,bit/s,82800000.1\n"));
    let buckets: Vec<Vec<String>> = tables["histogram_bucket"]
        .iter()
        .map(|row| row.iter().skip(3).map(|(_, field)| field.clone()).collect())
        .collect();
    assert_eq!(buckets.len(), 2);
    assert_eq!(buckets[0][2], "7");
    let [low, high] = [0, 1].map(|bound| buckets[1][bound].parse::<i64>().expect("an integer"));
    assert!(low <= 90_000_001 && 90_000_001 <= high, "{low} to {high}");
    let quantity = &tables["path_quantity"][0];
    assert_eq!(quantity[6].1, "inf");
}

#[test]
fn missing_values_are_null_and_formulas_are_text() {
    let parent = tempfile::tempdir().expect("a temporary directory");
    let dir = parent.path().join("run");
    export(&dir);

    let tables = parquet(&dir);
    let samples = &tables["host_sample"];
    assert_eq!(samples[0][1].1, "None");
    assert_eq!(samples[0][4].1, "None");
    assert_eq!(samples[1][4].1, "0.5");
    let expected = "host,trial,unix_ns,monotonic_ns,cpu.0.busy_ratio,of.another.version\n\
                    sender,,1790000000000000001,1790000000000000000,,0.1\nsender,,2,1,0.5,0.1\n";
    assert_eq!(csv(&dir, "host_sample"), expected);
    let warnings = csv(&dir, "warning");
    assert!(
        warnings.contains("0,'=cmd|' /C calc'!A0,\"a, \"\"b\"\"\",,\n"),
        "{warnings}"
    );
    assert!(warnings.contains("\n,cpu_governor,"), "{warnings}");
    // A table without rows is there with its columns.
    assert_eq!(tables["parameter"], Rows::new());
    assert_eq!(csv(&dir, "parameter"), "part,name,key,value,unit,text\n");
}

#[test]
fn the_dictionary_names_every_file_column_and_metric() {
    let parent = tempfile::tempdir().expect("a temporary directory");
    let dir = parent.path().join("run");
    export(&dir);

    let text = fs::read_to_string(dir.join("export/dictionary.json")).expect("a file");
    let dictionary: Value = serde_json::from_str(&text).expect("JSON");
    let page = fs::read_to_string(dir.join("export/dictionary.md")).expect("a file");
    let tables = parquet(&dir);
    let mut files = vec!["dictionary.json".to_owned(), "dictionary.md".to_owned()];
    for table in dictionary["tables"].as_array().expect("tables") {
        let name = table["name"].as_str().expect("a name");
        let rows = &tables[name];
        assert_eq!(table["rows"], rows.len(), "{name}");
        let columns: Vec<&str> = table["columns"]
            .as_array()
            .expect("columns")
            .iter()
            .map(|column| column["name"].as_str().expect("a name"))
            .collect();
        assert_eq!(
            csv(&dir, name).lines().next().expect("a head"),
            columns.join(","),
            "{name}"
        );
        for row in rows {
            let found: Vec<&str> = row.iter().map(|(column, _)| column.as_str()).collect();
            assert_eq!(found, columns, "{name}");
        }
        for column in columns {
            assert!(page.contains(&format!("| `{column}` |")), "{column}");
        }
        let named = table["files"].as_array().expect("files").iter();
        files.extend(named.map(|file| file.as_str().expect("a name").to_owned()));
    }
    let mut found: Vec<String> = fs::read_dir(dir.join("export"))
        .expect("a directory")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("UTF-8")
        })
        .collect();
    found.sort();
    files.sort();
    assert_eq!(found, files);
    for metric in metric::METRICS {
        assert!(page.contains(metric.definition), "{}", metric.name);
    }
    assert!(page.contains("was not idle, waiting for I/O, or taken by a hypervisor"));
}
