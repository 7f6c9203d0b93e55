//! A tree as a source and a directory as a sink: files sent, names refused, and the time when a
//! file is whole.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, Write as _},
    os::unix::{
        ffi::OsStrExt,
        fs::{PermissionsExt, symlink},
    },
    path::{Path, PathBuf},
    thread,
};

use wdt_protocol::{
    codec::{Allocation, FileHeader},
    files::{
        DirectoryOptions, DirectorySink, Glob, Selection, TreeError, TreeSource, read_manifest,
    },
    path::RelativePath,
    sink::{Sink, SinkWriter},
    source::{Source, SourceReader},
};

fn block(sequence: u64, path: &str, size: u64, offset: u64, length: u64) -> FileHeader {
    FileHeader {
        status: 0,
        sequence,
        path: RelativePath::new(path.as_bytes()).expect("a safe path"),
        file_size: size,
        offset,
        length,
        allocation: Allocation::New,
    }
}

fn put(sink: &DirectorySink, block: &FileHeader, data: &[u8]) -> io::Result<()> {
    let mut writer = sink.begin(block)?;
    for (number, piece) in data.chunks(7).enumerate() {
        writer.write(block.offset + number as u64 * 7, piece)?;
    }
    writer.finish()
}

/// Returns a source of everything below a directory, or of one file.
fn everything(path: &Path) -> Result<TreeSource, TreeError> {
    TreeSource::selected(path, &Selection::default())
}

/// Returns everything below a directory, sorted.
fn tree(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(at) = directories.pop() {
        for entry in fs::read_dir(at).expect("readable") {
            let entry = entry.expect("an entry");
            if entry.file_type().expect("a type").is_dir() {
                directories.push(entry.path());
            }
            let path = entry.path();
            found.push(path.strip_prefix(directory).expect("below").to_owned());
        }
    }
    found.sort();
    found
}

fn sink(directory: &Path) -> DirectorySink {
    DirectorySink::new(directory, DirectoryOptions::default()).expect("a sink")
}

#[test]
fn files_are_renamed_when_complete_and_temporaries_removed() {
    let temp = tempfile::tempdir().expect("a directory");
    let target = temp.path().join("new/target");
    let data: Vec<u8> = (0..100).collect();
    let failed = sink(&target);
    put(&failed, &block(1, "a/b/file", 100, 60, 40), &data[60..]).expect("written");
    put(&failed, &block(2, "whole", 100, 0, 100), &data).expect("written");
    let names = tree(&target);
    assert!(names[0].to_string_lossy().ends_with(".part"), "{names:?}");
    assert_eq!(names.len(), 3, "{names:?}");
    let refused = failed.commit().expect_err("a part is missing");
    assert!(refused.to_string().contains("a/b/file"), "{refused}");
    drop(failed);
    assert_eq!(tree(&target), Vec::<PathBuf>::new());

    let sink = sink(&target);
    put(&sink, &block(1, "a/b/file", 100, 60, 40), &data[60..]).expect("written");
    put(&sink, &block(1, "a/b/file", 100, 0, 60), &[7; 60]).expect("written");
    put(&sink, &block(2, "empty", 0, 0, 0), &[]).expect("written");
    // By its tag it was not what the sender had sent: what comes again counts.
    put(&sink, &block(1, "a/b/file", 100, 0, 60), &data[..60]).expect("written");
    assert_eq!(sink.commit().expect("all is there"), 2);
    drop(sink);
    assert_eq!(
        tree(&target),
        ["a", "a/b", "a/b/file", "empty"].map(PathBuf::from)
    );
    assert_eq!(fs::read(target.join("a/b/file")).expect("there"), data);
}

#[test]
fn truncated_blocks_are_completed_by_resent_ones() {
    let temp = tempfile::tempdir().expect("a directory");
    let sink = sink(temp.path());
    let data: Vec<u8> = (0..100).collect();
    let cut = |offset: u64, end: u64, written: &[u8]| {
        let mut writer = sink
            .begin(&block(1, "f", 100, offset, end - offset))
            .expect("a writer");
        writer.write(offset, written).expect("written");
    };
    // Cut, again from the beginning and cut, then on from there.
    cut(0, 100, &[9; 70]);
    cut(0, 100, &data[..30]);
    put(&sink, &block(1, "f", 100, 30, 70), &data[30..]).expect("written");
    // A block that arrived whole but was not counted is followed by an empty one.
    let mut writer = sink.begin(&block(2, "g", 100, 0, 100)).expect("a writer");
    writer.write(0, &data).expect("written");
    drop(writer);
    assert!(sink.commit().is_err());
    put(&sink, &block(2, "g", 100, 100, 0), &[]).expect("written");
    sink.commit().expect("all is there");
    for name in ["f", "g"] {
        assert_eq!(fs::read(temp.path().join(name)).expect("whole"), data);
    }
}

