//! Errors of the daemon, with hints.

mod interface;
mod refusal;

use std::{io, net::IpAddr, path::PathBuf};

use regatta_emulation::LinkError;
use regatta_forwarder::ForwarderError;
use regatta_model::{Phrase, Problem, ProblemKind, Text, reason};
use regatta_process::{loads_modules, problem};

pub use self::{interface::InterfaceError, refusal::Refusal};

/// Errors of the path daemon.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each is what its message says")]
pub enum DaemonError {
    #[error("cannot make a user namespace")]
    UserNamespace(#[source] io::Error),
    #[error("cannot make a network namespace")]
    NetworkNamespace(#[source] io::Error),
    #[error("cannot enter a network namespace")]
    Enter(#[source] io::Error),
    #[error("cannot write `{}`", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot read `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot open `/dev/net/tun`")]
    OpenTun(#[source] io::Error),
    #[error("cannot set up the TUN device: {step}")]
    Tun {
        step: &'static str,
        source: io::Error,
    },
    #[error("cannot set up a socket to measure the path: {step}")]
    Socket {
        step: &'static str,
        source: io::Error,
    },
    #[error("a path cannot carry packets of at most {0} bytes; the emulator takes 68 to 65521")]
    Mtu(u32),
    #[error(transparent)]
    Forwarder(#[from] ForwarderError),
    #[error("this kernel lacks `{module}`")]
    NoNetem {
        module: &'static str,
        source: io::Error,
    },
    #[error("cannot make a path in the kernel: cannot {step}")]
    Netem {
        step: &'static str,
        source: io::Error,
    },
    #[error("the {direction} link of condition `{condition}` is not supported by netem")]
    Refused {
        condition: String,
        direction: &'static str,
        source: Refusal,
    },
    #[error("this daemon has one end of the path and cannot measure it alone")]
    OneEnd,
    #[error(
        "the path between these hosts is used as it is, and condition `{condition}` would change it"
    )]
    AsItIs { condition: String },
    #[error("there is no interface `{parent}`")]
    NoParent { parent: String, source: io::Error },
    #[error("cannot make a macvlan")]
    Macvlan(#[source] io::Error),
    #[error("cannot shape the interface `{interface}`")]
    Interface {
        interface: String,
        source: Box<InterfaceError>,
    },
    #[error("a macvlan has an IPv4 address, and {0} is none")]
    NoIpv4(IpAddr),
    #[error("losses by iptables need the program `iptables`")]
    NoIptables,
    #[error("`{command}` failed")]
    Iptables { command: String, source: io::Error },
    #[error(
        "the controller speaks version {theirs} of the daemon's messages, this is version {ours}"
    )]
    Version { theirs: u32, ours: u32 },
    #[error("{}", reason::netem_not_captured())]
    NotCaptured,
    #[error("the request `{line}` comes at the wrong time")]
    Order { line: String },
    #[error("cannot understand the request `{line}`")]
    Request {
        line: String,
        source: serde_json::Error,
    },
}

/// Hint for an address that a host does not have, or that the other one cannot reach.
pub const OTHER_ADDRESS: &str =
    "give both hosts an `address` in the hosts file at which the other one reaches them";

/// Hint for a condition that netem cannot emulate.
pub const USE_OTHER_EMULATOR: &str =
    "leave it to Regatta's own emulator with `emulator = \"userspace\"`, `--emulator userspace`";

/// Hint for a condition that only the kernel's disciplines can emulate.
pub const USE_KERNEL: &str =
    "leave it to the kernel with `emulator = \"netem\"`, `--emulator netem`";

impl DaemonError {
    /// Makes the error of an interface of a host that is not shaped.
    pub(super) fn interface(name: &str, source: InterfaceError) -> Self {
        Self::Interface {
            interface: name.to_owned(),
            source: Box::new(source),
        }
    }

    /// Returns the problem for the controller.
    pub(super) fn problem(&self) -> Problem {
        let problem = problem(ProblemKind::Unsupported, self, self.hint());
        let reasons: Vec<Text> = match self {
            Self::Forwarder(ForwarderError::Capture { path, source }) => vec![
                reason::cannot_write_capture(&path.display().to_string()).into(),
                source.to_string().into(),
            ],
            Self::NotCaptured => vec![reason::netem_not_captured().into()],
            _ => return problem,
        };
        Problem::new(problem.kind, reasons, problem.hint)
    }

    /// Returns a command or setting that helps; empty if none is known.
    #[must_use]
    pub fn hint(&self) -> Text {
        match self {
            Self::UserNamespace(source) if source.raw_os_error() == Some(libc::ENOSPC) => {
                "allow more user namespaces with `sudo sysctl -w user.max_user_namespaces=10000`, or run as root".into()
            }
            Self::UserNamespace(_) => forbidden_user_namespace_hint().into(),
            Self::Write { path, source }
                if path.starts_with("/proc/self")
                    && source.kind() == io::ErrorKind::PermissionDenied =>
            {
                forbidden_user_namespace_hint().into()
            }
            Self::NetworkNamespace(source) => match source.raw_os_error() {
                Some(libc::ENOSPC) => {
                    "allow more network namespaces with `sudo sysctl -w user.max_net_namespaces=10000`".into()
                }
                Some(libc::EINVAL) => "use a kernel with CONFIG_NET_NS".into(),
                _ => forbidden_user_namespace_hint().into(),
            },
            Self::OpenTun(source) => closed_tun_hint(source.raw_os_error(), loads_modules()).into(),
            Self::Mtu(_) => "ask for a packet size between `68B` and `65521B`".into(),
            Self::Forwarder(ForwarderError::Link { source, .. }) => match source {
                LinkError::NoRate => "leave the rate out for an unlimited link".into(),
                LinkError::Ratio { .. } => "write a ratio from `0%` to `100%`".into(),
                LinkError::Discipline(_) => USE_KERNEL.into(),
                LinkError::Trace(_) => "name a trace as `mm-link` takes it".into(),
                LinkError::Delay(_) => "ask for a shorter delay".into(),
            },
            Self::NoNetem { module, .. } => missing_netem_hint(module, loads_modules()).into(),
            Self::Interface { source, .. } => source.hint().into(),
            Self::NoParent { .. } => {
                "name one that `ip link` shows on that host as `parent` in the hosts file".into()
            }
            Self::NoIpv4(_) => "write `address = \"198.18.0.1/24\"` below `[….shaping]` in the hosts file".into(),
            Self::Macvlan(source) if source.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                missing_macvlan_hint(loads_modules()).into()
            }
            Self::Socket { source, .. }
                if matches!(
                    source.raw_os_error(),
                    Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EADDRNOTAVAIL)
                ) =>
            {
                OTHER_ADDRESS.into()
            }
            Self::AsItIs { .. } => {
                "leave delay, loss and rate out, or give both hosts `shaping` in the hosts file".into()
            }
            Self::Refused { .. } => USE_OTHER_EMULATOR.into(),
            Self::Forwarder(ForwarderError::Capture { source, .. })
                if source.kind() == io::ErrorKind::AlreadyExists =>
            {
                reason::other_capture_name().into()
            }
            Self::Forwarder(ForwarderError::Capture { .. }) => reason::other_capture_place().into(),
            Self::NotCaptured => reason::capture_userspace().into(),
            Self::NoIptables => "install it with `sudo apt-get install iptables`".into(),
            Self::Iptables { .. } => {
                let load = if loads_modules() {
                    "load the match with `sudo modprobe xt_statistic`, or "
                } else {
                    ""
                };
                format!("{load}leave `loss_by` out").into()
            }
            _ => Text::default(),
        }
    }
}

