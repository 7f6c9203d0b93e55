//! Settings of the hosts' kernels and of the sockets on them, under which a trial runs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::named::named;

/// Settings of the hosts' kernels and sockets as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tuning {
    /// The bench's: buffers that limit no flow, and segmentation offload of UDP sockets.
    #[default]
    Bench,
    /// A kernel's defaults: buffers, offloads and queues that nobody has changed.
    Defaults,
}

named!(Tuning: "bench" => Bench, "defaults" => Defaults);

/// Value that a sysctl gets in the hosts' network namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    /// None, unless a study sets the value.
    Untouched,
    /// This value under [`Tuning::Bench`], and the kernel's under [`Tuning::Defaults`].
    Tuned(&'static str),
    /// This value under every tuning: without it a trial would find what an earlier one left.
    KeepsTrialsApart(&'static str),
}

/// Kind of values that a study may give a sysctl in `[host]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostValue {
    /// None.
    Fixed,
    /// A size in bytes: the third of three values, the limit of autotuning.
    LargestBuffer,
    /// A whole number up to this one.
    Number(u64),
}

/// A sysctl that moves figures: its value of a kernel that has just booted, and its value here.
#[derive(Debug, Clone, Copy)]
pub struct HostSetting {
    /// Name with dots: `net.ipv4.tcp_rmem`.
    pub name: &'static str,
    /// Value with which Linux 5.15 and later boots on a machine of 1 GiB or more.
    pub boot: &'static str,
    /// Value in the hosts' namespaces.
    pub setting: Setting,
    /// Values that a study may give.
    pub value: HostValue,
    /// Reason for the value here; empty if untouched.
    pub reason: &'static str,
}

const fn untouched(name: &'static str, boot: &'static str, value: HostValue) -> HostSetting {
    HostSetting {
        name,
        boot,
        setting: Setting::Untouched,
        value,
        reason: "",
    }
}

const fn apart(
    name: &'static str,
    boot: &'static str,
    value: &'static str,
    reason: &'static str,
) -> HostSetting {
    HostSetting {
        name,
        boot,
        setting: Setting::KeepsTrialsApart(value),
        value: HostValue::Fixed,
        reason,
    }
}

const LARGE_BUFFERS: &str = "room for twice the bandwidth-delay product of 1 Gbit/s × 200 ms, and for the kernel's overhead";

const FRAGMENTS: &str = "fragments that loss left of datagrams fill the kernel's room for 30 s by default, and no fragmented datagram of the next trial arrives; 3 s are less than 1 Gbit/s of 10 kB datagrams needs to use up its identifiers (RFC 4963)";

/// Sysctls that Regatta sets or a study may set, and those that limit sockets. A namespace gets those with a value in this
/// order.
pub const HOST_SETTINGS: &[HostSetting] = &[
    apart(
        "net.ipv4.tcp_no_metrics_save",
        "0",
        "1",
        "slow-start thresholds and round-trip times of earlier connections do not pass to later ones",
    ),
    HostSetting {
        name: "net.ipv4.tcp_rmem",
        boot: "4096 131072 6291456",
        setting: Setting::Tuned("4096 131072 134217728"),
        value: HostValue::LargestBuffer,
        reason: LARGE_BUFFERS,
    },
    HostSetting {
        name: "net.ipv4.tcp_wmem",
        boot: "4096 16384 4194304",
        setting: Setting::Tuned("4096 65536 134217728"),
        value: HostValue::LargestBuffer,
        reason: LARGE_BUFFERS,
    },
    apart(
        "net.ipv4.tcp_orphan_retries",
        "0",
        "1",
        "a connection that was given up does not go on retransmitting into the next trial",
    ),
    apart(
        "net.ipv4.tcp_fin_timeout",
        "60",
        "5",
        "a connection that was given up does not stay into the next trial",
    ),
    apart("net.ipv4.ipfrag_time", "30", "3", FRAGMENTS),
    apart(
        "net.ipv4.ipfrag_high_thresh",
        "4194304",
        "268435456",
        FRAGMENTS,
    ),
    apart(
        "net.ipv4.ipfrag_low_thresh",
        "3145728",
        "201326592",
        FRAGMENTS,
    ),
    apart(
        "net.ipv6.conf.default.disable_ipv6",
        "0",
        "1",
        "router solicitations and the like would travel on the path and take part in its draws",
    ),
    untouched("net.core.rmem_default", "212992", HostValue::Fixed),
    untouched("net.core.rmem_max", "212992", HostValue::Fixed),
    untouched("net.core.wmem_default", "212992", HostValue::Fixed),
    untouched("net.core.wmem_max", "212992", HostValue::Fixed),
    untouched("net.ipv4.tcp_ecn", "2", HostValue::Number(2)),
    untouched("net.ipv4.tcp_moderate_rcvbuf", "1", HostValue::Number(1)),
    untouched("net.ipv4.tcp_mtu_probing", "0", HostValue::Number(2)),
    untouched("net.ipv4.tcp_recovery", "1", HostValue::Number(7)),
    untouched("net.ipv4.tcp_sack", "1", HostValue::Number(1)),
    untouched(
        "net.ipv4.tcp_slow_start_after_idle",
        "1",
        HostValue::Number(1),
    ),
    untouched("net.ipv4.tcp_timestamps", "1", HostValue::Number(2)),
    untouched("net.ipv4.tcp_window_scaling", "1", HostValue::Number(1)),
];

