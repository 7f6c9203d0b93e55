//! Checks that the whole workspace has one set of features and profiles, so that the binary, the
//! bench and the tests share every compiled third-party crate.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

/// Returns the sets of features with which cargo compiles each third-party crate, by its name and
/// version. A crate that procedural macros use as well may have two.
fn features(arguments: &[&str]) -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked", "--prefix", "none"])
        .args(["--format", "{p}\t{f}", "--no-dedupe"])
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (package, features) in text.lines().filter_map(|line| line.split_once('\t')) {
        if !package.starts_with("regatta-") {
            let sets = found.entry(package.to_owned()).or_default();
            sets.insert(features.to_owned());
        }
    }
    found
}

#[track_caller]
fn assert_same(target: &str, other: &BTreeMap<String, BTreeSet<String>>) {
    let binary = features(&["--package", "regatta-cli", "--edges", "normal"]);
    let mut wrong = Vec::new();
    for (package, features) in &binary {
        match other.get(package) {
            Some(others) if !features.is_subset(others) => {
                wrong.push(format!("{package}: {features:?}, {target} {others:?}"));
            }
            _ => {}
        }
    }
    assert!(
        wrong.is_empty(),
        "add what is missing to crates/workspace-hack/Cargo.toml:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn bench_and_binary_have_the_same_features() {
    let bench = features(&["--package", "regatta-bench", "--edges", "normal"]);
    assert_same("in the bench", &bench);
}

#[test]
fn tests_and_binary_have_the_same_features() {
    let tests = features(&["--workspace", "--edges", "normal,dev"]);
    assert_same("in the tests", &tests);
}

/// Checks that the profile `bench` names every crate; a crate without an entry would be tested
/// without its checks.
#[test]
fn every_crate_is_tested_with_every_check() {
    let text = include_str!("../../../../Cargo.toml");
    let manifest: toml::Table = toml::from_str(text).expect("TOML");
    let packages = &manifest["profile"]["bench"]["package"];
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline"])
        .args(["--format-version", "1"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let members = metadata["packages"].as_array().expect("packages");
    assert!(members.len() > 30, "{}", members.len());
    for member in members {
        let name = member["name"].as_str().expect("a name");
        if name == "regatta-workspace-hack" {
            continue;
        }
        for check in ["debug-assertions", "overflow-checks"] {
            assert_eq!(
                packages.get(name).and_then(|package| package.get(check)),
                Some(&toml::Value::Boolean(true)),
                "`{check}` of `{name}` in [profile.bench.package]"
            );
        }
    }
}
