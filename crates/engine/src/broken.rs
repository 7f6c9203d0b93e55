//! Reasons why a trial has no figures, and what its record says of them.

use std::time::Duration;

use regatta_bed::{BedError, Host};
use regatta_control::{FailureKind, Role};
use regatta_model::{Outcome, Workload};

use crate::{
    agent::{Reaping, host_name},
    run::slot,
};

/// Host of the end that connects; that on host B listens.
pub(crate) const CONNECTING: Host = Host::A;
pub(crate) const LISTENING: Host = Host::B;

/// Returns a host's role in a trial of this workload: the one that connects sends, unless the
/// direction is reversed.
pub(crate) fn role(host: Host, workload: &Workload) -> Role {
    let connects = slot(host) == slot(CONNECTING);
    if connects == Role::Sender.connects(workload) {
        Role::Sender
    } else {
        Role::Receiver
    }
}

/// Returns the other host.
pub(crate) fn other(host: Host) -> Host {
    match host {
        Host::A => Host::B,
        Host::B => Host::A,
    }
}

/// Reason why a trial does not have both reports.
pub(crate) enum Broken {
    Stopped,
    /// An agent is missing and none could be started, with the causes.
    Missing(String),
    /// An agent has died, or cannot be spoken to.
    Died(Host),
    /// An agent wrote something that is no answer.
    Garbled(Host, String),
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

/// Returns outcome, reasons and hint of a trial that broke; `None` if the run was stopped.
pub(crate) fn explain(
    broken: Broken,
    deaths: &[(Host, Reaping)],
    workload: &Workload,
) -> Option<(Outcome, Vec<String>, String)> {
    let names = |host: Host| {
        let role = role(host, workload).name();
        format!("the {role} on host `{}`", host_name(host))
    };
    let death = |host: Host| {
        deaths
            .iter()
            .find(|(dead, _)| slot(*dead) == slot(host))
            .map(|(_, reaping)| reaping)
    };
    let last = |host: Host| death(host).map_or_else(Vec::new, |reaping| reaping.reasons.clone());
    match broken {
        Broken::Stopped => None,
        Broken::Missing(why) => Some((Outcome::Failed, vec![why], String::new())),
        Broken::Died(host) => {
            let mut reasons = vec![format!("{} died during the trial", names(host))];
            reasons.extend(last(host));
            Some((Outcome::Failed, reasons, String::new()))
        }
        Broken::Garbled(host, what) => {
            let mut reasons = vec![
                format!("{} did not keep to the protocol", names(host)),
                what,
            ];
            reasons.extend(last(host));
            Some((Outcome::Failed, reasons, String::new()))
        }
        Broken::Failed {
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
            if let Some(reaping) = death(other(host)) {
                let end = if reaping.killed { "hung" } else { "died" };
                let mut reasons = vec![format!("{} {end} during the trial", names(other(host)))];
                reasons.extend(last(other(host)));
                reasons.push(format!("{} then failed", names(host)));
                reasons.extend(why);
                return Some((Outcome::Failed, reasons, hint));
            }
            let mut reasons = vec![format!("{} failed", names(host))];
            reasons.extend(why);
            Some((outcome, reasons, hint))
        }
        Broken::Path(error) => Some((
            Outcome::Failed,
            vec![
                "the path did not begin its schedule".to_owned(),
                error.to_string(),
            ],
            String::new(),
        )),
        Broken::Silent {
            hosts,
            within,
            doing,
        } => {
            // An end that waits for the other says nothing either, but it answers an abort.
            let hanging: Vec<Host> = hosts
                .iter()
                .copied()
                .filter(|host| death(*host).is_some())
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

    fn reaping(killed: bool) -> Reaping {
        Reaping {
            killed,
            reasons: Vec::new(),
        }
    }

    fn workload() -> Workload {
        crate::testing::study(1, 1, 1).workloads[0].clone()
    }

    #[test]
    fn the_end_that_hangs_is_named_and_not_the_one_that_waits_for_it() {
        let silent = || Broken::Silent {
            hosts: vec![CONNECTING, LISTENING],
            within: Duration::from_secs(30),
            doing: "the trial",
        };
        let says = |deaths: &[(Host, Reaping)]| explain(silent(), deaths, &workload()).unwrap().1;
        assert_eq!(
            says(&[(CONNECTING, reaping(true))]),
            ["no answer from the sender on host `a` within 30 s of the trial"]
        );
        let both = "no answer from the sender on host `a` and the receiver on host `b` within 30 s \
                    of the trial";
        assert_eq!(says(&[]), [both]);
        assert_eq!(
            says(&[(CONNECTING, reaping(true)), (LISTENING, reaping(true))]),
            [both]
        );
    }

    #[test]
    fn an_end_that_fails_because_the_other_hangs_says_so() {
        let failed = || Broken::Failed {
            host: LISTENING,
            kind: FailureKind::TimedOut,
            reasons: vec!["nothing came".into()],
            hint: String::new(),
        };
        for (killed, end) in [(true, "hung"), (false, "died")] {
            let (_, reasons, _) =
                explain(failed(), &[(CONNECTING, reaping(killed))], &workload()).unwrap();
            let first = format!("the sender on host `a` {end} during the trial");
            assert_eq!(reasons[0], first);
        }
    }
}
