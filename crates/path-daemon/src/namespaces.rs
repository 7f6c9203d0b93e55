//! The two hosts as network namespaces.

use std::{
    fs::{self, File},
    io,
    os::fd::AsFd,
    path::{Path, PathBuf},
    thread,
};

use nix::sched::{CloneFlags, setns, unshare};
use regatta_forwarder::ForwarderError;
use regatta_model::HostTuning;

use super::error::DaemonError;

/// File that holds the network namespace of the calling thread.
const CALLING_THREAD: &str = "/proc/thread-self/ns/net";

/// Enters a new user namespace if this process may not create network namespaces without one; returns whether it did.
/// Inside of it this user is root; outside nothing changes. Must be called while the process has a single thread.
///
/// # Errors
/// [`DaemonError`] if the kernel refuses the namespace or its user mapping.
pub fn enter_user_namespace() -> Result<bool, DaemonError> {
    // A trial run in the place where it counts: being root is neither needed (capabilities) nor
    // enough (containers).
    if nix::unistd::geteuid().is_root() && unshare(CloneFlags::CLONE_NEWNET).is_ok() {
        return Ok(false);
    }
    let uid = nix::unistd::geteuid();
    let gid = nix::unistd::getegid();
    unshare(CloneFlags::CLONE_NEWUSER).map_err(|e| DaemonError::UserNamespace(e.into()))?;
    // A user may map a group of its own only after giving up `setgroups`.
    write("/proc/self/setgroups", "deny")?;
    write("/proc/self/uid_map", &format!("0 {uid} 1"))?;
    write("/proc/self/gid_map", &format!("0 {gid} 1"))?;
    Ok(true)
}

/// A network namespace.
#[derive(Debug)]
pub(crate) struct Namespace {
    file: File,
    /// Whether this is the namespace of this process itself. It need not be entered, which would take privileges.
    is_own: bool,
    /// Whether Regatta has created the namespace, and may set its sysctls.
    is_made: bool,
}

impl Namespace {
    /// Makes a new namespace, enters it and prepares its protocol stack.
    pub(crate) fn create() -> Result<Self, DaemonError> {
        unshare(CloneFlags::CLONE_NEWNET).map_err(|e| DaemonError::NetworkNamespace(e.into()))?;
        let namespace = Self::open(CALLING_THREAD, false)?;
        prepare_stack();
        Ok(Self {
            is_made: true,
            ..namespace
        })
    }

    /// Opens the network namespace of this process, which stays in it.
    pub(crate) fn own() -> Result<Self, DaemonError> {
        Self::open(CALLING_THREAD, true)
    }

    /// Opens the network namespace of the system's first process.
    pub(crate) fn first() -> Result<Self, DaemonError> {
        Self::open("/proc/1/ns/net", false)
    }

    fn open(path: &str, is_own: bool) -> Result<Self, DaemonError> {
        let file = File::open(path).map_err(|source| DaemonError::Read {
            path: path.into(),
            source,
        })?;
        Ok(Self {
            file,
            is_own,
            is_made: false,
        })
    }

    /// Moves the calling thread into the namespace.
    pub(crate) fn enter(&self) -> Result<(), DaemonError> {
        if self.is_own {
            return Ok(());
        }
        setns(self.file.as_fd(), CloneFlags::CLONE_NEWNET).map_err(|e| DaemonError::Enter(e.into()))
    }

    /// Sets the sysctls of a tuning, if Regatta has made the namespace: those of a machine are left as they are.
    pub(crate) fn tune(&self, tuning: &HostTuning) -> Result<(), DaemonError> {
        if !self.is_made {
            return Ok(());
        }
        let set = || {
            self.enter()?;
            for (name, value) in tuning.sysctls() {
                let file = sysctl_file(name);
                // A kernel that lacks one has nothing to set.
                if file.exists() {
                    write(&file.to_string_lossy(), &value)?;
                }
            }
            Ok(())
        };
        // The namespace is of the thread that enters it.
        thread::scope(|scope| {
            let thread = thread::Builder::new().spawn_scoped(scope, set);
            let set = thread.map_err(ForwarderError::Thread)?.join();
            set.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Returns the file that holds the namespace.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }
}

/// Sets the bench's sysctls ([`HOST_SETTINGS`](regatta_model::HOST_SETTINGS)) in the namespace that the calling thread is
/// in.
///
/// If the kernel lacks one, or `/proc/sys` is read-only, the default stays; the trial then says that its flow was limited
/// by its window.
fn prepare_stack() {
    for (name, value) in HostTuning::default().sysctls() {
        // Not an error, as described above.
        let _ = fs::write(sysctl_file(name), value);
    }
}

/// Returns the file of a sysctl.
fn sysctl_file(name: &str) -> PathBuf {
    Path::new("/proc/sys").join(name.replace('.', "/"))
}

fn write(path: &str, text: &str) -> Result<(), DaemonError> {
    fs::write(path, text).map_err(|source: io::Error| DaemonError::Write {
        path: path.into(),
        source,
    })
}
