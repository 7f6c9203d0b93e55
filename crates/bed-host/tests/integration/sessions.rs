//! Tests of sessions and of the bed `hosts` over them: `sh` is in the place of `ssh`.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use regatta_bed::{
    Bed, BedError, Host, TestBed as _,
    hosts::{Connect, HostEnd, Shaping},
    session::{SILENCE, Session, SessionError},
};
use regatta_model::{Condition, Link, PathSetup};
use regatta_process::{StopRequest, descendants};
use regatta_stats::clocks::OffsetReading;
use regatta_test_support::processes::is_running;

use crate::{
    common,
    common::{Agent, executable, explain},
};

/// Longest time for anything that is waited for.
const WITHIN: Duration = Duration::from_secs(60);

/// Starts a session whose host is a shell that runs `before` and becomes the server.
fn session(before: &str) -> Result<Session, SessionError> {
    let mut command = Command::new("sh");
    let program = executable().display();
    command.args([
        "-c",
        &format!(
            "{before}\nexec {program} host-server {}",
            SILENCE.as_millis()
        ),
    ]);
    Session::start(command, WITHIN, SILENCE, &mut |_, _| Ok(()))
}

#[derive(Debug)]
struct Shell(&'static str);

impl Connect for Shell {
    fn connect(&self) -> Result<Session, BedError> {
        session(self.0).map_err(|error| BedError::Session {
            host: "the shell".into(),
            source: Box::new(error),
            hint: regatta_model::Text::default(),
        })
    }
}

fn bed() -> Bed {
    let end = |name: &str, address: &str| HostEnd {
        name: name.into(),
        address: address.parse().expect("an address"),
        ports: None,
        environment: Vec::new(),
        shaping: Shaping::None,
        connect: Box::new(Shell("")),
    };
    let ends = [end("one", "127.0.0.1"), end("two", "127.0.0.2")];
    Bed::of_hosts(ends, PathSetup::default(), &[], "test")
        .unwrap_or_else(|e| panic!("{}", explain(&e)))
}

/// Returns the servers of the sessions of this test: children of this process that have children.
fn servers() -> Vec<i32> {
    let own = Pid::this().as_raw();
    let children = regatta_process::children(own).into_iter();
    children
        .filter(|child| !descendants(*child).is_empty())
        .collect()
}

fn unshaped() -> Condition {
    Condition {
        name: "as it is".into(),
        forward: Link::default(),
        reverse: Link::default(),
        mtu_bytes: 1500,
        schedule: Vec::new(),
        tuning: regatta_model::HostTuning::default(),
    }
}

/// Waits until a condition holds.
fn soon(what: &str, holds: impl Fn() -> bool) {
    let until = Instant::now() + WITHIN;
    while !holds() {
        assert!(Instant::now() < until, "still not: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn agents_on_two_hosts_reach_one_another() {
    let mut bed = bed();
    assert!(bed.is_real() && !bed.shares_clock());
    bed.set_condition(&unshaped(), 1).expect("no change");
    let mut b = Agent::start(&mut bed, Host::Server);
    let port = b.listen("echo").port();
    let mut a = Agent::start(&mut bed, Host::Client);
    a.send(&format!("ping 127.0.0.1:{port} 5 100 1000"));
    assert_eq!(a.receive().split_whitespace().count(), 5);
}

#[test]
fn a_real_network_is_described() {
    let mut bed = bed();
    let first = bed.check_path(&unshaped()).expect("a check");
    assert!(first.within);
    let names: Vec<&str> = first.quantities.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "round_trip_delay_p50_ns",
            "forward_loss_ratio",
            "reverse_loss_ratio",
            "clock_offset_ns"
        ]
    );
    assert_eq!(first.quantities[0].asked, first.quantities[0].achieved);
    // One machine has one clock.
    let offset = &first.quantities[3];
    assert!(offset.lowest <= 0.0 && offset.highest >= 0.0, "{offset:?}");
    let second = bed.check_path(&unshaped()).expect("a check");
    assert_eq!(second.quantities[0].asked, first.quantities[0].achieved);
}

#[test]
fn clocks_are_read_over_sessions_and_over_the_path() {
    let mut bed = bed();
    let over_sessions = bed.clocks().expect("two hosts").read(4);
    let over_path = bed.read_clocks_over_path().expect("path daemons");
    for reading in [over_sessions, over_path] {
        let OffsetReading { span_ns, offset } = reading.expect("exchanges");
        assert!(span_ns[0] < span_ns[1]);
        // One machine has one clock.
        assert!(
            offset.lowest_ns < 0.0 && offset.highest_ns > 0.0,
            "{offset:?}"
        );
        // No exchange was longer than all of them.
        let longest = 1.002 * (span_ns[1] - span_ns[0]) as f64;
        assert!(offset.bound_ns() <= longest, "{offset:?} {span_ns:?}");
    }
}

#[test]
fn a_real_network_cannot_be_given_a_delay() {
    let mut bed = bed();
    let error = bed
        .set_condition(&common::condition(30, 0, 0.0), 1)
        .expect_err("a delay");
    assert!(explain(&error).contains("used as it is"), "{error}");
    assert!(error.hint().contains("shaping"), "{}", error.hint());
}

#[test]
fn a_condition_that_netem_lacks_is_refused_before_connecting() {
    let end = |address: &str| HostEnd {
        name: "one".into(),
        address: address.parse().expect("an address"),
        ports: None,
        environment: Vec::new(),
        shaping: Shaping::Macvlan {
            parent: "eth0".into(),
            prefix: 24,
        },
        connect: Box::new(Shell("exit 1")),
    };
    let mut condition = unshaped();
    condition.forward.loss_list = vec![1];
    let ends = [end("198.18.0.1"), end("198.18.0.2")];
    let error =
        Bed::of_hosts(ends, PathSetup::default(), &[condition], "test").expect_err("a list");
    let message = explain(&error);
    assert!(message.contains("is not supported by netem"), "{message}");
    assert!(error.hint().contains("`--bed netns`"), "{}", error.hint());
}

#[test]
fn hosts_with_different_attachments_are_refused() {
    let end = |address: &str, shaping| HostEnd {
        name: "one".into(),
        address: address.parse().expect("an address"),
        ports: None,
        environment: Vec::new(),
        shaping,
        connect: Box::new(Shell("exit 1")),
    };
    let macvlan = Shaping::Macvlan {
        parent: "eth0".into(),
        prefix: 24,
    };
    let interface = Shaping::Interface {
        name: "eth0".into(),
        ssh_ports: vec![22],
    };
    let ends = [end("198.18.0.1", macvlan), end("198.18.0.2", interface)];
    let error = Bed::of_hosts(ends, PathSetup::default(), &[], "test").expect_err("two ways");
    let message = explain(&error);
    assert!(message.contains("in different ways"), "{message}");
    assert!(error.hint().contains("same `attach`"), "{}", error.hint());
}

#[test]
fn output_of_login_scripts_is_skipped() {
    let noise = "yes noise | head -c 65536; printf 'regatta-sessio'; printf '\\033[31mprompt '";
    let session = session(noise).unwrap_or_else(|error| panic!("{}", explain(&error)));
    assert_eq!(session.ended(), None);
}

#[test]
fn endless_output_of_login_scripts_is_refused() {
    let error = session("yes noise").expect_err("no greeting");
    assert!(matches!(error, SessionError::Noise), "{error}");
}

#[test]
fn the_last_line_of_a_failed_connection_is_the_reason() {
    let error = session("echo 'Permission denied (publickey).' >&2; exit 255").expect_err("an end");
    assert_eq!(error.to_string(), "Permission denied (publickey).");
}

#[test]
fn another_version_of_the_protocol_is_refused() {
    let error = session("echo regatta-session 99 9.9.9 1; sleep 60").expect_err("a version");
    assert!(matches!(&error, SessionError::Version { theirs } if theirs == "9.9.9"));
}

#[test]
fn the_end_of_a_session_ends_all_that_it_started() {
    let mut bed = bed();
    let agent = Agent::start(&mut bed, Host::Server);
    let all = || {
        let mut all = servers();
        all.extend(servers().into_iter().flat_map(descendants));
        all
    };
    soon(
        "two servers, guards and path daemons and an agent run",
        || all().len() == 7,
    );
    let all = all();
    drop(bed);
    drop(agent);
    soon("all have ended", || !all.iter().any(|pid| is_running(*pid)));
}

/// Does something to the server of host b, and expects that all that it started ends, that the bed finds out,
/// and that it can be used again.
fn check_loss_is_detected(to: Signal) {
    let mut bed = bed();
    let _agent = Agent::start(&mut bed, Host::Server);
    let lost = *servers().last().expect("two servers");
    soon("a guard, a path daemon and an agent run", || {
        descendants(lost).len() == 3
    });
    let below = descendants(lost);
    kill(Pid::from_raw(lost), to).expect("a process");
    soon("all that it started has ended", || {
        !below.iter().any(|pid| is_running(*pid))
    });
    soon("it has ended", || !is_running(lost));
    let error = bed.counters().expect_err("a host is lost");
    assert!(matches!(&error, BedError::Host { host, .. } if host == "host `two`"));
    assert!(
        bed.restore(&StopRequest::default())
            .expect("it can be reached")
    );
    assert!(
        !bed.restore(&StopRequest::default())
            .expect("nothing is lost")
    );
    bed.set_condition(&unshaped(), 1).expect("a daemon");
    let mut again = Agent::start(&mut bed, Host::Server);
    assert_ne!(again.listen("echo").port(), 0);
}

#[test]
fn a_killed_server_is_detected() {
    check_loss_is_detected(Signal::SIGKILL);
}

#[test]
fn a_stopped_server_is_detected() {
    check_loss_is_detected(Signal::SIGSTOP);
}

/// Its late answer would be taken for that of the next request.
#[test]
fn a_path_daemon_that_answers_too_late_is_replaced() {
    let mut bed = bed();
    let daemon = |server: i32| {
        let is_daemon = |pid: &i32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).nth(1) == Some(b"path-daemon")
        };
        descendants(server).into_iter().find(is_daemon)
    };
    let server = *servers().last().expect("two servers");
    let late = Pid::from_raw(daemon(server).expect("a path daemon"));
    kill(late, Signal::SIGSTOP).expect("a process");
    let error = bed.counters().expect_err("no answer");
    assert!(explain(&error).contains("gave no answer"), "{error}");
    kill(late, Signal::SIGCONT).expect("a process");
    assert!(
        bed.restore(&StopRequest::default())
            .expect("the host is there")
    );
    bed.set_condition(&unshaped(), 1).expect("a daemon");
    bed.counters().expect("the counters of the new daemon");
    soon("the late daemon has ended", || !is_running(late.as_raw()));
}

#[test]
fn a_silent_controller_is_detected() {
    // The controller's side of the session is stopped by a shell between the two.
    let mut command = Command::new("sh");
    let program = executable().display();
    command.args(["-c", &format!("{program} host-server 500; echo over >&2")]);
    let long = Duration::from_secs(3600);
    let session = Session::start(command, WITHIN, long, &mut |_, _| Ok(()));
    let session = session.unwrap_or_else(|error| panic!("{}", explain(&error)));
    // No heartbeat comes for a quarter of an hour.
    soon("the server has ended", || session.ended().is_some());
    let reason = session.ended().expect("a reason");
    assert!(reason.contains("was silent for 500ms"), "{reason}");
}
