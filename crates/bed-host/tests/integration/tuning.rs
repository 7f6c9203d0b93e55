//! Sysctls of the hosts' namespaces under the tuning of a condition.

use regatta_bed::{Host, TestBed as _};
use regatta_model::Tuning;

use crate::common::{Agent, bed, condition};

#[test]
fn hosts_have_the_buffers_of_the_conditions_tuning() {
    let mut bed = bed();
    let mut agents = Host::BOTH.map(|host| Agent::start(&mut bed, host));
    let mut set = |base, own: Option<u64>| {
        let mut condition = condition(10, 100, 0.0);
        condition.tuning.base = base;
        condition
            .tuning
            .values
            .extend(own.map(|value| ("tcp_wmem".to_owned(), value)));
        bed.set_condition(&condition, 1).expect("a path");
        let values = agents.each_mut().map(|agent| {
            agent.send("read /proc/sys/net/ipv4/tcp_wmem");
            agent.receive()
        });
        assert_eq!(values[0], values[1]);
        values[0].replace('\t', " ")
    };
    let bench = "4096 65536 134217728";
    assert_eq!(set(Tuning::Bench, None), bench);
    assert_eq!(set(Tuning::Defaults, None), "4096 16384 4194304");
    assert_eq!(set(Tuning::Defaults, Some(1 << 20)), "4096 16384 1048576");
    assert_eq!(set(Tuning::Bench, None), bench);
}
