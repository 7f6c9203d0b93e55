//! Competitions in study files.

use std::time::Duration;

use regatta_model::{BedKind, Competition, Emulator, Study, Workload, WorkloadKind};

const REST: &str = r#"
[[transport]]
label = "a"
driver = "tcp"
cc = "bbr"

[[transport]]
label = "b"
driver = "tcp"

[[condition]]
name = "short"
rate = "10Mbit/s"

[[condition]]
name = "long"
rate = "10Mbit/s"
rtt = "40ms"

[[workload]]
name = "flow"
kind = "bulk"
duration = "60s"
warm_up = "10s"
"#;

fn study(competitions: &str) -> Study {
    let text = format!("deadline = \"90s\"\n{REST}\n{competitions}");
    Study::parse(&text, "study.toml").unwrap_or_else(|error| panic!("{error}"))
}

fn hint(competitions: &str) -> String {
    let text = format!("deadline = \"90s\"\n{REST}\n{competitions}");
    let error = Study::parse(&text, "study.toml").expect_err("a mistake");
    format!("{}: {}", error.message, error.hint)
}

fn competition<'s>(study: &'s Study, name: &str) -> (&'s Workload, &'s Competition) {
    let mut works = study.workloads.iter();
    let work = works.find(|work| work.name == name).expect("a workload");
    (work, work.competition.as_ref().expect("a competition"))
}

fn cells(study: &Study, workload: &str) -> Vec<String> {
    let mut works = study.workloads.iter();
    let work = works
        .find(|work| work.name == workload)
        .expect("a workload");
    let transports = study.transports_of(work);
    transports.map(|(_, it)| it.label.clone()).collect()
}

const TWO: &str = "[[competition]]\n[[competition.flow]]\ntransport = \"a\"\n\
                   [[competition.flow]]\ntransport = \"b\"\nstart = \"5s\"\n";

#[test]
fn flows_compete_beside_transports_that_run_alone() {
    let study = study(TWO);
    assert_eq!(cells(&study, "flow"), ["a", "b"]);
    assert_eq!(cells(&study, "a against b"), ["a", "b"]);
    let (work, flows) = competition(&study, "a against b");
    assert!(matches!(&work.kind, WorkloadKind::Bulk { amount, .. } if amount.time().is_some()));
    let starts: Vec<Duration> = flows.flows.iter().map(|flow| flow.start).collect();
    assert_eq!(starts, [Duration::ZERO, Duration::from_secs(5)]);
    assert_eq!(study.cells(), 8);
}

#[test]
fn further_flows_of_a_transport_are_copies_that_run_nowhere_else() {
    let study = study(
        "[[competition]]\nname = \"three\"\n[[competition.flow]]\ntransport = \"a\"\ncount = 3\n",
    );
    assert_eq!(cells(&study, "three"), ["a", "a 2", "a 3"]);
    assert_eq!(cells(&study, "flow"), ["a", "b"]);
    let third = study.transports.iter().find(|it| it.label == "a 3");
    assert_eq!(third.expect("a copy").options, study.transports[0].options);
    assert!(study.is_copy("a 3") && !study.is_copy("a"));
}

#[test]
fn every_pair_is_a_competition_of_its_own() {
    let study = study("[[competition]]\nbetween = [\"a\", \"b\"]\nalone = false\n");
    let names: Vec<&str> = study.workloads.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["a against a", "a against b", "b against b"]);
}

#[test]
fn a_flow_has_work_of_its_own() {
    let study = study(
        "[[workload]]\nname = \"requests\"\nkind = \"request-response\"\n\
         [[competition]]\nname = \"mixed\"\nworkload = \"flow\"\n\
         [[competition.flow]]\ntransport = \"a\"\n\
         [[competition.flow]]\ntransport = \"b\"\nworkload = \"requests\"\n",
    );
    let (work, _) = competition(&study, "mixed");
    assert_eq!(work.of_transport("a").kind.name(), "bulk");
    assert_eq!(work.of_transport("b").kind.name(), "request-response");
    assert_eq!(work.of_transport("b").name, "mixed");
}

