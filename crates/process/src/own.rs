//! Attributes of the calling process.

use nix::sys::prctl;

/// Makes the kernel kill this process when the thread that started it ends. Entering a user namespace
/// undoes an earlier call.
///
/// # Errors
/// The error of `prctl`; none is known for these arguments.
pub fn die_with_parent() -> nix::Result<()> {
    prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)
}

/// Makes orphans among the descendants of this process its children, so that it can reap them.
///
/// # Errors
/// The error of `prctl`; none is known for these arguments.
pub fn become_subreaper() -> nix::Result<()> {
    prctl::set_child_subreaper(true)
}

/// Sets the name of this process in lists of processes. A process that was started from an open
/// file would have the file's number as its name.
pub fn set_name(name: &std::ffi::CStr) {
    // Fails for no name of a readable address.
    let _ = prctl::set_name(name);
}
