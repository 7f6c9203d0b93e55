//! Path checks in virtual time: a sound path is found sound, with every setting of a link.

use std::time::{Duration, Instant};

use regatta_bed::TestBed as _;
use regatta_model::{
    BitRate, Bytes, Condition, DelayDistribution, DeliveryTrace, GilbertElliott, Link, LossBy,
    PathSetup, Placement, QueueDiscipline, Ratio,
};
use regatta_test_support::guest::{Clock, in_shared_guest};

use super::{
    NETEM,
    common::{bed, bed_of, condition, explain, quantity},
    with,
};

fn is_here(case: &str) -> bool {
    in_shared_guest("netem::path_check", case, Clock::Virtual)
}

cases! { the_path_check_measures_the_condition:
    without_loss(condition(30, 100, 0.0))
    with_loss(condition(30, 100, 0.05))
    over_a_long_delay(condition(300, 10, 0.01))
    over_a_short_delay(condition(2, 100, 0.0))
    with_jitter(with(condition(60, 100, 0.0), jitter_of_each_packet))
}

fn the_path_check_measures_the_condition(condition: Condition) {
    let mut bed = bed_of(NETEM).unwrap_or_else(|error| panic!("{}", explain(&error)));
    let check = bed.check_path(&condition).expect("a check");
    println!("{:#?}", check.quantities);
    assert!(check.within, "{:#?}", check.quantities);
    if condition.forward.jitter.is_zero() {
        let delay = quantity(&check, "round_trip_delay_mean_ns").expect("a delay");
        assert!(
            (delay.achieved - delay.asked).abs() < 100_000.0,
            "{delay:?}"
        );
    }
    let rate = quantity(&check, "forward_link_rate_bps").expect("a rate");
    assert!((rate.achieved / rate.asked - 1.0).abs() < 0.002, "{rate:?}");
}

// One netem loses packets before its rate, the rule of iptables on the receiving host after it.
cases! { losses_on_the_ends_do_not_disturb_the_check:
    by_netem(LossBy::Emulator, 0.05)
    by_netem_many(LossBy::Emulator, 0.3)
    by_iptables(LossBy::Iptables, 0.05)
}

fn losses_on_the_ends_do_not_disturb_the_check(loss_by: LossBy, loss: f64) {
    let setup = PathSetup {
        placement: Placement::Ends,
        loss_by,
        ..NETEM
    };
    let mut bed = bed_of(setup).unwrap_or_else(|error| panic!("{}", explain(&error)));
    let check = bed.check_path(&condition(30, 100, loss)).expect("a check");
    assert!(check.within, "{:#?}", check.quantities);
    for name in ["forward_link_rate_bps", "reverse_link_rate_bps"] {
        let rate = quantity(&check, name).expect("a rate");
        assert!((rate.achieved / rate.asked - 1.0).abs() < 0.01, "{rate:?}");
    }
}

#[test]
fn jitter_widens_only_the_tolerance() {
    if !is_here("jitter_widens_only_the_tolerance") {
        return;
    }
    let path = with(condition(60, 100, 0.0), |link| {
        link.jitter = Duration::from_millis(5);
    });
    let check = bed().check_path(&path).expect("a check");
    let names: Vec<_> = check.quantities.iter().map(|q| q.name.as_str()).collect();
    let expected = [
        "round_trip_delay_mean_ns",
        "round_trip_delay_near_ratio",
        "forward_loss_ratio",
        "forward_link_rate_bps",
        "reverse_loss_ratio",
        "reverse_link_rate_bps",
        "train_round_trip_delay_mean_ns",
        "forward_train_delay_deviation_ns",
        "forward_train_reordered_ratio",
        "reverse_train_delay_deviation_ns",
        "reverse_train_reordered_ratio",
    ];
    assert_eq!(names, expected);
    for quantity in &check.quantities {
        assert!(quantity.within, "{quantity:?}");
    }
    assert!(check.within);
    let delay = quantity(&check, "round_trip_delay_mean_ns").expect("a delay");
    let width = delay.highest - delay.lowest;
    assert!((1.1e6..12e6).contains(&width), "{delay:?}");
}

