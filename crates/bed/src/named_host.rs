//! Hosts that users name.

use std::path::Path;

use crate::{
    error::BedError,
    launch::{self, Launcher, Local},
};

/// Name of this machine.
pub const LOCAL_HOST: &str = "local";

/// Returns the launcher of a host by its name. Processes on this machine are started from
/// `executable`, outside of any namespace of a bed.
///
/// # Errors
/// [`BedError::UnknownHost`]; [`BedError::Spawn`] if `executable` cannot be opened.
pub fn launcher_of(name: &str, executable: &Path) -> Result<Box<dyn Launcher>, BedError> {
    if name == LOCAL_HOST {
        return Ok(Box::new(Local::new(launch::open(executable)?)));
    }
    Err(BedError::UnknownHost {
        name: name.to_owned(),
    })
}
