//! Files for a program that are private and temporary, which live in memory, and end with the trial
//! or with the agent, even if that is killed; and the directory for those that it leaves.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    os::fd::AsRawFd as _,
    path::{Path, PathBuf},
};

use nix::sys::memfd::{MFdFlags, memfd_create};
use regatta_control::{TlsMaterial, TrialOrder};
use regatta_model::{Warning, phrase, warning};
use regatta_transport::{OptionDefinition, OptionKind};

use crate::contract::Tls;

pub(crate) const KEEP: OptionDefinition = OptionDefinition {
    name: "keep",
    kind: OptionKind::Flag,
    default: "false",
    help: "a directory for each trial and end, kept with the results: the program's working directory, with all that it writes to standard error",
};

/// A file in memory, open for as long as this value lives.
#[derive(Debug)]
pub(crate) struct MemoryFile {
    /// Path at which a process of the same user can read the file.
    pub path: PathBuf,
    _file: File,
}

impl MemoryFile {
    /// Makes a file with this content.
    ///
    /// # Errors
    /// Error of the system, if it has no memory or no file descriptor left.
    pub(crate) fn new(content: &[u8]) -> io::Result<Self> {
        let mut file = File::from(memfd_create(c"regatta", MFdFlags::MFD_CLOEXEC)?);
        file.write_all(content)?;
        // As the program's `/proc` names this process, which is not its parent's number where it
        // has a namespace of processes of its own.
        let own = fs::read_link("/proc/self")?;
        let path = PathBuf::from("/proc")
            .join(own)
            .join("fd")
            .join(file.as_raw_fd().to_string());
        Ok(Self { path, _file: file })
    }
}

/// Directory for the files that a program leaves of a trial. It is removed if it is left empty.
#[derive(Debug)]
pub(crate) struct TrialFiles {
    directory: Option<PathBuf>,
    warning: Option<Warning>,
}

impl TrialFiles {
    /// Makes the directory of one end of a trial, if it is asked for and the run has one for files.
    ///
    /// # Errors
    /// Error of the system.
    pub(crate) fn new(order: &TrialOrder, is_requested: bool) -> io::Result<Self> {
        let end = order.role.name();
        let directory = order.files.as_ref().filter(|_| is_requested);
        let directory = directory.map(|directory| directory.join(end));
        if let Some(directory) = &directory {
            fs::create_dir_all(directory)?;
        }
        let lacks = is_requested && directory.is_none();
        let options = || vec![KEEP.name.to_owned()];
        let warning = lacks.then(|| warning::no_place_for_files(options(), phrase::side(end)));
        Ok(Self { directory, warning })
    }

    /// Returns the directory, if there is one.
    pub(crate) fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    /// Returns the warning of a run that has no directory for files.
    pub(crate) fn warning(&self) -> Option<Warning> {
        self.warning.clone()
    }
}

impl Drop for TrialFiles {
    fn drop(&mut self) {
        if let Some(directory) = &self.directory {
            // Fails where something was left in it, also by the other end in that above.
            let _ = fs::remove_dir(directory);
            let _ = directory.parent().map(fs::remove_dir);
        }
    }
}

/// Writes the run's certificate and, at the listening end, its key in PEM (RFC 7468). Returns them as the contract has
/// them, and the files.
///
/// # Errors
/// Error of the system.
pub(crate) fn tls_files(tls: &TlsMaterial) -> io::Result<(Tls, Vec<MemoryFile>)> {
    let file = |label, text: &str| MemoryFile::new(pem(label, text).as_bytes());
    let certificate = file("CERTIFICATE", &tls.certificate_der_base64)?;
    let key = tls.key_der_base64.as_deref();
    let key = key.map(|key| file("PRIVATE KEY", key)).transpose()?;
    let tls = Tls {
        certificate_file: certificate.path.clone(),
        key_file: key.as_ref().map(|key| key.path.clone()),
        server_name: tls.server_name.clone(),
    };
    Ok((tls, [certificate].into_iter().chain(key).collect()))
}

/// Wraps base64 as PEM, in lines of 64 characters.
fn pem(label: &str, base64: &str) -> String {
    let characters: Vec<char> = base64
        .chars()
        .filter(|c| !c.is_ascii_whitespace())
        .collect();
    let lines = characters.chunks(64).map(|line| line.iter().chain(&['\n']));
    let body: String = lines.flatten().collect();
    format!("-----BEGIN {label}-----\n{body}-----END {label}-----\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_file_is_readable_until_it_is_dropped() {
        let file = MemoryFile::new(b"content").unwrap();
        let path = file.path.clone();
        assert_eq!(fs::read(&path).unwrap(), b"content");
        drop(file);
        assert!(fs::read(&path).map_or(true, |content| content != b"content"));
    }

    #[test]
    fn pem_has_lines_of_64_characters() {
        let text = pem("X", &"A".repeat(130));
        let lengths: Vec<usize> = text.lines().map(str::len).collect();
        assert_eq!(lengths, [17, 64, 64, 2, 15]);
    }
}
