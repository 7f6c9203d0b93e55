//! `regatta wdt receive`.

use std::{sync::Arc, time::Instant};

use rand::RngExt as _;
use wdt_protocol::{
    VERSION,
    crypto::{Cipher, Secret},
    files::{DirectoryOptions, DirectorySink},
    net::Listener,
    receiver::{Options, Session},
    status::Status,
    url::ConnectionUrl,
};

use super::{Terminal, failed, progress, transfer_error};
use crate::{
    args::wdt::{Encryption, ReceiveArgs},
    exit::{Code, OrFailure as _, Result},
    output,
    provenance::node,
};

/// Receives one transfer.
pub(super) fn receive(args: &ReceiveArgs) -> Result<Code> {
    let host = Terminal::new(false, args.listen.as_ref().map(|it| it.with_port(0)))?;
    if args.until_end_of_input {
        host.stop_at_end_of_input()?;
    }
    let options = DirectoryOptions {
        overwrite: args.overwrite,
        sync: !args.no_sync,
        resume: args.resume,
        delete_extra_files: args.delete_extra_files,
    };
    let sink = DirectorySink::new(&args.dir, options)
        .cannot("write into", &args.dir)
        .hint("give a directory that you may write into")
        .code(Status::FileWrite)?;
    let listener = Listener::bind(&ports(args)?, &host)
        .context("cannot listen")
        .hint(match args.start_port {
            Some(_) => "choose another `--start-port`, or leave it out",
            None => "choose another address with `--listen`, or leave it out",
        })
        .code(Status::Connection)?;
    let url = url(args, &listener)?;
    output::out(&format!("{}\n", url.to_secret_string())).code(Status::Error)?;

    let options = Options {
        tag_interval_bytes: args.tag_interval,
        first_connection: args.wait,
        ..Options::default()
    };
    let session = Arc::new(Session::new(sink.clone(), &url, options));
    let listening = Instant::now();
    let report = progress::shown(
        args.no_progress,
        || (session.payload_bytes(), session.total_bytes()),
        || listener.receive(&session, &host),
    );
    let report = report.map_err(|failure| {
        let message = match args.resume {
            true => "the transfer did not come to its end; blocks that were counted are kept for `--resume`",
            false => "nothing was received: the transfer did not come to its end",
        };
        failed(message, failure)
    })?;
    let files = sink
        .commit()
        .context("all arrived, and not every file could be given its name; the sender was told that all is well")
        .hint("move what is in the way aside, and send again with `--overwrite`")
        .code(Status::FileWrite)?;
    let start = host.connected_at.get().copied().unwrap_or(listening);
    progress::summary("received", files, report.bytes, start);
    Ok(Code::Measured)
}

fn ports(args: &ReceiveArgs) -> Result<Vec<u16>> {
    let Some(first) = args.start_port else {
        return Ok(vec![0; usize::from(args.ports)]);
    };
    let last = first.checked_add(args.ports - 1).ok_or_else(|| {
        let message = format!("there are no {} ports from {first} on", args.ports);
        transfer_error(Status::Abort, message)
            .hint("choose a lower `--start-port`, or fewer `--ports`")
    })?;
    Ok((first..=last).collect())
}

fn url(args: &ReceiveArgs, listener: &Listener) -> Result<ConnectionUrl> {
    let cipher = match args.encryption {
        Encryption::None => None,
        Encryption::Aes128Ctr => Some(Cipher::Aes128Ctr),
        Encryption::Aes128Gcm => Some(Cipher::Aes128Gcm),
    };
    let secret = cipher.map(|cipher| {
        Secret::random(cipher, args.iv_change.0)
            .context("cannot make a key")
            .code(Status::Encryption)
    });
    Ok(ConnectionUrl {
        host: match (&args.host, &args.listen) {
            (Some(host), _) => host.clone(),
            (None, Some(address)) => address.to_string(),
            (None, None) => own_name(),
        },
        ports: listener.ports().to_vec(),
        id: rand::rng().random::<u64>().to_string().into_bytes(),
        version: Some(VERSION),
        secret: secret.transpose()?,
        iv_change_bytes: args.iv_change.0,
        resumption: args.resume,
    })
}

fn own_name() -> String {
    Some(node())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "localhost".to_owned())
}
