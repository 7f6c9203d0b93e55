//! Defaults of Linux that move figures and that no sysctl of [`HOST_SETTINGS`](crate::HOST_SETTINGS) shows, by the version
//! that brought them.

/// Version of a kernel: 5.15 of the release `5.15.0-105-generic`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelVersion {
    /// First number.
    pub major: u32,
    /// Second number.
    pub minor: u32,
}

/// Default of Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelDefault {
    /// Quantity, in words.
    pub name: &'static str,
    /// Values with the versions from which on they hold, in the order of versions.
    pub values: &'static [(KernelVersion, &'static str)],
}

const fn from(major: u32, minor: u32) -> KernelVersion {
    KernelVersion { major, minor }
}

/// Defaults that move figures of TCP and of the kernel's SCTP. The oldest version is 3.0.
///
/// Sources: RFC 6928 (initial window); `tcp_tso_rtt_log` (Linux 5.18) and `tcp_backlog_ack_defer` (Linux 6.7) in
/// `Documentation/networking/ip-sysctl.rst`; `hystart` of `net/ipv4/tcp_cubic.c`; `sack_timeout`, `rto_initial` and
/// `rto_min` of `net/sctp/protocol.c`.
pub const KERNEL_DEFAULTS: &[KernelDefault] = &[
    KernelDefault {
        name: "initial window",
        values: &[(from(3, 0), "10 packets")],
    },
    KernelDefault {
        name: "slow start of CUBIC",
        values: &[(from(3, 0), "HyStart")],
    },
    KernelDefault {
        name: "pacing of CUBIC",
        values: &[(from(3, 0), "none")],
    },
    KernelDefault {
        name: "segments that TCP hands over together",
        values: &[
            (from(3, 0), "1 ms of the rate"),
            (
                from(5, 18),
                "1 ms of the rate, more where the round trip is below some milliseconds",
            ),
        ],
    },
    KernelDefault {
        name: "acknowledgements of segments that waited for a busy receiver",
        values: &[(from(3, 0), "as of others"), (from(6, 7), "one for all")],
    },
    KernelDefault {
        name: "acknowledgements of SCTP",
        values: &[(from(3, 0), "every second packet, or after 200 ms")],
    },
    KernelDefault {
        name: "RTO.Initial and RTO.Min of SCTP",
        values: &[(from(3, 0), "3 s and 1 s")],
    },
];

impl KernelVersion {
    /// Reads the version of a release: two numbers, and what follows them.
    #[must_use]
    pub fn of_release(release: &str) -> Option<Self> {
        let mut numbers = release.split(|it: char| !it.is_ascii_digit());
        let mut next = || numbers.next()?.parse().ok();
        Some(from(next()?, next()?))
    }
}

impl KernelDefault {
    /// Returns the value under a version; `None` of one before the oldest in the table.
    #[must_use]
    pub fn under(&self, version: KernelVersion) -> Option<&'static str> {
        let mut values = self.values.iter().rev();
        values
            .find(|(since, _)| *since <= version)
            .map(|(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_the_version() {
        let version = |release: &str| KernelVersion::of_release(release).expect("a version");
        assert_eq!(version("5.15.0-105-generic"), from(5, 15));
        assert_eq!(version("6.18-rc1"), from(6, 18));
        assert_eq!(KernelVersion::of_release("Ubuntu"), None);
        let changed = |a: &str, b: &str| -> Vec<&'static str> {
            let (a, b) = (version(a), version(b));
            let changed = KERNEL_DEFAULTS
                .iter()
                .filter(|it| it.under(a) != it.under(b));
            changed.map(|it| it.name).collect()
        };
        assert_eq!(changed("5.15", "5.17"), [""; 0]);
        let segments = "segments that TCP hands over together";
        assert_eq!(changed("5.15", "6.1.140"), [segments]);
        let waited = "acknowledgements of segments that waited for a busy receiver";
        assert_eq!(changed("5.15", "6.12.3"), [segments, waited]);
        assert_eq!(KERNEL_DEFAULTS[0].under(from(2, 6)), None);
    }
}
