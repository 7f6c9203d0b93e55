//! Tests of the page, the socket, and of readers that hang.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
};

use regatta_control::{Host, Progress};

use super::*;
use crate::tests::{report, started, trial, trial_started};

/// Run with a page and metrics, before its first event.
struct Served {
    views: ViewServer,
    listener: LiveListener,
    dir: tempfile::TempDir,
    address: String,
    /// Path of the page, with its token.
    path: String,
}

impl Served {
    fn new() -> Self {
        let views = Views {
            web: Some("127.0.0.1:0".parse().expect("an address")),
            textfile: None,
            ..Views::default()
        };
        let dir = tempfile::tempdir().expect("a directory");
        let (views, url) = ViewServer::start(&views, dir.path(), Vec::new()).expect("views");
        let url = url.expect("the address of the page");
        let (address, path) = url
            .strip_prefix("http://")
            .and_then(|rest| rest.split_once('/'))
            .expect("an address and a path");
        Self {
            listener: views.listener(),
            views,
            dir,
            address: address.to_owned(),
            path: format!("/{path}"),
        }
    }

    fn on_event(&mut self, event: &Event) {
        self.listener
            .on_event(event)
            .expect("the listener never fails");
    }

    fn send(&self, path: &str, host: &str, headers: &str) -> TcpStream {
        send(&self.address, path, host, headers)
    }

    /// Returns the response to a request.
    fn get(&self, path: &str, host: &str, headers: &str) -> String {
        let headers = format!("Connection: close\r\n{headers}");
        let mut text = String::new();
        let mut stream = self.send(path, host, &headers);
        stream.read_to_string(&mut text).expect("a response");
        text
    }
}

/// Sends a request.
fn send(address: &str, path: &str, host: &str, headers: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("connected");
    let timeout = Some(Duration::from_secs(30));
    stream.set_read_timeout(timeout).expect("a time-out");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    stream
}

/// Reads events of a stream until one has this text, and returns it.
fn event_with(stream: &mut impl BufRead, text: &str) -> String {
    let mut line = String::new();
    while !line.contains(text) {
        line.clear();
        let read = stream.read_line(&mut line).expect("a line");
        assert!(read > 0, "the events ended before `{text}`");
    }
    line
}

#[test]
fn page_requires_its_token_and_its_own_site() {
    let served = Served::new();
    let (address, path) = (&*served.address, &*served.path);
    let page = served.get(path, address, "");
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    for header in [
        "content-security-policy: default-src 'none'; script-src 'self'",
        "referrer-policy: no-referrer",
        "x-content-type-options: nosniff",
        "cache-control: no-store",
    ] {
        assert!(page.contains(header), "`{header}` is not in\n{page}");
    }
    for file in ["", "live.js", "live.css"] {
        let text = served.get(&format!("{path}{file}"), address, "");
        assert!(text.starts_with("HTTP/1.1 200"), "{file}: {text}");
        let body = text.split_once("\r\n\r\n").expect("a body").1;
        let body = body.replace("http://www.w3.org/2000/svg", "");
        assert!(!body.contains("http"), "{file} refers to another server");
    }
    let port = address.rsplit_once(':').expect("a port").1;
    let by_name = served.get(path, &format!("localhost:{port}"), "");
    assert!(by_name.starts_with("HTTP/1.1 200"), "{by_name}");
    for (path, host, headers, status) in [
        ("/", address, "", 404),
        ("/00000000000000000000000000000000/", address, "", 404),
        (path, "example.org", "", 403),
        (path, &*format!("example.org:{port}"), "", 403),
        (path, address, "Sec-Fetch-Site: cross-site\r\n", 403),
    ] {
        let text = served.get(path, host, headers);
        let expected = format!("HTTP/1.1 {status}");
        assert!(
            text.starts_with(&expected),
            "{path} {host} {headers}: {text}"
        );
    }
}

#[test]
fn a_request_names_one_host() {
    let served = Served::new();
    let (address, path) = (&*served.address, &*served.path);
    for other in [address, "example.org"] {
        let two = served.get(path, address, &format!("Host: {other}\r\n"));
        assert!(two.starts_with("HTTP/1.1 400"), "{two}");
    }
    let elsewhere = served.get(&format!("http://example.org{path}"), address, "");
    assert!(elsewhere.starts_with("HTTP/1.1 403"), "{elsewhere}");
}

/// Strangers that say nothing, or not all of a request, and more of them than connections are served.
#[test]
fn slow_strangers_do_not_lock_the_page_out() {
    let mut served = Served::new();
    served.on_event(&started());
    let path = format!("{}events", served.path);
    let mut events = BufReader::new(served.send(&path, &served.address, ""));
    event_with(&mut events, "Two transports");
    let strangers: Vec<TcpStream> = (0..300)
        .map(|number| {
            let mut stranger = TcpStream::connect(&served.address).expect("connected");
            if number % 2 == 0 {
                // It may be closed already.
                let _ = stranger.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n");
            }
            stranger
        })
        .collect();
    let page = served.get(&served.path, &served.address, "");
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    // The page that is open stays.
    served.on_event(&trial_started(0, "tcp"));
    event_with(&mut events, "\"tcp\"");
    drop(strangers);
}

