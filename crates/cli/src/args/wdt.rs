//! Arguments of `regatta wdt`.

use std::{fmt, path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum};
use regatta_model::{BitRate, Bytes};
use wdt_protocol::files::Glob;

use super::{
    LocalAddress,
    values::{quantity, span},
};

const AFTER_HELP: &str = "\
Exit codes are the protocol's, at both ends:
   0 everything arrived              11 the other end speaks another version
   1 a general error                 12 the other end belongs to another transfer
   2 aborted, or bad usage           13 a checksum did not match
   3 no connection                   16 no common version
   4 no connection yet               23 the other end's checkpoint is wrong
   5 a connection cannot be read     24 connections without any progress
   6 a connection cannot be written  26 the other end did not answer in time
   7 a file cannot be read           28 encryption failed, or was not agreed on
   8 a file cannot be written
   9 no memory
  10 the other end broke the protocol";

/// `regatta wdt`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct WdtArgs {
    /// Subcommand to run.
    #[command(subcommand)]
    pub command: WdtCommand,
}

/// Subcommand of `regatta wdt`: the end of the transfer.
#[derive(Debug, Subcommand)]
pub enum WdtCommand {
    /// Receive files into a directory; the URL that the sender needs is printed on standard output
    Receive(ReceiveArgs),
    /// Send a file, or everything below a directory
    Send(SendArgs),
}

/// Encryption of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "each is what it is called")]
pub enum Encryption {
    None,
    Aes128Ctr,
    Aes128Gcm,
}

/// `regatta wdt receive`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct ReceiveArgs {
    /// Directory for what arrives, made if it is not there. Files get their names when all of the
    /// transfer has arrived; until then they lie in `.wdt-NUMBER.part` below it
    pub dir: PathBuf,
    /// Replace files that are there; without it, one that is there fails the transfer
    #[arg(long)]
    pub overwrite: bool,
    /// Keep a journal of what was received in `.wdt-resume.part`, and the data of a transfer that fails or is killed;
    /// continue from what an earlier one left there: blocks that were received do not go again
    #[arg(long)]
    pub resume: bool,
    /// Remove files that an earlier transfer brought and the sender no longer has
    #[arg(long, requires = "resume")]
    pub delete_extra_files: bool,
    /// Do not wait until files are on the disk
    #[arg(long)]
    pub no_sync: bool,

    /// Number of ports, each for one connection
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64), help_heading = "Connections")]
    pub ports: u16,
    /// First of the ports, the others follow it [default: any that are free]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..), help_heading = "Connections")]
    pub start_port: Option<u16>,
    /// Address to listen on, a link-local one with its interface, as in `fe80::1%eth0` [default: all]
    #[arg(long, value_name = "ADDRESS", help_heading = "Connections")]
    pub listen: Option<LocalAddress>,
    /// Name or address of this host, for the URL [default: what it listens on, or the host's name]
    #[arg(long, value_name = "HOST", help_heading = "Connections")]
    pub host: Option<String>,
    /// Longest wait for the sender
    #[arg(long, value_name = "TIME", value_parser = span, allow_hyphen_values = true, default_value = "50s", help_heading = "Connections")]
    pub wait: Duration,
    /// Give the transfer up when standard input ends, as a sender that has started this receiver ends it
    #[arg(long, hide = true)]
    pub until_end_of_input: bool,

    /// Encryption of each connection, with a new key that is part of the URL
    #[arg(long, value_enum, default_value_t = Encryption::Aes128Gcm, help_heading = "Encryption")]
    pub encryption: Encryption,
    /// Bytes between two tags of what this end sends
    #[arg(long, value_name = "SIZE", value_parser = tag_interval, allow_hyphen_values = true, default_value = "4MiB", help_heading = "Encryption")]
    pub tag_interval: u32,
    /// Bytes after which the sender begins anew with another initialisation vector; `0B` for never
    #[arg(long, value_name = "SIZE", value_parser = quantity::<Bytes>, allow_hyphen_values = true, default_value = "32GiB", help_heading = "Encryption")]
    pub iv_change: Bytes,

    /// Show no progress
    #[arg(long)]
    pub no_progress: bool,
}

