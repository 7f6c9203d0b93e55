//! Warnings about a study that could be what its author did not mean.

use std::collections::BTreeMap;

use super::{Study, Transport};
use crate::{
    facts::HostFacts,
    warning::{self, Warning},
};

/// Fact of a host: the congestion control of sockets that name none.
const DEFAULT_FACT: &str = "sysctl.net.ipv4.tcp_congestion_control";

/// Congestion control of a transport that names none.
const OUR_DEFAULT: &str = "cubic";

/// Drivers whose congestion control is the kernel's TCP's.
const KERNEL_TCP: [&str; 3] = ["tcp", "tcp-tls", "mptcp"];

impl Study {
    /// Returns the warnings that a run of this study starts with, and that its report repeats.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        let scaling = self.scaled.map(|scaled| scaled.warning(self));
        let first = [scaling, self.encryption_warning()];
        let first = first.into_iter().flatten();
        first
            .chain(self.schedule_warnings())
            .chain(self.connection_warnings())
            .collect()
    }

    /// Returns a warning for each condition with a step that comes after the deadline.
    fn schedule_warnings(&self) -> impl Iterator<Item = Warning> {
        self.conditions.iter().filter_map(|condition| {
            let late = |at| at >= self.deadline;
            let step = condition.schedule.iter().find(|step| late(step.at))?;
            let name = &condition.name;
            Some(warning::step_after_deadline(name, step.at, self.deadline))
        })
    }

    /// Returns a warning for each condition over which no connection can be made in time.
    fn connection_warnings(&self) -> impl Iterator<Item = Warning> {
        self.conditions.iter().filter_map(|condition| {
            let (round_trip, deadline) = (condition.round_trip_delay(), self.connect_deadline);
            let warning = || warning::no_connection_in_time(&condition.name, round_trip, deadline);
            (round_trip >= deadline).then(warning)
        })
    }

    /// Returns a warning if the default congestion control of a host's kernel is not the one of transports that name
    /// none, so that other programs there have other figures. `hosts` are the facts of the hosts.
    pub(crate) fn host_default_warning(
        &self,
        hosts: &BTreeMap<String, HostFacts>,
    ) -> Option<Warning> {
        let mut defaults = hosts.values().filter_map(|facts| facts.0.get(DEFAULT_FACT));
        let other = defaults.find(|name| name.as_str() != OUR_DEFAULT)?;
        let labels = self.labels(|transport| {
            KERNEL_TCP.contains(&&*transport.driver) && !transport.options.contains_key("cc")
        });
        (!labels.is_empty()).then(|| warning::host_default_differs(labels, OUR_DEFAULT, other))
    }

    /// Returns a warning if a study has plain TCP and QUIC, but no TLS over TCP: the cost of
    /// encryption is then a part of every difference between them.
    fn encryption_warning(&self) -> Option<Warning> {
        let plain = self.labels(|it| ["tcp", "mptcp"].contains(&&*it.driver));
        let quic = self.labels(|it| it.driver.starts_with("quic-"));
        let tls = self.labels(|it| it.driver == "tcp-tls");
        let compares = !plain.is_empty() && !quic.is_empty() && tls.is_empty();
        compares.then(|| warning::no_tls_beside_quic(plain, quic))
    }

    /// Returns the labels of some transports, without copies for further flows.
    fn labels(&self, are: impl Fn(&Transport) -> bool) -> Vec<String> {
        let transports = self.transports.iter();
        let transports = transports.filter(|it| are(it) && !self.is_copy(&it.label));
        transports.map(|it| it.label.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::{BUILTIN, StudyFile};

    fn warning(transports: &[&str]) -> Option<String> {
        let sections: Vec<String> = (transports.iter())
            .map(|driver| format!("[[transport]]\ndriver = \"{driver}\"\n"))
            .collect();
        let text = format!(
            "name = \"a\"\n{}\n[[condition]]\nname = \"c\"\nrtt = \"1ms\"\n[[workload]]\nkind = \"bulk\"\n",
            sections.concat()
        );
        let file = StudyFile::parse(&text, "a.toml").expect("a study");
        Some(file.study.encryption_warning()?.message)
    }

    #[test]
    fn plain_tcp_beside_quic_is_warned_of_unless_tls_over_tcp_is_there() {
        let message = warning(&["tcp", "udp", "quic-quinn"]).expect("a warning");
        assert!(
            message.starts_with("`tcp` without encryption beside `quic-quinn` with it"),
            "{message}"
        );
        assert_eq!(warning(&["tcp", "tcp-tls", "quic-quinn"]), None);
        assert_eq!(warning(&["tcp", "udp", "sctp"]), None);
        assert_eq!(warning(&["udp", "quic-quinn"]), None);
    }

    #[test]
    fn a_round_trip_above_the_connect_deadline_is_warned_of() {
        let warned = |rtt: &str| {
            let text = format!(
                "name = \"a\"\nconnect_deadline = \"2s\"\n[[transport]]\ndriver = \"tcp\"\n\
                 [[condition]]\nname = \"far\"\nrtt = \"{rtt}\"\n[[workload]]\nkind = \"bulk\"\n"
            );
            let study = StudyFile::parse(&text, "a.toml").expect("a study").study;
            let warnings = study.warnings();
            warnings
                .into_iter()
                .map(|it| it.message)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            warned("2s"),
            [
                "a round trip over `far` takes 2 s, and the connect deadline is 2 s: no transport can make a connection in that time"
            ]
        );
        assert_eq!(warned("1.9s"), [""; 0]);
    }

    #[test]
    fn another_default_congestion_control_of_the_host_is_warned_of() {
        let warning = |transport: &str, default: &str| {
            let text = format!(
                "[[transport]]\n{transport}\n[[condition]]\nname = \"c\"\n[[workload]]\nkind = \"bulk\"\n"
            );
            let file = StudyFile::parse(&text, "a.toml").expect("a study");
            let facts = BTreeMap::from([(DEFAULT_FACT.to_owned(), default.to_owned())]);
            let hosts = BTreeMap::from([("sender".to_owned(), HostFacts(facts))]);
            file.study.host_default_warning(&hosts)
        };
        let message = warning("driver = \"tcp\"", "bbr")
            .expect("a warning")
            .message;
        assert_eq!(
            message,
            "for `tcp` Regatta asks for `cubic`, as no `cc` is set; the default of the host's kernel is `bbr`, which other programs there use"
        );
        let two = "driver = \"tcp\"\n[[transport]]\ndriver = \"tcp-tls\"";
        let message = warning(two, "bbr").expect("a warning").message;
        assert!(
            message.starts_with("for `tcp`, `tcp-tls` Regatta"),
            "{message}"
        );
        assert_eq!(warning("driver = \"tcp\"", "cubic"), None);
        assert_eq!(warning("driver = \"tcp\"\ncc = \"cubic\"", "bbr"), None);
        assert_eq!(warning("driver = \"quic-quinn\"", "bbr"), None);
    }

    #[test]
    fn a_step_that_no_transfer_reaches_is_warned_of() {
        let with = |at: &str| {
            let text = format!(
                "name = \"a\"\ndeadline = \"30s\"\n[[transport]]\ndriver = \"tcp\"\n[[condition]]\nname = \"c\"\n\
                 rtt = \"1ms\"\nstep = [{{ at = \"{at}\", loss = \"1%\" }}]\n[[workload]]\nkind = \"bulk\"\n"
            );
            let file = StudyFile::parse(&text, "a.toml").expect("a study");
            file.study.warnings()
        };
        assert_eq!(with("29s"), []);
        let [warning] = &with("30s")[..] else {
            panic!("one warning")
        };
        assert_eq!(
            warning.message,
            "the path of `c` changes after 30 s, when the deadline of 30 s has ended every transfer"
        );
    }

    #[test]
    fn built_in_studies_have_no_warnings() {
        for builtin in BUILTIN {
            let file = StudyFile::parse(builtin.text, builtin.name).expect("a study");
            assert_eq!(file.study.warnings(), [], "{}", builtin.name);
        }
    }
}
