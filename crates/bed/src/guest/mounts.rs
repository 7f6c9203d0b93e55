//! Files that a guest sees: the host's, read-only, and one writable directory in memory.
//!
//! All of this happens in a mount namespace of the daemon's own, which goes with its last process.

use std::{
    ffi::CString,
    fs::{self, File},
    io,
    os::{fd::AsRawFd, unix::ffi::OsStrExt, unix::fs::MetadataExt},
    path::Path,
};

use nix::{
    errno::Errno,
    mount::{MsFlags, mount},
};

use super::{
    guest_side::{FILES, MESSAGES, exchange},
    order::Order,
};

/// Writable directory of the guest, in memory. The host's files there are of no use to a guest, and
/// every host has the directory.
const ROOM: &str = "/run";

/// Running program, under a name that stays the same whatever happens to its file.
pub(super) const PROGRAM: &str = "/run/regatta/program";

/// Directory in which the kernel keeps the guest's memory and its own sockets.
pub(super) const KERNEL_DIRECTORY: &str = "/run/regatta/kernel";

/// Memory for everything but the guest's own, in MiB.
const EXTRA_MIB: u32 = 256;

/// Failed step, with its cause.
#[derive(Debug, thiserror::Error)]
#[error("cannot make the guest's files: {step}")]
pub(super) struct MountError {
    pub step: &'static str,
    pub source: io::Error,
}

trait Step<T> {
    fn step(self, step: &'static str) -> Result<T, MountError>;
}

impl<T, E: Into<io::Error>> Step<T> for Result<T, E> {
    fn step(self, step: &'static str) -> Result<T, MountError> {
        self.map_err(|source| MountError {
            step,
            source: source.into(),
        })
    }
}

/// Mounts the tree that a guest is to see. The calling process must have a mount namespace of its
/// own.
pub(super) fn make(order: &Order) -> Result<(), MountError> {
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount_text(None, "/", None, private, None).step("parting the mounts from the host's")?;
    read_only(Path::new("/"), true, true).step("making the host's files read-only")?;

    // Looked up now, before the room hides whatever has the same place.
    let program = fs::read_link("/proc/self/exe").step("finding this program's file")?;
    let opened = File::open(&program).step("opening this program's file")?;
    same_file(&opened).step("finding this program's file as it was started")?;
    let files = order
        .files
        .as_deref()
        .map(File::open)
        .transpose()
        .step("opening the directory for files")?;

    let mib = order.memory_mib.saturating_add(EXTRA_MIB);
    let size = format!("size={mib}m,mode=0755");
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount_text(Some("regatta"), ROOM, Some("tmpfs"), flags, Some(&size))
        .step("mounting memory on /run")?;
    for directory in [KERNEL_DIRECTORY, "/run/netns", "/run/lock", "/run/tmp"] {
        fs::create_dir_all(directory).step("making directories in /run")?;
    }
    fs::create_dir_all(exchange(MESSAGES)).step("making directories in /run")?;
    File::create(PROGRAM).step("making a place for the program")?;
    bind(&opened, PROGRAM).step("binding the program")?;
    if let Some(files) = files {
        fs::create_dir_all(FILES).step("making a place for files")?;
        bind(&files, FILES).step("binding the directory for files")?;
        read_only(Path::new(FILES), false, false).step("opening the directory for files")?;
    }
    fs::write(exchange("payload"), &order.payload).step("writing the guest's payload")?;
    let line = serde_json::to_vec(order).step("writing the guest's order")?;
    fs::write(exchange("order"), line).step("writing the guest's order")
}

/// Checks that `opened` is the file of the running program: its name can have come to mean another
/// file.
fn same_file(opened: &File) -> io::Result<()> {
    let found = opened.metadata()?;
    let running = fs::metadata("/proc/self/exe")?;
    match (found.dev(), found.ino()) == (running.dev(), running.ino()) {
        true => Ok(()),
        false => Err(io::Error::other("it was replaced since")),
    }
}

/// Bind-mounts an open file or directory at `target`.
fn bind(file: &File, target: &str) -> io::Result<()> {
    let source = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(mount_text(
        Some(&source),
        target,
        None,
        MsFlags::MS_BIND,
        None,
    )?)
}

/// Mounts `source` at `target`; all arguments of the system call are texts.
pub(super) fn mount_text(
    source: Option<&str>,
    target: &str,
    kind: Option<&str>,
    flags: MsFlags,
    data: Option<&str>,
) -> nix::Result<()> {
    mount(source, target, kind, flags, data)
}

/// Sets or clears the read-only flag of a mount; with `below` also of all mounts below it.
fn read_only(target: &Path, on: bool, below: bool) -> io::Result<()> {
    let flag = libc::MOUNT_ATTR_RDONLY;
    let attributes = libc::mount_attr {
        attr_set: if on { flag } else { 0 },
        attr_clr: if on { 0 } else { flag },
        propagation: 0,
        userns_fd: 0,
    };
    let target = CString::new(target.as_os_str().as_bytes())?;
    let recursive = if below { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is a C string and the attributes a valid structure of the size stated.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            target.as_ptr(),
            recursive,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    Ok(Errno::result(done).map(drop)?)
}