#[test]
fn existing_files_are_replaced_only_with_overwrite() {
    let temp = tempfile::tempdir().expect("a directory");
    let file = temp.path().join("f");
    fs::write(&file, "old").expect("written");
    symlink("/etc/passwd", temp.path().join("link")).expect("a link");
    let refusing = sink(temp.path());
    for name in ["f", "link"] {
        let refused = refusing
            .begin(&block(1, name, 3, 0, 3))
            .expect_err("it is there");
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert!(
            refused.to_string().contains("not to be replaced"),
            "{refused}"
        );
    }
    // Also one that appears meanwhile.
    put(&refusing, &block(2, "late", 3, 0, 3), b"new").expect("free");
    fs::write(temp.path().join("late"), "other").expect("written");
    let refused = refusing.commit().expect_err("it is there now");
    assert!(
        refused.to_string().contains("not to be replaced"),
        "{refused}"
    );
    drop(refusing);
    assert_eq!(fs::read(temp.path().join("late")).expect("there"), b"other");
    assert_eq!(fs::read(&file).expect("there"), b"old");
    assert_eq!(tree(temp.path()).len(), 3);

    let options = DirectoryOptions {
        overwrite: true,
        ..DirectoryOptions::default()
    };
    let replacing = DirectorySink::new(temp.path(), options).expect("a sink");
    for (sequence, name) in [(1, "f"), (2, "link")] {
        put(&replacing, &block(sequence, name, 3, 0, 3), b"new").expect("taken");
    }
    replacing.commit().expect("replaced");
    for name in ["f", "link"] {
        assert_eq!(fs::read(temp.path().join(name)).expect("there"), b"new");
    }
    // The link was replaced, not what it led to.
    assert!(!temp.path().join("link").is_symlink());
    // A directory is no file, whether it is there at once or appears meanwhile.
    fs::create_dir(temp.path().join("d")).expect("made");
    let refused = replacing
        .begin(&block(3, "d", 3, 0, 3))
        .expect_err("a directory");
    assert_eq!(refused.kind(), io::ErrorKind::IsADirectory);
    put(&replacing, &block(3, "e", 3, 0, 3), b"new").expect("taken");
    fs::create_dir(temp.path().join("e")).expect("made");
    assert!(replacing.commit().is_err());
    drop(replacing);
    assert_eq!(tree(temp.path()).len(), 5);
}

#[test]
fn symlinked_directories_are_refused() {
    let temp = tempfile::tempdir().expect("a directory");
    let (inside, outside) = (temp.path().join("in"), temp.path().join("out"));
    fs::create_dir_all(inside.join("real")).expect("made");
    fs::create_dir(&outside).expect("made");
    symlink("../out", inside.join("away")).expect("a link");
    symlink("real", inside.join("near")).expect("a link");
    let sink = sink(&inside);
    for path in ["away/f", "near/f", "away/deeper/f"] {
        let refused = sink.begin(&block(1, path, 3, 0, 3)).expect_err("a link");
        assert!(refused.to_string().contains("cannot write"), "{refused}");
    }
    assert_eq!(tree(&outside), Vec::<PathBuf>::new());
    assert_eq!(tree(&inside.join("real")), Vec::<PathBuf>::new());
}

#[test]
fn contradictory_and_oversized_blocks_are_refused() {
    let temp = tempfile::tempdir().expect("a directory");
    let sink = sink(temp.path());
    put(&sink, &block(7, "f", 100, 0, 50), &[0; 50]).expect("taken");
    for wrong in [
        block(2, "f", 100, 50, 50),
        block(7, "g", 100, 50, 50),
        block(7, "f", 101, 50, 50),
        block(3, "huge", u64::MAX, 0, 50),
        block(4, "large", 1 << 60, 0, 50),
    ] {
        assert!(sink.begin(&wrong).is_err(), "{wrong:?}");
    }
    let mut writer = sink.begin(&block(6, "h", 10, 0, 5)).expect("a writer");
    assert!(writer.write(1, b"a").is_err(), "not from its beginning");
    assert!(writer.write(0, b"123456").is_err(), "longer than it is");
}

