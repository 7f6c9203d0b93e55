//! Arguments of `regatta client`.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use regatta_model::{BitRate, Bytes};

use super::{
    iperf,
    local_address::LocalAddress,
    rate_unit::RateUnit,
    run::with_options,
    values::{directory, integer},
};

/// Largest value of `--connect-timeout`.
pub const MAX_CONNECT_TIMEOUT: Duration = Duration::from_secs(600);

const AFTER_HELP: &str = "\
The server prints the line to paste: `regatta server`. Flags of iperf3 have its meaning; numbers \
without a unit are read as iperf3 reads them (`-b 50M` is 50 Mbit/s, `-n 1M` is 1 MiB). \
docs/server.md lists what differs.

Exit codes: 0 all was measured, or timed out beside that; 1 something failed, or nothing was measured; 2 bad usage or bad input; 77 the server or this \
host does not support what was asked for.";

/// `regatta client`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP, args_override_self = true)]
pub struct ClientArgs {
    /// Server, as it printed it: `host:port#token`
    #[arg(value_name = "SERVER", conflicts_with = "client")]
    pub server: Option<String>,
    /// Server, the same
    #[arg(short = 'c', long, value_name = "SERVER")]
    pub client: Option<String>,
    /// Port of the server [default: that of SERVER, else 5201]
    #[arg(short, long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..), allow_hyphen_values = true, help_heading = "Server")]
    pub port: Option<u16>,
    /// Token of the server, for a SERVER without one [default: that of REGATTA_TOKEN]
    #[arg(long, value_name = "TOKEN", help_heading = "Server")]
    pub token: Option<String>,
    /// Address of this machine to connect from
    #[arg(short = 'B', long, value_name = "ADDRESS", help_heading = "Server")]
    pub bind: Option<LocalAddress>,
    /// Use IPv4 only
    #[arg(
        short = '4',
        long = "version4",
        conflicts_with = "ipv6",
        help_heading = "Server"
    )]
    pub ipv4: bool,
    /// Use IPv6 only
    #[arg(short = '6', long = "version6", help_heading = "Server")]
    pub ipv6: bool,
    /// Longest time in milliseconds for a connection to be made, and again for the TLS handshake over it [default: 10000]
    #[arg(long, value_name = "MS", value_parser = integer(1, MAX_CONNECT_TIMEOUT.as_millis() as u64), allow_hyphen_values = true, help_heading = "Server")]
    pub connect_timeout: Option<u64>,

    /// Transports, as `regatta run` takes them, such as `quic-quinn` or `tcp:cc=bbr,label=BBR`; several are compared
    #[arg(
        long,
        value_name = "A,B",
        value_delimiter = ',',
        default_value = "tcp",
        help_heading = "Work"
    )]
    pub transport: Vec<String>,
    /// UDP, at 1 Mbit/s unless `-b` says another rate
    #[arg(short, long, conflicts_with_all = ["transport", "sctp", "mptcp"], help_heading = "Work")]
    pub udp: bool,
    /// SCTP of the kernel
    #[arg(long, conflicts_with_all = ["transport", "mptcp"], help_heading = "Work")]
    pub sctp: bool,
    /// MPTCP of the kernel
    #[arg(short, long, conflicts_with = "transport", help_heading = "Work")]
    pub mptcp: bool,
    /// Time to send for, in seconds or with a unit [default: 10]
    #[arg(short, long, value_name = "TIME", value_parser = iperf::seconds, allow_hyphen_values = true, conflicts_with_all = ["bytes", "blockcount"], help_heading = "Work")]
    pub time: Option<Duration>,
    /// Bytes to send instead of a time
    #[arg(short = 'n', long, value_name = "SIZE", value_parser = iperf::size, allow_hyphen_values = true, conflicts_with = "blockcount", help_heading = "Work")]
    pub bytes: Option<Bytes>,
    /// Messages to send instead of a time
    #[arg(short = 'k', long, value_name = "N", value_parser = integer(1, 1_000_000_000_u64), allow_hyphen_values = true, help_heading = "Work")]
    pub blockcount: Option<u64>,
    /// Size of a message: of a write, or of a datagram [default: 128K; UDP: what fits a packet]
    #[arg(short, long, value_name = "SIZE", value_parser = iperf::size, allow_hyphen_values = true, help_heading = "Work")]
    pub length: Option<Bytes>,
    /// Simultaneous connections
    #[arg(short = 'P', long, value_name = "N", value_parser = integer(1, 1024_u32), allow_hyphen_values = true, default_value = "1", help_heading = "Work")]
    pub parallel: u32,
    /// The server sends
    #[arg(short = 'R', long, conflicts_with = "bidir", help_heading = "Work")]
    pub reverse: bool,
    /// Both send at once
    #[arg(long, help_heading = "Work")]
    pub bidir: bool,
    /// Rate of the sender, of each connection; 0 is without limit
    #[arg(short, long, value_name = "RATE", value_parser = iperf::rate, allow_hyphen_values = true, help_heading = "Work")]
    pub bitrate: Option<BitRate>,
    /// Time at the beginning that the results leave out
    #[arg(short = 'O', long, value_name = "TIME", value_parser = iperf::seconds_or_none, allow_hyphen_values = true, help_heading = "Work")]
    pub omit: Option<Duration>,
    /// Repetitions of the whole: with several the result is an interval
    #[arg(long, value_name = "N", value_parser = integer(1, 10_000_u32), allow_hyphen_values = true, default_value = "1", help_heading = "Work")]
    pub repeat: u32,

    /// Congestion control of the kernel
    #[arg(short = 'C', long, value_name = "NAME", help_heading = "Transport")]
    pub congestion: Option<String>,
    /// Size of the sockets' buffers
    #[arg(short, long, value_name = "SIZE", value_parser = iperf::size, allow_hyphen_values = true, help_heading = "Transport")]
    pub window: Option<Bytes>,
    /// Largest segment of TCP in bytes
    #[arg(short = 'M', long, value_name = "BYTES", value_parser = integer(88, 32_767_u16), allow_hyphen_values = true, help_heading = "Transport")]
    pub set_mss: Option<u16>,
    /// TCP without Nagle's algorithm
    #[arg(short = 'N', long, help_heading = "Transport")]
    pub no_delay: bool,
    /// Code point of TCP's packets, a number or a name such as `ef`
    #[arg(long, value_name = "DSCP", value_parser = iperf::dscp, allow_hyphen_values = true, help_heading = "Transport")]
    pub dscp: Option<u8>,
    /// TCP from pages of memory that the kernel takes without a copy
    #[arg(short = 'Z', long, alias = "zerocopy", help_heading = "Transport")]
    pub zero_copy: bool,
    /// Count what arrives and look at none of it, as of iperf3: TCP discards it without a copy
    #[arg(long, help_heading = "Work")]
    pub skip_rx_copy: bool,
    /// Processor of this end's processes
    #[arg(short = 'A', long, value_name = "N", value_parser = integer(0, 1023_usize), allow_hyphen_values = true, help_heading = "Transport")]
    pub affinity: Option<usize>,

    /// Time between two lines, in seconds or with a unit; at least 0.1, or 0 for none
    #[arg(short, long, value_name = "TIME", value_parser = iperf::seconds_or_none, allow_hyphen_values = true, default_value = "1", help_heading = "Output")]
    pub interval: Duration,
    /// Write one JSON value at the end
    #[arg(short = 'J', long, help_heading = "Output")]
    pub json: bool,
    /// Write one JSON value per line as it goes
    #[arg(long, conflicts_with = "json", help_heading = "Output")]
    pub json_stream: bool,
    /// Show what the stacks read back, too
    #[arg(short = 'V', long, help_heading = "Output")]
    pub verbose: bool,
    /// Words before every line
    #[arg(short = 'T', long, value_name = "TITLE", help_heading = "Output")]
    pub title: Option<String>,
    /// File for the output instead of standard output; it is appended
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub logfile: Option<PathBuf>,
    /// Unit of rates: k, m, g, t for kbit/s to Tbit/s, K, M, G, T for KiB/s to TiB/s
    #[arg(short, long, value_name = "UNIT", value_parser = RateUnit::LETTERS, hide_possible_values = true, help_heading = "Output")]
    pub format: Option<String>,
    /// Accepted for command lines of iperf3: both ends write the same
    #[arg(long, help_heading = "Output")]
    pub get_server_output: bool,
    /// Write every line at once, as is always done
    #[arg(long, help_heading = "Output")]
    pub forceflush: bool,
    /// Directory for the results and their report
    #[arg(long, value_name = "DIR", value_parser = directory(), allow_hyphen_values = true, help_heading = "Output")]
    pub save: Option<PathBuf>,
}

impl ClientArgs {
    /// Returns the transports that were named, each with its options separated by colons, as `regatta run` reads them.
    pub fn transports(&self) -> Vec<String> {
        with_options(&self.transport)
    }
}
