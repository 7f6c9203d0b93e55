//! Agents of which a child process serves from each greeting to the next.

use std::{
    io::Write as _,
    os::unix::process::ExitStatusExt as _,
    process::{Command, Stdio},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use regatta_control::{FromAgent, Role};

use crate::common::{Agent, hello_of, order, tls};

/// Greets an agent and returns the number of the process that answers.
fn greet(agent: &mut Agent) -> u32 {
    agent.send(&hello_of(true));
    match agent.receive() {
        FromAgent::Hello { pid, .. } => pid,
        other => panic!("{other:?} instead of a greeting"),
    }
}

#[test]
fn each_greeting_begins_with_a_process_without_the_trial_before() {
    let mut agent = Agent::start();
    let first = greet(&mut agent);
    agent.prepare(order(1, Role::Receiver, "test-waiting", &tls()));
    let second = greet(&mut agent);
    let processes = [agent.child.id(), first, second];
    assert!(
        processes[0] != first && first != second && second != processes[0],
        "{processes:?}"
    );
    assert!(
        kill(Pid::from_raw(first.cast_signed()), None).is_err(),
        "it has ended"
    );
    // A process with a trial under way would refuse it.
    agent.prepare(order(2, Role::Receiver, "test-waiting", &tls()));
    drop(agent.input.take());
    let (status, errors) = agent.wait();
    assert_eq!((status.code(), errors.as_str()), (Some(0), ""));
}

#[test]
fn a_signal_that_ends_the_process_that_serves_ends_the_agent() {
    let mut agent = Agent::start();
    let serving = Pid::from_raw(greet(&mut agent).cast_signed());
    kill(serving, Signal::SIGABRT).expect("it is there");
    let (status, _) = agent.wait();
    assert_eq!(status.signal(), Some(Signal::SIGABRT as i32));
}

#[test]
fn a_malformed_message_ends_the_agent_with_code_2() {
    let mut agent = Agent::start();
    greet(&mut agent);
    agent.send_text("{\"type\":\"dance\"}");
    let (status, errors) = agent.wait();
    assert_eq!(status.code(), Some(2), "{errors}");
    assert!(errors.contains("dance"), "{errors}");
}

/// What the client of a server may use up is counted in the process: another one would count from zero.
#[test]
fn an_agent_that_serves_a_client_does_not_fork() {
    let limits = r#"{"local":"127.0.0.1","peer":"127.0.0.1","ports":"5001-5010","max_bytes":1000}"#;
    let hello = serde_json::to_string(&hello_of(true)).expect("serialises");
    let mut agent = Command::new(env!("CARGO_BIN_EXE_regatta-agent-under-test"))
        .args(["served", limits])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut input = agent.stdin.take().expect("piped");
    writeln!(input, "{hello}\n{hello}").expect("it reads");
    let pid = agent.id();
    let output = agent.wait_with_output().expect("it is our child");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(
        errors.contains("`hello` must be the first message"),
        "{errors}"
    );
    let answers = String::from_utf8_lossy(&output.stdout);
    assert!(answers.contains(&format!("\"pid\":{pid}")), "{answers}");
}
