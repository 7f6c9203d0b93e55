//! Directories on the way to files, each looked up once for many files.

use std::{
    collections::{HashMap, HashSet},
    ffi::CString,
    io,
    sync::Arc,
};

use super::directory_handle::{DirectoryHandle, if_there};
use crate::path::RelativePath;

/// Maximum number of directories that are open at once: files do not come directory by directory.
const MAX_OPEN: usize = 64;

/// Cache of directories below a root, by path.
#[derive(Debug)]
pub(super) struct Parents {
    root: Arc<DirectoryHandle>,
    open: HashMap<Box<[u8]>, Arc<DirectoryHandle>>,
    /// Paths of directories that do not exist.
    missing: HashSet<Box<[u8]>>,
}

impl Parents {
    pub(super) fn new(root: &Arc<DirectoryHandle>) -> Self {
        Self {
            root: Arc::clone(root),
            open: HashMap::new(),
            missing: HashSet::new(),
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
        if directory.is_empty() {
            return Ok(Some((Arc::clone(&self.root), name)));
        }
        if let Some(opened) = self.open.get(directory) {
            return Ok(Some((Arc::clone(opened), name)));
        }
        if self.missing.contains(directory) {
            return Ok(None);
        }
        match if_there(self.root.parent(path, false))? {
            Some((opened, name)) => Ok(Some((self.add(directory, opened), name))),
            None => {
                self.missing.insert(directory.into());
                Ok(None)
            }
        }
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
        self.missing.remove(directory);
        Ok((self.add(directory, opened), name))
    }

    fn add(&mut self, directory: &[u8], opened: DirectoryHandle) -> Arc<DirectoryHandle> {
        if self.open.len() == MAX_OPEN {
            self.open.clear();
        }
        let opened = Arc::new(opened);
        self.open.insert(directory.into(), Arc::clone(&opened));
        opened
    }

    /// Forgets all directories, for a change that another program may have made.
    pub(super) fn forget(&mut self) {
        self.open.clear();
        self.missing.clear();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelativePath {
        RelativePath::new(text.as_bytes()).expect("a path")
    }

    #[test]
    fn files_of_several_directories_need_one_look_up_each() {
        let directory = tempfile::tempdir().unwrap();
        let root = Arc::new(DirectoryHandle::open(directory.path()).unwrap());
        let mut parents = Parents::new(&root);
        let (first, _) = parents.made(&path("a/b/1")).unwrap();
        let (other, _) = parents.made(&path("c/2")).unwrap();
        for (of, opened) in [("a/b/3", &first), ("c/4", &other), ("a/b/5", &first)] {
            let (again, _) = parents.of(&path(of)).unwrap().expect("it was made");
            assert!(Arc::ptr_eq(&again, opened), "{of}");
        }
        // Of a missing one, too: it is not looked for again until all are forgotten.
        assert!(parents.of(&path("d/6")).unwrap().is_none());
        assert!(parents.of(&path("e/7")).unwrap().is_none());
        std::fs::create_dir(directory.path().join("d")).unwrap();
        assert!(parents.of(&path("d/8")).unwrap().is_none());
        parents.made(&path("d/8")).unwrap();
        assert!(parents.of(&path("d/8")).unwrap().is_some());
        std::fs::create_dir(directory.path().join("e")).unwrap();
        parents.forget();
        assert!(parents.of(&path("e/9")).unwrap().is_some());
    }

    #[test]
    fn few_directories_are_open_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let root = Arc::new(DirectoryHandle::open(directory.path()).unwrap());
        let mut parents = Parents::new(&root);
        for number in 0..3 * MAX_OPEN {
            parents.made(&path(&format!("{number}/file"))).unwrap();
            assert!(parents.open.len() <= MAX_OPEN);
        }
    }
}
