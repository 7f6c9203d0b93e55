//! Directories of Regatta's files of the user, as the XDG Base Directory Specification has them.

use std::{env, path::PathBuf};

/// Returns the directory of the user's settings; `None` without a home directory.
#[must_use]
pub fn config() -> Option<PathBuf> {
    below("XDG_CONFIG_HOME", ".config")
}

/// Returns the directory of files that can be made again; `None` without a home directory.
#[must_use]
pub fn cache() -> Option<PathBuf> {
    below("XDG_CACHE_HOME", ".cache")
}

fn below(variable: &str, usual: &str) -> Option<PathBuf> {
    let named = env::var_os(variable).map(PathBuf::from);
    let named = named.filter(|path| path.is_absolute());
    let base = named.or_else(|| Some(env::home_dir()?.join(usual)))?;
    Some(base.join("regatta"))
}
