//! The hosts file and its place.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use regatta_model::{
    directories,
    shell::quoted,
    study::{LOCAL, RemoteHost},
};

use regatta_process::open_regular;
use regatta_results::replace_private;

use crate::{
    exit::{Failure, OrFailure as _, Result, did_you_mean},
    text_file::{self, TextFileError},
};

/// Hosts file as it was read.
#[derive(Debug)]
pub struct HostsFile {
    /// Place of the file, which need not exist.
    pub path: PathBuf,
    text: String,
    /// Hosts by name.
    pub hosts: BTreeMap<String, RemoteHost>,
}

impl HostsFile {
    /// Reads the hosts file, or the one that the user names. One that does not exist has no hosts.
    ///
    /// # Errors
    /// A file that cannot be read; the first mistake in it.
    pub fn read_or_new(named: Option<&Path>) -> Result<Self> {
        let path = match named {
            Some(path) => path.to_owned(),
            None => config_directory()?.join("hosts.toml"),
        };
        let text = match text_file::read(&path) {
            Err(TextFileError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                String::new()
            }
            error => error.bad().cannot("read the hosts file", &path)?,
        };
        let hosts = RemoteHost::parse_all(&text, &path.to_string_lossy()).bad()?;
        Ok(Self { path, text, hosts })
    }

    /// Returns the host of this name. This machine need not be in the file.
    ///
    /// # Errors
    /// If there is none.
    pub fn host(&self, name: &str) -> Result<RemoteHost> {
        match self.hosts.get(name) {
            Some(host) => Ok(host.clone()),
            None if name == LOCAL => Ok(RemoteHost::default()),
            None => {
                let names: Vec<&str> = self.hosts.keys().map(String::as_str).collect();
                let near = did_you_mean(name, &names);
                Err(Failure::input(
                    format!("`{}` has no host `{name}`", self.path.display()),
                    format!("{near}`regatta hosts add {name} user@address` adds it"),
                ))
            }
        }
    }

    /// Writes the table of a host; one that is there and the same but for its key and address is replaced.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn put(&mut self, name: &str, host: &RemoteHost) -> Result<()> {
        if self.hosts.get(name) == Some(host) {
            return Ok(());
        }
        let _lock = self.lock_and_read()?;
        let mut text = RemoteHost::without(&self.text, name);
        if !text.is_empty() {
            text = format!("{}\n\n", text.trim_end());
        }
        text.push_str(&host.table(name));
        self.write(text)
    }

    /// Removes the tables of a host.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn remove(&mut self, name: &str) -> Result<()> {
        let _lock = self.lock_and_read()?;
        self.write(RemoteHost::without(&self.text, name))
    }

    /// Reads the file again as other commands have left it, and keeps them from changing it until the lock is dropped.
    fn lock_and_read(&mut self) -> Result<File> {
        let directory = self.path.parent().unwrap_or(Path::new("."));
        let locked = fs::create_dir_all(directory).and_then(|()| {
            let mut options = File::options();
            let options = options.write(true).create(true).truncate(false);
            let lock = open_regular(&self.path.with_extension("lock"), options)?;
            lock.lock().map(|()| lock)
        });
        let lock = locked.context(cannot_write(&self.path))?;
        *self = Self::read_or_new(Some(&self.path))?;
        Ok(lock)
    }

    fn write(&mut self, text: String) -> Result<()> {
        // Never a file that the next command could not read.
        self.hosts = RemoteHost::parse_all(&text, &self.path.to_string_lossy())
            .bad()
            .hint(format!("change `{}` by hand", self.path.display()))?;
        write_private(&self.path, &text)?;
        self.text = text;
        Ok(())
    }
}

/// Returns the directory of the user's settings of Regatta.
///
/// # Errors
/// If there is no home directory.
pub fn config_directory() -> Result<PathBuf> {
    directories::config().ok_or_else(|| no_home("XDG_CONFIG_HOME"))
}

/// Returns the directory of files that can be made again.
///
/// # Errors
/// If there is no home directory.
pub fn cache_directory() -> Result<PathBuf> {
    directories::cache().ok_or_else(|| no_home("XDG_CACHE_HOME"))
}

fn no_home(variable: &str) -> Failure {
    let hint = format!("set `HOME` or `{variable}`");
    Failure::input("there is no home directory", hint)
}

/// Writes a file of the user's alone, whole or not at all.
fn write_private(path: &Path, text: &str) -> Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let written = fs::create_dir_all(directory).and_then(|()| {
        // The user's file may be kept elsewhere, with a link to it here.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        replace_private(&target, text.as_bytes())
    });
    written.context(cannot_write(path))
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write the hosts file {}", quoted(path))
}
