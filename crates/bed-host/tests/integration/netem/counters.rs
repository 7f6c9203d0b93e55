//! Tests of the counters of netem, of its namespaces, and of its forms for an ordinary user.

use std::{
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use regatta_bed::TestBed as _;
use regatta_model::{LossBy, PacketCounter, PathSetup, Placement};
use regatta_test_support::guest::{Clock, in_shared_guest};

use super::{NETEM, Pings, common, common::condition};

fn is_here(case: &str) -> bool {
    in_shared_guest("netem::counters", case, Clock::Virtual)
}

#[test]
fn every_packet_is_accounted_for() {
    if !is_here("every_packet_is_accounted_for") {
        return;
    }
    let mut pings = Pings::over(NETEM);
    let description = pings.bed.description();
    assert!(
        description.starts_with("netns, netem between the hosts (Linux "),
        "{description}"
    );
    pings.set(&condition(30, 100, 0.1), 1);
    let back = pings.send(3000, 200, Duration::from_micros(200)).len() as u64;
    let counters = pings.bed.counters().expect("counters");
    println!("{counters:?}");
    let (forward, reverse) = (counters.forward, counters.reverse);
    // Nothing but the datagrams travels on the path.
    assert_eq!(forward.offered, 3000);
    assert_eq!(
        forward.delivered + forward.packets[PacketCounter::Loss],
        3000
    );
    assert_eq!(reverse.offered, forward.delivered);
    assert_eq!(reverse.delivered, back);
    assert_eq!(
        reverse.delivered + reverse.packets[PacketCounter::Loss],
        reverse.offered
    );
    assert_eq!(
        forward.packets[PacketCounter::Queue] + forward.packets[PacketCounter::Refused],
        0
    );
    // For one seed in 10^5 this is false.
    for (link, n) in [(forward, 3000), (reverse, reverse.offered)] {
        let (low, high) = regatta_stats::plausible_counts(n, 0.1, 5e-6);
        assert!(
            (low..=high).contains(&link.packets[PacketCounter::Loss]),
            "{link:?}"
        );
    }
    // Counters and queues are new with each condition.
    pings.set(&condition(0, 100, 0.0), 1);
    let fresh = pings.bed.counters().expect("counters").forward;
    assert_eq!((fresh.offered, fresh.packets[PacketCounter::Loss]), (0, 0));
    assert_eq!(pings.send(100, 200, Duration::from_millis(1)).len(), 100);
}

cases! { netem_loses_by_itself_or_by_iptables:
    by_itself_between_the_hosts(LossBy::Emulator, Placement::Between)
    by_itself_on_the_ends(LossBy::Emulator, Placement::Ends)
    by_iptables_between_the_hosts(LossBy::Iptables, Placement::Between)
    by_iptables_on_the_ends(LossBy::Iptables, Placement::Ends)
}

fn netem_loses_by_itself_or_by_iptables(loss_by: LossBy, placement: Placement) {
    let setup = PathSetup {
        placement,
        loss_by,
        ..NETEM
    };
    let mut pings = Pings::over(setup);
    let description = pings.bed.description();
    assert_eq!(
        description.contains("on both ends"),
        placement == Placement::Ends
    );
    assert_eq!(
        description.contains("loss by iptables"),
        loss_by == LossBy::Iptables
    );
    pings.set(&condition(4, 100, 0.2), 1);
    let back = pings.send(1000, 200, Duration::from_micros(100)).len() as u64;
    let counters = pings.bed.counters().expect("counters");
    println!("{description}: {counters:?}");
    let (forward, reverse) = (counters.forward, counters.reverse);
    assert_eq!(forward.offered, 1000, "{description}");
    assert_eq!(
        forward.delivered + forward.packets[PacketCounter::Loss],
        1000
    );
    assert_eq!(
        (reverse.offered, reverse.delivered),
        (forward.delivered, back)
    );
    let (low, high) = regatta_stats::plausible_counts(1000, 0.2, 1e-6);
    assert!(
        (low..=high).contains(&forward.packets[PacketCounter::Loss]),
        "{forward:?}"
    );
}

#[test]
fn a_killed_controller_leaves_no_namespace() {
    if !is_here("a_killed_controller_leaves_no_namespace") {
        return;
    }
    for _ in 0..3 {
        all_are_gone();
        let mut controller = Command::new(common::executable())
            .args(["hold", "netem"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a controller");
        let mut output = BufReader::new(controller.stdout.take().expect("a pipe"));
        let mut line = String::new();
        output.read_line(&mut line).expect("a line");
        assert!(line.starts_with("agents "), "{line}");
        assert!(is_one_left(), "a bed has some");
        controller.kill().expect("a kill");
        controller.wait().expect("an end");
        // Daemon and agents hold the other end of this, and end with the controller.
        output.read_line(&mut line).expect("the end");
    }
    all_are_gone();
}

/// Waits until no network namespace is left but the first one. The kernel takes one apart after the last process has left
/// it, also those of other tests.
#[track_caller]
fn all_are_gone() {
    let until = Instant::now() + Duration::from_secs(10);
    while is_one_left() {
        assert!(Instant::now() < until, "namespaces are left");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether there is a network namespace beside the first one: a second one cannot be made then where the limit is one.
fn is_one_left() -> bool {
    const LIMIT: &str = "/proc/sys/user/max_net_namespaces";
    let before = std::fs::read_to_string(LIMIT).expect("a limit");
    std::fs::write(LIMIT, "1").expect("a lower limit");
    let make = || nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).is_err();
    // Only that thread enters it.
    let is_left = std::thread::spawn(make).join().expect("a thread");
    std::fs::write(LIMIT, before).expect("the limit as it was");
    is_left
}

cases! { an_ordinary_user_gets_every_form:
    netem_between_the_hosts(&["netem"])
    netem_on_the_ends_with_iptables(&["ends", "iptables"])
}

fn an_ordinary_user_gets_every_form(form: &[&str]) {
    // The build directory may be closed to others.
    let directory = tempfile::tempdir().expect("a directory");
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(directory.path(), open).expect("open to all");
    let program = directory.path().join("host");
    std::fs::copy(common::executable(), &program).expect("a copy");
    let output = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(&program)
        .arg("check")
        .args(form)
        .output()
        .expect("`setpriv` runs");
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.starts_with("netns, netem "), "{text}");
    assert!(text.contains("reverse_loss_ratio asked 0 "), "{text}");
    let received = text.lines().find_map(|line| line.strip_prefix("received "));
    let bytes = received.and_then(|r| r.split(' ').next()?.parse::<u64>().ok());
    assert!(bytes.is_some_and(|bytes| bytes > 1_000_000), "{text}");
}
