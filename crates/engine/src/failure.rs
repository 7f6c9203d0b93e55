//! Reasons why a trial has no figures, and their description in its record.

use std::{collections::BTreeMap, time::Duration};

use regatta_bed::{BedError, ProcessEnd};
use regatta_control::{Host, Problem, ProblemKind, Role};
use regatta_model::{Outcome, Phrase, Text, Workload, phrase, reason};

/// Reason why a trial does not have both reports.
pub(crate) enum TrialFailure {
    Stopped,
    /// An agent is missing and none could be started, with the causes.
    NoAgent(Text),
    /// An agent has ended, or cannot be written to.
    Died(Host),
    /// An agent wrote something that is no answer.
    Malformed(Host, Phrase),
    /// An end reported that it failed.
    Failed {
        host: Host,
        problem: Problem,
    },
    /// The path did not follow the trial.
    Path(BedError),
    /// An end did not answer in time.
    Silent {
        hosts: Vec<Host>,
        within: Duration,
        doing: Phrase,
    },
}

impl TrialFailure {
    /// Whether an end reported that time ran out, such as that of its connection.
    pub(crate) fn is_time_out(&self) -> bool {
        matches!(self, Self::Failed { problem, .. } if problem.kind == ProblemKind::TimedOut)
    }

    /// Whether what happened at the other end may be the cause.
    pub(crate) const fn may_be_caused_elsewhere(&self) -> bool {
        matches!(self, Self::Failed { .. } | Self::Silent { .. })
    }
}

/// Returns outcome, reasons and hint of a trial that failed; `None` if the run was stopped. One whose agent somebody
/// outside ended or stopped is invalid, unless the other one has crashed.
pub(crate) fn explain(
    failure: TrialFailure,
    exits: &BTreeMap<Host, ProcessEnd>,
    workload: &Workload,
    host_names: [&str; 2],
) -> Option<(Outcome, Vec<Text>, Text)> {
    let (outcome, reasons, hint) = explain_failure(failure, exits, workload, host_names)?;
    let crashed = |exit: &ProcessEnd| !exit.killed && !exit.is_from_outside();
    let is_from_outside = exits.values().any(ProcessEnd::is_from_outside);
    Some(match is_from_outside && !exits.values().any(crashed) {
        true => (
            Outcome::Invalid,
            reasons,
            reason::leave_processes_alone().into(),
        ),
        false => (outcome, reasons, hint),
    })
}

fn explain_failure(
    failure: TrialFailure,
    exits: &BTreeMap<Host, ProcessEnd>,
    workload: &Workload,
    host_names: [&str; 2],
) -> Option<(Outcome, Vec<Text>, Text)> {
    let about = |host: Host, what: fn(Phrase, &str) -> Phrase| {
        let end = match host.role(workload) {
            Role::Sender => reason::subject_sender(),
            Role::Receiver => reason::subject_receiver(),
        };
        Text::from(what(end, host_names[host as usize]))
    };
    let exit_reasons = |host: Host| {
        let exit = exits.get(&host);
        exit.map_or_else(Vec::new, ProcessEnd::reasons)
    };
    let failed = |parts: [Vec<Text>; 2]| (Outcome::Failed, parts.concat(), Text::default());
    Some(match failure {
        TrialFailure::Stopped => return None,
        TrialFailure::NoAgent(why) => failed([vec![why], Vec::new()]),
        TrialFailure::Died(host) => failed([vec![about(host, reason::died)], exit_reasons(host)]),
        TrialFailure::Malformed(host, what) => failed([
            vec![about(host, reason::broke_protocol), what.into()],
            exit_reasons(host),
        ]),
        TrialFailure::Failed { host, problem } => {
            let (kind, why, hint) = (problem.kind, problem.reasons(), problem.hint);
            if kind == ProblemKind::Unsupported {
                return Some((Outcome::Unsupported, why, hint));
            }
            if kind == ProblemKind::Disturbed {
                let disturbed = about(host, reason::disturbed);
                return Some((Outcome::Invalid, [vec![disturbed], why].concat(), hint));
            }
            let other = host.other();
            let (outcome, mut reasons) = match exits.get(&other) {
                // An end often fails because the other one has died or hangs; then that is the cause.
                Some(exit) => {
                    let mut reasons = vec![match exit.killed {
                        true => about(other, reason::hung),
                        false => about(other, reason::died),
                    }];
                    reasons.extend(exit_reasons(other));
                    reasons.push(about(host, reason::then_failed));
                    (Outcome::Failed, reasons)
                }
                None if kind == ProblemKind::TimedOut => {
                    (Outcome::TimedOut, vec![about(host, reason::failed)])
                }
                None => (Outcome::Failed, vec![about(host, reason::failed)]),
            };
            reasons.extend(why);
            (outcome, reasons, hint)
        }
        TrialFailure::Path(error) => {
            let what = reason::path_not_begun().into();
            failed([vec![what], error.reasons()])
        }
        TrialFailure::Silent {
            hosts,
            within,
            doing,
        } => {
            // An end that waits for the other sends nothing either, but it answers an abort.
            let mut silent = hosts.clone();
            silent.retain(|host| exits.contains_key(host));
            let hosts = if silent.is_empty() { hosts } else { silent };
            let of = |host: &Host| {
                let end = phrase::side(host.role(workload).name());
                (end, host_names[*host as usize])
            };
            let ends: Vec<(Phrase, &str)> = hosts.iter().map(of).collect();
            let reason = match <[(Phrase, &str); 2]>::try_from(ends) {
                Ok([(end, host), (other, other_host)]) => {
                    reason::no_answer_of_both(end, host, other, other_host, within, doing)
                }
                Err(mut ends) => {
                    let (end, host) = ends.remove(0);
                    reason::no_answer(end, host, within, doing)
                }
            };
            (Outcome::TimedOut, vec![reason.into()], Text::default())
        }
    })
}

