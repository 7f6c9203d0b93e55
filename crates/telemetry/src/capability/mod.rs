//! Capabilities of this machine that Regatta needs, each with a hint where it is missing.
//!
//! All are tried, not guessed from names: namespaces and devices in a child process that ends at
//! once, sockets by opening them. No trace is left, except that the kernel may load a module
//! that was needed (`sch_netem`), as `tc` would have it do.

mod child;
mod sockets;

pub use child::has_congestion_control;

use regatta_process::loads_modules;

use crate::{
    clock::Synchronisation,
    facts::{governor, sysctl},
    host_cpu::cores,
};

/// One thing that the machine can or cannot do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capability {
    /// Stable name: `user_namespaces`, `tun`, `congestion_control.bbr`, ….
    pub name: &'static str,
    /// Whether the capability is there.
    pub available: bool,
    /// Description of the attempt and its result.
    pub detail: String,
    /// Command or setting that provides the capability; empty where it is there, or where nothing
    /// helps.
    pub hint: String,
}

impl Capability {
    fn new(name: &'static str, available: bool, detail: impl Into<String>, hint: &str) -> Self {
        Self {
            name,
            available,
            detail: detail.into(),
            hint: if available { "" } else { hint }.to_owned(),
        }
    }

    /// Creates the result of an attempt, which `tried` describes.
    fn tried(
        name: &'static str,
        tried: &str,
        result: std::io::Result<()>,
        hint: impl AsRef<str>,
    ) -> Self {
        match result {
            Ok(()) => Self::new(name, true, tried, ""),
            Err(error) => Self::new(name, false, format!("{tried}: {error}"), hint.as_ref()),
        }
    }
}

/// Names of the congestion controls that this kernel has ready; it may load others. None where that
/// cannot be read.
#[must_use]
pub fn congestion_controls() -> Vec<String> {
    let names = sysctl("net.ipv4.tcp_available_congestion_control").unwrap_or_default();
    let mut names: Vec<String> = names.split_whitespace().map(str::to_owned).collect();
    names.sort();
    names
}

/// Tries everything. Takes a few milliseconds; never fails as a whole.
#[must_use]
pub fn capabilities() -> Vec<Capability> {
    let mut all = child::capabilities();
    all.extend(sockets::capabilities());
    let of_machine = [socket_buffers, core_count, cpu_governor, clock_synchronised];
    all.extend(of_machine.map(|capability| capability()));
    all
}

/// Returns the hint for something that the kernel has as a module: the command that loads `module`,
/// or, where the kernel loads none, the `setting` it must be built with. The kernels of guests have
/// all of them.
fn module_hint(module: &str, setting: &str) -> String {
    if loads_modules() {
        format!("modprobe {module}; or run with `--bed uml`, whose kernel has it")
    } else {
        format!(
            "run with `--bed uml`, whose kernel has it; or boot a kernel built with {setting}=y: \
             this one loads no modules"
        )
    }
}

/// Twice the bandwidth-delay product of 1 Gbit/s × 30 ms, in bytes: what a socket's buffer must be
/// able to hold for one flow to fill such a path through a loss.
const TWICE_BDP_BYTES: u64 = 2 * 1_000_000_000 / 8 * 30 / 1000;

/// Limits of socket buffers: TCP's own tuning (`tcp_rmem`, `tcp_wmem`) and what UDP sockets may
/// ask for (`rmem_max`, `wmem_max`).
fn socket_buffers() -> Capability {
    let last = |name: &str| -> Option<u64> { sysctl(name)?.split(' ').next_back()?.parse().ok() };
    const LIMITS: [&str; 4] = [
        "net.core.rmem_max",
        "net.core.wmem_max",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_wmem",
    ];
    let mut small = Vec::new();
    let mut seen = Vec::new();
    for name in LIMITS {
        // `net.core` limits do not exist in inner namespaces; what is not there does not limit.
        if let Some(limit) = last(name) {
            seen.push(format!("{name} {limit}"));
            if limit < TWICE_BDP_BYTES {
                small.push(match name {
                    "net.ipv4.tcp_rmem" => format!("{name}='4096 131072 {TWICE_BDP_BYTES}'"),
                    "net.ipv4.tcp_wmem" => format!("{name}='4096 16384 {TWICE_BDP_BYTES}'"),
                    _ => format!("{name}={TWICE_BDP_BYTES}"),
                });
            }
        }
    }
    let name = "socket_buffers";
    if seen.is_empty() {
        return Capability::new(name, false, "the limits cannot be read here", "");
    }
    let seen = seen.join(", ");
    let detail = format!("2 × BDP of 1 Gbit/s × 30 ms is {TWICE_BDP_BYTES} B; {seen}");
    let hint = format!("sysctl -w {}", small.join(" "));
    Capability::new(name, small.is_empty(), detail, &hint)
}

fn core_count() -> Capability {
    let cores = cores();
    Capability::new(
        "cores",
        cores >= 2,
        format!("{cores} online; sender and receiver each want one"),
        "give the machine a second core: with one, both ends and the emulator take turns",
    )
}

fn cpu_governor() -> Capability {
    let governor = governor();
    let available = governor
        .as_deref()
        .is_none_or(|names| names == "performance");
    let detail = governor.unwrap_or_else(|| "the kernel scales no frequency here".to_owned());
    let hint = "cpupower frequency-set -g performance";
    Capability::new("cpu_governor", available, detail, hint)
}

fn clock_synchronised() -> Capability {
    let (available, detail) = match Synchronisation::read() {
        None => (false, "the kernel does not tell".to_owned()),
        Some(state) => (state.is_synchronised, state.to_string()),
    };
    let hint = "start chrony or another NTP or PTP client; figures of one host do not need it";
    Capability::new("clock_synchronised", available, detail, hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_have_unique_names_and_details() {
        let all = capabilities();
        let mut names: Vec<_> = all.iter().map(|capability| capability.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count, "{names:?}");
        for capability in &all {
            assert!(!capability.detail.is_empty(), "{capability:?}");
            assert!(
                !capability.available || capability.hint.is_empty(),
                "{capability:?}"
            );
        }
        for name in [
            "user_namespaces",
            "network_namespaces",
            "tun",
            "netem",
            "sctp",
            "mptcp",
            "congestion_control.cubic",
            "congestion_control.bbr",
            "congestion_control.hybla",
            "udp_gso",
            "udp_gro",
            "socket_buffers",
            "cores",
            "cpu_governor",
        ] {
            assert!(names.contains(&name), "{name} is missing");
        }
    }

    #[test]
    fn capability_checks_have_no_side_effects() {
        let namespace = |name: &str| std::fs::read_link(format!("/proc/self/ns/{name}")).unwrap();
        let before = (namespace("net"), namespace("user"));
        let interfaces = crate::interface::interfaces_up();
        let _ = capabilities();
        assert_eq!(before, (namespace("net"), namespace("user")));
        assert_eq!(interfaces, crate::interface::interfaces_up());
    }
}
