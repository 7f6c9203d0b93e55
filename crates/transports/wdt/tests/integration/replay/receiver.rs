//! The recorded sender against our receiver.

use std::fs;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;
use wdt_protocol::codec::{Allocation, FileChunks, FileHeader, Reply};
use wdt_protocol::files::{DirectoryOptions, DirectorySink};
use wdt_protocol::path::RelativePath;
use wdt_protocol::sink::{Sink as _, SinkWriter as _};

use super::player::{Played, play};
use super::{Said, recordings, sent_content};
use crate::recorded::{Recorded, changed_content, content};
use crate::scripted::ms;

/// Session of a recording with our receiver, in a directory.
struct Session {
    recorded: Recorded,
    played: Played,
    /// Directory after the session; where the receiver was killed, as it was at that moment.
    target: TempDir,
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("readable") {
        let entry = entry.expect("an entry");
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        match from.is_dir() {
            true => copy_tree(&from, &to),
            false => _ = fs::copy(&from, &to).expect("copied"),
        }
    }
}

fn resuming() -> DirectoryOptions {
    DirectoryOptions {
        sync: false,
        resume: true,
        ..DirectoryOptions::default()
    }
}

impl Session {
    /// Plays a recording into the directory.
    fn play(name: &str, target: TempDir, options: DirectoryOptions, late: Duration) -> Self {
        let recorded = Recorded::load(name);
        let sink = DirectorySink::new(target.path(), options).expect("a sink");
        let played = play(&recorded, sink.clone(), late);
        let target = match &played.outcome {
            None => {
                // A process that is killed removes nothing any more.
                let copy = tempfile::tempdir().expect("a directory");
                copy_tree(target.path(), copy.path());
                drop(sink);
                copy
            }
            Some(outcome) => {
                if outcome.is_ok() {
                    sink.commit().expect("all is there");
                }
                drop(sink);
                target
            }
        };
        Self {
            recorded,
            played,
            target,
        }
    }

    /// Plays a recording after these, with our receiver's directory changed by `change` in between.
    fn after(before: &[&str], change: impl FnOnce(&Path), name: &str) -> Self {
        let mut target = tempfile::tempdir().expect("a directory");
        for name in before {
            let session = Self::play(name, target, resuming(), Duration::ZERO);
            session.is_as_recorded();
            target = session.target;
        }
        change(target.path());
        Self::play(name, target, resuming(), Duration::ZERO)
    }

    fn name(&self) -> &str {
        &self.recorded.name
    }

    fn check_messages(&self) {
        for (ours, theirs) in &self.played.connections {
            assert_eq!(ours, theirs, "{}", self.name());
        }
        let connections = self.played.connections.len();
        assert_eq!(
            connections,
            self.recorded.connections.len(),
            "{}",
            self.name()
        );
    }

    fn exit(&self) -> Option<u8> {
        let outcome = self.played.outcome.as_ref()?;
        let code = outcome.as_ref().err().map(|failure| failure.status.code());
        Some(code.unwrap_or(0))
    }

    fn check_exit(&self) {
        if let Some(exit) = self.exit() {
            let outcome = &self.played.outcome;
            assert_eq!(
                exit,
                self.recorded.outcome.receiver_exit,
                "{}: {outcome:?}",
                self.name()
            );
        }
    }

    /// Checks that all files are there with the sender's content.
    fn check_files(&self) {
        for file in &self.recorded.files {
            let expected = sent_content(self.name(), &file.path, 0, file.size as usize);
            let there = fs::read(self.target.path().join(&file.path)).expect("a file");
            assert!(there == expected, "{}: `{}`", self.name(), file.path);
        }
    }

    fn is_as_recorded(&self) {
        self.check_messages();
        self.check_exit();
        if self.recorded.outcome.files_arrived && self.played.outcome.is_some() {
            self.check_files();
        }
    }

    fn exists(&self, name: &str) -> bool {
        self.target.path().join(name).exists()
    }

    /// Returns the list of files on the first connection, as it was played.
    fn list(&self) -> &[FileChunks] {
        let said = self
            .played
            .connections
            .first()
            .and_then(|(ours, _)| ours.first());
        match said {
            Some(Said::List(list)) => list,
            other => panic!("{}: {other:?}", self.name()),
        }
    }
}

