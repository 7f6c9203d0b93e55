//! Sweeps of study files: the entries that they make, their names and parameters, and mistakes.

use std::time::Duration;

use regatta_model::{BitRate, Bytes, OptionValue, Part, Ratio, Spacing, Study, Unit, WorkloadKind};

const BASE: &str = r#"
[[transport]]
driver = "tcp"

[[transport]]
driver = "quic-quinn"

[[condition]]
name = "wan"
rtt = "30ms"
rate = "50Mbit/s"

[[condition]]
name = "lan"

[[workload]]
kind = "bulk"
message = "1kB"
"#;

fn read(sweeps: &str) -> Study {
    Study::parse(&format!("{BASE}{sweeps}"), "my-study.toml").unwrap_or_else(|e| panic!("{e}"))
}

fn message(sweeps: &str) -> String {
    match Study::parse(&format!("{BASE}{sweeps}"), "my-study.toml") {
        Ok(study) => panic!("was read: {:?}", study.sweeps),
        Err(error) => error.to_string(),
    }
}

fn conditions(study: &Study) -> Vec<&str> {
    study.conditions.iter().map(|it| it.name.as_str()).collect()
}

#[test]
fn a_sweep_makes_a_condition_for_each_value() {
    let study = read(
        "[[sweep]]\nkey = \"condition.loss\"\nof = [\"wan\"]\nvalues = [\"0%\", \"0.5%\", \"2%\"]",
    );
    assert_eq!(
        conditions(&study),
        ["wan, 0 % loss", "wan, 0.5 % loss", "wan, 2 % loss", "lan"]
    );
    assert_eq!(study.conditions[1].forward.loss, Ratio(0.005));
    assert_eq!(study.conditions[1].forward.delay, Duration::from_millis(15));
    assert_eq!(study.conditions[3].forward.loss, Ratio(0.0));
    let sweep = &study.sweeps.sweeps[0];
    assert_eq!((sweep.part, sweep.key.as_str()), (Part::Condition, "loss"));
    assert_eq!(
        (sweep.unit, sweep.scale),
        (Some(Unit::Ratio), Spacing::Linear)
    );
    let entry = study.sweeps.entry(Part::Condition, "wan, 0.5 % loss");
    let entry = entry.expect("it is swept");
    assert_eq!(entry.base, "wan");
    let parameters: Vec<_> = study.sweeps.parameters(entry).collect();
    assert_eq!(parameters.len(), 1);
    assert_eq!(parameters[0].1.text, "0.5 %");
    assert_eq!(parameters[0].1.value, Some(0.005));
    assert_eq!(study.sweeps.entry(Part::Condition, "lan"), None);
}

#[test]
fn sweeps_are_crossed() {
    let study = read(
        "[[sweep]]\nkey = \"condition.loss\"\nfrom = \"0.1%\"\nto = \"10%\"\npoints = 3\nscale = \"log\"\n\
         [[sweep]]\nkey = \"condition.reverse.rate\"\nof = [\"lan\"]\nvalues = [\"1Mbit/s\", \"unlimited\"]",
    );
    assert_eq!(
        conditions(&study),
        [
            "wan, 0.1 % loss",
            "wan, 1 % loss",
            "wan, 10 % loss",
            "lan, 0.1 % loss, reverse 1 Mbit/s",
            "lan, 0.1 % loss, reverse unlimited",
            "lan, 1 % loss, reverse 1 Mbit/s",
            "lan, 1 % loss, reverse unlimited",
            "lan, 10 % loss, reverse 1 Mbit/s",
            "lan, 10 % loss, reverse unlimited",
        ]
    );
    assert_eq!(study.conditions[3].reverse.rate, Some(BitRate(1_000_000)));
    assert_eq!(study.conditions[3].forward.rate, None);
    assert_eq!(study.sweeps.axes(), [vec![0], vec![1]]);
    // These values are no quantities of one unit.
    assert_eq!(study.sweeps.sweeps[1].unit, None);
}