#[test]
fn path_as_both_file_and_directory_is_refused() {
    for (first, second) in [
        ("a", "a/b"),
        ("a/b", "a"),
        ("x/a", "x/a/b/c"),
        ("x/a/b/c", "x/a"),
    ] {
        let temp = tempfile::tempdir().expect("a directory");
        let sink = sink(temp.path());
        put(&sink, &block(1, first, 1, 0, 1), b"1").expect("taken");
        let refused = sink.begin(&block(2, second, 1, 0, 1)).expect_err("both");
        assert!(
            refused.to_string().contains("a file and as a directory"),
            "{refused}"
        );
        put(&sink, &block(3, "ab", 1, 0, 1), b"1").expect("another name");
    }
}

#[test]
fn holes_and_overlaps_are_found_before_the_end_is_confirmed() {
    let temp = tempfile::tempdir().expect("a directory");
    let holey = sink(temp.path());
    put(&holey, &block(1, "f", 100, 0, 50), &[1; 50]).expect("taken");
    put(&holey, &block(1, "f", 100, 25, 50), &[1; 50]).expect("taken");
    let hole = holey.check(100).expect_err("a hole");
    assert!(hole.to_string().contains("`f`"), "{hole}");
    put(&holey, &block(1, "f", 100, 75, 25), &[1; 25]).expect("taken");
    let overlap = holey.check(125).expect_err("an overlap");
    assert!(overlap.to_string().contains("125 bytes"), "{overlap}");
    // Of what came again, as nothing had counted it, the sender counts one.
    holey.check(100).expect("whole");
}

#[test]
fn file_modes_honour_the_umask() {
    for (umask, file, directory) in [
        (0o022, 0o644, 0o755),
        (0o002, 0o664, 0o775),
        (0o077, 0o600, 0o700),
    ] {
        let temp = tempfile::tempdir().expect("a directory");
        with_umask(umask, || {
            let sink = sink(temp.path());
            put(&sink, &block(1, "d/f", 1, 0, 1), b"1").expect("taken");
            sink.commit().expect("named");
        });
        for (path, expected) in [("d", directory), ("d/f", file)] {
            let metadata = fs::metadata(temp.path().join(path)).expect("there");
            assert_eq!(
                metadata.permissions().mode() & 0o7777,
                expected,
                "{path} under {umask:o}"
            );
        }
    }
}

/// Runs `work` with a umask that applies to it alone, in a thread of its own.
fn with_umask(umask: libc::mode_t, work: impl FnOnce() + Send) {
    thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: no memory is passed; this thread has a umask of its own from here on.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_FS) }, 0);
            // SAFETY: no memory is passed.
            unsafe { libc::umask(umask) };
            work();
        });
    });
}

#[test]
fn threads_write_one_file_together() {
    let temp = tempfile::tempdir().expect("a directory");
    let sink = sink(temp.path());
    let data: Vec<u8> = (0..80_000_u32).map(|number| (number % 251) as u8).collect();
    thread::scope(|scope| {
        for (number, part) in data.chunks(10_000).enumerate() {
            let sink = &sink;
            scope.spawn(move || {
                let offset = number as u64 * 10_000;
                put(sink, &block(1, "x/y", 80_000, offset, 10_000), part).expect("written");
            });
        }
    });
    sink.commit().expect("all is there");
    assert_eq!(fs::read(temp.path().join("x/y")).expect("whole"), data);
}

fn contents(source: &TreeSource) -> Vec<(Vec<u8>, Vec<u8>)> {
    let read = |index: usize, size: u64| {
        let mut reader = source.open(index).expect("it opens");
        let mut bytes = Vec::new();
        let mut scratch = [0; 5];
        while (bytes.len() as u64) < size {
            let most = size as usize - bytes.len();
            let offset = bytes.len() as u64;
            bytes.extend_from_slice(reader.read(offset, most, &mut scratch).expect("bytes"));
        }
        bytes
    };
    let mut contents: Vec<_> = source
        .files()
        .iter()
        .enumerate()
        .map(|(index, file)| (file.path.as_bytes().to_vec(), read(index, file.size_bytes)))
        .collect();
    contents.sort();
    contents
}

