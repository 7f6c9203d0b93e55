//! Opening, making and naming files below an open directory, without following symbolic links.

use std::{
    ffi::{CStr, CString},
    fs::File,
    io,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

use crate::path::RelativePath;

/// Mode of the directories of a received tree, before the umask; that of its files is `FILE_MODE`.
const DIRECTORY_MODE: libc::mode_t = 0o777;
const FILE_MODE: libc::c_uint = 0o666;

/// An open directory.
#[derive(Debug)]
pub(super) struct Below(OwnedFd);

/// Makes a system call, and again whenever a signal interrupted it.
fn call(mut system: impl FnMut() -> libc::c_int) -> io::Result<libc::c_int> {
    loop {
        let result = system();
        if result >= 0 {
            return Ok(result);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

fn name(bytes: &[u8]) -> io::Result<CString> {
    CString::new(bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}

impl Below {
    /// Opens a directory by a path of the user's own, which may lead through symbolic links.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let path = name(path.as_os_str().as_bytes())?;
        let flags = libc::O_DIRECTORY | libc::O_CLOEXEC;
        // SAFETY: the path ends with a zero byte and lives through the call.
        let descriptor = call(|| unsafe { libc::open(path.as_ptr(), flags) })?;
        // SAFETY: it was just opened and belongs to nobody else.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }

    fn openat(&self, name: &CStr, flags: libc::c_int) -> io::Result<OwnedFd> {
        let flags = flags | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        let directory = self.0.as_raw_fd();
        // SAFETY: the name ends with a zero byte and lives through the call.
        let descriptor =
            call(|| unsafe { libc::openat(directory, name.as_ptr(), flags, FILE_MODE) });
        // SAFETY: it was just opened and belongs to nobody else.
        Ok(unsafe { OwnedFd::from_raw_fd(descriptor?) })
    }

    /// Takes an exclusive lock on the directory for as long as it is open here.
    pub(super) fn lock(&self) -> io::Result<()> {
        // SAFETY: no memory is passed.
        call(|| unsafe { libc::flock(self.0.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) })?;
        Ok(())
    }

    /// Opens a directory in this one.
    pub(super) fn enter(&self, name: &CStr) -> io::Result<Self> {
        self.openat(name, libc::O_DIRECTORY).map(Self)
    }

    /// Opens the directory that holds the last name of `path`, and returns that name too. With
    /// `make`, missing directories are made.
    pub(super) fn parent(&self, path: &RelativePath, make: bool) -> io::Result<(Self, CString)> {
        let mut names = path.as_bytes().split(|byte| *byte == b'/');
        let last = name(names.next_back().unwrap_or_default())?;
        let mut at = Self(self.0.try_clone()?);
        for directory in names {
            let directory = name(directory)?;
            at = match at.enter(&directory) {
                Err(error) if make && error.kind() == io::ErrorKind::NotFound => {
                    match at.make_directory(&directory) {
                        // Another program was quicker.
                        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                            at.enter(&directory)?
                        }
                        made => made?,
                    }
                }
                // What a symbolic link says when it must not be followed is hard to read.
                Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
                    return Err(io::Error::new(
                        error.kind(),
                        format!(
                            "`{}` is a symbolic link, which is not followed",
                            directory.to_string_lossy()
                        ),
                    ));
                }
                entered => entered?,
            };
        }
        Ok((at, last))
    }

    /// Makes a directory that is not there yet, and opens it.
    pub(super) fn make_directory(&self, name: &CStr) -> io::Result<Self> {
        let directory = self.0.as_raw_fd();
        // SAFETY: the name ends with a zero byte and lives through the call.
        call(|| unsafe { libc::mkdirat(directory, name.as_ptr(), DIRECTORY_MODE) })?;
        self.enter(name)
    }

    /// Opens a regular file for reading; fails without blocking on anything else (a pipe, for
    /// example).
    pub(super) fn read(&self, name: &CStr) -> io::Result<File> {
        let file = File::from(self.openat(name, libc::O_RDONLY | libc::O_NONBLOCK)?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a file"));
        }
        Ok(file)
    }

    /// Opens a file for reading by a path that may lead through symbolic links, also elsewhere.
    pub(super) fn read_through_links(&self, path: &RelativePath) -> io::Result<File> {
        let path = name(path.as_bytes())?;
        let flags = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_CLOEXEC;
        let directory = self.0.as_raw_fd();
        // SAFETY: the path ends with a zero byte and lives through the call.
        let descriptor = call(|| unsafe { libc::openat(directory, path.as_ptr(), flags) })?;
        // SAFETY: it was just opened and belongs to nobody else.
        let file = File::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a file"));
        }
        Ok(file)
    }

    /// Makes a file that is not there yet.
    pub(super) fn make(&self, name: &CStr) -> io::Result<File> {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
        self.openat(name, flags).map(File::from)
    }

    /// Opens an existing file for writing.
    pub(super) fn write(&self, name: &CStr) -> io::Result<File> {
        self.openat(name, libc::O_WRONLY).map(File::from)
    }

    /// Whether an entry of this name exists; a symbolic link counts.
    pub(super) fn has(&self, name: &CStr) -> io::Result<bool> {
        match self.status(name, libc::AT_SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether a directory of this name exists.
    pub(super) fn has_directory(&self, name: &CStr) -> io::Result<bool> {
        match self.status(name, libc::AT_SYMLINK_NOFOLLOW) {
            Ok(status) => Ok(status.st_mode & libc::S_IFMT == libc::S_IFDIR),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the device of the file system that holds the directory.
    pub(super) fn device(&self) -> io::Result<libc::dev_t> {
        self.status(c"", libc::AT_EMPTY_PATH)
            .map(|status| status.st_dev)
    }

    fn status(&self, name: &CStr, flags: libc::c_int) -> io::Result<libc::stat> {
        let directory = self.0.as_raw_fd();
        let mut status = std::mem::MaybeUninit::<libc::stat>::uninit();
        // SAFETY: the name ends with a zero byte; the place for the status is valid for writes.
        call(|| unsafe { libc::fstatat(directory, name.as_ptr(), status.as_mut_ptr(), flags) })?;
        // SAFETY: the call succeeded, so it has been written.
        Ok(unsafe { status.assume_init() })
    }

    /// Moves a file from another directory into this one as `name`. An existing entry of that name
    /// is replaced, or is an error.
    pub(super) fn take(
        &self,
        (from, old): (&Self, &CStr),
        name: &CStr,
        replace: bool,
    ) -> io::Result<()> {
        let (source, target) = (from.0.as_raw_fd(), self.0.as_raw_fd());
        let (old_name, new_name) = (old.as_ptr(), name.as_ptr());
        let flags = if replace { 0 } else { libc::RENAME_NOREPLACE };
        // SAFETY: both names end with a zero byte and live through the call.
        let renamed =
            call(|| unsafe { libc::renameat2(source, old_name, target, new_name, flags) });
        match renamed {
            // Not every file system can keep from replacing; a second name can always be refused.
            Err(error) if !replace && error.raw_os_error() == Some(libc::EINVAL) => {
                // SAFETY: as above.
                call(|| unsafe { libc::linkat(source, old_name, target, new_name, 0) })?;
                from.remove(old)
            }
            renamed => renamed.map(|_| ()),
        }
    }

    /// Removes a file.
    pub(super) fn remove(&self, name: &CStr) -> io::Result<()> {
        self.unlink(name, 0)
    }

    /// Removes an empty directory.
    pub(super) fn remove_directory(&self, name: &CStr) -> io::Result<()> {
        self.unlink(name, libc::AT_REMOVEDIR)
    }

    fn unlink(&self, name: &CStr, flags: libc::c_int) -> io::Result<()> {
        let directory = self.0.as_raw_fd();
        // SAFETY: the name ends with a zero byte and lives through the call.
        call(|| unsafe { libc::unlinkat(directory, name.as_ptr(), flags) }).map(|_| ())
    }
}

/// Sets a file's size at once and reserves space for it where the file system can.
pub(super) fn reserve(file: &File, size: u64) -> io::Result<()> {
    if size == 0 {
        return Ok(());
    }
    let length =
        libc::off64_t::try_from(size).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
    // SAFETY: no memory is passed.
    match call(|| unsafe { libc::fallocate64(file.as_raw_fd(), 0, 0, length) }) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS)) => {
            file.set_len(size)
        }
        reserved => reserved.map(|_| ()),
    }
}
