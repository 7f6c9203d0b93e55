//! Programs that misbehave: each fails its own trial with a reason, and no process of it is left.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use regatta_control::{Note, ProblemKind, Role, SideReport, TrialOrder};
use regatta_model::{Amount, BulkOptions, Direction, Finish, OptionValue, Pattern, WorkloadKind};
use regatta_test_support::processes::running_with;
use regatta_transport::{
    Session, TransportError,
    testing::{order_for, trial_context},
};

use crate::common::{DESCRIPTION, Script, example, external, with_program};

/// Maximum time for a fault to show, beyond its own duration.
const SOON: Duration = Duration::from_secs(3);

fn prepare(role: Role, program: &Path) -> Result<Session, TransportError> {
    let mut order = order_for(role, "external", 1000, 100);
    with_program(&mut order, program);
    external().session(&order, trial_context().0)
}

/// Runs the sender's end alone, which expects nothing of the receiver until it is done.
fn send(script: &Script, deadline: Duration) -> Result<SideReport, TransportError> {
    let mut order = order_for(Role::Sender, "external", 1000, 100);
    with_program(&mut order, &script.path());
    order.deadline = deadline;
    let session = external().session(&order, trial_context().0)?;
    session.run(Some("127.0.0.1:9".parse().expect("an address")))
}

/// Runs the receiver's end alone.
fn receive(script: &Script) -> Result<SideReport, TransportError> {
    prepare(Role::Receiver, &script.path())?.run(None)
}

/// Returns the causes of an error, which must be a failure, in one line.
fn failure<T>(result: Result<T, TransportError>) -> String {
    let error = result.err().expect("it must fail");
    assert_eq!(error.kind(), ProblemKind::Failed, "{error:?}");
    error.reasons().join(": ")
}

#[track_caller]
fn contains(text: &str, part: &str) {
    assert!(text.contains(part), "`{part}` is not in `{text}`");
}

#[test]
fn a_program_that_is_missing_or_cannot_be_started_is_named() {
    let text = failure(prepare(Role::Sender, Path::new("./no/such/driver")));
    contains(
        &text,
        "`./no/such/driver` is not a value of option `program`",
    );
    let text = failure(prepare(Role::Sender, Path::new("/etc/passwd")));
    contains(
        &text,
        "`/etc/passwd` failed: it cannot be started: Permission denied",
    );
}

#[test]
fn an_early_end_is_reported_with_the_last_lines_of_stderr() {
    let script = Script::raw("echo 'first words' >&2\necho 'no such luck' >&2\nexit 3");
    let text = failure(prepare(Role::Receiver, &script.path()));
    contains(
        &text,
        "it ended with exit code 3 before it was done: its last lines of standard error: ",
    );
    contains(&text, "first words / no such luck");

    let script = Script::new(
        "echo '{\"type\":\"ready\"}'\nread -r start\nexec python3 -c 'import ctypes; ctypes.string_at(0)'",
    );
    contains(
        &failure(send(&script, SOON)),
        "it was ended by signal 11 before it was done",
    );

    let script = Script::new("echo '{\"type\":\"ready\",\"port\":1}'\nexit 0");
    contains(
        &failure(receive(&script)),
        "it ended with exit code 0 before it was done",
    );
}

/// The first process of a namespace would ignore the signal, and the C library then ends it by another.
#[test]
fn a_program_that_aborts_is_reported_with_its_signal() {
    let script = Script::new("exec python3 -c 'import os; os.abort()'");
    contains(
        &failure(prepare(Role::Sender, &script.path())),
        "it was ended by signal 6 before it was done",
    );
}

#[test]
fn the_message_of_a_panic_is_reported_and_not_the_end_of_its_stacks() {
    let script = Script::new(
        "echo 'panic: no such luck' >&2\nfor i in $(seq 500); do echo \"goroutine $i\" >&2; done\nexit 2",
    );
    contains(
        &failure(prepare(Role::Sender, &script.path())),
        "panic: no such luck / goroutine 1 / goroutine 2",
    );
}

