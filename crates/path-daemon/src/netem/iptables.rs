//! Loss by iptables' `statistic` match, as S1 publishes it.

use std::{
    io,
    os::fd::AsRawFd,
    process::{Command, Stdio},
    sync::Arc,
};

use nix::sched::CloneFlags;
use regatta_process::Preparation;

use super::veth::Node;
use crate::{error::DaemonError, namespaces::Namespace};

/// Names of the program. The one over the kernel's older tables comes first: the kernels of User
/// Mode Linux guests have no others.
const PROGRAMS: [&str; 2] = ["iptables-legacy", "iptables"];

/// Directories in which systems have the program; not all of them are on every user's `PATH`.
const DIRECTORIES: &str = "/usr/sbin:/sbin:/usr/local/sbin:/usr/bin:/bin";

/// Rule that drops packets at random.
#[derive(Clone)]
pub(super) struct Rule {
    namespace: Arc<Namespace>,
    /// Chain of the rule: `FORWARD` on a router, `INPUT` on a host.
    chain: &'static str,
    /// Interface at which the packets come in.
    interface: &'static str,
}

impl Rule {
    /// Returns the rule of a chain for packets that come in at an interface of a node.
    pub(super) fn new(node: &Node, chain: &'static str, interface: &'static str) -> Self {
        Self {
            namespace: Arc::clone(&node.namespace),
            chain,
            interface,
        }
    }

    /// Installs the rule with its counter at zero, as the only one of its chain; removes it for a
    /// probability of zero.
    pub(super) fn set(&self, probability: f64) -> Result<(), DaemonError> {
        let Self {
            chain, interface, ..
        } = self;
        self.run(&["-F", chain])?;
        if probability > 0.0 {
            let rule = format!(
                "-A {chain} -i {interface} -m statistic --mode random --probability {probability:.10} -j DROP"
            );
            self.run(&rule.split(' ').collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// Returns the packets that the rule has dropped since it was installed.
    pub(super) fn dropped(&self) -> Result<u64, DaemonError> {
        Ok(drops(&self.run(&["-nvxL", self.chain])?))
    }

    /// Runs the program in the namespace of the rule and returns its output.
    fn run(&self, arguments: &[&str]) -> Result<String, DaemonError> {
        let program = program()?;
        let failed = |source| DaemonError::Iptables {
            command: format!("{program} {}", arguments.join(" ")),
            source,
        };
        let mut command = Command::new(program);
        command
            .arg("-w")
            .args(arguments)
            .env("PATH", DIRECTORIES)
            // The lock between runs of the program is a file that only root can make; no other
            // program runs in this namespace.
            .env("XTABLES_LOCKFILE", "/dev/null")
            .stdin(Stdio::null());
        let namespace = self.namespace.file().as_raw_fd();
        Preparation {
            namespaces: vec![(namespace, CloneFlags::CLONE_NEWNET)],
            ..Preparation::default()
        }
        .apply(&mut command);
        let output = command.output().map_err(failed)?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            return Err(failed(io::Error::other(stderr.trim().to_owned())));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// Returns the packets of the dropping rules in iptables' listing.
fn drops(listing: &str) -> u64 {
    listing
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|fields| fields.get(2) == Some(&"DROP"))
        .filter_map(|fields| fields[0].parse::<u64>().ok())
        .sum()
}

/// Returns the first of the programs that is installed.
fn program() -> Result<&'static str, DaemonError> {
    let there = |name: &&str| {
        DIRECTORIES
            .split(':')
            .any(|directory| std::path::Path::new(directory).join(name).exists())
    };
    PROGRAMS
        .into_iter()
        .find(there)
        .ok_or(DaemonError::NoIptables)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_packets_are_those_of_rules_that_drop() {
        let listing = "Chain FORWARD (policy ACCEPT 12 packets, 900 bytes)\n    \
            pkts      bytes target     prot opt in     out     source               destination\n      \
            53     4452 DROP       0    --  left   *       0.0.0.0/0            0.0.0.0/0            statistic mode random probability 0.05\n";
        assert_eq!(drops(listing), 53);
        assert_eq!(drops(""), 0);
    }
}
