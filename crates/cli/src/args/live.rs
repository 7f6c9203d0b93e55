//! Options of the views of a run under way.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
};

use clap::Args as ClapArgs;

use super::values::directory;

/// Views of a run under way.
#[derive(Debug, Clone, Default, ClapArgs)]
#[command(next_help_heading = "Views")]
pub struct ViewArgs {
    /// Show the run on the terminal as it goes: the trial under way, the cells so far, the time left
    #[arg(long)]
    pub live: bool,
    /// Serve the same, and the report as far as it is, as a web page on loopback; the address for a browser, with a
    /// secret in it, is printed [default of ADDR:PORT: 127.0.0.1 and a free port]
    #[arg(long, value_name = "ADDR:PORT", value_parser = loopback, num_args = 0..=1, require_equals = true, default_missing_value = "127.0.0.1:0")]
    pub web: Option<SocketAddr>,
    /// Serve metrics for Prometheus at `http://ADDR:PORT/metrics`; a port alone is one of 127.0.0.1
    #[arg(long, value_name = "ADDR:PORT", value_parser = address)]
    pub prometheus: Option<SocketAddr>,
    /// Write the same metrics to FILE, which is replaced as a whole, for node_exporter's textfile collector
    #[arg(long, value_name = "FILE")]
    pub prometheus_textfile: Option<PathBuf>,
}

/// `regatta attach`.
#[derive(Debug, ClapArgs)]
pub struct AttachArgs {
    /// Directory of the run
    #[arg(value_parser = directory())]
    pub dir: PathBuf,
    #[command(flatten)]
    pub views: ViewArgs,
}

/// Parses an address with a port, or a port of 127.0.0.1.
fn address(text: &str) -> Result<SocketAddr, String> {
    let of_port = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    text.parse()
        .or_else(|_| text.parse().map(of_port))
        .map_err(|_| "an address and a port are asked for, such as `127.0.0.1:9464`".to_owned())
}

/// Parses an address of loopback.
fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address = address(text)?;
    if address.ip().is_loopback() {
        return Ok(address);
    }
    Err(format!(
        "the page is served on loopback only; from elsewhere, forward a port to it, as with `ssh -L {0}:127.0.0.1:{0} HOST`",
        address.port()
    ))
}