#[test]
fn zipped_sweeps_go_together() {
    let study = read(
        "[[sweep]]\nkey = \"condition.queue\"\nzip = \"path\"\nof = [\"wan\"]\nvalues = [\"15kB\", \"150kB\"]\n\
         [[sweep]]\nkey = \"condition.loss\"\nzip = \"path\"\nof = [\"wan\"]\nvalues = [\"1%\", \"0%\"]",
    );
    assert_eq!(
        conditions(&study),
        [
            "wan, queue 15 kB, 1 % loss",
            "wan, queue 150 kB, 0 % loss",
            "lan"
        ]
    );
    assert_eq!(study.sweeps.axes(), [vec![0, 1]]);
}

#[test]
fn transports_and_workloads_are_swept() {
    let study = read(
        "[[sweep]]\nkey = \"transport.cc\"\nof = [\"tcp\"]\nvalues = [\"cubic\", \"bbr\"]\n\
         [[sweep]]\nkey = \"transport.streams\"\nof = [\"quic-quinn\"]\nfrom = 1\nto = 16\npoints = 3\nscale = \"log\"\n\
         [[sweep]]\nkey = \"workload.size\"\nvalues = [\"1MB\", \"10MB\"]\n\
         [[sweep]]\nkey = \"workload.probe.under_load\"\nvalues = [true, false]",
    );
    let labels: Vec<&str> = study
        .transports
        .iter()
        .map(|it| it.label.as_str())
        .collect();
    assert_eq!(
        labels,
        [
            "tcp:cc=cubic",
            "tcp:cc=bbr",
            "quic-quinn:streams=1",
            "quic-quinn:streams=4",
            "quic-quinn:streams=16",
        ]
    );
    assert_eq!(
        study.transports[3].options["streams"],
        OptionValue::Number(4)
    );
    let names: Vec<&str> = study.workloads.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "bulk, size 1 MB, probe.under_load true",
            "bulk, size 1 MB, probe.under_load false",
            "bulk, size 10 MB, probe.under_load true",
            "bulk, size 10 MB, probe.under_load false",
        ]
    );
    let WorkloadKind::Bulk {
        amount, message, ..
    } = &study.workloads[3].kind
    else {
        panic!("{:?}", study.workloads[3]);
    };
    assert_eq!((amount.bytes(), *message), (Bytes(10_000_000), Bytes(1000)));
    assert!(!study.workloads[3].probe.under_load);
    let json = serde_json::to_string(&study).expect("a study is JSON");
    assert_eq!(
        serde_json::from_str::<Study>(&json).expect("and back"),
        study
    );
}

