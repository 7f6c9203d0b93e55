//! Shares of a bottleneck that are known: published, computed, or those of equals. In virtual time they are the same in each
//! run; `make competition` has them over more rounds.

use regatta_model::{Outcome, TrialRecord, metric::id};

use super::virtual_time::head;
use crate::help::shared_trials;

/// Returns the trials of all competitions, in virtual time.
fn all() -> Vec<TrialRecord> {
    let mut study = head("competition");
    for control in ["bbr", "cubic", "reno"] {
        study += &format!(
            "[[transport]]\nlabel = \"{control}\"\ndriver = \"tcp\"\ncc = \"{control}\"\n"
        );
    }
    study += "[[transport]]\nlabel = \"quinn\"\ndriver = \"quic-quinn\"\n";
    for (name, path) in [
        ("2 BDP", "rtt = \"40ms\"\nqueue = \"2 BDP\""),
        ("1 BDP", "rtt = \"20ms\"\nqueue = \"1 BDP\""),
        (
            "fq-codel",
            "rtt = \"20ms\"\nqueue = \"8 BDP\"\ndiscipline = \"fq-codel\"",
        ),
    ] {
        study += &format!("[[condition]]\nname = \"{name}\"\nrate = \"10Mbit/s\"\n{path}\n");
    }
    study +=
        "[[workload]]\nname = \"flow\"\nkind = \"bulk\"\nduration = \"45s\"\nwarm_up = \"10s\"\n";
    for (name, flows, condition) in [
        ("equals", ["cubic", "cubic"], "2 BDP"),
        ("bbr", ["bbr", "cubic"], "2 BDP"),
        ("friendly", ["cubic", "reno"], "1 BDP"),
        ("queues", ["bbr", "quinn"], "fq-codel"),
    ] {
        study += &format!(
            "[[competition]]\nname = \"{name}\"\nalone = false\nconditions = [\"{condition}\"]\n"
        );
        for flow in flows {
            study += &format!("[[competition.flow]]\ntransport = \"{flow}\"\n");
        }
    }
    shared_trials("cli-competition", &study)
}

/// Returns a metric of one flow.
#[track_caller]
fn value(competition: &str, transport: &str, metric: &str) -> f64 {
    let trials = all();
    let mut flows = trials.iter().filter(|it| it.workload == competition);
    let flow = flows.find(|it| it.transport == transport).expect("a flow");
    assert_eq!(flow.outcome, Outcome::Measured, "{:?}", flow.reasons);
    let value = flow.measurements.metrics[metric];
    println!("{competition}, {transport}: {metric} {value:.4}");
    value
}

#[test]
fn equals_have_half() {
    let share = value("equals", "cubic", id::GOODPUT_SHARE_RATIO);
    assert!((0.4..0.6).contains(&share), "{share}");
    let both = share + value("equals", "cubic 2", id::GOODPUT_SHARE_RATIO);
    assert!((both - 1.0).abs() < 1e-9, "{both}");
}

/// Measured on FABRIC (arXiv 2505.07741): 0.60.
#[test]
fn bbr_has_its_published_share_of_a_short_queue() {
    let share = value("bbr", "bbr", id::GOODPUT_SHARE_RATIO);
    assert!((share - 0.60).abs() < 0.08, "{share}");
}

/// Both have the window of Reno there (RFC 9438, 4.3), give or take the shape of its growth.
#[test]
fn cubic_is_friendly_to_reno_over_a_short_path() {
    let share = value("friendly", "cubic", id::GOODPUT_SHARE_RATIO);
    assert!((0.45..0.58).contains(&share), "{share}");
}

/// RFC 8290: each flow has a queue of its own, and all take turns.
#[test]
fn fq_codel_shares_alike_whatever_the_flows() {
    let share = value("queues", "bbr", id::GOODPUT_SHARE_RATIO);
    assert!((0.49..0.51).contains(&share), "{share}");
    let fairness = value("queues", "quinn", id::FAIRNESS_RATIO);
    assert!(fairness >= 0.9996, "{fairness}");
}

/// Two flows of Reno over 20 and 100 ms behind one queue of our emulator: each has its own round trips, and each drop is one
/// of theirs.
#[test]
fn flows_have_round_trips_of_their_own() {
    let mut study = head("competition-rtt");
    study += "[[transport]]\nlabel = \"reno\"\ndriver = \"tcp\"\ncc = \"reno\"\n\
        [[condition]]\nname = \"path\"\nrate = \"10Mbit/s\"\nrtt = \"20ms\"\nqueue = \"2 BDP\"\n\
        [[workload]]\nname = \"flow\"\nkind = \"bulk\"\nduration = \"10s\"\nwarm_up = \"2s\"\n\
        [[competition]]\nname = \"far\"\nalone = false\n\
        [[competition.flow]]\ntransport = \"reno\"\n\
        [[competition.flow]]\ntransport = \"reno\"\nrtt = \"100ms\"\n";
    let trials = shared_trials("cli-competition-rtt", &study);
    let metric = |transport: &str, name: &str| {
        let flow = trials.iter().find(|it| it.transport == transport);
        flow.expect("a flow").measurements.metrics[name]
    };
    let round_trip = |transport: &str| metric(transport, id::MIN_RTT_NS) / 1e6;
    assert!((20.0..21.5).contains(&round_trip("reno")));
    assert!((100.0..101.5).contains(&round_trip("reno 2")));
    let drops = |transport: &str| metric(transport, id::FLOW_QUEUE_DROPS);
    let of_both = drops("reno") + drops("reno 2");
    assert!(of_both > 0.0);
    assert_eq!(of_both, metric("reno", id::PATH_QUEUE_DROPS));
    // The nearer one has more (RFC 5166, 2.2).
    let share = metric("reno", id::GOODPUT_SHARE_RATIO);
    assert!(share > 0.6, "{share}");
}