/// 64 kbit/s and two seconds: slow, but bounded.
#[test]
fn a_slow_path_is_checked_in_bounded_time() {
    if !is_here("a_slow_path_is_checked_in_bounded_time") {
        return;
    }
    let path = with(condition(2000, 0, 0.0), |link| {
        link.rate = Some(BitRate(64_000));
    });
    let mut bed = bed();
    let started = Instant::now();
    let check = bed.check_path(&path).expect("a check");
    let elapsed = started.elapsed();
    assert!(elapsed < Duration::from_secs(10), "{elapsed:?}");
    for quantity in &check.quantities {
        assert!(quantity.within, "{quantity:?}");
    }
    assert_eq!(check.quantities.len(), 6);
}

fn jitter_of_each_packet(link: &mut Link) {
    link.jitter = Duration::from_millis(5);
    link.jitter_correlation = Some(Duration::ZERO);
}

fn normal_jitter_of_each_packet(link: &mut Link) {
    normal_jitter(link);
    link.jitter_correlation = Some(Duration::ZERO);
}

fn normal_jitter(link: &mut Link) {
    link.jitter = Duration::from_millis(5);
    link.jitter_distribution = DelayDistribution::Normal;
}

fn pareto_jitter(link: &mut Link) {
    link.jitter = Duration::from_millis(2);
    link.jitter_distribution = DelayDistribution::Pareto;
    link.jitter_reorders = true;
}

fn loss_in_bursts(link: &mut Link) {
    link.loss_bursts = Some(GilbertElliott {
        to_bad_ratio: Ratio(0.02),
        to_good_ratio: Ratio(0.2),
        bad_loss_ratio: Ratio(0.9),
        good_loss_ratio: Ratio(0.01),
    });
}

fn loss_by_a_list(link: &mut Link) {
    link.loss_list = vec![2, 400, 401, 1_000_000];
}

fn reordering(link: &mut Link) {
    link.reorder_ratio = Ratio(0.2);
}

fn duplication(link: &mut Link) {
    link.duplicate_ratio = Ratio(0.2);
}

fn corruption(link: &mut Link) {
    link.corrupt_ratio = Ratio(0.1);
}

fn a_burst(link: &mut Link) {
    link.burst_bytes = Some(Bytes(60_000));
}

fn a_queue_of_packets(link: &mut Link) {
    link.queue_packets = Some(10);
}

fn codel(link: &mut Link) {
    link.discipline = QueueDiscipline::Codel {
        target: Duration::from_millis(5),
        interval: Duration::from_millis(100),
    };
}

fn a_trace(link: &mut Link) {
    link.rate = None;
    link.trace = Some(DeliveryTrace {
        name: "t".into(),
        opportunities_ms: vec![1, 2, 3, 40, 41],
    });
}

fn no_rate(link: &mut Link) {
    link.rate = None;
}

// Netem has neither lists of losses nor traces.
cases! { netem_is_found_sound:
    normal_jitter(super::normal_jitter_of_each_packet)
    pareto_jitter(super::pareto_jitter)
    loss_in_bursts(super::loss_in_bursts)
    reordering(super::reordering)
    duplication(super::duplication)
    corruption(super::corruption)
    a_burst(super::a_burst)
    a_queue_of_packets(super::a_queue_of_packets)
    codel(super::codel)
    no_rate(super::no_rate)
}

fn netem_is_found_sound(change: fn(&mut Link)) {
    is_found_sound(NETEM, change);
}

cases! { the_user_space_emulator_is_found_sound:
    normal_jitter(super::normal_jitter)
    pareto_jitter(super::pareto_jitter)
    loss_in_bursts(super::loss_in_bursts)
    loss_by_a_list(super::loss_by_a_list)
    reordering(super::reordering)
    duplication(super::duplication)
    corruption(super::corruption)
    a_burst(super::a_burst)
    a_queue_of_packets(super::a_queue_of_packets)
    codel(super::codel)
    a_trace(super::a_trace)
    no_rate(super::no_rate)
}

fn the_user_space_emulator_is_found_sound(change: fn(&mut Link)) {
    is_found_sound(PathSetup::USERSPACE, change);
}

fn is_found_sound(setup: PathSetup, change: fn(&mut Link)) {
    let path = with(condition(50, 20, 0.0), change);
    let mut bed = bed_of(setup).unwrap_or_else(|error| panic!("{}", explain(&error)));
    let check = bed.check_path(&path).expect("a check");
    assert!(check.within, "{:#?}", check.quantities);
}