/// Checks a session in a directory without anything of earlier ones.
fn first(name: &str) {
    let options = DirectoryOptions {
        resume: Recorded::load(name).url.contains("dr=1"),
        ..resuming()
    };
    let target = tempfile::tempdir().expect("a directory");
    let session = Session::play(name, target, options, Duration::ZERO);
    session.is_as_recorded();
    // The older recordings have no times.
    let (ours, theirs) = session.played.heartbeats;
    assert!(
        !name.starts_with("r9") || ours.abs_diff(theirs) <= theirs / 10,
        "{name}: {ours} and {theirs} heartbeats"
    );
}

/// Checks a session after others.
fn later(name: &str, before: &[&str]) {
    Session::after(before, |_| {}, name).is_as_recorded();
}

const KILLED: &[&str] = &["r1-1-killed"];

recordings! { first:
    plain "01-plain";
    checksum "02-checksum";
    four_ports "03-four-ports";
    ctr "04-ctr";
    gcm_tags "05-gcm-tags";
    gcm_iv_change "06-gcm-iv-change";
    reconnect_plain "07-reconnect-plain";
    reconnect_checksum "07b-reconnect-checksum";
    reconnect_gcm "07c-reconnect-gcm";
    wrong_id "08-wrong-id";
    global_checkpoint "09-global-checkpoint";
    r1_1_killed "r1-1-killed";
    r1_6_credited_killed "r1-6-credited-killed";
    r2_1_checksum_killed "r2-1-checksum-killed";
    r2_3_gcm_killed "r2-3-gcm-killed";
    r2_5_gcm_default_killed "r2-5-gcm-default-killed";
    r2_7_gcm_checksum_killed "r2-7-gcm-checksum-killed";
    r7_d_zero "r7-d-zero";
    r7_e_receiver_without "r7-e-receiver-without";
    r8_1_default "r8-1-default";
    r8_2_slow "r8-2-slow";
    r8_4_two_cuts "r8-4-two-cuts";
    r9_1_slow_path "r9-1-slow-path";
    r9_2_read_timeout_1000 "r9-2-read-timeout-1000";
    r9_3_off "r9-3-off";
    r9_5_pause "r9-5-pause";
    r10_7_receiver_interrupted "r10-7-receiver-interrupted";
}

recordings! { later:
    r1_2_resumed "r1-2-resumed", KILLED;
    r1_3_two_ports "r1-3-two-ports", KILLED;
    r1_4_reconnect "r1-4-reconnect", KILLED;
    r1_5_cut_before_ack "r1-5-cut-before-ack", KILLED;
    r1_7_credited_resumed "r1-7-credited-resumed", &["r1-6-credited-killed"];
    r1_8_all_there "r1-8-all-there", &["r1-1-killed", "r1-2-resumed"];
    r2_2_checksum_resumed "r2-2-checksum-resumed", &["r2-1-checksum-killed"];
    r2_4_gcm_resumed "r2-4-gcm-resumed", &["r2-3-gcm-killed"];
    r2_6_gcm_default_resumed "r2-6-gcm-default-resumed", &["r2-5-gcm-default-killed"];
    r2_8_gcm_checksum_resumed "r2-8-gcm-checksum-resumed", &["r2-7-gcm-checksum-killed"];
    r4_grown "r4-grown", KILLED;
    r4_b_grown_partial "r4-b-grown-partial", KILLED;
    r4_2_after "r4-2-after", &["r1-1-killed", "r4-grown"];
    r5_shrunk "r5-shrunk", KILLED;
    r5_b_shrunk_partial "r5-b-shrunk-partial", KILLED;
    r5_c_emptied "r5-c-emptied", KILLED;
    r5_2_after "r5-2-after", &["r1-1-killed", "r5-shrunk"];
    r7_2_after "r7-2-after", &["r1-1-killed", "r7-gone"];
    r7_c_not_asked "r7-c-not-asked", KILLED;
}

/// Returns the place of the file that our receiver had complete when it was killed.
fn whole(target: &Path) -> std::path::PathBuf {
    target.join(".wdt-resume.part/2")
}

