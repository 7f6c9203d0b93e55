//! Output of `regatta client` and `regatta server`: standard output, or a file that is appended to.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use regatta_process::write_line;

use super::OutputError;
use crate::{
    exit::{OrFailure as _, Result},
    output,
};

/// Place to which lines are written, each at once.
pub struct LineOutput {
    file: Option<File>,
    /// Words before every line.
    title: Option<String>,
}

impl LineOutput {
    /// Opens the file, if there is to be one.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(file: Option<&Path>, title: Option<String>) -> Result<Self> {
        let open = |path: &Path| {
            // A pipe that nobody reads is an error, and not a wait.
            let file = OpenOptions::new()
                .create(true)
                .append(true)
                .custom_flags(OFlag::O_NONBLOCK.bits())
                .open(path)
                .and_then(|file| {
                    fcntl(&file, FcntlArg::F_SETFL(OFlag::O_APPEND))?;
                    Ok(file)
                });
            file.bad()
                .cannot("write to", path)
                .hint("name a file that may be written, in a directory that exists")
        };
        Ok(Self {
            file: file.map(open).transpose()?,
            title,
        })
    }

    /// Writes lines for people; each has the title before it.
    ///
    /// # Errors
    /// The place cannot be written.
    pub fn text(&mut self, text: &str) -> Result<(), OutputError> {
        let text = match &self.title {
            None => text.to_owned(),
            Some(title) => text
                .lines()
                .map(|line| format!("{title}: {line}\n"))
                .collect(),
        };
        match &mut self.file {
            None => output::coloured(&text),
            Some(file) => Ok(file.write_all(text.as_bytes())?),
        }
    }

    /// Writes a value in JSON as one line.
    ///
    /// # Errors
    /// The place cannot be written.
    pub fn json(&mut self, value: &impl serde::Serialize) -> Result<(), OutputError> {
        match &mut self.file {
            None => output::json_line(value),
            Some(file) => Ok(write_line(file, value)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_opened_has_a_remedy() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("missing").join("log");
        let Err(failure) = LineOutput::open(Some(&path), None) else {
            panic!("its directory is missing");
        };
        assert!(failure.message_and_hint().1.contains("name a file"));
    }
}