/// Makes an order with options, and a directory for files.
fn order_with(script: &Script, options: &[(&str, OptionValue)]) -> (TrialOrder, PathBuf) {
    let mut order = order_for(Role::Sender, "external", 1000, 100);
    with_program(&mut order, &script.path());
    for (name, value) in options {
        let options = &mut order.transport.options;
        options.insert((*name).to_owned(), value.clone());
    }
    let files = script.beside("trial-0001");
    order.files = Some(files.clone());
    (order, files)
}

#[test]
fn what_a_program_writes_is_kept_with_the_trial() {
    let script = Script::new("echo left > log; echo why >&2; exit 3");
    let (order, files) = order_with(&script, &[("keep", OptionValue::Flag(true))]);
    let text = failure(external().session(&order, trial_context().0));
    let stderr = files.join("sender/stderr");
    contains(
        &text,
        &format!("`why` (all of it is in `{}`)", stderr.display()),
    );
    assert_eq!(fs::read_to_string(stderr).expect("a file"), "why\n");
    let log = fs::read_to_string(files.join("sender/log"));
    assert_eq!(log.expect("a file"), "left\n");
}

#[test]
fn a_program_that_writes_nothing_leaves_no_directory() {
    let script = Script::new("case $order in *'\"files\":\"'*) exit 3;; esac; exit 4");
    let (order, files) = order_with(&script, &[("keep", OptionValue::Flag(true))]);
    contains(
        &failure(external().session(&order, trial_context().0)),
        "exit code 3",
    );
    assert!(!files.exists());
    let (order, _) = order_with(&script, &[]);
    contains(
        &failure(external().session(&order, trial_context().0)),
        "exit code 4",
    );
}

#[test]
fn a_program_has_the_variables_of_its_option() {
    let script = Script::new("echo \"$ONE, $TWO\" >&2; exit 3");
    let text = |text: &str| OptionValue::Text(text.to_owned());
    let variables = text("ONE=1 TWO='a b'");
    let (order, _) = order_with(&script, &[("environment", variables)]);
    contains(
        &failure(external().session(&order, trial_context().0)),
        "`1, a b`",
    );
    let (order, _) = order_with(&script, &[("environment", text("ONE"))]);
    let error = external().session(&order, trial_context().0).err();
    let error = error.expect("it is no variable");
    assert!(error.hint().contains("`NAME=VALUE`"), "{error:?}");
}

#[test]
fn a_program_that_cannot_run_here_is_unsupported_with_its_reason_and_hint() {
    for script in [
        Script::raw("echo 'no SCTP here' >&2; echo 'hint: run `modprobe sctp`' >&2; exit 77"),
        Script::new("echo 'no SCTP here' >&2; echo 'hint: run `modprobe sctp`' >&2; exit 77"),
    ] {
        let error = prepare(Role::Sender, &script.path()).err().expect("77");
        assert_eq!(error.kind(), ProblemKind::Unsupported, "{error:?}");
        assert_eq!(error.to_string(), "no SCTP here");
        assert_eq!(error.hint(), "run `modprobe sctp`");
    }
}

regatta_test_contract::test_cases! { malformed_output_is_reported_and_ends_the_trial:
    a_line_that_is_no_json(
        "echo 'hello, world'\nsleep 60",
        Role::Sender,
        "a line that is not of the contract: `hello, world`",
    )
    a_line_without_end("exec cat /dev/zero", Role::Sender, "a line of more than 65536 bytes")
    a_flood_of_lines(
        "while :; do echo '{\"type\":\"progress\",\"bytes\":1}'; done",
        Role::Sender,
        "it sent `progress` before it was ready",
    )
    no_port(
        "echo '{\"type\":\"ready\"}'\nsleep 60",
        Role::Receiver,
        "its `ready` has no port",
    )
}

fn malformed_output_is_reported_and_ends_the_trial(then: &str, role: Role, reason: &str) {
    let script = Script::new(then);
    contains(&failure(prepare(role, &script.path())), reason);
}

#[test]
fn another_version_of_the_contract_is_reported() {
    let script = Script::raw(&format!(
        "read -r order; echo '{}'",
        DESCRIPTION.replace(":2,", ":1,")
    ));
    let text = failure(prepare(Role::Receiver, &script.path()));
    contains(&text, "it speaks version `1` of the contract and not `2`");
}