/// `regatta wdt send`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct SendArgs {
    /// A file, or a directory; symbolic links below it are left out, unless `--follow-links` is given
    pub path: PathBuf,
    /// Connection URL that the receiver printed; `-` reads it from standard input, where other users of this machine
    /// do not see its key; or `HOST:DIR`, a directory on a host of the hosts file, on which a receiver is
    /// started
    pub url: SecretUrl,
    /// File of the hosts [default: ~/.config/regatta/hosts.toml]
    #[arg(long, value_name = "FILE", help_heading = "Connections")]
    pub hosts_file: Option<PathBuf>,
    /// Replace files that are there, with `HOST:DIR`; without it, one that is there fails the transfer
    #[arg(long)]
    pub overwrite: bool,

    /// Longest range of a file that is sent over one connection at a time; `0B` for whole files
    #[arg(long, value_name = "SIZE", value_parser = quantity::<Bytes>, allow_hyphen_values = true, default_value = "16MiB")]
    pub block_size: Bytes,
    /// Send a CRC-32C after each block
    #[arg(long)]
    pub checksum: bool,
    /// Bytes between two tags of what this end sends
    #[arg(long, value_name = "SIZE", value_parser = tag_interval, allow_hyphen_values = true, default_value = "4MiB")]
    pub tag_interval: u32,

    /// Send only what matches; may be given more than once. A pattern (`*`, `?`, `[…]`) without `/` is for
    /// names at any depth, one with `/` for paths from the directory, in which `**` is any number of
    /// directories. What matches a directory matches everything below it
    #[arg(long, value_name = "GLOB", value_parser = Glob::new, help_heading = "Choice of files")]
    pub include: Vec<Glob>,
    /// Exclude matching files, even if they are included; may be given more than once
    #[arg(long, value_name = "GLOB", value_parser = Glob::new, help_heading = "Choice of files")]
    pub exclude: Vec<Glob>,
    /// Send the files that FILE lists, `-` for standard input: one path below the directory in each line,
    /// and after a tab, if at all, how many bytes of it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["include", "exclude"], help_heading = "Choice of files")]
    pub manifest: Option<PathBuf>,
    /// Follow symbolic links below the directory, also out of it
    #[arg(long, help_heading = "Choice of files")]
    pub follow_links: bool,

    /// Average rate of the files' bytes, over all connections [default: as fast as it goes]
    #[arg(long, value_name = "RATE", value_parser = rate, allow_hyphen_values = true, help_heading = "Rate")]
    pub rate: Option<BitRate>,
    /// Rate that is not exceeded while the average is made up for after a pause [default: 1.2 times
    /// the average]
    #[arg(long, value_name = "RATE", value_parser = rate, allow_hyphen_values = true, requires = "rate", help_heading = "Rate")]
    pub peak_rate: Option<BitRate>,
    /// Bytes that may go out at once [default: half a second of the peak]
    #[arg(long, value_name = "SIZE", value_parser = quantity::<Bytes>, allow_hyphen_values = true, requires = "rate", help_heading = "Rate")]
    pub burst: Option<Bytes>,

    /// Show no progress
    #[arg(long)]
    pub no_progress: bool,
}

/// URL with its key, which no output shows.
#[derive(Clone)]
pub struct SecretUrl(pub String);

impl From<String> for SecretUrl {
    fn from(url: String) -> Self {
        Self(url)
    }
}

impl fmt::Debug for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretUrl(…)")
    }
}

/// Parses a rate that a sender can keep: at least one byte.
fn rate(text: &str) -> Result<BitRate, String> {
    let rate: BitRate = quantity(text)?;
    match rate.0 {
        0..8_000 => Err("it must be at least `8kbit/s`".to_owned()),
        _ => Ok(rate),
    }
}

/// Parses a tag interval, which the protocol holds as a signed 32-bit number.
fn tag_interval(text: &str) -> Result<u32, String> {
    let size: Bytes = quantity(text)?;
    u32::try_from(size.0)
        .ok()
        .filter(|size| (1..=i32::MAX as u32).contains(size))
        .ok_or_else(|| "it must be a size from `1B` to `2147483647B`".to_owned())
}