#[test]
fn browser_gets_the_state_and_its_changes_until_the_end() {
    let mut served = Served::new();
    served.on_event(&started());
    let path = format!("{}events", served.path);
    let mut events = BufReader::new(served.send(&path, &served.address, ""));
    event_with(&mut events, "Two transports");
    served.on_event(&trial_started(0, "tcp"));
    let progress = served.views.progress();
    let delivered = Progress {
        elapsed_ns: 500_000_000,
        bytes_delivered: 1_000_000,
        ..Progress::default()
    };
    progress.on_progress(report(Host::Server, delivered));
    event_with(&mut events, "\"goodput_bps\":16000000.0");
    assert!(progress.interval().is_some(), "a reader exists");
    let trial = Box::new(trial(0, 1, "tcp", Some(40e6)));
    served.on_event(&Event::TrialEnded { trial, more: false });
    event_with(&mut events, "\"measured\":1");
    let ending = regatta_engine::Ending::Complete;
    served.on_event(&Event::RunEnded { ending });
    drop(served.views);
    event_with(&mut events, "\"complete\":true");
}

/// A run whose listener fails, as on a full disk, sends no last event.
#[test]
fn run_stopped_by_an_error_is_over_in_every_view() {
    let mut served = Served::new();
    served.on_event(&started());
    served.on_event(&trial_started(0, "tcp"));
    let path = format!("{}events", served.path);
    let mut events = BufReader::new(served.send(&path, &served.address, ""));
    event_with(&mut events, "Two transports");
    let views = Views {
        web: Some("127.0.0.1:0".parse().expect("an address")),
        ..Views::default()
    };
    let (attached, url) = Attached::start(&views, served.dir.path()).expect("attached");
    let url = url.expect("the address of its page");
    let (address, page) = url["http://".len()..].split_once('/').expect("a path");
    let path = format!("/{page}events");
    let mut attached_events = BufReader::new(send(address, &path, address, ""));
    event_with(&mut attached_events, "Two transports");
    drop(served.views);
    event_with(&mut events, "\"reason\":\"it stopped with an error\"");
    let ended = attached.wait();
    assert!(
        matches!(
            &ended,
            Activity::Ended {
                complete: false,
                ..
            }
        ),
        "{ended:?}"
    );
}

#[test]
fn run_without_views_has_no_readers() {
    let dir = tempfile::tempdir().expect("a directory");
    let (views, url) =
        ViewServer::start(&Views::default(), dir.path(), Vec::new()).expect("no views");
    assert_eq!((url, views.progress().interval()), (None, None));
}

/// A browser that opens connections and reads nothing.
#[test]
fn hanging_readers_do_not_block_the_run() {
    let mut served = Served::new();
    served.on_event(&started());
    let path = format!("{}events", served.path);
    let hung: Vec<TcpStream> = (0..20)
        .map(|_| served.send(&path, &served.address, ""))
        .collect();
    let silent: Vec<TcpStream> = (0..100)
        .filter_map(|_| TcpStream::connect(&served.address).ok())
        .collect();
    served.on_event(&trial_started(0, "tcp"));
    let progress = served.views.progress();
    for step in 1..20_000 {
        let delivered = Progress {
            elapsed_ns: step * 250_000_000,
            bytes_delivered: step * 1_000_000,
            ..Progress::default()
        };
        progress.on_progress(report(Host::Server, delivered));
    }
    let stopped_at = std::time::Instant::now();
    drop(served.views);
    // Waiting for readers that hang would never end; the thread has the lowest priority on a machine that other tests use.
    let elapsed = stopped_at.elapsed();
    assert!(
        elapsed < Duration::from_secs(120),
        "the end took {elapsed:?}"
    );
    drop((hung, silent));
}

#[test]
fn another_process_gets_the_state_over_the_socket() {
    let mut served = Served::new();
    let none = Attached::start(&Views::default(), served.dir.path());
    assert!(
        matches!(none, Err(LiveError::NoRun { .. })),
        "the run has not begun"
    );
    served.on_event(&started());
    let socket = served.dir.path().join(crate::SOCKET_NAME);
    // The page's events come after the socket is there.
    let path = format!("{}events", served.path);
    let mut events = BufReader::new(served.send(&path, &served.address, ""));
    event_with(&mut events, "Two transports");
    let views = Views {
        web: Some("127.0.0.1:0".parse().expect("an address")),
        ..Views::default()
    };
    let (attached, url) = Attached::start(&views, served.dir.path()).expect("attached");
    let url = url.expect("the address of its page");
    let (address, page) = url["http://".len()..].split_once('/').expect("a path");
    let path = format!("/{page}events");
    let mut attached_events = BufReader::new(send(address, &path, address, ""));
    event_with(&mut attached_events, "Two transports");
    let ending = regatta_engine::Ending::Complete;
    served.on_event(&Event::RunEnded { ending });
    drop(served.views);
    let ended = attached.wait();
    assert!(
        matches!(ended, Activity::Ended { complete: true, .. }),
        "{ended:?}"
    );
    assert!(!socket.exists(), "the socket stays");
}
