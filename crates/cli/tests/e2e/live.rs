//! Tests of the views of a run under way, and of `attach`.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::Stdio,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{
    help::{Bench, SLOW, SMALL, Watched, is, signal},
    machine::apart,
};

/// Returns a port that is free now.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("its address").port()
}

#[test]
fn unavailable_views_are_refused_before_the_run() {
    let bench = Bench::new();
    bench.write("study.toml", SMALL);
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("its address").to_string();
    for (options, expected) in [
        (
            &["--live"][..],
            "`--live` draws on the terminal of standard error, which is no terminal",
        ),
        (
            &["--web=0.0.0.0:8000"],
            "the page is served on loopback only",
        ),
        (
            &["--prometheus", "nowhere"],
            "an address and a port are asked for",
        ),
        (&["--prometheus", &taken], "choose another port"),
        (
            &["--prometheus-textfile", "none/regatta.prom"],
            "collector.textfile.directory",
        ),
        // It would be replaced by a file.
        (
            &["--prometheus-textfile", "/dev/null"],
            "it is a device, a pipe or a socket, and only a file is replaced",
        ),
    ] {
        let done = bench.run(&[&["run", "study.toml", "--out", "out"], options].concat());
        done.assert_code(2);
        done.assert_stderr_contains(expected);
        assert!(
            !bench.path("out").exists(),
            "{options:?} leaves a directory"
        );
    }
}

#[test]
fn attach_without_a_run_has_a_hint() {
    let bench = Bench::new();
    bench.write("study.toml", SMALL);
    bench.run(&[
        "run",
        "study.toml",
        "--rounds",
        "1",
        "--out",
        "out",
        "--no-progress",
    ]);
    assert!(!bench.path("out/live.sock").exists());
    let done = bench.run(&["attach", "out", "--web"]);
    done.assert_code(2);
    done.assert_stderr_contains("no run answers in `out`");
    done.assert_stderr_contains("the run is complete: `regatta report out` shows its results");
    assert!(!done.stderr.contains("resume"), "{}", done.stderr);
    let done = bench.run(&["attach", "nowhere"]);
    done.assert_code(2);
    done.assert_stderr_contains("there is no file or directory `nowhere`");
    done.assert_stderr_contains("without `--out` it is in `regatta-results`");
}

#[test]
fn killed_run_is_reported_as_interrupted_with_a_hint() {
    let bench = Bench::new();
    // A deadline that no trial reaches while its agents are stopped.
    bench.write("study.toml", &SLOW.replace("\"10s\"", "\"300s\""));
    let mut run = Watched::start(bench.regatta(&["run", "study.toml", "--out", "out", "--json"]));
    // In the middle of the second trial, which cannot end before it was looked at.
    run.until(|event| is(event, "trial_ended"));
    run.until(|event| is(event, "trial_started"));
    bench.until_transferring();
    let agents = bench.running("agent");
    for agent in &agents {
        signal(*agent, Signal::SIGSTOP);
    }
    let going_on = bench.run(&["status", "out"]);
    going_on.assert_code(0);
    let expected = "slow: 1 of 4 trials done, running\n`regatta attach out` shows it\n";
    assert_eq!(going_on.stdout, expected);
    // The directory above, as that of the shards of a plan.
    let above = bench.run(&["attach", ".", "--web"]);
    above.assert_code(2);
    above.assert_stderr_contains("it holds runs that go on: `regatta attach ./out`");
    run.child.kill().expect("a signal");
    for agent in agents {
        // Its controller's end may have ended it.
        let _ = kill(Pid::from_raw(agent), Signal::SIGCONT);
    }
    run.finish();
    bench.assert_nothing_left();
    assert!(bench.path("out/live.sock").exists(), "nothing removed it");
    let reason = "its process ended without saying why, as after `kill -9` or a power cut";
    let resume = "`regatta resume out`";
    let attach = bench.run(&["attach", "out", "--web"]);
    attach.assert_code(2);
    attach.assert_stderr_contains(&format!(
        "the run was interrupted: {reason}; {resume} goes on with it"
    ));
    let report = bench.run(&["report", "out"]);
    report.assert_stderr_contains(&format!("hint: run {resume} to go on"));
    let page = std::fs::read_to_string(bench.path("out/report.html")).expect("a page");
    for text in [&report.stdout, &report.stderr, &page] {
        assert!(!text.contains("run is still going on"), "{text}");
    }
    let fields: Vec<&str> = report.stdout.split_whitespace().collect();
    assert!(
        fields.join(" ").contains(&format!("interrupted: {reason}")),
        "{}",
        report.stdout
    );
    let status = bench.run(&["status", "out"]);
    let expected =
        format!("slow: 1 of 4 trials done, interrupted: {reason}\n{resume} goes on with it\n");
    assert_eq!(status.stdout, expected);
    assert_ne!(status.code(), 0);
}