/// Returns the hint for a TUN device that cannot be opened, by the number of the system's error. The kernel `loads` modules
/// or not.
fn closed_tun_hint(error: Option<i32>, loads: bool) -> Phrase {
    match error {
        Some(libc::ENOENT) => reason::tun_not_made(),
        Some(libc::ENODEV | libc::ENXIO) if loads => reason::tun_not_loaded(),
        Some(libc::EACCES) => reason::tun_not_open(),
        Some(libc::EPERM) => reason::tun_not_permitted(),
        _ => reason::bed_without_tun(),
    }
}

/// Returns the hint for a kernel without a module of netem, which `loads` modules or not.
fn missing_netem_hint(module: &str, loads: bool) -> Phrase {
    match loads {
        true => reason::load_netem(module),
        false => reason::netem_in_guest(),
    }
}

/// Returns the hint for a host's kernel without macvlan, which `loads` modules or not.
const fn missing_macvlan_hint(loads: bool) -> &'static str {
    match loads {
        true => "load it there with `sudo modprobe macvlan`",
        false => "use `attach = \"interface\"` in the hosts file, which needs none",
    }
}

/// Returns the hint for the switch that forbids user namespaces on this system.
fn forbidden_user_namespace_hint() -> String {
    // Each with the value that forbids them, and the one that allows them.
    let switches = [
        ("kernel.unprivileged_userns_clone", "0", "1"),
        ("user.max_user_namespaces", "0", "10000"),
        ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
    ];
    let is_forbidding = |(name, value, _): &(&str, &str, &str)| {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        std::fs::read_to_string(path).is_ok_and(|text| text.trim() == *value)
    };
    match switches.into_iter().find(is_forbidding) {
        Some((name, _, value)) => format!("allow them with `sudo sysctl -w {name}={value}`, or run as root"),
        None => "run as root (on a host of the hosts file with `become = \"sudo -n\"`); in a container start it with `--cap-add SYS_ADMIN --cap-add NET_ADMIN`".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_tun_device_has_the_hint_of_the_bed_that_needs_none() {
        for error in [libc::ENOENT, libc::ENODEV, libc::EACCES, libc::EPERM] {
            let hint = closed_tun_hint(Some(error), true).to_string();
            let other = "; or run with `--bed uml --clock virtual`, which works without it";
            assert!(hint.ends_with(other), "{error}: {hint}");
        }
    }

    #[test]
    fn modules_are_loaded_only_where_the_kernel_loads_them() {
        let hints = |loads| {
            [
                closed_tun_hint(Some(libc::ENODEV), loads).to_string(),
                missing_netem_hint("sch_netem", loads).to_string(),
                missing_macvlan_hint(loads).to_owned(),
            ]
        };
        for (with, without) in hints(true).into_iter().zip(hints(false)) {
            assert!(with.contains("`sudo modprobe "), "{with}");
            assert!(
                !without.contains("modprobe") && !without.is_empty(),
                "{without}"
            );
        }
    }
}