/// Returns a receiver that gets ready, prints these lines, and hangs.
fn printing(lines: &[&str]) -> Script {
    let lines: Vec<String> = lines.iter().map(|line| format!("echo '{line}'")).collect();
    let then = format!(
        "echo '{{\"type\":\"ready\",\"port\":9}}'\n{}\nsleep 60",
        lines.join("\n")
    );
    Script::new(&then)
}

// More than there is, less than there is, and other bytes.
regatta_test_contract::test_cases! { impossible_results_are_refused:
    too_many_bytes("\"bytes\":1001,\"crc32\":1", "it speaks of `1001` bytes, and there are `1000`")
    too_few_bytes(
        "\"bytes\":999,\"crc32\":1",
        "it is done with `999` of `1000` bytes delivered",
    )
    no_checksum("\"bytes\":1000", "has no CRC-32")
    another_checksum(
        "\"bytes\":1000,\"crc32\":1",
        "it got is `00000001`, and of what was sent `",
    )
    a_negative_number("\"bytes\":-1", "a line that is not of the contract")
    an_unknown_field("\"bytes\":1000,\"crc\":1", "unknown field `crc`")
}

fn impossible_results_are_refused(done: &str, reason: &str) {
    let script = printing(&[
        "{\"type\":\"connected\"}",
        &format!("{{\"type\":\"done\",{done}}}"),
    ]);
    contains(&failure(receive(&script)), reason);
}

#[test]
fn a_clock_that_is_not_the_monotonic_one_is_refused() {
    let script = printing(&["{\"type\":\"connected\",\"started_ns\":5,\"at_ns\":6}"]);
    contains(
        &failure(send(&script, SOON)),
        "its times do not follow one another",
    );
}

/// Runs a sender that is done at once, with these members of its `done`.
fn sent_at_once(members: &str) -> SideReport {
    let script = Script::new(&format!(
        "exec python3 -c '\n\
         import json, sys, time\n\
         say = lambda **line: print(json.dumps(line), flush=True)\n\
         now = time.monotonic_ns\n\
         say(type=\"ready\")\n\
         sys.stdin.readline()\n\
         say(type=\"connected\", started_ns=now(), at_ns=now())\n\
         say(type=\"done\", bytes=1000, at_ns=now(), {members})\n\
         sys.stdin.readline()'"
    ));
    send(&script, SOON).expect("a report")
}

#[test]
fn impossible_values_of_metrics_are_left_out_and_named() {
    let report = sent_at_once(
        "metrics=dict(retransmit_ratio=1e308, retransmitted_packets=1.5, smoothed_rtt_ns=1e15, min_rtt_ns=2)",
    );
    let metrics = &report.measurements.metrics;
    assert_eq!(metrics.get("min_rtt_ns"), Some(&2.0));
    for name in [
        "retransmit_ratio",
        "retransmitted_packets",
        "smoothed_rtt_ns",
    ] {
        assert!(!metrics.contains_key(name), "{name}");
    }
    let warning = &report.measurements.warnings[0];
    assert_eq!(warning.code, "external_left_out");
    let named = "`retransmit_ratio`, `retransmitted_packets`, `smoothed_rtt_ns`";
    contains(&warning.message, named);
}

#[test]
fn the_agent_states_its_own_times_beside_those_of_a_program() {
    let report = sent_at_once("metrics={}");
    let agent = report.agent_times.expect("its own times");
    let [started, connected] = agent.connecting_ns.expect("times of the connection");
    assert!(started <= report.started_monotonic_ns);
    assert!(report.started_monotonic_ns <= connected && connected <= agent.ended_ns);
    assert!(report.ended_monotonic_ns <= agent.ended_ns);
}

#[test]
fn a_connection_without_its_time_is_refused() {
    let script = printing(&["{\"type\":\"connected\"}"]);
    contains(&failure(send(&script, SOON)), "its `connected` has no time");
}

