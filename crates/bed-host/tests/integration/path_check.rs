//! Path checks in real namespaces.
//!
//! Timing is judged by the median of three checks, see `common::two_or_three`. Losses come from the seeds
//! of the bed's run, the same in every run of these tests. What is in `real_time` needs the machine
//! for itself.

use regatta_bed::{Host, TestBed as _};
use regatta_model::{BitRate, Condition, Emulator, PathSetup};

use crate::common::{Agent, bed, bed_of, condition, explain};

mod real_time {
    use std::time::Duration;

    use regatta_model::{AskedAchieved, PathCheck};
    use regatta_test_support::machine::MachineLoad;

    use super::*;
    use crate::common::{check_path, median, quantity, two_or_three};

    /// Checks that the six quantities of every path are there and that their medians are within tolerance.
    fn assert_sound(checks: &[PathCheck]) {
        let names = |check: &PathCheck| -> Vec<String> {
            check.quantities.iter().map(|q| q.name.clone()).collect()
        };
        let expected = [
            "round_trip_delay_mean_ns",
            "round_trip_delay_near_ratio",
            "forward_loss_ratio",
            "forward_link_rate_bps",
            "reverse_loss_ratio",
            "reverse_link_rate_bps",
        ];
        for check in checks {
            assert_eq!(names(check), expected);
            assert_eq!(check.within, check.quantities.iter().all(|q| q.within));
        }
        for name in expected {
            let of = |value: fn(&AskedAchieved) -> f64| {
                let checks = checks.iter();
                median(checks.map(|check| quantity(check, name).map_or(f64::NAN, value)))
            };
            let (achieved, lowest, highest) =
                (of(|q| q.achieved), of(|q| q.lowest), of(|q| q.highest));
            assert!((lowest..=highest).contains(&achieved), "{name}: {achieved}");
        }
    }

    /// The default study's paths.
    #[track_caller]
    fn is_sound_and_soon_checked(loss: f64) {
        let _load = MachineLoad::watch();
        let mut bed = bed();
        let condition = condition(30, 100, loss);
        let soon = Duration::from_millis(1500);
        let measure = || {
            check_path(&mut bed, &condition, |check, took| {
                check.within && took < soon
            })
        };
        let Some(checks) = two_or_three(measure, |(check, _)| check.within) else {
            return;
        };
        for (_, took) in &checks {
            assert!(*took < soon, "{took:?}");
        }
        let checks: Vec<_> = checks.into_iter().map(|(check, _)| check).collect();
        assert_sound(&checks);
    }

    #[test]
    fn the_default_study_s_path_without_loss_is_sound() {
        is_sound_and_soon_checked(0.0);
    }

    #[test]
    fn the_default_study_s_path_with_loss_is_sound() {
        is_sound_and_soon_checked(0.05);
    }

    #[test]
    fn a_gigabit_is_sound() {
        let _load = MachineLoad::watch();
        let mut bed = bed();
        let gigabit = condition(30, 1000, 0.0);
        let measure = || Some(check_path(&mut bed, &gigabit, |check, _| check.within)?.0);
        let Some(checks) = two_or_three(measure, |check| check.within) else {
            return;
        };
        assert_sound(&checks);
    }
}

#[test]
fn a_path_that_loses_everything_is_reported() {
    let mut bed = bed();
    let check = bed.check_path(&condition(30, 100, 1.0)).expect("a check");
    let names: Vec<_> = check.quantities.iter().map(|q| q.name.as_str()).collect();
    assert_eq!(names, ["forward_loss_ratio", "reverse_loss_ratio"]);
    assert!(check.within && check.quantities.iter().all(|q| q.achieved == 1.0));
}

#[test]
fn an_impossible_condition_is_refused_with_a_hint() {
    let mut bed = bed();
    let mut none = condition(30, 100, 0.0);
    none.forward.rate = Some(BitRate(0));
    let error = bed.set_condition(&none, 1).expect_err("a rate of zero");
    assert_eq!(
        explain(&error),
        "the bed cannot set the condition: the forward link of condition `test` cannot be \
         emulated: a link rate of `0 bit/s` carries nothing"
    );
    assert!(!error.hint().is_empty());
    let mut tiny = condition(30, 100, 0.0);
    tiny.mtu_bytes = 20;
    assert!(bed.set_condition(&tiny, 1).is_err());
    bed.set_condition(&condition(30, 100, 0.0), 1)
        .expect("the bed still serves");
}

#[test]
fn both_hosts_of_the_loopback_are_one() {
    let path = PathSetup {
        emulator: Emulator::Loopback,
        ..PathSetup::default()
    };
    let mut bed = bed_of(path).unwrap_or_else(|error| panic!("{}", explain(&error)));
    assert_eq!(bed.description(), "netns, loopback");
    let mut untouched = condition(20, 100, 0.0);
    untouched.forward = Default::default();
    untouched.reverse = Default::default();
    untouched.mtu_bytes = Condition::LARGEST_MTU_BYTES;
    let check = bed.check_path(&untouched).expect("a check");
    let names = check
        .quantities
        .iter()
        .map(|it| (&it.name[..], it.achieved));
    let losses: Vec<_> = names
        .filter(|(name, _)| name.ends_with("loss_ratio"))
        .collect();
    let none = [("forward_loss_ratio", 0.0), ("reverse_loss_ratio", 0.0)];
    assert_eq!(losses, none);
    let [mut a, mut b] = Host::BOTH.map(|host| Agent::start(&mut bed, host));
    let to = b.listen("collect");
    a.send("read /proc/sys/net/ipv4/conf/path0/forwarding");
    let answer = a.receive();
    assert!(answer.starts_with("error "), "{answer}");
    a.send(&format!("flow {to} 1 65507 0"));
    assert_eq!(a.receive(), "sent 1");
    let collected = b.receive();
    assert_eq!(collected.split(' ').count(), 2, "{collected}");
}

#[test]
fn a_direct_link_loses_nothing_and_carries_no_condition() {
    let path = PathSetup {
        emulator: Emulator::None,
        ..PathSetup::default()
    };
    let mut bed = bed_of(path).unwrap_or_else(|error| panic!("{}", explain(&error)));
    assert_eq!(bed.description(), "netns, direct link");
    let mut untouched = condition(20, 100, 0.0);
    untouched.forward = Default::default();
    untouched.reverse = Default::default();
    let check = bed.check_path(&untouched).expect("a check");
    let loss = |name: &str| {
        let found = check
            .quantities
            .iter()
            .find(|quantity| quantity.name == name);
        found.expect("a loss").achieved
    };
    assert_eq!(loss("forward_loss_ratio"), 0.0);
    assert_eq!(loss("reverse_loss_ratio"), 0.0);
    let refused = bed.set_condition(&condition(20, 100, 0.0), 1);
    let refused = explain(&refused.expect_err("a condition"));
    assert!(refused.contains("would change it"), "{refused}");
}
