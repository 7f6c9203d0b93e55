//! Tests of runs on beds that monitor their hosts.

use super::fake_monitor::Monitor;
use super::*;

#[test]
fn samples_of_both_hosts_are_sent_before_the_run_ends() {
    let plan = Plan::new(&study(2, 1, 1)).unwrap();
    let mut bed = FakeBed::healthy();
    bed.monitors = Box::new(|_, _| Some(Monitor::Healthy));
    let (ending, recorded) = run(&mut bed, &plan);
    assert_eq!(ending.unwrap(), Ending::Complete);
    let [.., Event::HostsSampled { samples }, Event::RunEnded { .. }] = &recorded.events[..] else {
        panic!("{:?}", recorded.events.last());
    };
    for host in ["sender", "receiver"] {
        let of_host = samples.iter().filter(|batch| batch.host == host);
        let trials: Vec<Option<u32>> = of_host.map(|batch| batch.trial).collect();
        assert_eq!(trials, [None, Some(0), None, Some(1), None], "{host}");
    }
}

#[test]
fn a_run_whose_monitors_fail_is_complete() {
    let plan = Plan::new(&study(2, 1, 2)).unwrap();
    let mut bed = FakeBed::healthy();
    bed.monitors = Box::new(|_, _| Some(Monitor::Refused));
    let (ending, recorded) = run(&mut bed, &plan);
    assert_eq!(ending.unwrap(), Ending::Complete);
    assert_eq!(recorded.outcomes(), [Outcome::Measured; 4]);
    assert_eq!(recorded.warning_codes(), ["host_not_monitored"; 2]);
}