#[test]
fn work_is_done_under_its_conditions_by_its_transports() {
    let study = study(
        "[[workload]]\nname = \"one\"\nkind = \"bulk\"\ntransports = [\"b\"]\nconditions = [\"long\"]\n\
         [[competition]]\nname = \"two\"\nalone = false\nconditions = [\"short\"]\n\
         [[competition.flow]]\ntransport = \"a\"\ncount = 2\n",
    );
    assert_eq!(cells(&study, "one"), ["b"]);
    // One of `one`, and the two flows of `two`.
    assert_eq!(study.cells(), 3);
    let (work, _) = competition(&study, "two");
    assert!(work.is_under("short") && !work.is_under("long"));
}

#[test]
fn a_condition_that_a_sweep_multiplies_stands_for_all() {
    let study = study(
        "[[sweep]]\nkey = \"condition.queue\"\nvalues = [\"1 BDP\", \"2 BDP\"]\nof = [\"long\"]\n\
         [[competition]]\nname = \"two\"\nalone = false\nconditions = [\"long\"]\n\
         [[competition.flow]]\ntransport = \"a\"\ncount = 2\n",
    );
    let (work, _) = competition(&study, "two");
    assert_eq!(work.conditions, ["long, queue 1 BDP", "long, queue 2 BDP"]);
}

/// Returns a competition whose second flow has this round-trip delay.
fn far(rtt: &str) -> String {
    format!(
        "[[competition]]\n[[competition.flow]]\ntransport = \"a\"\n\
         [[competition.flow]]\ntransport = \"b\"\nrtt = \"{rtt}\"\n"
    )
}

#[test]
fn a_flow_with_a_path_of_its_own_has_an_emulator_that_gives_it() {
    let free = study(&far("300ms"));
    assert_eq!(free.path.emulator, Emulator::Userspace);
    let (_, competition) = competition(&free, "a against b");
    let own: Vec<_> = competition.flows.iter().map(|flow| flow.rtt).collect();
    assert_eq!(own, [None, Some(Duration::from_millis(300))]);
    let mut with_netem = free.clone();
    with_netem.path.emulator = Emulator::Netem;
    let refused = with_netem.choose_emulator_for_flows().expect_err("netem");
    assert!(
        refused
            .message
            .to_string()
            .contains("asks for netem, which delays all flows alike")
    );
    let mut on_hosts = free;
    on_hosts.bed = BedKind::Hosts;
    let refused = on_hosts.choose_emulator_for_flows().expect_err("hosts");
    assert!(
        refused
            .message
            .to_string()
            .contains("the path is the same for all")
    );
}

#[test]
fn mistakes_name_what_to_write() {
    for (competitions, expected) in [
        ("[[competition]]\n", "at least two flows"),
        (
            "[[competition]]\n[[competition.flow]]\ntransport = \"c\"\n",
            "no transport `c`",
        ),
        (
            "[[competition]]\n[[competition.flow]]\ntransport = \"a\"\ncount = 99\n",
            "`count`",
        ),
        (
            "[[competition]]\nworkload = \"flows\"\n",
            "did you mean `flow`?",
        ),
        (
            "[[competition]]\nconditions = [\"wide\"]\nbetween = [\"a\", \"b\"]\n",
            "no condition `wide`",
        ),
        (
            "[[competition]]\nbetween = [\"a\", \"b\"]\n[[competition.flow]]\ntransport = \"a\"\n",
            "either `between` or flows",
        ),
        (
            "[[competition]]\n[[competition.flow]]\ntransport = \"a\"\n\
             [[competition.flow]]\ntransport = \"b\"\nstart = \"55s\"\n",
            "never send at once",
        ),
        (
            "[[competition]]\nbetween = [\"a\"]\n",
            "two transports or more",
        ),
        (
            "[[competition]]\nbetween = [\"a\", \"b\", \"a\"]\n",
            "names a transport twice",
        ),
        (&far("1ms"), "that of the path which all share is"),
    ] {
        let found = hint(competitions);
        assert!(found.contains(expected), "{competitions}: {found}");
    }
    let twice = hint(&format!("{TWO}{TWO}"));
    assert!(twice.contains("`a against b`"), "{twice}");
}
