//! Reasons for which an interface of a host is not shaped.

use std::{io, net::IpAddr};

use regatta_process::loads_modules;

/// Errors of shaping an interface, which is then as it was.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each is what its message says")]
pub enum InterfaceError {
    #[error("there is no interface `{interface}`")]
    NotThere {
        interface: String,
        source: io::Error,
    },
    #[error("`{interface}` is down")]
    Down { interface: String },
    #[error("packets to {peer} do not leave by `{interface}`")]
    WrongRoute { interface: String, peer: IpAddr },
    #[error("another run shapes `{interface}`")]
    Busy { interface: String },
    #[error("a run has left `{interface}` shaped and no record of its queueing discipline")]
    StaleShaping { interface: String },
    #[error(
        "the queueing discipline `{kind}` of `{interface}` could not be restored exactly: {reason}"
    )]
    NotExact {
        interface: String,
        kind: String,
        reason: String,
    },
    #[error("its packets have at most {has} bytes, and the condition asks for {requested}")]
    Mtu { has: u32, requested: u32 },
    #[error("losses by iptables would be those of all traffic of the host")]
    Iptables,
    #[error("this kernel lacks `{module}`")]
    Missing {
        module: &'static str,
        source: io::Error,
    },
    #[error("cannot {step}")]
    System {
        step: &'static str,
        source: io::Error,
    },
}

impl InterfaceError {
    /// Makes the error of a step that the kernel refused.
    pub(crate) fn system(step: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::System { step, source }
    }

    /// Makes the error of a kernel without a module, which returns `ENOENT` or `EOPNOTSUPP`, or of a step that it refused
    /// for another reason.
    pub(crate) fn missing(module: &'static str, step: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| match source.raw_os_error() {
            Some(libc::ENOENT | libc::EOPNOTSUPP) => Self::Missing { module, source },
            _ => Self::System { step, source },
        }
    }

    /// Returns a command or setting that helps; empty if none is known.
    pub(crate) fn hint(&self) -> String {
        match self {
            Self::NotThere { .. } => {
                "name one that `ip link` shows on that host as `parent` in the hosts file".into()
            }
            Self::Down { interface } => {
                format!("set it up there with `sudo ip link set {interface} up`")
            }
            Self::WrongRoute { peer, .. } => format!(
                "name the interface that `ip route get {peer}` shows there as `parent` in the hosts file"
            ),
            Self::Busy { .. } => "wait for its end, or use another interface".into(),
            Self::StaleShaping { interface } => {
                format!(
                    "take its disciplines away there with `sudo tc qdisc del dev {interface} root`"
                )
            }
            Self::NotExact { .. } => {
                "use `attach = \"macvlan\"` in the hosts file, which does not touch the interface"
                    .into()
            }
            Self::Mtu { has, .. } => {
                format!("write `mtu = \"{has}B\"` into the study, or use `attach = \"macvlan\"`")
            }
            Self::Iptables => "leave `loss_by` out, or use `attach = \"macvlan\"`".into(),
            Self::Missing { module, .. } => match loads_modules() {
                true => format!("load it there with `sudo modprobe {module}`"),
                false => "use a host whose kernel has it: this one loads no modules".into(),
            },
            Self::System { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                "run as root there: `become = \"sudo -n\"` in the hosts file".into()
            }
            Self::System { .. } => String::new(),
        }
    }
}