/// A flood of twelve times the path's rate beside flows that have a second to connect: what connects may need longer than that
/// for its first bytes, and for the end of TLS's handshake. Whatever a stack meets, a flow that gets nothing runs out of time, which
/// is a result. A round whose flows fail, or are invalid, says nothing.
#[test]
fn a_starved_flow_runs_out_of_time_and_the_flood_has_all() {
    let mut study = head("starved").replace("deadline = \"60s\"", "deadline = \"20s\"");
    study = study.replace("rounds = 1", "rounds = 10");
    study += "connect_deadline = \"1s\"\n\
        [[transport]]\nlabel = \"tcp\"\ndriver = \"tcp\"\n\
        [[transport]]\nlabel = \"tls\"\ndriver = \"tcp-tls\"\n\
        [[transport]]\nlabel = \"quinn\"\ndriver = \"quic-quinn\"\n\
        [[transport]]\nlabel = \"flood\"\ndriver = \"udp\"\nrate = \"12Mbit/s\"\n\
        [[condition]]\nname = \"path\"\nrate = \"1Mbit/s\"\nrtt = \"20ms\"\nqueue = \"10 packets\"\n\
        [[workload]]\nname = \"flow\"\nkind = \"bulk\"\nduration = \"12s\"\nmessage = \"1200B\"\n\
        [workload.probe]\nidle_messages = 0\nunder_load = false\n";
    for starved in ["tcp", "tls", "quinn"] {
        study += &format!(
            "[[competition]]\nname = \"{starved} beside a flood\"\nalone = false\n\
            [[competition.flow]]\ntransport = \"flood\"\n\
            [[competition.flow]]\ntransport = \"{starved}\"\n"
        );
    }
    let trials = shared_trials("cli-competition-starved", &study);
    assert_eq!(trials.len(), 60, "none is repeated");
    let mut timed_out = 0;
    for trial in &trials {
        let metrics = &trial.measurements.metrics;
        let shown = format!(
            "{} {:?} {:?}",
            trial.transport, trial.outcome, trial.reasons
        );
        println!("{shown} {:?}", metrics.get(id::GOODPUT_SHARE_RATIO));
        match trial.outcome {
            Outcome::Measured => {
                assert!(metrics[id::GOODPUT_SHARE_RATIO] > 0.5 || trial.transport != "flood");
            }
            Outcome::TimedOut => {
                timed_out += 1;
                assert_eq!(metrics[id::GOODPUT_SHARE_RATIO], 0.0, "{shown}");
            }
            _ => panic!("{shown}"),
        }
    }
    assert!(timed_out > 0, "no flow was starved");
}

/// Without `ecn` no packet that arrives is ECN-capable, and the queue that marks drops them.
#[test]
fn quic_sends_without_ecn_where_it_is_to() {
    let mut study = head("ecn");
    for (label, options) in [("with", ""), ("without", "ecn = false\n")] {
        for driver in ["quic-quinn", "quic-noq"] {
            study += &format!(
                "[[transport]]\nlabel = \"{driver} {label}\"\ndriver = \"{driver}\"\n{options}"
            );
        }
    }
    study += "[[condition]]\nname = \"path\"\nrate = \"10Mbit/s\"\nrtt = \"20ms\"\nqueue = \"8 BDP\"\n\
        discipline = \"codel\"\necn = true\n\
        [[workload]]\nname = \"flow\"\nkind = \"bulk\"\nduration = \"3s\"\n";
    let trials = shared_trials("cli-competition-ecn", &study);
    assert_eq!(trials.len(), 4);
    for trial in &trials {
        assert_eq!(trial.outcome, Outcome::Measured, "{:?}", trial.reasons);
        let metric = |name: &str| trial.measurements.metrics.get(name).copied();
        let (capable, marked) = (metric(id::RECEIVED_ECT_PACKETS), metric("path_ecn_marks"));
        println!(
            "{}: {capable:?} capable, {marked:?} marked",
            trial.transport
        );
        let is_with = trial.transport.ends_with(" with");
        assert_eq!(capable > Some(0.0), is_with, "{}", trial.transport);
        assert_eq!(marked > Some(0.0), is_with, "{}", trial.transport);
        assert!(is_with || metric("path_aqm_drops") > Some(0.0));
    }
}
