//! `regatta wdt send`.

use std::{
    fs,
    io::{self, BufRead, Read},
    path::Path,
    sync::Arc,
    time::Instant,
};

use regatta_model::study::is_host_name;
use wdt_protocol::{
    files::{Listed, Selection, TreeSource, read_manifest},
    net,
    sender::{Options, RateLimit, Session},
    source::Source,
    status::Status,
    url::{ConnectionUrl, MAX_URL_BYTES},
};

use super::{Terminal, failed, progress, transfer_error};
use crate::{
    args::wdt::{SecretUrl, SendArgs},
    exit::{Code, OrFailure as _, Result},
    hosts::remote::{self, Receiver},
    output,
};

/// Maximum number of skipped entries that are listed by name.
const NAMED: usize = 10;

/// Sends one transfer.
pub(super) fn send(args: &SendArgs) -> Result<Code> {
    let listed = args.manifest.as_deref().map(|path| manifest(args, path));
    let selection = Selection {
        include: args.include.clone(),
        exclude: args.exclude.clone(),
        follow_links: args.follow_links,
        manifest: listed.transpose()?,
    };
    let source = TreeSource::selected(&args.path, &selection)
        .hint("give a file or a directory that this user may read")
        .code(Status::SourceRead)?;
    for left_out in source.left_out().iter().take(NAMED) {
        output::err(&format!("warning: not sent: {left_out}"));
    }
    if let more @ 1.. = source.left_out().len().saturating_sub(NAMED) {
        output::err(&format!("warning: not sent: {more} more"));
    }
    let receiver = match args.url.0.split_once(':') {
        Some((host, directory)) if is_host_name(host) && !directory.starts_with("//") => {
            Some(receive_on(host, directory, args)?)
        }
        _ if args.overwrite => {
            let message =
                "whether files are replaced is for the receiver to say, which gave this URL";
            return Err(transfer_error(Status::Abort, message)
                .hint("give `--overwrite` to `regatta wdt receive`"));
        }
        _ => None,
    };
    let url = match &receiver {
        Some(receiver) => parse_url(&receiver.url)?,
        None => read_url(&args.url)?,
    };
    let host = Terminal::new(true, None)?;
    let files = source.files().len() as u64;
    let options = Options {
        block_bytes: args.block_size.0,
        checksum: args.checksum,
        tag_interval_bytes: args.tag_interval,
        rate_limit: rate_limit(args)?,
        ..Options::default()
    };
    let start = Instant::now();
    let session = Session::new(source, &url, options)
        .map_err(|failure| failed("nothing was sent", failure))?;
    let session = Arc::new(session);
    let sent = progress::shown(
        args.no_progress,
        || (session.payload_bytes(), Some(session.total_bytes())),
        || net::send(&session, &url, &host),
    );
    let report = match sent {
        Ok(report) => report,
        Err(failure) => {
            let message = "the transfer did not come to its end";
            // The receiver knows why it has ended the transfer.
            return Err(match receiver.and_then(Receiver::failure) {
                Some(reason) => {
                    transfer_error(failure.status, format!("at the receiver: {reason}"))
                        .context(message)
                }
                None => failed(message, failure),
            });
        }
    };
    if let Some(reason) = receiver.and_then(Receiver::end) {
        let message = "the receiver could not keep what was sent";
        return Err(transfer_error(Status::FileWrite, reason).context(message));
    }
    progress::summary("sent", files, report.bytes, start);
    Ok(Code::Measured)
}

/// Starts a receiver on a host of the hosts file.
fn receive_on(host: &str, directory: &str, args: &SendArgs) -> Result<Receiver> {
    let hosts_file = args.hosts_file.as_deref();
    remote::receive(host, directory, args.overwrite, hosts_file).map_err(|failure| {
        let (reasons, hint) = failure.message_and_hint();
        let message = format!("cannot receive on `{host}`");
        (transfer_error(Status::Connection, reasons).context(message)).hint(hint)
    })
}

/// Reads the files that a manifest lists.
fn manifest(args: &SendArgs, path: &Path) -> Result<Vec<Listed>> {
    let input = path == Path::new("-");
    if input && args.url.0 == "-" {
        let message = "standard input cannot be both the URL and the manifest";
        return Err(transfer_error(Status::Abort, message).hint("write the manifest to a file"));
    }
    if !args.path.is_dir() {
        let message = format!(
            "`{}` is no directory, below which a manifest names files",
            args.path.display()
        );
        let hint = "give a directory, or leave `--manifest` out";
        return Err(transfer_error(Status::Abort, message).hint(hint));
    }
    let mut text = Vec::new();
    let read = match input {
        true => io::stdin().lock().read_to_end(&mut text),
        false => fs::File::open(path).and_then(|mut file| file.read_to_end(&mut text)),
    };
    read.cannot("read the manifest", path)
        .code(Status::SourceRead)?;
    read_manifest(&text)
        .hint("name one file below the directory in each line")
        .code(Status::Abort)
}

/// Returns the limit for the requested rate.
fn rate_limit(args: &SendArgs) -> Result<Option<RateLimit>> {
    let Some(average) = args.rate else {
        return Ok(None);
    };
    let mut limit = RateLimit::average(average.0 / 8);
    if let Some(peak) = args.peak_rate {
        if peak < average {
            let message = format!("the peak rate {peak} is below the average of {average}");
            return Err(transfer_error(Status::Abort, message)
                .hint("raise `--peak-rate`, or lower `--rate`"));
        }
        limit = RateLimit::with_peak(average.0 / 8, peak.0 / 8);
    }
    if let Some(burst) = args.burst {
        limit.burst_bytes = burst.0.max(1);
    }
    Ok(Some(limit))
}

/// Reads the URL from the command line, or from the first line of standard input that is not empty.
fn read_url(url: &SecretUrl) -> Result<ConnectionUrl> {
    let mut line = String::new();
    let text = if url.0 == "-" {
        let mut input = io::stdin().lock().take(MAX_URL_BYTES as u64 + 1);
        while line.trim().is_empty() {
            line.clear();
            let read = input
                .read_line(&mut line)
                .context("cannot read the URL from standard input")
                .code(Status::Abort)?;
            if read == 0 {
                return Err(
                    transfer_error(Status::Abort, "no URL came on standard input")
                        .hint("pipe what `regatta wdt receive DIR` prints into it"),
                );
            }
        }
        &line
    } else {
        &url.0
    };
    parse_url(text)
}

fn parse_url(text: &str) -> Result<ConnectionUrl> {
    ConnectionUrl::parse(text)
        .hint("give it as the receiver printed it, in quotes")
        .code(Status::Abort)
}
