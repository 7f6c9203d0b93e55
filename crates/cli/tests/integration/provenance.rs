//! Checks that the facts of a build about its sources are true, or `unknown`.

// Its `main` and what only that uses are cargo's to call.
#[allow(dead_code)]
#[path = "../../build.rs"]
mod build;

use std::{fs, path::Path, process::Command};

use build::Source;

fn git(root: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .current_dir(root)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .env("TZ", "UTC")
        .args(["-c", "user.name=A", "-c", "user.email=a@example.org"])
        .args(arguments)
        .output()
        .expect("git");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {text}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Creates a workspace with one crate, without a repository.
fn workspace() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    for part in ["root/crates/a/src", "root/crates/a/tests", "out"] {
        fs::create_dir_all(dir.path().join(part)).expect("a directory");
    }
    for (file, text) in [
        ("Cargo.toml", "[workspace]"),
        ("crates/a/Cargo.toml", "[package]"),
        ("crates/a/src/lib.rs", "// one"),
        ("crates/a/tests/a.rs", "// one"),
    ] {
        fs::write(dir.path().join("root").join(file), text).expect("written");
    }
    dir
}

fn committed() -> tempfile::TempDir {
    let dir = workspace();
    let root = dir.path().join("root");
    git(&root, &["init", "--quiet"]);
    git(&root, &["add", "."]);
    git(&root, &["commit", "--quiet", "--message", "one"]);
    dir
}

fn source(dir: &tempfile::TempDir) -> Source {
    Source::of(&dir.path().join("root"), &dir.path().join("out"))
}

#[test]
fn source_changes_mark_the_version_and_test_changes_do_not() {
    let dir = committed();
    let root = dir.path().join("root");
    let found = source(&dir);
    assert_eq!(found.commit, Some(git(&root, &["rev-parse", "HEAD"])));
    assert_eq!(found.dirty, "no");
    fs::write(root.join("crates/a/tests/a.rs"), "// two").expect("written");
    fs::write(root.join("notes"), "of mine").expect("written");
    assert_eq!(source(&dir).dirty, "no");
    fs::write(root.join("crates/a/src/new.rs"), "// new").expect("written");
    assert_eq!(source(&dir).dirty, "yes", "a new file");
    git(&root, &["add", "."]);
    assert_eq!(source(&dir).dirty, "yes", "a staged one");
    git(&root, &["commit", "--quiet", "--message", "two"]);
    assert_eq!(source(&dir).dirty, "no");
    fs::write(root.join("crates/a/src/lib.rs"), "// two").expect("written");
    assert_eq!(source(&dir).dirty, "yes", "a changed one");
    fs::remove_file(root.join("crates/a/src/lib.rs")).expect("removed");
    assert_eq!(source(&dir).dirty, "yes", "a missing one");
}

#[test]
fn version_has_commit_and_date() {
    let dir = committed();
    let root = dir.path().join("root");
    let head = git(&root, &["rev-parse", "--short=12", "HEAD"]);
    let version = |epoch: Option<&str>| {
        build::version("1.2.3", &source(&dir), &root, epoch.map(str::to_owned))
    };
    let date = git(
        &root,
        &["log", "-1", "--date=format-local:%F", "--format=%cd"],
    );
    assert_eq!(version(None), format!("1.2.3 ({head} {date})"));
    assert_eq!(
        version(Some("1700000000")),
        format!("1.2.3 ({head} 2023-11-14)")
    );
    fs::write(root.join("crates/a/src/lib.rs"), "// two").expect("written");
    assert_eq!(
        version(Some("0")),
        format!("1.2.3 ({head}-dirty 1970-01-01)")
    );
    let bare = workspace();
    assert_eq!(
        build::version("1.2.3", &source(&bare), &bare.path().join("root"), None),
        "1.2.3 (unknown date unknown)"
    );
}

#[test]
fn build_script_reruns_when_the_version_changes() {
    let dir = committed();
    let root = dir.path().join("root");
    let watched = source(&dir).watched;
    for part in [
        "Cargo.toml",
        "crates/a/src",
        "crates/a/Cargo.toml",
        ".git/HEAD",
        ".git/logs/HEAD",
    ] {
        assert!(watched.contains(&root.join(part)), "{part}: {watched:?}");
    }
    // These change without changing the program, with each look that git takes too.
    for part in ["crates/a/tests", "crates", ".git/index"] {
        assert!(!watched.contains(&root.join(part)), "{part}: {watched:?}");
    }
}

#[test]
fn no_commit_outside_a_checkout_or_with_crates_of_another_clone() {
    let bare = workspace();
    let found = source(&bare);
    assert_eq!(
        (found.commit, found.dirty),
        (None, "unknown"),
        "no repository"
    );

    // Unpacked into somebody else's repository.
    git(bare.path(), &["init", "--quiet"]);
    git(
        bare.path(),
        &["commit", "--quiet", "--allow-empty", "--message", "theirs"],
    );
    let found = source(&bare);
    assert_eq!((found.commit, found.dirty), (None, "unknown"), "another's");

    let (first, second) = (committed(), committed());
    assert_eq!(source(&first).dirty, "no");
    let shared = Source::of(&second.path().join("root"), &first.path().join("out"));
    assert!(shared.commit.is_some());
    assert_eq!(shared.dirty, "unknown", "a shared build directory");
    assert_eq!(source(&first).dirty, "unknown", "its first clone again");
}
