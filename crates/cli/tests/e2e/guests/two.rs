//! Tests of the bed `uml` with two guests: each host in a kernel of its own.

use regatta_model::TrialRecord;
use regatta_results::{Reader, RunState};

use crate::help::{Bench, SLOW, SMALL, assert_ran, trials};

/// Returns a study in two guests.
pub fn in_two_guests(study: &str) -> String {
    study.replacen("rounds = 2\n", "rounds = 2\nbed = \"uml\"\nguests = 2\n", 1)
}

#[test]
fn study_runs_in_two_guests() {
    let bench = Bench::new();
    let study = in_two_guests(SMALL)
        .replacen(
            "[[condition]]\n",
            "[[transport]]\ndriver = \"sctp\"\n\n[[condition]]\n",
            1,
        )
        .replacen("rate = \"50Mbit/s\"\n", "rate = \"20Mbit/s\"\n", 1);
    bench.write("study.toml", &study);
    let done = bench.run(&["run", "study.toml", "--out", "out"]);
    let trials = trials(&bench.path("out"));
    assert_eq!(trials.len(), 6, "{done:#?}");
    for trial in &trials {
        assert_ran(trial);
        // The rate is that of both ends' netem: a wire that carried more would be no path.
        let goodput = trial.measurements.metrics["goodput_bps"];
        assert!((1e4..20e6).contains(&goodput), "{goodput}");
        // 10 ms, as both ends delay by 5: an end without its netem would show half of it.
        let idle = trial.measurements.metrics["round_trip_delay_idle_p50_ns"];
        assert!(idle >= 10e6, "{idle}");
        // Both ends count what they sent.
        assert!(trial.measurements.metrics["path_packets"] > 100.0);
        one_way_delay_is_plausible(trial);
    }
    let reader = Reader::open(&bench.path("out")).expect("results");
    assert_eq!(reader.state().expect("a state"), RunState::Complete);
    let header = reader.header().expect("a header");
    assert!(
        header.bed.starts_with("uml, Linux ") && header.bed.contains("two guests, netem on both"),
        "{}",
        header.bed
    );
    for host in ["sender", "receiver"] {
        let facts = &header.hosts[host].0;
        assert_eq!(facts["guest.count"], "2");
        assert!(facts["guest.start_ms"].parse::<u64>().expect("a number") > 0);
    }
    bench.assert_nothing_left();
}

/// Asserts that a delay from one kernel to the other, whose clocks count from the boot of each, is that of the path of
/// 5 ms, or is left out because the clocks are not known well enough.
fn one_way_delay_is_plausible(trial: &TrialRecord) {
    let measured = &trial.measurements;
    let bound = measured.metrics["clock_offset_bound_ns"];
    assert!(bound > 0.0, "{bound}");
    match measured.metrics.get("one_way_delay_p50_ns") {
        Some(delay) => {
            assert!(bound <= 0.1 * delay, "{delay} {bound}");
            assert!((5e6 - bound..2e9).contains(delay), "{delay} {bound}");
        }
        None if trial.transport == "udp" => {
            let reason = &measured.facts["one_way_delay"];
            assert!(reason.starts_with("left out: the clocks"), "{reason}");
        }
        None => {}
    }
}

#[test]
fn invalid_options_of_two_guests_are_refused() {
    let bench = Bench::new();
    for (more, expected) in [
        (&["--bed", "uml", "--clock", "virtual"][..], "virtual clock"),
        (&["--bed", "uml", "--placement", "between"], "both ends"),
        (&["--bed", "uml", "--emulator", "userspace"], "one guest"),
        (&["--bed", "uml", "--mtu", "9000B"], "at most 1500"),
        (&[], "--bed uml"),
        (&["--bed", "netns"], "--bed uml"),
    ] {
        let mut args = vec!["run", "--transport", "tcp", "--guests", "2", "--out", "out"];
        args.extend(more);
        let done = bench.run(&args);
        done.assert_code(2);
        done.assert_stderr_contains(expected);
        assert!(!bench.path("out").exists(), "nothing is left behind");
    }
}

mod long_forms {
    use super::*;
    use crate::guests::one::assert_ctrl_c_keeps_finished_trials;

    /// Guests end within less than the time after which they would be given up.
    #[test]
    fn ctrl_c_ends_two_guests_and_resume_makes_two_more() {
        assert_ctrl_c_keeps_finished_trials(&in_two_guests(SLOW));
    }
}