#[test]
fn tree_lists_its_files_and_reports_skipped_entries() {
    let temp = tempfile::tempdir().expect("a directory");
    let root = temp.path().join("root");
    fs::create_dir_all(root.join("a/b")).expect("made");
    fs::create_dir(root.join("nothing")).expect("made");
    fs::write(root.join("a/b/one"), "first file").expect("written");
    fs::write(root.join("empty"), "").expect("written");
    let odd = OsStr::from_bytes(b"not\xffutf8");
    fs::write(root.join(odd), "odd").expect("written");
    symlink("a", root.join("loop")).expect("a link");
    symlink("/etc/passwd", root.join("a/secret")).expect("a link");
    let pipe = std::process::Command::new("mkfifo")
        .arg(root.join("pipe"))
        .status();
    assert!(pipe.expect("mkfifo runs").success());
    let source = everything(&root).expect("a tree");
    assert_eq!(
        contents(&source),
        [
            (b"a/b/one".to_vec(), b"first file".to_vec()),
            (b"empty".to_vec(), Vec::new()),
            (b"not\xffutf8".to_vec(), b"odd".to_vec()),
        ]
    );
    let mut left_out: Vec<_> = source.left_out().iter().map(ToString::to_string).collect();
    left_out.sort();
    assert_eq!(left_out.len(), 3, "{left_out:?}");
    assert!(left_out[0].ends_with("/a/secret` is a symbolic link"));
    assert!(left_out[1].ends_with("/loop` is a symbolic link"));
    assert!(left_out[2].ends_with("/pipe` is a pipe, a socket or a device"));
}

#[test]
fn a_choice_of_files_is_sent() {
    let temp = tempfile::tempdir().expect("a directory");
    let (root, outside) = (temp.path().join("root"), temp.path().join("outside"));
    for directory in [root.join("a/cache"), root.join("b"), outside.clone()] {
        fs::create_dir_all(directory).expect("made");
    }
    for file in ["a/one.txt", "a/two.log", "a/cache/three.txt", "b/four.txt"] {
        fs::write(root.join(file), file).expect("written");
    }
    fs::write(outside.join("five.txt"), "five").expect("written");
    symlink("../outside", root.join("link")).expect("a link");
    symlink("one.txt", root.join("a/again.txt")).expect("a link");
    symlink("../..", root.join("b/loop")).expect("a link");
    symlink("nowhere", root.join("b/broken")).expect("a link");
    symlink("..", root.join("b/up")).expect("a link");
    let globs = |globs: &[&str]| {
        globs
            .iter()
            .map(|glob| Glob::new(glob).expect("one"))
            .collect()
    };
    let names = |selection: &Selection| {
        let source = TreeSource::selected(&root, selection).expect("a tree");
        let names = contents(&source)
            .into_iter()
            .map(|(name, _)| String::from_utf8(name));
        names
            .map(|name| name.expect("text"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let selection = Selection {
        include: globs(&["*.txt"]),
        exclude: globs(&["cache"]),
        ..Selection::default()
    };
    assert_eq!(names(&selection), "a/one.txt b/four.txt");
    let selection = Selection {
        follow_links: true,
        exclude: globs(&["cache", "b/loop"]),
        ..Selection::default()
    };
    let source = TreeSource::selected(&root, &selection).expect("a tree");
    assert_eq!(
        names(&selection),
        "a/again.txt a/one.txt a/two.log b/four.txt link/five.txt"
    );
    let left_out: Vec<_> = source.left_out().iter().map(ToString::to_string).collect();
    assert_eq!(left_out.len(), 2, "{left_out:?}");
    assert!(left_out[0].contains("broken` is a symbolic link that leads nowhere"));
    assert!(left_out[1].contains("up` is a symbolic link to a directory that it lies in"));
}

#[test]
fn a_manifest_names_the_files_that_are_sent() {
    let temp = tempfile::tempdir().expect("a directory");
    fs::create_dir(temp.path().join("a")).expect("made");
    fs::write(temp.path().join("a/file"), "0123456789").expect("written");
    fs::write(temp.path().join("other"), "x").expect("written");
    symlink("other", temp.path().join("link")).expect("a link");
    let select = |text: &str, follow_links| {
        let manifest = Some(read_manifest(text.as_bytes()).expect("a manifest"));
        let selection = Selection {
            manifest,
            follow_links,
            ..Selection::default()
        };
        TreeSource::selected(temp.path(), &selection)
    };
    let source = select("./a//file\t4\n", false).expect("a tree");
    assert_eq!(contents(&source), [(b"a/file".to_vec(), b"0123".to_vec())]);
    // The rest may grow meanwhile.
    let reader = source.open(0).expect("it opens");
    fs::write(temp.path().join("a/file"), "0123456789 and more").expect("written");
    reader
        .check_unchanged()
        .expect("the manifest says how much");
    assert_eq!(
        contents(&select("link", true).expect("followed"))[0].1,
        b"x"
    );
    for (text, expected) in [
        ("link", "link"),
        ("missing", "missing"),
        ("a", "not a file"),
        ("other\t2", "says 2 bytes, and it has 1"),
        ("other\n./other", "twice"),
    ] {
        let error = select(text, false).expect_err(text);
        let cause = std::error::Error::source(&error)
            .expect("a cause")
            .to_string();
        assert!(
            format!("{error}: {cause}").contains(expected),
            "{error}: {cause}"
        );
    }
}

#[test]
fn single_file_keeps_its_name_and_a_link_its_own() {
    let temp = tempfile::tempdir().expect("a directory");
    fs::write(temp.path().join("file"), "content").expect("written");
    symlink("file", temp.path().join("link")).expect("a link");
    for name in ["file", "link"] {
        let source = everything(&temp.path().join(name)).expect("a file");
        assert_eq!(
            contents(&source),
            [(name.as_bytes().to_vec(), b"content".to_vec())]
        );
    }
    let missing = everything(&temp.path().join("missing"));
    assert!(matches!(missing, Err(TreeError::Read { .. })));
    let device = everything(Path::new("/dev/null"));
    assert!(matches!(device, Err(TreeError::Kind { .. })));
}

#[test]
fn file_changed_while_reading_is_an_error() {
    let temp = tempfile::tempdir().expect("a directory");
    let file = temp.path().join("f");
    fs::write(&file, "0123456789").expect("written");
    let source = everything(temp.path()).expect("a tree");
    let mut reader = source.open(0).expect("it opens");
    fs::write(&file, "01").expect("shortened");
    let mut scratch = [0; 10];
    assert_eq!(reader.read(0, 10, &mut scratch).expect("bytes"), b"01");
    let short = reader.read(2, 8, &mut scratch).expect_err("too short");
    assert_eq!(short.kind(), io::ErrorKind::UnexpectedEof);
    fs::remove_file(&file).expect("removed");
    symlink("/etc/passwd", &file).expect("a link");
    assert!(source.open(0).is_err(), "a link is not followed");
}

#[test]
fn a_file_that_was_rewritten_or_grew_is_reported_after_its_last_byte() {
    let temp = tempfile::tempdir().expect("a directory");
    let file = temp.path().join("f");
    fs::write(&file, "0123456789").expect("written");
    let source = everything(temp.path()).expect("a tree");
    let reader = source.open(0).expect("it opens");
    reader.check_unchanged().expect("nothing changed");
    let before = fs::metadata(&file).expect("its times");
    let at = before.modified().expect("a time") + std::time::Duration::from_nanos(1);
    let open = File::options().append(true).open(&file).expect("it opens");
    open.set_modified(at).expect("a time");
    reader.check_unchanged().expect_err("its time is another");
    open.set_modified(before.modified().expect("a time"))
        .expect("a time");
    reader.check_unchanged().expect("as before");
    (&open).write_all(b"more").expect("written");
    open.set_modified(before.modified().expect("a time"))
        .expect("a time");
    reader.check_unchanged().expect_err("its size is another");
}

/// Runs `work` as a user who is not root, in a thread of its own, to which alone the change
/// applies.
fn as_ordinary_user<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    const NOBODY: libc::uid_t = 65_534;
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: no memory is passed; it changes whose rights this thread has on files.
            unsafe { libc::setfsuid(NOBODY) };
            work()
        });
        thread.join().expect("no panic")
    })
}

