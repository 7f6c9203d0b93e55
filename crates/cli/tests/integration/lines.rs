//! Checks how `scripts/lines` counts lines of code.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

/// Files of a repository: the program, a library of it, a crate that only tests use, and scripts.
const FILES: &[(&str, &str)] = &[
    (
        "Cargo.toml",
        "[workspace]\nmembers = [\"crates/cli\", \"crates/lib\", \"crates/bench\"]\n",
    ),
    (
        "crates/cli/Cargo.toml",
        "[package]\nname = \"regatta-cli\"\n[dependencies]\nregatta-lib.workspace = true\n\
         [dev-dependencies]\nregatta-bench.workspace = true\n",
    ),
    (
        "crates/lib/Cargo.toml",
        "[package]\nname = \"regatta-lib\"\n",
    ),
    (
        "crates/bench/Cargo.toml",
        "[package]\nname = \"regatta-bench\"\n[dependencies]\nregatta-lib.workspace = true\n",
    ),
    // Seven lines of the product, and seven of tests.
    (
        "crates/cli/src/main.rs",
        r##"//! A comment.

mod fixture_free;
#[cfg(test)]
mod fixture;

/* Another
   one. */
fn main() { // beside code
    let text = r#"
        // no comment: "}"
    "#;
    let brace = ('{', "\"", text);
}

#[cfg(test)]
mod tests {
    /// What only tests have.
    #[test]
    fn it<'a>() {}
}
"##,
    ),
    ("crates/cli/src/fixture_free.rs", "pub fn one() {}\n"),
    ("crates/cli/src/fixture.rs", "mod below;\n"),
    ("crates/cli/src/fixture/below.rs", "fn two() {}\n// none\n"),
    ("crates/cli/tests/e2e.rs", "fn three() {}\n"),
    ("crates/cli/examples/shown.rs", "fn main() {}\n"),
    (
        "crates/lib/src/lib.rs",
        "mod tests;\n#[cfg(test)]\nuse std::{\n    fs,\n    io,\n};\nfn four() {}\n",
    ),
    ("crates/lib/src/tests.rs", "fn five() {}\n"),
    ("crates/lib/src/view.js", "// none\nlet six;\n"),
    ("crates/bench/src/main.rs", "fn main() {}\n"),
    (
        "scripts/check",
        "#!/usr/bin/env python3\n\"\"\"Docstring.\n\nIts end.\n\"\"\"\n\n# A comment.\ntext = \"\"\"two\nlines\"\"\"\n",
    ),
    ("scripts/run", "#!/bin/sh\n# A comment.\n\necho seven\n"),
    ("docs/page.md", "Not code.\n"),
];

/// Rows that are to be found: product, tools, tests.
const EXPECTED: &str = "\
bench\t0\t1\t0
cli\t8\t1\t10
lib\t2\t0\t6
Rust\t10\t2\t16
JavaScript\t1\t0\t0
Python\t0\t2\t0
shell\t0\t1\t0
";

#[test]
fn lines_of_code_are_counted_by_crate_and_purpose() {
    let repository = tempfile::tempdir().expect("a directory");
    for (name, text) in FILES {
        let path = repository.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder is made");
        fs::write(path, text).expect("a file is written");
    }
    let init = Command::new("git")
        .args(["init", "--quiet"])
        .arg(repository.path())
        .status()
        .expect("git runs");
    assert!(init.success());
    assert_eq!(counted(Some(repository.path())), EXPECTED);
}

#[test]
fn crates_of_the_program_are_told_from_tools() {
    let rows = counted(None);
    let row = |name: &str| {
        let row = rows.lines().map(|row| row.split('\t').collect::<Vec<_>>());
        let found = row.into_iter().find(|row| row[0] == name);
        found.unwrap_or_else(|| panic!("`{name}` in {rows}"))
    };
    for tool in [
        "bed-host",
        "bench",
        "test-contract",
        "test-support",
        "test-times",
    ] {
        assert_eq!(row(tool)[1], "0", "{tool}");
    }
    for product in ["cli", "model", "transports/quinn-family"] {
        assert_ne!(row(product)[1], "0", "{product}");
        assert_eq!(row(product)[2], "0", "{product}");
    }
}

/// Returns what the script prints for a repository, or for this one.
fn counted(repository: Option<&Path>) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/lines");
    let output = Command::new(script)
        .args(repository)
        .stderr(Stdio::inherit())
        .output()
        .expect("the script runs");
    assert!(output.status.success());
    String::from_utf8(output.stdout).expect("UTF-8")
}
