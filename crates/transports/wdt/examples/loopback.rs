//! A directory goes over four encrypted connections of the loopback interface.

use std::{error::Error, fs, sync::Arc, thread};

use wdt_protocol::{
    VERSION,
    crypto::{Cipher, DEFAULT_IV_CHANGE_BYTES, Secret},
    files::{DirectoryOptions, DirectorySink, Selection, TreeSource},
    host::Host,
    net::{self, Listener},
    receiver, sender,
    url::ConnectionUrl,
};

/// Leaves the sockets as they are.
struct Defaults;

impl Host for Defaults {}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let (source, target) = (tempfile::tempdir()?, tempfile::tempdir()?);
    fs::write(source.path().join("greeting"), "hello")?;

    // The receiver listens; its URL has all that a sender needs, the key included.
    let listener = Listener::bind(&[0; 4], &Defaults)?;
    let url = ConnectionUrl {
        host: "127.0.0.1".to_owned(),
        ports: listener.ports().to_vec(),
        id: b"example".to_vec(),
        version: Some(VERSION),
        secret: Some(Secret::random(Cipher::Aes128Gcm, DEFAULT_IV_CHANGE_BYTES)?),
        iv_change_bytes: DEFAULT_IV_CHANGE_BYTES,
        resumption: false,
    };
    let text = url.to_secret_string();
    let sink = DirectorySink::new(target.path(), DirectoryOptions::default())?;
    let session = receiver::Session::new(sink.clone(), &url, receiver::Options::default());
    let received = thread::spawn(move || listener.receive(&Arc::new(session), &Defaults));

    // The sender, usually a program on another host that was given the URL.
    let url = ConnectionUrl::parse(&text)?;
    let files = TreeSource::selected(source.path(), &Selection::default())?;
    let session = sender::Session::new(files, &url, sender::Options::default())?;
    let sent = net::send(&Arc::new(session), &url, &Defaults)?;
    assert_eq!(sent.bytes, 5);

    // Files get their names once all have come.
    received.join().expect("no panic")?;
    assert_eq!(sink.commit()?, 1);
    assert_eq!(fs::read(target.path().join("greeting"))?, b"hello");
    Ok(())
}
