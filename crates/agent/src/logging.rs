//! Log lines to standard error, at the level of `REGATTA_LOG` (`error`, `warn`, `info`, `debug`,
//! `trace`, `off`; `warn` if absent). Standard output belongs to the protocol.

use std::io::Write;

use log::{LevelFilter, Log, Metadata, Record};

struct StandardError;

impl Log for StandardError {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let line = format!(
                "{}: {}: {}\n",
                record.level().as_str().to_ascii_lowercase(),
                record.target(),
                record.args()
            );
            // Without standard error there is no log.
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
    }

    fn flush(&self) {}
}

/// Installs the logger, unless the process has one.
pub(crate) fn install() {
    let value = std::env::var("REGATTA_LOG").unwrap_or_default();
    let level = match value.trim() {
        "" => LevelFilter::Warn,
        text => text.parse().unwrap_or(LevelFilter::Warn),
    };
    if log::set_logger(&StandardError).is_ok() {
        log::set_max_level(level);
        if !value.trim().is_empty() && value.trim().parse::<LevelFilter>().is_err() {
            log::warn!("`{value}` in `REGATTA_LOG` is not a level; `warn` is used");
        }
    }
}