#[test]
fn r3_deleted() {
    let delete = |target: &Path| fs::remove_file(whole(target)).expect("removed");
    Session::after(KILLED, delete, "r3-deleted").is_as_recorded();
}

#[test]
fn r3_b_truncated() {
    let truncate = |target: &Path| {
        let file = fs::OpenOptions::new().write(true).open(whole(target));
        file.and_then(|file| file.set_len(10_000))
            .expect("truncated");
    };
    Session::after(KILLED, truncate, "r3-b-truncated").is_as_recorded();
}

#[test]
fn r3_c_log_lost() {
    let lose = |target: &Path| {
        fs::remove_file(target.join(".wdt-resume.part/journal")).expect("removed");
    };
    Session::after(KILLED, lose, "r3-c-log-lost").is_as_recorded();
}

/// Ours notices it, and has the file sent again; the recorded sender had another list.
#[test]
fn r3_d_altered_at_receiver() {
    let alter = |target: &Path| {
        let content: Vec<u8> = changed_content(0, 20_000).collect();
        fs::write(whole(target), content).expect("written");
    };
    let session = Session::after(KILLED, alter, "r3-d-altered-at-receiver");
    let ranges: Vec<_> = session
        .list()
        .iter()
        .map(|file| (file.sequence, &file.chunks[..]))
        .collect();
    assert_eq!(ranges, [(0, &[][..]), (2, &[])]);
}

/// Sizes are all that is compared: whoever changes a file without a change of its size gets the old one.
#[test]
fn r6_changed() {
    let session = Session::after(KILLED, |_| {}, "r6-changed");
    session.is_as_recorded();
    let a = fs::read(session.target.path().join("a")).expect("there");
    assert!(content(0, 20_000).eq(a));
    let b = fs::read(session.target.path().join("b")).expect("there");
    assert!(changed_content(0, 16_000).eq(b));
}

/// What was whole stays, under its name; a part is of no use to anybody, and goes.
#[test]
fn r7_gone() {
    let session = Session::after(KILLED, |_| {}, "r7-gone");
    session.is_as_recorded();
    assert!(session.exists("a") && !session.exists("b"));
}

#[test]
fn r7_b_gone_delete() {
    let before = Session::after(&[], |_| {}, "r1-1-killed");
    let options = DirectoryOptions {
        delete_extra_files: true,
        ..resuming()
    };
    let session = Session::play("r7-b-gone-delete", before.target, options, Duration::ZERO);
    session.is_as_recorded();
    assert!(!session.exists("a") && !session.exists("b") && session.exists("c"));
}

/// Puts whole files into a sink, with the blocks of this list.
fn put(sink: &DirectorySink, list: &[FileChunks], size: impl Fn(&FileChunks) -> u64) {
    for file in list {
        let length = size(file);
        let block = FileHeader {
            status: 0,
            path: file.path.clone(),
            sequence: file.sequence,
            length,
            offset: 0,
            file_size: file.size,
            allocation: Allocation::New,
        };
        let mut writer = sink.begin(&block).expect("a writer");
        let content: Vec<u8> = content(0, length as usize).collect();
        writer.write(0, &content).expect("written");
        writer.finish().expect("whole");
        sink.counted(&block);
    }
}

/// Returns the list that the recorded receiver sent.
fn recorded_list(name: &str) -> Vec<FileChunks> {
    let recorded = Recorded::load(name);
    let wire = recorded.connections[0].stream(crate::recorded::Direction::R2s);
    let said = super::said(&wire, None);
    let list = said.into_iter().find_map(|said| match said {
        Said::List(list) => Some(list),
        Said::Reply(_) => None,
    });
    list.expect("a list")
}

/// Our frames are as long as the reference's by default, and so there is one.
#[test]
fn r7_f_frames() {
    let target = tempfile::tempdir().expect("a directory");
    let sink = DirectorySink::new(target.path(), resuming()).expect("a sink");
    put(&sink, &recorded_list("r7-f-frames"), |file| file.size);
    sink.commit().expect("all is there");
    drop(sink);
    Session::play("r7-f-frames", target, resuming(), Duration::ZERO).is_as_recorded();
}

