//! Tests of `regatta server` and `regatta client` over this machine's loopback.

use std::{
    io::{BufRead, BufReader, ErrorKind, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use regatta_test_support::machine::repetitions;
use serde_json::Value;

use crate::{
    happy::assert_fits,
    help::{Bench, Done, is, signal},
};

const EVENTS_SCHEMA: &str = include_str!("../../../../schemas/client-events.schema.json");
const WHOLE_SCHEMA: &str = include_str!("../../../../schemas/client.schema.json");

/// Server that ends with the test.
pub struct Server {
    pub child: Child,
    output: BufReader<ChildStdout>,
    /// Address that a client is given: `host:port#token`.
    pub address: String,
}

impl Server {
    pub fn start(bench: &Bench, args: &[&str]) -> Self {
        Self::start_on(bench, "127.0.0.1", args)
    }

    pub fn start_on(bench: &Bench, local: &str, args: &[&str]) -> Self {
        let free = TcpListener::bind((local, 0)).and_then(|it| it.local_addr());
        let port = free.expect("a free port").port().to_string();
        let mut all = vec!["server", "-B", local, "-p", &port];
        all.extend(args);
        Self::of(bench.regatta(&all))
    }

    /// Starts a server by this command.
    fn of(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("it starts");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        while !line.starts_with("regatta client") {
            line.clear();
            assert_ne!(output.read_line(&mut line).expect("a line"), 0, "it ended");
        }
        let address = line.split('\'').nth(1).expect("an address").to_owned();
        Self {
            child,
            output,
            address,
        }
    }

    /// Returns host and port.
    pub fn host_and_port(&self) -> (&str, &str) {
        let (host_and_port, _) = self.address.split_once('#').expect("a token");
        host_and_port.rsplit_once(':').expect("a port")
    }

    pub fn client(&self, bench: &Bench, args: &[&str]) -> Done {
        let mut all = vec!["client", &self.address];
        all.extend(args);
        bench.run(&all)
    }

    /// Ends the server, and returns the rest of its output.
    fn end(mut self) -> String {
        let _ = self.child.kill();
        self.rest()
    }

    /// Waits for the end of the server, and returns the rest of its output.
    fn rest(mut self) -> String {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).expect("text");
        let _ = self.child.wait();
        rest
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn events(text: &str) -> Vec<Value> {
    let lines = text.lines().filter(|line| line.starts_with('{'));
    lines
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

fn goodput(ended: &Value) -> f64 {
    ended["metrics"]["goodput_bps"].as_f64().expect("a rate")
}

/// Replaces the file of a server, as an update does, and measures against it.
#[test]
fn a_server_goes_on_as_the_program_that_it_is_when_its_file_is_replaced() {
    let bench = Bench::new();
    let program = bench.path("regatta");
    std::fs::copy(env!("CARGO_BIN_EXE_regatta"), &program).expect("a copy");
    let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|it| it.local_addr());
    let port = free.expect("a free port").port().to_string();
    let mut command = bench.command(&program);
    command.args(["server", "-B", "127.0.0.1", "-p", &port]);
    let server = Server::of(command);
    let new = bench.write("new", "#!/bin/sh\nexit 1\n");
    std::fs::rename(new, &program).expect("replaced");
    let done = server.client(&bench, &["--transport", "tcp", "-t", "1"]);
    done.assert_code(0);
}

#[test]
fn both_ends_print_the_same_intervals() {
    let bench = Bench::new();
    // It ends when it has written all of its only client.
    let server = Server::start(&bench, &["--json", "-1"]);
    // Many more intervals than are asked for below: a machine that pauses takes several as one.
    let done = server.client(&bench, &["-t", "4", "-i", "0.25", "--json-stream"]);
    done.assert_code(0);
    let here = events(&done.stdout);
    let there = events(&server.rest());
    let last = here.last().expect("a line");
    assert!(
        is(last, "ended") && last["outcome"] == "measured",
        "{done:#?}"
    );
    let intervals = here.iter().filter(|it| is(it, "interval"));
    let intervals: Vec<&Value> = intervals.collect();
    assert!(intervals.len() >= 3, "{done:#?}");
    let sum: u64 = intervals
        .iter()
        .map(|it| it["forward"]["bytes"].as_u64().expect("bytes"))
        .sum();
    let delivered = last["metrics"]["bytes_delivered"].as_f64().expect("bytes");
    // The rest of less than a tenth of an interval is in no line.
    assert!(sum > 0 && sum as f64 <= delivered, "{sum} of {delivered}");
    assert!(
        intervals
            .iter()
            .any(|it| it["round_trip_delay_mean_ns"].is_f64()),
        "{done:#?}"
    );
    assert!(last["round_trips_per_minute"].is_f64(), "{done:#?}");
    for event in here.iter().chain(&there) {
        assert_fits(EVENTS_SCHEMA, event);
    }
    assert_eq!(here.len(), there.len(), "{there:#?}");
    for (here, mut there) in here.into_iter().zip(there) {
        assert_eq!(there["client"], 1);
        there.as_object_mut().expect("an object").remove("client");
        assert_eq!(here, there);
    }
    bench.assert_nothing_left();
}

#[test]
fn reverse_transfer_is_connected_by_the_client() {
    let bench = Bench::new();
    let server = Server::start(&bench, &[]);
    let done = server.client(&bench, &["-n", "2M", "-R", "-J"]);
    done.assert_code(0);
    let whole: Value = serde_json::from_str(&done.stdout).expect("JSON");
    assert_fits(WHOLE_SCHEMA, &whole);
    let ended = &whole["trials"][0]["ended"];
    assert_eq!(ended["metrics"]["bytes_delivered"], f64::from(2 << 20));
    assert!(goodput(ended) > 0.0);
}

#[test]
fn datagrams_in_both_directions_have_the_same_figures_at_both_ends() {
    let bench = Bench::new();
    let server = Server::start(&bench, &["--json"]);
    let args = [
        "-u", "--bidir", "-b", "10M", "-P", "2", "-t", "1", "-i", "0.25",
    ];
    let done = server.client(&bench, &[&args[..], &["--json-stream"]].concat());
    done.assert_code(0);
    let whole = server.client(&bench, &[&args[..], &["-J"]].concat());
    whole.assert_code(0);
    assert_fits(
        WHOLE_SCHEMA,
        &serde_json::from_str(&whole.stdout).expect("JSON"),
    );
    let here = events(&done.stdout);
    let mut there = events(&server.end());
    assert!(there.len() > here.len(), "{there:#?}");
    for (here, there) in here.iter().zip(&mut there) {
        assert_fits(EVENTS_SCHEMA, here);
        assert_fits(EVENTS_SCHEMA, there);
        there.as_object_mut().expect("an object").remove("client");
        assert_eq!(here, there);
    }
    let ended = here.last().expect("a line");
    assert!(is(ended, "ended"), "{ended}");
    let metric = |name: &str| ended["metrics"][name].as_f64();
    let [sent, delivered, lost] = ["messages_sent", "messages_delivered", "messages_lost"]
        .map(|name| metric(name).expect(name));
    assert_eq!(sent, delivered + lost, "{ended:#}");
    // Two flows each way; a busy machine sends less, and never more.
    let goodput = metric("goodput_bps").expect("a rate");
    assert!(goodput > 0.0 && goodput <= 40e6 * 1.01, "{ended:#}");
    for direction in ["forward", "reverse"] {
        let jitter = metric(&format!("interarrival_jitter_{direction}_ns"));
        assert!(jitter.is_some(), "{ended:#}");
        assert!(
            metric(&format!("message_loss_{direction}_ratio")).is_some(),
            "{ended:#}"
        );
    }
}

#[test]
fn json_has_the_error_that_ended_the_measurement() {
    let bench = Bench::new();
    let mut server = Server::start(&bench, &[]);
    let mut client = bench.regatta(&["client", &server.address, "-t", "300", "--json-stream"]);
    let mut client = client.stdout(Stdio::piped()).spawn().expect("it starts");
    let lines = BufReader::new(client.stdout.take().expect("a pipe")).lines();
    let mut events = lines.map(|line| {
        let event: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
        assert_fits(EVENTS_SCHEMA, &event);
        event
    });
    assert!(events.any(|event| event["event"] == "interval"));
    let _ = server.child.kill();
    let _ = server.child.wait();
    let last = events.last().expect("a line");
    assert_eq!(last["event"], "failed", "{last}");
    assert!(
        last["hint"]
            .as_str()
            .is_some_and(|hint| hint.contains("regatta server"))
    );
    assert_eq!(client.wait().expect("it ends").code(), Some(1));

    let done = bench.run(&["client", &server.address, "-J"]);
    done.assert_code(1);
    let whole: Value = serde_json::from_str(&done.stdout).expect("JSON");
    assert_fits(WHOLE_SCHEMA, &whole);
    let message = whole["error"]["message"].as_str().expect("a message");
    assert!(message.contains("Connection refused"), "{message}");
}

#[test]
fn several_trials_have_an_interval_and_a_report_that_is_kept() {
    let bench = Bench::new();
    let server = Server::start(&bench, &[]);
    let dir = bench.path("kept").display().to_string();
    let args = ["-n", "500K", "--repeat", "3", "--save", &dir];
    let done = server.client(&bench, &args);
    done.assert_code(0);
    assert!(done.stdout.contains("3 rounds"), "{done:#?}");
    for file in ["results.sqlite", "report.html", "summary.json"] {
        assert!(bench.path("kept").join(file).is_file(), "{file}");
    }
}

#[test]
fn transports_have_the_labels_of_a_run() {
    let bench = Bench::new();
    // A label is no second transport, whose bytes would be too many.
    let server = Server::start(&bench, &["--max-bytes", "150K"]);
    let args = ["--transport", "tcp:cc=reno,label=Reno", "-n", "100K"];
    let done = server.client(&bench, &args);
    done.assert_code(0);
    assert!(done.stdout.starts_with("Reno, "), "{done:#?}");
}

#[test]
fn connections_without_token_get_no_answer_and_block_no_client() {
    let bench = Bench::new();
    let server = Server::start(&bench, &[]);
    let (address, token) = server.address.split_once('#').expect("a token");
    let mut silent = Vec::new();
    for _ in 0..50 {
        silent.push(TcpStream::connect(address).expect("it listens"));
    }
    let mut wrong = TcpStream::connect(address).expect("it listens");
    wrong.write_all(&[0x16; 200]).expect("sent");
    let mut answer = Vec::new();
    let within = Some(Duration::from_secs(20));
    wrong.set_read_timeout(within).expect("a time");
    let _ = wrong.read_to_end(&mut answer);
    assert_eq!(answer, b"");
    // Another token: half of the secret is another one.
    let other = format!("{address}#AAAA{}", &token[4..]);
    let done = bench.run(&["client", &other, "-n", "1K"]);
    done.assert_code(1);
    done.assert_stderr_contains("does not accept the token");
    server.client(&bench, &["-n", "1K"]).assert_code(0);
    bench.run(&["client", address, "-n", "1K"]).assert_code(2);
}

/// Bytes of the first message of a client.
const FIRST_MESSAGE_BYTES: usize = 56;

/// Returns a first message that a client with the server's token has sent, and not to the server.
fn first_message(bench: &Bench, server: &Server) -> Vec<u8> {
    let (_, token) = server.address.split_once('#').expect("a token");
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    let mut client = bench.regatta(&["client", &format!("{address}#{token}"), "-n", "1K"]);
    client.stdout(Stdio::null()).stderr(Stdio::null());
    let mut client = client.spawn().expect("it starts");
    let (mut stream, _) = listener.accept().expect("a connection");
    let mut message = vec![0; FIRST_MESSAGE_BYTES];
    stream.read_exact(&mut message).expect("a first message");
    let _ = client.kill();
    client.wait().expect("it ends");
    message
}

#[test]
fn a_repeated_first_message_opens_no_session_and_locks_nobody_out() {
    let bench = Bench::new();
    let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|it| it.local_addr());
    let port = free.expect("a free port").port();
    let mut limited = bench.command("sh");
    limited.arg("-c").arg(format!(
        "ulimit -n 200; exec {} server -B 127.0.0.1 -p {port}",
        env!("CARGO_BIN_EXE_regatta")
    ));
    let server = Server::of(limited);
    let message = first_message(&bench, &server);
    let repeated: Vec<TcpStream> = (0..400)
        .map(|_| {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
            // The server may have closed it already.
            let _ = stream.write_all(&message);
            stream
        })
        .collect();
    server.client(&bench, &["-n", "1K"]).assert_code(0);
    // Those before the client have been read.
    let open = repeated.iter().filter(|stream| {
        stream.set_nonblocking(true).expect("a flag");
        let read = (&mut &**stream).read(&mut [0]);
        read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    });
    let open = open.count();
    assert!(open <= 1, "{open} are open");
}

#[test]
fn a_server_that_does_not_answer_says_nothing_about_the_token() {
    let bench = Bench::new();
    let token = Server::start(&bench, &[]);
    let (_, token) = token.address.split_once('#').expect("a token");
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    let named = format!("{address}#{token}");
    let done = bench.run(&["client", &named, "-n", "1K", "--connect-timeout", "300"]);
    done.assert_code(1);
    done.assert_stderr_contains("took the connection and did not answer within 300 ms");
    done.assert_stderr_contains("give `--connect-timeout 900`");
    assert!(!done.stderr.contains("does not accept"), "{done:#?}");
}

/// A path on which the first packets after the connection are lost two times: the client sends them again after 3 s.
#[test]
fn a_token_is_right_on_a_path_that_delays_the_first_message() {
    let bench = Bench::new();
    let server = Server::start(&bench, &[]);
    let (target, token) = server.address.split_once('#').expect("a token");
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    let carry = |from: TcpStream, to: TcpStream, delay: Duration| {
        std::thread::spawn(move || {
            std::thread::sleep(delay);
            let _ = std::io::copy(&mut &from, &mut &to);
            let _ = to.shutdown(Shutdown::Write);
        })
    };
    let named = format!("{address}#{token}");
    let args = ["client", &named, "-n", "1K", "--connect-timeout", "60000"];
    let mut client = bench.regatta(&args);
    let client = client.stdout(Stdio::piped()).stderr(Stdio::piped());
    let client = client.spawn().expect("it starts");
    let (near, _) = listener.accept().expect("a connection");
    let far = TcpStream::connect(target).expect("it listens");
    let clone = |stream: &TcpStream| stream.try_clone().expect("a descriptor");
    let threads = [
        carry(clone(&near), clone(&far), Duration::from_millis(4500)),
        carry(far, near, Duration::ZERO),
    ];
    let output = client.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    for thread in threads {
        thread.join().expect("an end");
    }
}

/// Starts a server in a network of its own, which a script makes, and runs the line that it prints with these arguments.
fn run_the_line(network: &str, server: &str, client: &str) -> Done {
    let script = format!(
        "mkfifo line
         {regatta} server {server} -1 >line &
         exec 3<line
         while read -r line <&3; do
           case \"$line\" in 'regatta client'*) break;; esac
         done
         echo \"$line\"
         eval \"$line {client}\"",
        regatta = env!("CARGO_BIN_EXE_regatta"),
    );
    in_a_network(network, &script)
}

/// Runs a script in a network of its own with the interface `lone`, which another script sets up.
fn in_a_network(network: &str, script: &str) -> Done {
    let bench = Bench::new();
    let script = format!(
        "ip link set lo up
         ip link add lone type veth peer name other
         ip link set lone up; ip link set other up
         {network}
         regatta() {{ {regatta} \"$@\"; }}
         {script}",
        regatta = env!("CARGO_BIN_EXE_regatta"),
    );
    let mut shell = bench.command("unshare");
    shell.args([
        "--user",
        "--map-root-user",
        "--net",
        "--kill-child",
        "--fork",
    ]);
    shell.args(["sh", "-e", "-c", &script]);
    Done::from(shell.output().expect("unshare"))
}

#[test]
fn the_line_of_a_server_without_a_default_route_has_its_address() {
    let network = "ip addr add 198.51.100.7/24 dev lone";
    let done = run_the_line(network, "-p 5301", "-n 1K");
    done.assert_code(0);
    let line = "regatta client '198.51.100.7:5301#";
    assert!(done.stdout.starts_with(line), "{done:#?}");
}

#[test]
fn link_local_addresses_are_measured_over() {
    let network = "ip addr add fe80::7/64 dev lone nodad";
    let transports =
        "tcp,tcp-tls,udp,udp-reliable,sctp-userspace,quic-quinn,quic-noq,quic-quiche,quic-s2n,wdt";
    let client = format!("-n 100K -J --transport {transports}");
    let done = run_the_line(network, "-B fe80::7%lone -p 5301", &client);
    done.assert_code(0);
    let line = "regatta client '[fe80::7%lone]:5301#";
    assert!(done.stdout.starts_with(line), "{done:#?}");
    let measured = done.stdout.matches("\"outcome\":\"measured\"").count();
    assert_eq!(measured, transports.split(',').count(), "{done:#?}");
}

/// Every connection of `wdt`, of which some are made by the receiving end, comes from the address that was given.
#[test]
fn wdt_is_measured_from_an_address_of_the_client() {
    let bench = Bench::new();
    let server = Server::start(&bench, &[]);
    let done = server.client(
        &bench,
        &["-B", "127.0.0.9", "--transport", "wdt", "-n", "1M", "-J"],
    );
    done.assert_code(0);
    assert!(
        done.stdout.contains("\"outcome\":\"measured\""),
        "{done:#?}"
    );
}

#[test]
fn files_are_sent_to_a_link_local_address() {
    let network = "ip addr add fe80::7/64 dev lone nodad";
    let script = "mkdir from; echo text >from/file; mkfifo url
         regatta wdt receive to --listen fe80::7%lone --wait 20s >url &
         regatta wdt send from \"$(head -n1 url)\"
         wait; cat to/file";
    let done = in_a_network(network, script);
    done.assert_code(0);
    assert!(done.stdout.ends_with("text\n"), "{done:#?}");
}

#[test]
fn limits_are_enforced_and_reported() {
    let bench = Bench::new();
    let server = Server::start(&bench, &["--max-time", "20", "--max-bytes", "1M"]);
    let done = server.client(&bench, &["-t", "60"]);
    done.assert_code(2);
    done.assert_stderr_contains("the server allows 20 s for one client");
    // The time that is left out takes time, too.
    let done = server.client(&bench, &["-t", "15", "-O", "10"]);
    done.assert_code(2);
    done.assert_stderr_contains("the server allows 20 s for one client");
    let done = server.client(&bench, &["--transport", "tcp,tcp-tls", "-n", "600K"]);
    done.assert_code(2);
    done.assert_stderr_contains("this takes 1200 KiB and the server allows 1 MiB for one client");
    let done = server.client(&bench, &["--transport", "quic-go"]);
    done.assert_code(2);
    done.assert_stderr_contains("`quic-go` is a program of its own, and a server runs none");
    let done = server.client(&bench, &["-n", "2M"]);
    done.assert_code(2);
    done.assert_stderr_contains("this takes 2 MiB and the server allows 1 MiB for one client");
    // Of a time the bytes are known only when they have come.
    let done = server.client(&bench, &["-t", "10"]);
    done.assert_code(1);
    let text = format!("{}{}", done.stdout, done.stderr);
    assert!(
        text.contains("the server allows 1.049 MB for one client"),
        "{done:#?}"
    );
    server.client(&bench, &["-n", "100K"]).assert_code(0);
}

#[test]
fn killed_client_frees_its_slot() {
    let bench = Bench::new();
    let server = Server::start(&bench, &[]);
    let mut first = bench.regatta(&["client", &server.address, "-t", "300", "--json-stream"]);
    let mut first = first.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(first.stdout.take().expect("a pipe")).lines();
    while !lines
        .next()
        .expect("it runs")
        .expect("a line")
        .contains("\"interval\"")
    {}
    let mut second = bench.regatta(&["client", &server.address, "-n", "1K"]);
    let mut second = second.stderr(Stdio::piped()).spawn().expect("it starts");
    let mut stderr = BufReader::new(second.stderr.take().expect("a pipe")).lines();
    let waiting = stderr.next().expect("a line").expect("text");
    assert!(waiting.contains("waiting for 1 client"), "{waiting}");
    signal(first.id().cast_signed(), Signal::SIGKILL);
    first.wait().expect("it ends");
    let status = second.wait().expect("it ends");
    assert!(status.success(), "{:?}", stderr.collect::<Vec<_>>());
    drop(server);
    bench.assert_nothing_left();
}

#[test]
fn a_killed_client_leaves_no_temporary_directory() {
    let bench = Bench::new();
    let server = Server::start(&bench, &[]);
    let scratch = bench.path("scratch");
    std::fs::create_dir(&scratch).expect("a directory");
    let entries = || std::fs::read_dir(&scratch).expect("a directory").count();
    let mut client = bench
        .regatta(&[
            "client",
            &server.address,
            "-t",
            "300",
            "--transport",
            "tcp,udp",
        ])
        .env("TMPDIR", &scratch)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(client.stdout.take().expect("a pipe")).lines();
    let is_interval = |line: &String| line.contains("bit/s");
    assert!(
        lines
            .by_ref()
            .map_while(Result::ok)
            .any(|line| is_interval(&line))
    );
    assert_eq!(entries(), 1);
    signal(client.id().cast_signed(), Signal::SIGKILL);
    client.wait().expect("it ends");
    drop(server);
    bench.assert_nothing_left();
    assert_eq!(entries(), 0);
}

/// A stopped client answers in the kernel and is silent all the same, as one behind a cable that was pulled.
#[test]
fn silent_client_frees_its_slot() {
    let bench = Bench::new();
    let server = Server::start(&bench, &[]);
    let mut first = bench.regatta(&["client", &server.address, "-t", "300", "--json-stream"]);
    let mut first = first.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(first.stdout.take().expect("a pipe")).lines();
    while !lines
        .next()
        .expect("it runs")
        .expect("a line")
        .contains("\"interval\"")
    {}
    signal(first.id().cast_signed(), Signal::SIGSTOP);
    let stopped = Instant::now();
    server.client(&bench, &["-n", "1K"]).assert_code(0);
    // Four seconds of silence; a busy machine takes its time for the rest.
    let waited = stopped.elapsed();
    assert!(
        (Duration::from_secs(1)..Duration::from_secs(60)).contains(&waited),
        "{waited:?}"
    );
    let _ = first.kill();
    first.wait().expect("it ends");
}

/// The server's agent ends with its server, and the client must not wait for it.
#[test]
fn a_client_ends_when_its_server_is_killed() {
    let bench = Bench::new();
    let mut server = Server::start(&bench, &[]);
    let mut client = bench.regatta(&["client", &server.address, "-t", "300", "--json-stream"]);
    client.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut client = client.spawn().expect("it starts");
    let mut lines = BufReader::new(client.stdout.take().expect("a pipe")).lines();
    while !lines
        .next()
        .expect("it runs")
        .expect("a line")
        .contains("\"interval\"")
    {}
    server.child.kill().expect("it runs");
    let ended = client.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert!(stderr.contains("error: the measurement broke"), "{stderr}");
    drop(server);
    bench.assert_nothing_left();
}

#[test]
fn many_concurrent_clients_are_served() {
    let bench = Bench::new();
    let server = Server::start(&bench, &["--parallel", "4"]);
    let clients: Vec<Child> = (0..repetitions(12, 50))
        .map(|_| {
            let mut client = bench.regatta(&["client", &server.address, "-n", "1K"]);
            client.stdout(Stdio::null()).stderr(Stdio::null());
            client.spawn().expect("it starts")
        })
        .collect();
    for mut client in clients {
        assert!(client.wait().expect("it ends").success());
    }
    drop(server);
    bench.assert_nothing_left();
}

#[test]
fn log_file_has_all_output_except_the_token() {
    for form in [&[][..], &["--json"]] {
        let bench = Bench::new();
        let path = bench.path("server.log").display().to_string();
        // It ends when it has written all of its only client.
        let server = Server::start(&bench, &[&["--logfile", &path, "-1"], form].concat());
        let args = ["-t", "1", "-i", "0.25", "--json-stream"];
        let done = server.client(&bench, &args);
        done.assert_code(0);
        let (_, token) = server.address.split_once('#').expect("a token");
        let token = token.to_owned();
        let shown = server.rest();
        let log = std::fs::read_to_string(&path).expect("a file");
        assert!(!log.contains(&token), "{log}");
        assert!(shown.is_empty(), "{shown}");
        if form.is_empty() {
            assert!(log.starts_with("listening on TCP port "), "{log}");
            assert!(log.contains("\n[1] goodput "), "{log}");
        } else {
            assert_eq!(events(&log).len(), events(&done.stdout).len(), "{log}");
            assert_eq!(log.lines().count(), events(&log).len(), "{log}");
        }
    }
}

#[test]
fn negative_numbers_are_refused_with_a_hint() {
    let bench = Bench::new();
    for (option, expected) in [
        (
            ["-b", "-1"],
            "a rate cannot be negative; write one such as `50M`, or `0` for no limit",
        ),
        (["-n", "-1K"], "a size cannot be negative"),
        (["-t", "-1"], "a time cannot be negative"),
        (["-P", "-4"], "it is not a whole number from 1 to 1024"),
    ] {
        let done = bench.run(&[&["client", "localhost"], &option[..]].concat());
        done.assert_code(2);
        done.assert_stderr_contains(expected);
    }
}
