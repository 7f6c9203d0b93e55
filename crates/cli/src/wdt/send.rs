//! `regatta wdt send`.

use std::{
    error::Error,
    io::{self, BufRead, Read},
    sync::Arc,
    time::Instant,
};

use regatta_transport_wdt::{
    files::TreeSource,
    net,
    sender::{Options, Session},
    source::Source,
    status::Status,
    url::{ConnectionUrl, MAX_URL_BYTES, UrlError},
};

use super::{Terminal, Trouble, failed, progress};
use crate::{
    args::wdt::{SecretUrl, SendArgs},
    output,
};

/// How many things that are left out are named.
const NAMED: usize = 10;

/// Sends one transfer.
pub(super) fn send(args: &SendArgs) -> Result<(), Trouble> {
    let url = read_url(&args.url)?;
    let source = TreeSource::new(&args.path).map_err(|error| {
        let trouble = Trouble::new(Status::SourceRead, error.to_string());
        match error.source() {
            Some(cause) => trouble.because(cause),
            None => trouble,
        }
    })?;
    for left_out in source.left_out().iter().take(NAMED) {
        output::err(&format!("warning: not sent: {left_out}"));
    }
    if let more @ 1.. = source.left_out().len().saturating_sub(NAMED) {
        output::err(&format!("warning: not sent: {more} more"));
    }
    let host = Terminal::new(None)?;
    let files = source.files().len() as u64;
    let options = Options {
        block_bytes: args.block_size.0,
        checksum: args.checksum,
        tag_interval_bytes: args.tag_interval,
        ..Options::default()
    };
    let begun = Instant::now();
    let session = Session::new(source, &url, options)
        .map_err(|failure| failed("nothing was sent", &failure))?;
    let session = Arc::new(session);
    let report = progress::shown(
        args.no_progress,
        || (session.payload_bytes(), Some(session.total_bytes())),
        || net::send(&session, &url, &host),
    )
    .map_err(|failure| failed("the transfer did not come to its end", &failure))?;
    progress::summary("sent", files, report.bytes, begun);
    Ok(())
}

/// The URL from the command line, or the first line of standard input that is not empty.
fn read_url(given: &SecretUrl) -> Result<ConnectionUrl, Trouble> {
    let mut line = String::new();
    let text = if given.0 == "-" {
        let mut input = io::stdin().lock().take(MAX_URL_BYTES as u64 + 1);
        while line.trim().is_empty() {
            line.clear();
            let read = input.read_line(&mut line).map_err(Trouble::io(
                Status::Abort,
                "cannot read the URL from standard input",
            ))?;
            if read == 0 {
                return Err(Trouble::new(Status::Abort, "no URL came on standard input")
                    .hint("pipe what `regatta wdt receive DIR` prints into it"));
            }
        }
        &line
    } else {
        &given.0
    };
    ConnectionUrl::parse(text).map_err(|error| {
        let hint = match error {
            UrlError::Resumption => "start the receiver without resumption",
            _ => "give it as the receiver printed it, in quotes",
        };
        Trouble::new(Status::Abort, error.to_string()).hint(hint)
    })
}
