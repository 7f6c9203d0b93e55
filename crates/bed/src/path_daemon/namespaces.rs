//! The two hosts as network namespaces.

use std::{
    fs::{self, File},
    io,
    os::fd::AsFd,
    path::Path,
};

use nix::sched::{CloneFlags, setns, unshare};

use super::error::DaemonError;

/// File that holds the network namespace of the calling thread.
const CALLING_THREAD: &str = "/proc/thread-self/ns/net";

/// Makes a user namespace if this process may not make network namespaces without one; returns
/// whether it did. In it this user is root; outside of it nothing changes.
///
/// Only while the process has one thread.
pub(crate) fn enter_user_namespace() -> Result<bool, DaemonError> {
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
    /// Whether it is the namespace in which this process stays, so that nobody has to enter it, which takes
    /// rights.
    is_own: bool,
}

impl Namespace {
    /// Makes a new namespace, enters it and prepares its protocol stack.
    pub(crate) fn create() -> Result<Self, DaemonError> {
        unshare(CloneFlags::CLONE_NEWNET).map_err(|e| DaemonError::NetworkNamespace(e.into()))?;
        let namespace = Self::open(CALLING_THREAD, false)?;
        prepare_stack();
        Ok(namespace)
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
        Ok(Self { file, is_own })
    }

    /// Moves the calling thread into the namespace.
    pub(crate) fn enter(&self) -> Result<(), DaemonError> {
        if self.is_own {
            return Ok(());
        }
        setns(self.file.as_fd(), CloneFlags::CLONE_NEWNET).map_err(|e| DaemonError::Enter(e.into()))
    }

    /// Returns the file that holds the namespace.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }
}

/// Sets `/proc/sys` settings of the namespace that the calling thread is in: no state is carried
/// from one trial to the next, no flow is capped below the path's bandwidth-delay product, and the
/// kernel sends no packets of its own on the path.
///
/// If the kernel lacks a setting, or `/proc/sys` is read-only, the default stays; the trial then
/// says that its flow was limited by its window.
fn prepare_stack() {
    const SWITCHES: &[(&str, &str)] = &[
        // Slow-start thresholds and RTTs of earlier connections do not pass to later ones.
        ("net/ipv4/tcp_no_metrics_save", "1"),
        // Room for 2 × BDP of 1 Gbit/s × 200 ms, and for what the kernel counts beside payload.
        ("net/ipv4/tcp_rmem", "4096 131072 134217728"),
        ("net/ipv4/tcp_wmem", "4096 65536 134217728"),
        // A connection that was given up does not go on retransmitting into the next trial.
        ("net/ipv4/tcp_orphan_retries", "1"),
        ("net/ipv4/tcp_fin_timeout", "5"),
        // What loss leaves of fragmented datagrams is kept for 30 s by default, and fills 4 MiB of
        // room within one trial; from then on no fragmented datagram of the next trial arrives.
        // Less than the 5 s in which 1 Gbit/s of 10 kB datagrams uses up its identifiers (RFC 4963).
        ("net/ipv4/ipfrag_time", "3"),
        ("net/ipv4/ipfrag_high_thresh", "268435456"),
        ("net/ipv4/ipfrag_low_thresh", "201326592"),
        // Router solicitations and the like would travel on the path and take part in its draws.
        ("net/ipv6/conf/default/disable_ipv6", "1"),
    ];
    for (name, value) in SWITCHES {
        // Not an error, as described above.
        let _ = fs::write(Path::new("/proc/sys").join(name), value);
    }
}

fn write(path: &str, text: &str) -> Result<(), DaemonError> {
    fs::write(path, text).map_err(|source: io::Error| DaemonError::Write {
        path: path.into(),
        source,
    })
}