#[cfg(test)]
mod tests {
    use regatta_bed::Exit;

    use super::*;

    fn exits(killed: bool, hosts: &[Host]) -> BTreeMap<Host, ProcessEnd> {
        let exit = |host: &Host| {
            let exit = ProcessEnd {
                killed,
                exit: None,
                last_lines: None,
            };
            (*host, exit)
        };
        hosts.iter().map(exit).collect()
    }

    fn workload() -> Workload {
        crate::tests::fake_bed::study(1, 1, 1).workloads[0].clone()
    }

    #[test]
    fn the_end_that_hangs_is_named_and_not_the_one_that_waits_for_it() {
        let silent = || TrialFailure::Silent {
            hosts: Host::BOTH.to_vec(),
            within: Duration::from_secs(30),
            doing: reason::the_trial(),
        };
        let reasons = |hosts: &[Host]| {
            let exits = exits(true, hosts);
            explain(silent(), &exits, &workload(), ["a", "lab1"])
                .unwrap()
                .1
        };
        assert_eq!(
            reasons(&[Host::Client]),
            ["no answer from the sender on host `a` within 30 s of the trial"]
        );
        let both = "no answer from the sender on host `a` and the receiver on host `lab1` within 30 s \
                    of the trial";
        assert_eq!(reasons(&[]), [both]);
        assert_eq!(reasons(&Host::BOTH), [both]);
    }

    #[test]
    fn a_trial_whose_agent_somebody_stopped_is_invalid_unless_the_other_has_crashed() {
        let silent = || TrialFailure::Silent {
            hosts: Host::BOTH.to_vec(),
            within: Duration::from_secs(30),
            doing: reason::the_trial(),
        };
        let outcome = |exits: &BTreeMap<Host, ProcessEnd>| {
            explain(silent(), exits, &workload(), ["a", "b"]).unwrap().0
        };
        let mut ended = exits(true, &[Host::Client]);
        assert_eq!(outcome(&ended), Outcome::TimedOut);
        ended.get_mut(&Host::Client).unwrap().exit = Some(Exit::Stopped);
        assert_eq!(outcome(&ended), Outcome::Invalid);
        ended.extend(exits(false, &[Host::Server]));
        assert_eq!(outcome(&ended), Outcome::TimedOut);
    }

    #[test]
    fn a_failure_names_the_other_end_that_hung_or_died() {
        let failed = || TrialFailure::Failed {
            host: Host::Server,
            problem: Problem::new(ProblemKind::TimedOut, ["nothing came"], ""),
        };
        for (killed, end) in [(true, "hung"), (false, "died")] {
            let (_, reasons, _) = explain(
                failed(),
                &exits(killed, &[Host::Client]),
                &workload(),
                ["a", "b"],
            )
            .unwrap();
            let first = format!("the sender on host `a` {end} during the trial");
            assert_eq!(reasons[0], first);
        }
    }
}
