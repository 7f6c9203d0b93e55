//! Programs of external drivers on hosts that are reached by SSH.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufRead as _, BufReader, Read as _},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use regatta_agent::{PROGRAMS_VARIABLE, ProgramFiles, program_files};
use regatta_bed::{Errors, hosts::SessionLauncher, session::Session};
use regatta_model::{Transport, shell::printable};
use regatta_ssh::{Archive, FILES_COMMAND};

use super::ended::ended_well;
use crate::exit::{Failure, OrFailure as _, Result, no_bed};

/// Programs of the transports of a study, packed when the first host needs them.
pub struct Programs {
    files: Vec<ProgramFiles>,
    packed: BTreeMap<PathBuf, Archive>,
}

impl Programs {
    /// Finds the programs of these transports.
    pub fn of(transports: &[Transport]) -> Self {
        let mut files: Vec<_> = transports.iter().filter_map(program_files).collect();
        files.sort_unstable();
        files.dedup();
        Self {
            files,
            packed: BTreeMap::new(),
        }
    }

    /// Sends the programs to a host that does not have them; `directory` is the one that the user has put them into
    /// there. Returns the variables of the environment by which the host's agents find them. One that is not here is
    /// not sent: its transport reports the missing file.
    ///
    /// # Errors
    /// Files that cannot be packed, sent or unpacked.
    pub fn on(
        &mut self,
        host: &str,
        session: &Session,
        directory: Option<&Path>,
    ) -> Result<Vec<(String, String)>> {
        let mut paths = BTreeMap::new();
        for files in &self.files {
            if let Some(directory) = directory {
                paths.insert(&files.name, directory.join(&files.on_host));
                continue;
            }
            if !files.root.join(&files.program).exists() && !files.root.is_file() {
                continue;
            }
            let archive = match self.packed.get(&files.root) {
                Some(archive) => archive,
                None => {
                    let packed = Archive::pack(&files.root)?;
                    self.packed.entry(files.root.clone()).or_insert(packed)
                }
            };
            let directory = send(archive, host, session)
                .context(format!("cannot send `{}` to host `{host}`", files.name))?;
            paths.insert(&files.name, directory.join(&files.program));
        }
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let paths = serde_json::to_string(&paths)?;
        Ok(vec![(PROGRAMS_VARIABLE.to_owned(), paths)])
    }
}

/// Sends an archive to a host that does not have its files. Returns their directory there.
fn send(archive: &Archive, host: &str, session: &Session) -> Result<PathBuf> {
    let launcher = SessionLauncher::new(format!("host `{host}`"), session.clone());
    let bytes = archive.content.len().to_string();
    let launched = launcher
        .start(&[FILES_COMMAND, &archive.digest, &bytes], Errors::Pipe)
        .map_err(no_bed)?;
    let mut output = BufReader::new(File::from(launched.output));
    let mut line = || {
        let mut line = String::new();
        output.read_line(&mut line).map(|_| line)
    };
    let (mut input, mut process) = (launched.input, launched.process);
    let directory = line().and_then(|first| match first.as_str() {
        "\n" => {
            // A process that ends early has an error message.
            let _ = input.write_all(&archive.content);
            line()
        }
        _ => Ok(first),
    });
    let directory = directory?;
    if let Some(directory) = directory
        .strip_suffix('\n')
        .filter(|it| it.starts_with('/'))
    {
        return Ok(directory.into());
    }
    drop(input);
    let stderr = stderr_text(launched.errors);
    if stderr.is_empty() {
        ended_well(host, &mut *process)?;
    }
    Err(Failure::message(stderr).hint(
        "make room there, or put the programs there by hand and name their directory with `programs = \"PATH\"` in the hosts file",
    ))
}

/// Returns the standard error of a process of Regatta on a host, as the cause of an error here.
pub fn stderr_text(errors: Option<OwnedFd>) -> String {
    let mut stderr = String::new();
    if let Some(errors) = errors {
        // A part of it is enough.
        let _ = File::from(errors).take(1 << 16).read_to_string(&mut stderr);
    }
    printable(stderr.trim().trim_start_matches("error: "))
}