#[test]
fn mistakes_are_shown_in_the_sweep() {
    let shown = message("[[sweep]]\nkey = \"condition.loss\"\nvalues = [\"1%\", \"120%\"]");
    assert_eq!(
        shown,
        "\
error: `120%` is not between 0 % and 100 %
  --> my-study.toml:21:17
   |
21 | values = [\"1%\", \"120%\"]
   |                 ^^^^^^
   |
hint: write a ratio from `0%` to `100%`"
    );
    let shown = message("[[sweep]]\nkey = \"condition.los\"\nvalues = [\"1%\"]");
    assert!(
        shown.contains("unknown key `los` in [[condition]]"),
        "{shown}"
    );
    assert!(shown.contains("my-study.toml:20:7"), "{shown}");
    assert!(shown.contains("did you mean `loss`?"), "{shown}");
}

#[test]
fn mistakes_have_hints() {
    for (sweep, expected) in [
        (
            "key = \"conditon.loss\"\nvalues = [\"1%\"]",
            "is no key of a condition",
        ),
        ("key = \"condition\"\nvalues = [\"1%\"]", "names no key"),
        (
            "key = \"condition.name\"\nvalues = [\"a\"]",
            "cannot be swept",
        ),
        ("key = \"condition.loss\"", "[[sweep]] has no `values`"),
        (
            "key = \"condition.loss\"\nvalues = []",
            "from 1 to 10000 values",
        ),
        ("key = \"condition.loss\"\nvalues = [1.5]", "made of texts"),
        (
            "key = \"condition.loss\"\nvalues = [\"1%\", \"1 %\"]",
            "is listed twice",
        ),
        (
            "key = \"condition.loss\"\nvalues = [\"1%\"]\nfrom = \"1%\"",
            "cannot stand together",
        ),
        (
            "key = \"condition.loss\"\nfrom = \"1%\"\nto = \"2%\"",
            "has no `points`",
        ),
        (
            "key = \"condition.loss\"\nfrom = \"1%\"\nto = \"2ms\"\npoints = 3",
            "of one unit",
        ),
        (
            "key = \"condition.loss\"\nfrom = \"1%\"\nto = \"1%\"\npoints = 3",
            "no 3 different",
        ),
        (
            "key = \"condition.loss\"\nfrom = \"0%\"\nto = \"1%\"\npoints = 3\nscale = \"log\"",
            "begins above zero",
        ),
        (
            "key = \"condition.loss\"\nvalues = [\"0%\", \"1%\"]\nscale = \"log\"",
            "quantities of one unit above zero",
        ),
        (
            "key = \"condition.loss\"\nof = [\"wna\"]\nvalues = [\"1%\"]",
            "did you mean `wan`?",
        ),
        (
            "key = \"condition.rtt\"\nvalues = [\"1ms\"]",
            "is said here and by a `[[sweep]]`",
        ),
        (
            "key = \"workload.size\"\nvalues = [\"1MB\"]\n[[sweep]]\nkey = \"workload.size\"\nvalues = [\"2MB\"]",
            "is swept twice",
        ),
        (
            "key = \"workload.size\"\nvalues = [\"1MB\"]\nzip = \"a\"\n[[sweep]]\nkey = \"condition.loss\"\nvalues = [\"2%\"]\nzip = \"a\"",
            "cannot be zipped",
        ),
        (
            "key = \"condition.jitter\"\nvalues = [\"1ms\"]\nzip = \"a\"\n[[sweep]]\nkey = \"condition.loss\"\nvalues = [\"2%\", \"1%\"]\nzip = \"a\"",
            "has 2 values and `condition.jitter`, with which it is zipped, 1",
        ),
        (
            "key = \"condition.loss\"\nfrom = \"0%\"\nto = \"50%\"\npoints = 1000\nof = [\"lan\"]\n[[sweep]]\nkey = \"condition.corrupt\"\nfrom = \"0%\"\nto = \"50%\"\npoints = 1000\nof = [\"lan\"]",
            "more than 100000",
        ),
        (
            "key = \"condition.loss\"\nvalues = [\"1%\"]\nvalus = 3",
            "unknown key `valus`",
        ),
    ] {
        let shown = message(&format!("[[sweep]]\n{sweep}"));
        assert!(
            shown.contains(expected),
            "expected {expected:?} in:\n{shown}"
        );
        assert!(shown.contains("hint: "), "no hint in:\n{shown}");
        assert!(shown.contains("my-study.toml:"), "no place in:\n{shown}");
    }
}

/// Checks that a study of 10 000 cells is read within a second, without optimisation too.
/// Returns the processor time of this thread, which waits for other work on the machine do not lengthen.
fn processor_time() -> Duration {
    let text =
        std::fs::read_to_string("/proc/thread-self/schedstat").expect("the kernel's account");
    let first = text.split(' ').next().expect("a field");
    Duration::from_nanos(first.parse().expect("nanoseconds"))
}

#[test]
fn ten_thousand_cells_are_read_in_under_a_second() {
    let begun = processor_time();
    let study = read(
        "[[sweep]]\nkey = \"condition.loss\"\nof = [\"wan\"]\nfrom = \"0%\"\nto = \"10%\"\npoints = 100\n\
         [[sweep]]\nkey = \"condition.burst\"\nof = [\"wan\"]\nfrom = \"15kB\"\nto = \"64kB\"\npoints = 50",
    );
    let took = processor_time() - begun;
    assert_eq!(study.conditions.len() * study.transports.len(), 10_002);
    assert!(took < Duration::from_secs(1), "{took:?}");
}
