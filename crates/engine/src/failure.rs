//! Reasons why a trial has no figures, and their description in its record.

use std::{collections::BTreeMap, time::Duration};

use regatta_bed::BedError;
use regatta_control::{FailureKind, Host};
use regatta_model::{Outcome, Workload};

use crate::agent::AgentExit;

/// Reason why a trial does not have both reports.
pub(crate) enum TrialFailure {
    Stopped,
    /// An agent is missing and none could be started, with the causes.
    NoAgent(String),
    /// An agent has ended, or cannot be written to.
    Died(Host),
    /// An agent wrote something that is no answer.
    Malformed(Host, String),
    /// An end said that it has no report.
    Failed {
        host: Host,
        kind: FailureKind,
        reasons: Vec<String>,
        hint: String,
    },
    /// The path did not follow the trial.
    Path(BedError),
    /// An end did not answer in time.
    Silent {
        hosts: Vec<Host>,
        within: Duration,
        doing: &'static str,
    },
}

/// Returns outcome, reasons and hint of a trial that failed; `None` if the run was stopped.
pub(crate) fn explain(
    failure: TrialFailure,
    exits: &BTreeMap<Host, AgentExit>,
    workload: &Workload,
    host_names: [&str; 2],
) -> Option<(Outcome, Vec<String>, String)> {
    let names = |host: Host| {
        let role = host.role(workload).name();
        format!("the {role} on host `{}`", host_names[host as usize])
    };
    let last = |host: &Host| {
        exits
            .get(host)
            .map_or_else(Vec::new, |exit| exit.reasons.clone())
    };
    match failure {
        TrialFailure::Stopped => None,
        TrialFailure::NoAgent(why) => Some((Outcome::Failed, vec![why], String::new())),
        TrialFailure::Died(host) => {
            let mut reasons = vec![format!("{} died during the trial", names(host))];
            reasons.extend(last(&host));
            Some((Outcome::Failed, reasons, String::new()))
        }
        TrialFailure::Malformed(host, what) => {
            let mut reasons = vec![
                format!("{} did not keep to the protocol", names(host)),
                what,
            ];
            reasons.extend(last(&host));
            Some((Outcome::Failed, reasons, String::new()))
        }
        TrialFailure::Failed {
            host,
            kind,
            reasons: why,
            hint,
        } => {
            let outcome = match kind {
                FailureKind::Unsupported => Outcome::Unsupported,
                FailureKind::Failed => Outcome::Failed,
                FailureKind::TimedOut => Outcome::TimedOut,
            };
            if outcome == Outcome::Unsupported {
                return Some((outcome, why, hint));
            }
            // An end often fails because the other one has died or hangs; then that is the cause.
            let other = host.other();
            if let Some(exit) = exits.get(&other) {
                let end = if exit.killed { "hung" } else { "died" };
                let mut reasons = vec![format!("{} {end} during the trial", names(other))];
                reasons.extend(exit.reasons.clone());
                reasons.push(format!("{} then failed", names(host)));
                reasons.extend(why);
                return Some((Outcome::Failed, reasons, hint));
            }
            let mut reasons = vec![format!("{} failed", names(host))];
            reasons.extend(why);
            Some((outcome, reasons, hint))
        }
        TrialFailure::Path(error) => Some((
            Outcome::Failed,
            vec![
                "the path did not begin its schedule".to_owned(),
                error.to_string(),
            ],
            String::new(),
        )),
        TrialFailure::Silent {
            hosts,
            within,
            doing,
        } => {
            // An end that waits for the other says nothing either, but it answers an abort.
            let hanging: Vec<Host> = hosts
                .iter()
                .copied()
                .filter(|host| exits.contains_key(host))
                .collect();
            let hosts = if hanging.is_empty() { hosts } else { hanging };
            let hosts: Vec<String> = hosts.into_iter().map(names).collect();
            Some((
                Outcome::TimedOut,
                vec![format!(
                    "no answer from {} within {} s of {doing}",
                    hosts.join(" and "),
                    within.as_secs()
                )],
                String::new(),
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exits(killed: bool, hosts: &[Host]) -> BTreeMap<Host, AgentExit> {
        let exit = |host: &Host| {
            let reasons = Vec::new();
            (*host, AgentExit { killed, reasons })
        };
        hosts.iter().map(exit).collect()
    }

    fn workload() -> Workload {
        crate::testing::study(1, 1, 1).workloads[0].clone()
    }

    #[test]
    fn the_end_that_hangs_is_named_and_not_the_one_that_waits_for_it() {
        let silent = || TrialFailure::Silent {
            hosts: Host::BOTH.to_vec(),
            within: Duration::from_secs(30),
            doing: "the trial",
        };
        let says = |hosts: &[Host]| {
            let exits = exits(true, hosts);
            explain(silent(), &exits, &workload(), ["a", "lab1"])
                .unwrap()
                .1
        };
        assert_eq!(
            says(&[Host::Client]),
            ["no answer from the sender on host `a` within 30 s of the trial"]
        );
        let both = "no answer from the sender on host `a` and the receiver on host `lab1` within 30 s \
                    of the trial";
        assert_eq!(says(&[]), [both]);
        assert_eq!(says(&Host::BOTH), [both]);
    }

    #[test]
    fn an_end_that_fails_because_the_other_hangs_says_so() {
        let failed = || TrialFailure::Failed {
            host: Host::Server,
            kind: FailureKind::TimedOut,
            reasons: vec!["nothing came".into()],
            hint: String::new(),
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
