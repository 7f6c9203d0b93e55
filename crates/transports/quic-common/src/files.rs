//! Files that a trial may leave: the secrets of its connections, the events of each.

use std::{
    fs,
    io::{BufWriter, Write},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use regatta_control::TrialOrder;
use regatta_model::{Facts, Warning, phrase, reason, warning};
use regatta_transport::{FILE_OPTIONS, Result, TransportError, create_replacing};
use regatta_transport_tls as tls;
use rustls::{KeyLog, NoKeyLog};

/// Output file of one connection's events (qlog, as a sequence of JSON texts, RFC 7464).
pub struct EventLog {
    /// Buffered writer of the file.
    pub writer: Box<dyn Write + Send + Sync>,
    /// Title of the log.
    pub title: String,
}

/// Key log and event logs of one end of a trial: the options that ask for them, and the directory
/// they are written to.
#[derive(Debug)]
pub struct Files {
    /// Names of the options that request files.
    requested: Vec<&'static str>,
    directory: Option<PathBuf>,
    end: &'static str,
    title: String,
    logs: AtomicU32,
}

impl Files {
    /// Creates the files of one end of a trial whose options ask for a key log, for event logs, or
    /// for neither.
    #[must_use]
    pub fn new(order: &TrialOrder, key_log: bool, event_log: bool) -> Self {
        Self {
            requested: FILE_OPTIONS
                .into_iter()
                .zip([key_log, event_log])
                .filter_map(|(option, requested)| requested.then_some(option))
                .collect(),
            directory: order.files.clone(),
            end: order.role.name(),
            title: format!(
                "{}, trial {}, {}",
                order.transport.label,
                // As people count them, and as the directory is named.
                order.trial + 1,
                order.role.name()
            ),
            logs: AtomicU32::new(0),
        }
    }

    fn has(&self, option: &str) -> Option<&PathBuf> {
        self.directory
            .as_ref()
            .filter(|_| self.requested.contains(&option))
    }

    /// Returns the directory for the file that `option` requests, and creates it if need be.
    fn directory_for(&self, option: &str) -> Result<Option<&PathBuf>> {
        let Some(directory) = self.has(option) else {
            return Ok(None);
        };
        fs::create_dir_all(directory).map_err(TransportError::io(
            reason::cannot_make_directory(&directory.display().to_string()),
        ))?;
        Ok(Some(directory))
    }

    fn key_log_name(&self) -> String {
        format!("{}.keylog", self.end)
    }

    /// Creates the key log of a configuration of TLS, which writes nothing unless it was requested and the trial has a
    /// directory for files.
    ///
    /// # Errors
    /// [`TransportError::Io`] when the file cannot be created.
    pub fn key_log(&self) -> Result<Arc<dyn KeyLog>> {
        let Some(directory) = self.directory_for("keylog")? else {
            return Ok(Arc::new(NoKeyLog));
        };
        let path = directory.join(self.key_log_name());
        tls::key_log(&path).map_err(TransportError::io(reason::cannot_make_key_log(
            &path.display().to_string(),
        )))
    }

    /// Creates the file for the next connection's events, if it was requested and the trial has a
    /// directory for files: the first is `sender.sqlog`, the second `sender-2.sqlog`.
    ///
    /// # Errors
    /// [`TransportError::Io`] when it cannot be made.
    pub fn next_event_log(&self) -> Result<Option<EventLog>> {
        let Some(directory) = self.directory_for("qlog")? else {
            return Ok(None);
        };
        let name = match self.logs.fetch_add(1, Ordering::Relaxed) {
            0 => format!("{}.sqlog", self.end),
            before => format!("{}-{}.sqlog", self.end, before + 1),
        };
        let path = directory.join(name);
        let file = create_replacing(&path, 0o666).map_err(TransportError::io(
            reason::cannot_make_event_log(&path.display().to_string()),
        ))?;
        Ok(Some(EventLog {
            writer: Box::new(BufWriter::new(file)),
            title: self.title.clone(),
        }))
    }

    /// Returns the names of the files, keyed by the full name of the fact.
    #[must_use]
    pub fn facts(&self) -> Facts {
        let end = self.end;
        let mut facts = Facts::default();
        if self.has("keylog").is_some() {
            facts.insert(format!("keylog.{end}"), self.key_log_name());
        }
        if self.has("qlog").is_some() {
            let names = match self.logs.load(Ordering::Relaxed) {
                0 | 1 => format!("{end}.sqlog"),
                logs => format!("{end}.sqlog to {end}-{logs}.sqlog"),
            };
            facts.insert(format!("qlog.{end}"), names);
        }
        facts
    }

    /// Returns a warning if files were requested, but the trial has no directory for them.
    #[must_use]
    pub fn warning(&self) -> Option<Warning> {
        if self.directory.is_some() || self.requested.is_empty() {
            return None;
        }
        let options = self.requested.iter().map(ToString::to_string);
        let side = phrase::side(self.end);
        Some(warning::no_place_for_files(options.collect(), side))
    }
}
