//! Files that a trial leaves on request: secrets of connections, logs of events.

use std::{
    fs::{self, File},
    io,
    path::PathBuf,
};

use regatta_control::TrialOrder;
use regatta_model::{Facts, reason};
use regatta_transport::{FILE_OPTIONS, Result, TransportError, create_replacing};

use crate::{entry::Quiche, options::Options};

/// Key log and event logs of one end, as its options ask for.
pub(crate) struct Files {
    directory: Option<PathBuf>,
    /// `sender` or `receiver`.
    end: &'static str,
    secrets: Option<File>,
    events: bool,
}

impl Files {
    /// Creates the directory and the key log that the options ask for; without a directory for
    /// files none are written.
    ///
    /// # Errors
    /// [`TransportError::Io`] if the directory or the file of secrets cannot be made.
    pub fn new(order: &TrialOrder, options: &Options) -> Result<Self> {
        let end = order.role.name();
        let directory = order
            .files
            .clone()
            .filter(|_| options.common.keylog || options.qlog);
        let mut secrets = None;
        if let Some(directory) = &directory {
            let opened = || -> io::Result<Option<File>> {
                fs::create_dir_all(directory)?;
                let path = directory.join(format!("{end}.keylog"));
                let open = || create_replacing(&path, 0o600);
                options.common.keylog.then(open).transpose()
            };
            let what = reason::cannot_make_files_in(&directory.display().to_string());
            secrets = opened().map_err(TransportError::io(what))?;
        }
        Ok(Self {
            events: options.qlog && directory.is_some(),
            directory,
            end,
            secrets,
        })
    }

    fn events(&self, connection: u64) -> Option<io::Result<File>> {
        let directory = self.directory.as_ref().filter(|_| self.events)?;
        let name = match connection {
            0 => format!("{}.sqlog", self.end),
            before => format!("{}-{}.sqlog", self.end, before + 1),
        };
        Some(create_replacing(&directory.join(name), 0o666))
    }

    /// Makes a new connection write its secrets and events to the files.
    pub fn attach(&self, quiche: &mut Quiche, connection: u64) {
        if let Some(Ok(secrets)) = self.secrets.as_ref().map(File::try_clone) {
            quiche.set_keylog(Box::new(secrets));
        }
        if let Some(Ok(file)) = self.events(connection) {
            let title = format!("quic-quiche, {}, connection {}", self.end, connection + 1);
            quiche.set_qlog(
                Box::new(io::BufWriter::new(file)),
                title,
                "a trial of Regatta".to_owned(),
            );
        }
    }

    /// Returns the facts about the files: their names, or the reason for which they are not
    /// written.
    pub fn facts(&self, options: &Options) -> Facts {
        let fact = |requested: bool, made: bool, name: &str| match (requested, made) {
            (false, _) => None,
            (true, true) => Some(name.to_owned()),
            (true, false) => Some("not written: the run has no directory for files".to_owned()),
        };
        let keys = fact(
            options.common.keylog,
            self.secrets.is_some(),
            &format!("{}.keylog", self.end),
        );
        let events = fact(
            options.qlog,
            self.events,
            &format!("{0}.sqlog, {0}-2.sqlog, … of each connection", self.end),
        );
        FILE_OPTIONS
            .into_iter()
            .zip([keys, events])
            .filter_map(|(name, value)| Some((format!("{name}.{}", self.end), value?)))
            .collect()
    }
}