/// Ours knows no addresses and lists what it holds; a sender that sends everything all the same may.
#[test]
fn r7_g_other_address() {
    let session = Session::after(KILLED, |_| {}, "r7-g-other-address");
    let sequences: Vec<_> = session.list().iter().map(|file| file.sequence).collect();
    assert_eq!(sequences, [0, 2]);
    session.check_exit();
    session.check_files();
}

/// Ours has no mode without a journal; held as recorded, the files are continued likewise.
#[test]
fn r7_h_tree_mode() {
    let target = tempfile::tempdir().expect("a directory");
    let sink = DirectorySink::new(target.path(), resuming()).expect("a sink");
    put(&sink, &recorded_list("r7-h-tree-mode"), |file| file.size);
    drop(sink);
    Session::play("r7-h-tree-mode", target, resuming(), Duration::ZERO).is_as_recorded();
}

/// Ours counts each block that a tag covers, however it was delivered: two here, where the recorded
/// receiver had read too far ahead and counted none. What follows on the next connection differs.
#[test]
fn r8_3_fast() {
    let target = tempfile::tempdir().expect("a directory");
    let options = DirectoryOptions {
        resume: false,
        ..resuming()
    };
    let session = Session::play("r8-3-fast", target, options, Duration::ZERO);
    let (ours, theirs) = &session.played.connections[1];
    let blocks = |said: &[Said]| match said.first() {
        Some(Said::Reply(Reply::LocalCheckpoint(checkpoint))) => checkpoint.blocks,
        other => panic!("{other:?}"),
    };
    assert_eq!((blocks(ours), blocks(theirs)), (2, 0));
}

/// Everything had been delivered at once, and ours was not slow in taking it in.
#[test]
fn r9_4_slow_receiver() {
    let target = tempfile::tempdir().expect("a directory");
    let session = Session::play(
        "r9-4-slow-receiver",
        target,
        DirectoryOptions::default(),
        Duration::ZERO,
    );
    session.is_as_recorded();
    assert_eq!(session.played.heartbeats, (0, 4));
}

#[test]
fn r9_6_late_sender() {
    let target = tempfile::tempdir().expect("a directory");
    let session = Session::play(
        "r9-6-late-sender",
        target,
        DirectoryOptions::default(),
        ms(3000),
    );
    session.is_as_recorded();
    assert_eq!(session.played.heartbeats, (1, 1));
}

/// Checks that our receiver ends at once, with this code. The recorded one said nothing; ours sends ABORT.
fn disagreement(name: &str, exit: u8) {
    let target = tempfile::tempdir().expect("a directory");
    let session = Session::play(name, target, DirectoryOptions::default(), Duration::ZERO);
    assert_eq!(session.exit(), Some(exit), "{name}");
    assert!(session.played.took < ms(2000), "{name}");
    let (ours, _) = &session.played.connections[0];
    assert!(
        matches!(ours[..], [Said::Reply(Reply::Abort(_))]),
        "{name}: {ours:?}"
    );
}

#[test]
fn r10_6_sender_interrupted() {
    let target = tempfile::tempdir().expect("a directory");
    let session = Session::play(
        "r10-6-sender-interrupted",
        target,
        resuming(),
        Duration::ZERO,
    );
    session.is_as_recorded();
    assert!(
        (ms(7000)..ms(8000)).contains(&session.played.took),
        "{:?}",
        session.played.took
    );
    // What it had counted is kept.
    let sink = DirectorySink::new(session.target.path(), resuming()).expect("a sink");
    let a = RelativePath::new(b"a").expect("a path");
    let held = sink.held();
    let held = held.iter().find(|file| file.path == a).expect("held");
    assert_eq!(held.chunks, [(0, 20_000)]);
}

recordings! { disagreement:
    r10_1_wrong_key "r10-1-wrong-key", 10;
    r10_2_wrong_key_ctr "r10-2-wrong-key-ctr", 10;
    r10_3_other_cipher "r10-3-other-cipher", 10;
    // The recorded receiver takes the bytes in clear.
    r10_4_sender_plain "r10-4-sender-plain", 28;
    r10_5_receiver_plain "r10-5-receiver-plain", 10;
}
