//! Directories on the way to files, each opened once for files that follow one another.

use std::{ffi::CString, io, sync::Arc};

use super::directory_handle::{DirectoryHandle, if_there};
use crate::path::RelativePath;

/// Path of a directory, and the directory; `None` for one that does not exist.
type Known = (Box<[u8]>, Option<Arc<DirectoryHandle>>);

/// Cache of the directory that was opened last below a root.
#[derive(Debug)]
pub(super) struct Parents {
    root: Arc<DirectoryHandle>,
    last: Option<Known>,
}

impl Parents {
    pub(super) fn new(root: &Arc<DirectoryHandle>) -> Self {
        Self {
            root: Arc::clone(root),
            last: None,
        }
    }

    /// Opens the directory that holds the last name of `path`, and returns that name too; `None` for
    /// a directory that does not exist.
    ///
    /// # Errors
    /// The error of opening it: something on the way is not a directory, for example.
    pub(super) fn of(
        &mut self,
        path: &RelativePath,
    ) -> io::Result<Option<(Arc<DirectoryHandle>, CString)>> {
        let (directory, name) = split(path)?;
        let opened = match &self.last {
            _ if directory.is_empty() => Some(Arc::clone(&self.root)),
            Some((last, opened)) if **last == *directory => opened.clone(),
            _ => {
                let opened = if_there(self.root.parent(path, false))?;
                let opened = opened.map(|(opened, _)| Arc::new(opened));
                self.last = Some((directory.into(), opened.clone()));
                opened
            }
        };
        Ok(opened.map(|opened| (opened, name)))
    }

    /// Opens the same directory, which is made if it does not exist.
    ///
    /// # Errors
    /// As [`Parents::of`].
    pub(super) fn made(
        &mut self,
        path: &RelativePath,
    ) -> io::Result<(Arc<DirectoryHandle>, CString)> {
        if let Some(there) = self.of(path)? {
            return Ok(there);
        }
        let (directory, _) = split(path)?;
        let (opened, name) = self.root.parent(path, true)?;
        let opened = Arc::new(opened);
        self.last = Some((directory.into(), Some(Arc::clone(&opened))));
        Ok((opened, name))
    }

    /// Forgets the directory, for a change that another program may have made.
    pub(super) fn forget(&mut self) {
        self.last = None;
    }
}

/// Returns the path's directory, empty for the root, and its last name.
fn split(path: &RelativePath) -> io::Result<(&[u8], CString)> {
    let bytes = path.as_bytes();
    let (directory, name) = match bytes.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (&bytes[..0], bytes),
    };
    let name = CString::new(name).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    Ok((directory, name))
}
