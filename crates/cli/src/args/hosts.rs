//! Arguments of `regatta hosts`.

use std::{os::fd::RawFd, path::PathBuf};

use clap::{Args, Subcommand};
use regatta_model::{
    PortRange,
    study::{HostAddress, is_host_name},
};

/// `regatta hosts`.
#[derive(Debug, Args)]
pub struct HostsArgs {
    /// File of the hosts [default: ~/.config/regatta/hosts.toml]
    #[arg(long, value_name = "FILE", global = true)]
    pub hosts_file: Option<PathBuf>,
    /// Subcommand to run.
    #[command(subcommand)]
    pub command: HostsCommand,
}

/// Subcommand of `regatta hosts`.
#[derive(Debug, Subcommand)]
pub enum HostsCommand {
    /// Add a host to the hosts file; if no key opens it yet, set one up with a password
    Add(AddArgs),
    /// Show the hosts of the hosts file
    List {
        /// Write one JSON value
        #[arg(long)]
        json: bool,
    },
    /// Show what Regatta can do on a host, and on the way to another one: firewalls, delay, clocks, shaping
    Check {
        /// Name of the host, or of two: `a,b`. The way from one goes to this machine
        #[arg(value_parser = name, value_delimiter = ',', value_name = "NAME[,NAME]", required = true, num_args = 1)]
        names: Vec<String>,
        /// Write one JSON value a line for each finding
        #[arg(long)]
        json: bool,
    },
    /// Print a script that lets Regatta in with its own key, to be run on the host by hand
    Script {
        /// Name of the host
        #[arg(value_parser = name)]
        name: String,
    },
    /// Remove a host from the hosts file, and Regatta's own key from the host
    Remove {
        /// Name of the host
        #[arg(value_parser = name)]
        name: String,
        /// Leave the key on the host, such as on one that cannot be reached any more
        #[arg(long)]
        local_only: bool,
    },
}

/// `regatta hosts add`.
#[derive(Debug, Args)]
pub struct AddArgs {
    /// Name of the host, for `--hosts`
    #[arg(value_parser = name)]
    pub name: String,
    /// Destination as `ssh` takes it: `user@address`, an alias of `~/.ssh/config`, `ssh://user@address:port`
    #[arg(value_parser = destination)]
    pub destination: String,
    /// Name and destination of further hosts, which are set up at the same time
    #[arg(value_name = "NAME DESTINATION")]
    pub further: Vec<String>,
    /// Address of the interface that carries the transfers, or its name [default: the one that `ssh` reaches]
    #[arg(long, value_name = "ADDRESS")]
    pub address: Option<HostAddress>,
    /// Ports on which it may listen, as its firewall lets them in, such as 5200-5299 [default: any]
    #[arg(long, value_name = "RANGE")]
    pub ports: Option<PortRange>,
    /// Read the passwords from this file descriptor instead of the terminal: a line for each host; the last one is that of
    /// all that are left
    #[arg(long, value_name = "N", value_parser = super::values::integer(0, 1_000_000))]
    pub password_fd: Option<RawFd>,
    /// Accept the key of a host that is not known yet
    #[arg(long, conflicts_with = "fingerprint")]
    pub accept_new: bool,
    /// Fingerprint that the key of the host must have, if it is not known yet
    #[arg(long, value_name = "SHA256:…")]
    pub fingerprint: Option<String>,
    /// Option of `ssh` for this host, such as `-oPort=2222`; may be given more than once
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    pub ssh_option: Vec<String>,
}

impl AddArgs {
    /// Returns name and destination of each host.
    ///
    /// # Errors
    /// Further hosts that are not pairs of both, or have no such name; options of one host where there are several.
    pub fn hosts(&self) -> Result<Vec<(String, String)>, String> {
        let mut hosts = vec![(self.name.clone(), self.destination.clone())];
        for pair in self.further.chunks(2) {
            let [further, to] = pair else {
                return Err(format!("`{}` is a host without a destination", pair[0]));
            };
            hosts.push((name(further)?, destination(to)?));
        }
        if hosts.len() > 1 && (self.address.is_some() || self.fingerprint.is_some()) {
            return Err("`--address` and `--fingerprint` are of one host".to_owned());
        }
        let names: std::collections::BTreeSet<&str> =
            hosts.iter().map(|(name, _)| &**name).collect();
        if names.len() < hosts.len() {
            return Err("a host is named twice".to_owned());
        }
        Ok(hosts)
    }
}

fn name(text: &str) -> Result<String, String> {
    if is_host_name(text) {
        return Ok(text.to_owned());
    }
    Err("a name has letters, digits, `-`, `_` and `.`, 64 at most".to_owned())
}

fn destination(text: &str) -> Result<String, String> {
    if text.is_empty() || text.starts_with('-') || text.contains(char::is_control) {
        return Err("it is no destination of `ssh`, such as `user@address`".to_owned());
    }
    Ok(text.to_owned())
}
