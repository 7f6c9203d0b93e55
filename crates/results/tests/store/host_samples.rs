//! Samples of the hosts.

use std::{fs, path::Path};

use regatta_model::{HostSample, HostSamples};
use regatta_results::{FILE_NAME, Reader, ResultsError, Store, exports, hosts_csv};
use tempfile::tempdir;

use crate::{
    common::{header, open_to_resume, trial},
    write_run,
};

/// Returns samples of one host: whole and absent values, and one that a float cannot hold exactly.
fn batch(host: &str, trial: Option<u32>, names: &[&str]) -> HostSamples {
    let sample = |second: u8| HostSample {
        unix_ns: 1_790_000_000_000_000_000 + i64::from(second) * 1_000_000_000,
        monotonic_ns: i64::from(second) * 1_000_000_000,
        values: (0..names.len())
            .map(|name| (name != 1).then(|| f32::from(second) + 0.1 * name as f32))
            .collect(),
    };
    HostSamples {
        host: host.to_owned(),
        trial,
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        samples: (1..=3).map(sample).collect(),
    }
}

fn batches() -> [HostSamples; 3] {
    [
        batch("sender", None, &["sample.elapsed_ns", "tcp.sent_segments"]),
        batch(
            "receiver",
            Some(4),
            &["sample.elapsed_ns", "tcp.sent_segments"],
        ),
        batch(
            "sender",
            Some(4),
            &[
                "sample.elapsed_ns",
                "interface.=x.sent_bytes",
                "load.average_1min",
            ],
        ),
    ]
}

fn read(reader: &Reader) -> Vec<HostSamples> {
    let mut all = Vec::new();
    reader.host_samples(&mut |batch| all.push(batch)).unwrap();
    all
}

fn write(dir: &Path) {
    let mut store = Store::create(dir, &header()).unwrap();
    store.add_host_samples(&batches()[..1]).unwrap();
    store.add_host_samples(&batches()[1..]).unwrap();
}

#[test]
fn samples_round_trip() {
    let dir = tempdir().unwrap();
    write(dir.path());
    assert_eq!(read(&Reader::open(dir.path()).unwrap()), batches());
}

#[test]
fn names_are_stored_once() {
    let dir = tempdir().unwrap();
    write(dir.path());
    let file = rusqlite::Connection::open(dir.path().join(FILE_NAME)).unwrap();
    let rows: i64 = file
        .query_row("SELECT count(*) FROM host_sample_names", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(rows, 2);
}

#[test]
fn a_sample_without_a_value_for_each_name_is_left_out() {
    let dir = tempdir().unwrap();
    let mut store = Store::create(dir.path(), &header()).unwrap();
    let mut odd = batches()[0].clone();
    odd.samples[1].values.pop();
    let mut nothing = odd.clone();
    nothing.samples.clear();
    store.add_host_samples(&[odd.clone(), nothing]).unwrap();
    drop(store);
    odd.samples.remove(1);
    assert_eq!(read(&Reader::open(dir.path()).unwrap()), [odd]);
}

#[test]
fn a_resumed_run_stores_samples() {
    let dir = tempdir().unwrap();
    write_run(dir.path());
    assert_eq!(read(&Reader::open(dir.path()).unwrap()), []);
    let mut store = open_to_resume(dir.path()).unwrap();
    store.add_host_samples(&batches()).unwrap();
    drop(store);
    let reader = Reader::open(dir.path()).unwrap();
    assert_eq!(read(&reader), batches());
    assert_eq!(reader.trials().unwrap()[0], trial(0));
}

/// Checks that a file whose samples were changed is refused, in these words.
#[track_caller]
fn refused(change: &str, what: &str) {
    let dir = tempdir().unwrap();
    write(dir.path());
    let file = rusqlite::Connection::open(dir.path().join(FILE_NAME)).unwrap();
    assert!(file.execute(change, []).unwrap() > 0);
    drop(file);
    let error = Reader::open(dir.path()).unwrap_err();
    assert!(matches!(error, ResultsError::Damaged { .. }), "{error:?}");
    assert!(error.to_string().contains(what), "{error}");
}

#[test]
fn changed_values_are_damage() {
    refused(
        "UPDATE host_samples SET value_zlib = x'00' WHERE id = 2",
        "row of `host_samples` 2",
    );
}

#[test]
fn changed_names_are_damage() {
    refused(
        "UPDATE host_sample_names SET names = '[]' WHERE id = 1",
        "row of `host_sample_names` 1",
    );
}

#[test]
fn the_export_has_a_column_for_each_name() {
    let dir = tempdir().unwrap();
    write(dir.path());
    let reader = Reader::open(dir.path()).unwrap();
    exports::write_exports(&reader, dir.path()).unwrap();
    let text = fs::read_to_string(dir.path().join(hosts_csv::HOSTS_FILE_NAME)).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0],
        "host,trial,unix_ns,monotonic_ns,sample.elapsed_ns,tcp.sent_segments,\
         interface.=x.sent_bytes,load.average_1min"
    );
    assert_eq!(lines[1], "sender,,1790000001000000000,1000000000,1,,,");
    assert_eq!(lines[9], "sender,4,1790000003000000000,3000000000,3,,,3.2");
    assert_eq!(lines.len(), 10);
}

#[test]
fn a_run_without_samples_has_no_export_of_them() {
    let dir = tempdir().unwrap();
    drop(Store::create(dir.path(), &header()).unwrap());
    let reader = Reader::open(dir.path()).unwrap();
    exports::write_exports(&reader, dir.path()).unwrap();
    assert!(!dir.path().join(hosts_csv::HOSTS_FILE_NAME).exists());
}

/// Two days of two hosts with eight busy cores, at a sample a second, would be 34 560 rows of ten
/// samples; a hundredth of them must stay below a hundredth of 250 MB.
#[test]
fn two_days_stay_reasonable() {
    let dir = tempdir().unwrap();
    let mut store = Store::create(dir.path(), &header()).unwrap();
    let names: Vec<String> = (0..130).map(|name| format!("tcp.n{name}")).collect();
    let mut state = 1_u32;
    let mut draw = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 16_777_216.0
    };
    let mut batches = Vec::new();
    for _ in 0..346 {
        // A half of the values change with every sample, the others are those of a quiet host.
        let samples = (0..10).map(|second| HostSample {
            unix_ns: second * 1_000_000_000,
            monotonic_ns: second * 1_000_000_000,
            values: (0..130)
                .map(|name| {
                    Some(if name % 2 == 0 {
                        (draw() * 1e4).round() / 1e4
                    } else {
                        0.0
                    })
                })
                .collect(),
        });
        batches.push(HostSamples {
            host: "sender".to_owned(),
            trial: None,
            names: names.clone(),
            samples: samples.collect(),
        });
    }
    store.add_host_samples(&batches).unwrap();
    drop(store);
    let size = fs::metadata(dir.path().join(FILE_NAME)).unwrap().len();
    assert!(size < 2_500_000, "{size}");
}