#[test]
fn views_end_with_a_run_whose_disk_is_full() {
    let bench = Bench::new();
    bench.write("study.toml", &SLOW.replace("rounds = 2", "rounds = 100"));
    std::fs::create_dir(bench.path("full")).expect("a directory");
    // The disk is filled when the page is served.
    let script = "mount -t tmpfs -o size=8m tmpfs full
        $REGATTA run study.toml --out full/out --no-progress --prometheus-textfile run.prom &
        run=$!
        until [ -S full/out/live.sock ]; do kill -0 $run; sleep 0.02; done
        mkfifo messages
        $REGATTA attach full/out --web 2>messages &
        attach=$!
        exec 3<messages
        read -r page <&3
        cat /dev/zero >full/fill 2>none || true
        cat <&3 >&2
        wait $attach
        wait $run && exit 1
        echo \"$page\" | sed 's/: .*//'
        grep '^regatta_run_running' run.prom";
    let done = apart(&bench, script);
    done.assert_stderr_contains(
        "no space is left on the device that holds `full/out/results.sqlite`",
    );
    let resume = "`regatta resume full/out`";
    done.assert_stderr_contains(&format!(
        "the run has ended: it stopped with an error; {resume} goes on with it"
    ));
    let expected = "web page of the run\nregatta_run_running 0\n";
    assert_eq!(done.stdout, expected, "{done:#?}");
    bench.assert_nothing_left();
}

/// Reads lines until one has this text, and returns what follows it in the line.
pub fn after(lines: &mut impl BufRead, text: &str) -> String {
    let mut line = String::new();
    loop {
        line.clear();
        let read = lines.read_line(&mut line).expect("a line");
        assert!(read > 0, "the output ended before `{text}`");
        if let Some((_, rest)) = line.split_once(text) {
            return rest.trim_end().to_owned();
        }
    }
}

/// Returns the response to a request for a path.
pub fn get(address: &str, path: &str, accept: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("connected");
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("a response");
    text
}

/// Returns the events of a page.
pub fn events(url: &str) -> impl BufRead {
    let (address, path) = url.split_once('/').expect("a path");
    let mut events = TcpStream::connect(address).expect("connected");
    let request = format!("GET /{path}events HTTP/1.1\r\nHost: {address}\r\n\r\n");
    events.write_all(request.as_bytes()).expect("sent");
    BufReader::new(events)
}

/// Reads the page's events until one has a goodput above zero of a trial under way, in bits per second: on a busy
/// machine nothing may arrive in an interval.
fn rate_under_way(url: &str) -> f64 {
    let mut events = events(url);
    loop {
        let rest = after(&mut events, "\"goodput_bps\":");
        let rate = rest.split(',').next().map(str::parse);
        if let Some(Ok(rate)) = rate
            && rate > 0.0
        {
            return rate;
        }
    }
}

