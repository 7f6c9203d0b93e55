//! Facts about the host that go with every result.

use std::{collections::BTreeSet, fs};

use regatta_model::HostFacts;

use crate::{
    clock::{Synchronisation, with_clients},
    file::bytes_of,
    host_cpu::cores,
    interface::{InterfaceInfo, interfaces_up},
};

/// Sysctls that move a transport's figures. One that the kernel does not have is left out.
const SYSCTLS: &[&str] = &[
    "net.core.default_qdisc",
    "net.core.netdev_budget",
    "net.core.netdev_max_backlog",
    "net.core.optmem_max",
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "net.ipv4.tcp_available_congestion_control",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_fastopen",
    "net.ipv4.tcp_limit_output_bytes",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_recovery",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_wmem",
    "net.ipv4.udp_mem",
    "net.mptcp.enabled",
    "net.mptcp.scheduler",
    "net.sctp.association_max_retrans",
    "net.sctp.hb_interval",
    "net.sctp.intl_enable",
    "net.sctp.max_burst",
    "net.sctp.path_max_retrans",
    "net.sctp.pf_enable",
    "net.sctp.pf_retrans",
    "net.sctp.rcvbuf_policy",
    "net.sctp.rto_initial",
    "net.sctp.rto_max",
    "net.sctp.rto_min",
    "net.sctp.sack_timeout",
    "net.sctp.sctp_mem",
    "net.sctp.sctp_rmem",
    "net.sctp.sctp_wmem",
    "net.sctp.sndbuf_policy",
];

/// Returns all facts about this host, from inside the calling thread's network namespace. Those
/// that cannot be read are left out.
///
/// Names: `kernel.release`, `kernel.version`, `distribution`, `machine`, `cpu.model`, `cpu.cores`,
/// `cpu.governor`, `cpu.mhz`, `memory.bytes`, `virtualisation`, `clock.source`, `sysctl.NAME`,
/// `interface.NAME.mtu`, `offload.INTERFACE.NAME` (`on`, `off`).
#[must_use]
pub fn host_facts() -> HostFacts {
    let mut facts = HostFacts::default();
    let mut put = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            facts.0.insert(name.to_owned(), value);
        }
    };
    if let Ok(system) = nix::sys::utsname::uname() {
        let text = |part: &std::ffi::OsStr| Some(part.to_string_lossy().into_owned());
        put("kernel.release", text(system.release()));
        put("kernel.version", text(system.version()));
        put("machine", text(system.machine()));
    }
    put("distribution", distribution());
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    // Arm's kernels give no model name, only numbers of the part.
    let mut models = ["model name", "Processor", "cpu model", "CPU part"].iter();
    put("cpu.model", models.find_map(|key| value_of(&cpu, key, ':')));
    put("cpu.mhz", value_of(&cpu, "cpu MHz", ':'));
    put("cpu.cores", Some(cores().to_string()));
    put("cpu.governor", governor().or(Some("none".to_owned())));
    let memory = fs::read("/proc/meminfo").ok();
    let memory = memory.and_then(|text| bytes_of(&text, "MemTotal"));
    put("memory.bytes", memory.map(|bytes| bytes.to_string()));
    put("virtualisation", virtualisation(&cpu));
    let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    put("clock.source", line(source));
    let synchronisation = Synchronisation::read().map(|state| match state.is_synchronised {
        true => with_clients("NTP or PTP".to_owned()),
        false => with_clients("none".to_owned()),
    });
    put("clock.synchronisation", synchronisation);
    for name in SYSCTLS {
        put(&format!("sysctl.{name}"), sysctl(name));
    }
    for name in interfaces_up() {
        let Some(info) = InterfaceInfo::of(&name) else {
            continue;
        };
        let mtu = info.mtu_bytes.map(|mtu| mtu.to_string());
        put(&format!("interface.{name}.mtu"), mtu);
        for (offload, on) in info.offloads {
            let state = if on { "on" } else { "off" };
            put(&format!("offload.{name}.{offload}"), Some(state.to_owned()));
        }
    }
    facts
}