impl HostSetting {
    /// Returns the key in `[host]`: the last part of the name.
    #[must_use]
    pub fn key(&self) -> &'static str {
        self.name.rsplit_once('.').map_or(self.name, |(_, key)| key)
    }

    /// Returns the value of a study as the kernel takes it. Where it is the largest of three, the initial one is no larger.
    fn text(&self, value: u64) -> String {
        if self.value != HostValue::LargestBuffer {
            return value.to_string();
        }
        let mut boot = self.boot.split(' ');
        let least = boot.next().unwrap_or_default();
        let initial: u64 = boot
            .next()
            .and_then(|text| text.parse().ok())
            .unwrap_or(value);
        format!("{least} {} {value}", initial.min(value))
    }
}

/// Tuning of a condition's hosts, and the values that a study sets on top of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HostTuning {
    /// Settings as a whole.
    pub base: Tuning,
    /// Values of single sysctls by their key in `[host]`, in bytes where they are sizes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, u64>,
    /// Number of processors on which the processes of each end may run; all if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
}

impl HostTuning {
    /// Number of packets that a queue holds by default: `txqueuelen` of an Ethernet, which is pfifo's limit, and netem's.
    pub const QUEUE_PACKETS: u64 = 1000;

    /// Largest [`HostTuning::cpus`].
    pub const MAX_CPUS: u64 = 1024;

    /// Returns the sysctls that a namespace gets, with their values.
    pub fn sysctls(&self) -> impl Iterator<Item = (&'static str, String)> {
        HOST_SETTINGS.iter().filter_map(|it| {
            let own = self.values.get(it.key()).map(|value| it.text(*value));
            let value = own.or(match (it.setting, self.base) {
                (Setting::Untouched, _) => None,
                (Setting::Tuned(value), Tuning::Bench) | (Setting::KeepsTrialsApart(value), _) => {
                    Some(value.to_owned())
                }
                (Setting::Tuned(_), Tuning::Defaults) => Some(it.boot.to_owned()),
            })?;
            Some((it.name, value))
        })
    }

    /// Whether the limits of TCP's autotuning are a kernel's defaults, or set by the study.
    #[must_use]
    pub fn limits_tcp(&self) -> bool {
        let largest = HOST_SETTINGS
            .iter()
            .filter(|it| it.value == HostValue::LargestBuffer);
        self.base == Tuning::Defaults
            || largest
                .into_iter()
                .any(|it| self.values.contains_key(it.key()))
    }

    /// Describes the tuning in names of conditions and in plans: `defaults, tcp_wmem 4194304, cpus 1`.
    #[must_use]
    pub fn text(&self) -> String {
        let cpus = self.cpus.map(|cpus| format!("cpus {cpus}"));
        let values = self
            .values
            .iter()
            .map(|(key, value)| format!("{key} {value}"));
        let base = crate::named::Named::as_str(self.base).to_owned();
        let all: Vec<String> = std::iter::once(base).chain(values).chain(cpus).collect();
        all.join(", ")
    }
}

/// Returns the sysctls whose values differ from those that a kernel boots with, with their values. `read` reads one by its
/// name; one that the kernel does not have, or that a namespace cannot see, is left out.
pub fn differing_sysctls(
    read: impl Fn(&str) -> Option<String>,
) -> impl Iterator<Item = (&'static HostSetting, String)> {
    HOST_SETTINGS.iter().filter_map(move |setting| {
        let value = read(setting.name)?;
        (value != setting.boot).then_some((setting, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(tuning: &HostTuning) -> Vec<String> {
        let all = tuning.sysctls();
        all.filter(|(name, _)| name.ends_with("mem"))
            .map(|(_, value)| value)
            .collect()
    }

    #[test]
    fn defaults_leave_all_but_what_keeps_trials_apart() {
        let bench = HostTuning::default();
        assert_eq!(
            tcp(&bench),
            ["4096 131072 134217728", "4096 65536 134217728"]
        );
        let defaults = HostTuning {
            base: Tuning::Defaults,
            ..bench.clone()
        };
        for (name, value) in defaults.sysctls() {
            let setting = HOST_SETTINGS.iter().find(|it| it.name == name);
            let setting = setting.expect("in the table");
            let apart = matches!(setting.setting, Setting::KeepsTrialsApart(_));
            assert_eq!(value != setting.boot, apart, "{name}");
        }
    }

    #[test]
    fn a_value_of_a_study_replaces_the_largest_buffer() {
        let values = [("tcp_wmem", 4 << 20), ("tcp_rmem", 65_536)];
        let tuning = HostTuning {
            base: Tuning::Bench,
            values: values.map(|(key, value)| (key.to_owned(), value)).into(),
            cpus: Some(1),
        };
        assert_eq!(tcp(&tuning), ["4096 65536 65536", "4096 16384 4194304"]);
        assert!(tuning.limits_tcp() && !HostTuning::default().limits_tcp());
        assert_eq!(
            tuning.text(),
            "bench, tcp_rmem 65536, tcp_wmem 4194304, cpus 1"
        );
    }

    #[test]
    fn sysctls_that_differ_from_the_boot_values_are_named() {
        let found = differing_sysctls(|name| match name {
            "net.ipv4.tcp_sack" => Some("0".to_owned()),
            "net.ipv4.tcp_rmem" => Some("4096 131072 6291456".to_owned()),
            _ => None,
        });
        let found: Vec<_> = found.map(|(it, value)| (it.name, value)).collect();
        assert_eq!(found, [("net.ipv4.tcp_sack", "0".to_owned())]);
    }
}
