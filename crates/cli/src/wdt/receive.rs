//! `regatta wdt receive`.

use std::{fs, sync::Arc, time::Instant};

use rand::RngExt as _;
use regatta_transport_wdt::{
    VERSION,
    crypto::{Cipher, Key, Secret},
    files::{DirectoryOptions, DirectorySink},
    net::Listener,
    receiver::{Options, Session},
    status::Status,
    url::ConnectionUrl,
};

use super::{Terminal, Trouble, failed, progress};
use crate::{
    args::wdt::{Encryption, ReceiveArgs},
    output,
};

/// Receives one transfer.
pub(super) fn receive(args: &ReceiveArgs) -> Result<(), Trouble> {
    let host = Terminal::new(false, args.listen)?;
    if args.until_end_of_input {
        host.stop_at_end_of_input()
            .map_err(Trouble::io(Status::Error, "cannot start a thread"))?;
    }
    let options = DirectoryOptions {
        overwrite: args.overwrite,
        sync: !args.no_sync,
        resume: args.resume,
    };
    let what = format!("cannot write into `{}`", args.dir.display());
    let sink = DirectorySink::new(&args.dir, options).map_err(|error| {
        Trouble::io(Status::FileWrite, what)(error).hint("give a directory that you may write into")
    })?;
    let listener = Listener::bind(&ports(args)?, &host).map_err(|error| {
        let hint = match args.start_port {
            Some(_) => "choose another `--start-port`, or leave it out",
            None => "choose another address with `--listen`, or leave it out",
        };
        Trouble::io(Status::Connection, "cannot listen")(error).hint(hint)
    })?;
    let url = url(args, &listener)?;
    output::out(&format!("{}\n", url.to_secret_string()))
        .map_err(|error| Trouble::new(Status::Error, error.to_string()))?;

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
        let what = match args.resume {
            true => "the transfer did not come to its end; blocks that were counted are kept for `--resume`",
            false => "nothing was received: the transfer did not come to its end",
        };
        failed(what, &failure)
    })?;
    let files = sink.commit().map_err(|error| {
        Trouble::io(
            Status::FileWrite,
            "all arrived, and not every file could be given its name; the sender was told that all is well",
        )(error)
        .hint("move what is in the way aside, and send again with `--overwrite`")
    })?;
    let begun = host.came.get().copied().unwrap_or(listening);
    progress::summary("received", files, report.bytes, begun);
    Ok(())
}

fn ports(args: &ReceiveArgs) -> Result<Vec<u16>, Trouble> {
    let Some(first) = args.start_port else {
        return Ok(vec![0; usize::from(args.ports)]);
    };
    match first.checked_add(args.ports - 1) {
        Some(last) => Ok((first..=last).collect()),
        None => Err(Trouble::new(
            Status::Abort,
            format!("there are no {} ports from {first} on", args.ports),
        )
        .hint("choose a lower `--start-port`, or fewer `--ports`")),
    }
}

fn url(args: &ReceiveArgs, listener: &Listener) -> Result<ConnectionUrl, Trouble> {
    let cipher = match args.encryption {
        Encryption::None => None,
        Encryption::Aes128Ctr => Some(Cipher::Aes128Ctr),
        Encryption::Aes128Gcm => Some(Cipher::Aes128Gcm),
    };
    let secret = match cipher {
        None => None,
        Some(cipher) => Some(Secret {
            cipher,
            key: Key::random().map_err(|error| {
                Trouble::new(Status::Encryption, "cannot make a key").because(error)
            })?,
            iv_change_bytes: args.iv_change.0,
        }),
    };
    Ok(ConnectionUrl {
        host: match (&args.host, args.listen) {
            (Some(host), _) => host.clone(),
            (None, Some(address)) => address.to_string(),
            (None, None) => own_name(),
        },
        ports: listener.ports().to_vec(),
        id: rand::rng().random::<u64>().to_string().into_bytes(),
        version: Some(VERSION),
        secret,
        iv_change_bytes: args.iv_change.0,
        resumption: args.resume,
    })
}

fn own_name() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname")
        .map(|name| name.trim().to_owned())
        .ok()
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "localhost".to_owned())
}
