//! Tests of the views of a run on both hosts while it is under way.

use std::{io::Read as _, net::TcpStream};

use nix::sched::{CloneFlags, setns};
use serde_json::Value;

use super::*;
use crate::live::after;

impl Lab {
    /// Connects to an address in the controller's network.
    fn connect(&self, address: &str) -> TcpStream {
        let network = format!("/proc/{}/ns/net", self.controller);
        let connecting = || {
            let network = fs::File::open(network).expect("a network");
            setns(network, CloneFlags::CLONE_NEWNET).expect("the rights");
            TcpStream::connect(address).expect("a listener")
        };
        // The thread takes the network with it.
        std::thread::scope(|scope| scope.spawn(connecting).join()).expect("a connection")
    }

    /// Returns the response to a request for the page at this address.
    fn get(&self, url: &str, more: &str) -> BufReader<TcpStream> {
        let (address, path) = url.split_once('/').expect("a path");
        let mut stream = self.connect(address);
        write!(
            stream,
            "GET /{path}{more} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
        )
        .expect("sent");
        BufReader::new(stream)
    }

    /// Reads the events of the page at this address up to a trial that has all that `wanted` names.
    pub(super) fn trial_with(&self, url: &str, wanted: &[&str]) -> Value {
        let mut events = self.get(url, "events");
        loop {
            let state = after(&mut events, "data: ");
            let state: Value = serde_json::from_str(&state).expect("JSON");
            let trial = &state["now"]["activity"]["trial"];
            if wanted.iter().all(|name| !trial[*name].is_null()) {
                return trial.clone();
            }
        }
    }
}

/// Figures of a trial whose path nothing counts.
const FIGURES: [&str; 7] = [
    "goodput_bps",
    "delivered_bytes",
    "congestion_window_bytes",
    "smoothed_rtt_ns",
    "retransmitted_packets",
    "cpu_sender_ratio",
    "cpu_receiver_ratio",
];

/// Starts a command of which the page is wanted; returns it with its messages after the address, and the address.
pub(super) fn with_page(mut command: Command) -> (Child, impl BufRead, String) {
    let mut child = (command.arg("--web"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("nsenter");
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    let url = after(&mut stderr, "web page of the run: http://");
    (child, stderr, url)
}

pub(super) fn interrupt(run: &Child) {
    let id = nix::unistd::Pid::from_raw(run.id().cast_signed());
    nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGINT).expect("a run");
}

fn assert_succeeds(mut child: Child, mut stderr: impl BufRead) -> String {
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).expect("its messages");
    assert!(child.wait().expect("it ends").success(), "{rest}");
    rest
}

#[test]
fn live_views_show_a_run_on_hosts_and_its_resumption() {
    let Some(lab) = Lab::start() else { return };
    lab.add_both();
    // Without a limit the trials take whole processors.
    lab.limit_rate("100mbit");
    let metrics = "127.0.0.1:9187";
    // More rounds than it runs: it is interrupted when all was seen.
    let mut run = lab.regatta(&["run", "--hosts", "a,b", "--out", "out", "--rounds", "99"]);
    run.args(["--transport", "tcp:cc=reno", "--duration", "2s"]);
    run.args(["--prometheus", metrics]);
    let (run, mut stderr, url) = with_page(run);
    let trial = lab.trial_with(&url, &FIGURES);
    let rate = trial["goodput_bps"].as_f64().expect("a rate");
    assert!((1e3..1e12).contains(&rate), "{trial}");
    assert!(trial["dropped"].is_null(), "nothing counts there: {trial}");
    let mut text = String::new();
    lab.get(&format!("{metrics}/"), "metrics")
        .read_to_string(&mut text)
        .expect("a response");
    assert!(text.contains("regatta_run_trials 99"), "{text}");
    assert!(text.contains("bed=\"hosts"), "{text}");
    // Another process sees the same. The first trial is stored by now.
    after(&mut stderr, "[1/99]");
    let (attached, attached_stderr, other) = with_page(lab.regatta(&["attach", "out"]));
    lab.trial_with(&other, &FIGURES);
    interrupt(&run);
    let rest = assert_succeeds(attached, attached_stderr);
    assert!(
        rest.contains("`regatta resume out` goes on with it"),
        "{rest}"
    );
    let run = run.wait_with_output().expect("an end");
    assert!(!run.status.success());
    let (resumed, _stderr, url) = with_page(lab.regatta(&["resume", "out"]));
    lab.trial_with(&url, &FIGURES);
    let mut report = String::new();
    lab.get(&url, "report")
        .read_to_string(&mut report)
        .expect("a response");
    assert!(
        report.contains("200 OK") && report.contains("</html>"),
        "{report}"
    );
    interrupt(&resumed);
    let resumed = resumed.wait_with_output().expect("an end");
    assert!(!resumed.status.success());
    eventually(CLEANUP_TIMEOUT, "nothing is left on the hosts", || {
        lab.on_hosts().is_empty()
    });
}
