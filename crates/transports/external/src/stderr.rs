//! Standard error of a program: its tail in memory, and all of it in the trial's files.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, Read, Write as _},
    path::{Path, PathBuf},
};

use parking_lot::Mutex;

/// Maximum length of the tail in memory, in bytes: enough for the stack traces of many threads.
const TAIL_BYTES: usize = 1 << 20;

/// Largest file, in bytes.
const FILE_BYTES: u64 = 16 << 20;

/// Lines of an excerpt.
const EXCERPT_LINES: usize = 3;

/// Beginnings of lines with the message of a crash, after which a runtime prints its stacks.
const CRASHES: [&str; 5] = [
    "panic: ",
    "fatal error: ",
    "terminate called",
    "Fatal Python error",
    "thread '",
];

/// Standard error of a program: its tail, and a file with all of it.
#[derive(Debug, Default)]
pub(crate) struct Stderr {
    tail: VecDeque<u8>,
    /// Path of the file, which is created when the first byte arrives.
    path: Option<PathBuf>,
    file: Option<File>,
    written: u64,
}

impl Stderr {
    /// Creates an empty one, which is kept in the directory for a trial's files, too.
    pub(crate) fn of_trial(directory: Option<&Path>) -> Self {
        Self {
            path: directory.map(|directory| directory.join("stderr")),
            ..Self::default()
        }
    }

    /// Returns the file, if anything was written to it.
    pub(crate) fn file(&self) -> Option<&PathBuf> {
        self.path.as_ref().filter(|_| self.file.is_some())
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.tail.extend(bytes);
        let surplus = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..surplus);
        if let (Some(path), None) = (&self.path, &self.file) {
            self.file = File::create_new(path).ok();
        }
        let room = FILE_BYTES.saturating_sub(self.written);
        let kept = &bytes[..bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX))];
        if let Some(file) = &mut self.file {
            // On a full disk there is the end in memory.
            let _ = file.write_all(kept);
            self.written += kept.len() as u64;
        }
    }

    /// Returns the lines that are kept in memory, with control characters escaped and without empty ones.
    pub(crate) fn lines(&mut self) -> Vec<String> {
        let text = String::from_utf8_lossy(self.tail.make_contiguous());
        text.lines()
            .map(|line| visible(line.trim()))
            .filter(|line| !line.is_empty())
            .collect()
    }

    /// Returns the lines that tell most: the message of a crash with those after it, or the last ones.
    pub(crate) fn excerpt(&mut self) -> Option<String> {
        let lines = self.lines();
        let is_crash = |line: &String| CRASHES.iter().any(|beginning| line.starts_with(beginning));
        let last = lines.len().saturating_sub(EXCERPT_LINES);
        let first = lines.iter().rposition(is_crash).unwrap_or(last);
        let excerpt: Vec<_> = lines[first..].iter().take(EXCERPT_LINES).collect();
        let excerpt = excerpt.into_iter().map(String::as_str).collect::<Vec<_>>();
        (!excerpt.is_empty()).then(|| excerpt.join(" / "))
    }
}

/// Keeps all that comes from a pipe, until its end.
pub(crate) fn keep(mut errors: impl Read, stderr: &Mutex<Stderr>) {
    let mut chunk = [0; 4096];
    loop {
        match errors.read(&mut chunk) {
            Ok(length @ 1..) => stderr.lock().keep(&chunk[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => return,
        }
    }
}

/// Escapes control characters: the text comes from a program, and goes to a terminal.
pub(crate) fn visible(text: &str) -> String {
    let escaped = |character: char| match character.is_control() {
        true => character.escape_default().to_string(),
        false => character.to_string(),
    };
    text.chars().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_message_of_a_crash_comes_before_the_stacks() {
        let mut stderr = Stderr::default();
        stderr.keep(b"begun\npanic: no such luck\n\ngoroutine 1 [running]:\nmain.main()\n");
        stderr.keep(&b"\t/a.go:1 +0x1\n".repeat(1000));
        let excerpt = stderr.excerpt().unwrap();
        assert_eq!(
            excerpt,
            "panic: no such luck / goroutine 1 [running]: / main.main()"
        );
    }

    #[test]
    fn the_last_lines_are_those_without_a_crash() {
        let mut stderr = Stderr::default();
        assert_eq!(stderr.excerpt(), None);
        stderr.keep(b"a\nb\n\nc\x1b\nd");
        assert_eq!(stderr.excerpt().unwrap(), "b / c\\u{1b} / d");
    }

    #[test]
    fn all_of_it_is_in_the_file_up_to_a_limit() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("stderr");
        let mut stderr = Stderr::of_trial(Some(directory.path()));
        assert!(!path.exists());
        let chunk = [b'x'; 1 << 20];
        (0..20).for_each(|_| stderr.keep(&chunk));
        assert_eq!(fs::metadata(&path).unwrap().len(), FILE_BYTES);
        assert_eq!(stderr.file(), Some(&path));
        assert_eq!(stderr.tail.len(), TAIL_BYTES);
    }
}
