//! Checks that each test with a long form is one of those that `.ci/slice` runs.

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

/// What makes a function one with a long form.
const MARKS: [&str; 2] = ["repetitions(", "var_os(\"REGATTA_LONG_TESTS\")"];

#[test]
fn each_long_form_is_in_a_slice() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let slices = fs::read_to_string(root.join(".ci/slice")).expect("the list of slices is read");
    let filters: Vec<&str> = (slices.lines())
        .filter(|form| form.contains("|REGATTA_LONG_TESTS=1"))
        .filter_map(|form| form.split_once("test(/")?.1.split_once("/)"))
        .map(|(filter, _)| filter)
        .collect();
    assert!(filters.len() > 3, "{filters:?}");
    let files = Command::new("git")
        .args(["grep", "--name-only", "-e", MARKS[0], "-e", MARKS[1]])
        .args(["--", "crates/*.rs"])
        .current_dir(&root)
        .output()
        .expect("git runs");
    let files = String::from_utf8(files.stdout).expect("names in UTF-8");
    let mut tests = Vec::new();
    for file in files.lines() {
        let text = fs::read_to_string(root.join(file)).expect("a source file is read");
        let mut function = String::new();
        for line in text.lines() {
            let code = line.trim_start().trim_start_matches("pub ");
            if let Some((name, _)) = code.strip_prefix("fn ").and_then(|fun| fun.split_once('(')) {
                name.clone_into(&mut function);
            }
            if MARKS.iter().any(|mark| line.contains(mark)) {
                tests.push(format!("{}::{function}", module(file)));
            }
        }
    }
    // What reads the variable, and this file.
    let is_no_test = |test: &str| {
        ["machine::repetitions", "emulators::is_long", "long_forms::"]
            .iter()
            .any(|of| test.starts_with(of))
    };
    tests.retain(|test| !is_no_test(test));
    assert!(tests.len() > 10, "{tests:?}");
    tests.retain(|test| !filters.iter().any(|filter| matches(test, filter)));
    assert!(tests.is_empty(), "in no slice: {}", tests.join(", "));
}

/// Returns the module of a source file, as names of tests begin: `crates/cli/tests/e2e/kills.rs` is `kills`.
fn module(file: &str) -> String {
    let below = (file.split_once("/src/")).or_else(|| {
        let (_, below) = file.split_once("/tests/")?;
        below.split_once('/')
    });
    let (_, path) = below.expect("a source file of a crate");
    path.trim_end_matches(".rs")
        .trim_end_matches("/mod")
        .replace('/', "::")
}

/// Whether a test's name matches a filter of the test runner, which is a pattern that `grep` knows as well.
fn matches(test: &str, filter: &str) -> bool {
    let mut grep = Command::new("grep")
        .args(["--quiet", "--extended-regexp", "--regexp", filter])
        .stdin(Stdio::piped())
        .spawn()
        .expect("grep runs");
    let mut input = grep.stdin.take().expect("an input");
    writeln!(input, "{test}").expect("grep reads");
    drop(input);
    grep.wait().expect("grep ends").success()
}
