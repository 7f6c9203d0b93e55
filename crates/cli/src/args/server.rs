//! Arguments of `regatta server`.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use regatta_model::{Bytes, PortRange};

use super::{
    iperf,
    local_address::LocalAddress,
    values::{integer, quantity},
};

const AFTER_HELP: &str = "\
The line that it prints holds a secret: whoever has it may measure against this machine, within the \
limits. Everything after the first message is TLS 1.3. docs/server.md says what a firewall must let \
in, and how to run it as a service.";

/// `regatta server`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP, args_override_self = true)]
pub struct ServerArgs {
    /// Accepted for command lines of iperf3
    #[arg(short, long, hide = true)]
    pub server: bool,
    /// Address to listen on; may be given several times [default: all of this machine]
    #[arg(short = 'B', long, value_name = "ADDRESS")]
    pub bind: Vec<LocalAddress>,
    /// TCP port to listen on
    #[arg(short, long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..), allow_hyphen_values = true, default_value = "5201")]
    pub port: u16,
    /// Ports on which trials listen, while they run [default: PORT and the 15 after it]
    #[arg(long, value_name = "FIRST-LAST", value_parser = quantity::<PortRange>)]
    pub data_ports: Option<PortRange>,
    /// Name or address of this machine in the line to paste [default: found out]
    #[arg(long, value_name = "HOST")]
    pub name: Option<String>,
    /// File of the secret and the key, made if it is not there: the token stays the same when the server
    /// is started again [default: new ones each time]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Listen on IPv4 only
    #[arg(short = '4', long = "version4", conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// Listen on IPv6 only
    #[arg(short = '6', long = "version6")]
    pub ipv6: bool,

    /// Clients that may measure at once; others wait for their turn
    #[arg(long, value_name = "N", value_parser = integer(1, 64_usize), allow_hyphen_values = true, default_value = "1", help_heading = "Limits")]
    pub parallel: usize,
    /// Most clients, those that wait included; others are refused
    #[arg(long, value_name = "N", value_parser = integer(1, 1000_usize), allow_hyphen_values = true, default_value = "100", help_heading = "Limits")]
    pub max_clients: usize,
    /// Longest time of one client, in seconds or with a unit [default: 1h]
    #[arg(long, value_name = "TIME", value_parser = iperf::seconds, allow_hyphen_values = true, default_value = "3600", hide_default_value = true, help_heading = "Limits")]
    pub max_time: Duration,
    /// Most bytes that one client may send and receive [default: without limit]
    #[arg(long, value_name = "SIZE", value_parser = iperf::size, allow_hyphen_values = true, help_heading = "Limits")]
    pub max_bytes: Option<Bytes>,
    /// End after one client
    #[arg(short = '1', long, help_heading = "Limits")]
    pub one_off: bool,

    /// Write one JSON value per line for each event of a client
    #[arg(short = 'J', long, alias = "json-stream", help_heading = "Output")]
    pub json: bool,
    /// Accepted for command lines of iperf3: what is wrong is said in any case
    #[arg(short = 'V', long, hide = true, help_heading = "Output")]
    pub verbose: bool,
    /// Accepted for command lines of iperf3: the interval is the client's
    #[arg(short, long, value_name = "TIME", hide = true, help_heading = "Output")]
    pub interval: Option<String>,
    /// File for the output instead of standard output; it is appended. The line with the token stays on standard
    /// output
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub logfile: Option<PathBuf>,
}