/// The connect deadline applies as with every transport.
#[test]
fn a_program_that_hangs_before_it_connects_is_ended_at_the_deadline() {
    let begun = Instant::now();
    let script = Script::new("echo '{\"type\":\"ready\"}'\nexec sleep 60");
    let (context, _) = trial_context();
    let mut order = order_for(Role::Sender, "external", 1000, 100);
    with_program(&mut order, &script.path());
    order.connect_deadline = Duration::from_millis(300);
    let session = external()
        .session(&order, context.clone())
        .expect("it is ready");
    context.peer.note(Note::Received {
        messages: 0,
        bytes: 0,
    });
    let error = session.run(Some("127.0.0.1:9".parse().expect("an address")));
    let error = error.expect_err("nothing was connected");
    assert_eq!(error.kind(), ProblemKind::TimedOut, "{error:?}");
    contains(&error.to_string(), "no connection within 300 ms");
    assert!(
        begun.elapsed() < SOON + order.connect_deadline,
        "{:?}",
        begun.elapsed()
    );
}

/// Script that starts processes in its session, in one of their own, and as a daemon; they ignore
/// all signals that can be ignored.
const CHILDREN: &str = "
sh -c 'trap \"\" HUP TERM INT; echo $$ >>\"$0\"; while :; do sleep 100; done' \"$numbers\" &
setsid sh -c 'trap \"\" HUP TERM INT; echo $$ >>\"$0\"; while :; do sleep 100; done' \"$numbers\" &
(setsid sh -c 'sh -c \"sleep 100 & echo \\$! >>$0\"; sleep 100' \"$numbers\" &) &
while [ \"$(wc -l <\"$numbers\")\" -lt 3 ]; do sleep 0.01; done
";

#[test]
fn an_abort_ends_a_program_that_ignores_signals() {
    let script = Script::new(
        "trap '' HUP TERM INT\necho '{\"type\":\"ready\",\"port\":9}'\nwhile :; do sleep 100; done",
    );
    let mut order = order_for(Role::Receiver, "external", 1000, 100);
    with_program(&mut order, &script.path());
    let (context, _) = trial_context();
    let session = external()
        .session(&order, context.clone())
        .expect("it is ready");
    let running = thread::spawn(move || session.run(None));
    let begun = Instant::now();
    context.stop.stop();
    let result = running.join().expect("no panic");
    assert!(
        matches!(result, Err(TransportError::Cancelled)),
        "{result:?}"
    );
    assert!(
        begun.elapsed() < Duration::from_secs(1),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(running_with(&script.path().display().to_string()), [0; 0]);
}

regatta_test_contract::test_cases! { workloads_outside_the_contract_are_unsupported:
    short_connections(WorkloadKind::ShortConnections {
        connections: 1,
        handshake: Default::default(),
        request: regatta_model::Bytes(100),
        response: regatta_model::Bytes(100),
    })
    a_workload_that_its_description_lacks(stop_and_wait())
    both_directions(bulk(|options| options.direction = Direction::Both))
    several_flows(bulk(|options| options.flows = 2))
    a_duration(for_a_second())
    a_warm_up(bulk(|options| options.warm_up = Duration::from_secs(1)))
    abandoning(bulk(|options| options.finish = Finish::Abandon))
}

fn stop_and_wait() -> WorkloadKind {
    WorkloadKind::StopAndWait {
        size: regatta_model::Bytes(1000),
        message: regatta_model::Bytes(100),
        pattern: Pattern::Data,
        timeout: Duration::from_secs(1),
    }
}

/// Runs a sender of ten messages of stop-and-wait with a probe before it that says these lines, in Python, after
/// `connected`; `now` is a function, and `t` the time of `connected`.
fn asked(lines: &str) -> Result<SideReport, TransportError> {
    asked_with_probe(lines, false)
}

/// As [`asked`], with the probe under load as well if `under_load`.
fn asked_with_probe(lines: &str, under_load: bool) -> Result<SideReport, TransportError> {
    let description = DESCRIPTION.replace(
        "[\"bulk\"]",
        "[\"stop-and-wait\"],\"capabilities\":[\"probe\"]",
    );
    let script = Script::raw(&format!(
        "exec python3 -c '\n\
         import json, sys, time\n\
         say = lambda **line: print(json.dumps(line), flush=True)\n\
         now = time.monotonic_ns\n\
         if \"describe\" in sys.stdin.readline():\n    print(\"\"\"{description}\"\"\")\n    sys.exit()\n\
         say(type=\"ready\")\n\
         sys.stdin.readline()\n\
         say(type=\"answers\", to=\"idle_probe\", times_ns=[[now(), now()]])\n\
         say(type=\"probed\")\n\
         sys.stdin.readline()\n\
         t = now()\n\
         say(type=\"connected\", started_ns=t, at_ns=t)\n\
         {lines}\n\
         sys.stdin.readline()'"
    ));
    let mut order = order_for(Role::Sender, "external", 1000, 100);
    with_program(&mut order, &script.path());
    order.deadline = SOON;
    order.workload.kind = stop_and_wait();
    order.workload.probe.idle_messages = 1;
    order.workload.probe.under_load = under_load;
    // None is due before the program is done.
    order.workload.probe.interval = SOON;
    let session = external().session(&order, trial_context().0)?;
    session.run(Some("127.0.0.1:9".parse().expect("an address")))
}

/// CRC-32 of ten answers.
fn answers_crc32() -> u32 {
    crc32fast::hash(&b"DATA".repeat(40))
}

#[test]
fn stated_answers_are_measured() {
    let report = asked(&format!(
        "say(type=\"answers\", to=\"requests\", times_ns=[[t + i, t + i + 1] for i in range(10)])\n\
         say(type=\"done\", bytes=1000, at_ns=now(), crc32={})",
        answers_crc32()
    ));
    let report = report.unwrap_or_else(|error| panic!("{:?}", error.reasons()));
    let metrics = &report.measurements.metrics;
    assert_eq!(metrics.get("message_delay_mean_ns"), Some(&1.0));
    assert!(metrics.contains_key("round_trip_delay_idle_p50_ns"));
    let agent = report.agent_times.expect("its own times");
    assert!(agent.shortest_answer_ns.is_some_and(|ns| ns <= 1));
}

/// The last number that a program states of the probe counts; without one it is not known, and not zero.
#[test]
fn stated_retransmissions_of_the_probe_are_measured() {
    let said = |lines: &str| {
        let report = asked_with_probe(
            &format!(
                "say(type=\"answers\", to=\"requests\", times_ns=[[t + i, t + i + 1] for i in range(10)])\n\
                 {lines}say(type=\"done\", bytes=1000, at_ns=now(), crc32={})",
                answers_crc32()
            ),
            true,
        );
        let measured = report.unwrap_or_else(|error| panic!("{:?}", error.reasons()));
        let (metrics, facts) = (measured.measurements.metrics, measured.measurements.facts);
        let why_not = facts.get("probe.packets_retransmitted");
        (
            metrics.get("probe_packets_retransmitted").copied(),
            why_not.map(|text| text.as_str().to_owned()),
        )
    };
    let not_known = "not known: the program does not tell".to_owned();
    assert_eq!(said(""), (None, Some(not_known)));
    let lines = "say(type=\"probe_retransmitted\", packets=0)\nsay(type=\"probe_retransmitted\", packets=3)\n";
    assert_eq!(said(lines), (Some(3.0), None));
}

#[test]
fn retransmissions_of_no_probe_are_refused() {
    let script = printing(&[
        "{\"type\":\"connected\"}",
        "{\"type\":\"probe_retransmitted\",\"packets\":1}",
    ]);
    contains(
        &failure(receive(&script)),
        "it reports packets of a probe that its order does not have",
    );
}

regatta_test_contract::test_cases! { impossible_answers_are_refused:
    fewer_than_messages(
        "say(type=\"done\", bytes=1000, at_ns=now(), crc32=CRC)",
        "it reports `0` answers, and the receiver got `10` messages",
    )
    other_bytes(
        "say(type=\"done\", bytes=1000, at_ns=now(), crc32=1)",
        "it got is `00000001`, and of what was sent `",
    )
    from_the_future(
        "say(type=\"answers\", to=\"requests\", times_ns=[[t, t + 10**12]])",
        "it says that an answer came at `",
    )
    two_at_once(
        "say(type=\"answers\", to=\"requests\", times_ns=[[t, t + 2], [t + 1, t + 3]])",
        "it says that request `1` left at `",
    )
    to_no_probe_under_load(
        "say(type=\"answers\", to=\"probe\", times_ns=[[t, t]])",
        "its order rules out that message `0` of the probe under load left at `",
    )
    before_the_transfer_again(
        "say(type=\"answers\", to=\"idle_probe\", times_ns=[[t, t]])",
        "its order rules out that message `1` of the probe before the transfer left at `",
    )
}

fn impossible_answers_are_refused(lines: &str, reason: &str) {
    let lines = lines.replace("CRC", &answers_crc32().to_string());
    contains(&failure(asked(&lines)), reason);
}

fn bulk(change: fn(&mut BulkOptions)) -> WorkloadKind {
    let mut options = BulkOptions::default();
    change(&mut options);
    WorkloadKind::Bulk {
        amount: regatta_model::Bytes(1000).into(),
        message: regatta_model::Bytes(100),
        pattern: Pattern::Data,
        options,
    }
}

fn for_a_second() -> WorkloadKind {
    let mut kind = bulk(|_| {});
    if let WorkloadKind::Bulk { amount, .. } = &mut kind {
        *amount = Amount::Time(Duration::from_secs(1));
    }
    kind
}

fn workloads_outside_the_contract_are_unsupported(kind: WorkloadKind) {
    let script = Script::new("exit 1");
    let mut order: TrialOrder = order_for(Role::Sender, "external", 1000, 100);
    with_program(&mut order, &script.path());
    order.workload.kind = kind;
    let error = external()
        .session(&order, trial_context().0)
        .err()
        .expect("unsupported");
    assert_eq!(error.kind(), ProblemKind::Unsupported, "{error:?}");
}

#[test]
fn a_missing_program_option_has_a_hint() {
    let none = external()
        .check_options(&Default::default())
        .expect_err("no program is named");
    contains(none.hint(), "external:program=");
}

#[test]
fn options_are_checked() {
    let example = example();
    let example = example.to_str().expect("UTF-8");
    let options = |name: &str, value: &str| {
        [("program", example), (name, value)]
            .map(|(name, value)| (name.to_owned(), OptionValue::Text(value.to_owned())))
            .into()
    };
    for (name, value, is_valid) in [
        ("program", example, true),
        ("program", "", false),
        ("arguments", "--a 'b c'", true),
        ("arguments", "'open", false),
        ("arguments", "two\nlines", false),
        ("cc", "bbr", true),
        ("cc", "b br", false),
        ("programm", example, false),
    ] {
        let result = external().check_options(&options(name, value));
        assert_eq!(result.is_ok(), is_valid, "{name} = {value}: {result:?}");
    }
}

/// The trial does not wait long for such a program.
#[test]
fn a_program_that_hangs_is_killed_and_its_last_lines_are_reported() {
    let begun = Instant::now();
    let script = Script::raw("echo 'I am thinking' >&2\nexec sleep 60");
    let text = failure(prepare(Role::Receiver, &script.path()));
    contains(
        &text,
        "it sent no `description` within 5 s: its last lines of standard error: `I am thinking`",
    );
    assert!(
        begun.elapsed() < Duration::from_secs(5) + SOON,
        "{:?}",
        begun.elapsed()
    );
}

/// Faults that are over within [`SOON`], with programs that start others.
mod real_time {
    use super::*;

    regatta_test_contract::test_cases! { nothing_that_a_program_started_outlives_it:
        when_it_dies("exit 5")
        when_its_session_is_dropped("sleep 100")
    }

    fn nothing_that_a_program_started_outlives_it(end: &str) {
        let script = Script::raw("");
        let numbers = script.beside("numbers");
        fs::write(&numbers, "").expect("a file");
        let text = format!(
            "#!/bin/sh\nread -r order\ncase $order in *describe*) echo '{DESCRIPTION}'; exit 0;; \
             esac\nnumbers={}\n{CHILDREN}\n\
             echo '{{\"type\":\"ready\",\"port\":9}}'\n{end}\n",
            numbers.display()
        );
        fs::write(script.path(), text).expect("a file");
        let begun = Instant::now();
        let marked = || running_with(&numbers.display().to_string());
        {
            let session = prepare(Role::Receiver, &script.path()).expect("it is ready");
            if end != "sleep 100" {
                let text = failure(session.run(None));
                contains(&text, "before it was done");
            } else {
                assert!(!marked().is_empty(), "the children were there");
            }
        }
        assert!(begun.elapsed() < 2 * SOON, "{:?}", begun.elapsed());
        assert_eq!(marked(), [0; 0], "after `{end}`");
    }
}