/// Returns the first line of a file.
fn line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.lines().next()?.trim().to_owned())
}

/// Returns the value of a sysctl in the calling thread's network namespace, with single blanks between its numbers.
#[must_use]
pub fn sysctl(name: &str) -> Option<String> {
    let value = line(&format!("/proc/sys/{}", name.replace('.', "/")))?;
    Some(value.split_ascii_whitespace().collect::<Vec<_>>().join(" "))
}

/// Returns the value after the first `key` in lines of `key SEPARATOR value`.
fn value_of(text: &str, key: &str, separator: char) -> Option<String> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(separator)?;
        (name.trim() == key).then(|| value.trim().trim_matches('"').to_owned())
    })
}

fn distribution() -> Option<String> {
    ["/etc/os-release", "/usr/lib/os-release"]
        .iter()
        .find_map(|path| value_of(&fs::read_to_string(path).ok()?, "PRETTY_NAME", '='))
}

/// Returns the governors of all cores, each named once; `None` where the kernel scales no
/// frequency.
pub(crate) fn governor() -> Option<String> {
    let cores = fs::read_dir("/sys/devices/system/cpu").ok()?.flatten();
    let governors = cores.map(|core| core.path().join("cpufreq/scaling_governor"));
    let names: BTreeSet<_> = governors.filter_map(|path| line(path.to_str()?)).collect();
    let names = Vec::from_iter(names);
    (!names.is_empty()).then(|| names.join(", "))
}

/// Names the virtual machine or container in which this process runs, by what the kernel shows.
fn virtualisation(cpu: &str) -> Option<String> {
    let machine =
        ["sys_vendor", "product_name"].map(|name| line(&format!("/sys/class/dmi/id/{name}")));
    let machine = machine
        .into_iter()
        .flatten()
        .filter(|text| !text.is_empty());
    let machine = machine.collect::<Vec<_>>().join(" ");
    let flags = value_of(cpu, "flags", ':').unwrap_or_default();
    let hypervisor = flags.split(' ').any(|flag| flag == "hypervisor");
    let mut found = Vec::new();
    if value_of(cpu, "vendor_id", ':').as_deref() == Some("User Mode Linux") {
        found.push("User Mode Linux".to_owned());
    } else if let Some(kind) = line("/sys/hypervisor/type") {
        found.push(kind);
    } else if hypervisor {
        found.push(match machine.is_empty() {
            true => "virtual machine".to_owned(),
            false => format!("virtual machine ({machine})"),
        });
    }
    let marks = ["/.dockerenv", "/run/.containerenv"];
    if marks.iter().any(|mark| fs::exists(mark).unwrap_or(false)) {
        found.push("container".to_owned());
    }
    if found.is_empty() {
        found.push("none seen".to_owned());
    }
    Some(found.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_facts_are_not_empty() {
        let facts = host_facts().0;
        for name in [
            "kernel.release",
            "cpu.cores",
            "cpu.governor",
            "memory.bytes",
            "virtualisation",
        ] {
            assert!(
                facts.get(name).is_some_and(|v| !v.is_empty()),
                "{name}: {facts:?}"
            );
        }
        let available = &facts["sysctl.net.ipv4.tcp_available_congestion_control"];
        let default = &facts["sysctl.net.ipv4.tcp_congestion_control"];
        assert!(
            available.split(' ').any(|name| name == default),
            "{available}: {default}"
        );
        assert!(facts["memory.bytes"].parse::<u64>().unwrap() > 1 << 24);
    }

    #[test]
    fn values_are_found_by_their_full_key() {
        let text = "ID_LIKE=x\nPRETTY_NAME=\"Some Linux 1 (name)\"\nmodel name\t: A: B\nodd\n";
        assert_eq!(
            value_of(text, "PRETTY_NAME", '=').unwrap(),
            "Some Linux 1 (name)"
        );
        assert_eq!(value_of(text, "model name", ':').unwrap(), "A: B");
        assert_eq!(value_of(text, "NAME", '='), None);
    }
}
