//! Agents that begin again with each greeting.

use std::os::unix::process::ExitStatusExt as _;

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use regatta_control::{FromAgent, Role};

use crate::common::{Agent, hello_of, order, tls};

/// Greets an agent and returns the number of the process that answers.
fn renew(agent: &mut Agent) -> u32 {
    agent.send(&hello_of(true));
    match agent.receive() {
        FromAgent::Hello { pid, .. } => pid,
        other => panic!("{other:?} instead of a greeting"),
    }
}

#[test]
fn each_greeting_begins_with_a_process_without_the_trial_before() {
    let mut agent = Agent::start();
    let first = renew(&mut agent);
    agent.prepare(order(1, Role::Receiver, "test-waiting", &tls()));
    let second = renew(&mut agent);
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
    let serving = Pid::from_raw(renew(&mut agent).cast_signed());
    kill(serving, Signal::SIGABRT).expect("it is there");
    let (status, _) = agent.wait();
    assert_eq!(status.signal(), Some(Signal::SIGABRT as i32));
}

#[test]
fn a_malformed_message_ends_the_agent_with_code_2() {
    let mut agent = Agent::start();
    renew(&mut agent);
    agent.send_text("{\"type\":\"dance\"}");
    let (status, errors) = agent.wait();
    assert_eq!(status.code(), Some(2), "{errors}");
    assert!(errors.contains("dance"), "{errors}");
}
