//! Opening, making and naming files below an open directory, without following symbolic links.

use std::{
    ffi::{CStr, CString},
    fs::File,
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};

use nix::{
    errno::Errno,
    fcntl::{AtFlags, FallocateFlags, OFlag, RenameFlags, fallocate, openat, renameat2},
    sys::stat::{FileStat, Mode, fstatat, mkdirat},
    unistd::{AccessFlags, UnlinkatFlags, faccessat, linkat, unlinkat},
};

use crate::path::RelativePath;

/// Mode of the directories of a received tree, before the umask.
const DIRECTORY_MODE: Mode = Mode::from_bits_truncate(0o777);

/// Mode of the files of a received tree, before the umask.
const FILE_MODE: Mode = Mode::from_bits_truncate(0o666);

/// An open directory.
#[derive(Debug)]
pub(super) struct DirectoryHandle(File);

/// Makes a system call, and again whenever a signal interrupted it.
fn call<T>(mut system: impl FnMut() -> nix::Result<T>) -> io::Result<T> {
    loop {
        match system() {
            Err(Errno::EINTR) => {}
            result => return Ok(result?),
        }
    }
}

/// Returns `None` in place of the error that something is not there.
pub(super) fn if_there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

fn name(bytes: &[u8]) -> io::Result<CString> {
    CString::new(bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}

impl DirectoryHandle {
    /// Opens a directory by a path of the user's own, which may lead through symbolic links.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut options = File::options();
        options.read(true).custom_flags(libc::O_DIRECTORY);
        options.open(path).map(Self)
    }

    fn openat(&self, name: &CStr, flags: OFlag) -> io::Result<File> {
        let opened = call(|| openat(&self.0, name, flags | OFlag::O_CLOEXEC, FILE_MODE));
        opened.map(File::from)
    }

    /// Takes an exclusive lock on the directory for as long as it is open here.
    pub(super) fn lock(&self) -> io::Result<()> {
        Ok(self.0.try_lock()?)
    }

    /// Opens a directory in this one.
    pub(super) fn enter(&self, name: &CStr) -> io::Result<Self> {
        self.openat(name, OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW)
            .map(Self)
    }

    /// Opens a directory in this one, which is made if it is not there.
    pub(super) fn enter_or_make(&self, name: &CStr) -> io::Result<Self> {
        if let Some(entered) = if_there(self.enter(name))? {
            return Ok(entered);
        }
        match self.make_directory(name) {
            // Another program was quicker.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.enter(name),
            made => made,
        }
    }

    /// Opens the directory that holds the last name of `path`, and returns that name too. With
    /// `make`, missing directories are made.
    pub(super) fn parent(&self, path: &RelativePath, make: bool) -> io::Result<(Self, CString)> {
        let mut names = path.as_bytes().split(|byte| *byte == b'/');
        let last = name(names.next_back().unwrap_or_default())?;
        let mut at = Self(self.0.try_clone()?);
        for directory in names {
            let directory = name(directory)?;
            let entered = match make {
                true => at.enter_or_make(&directory),
                false => at.enter(&directory),
            };
            at = entered.map_err(|error| {
                if error.raw_os_error() != Some(libc::ELOOP) {
                    return error;
                }
                // The error for a symbolic link that must not be followed is hard to read.
                let name = directory.to_string_lossy();
                let link = format!("`{name}` is a symbolic link, which is not followed");
                io::Error::new(error.kind(), link)
            })?;
        }
        Ok((at, last))
    }

    /// Makes a directory that is not there yet, and opens it.
    pub(super) fn make_directory(&self, name: &CStr) -> io::Result<Self> {
        call(|| mkdirat(&self.0, name, DIRECTORY_MODE))?;
        self.enter(name)
    }

    /// Opens a regular file for reading; fails without blocking on anything else (a pipe, for
    /// example).
    pub(super) fn read(&self, name: &CStr) -> io::Result<File> {
        self.read_file(name, OFlag::O_NOFOLLOW)
    }

    /// Checks that a file may be opened for reading.
    pub(super) fn check_readable(&self, name: &CStr) -> io::Result<()> {
        let flags = AtFlags::AT_EACCESS | AtFlags::AT_SYMLINK_NOFOLLOW;
        call(|| faccessat(&self.0, name, AccessFlags::R_OK, flags))
    }

    /// Opens a file for reading by a path that may lead through symbolic links, also elsewhere.
    pub(super) fn read_through_links(&self, path: &RelativePath) -> io::Result<File> {
        self.read_file(&name(path.as_bytes())?, OFlag::empty())
    }

    fn read_file(&self, path: &CStr, flags: OFlag) -> io::Result<File> {
        let file = self.openat(path, flags | OFlag::O_RDONLY | OFlag::O_NONBLOCK)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a file"));
        }
        Ok(file)
    }

    /// Makes a file that is not there yet.
    pub(super) fn make(&self, name: &CStr) -> io::Result<File> {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL;
        self.openat(name, flags | OFlag::O_NOFOLLOW)
    }

    /// Opens an existing file for writing.
    pub(super) fn write(&self, name: &CStr) -> io::Result<File> {
        self.openat(name, OFlag::O_WRONLY | OFlag::O_NOFOLLOW)
    }

    /// Returns whether the entry of this name is a directory, or `None` if there is no entry; a
    /// symbolic link is one.
    pub(super) fn is_directory(&self, name: &CStr) -> io::Result<Option<bool>> {
        let status = call(|| fstatat(&self.0, name, AtFlags::AT_SYMLINK_NOFOLLOW));
        let directory = |status: FileStat| status.st_mode & libc::S_IFMT == libc::S_IFDIR;
        Ok(if_there(status)?.map(directory))
    }

    /// Returns the device of the file system that holds the directory.
    pub(super) fn device(&self) -> io::Result<libc::dev_t> {
        Ok(self.0.metadata()?.dev())
    }

    /// Moves a file from another directory into this one as `name`. An existing entry of that name
    /// is replaced, or is an error.
    pub(super) fn take(
        &self,
        (from, old): (&Self, &CStr),
        name: &CStr,
        replace: bool,
    ) -> io::Result<()> {
        let flags = match replace {
            true => RenameFlags::empty(),
            false => RenameFlags::RENAME_NOREPLACE,
        };
        match call(|| renameat2(&from.0, old, &self.0, name, flags)) {
            // Not every file system can keep from replacing; a second name can always be refused.
            Err(error) if !replace && error.raw_os_error() == Some(libc::EINVAL) => {
                call(|| linkat(&from.0, old, &self.0, name, AtFlags::empty()))?;
                from.remove(old)
            }
            renamed => renamed,
        }
    }

    /// Removes a file.
    pub(super) fn remove(&self, name: &CStr) -> io::Result<()> {
        call(|| unlinkat(&self.0, name, UnlinkatFlags::NoRemoveDir))
    }

    /// Removes an empty directory.
    pub(super) fn remove_directory(&self, name: &CStr) -> io::Result<()> {
        call(|| unlinkat(&self.0, name, UnlinkatFlags::RemoveDir))
    }
}

/// Sets a file's size at once and reserves space for it where the file system can.
pub(super) fn reserve(file: &File, size: u64) -> io::Result<()> {
    if size == 0 {
        return Ok(());
    }
    let length =
        libc::off64_t::try_from(size).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
    match call(|| fallocate(file, FallocateFlags::empty(), 0, length)) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS)) => {
            file.set_len(size)
        }
        reserved => reserved,
    }
}