/// The page has the figures of a trial under way in a guest, where the run tells them over the guest's channel.
#[test]
fn a_run_in_a_guest_has_figures_of_its_trial_under_way() {
    let bench = Bench::new();
    // More rounds than it runs: it is interrupted when the figures were seen.
    let study = SLOW.replacen("rounds = 2", "bed = \"uml\"\nrounds = 99", 1);
    bench.write("study.toml", &study);
    let mut run = bench
        .regatta(&["run", "study.toml", "--out", "out", "--web"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the run starts");
    let mut stderr = BufReader::new(run.stderr.take().expect("its messages"));
    let url = after(&mut stderr, "web page of the run: http://");
    let rate = rate_under_way(&url);
    assert!((1e3..100e6).contains(&rate), "{rate}");
    signal(run.id().cast_signed(), Signal::SIGINT);
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).expect("its messages");
    run.wait().expect("it ends");
    assert!(rest.contains("the run took"), "{rest}");
}

#[test]
fn page_metrics_and_attached_process_show_the_same_run() {
    let bench = Bench::new();
    bench.write("study.toml", SLOW);
    let metrics = format!("127.0.0.1:{}", free_port());
    // More rounds than it runs: it is interrupted when all was seen.
    let args = [
        "run",
        "study.toml",
        "--rounds",
        "99",
        "--out",
        "out",
        "--web",
        "--prometheus",
        &metrics,
        "--prometheus-textfile",
        "run.prom",
    ];
    let mut run = bench
        .regatta(&args)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the run starts");
    let mut stderr = BufReader::new(run.stderr.take().expect("its messages"));
    let url = after(&mut stderr, "web page of the run: http://");
    let (address, path) = url.split_once('/').expect("a path");
    // After this line the first trial has been stored, and the run can be attached to.
    after(&mut stderr, "[1/198]");
    let mut attached = bench
        .regatta(&["attach", "out", "--web"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("attach starts");
    let mut attached_stderr = BufReader::new(attached.stderr.take().expect("its messages"));
    let other = after(&mut attached_stderr, "web page of the run: http://");
    for url in [&url, &other] {
        // The figures of a trial that began while somebody looked.
        let rate = rate_under_way(url);
        assert!((1e3..100e6).contains(&rate), "{rate}");
    }
    let text = get(
        &metrics,
        "/metrics",
        "application/openmetrics-text; version=1.0.0",
    );
    assert!(
        text.contains("content-type: application/openmetrics-text"),
        "{text}"
    );
    assert!(text.contains("regatta_run_trials 198"), "{text}");
    assert!(text.contains("# EOF"), "{text}");
    let report = get(address, &format!("/{path}report"), "text/html");
    assert!(
        report.contains("200 OK") && report.contains("</html>"),
        "{}",
        &report[..300]
    );
    assert!(
        report.contains("sandbox allow-scripts"),
        "{}",
        &report[..900]
    );
    // Of four rounds each cell has an interval.
    after(&mut stderr, "[8/");
    signal(run.id().cast_signed(), Signal::SIGINT);
    // Whoever watches needs both to the end of the run.
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).expect("its messages");
    assert_eq!(run.wait().expect("it ends").code(), Some(1), "{rest}");
    let mut rest = String::new();
    attached_stderr
        .read_to_string(&mut rest)
        .expect("its messages");
    assert!(attached.wait().expect("it ends").success(), "{rest}");
    assert!(
        rest.contains("`regatta resume out` goes on with it"),
        "{rest}"
    );
    let text = std::fs::read_to_string(bench.path("run.prom")).expect("a text file");
    assert!(text.contains("regatta_run_running 0\n"), "{text}");
    assert!(
        text.contains("regatta_cell_ci95_lower_goodput_bytes_per_second{"),
        "{text}"
    );
    assert!(
        !text.contains("regatta_trial_"),
        "no trial is under way: {text}"
    );
    assert!(!bench.path("out/live.sock").exists());
}

#[test]
fn a_pipe_is_no_run_to_attach_to() {
    let bench = Bench::new();
    nix::unistd::mkfifo(&bench.path("pipe"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let done = bench.run(&["attach", "pipe", "--web"]);
    done.assert_code(2);
    done.assert_stderr_contains("no run answers in `pipe`");
}

/// Starts a run that goes on until it is stopped, and waits for its first trial.
fn endless(bench: &Bench) -> std::process::Child {
    bench.write("study.toml", SLOW);
    let args = ["run", "study.toml", "--rounds", "99", "--out", "out"];
    let mut run = bench
        .regatta(&args)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the run starts");
    let mut stderr = BufReader::new(run.stderr.take().expect("its messages"));
    after(&mut stderr, "[1/198]");
    std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
    run
}

#[test]
fn a_run_with_as_many_readers_as_it_serves_is_not_called_gone() {
    let bench = Bench::new();
    let mut run = endless(&bench);
    let readers: Vec<_> = (0..16)
        .map(|_| {
            let socket = bench.path("out/live.sock");
            let mut reader = std::os::unix::net::UnixStream::connect(socket).expect("it listens");
            // Served, as its state comes.
            reader.read_exact(&mut [0]).expect("its state");
            reader
        })
        .collect();
    let done = bench.run(&["attach", "out", "--web"]);
    done.assert_code(1);
    done.assert_stderr_contains("the run goes on, and serves no further process");
    drop(readers);
    signal(run.id().cast_signed(), Signal::SIGINT);
    run.wait().expect("it ends");
}

/// Whatever ends a run, but for SIGKILL, the terminal is as it was.
#[test]
fn sigquit_restores_the_terminal() {
    let bench = Bench::new();
    bench.write("study.toml", SLOW);
    let program = env!("CARGO_BIN_EXE_regatta");
    let run = format!("'{program}' run study.toml --rounds 99 --out out --live");
    let mut terminal = bench
        .command("script")
        .args(["-qec", &run, "/dev/null"])
        .env("TERM", "xterm")
        .stdout(Stdio::piped())
        .spawn()
        .expect("`script` runs");
    let mut output = terminal.stdout.take().expect("a pipe");
    let mut shown = Vec::new();
    let has =
        |shown: &[u8], sequence: &[u8]| shown.windows(sequence.len()).any(|it| it == sequence);
    while !has(&shown, b"\x1b[?1049h") {
        let mut chunk = [0; 4096];
        let length = output.read(&mut chunk).expect("what is drawn");
        assert!(length > 0, "{}", String::from_utf8_lossy(&shown));
        shown.extend(&chunk[..length]);
    }
    signal(bench.running("run")[0], Signal::SIGQUIT);
    output.read_to_end(&mut shown).expect("what is drawn");
    terminal.wait().expect("it ends");
    assert!(
        has(&shown, b"\x1b[?1049l"),
        "{}",
        String::from_utf8_lossy(&shown)
    );
    bench.assert_nothing_left();
}

/// A trial is held up until somebody watches, so that the run cannot end before.
#[test]
fn attached_process_reports_a_complete_run() {
    let bench = Bench::new();
    // A deadline that no trial reaches while its agents are stopped.
    bench.write("study.toml", &SLOW.replace("\"10s\"", "\"300s\""));
    let mut run = Watched::start(bench.regatta(&["run", "study.toml", "--out", "out", "--json"]));
    run.until(|event| is(event, "trial_started"));
    bench.until_transferring();
    let agents = bench.running("agent");
    for agent in &agents {
        signal(*agent, Signal::SIGSTOP);
    }
    let mut attached = bench
        .regatta(&["attach", "out", "--web"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("attach starts");
    let mut stderr = BufReader::new(attached.stderr.take().expect("its messages"));
    after(&mut stderr, "web page of the run: http://");
    for agent in &agents {
        signal(*agent, Signal::SIGCONT);
    }
    run.finish();
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).expect("its messages");
    assert!(attached.wait().expect("it ends").success(), "{rest}");
    assert!(
        rest.contains("the run is complete; `regatta report out`"),
        "{rest}"
    );
}