#[test]
fn unreadable_and_unwritable_paths_fail_before_sending() {
    let temp = tempfile::tempdir().expect("a directory");
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its owner may");
    };
    mode(temp.path(), 0o755);
    let tree = temp.path().join("tree");
    fs::create_dir_all(tree.join("closed")).expect("made");
    fs::write(tree.join("open"), "x").expect("written");
    fs::write(tree.join("secret"), "x").expect("written");
    for path in ["secret", "closed"] {
        mode(&tree.join("secret"), 0o644);
        mode(&tree.join("closed"), 0o755);
        assert!(as_ordinary_user(|| everything(&tree)).is_ok());
        mode(&tree.join(path), 0);
        match as_ordinary_user(|| everything(&tree)) {
            Err(TreeError::Read {
                path: reported,
                source,
            }) => {
                assert_eq!(reported, tree.join(path));
                assert_eq!(source.kind(), io::ErrorKind::PermissionDenied);
            }
            other => panic!("{path}: {other:?}"),
        }
    }
    mode(&tree.join("closed"), 0o755);
    let target = temp.path().join("target");
    fs::create_dir(&target).expect("made");
    mode(&target, 0o555);
    let refused =
        as_ordinary_user(|| DirectorySink::new(&target, DirectoryOptions::default()).map(drop));
    let refused = refused.expect_err("read-only");
    assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
}
