//! Warning about a study that compares encrypted with unencrypted transports.

use super::Study;
use crate::record::Warning;

impl Study {
    /// Returns a warning if a study has plain TCP and QUIC, but no TLS over TCP: the cost of
    /// encryption is then a part of every difference between them.
    #[must_use]
    pub fn encryption_warning(&self) -> Option<Warning> {
        let labels = |of: fn(&str) -> bool| -> Vec<String> {
            (self.transports.iter())
                .filter(|transport| of(&transport.driver))
                .map(|transport| format!("`{}`", transport.label))
                .collect()
        };
        let plain = labels(|driver| ["tcp", "mptcp"].contains(&driver));
        let quic = labels(|driver| driver.starts_with("quic-"));
        let tls = labels(|driver| driver == "tcp-tls");
        let compares = !plain.is_empty() && !quic.is_empty() && tls.is_empty();
        compares.then(|| Warning {
            code: "no_tls_beside_quic".to_owned(),
            message: format!(
                "{} {} not encrypted and {} {}, so a difference between them is encryption's, too",
                plain.join(", "),
                if plain.len() == 1 { "is" } else { "are" },
                quic.join(", "),
                if quic.len() == 1 { "is" } else { "are" },
            ),
            hint: "add the transport `tcp-tls`, which is TCP with the encryption of QUIC"
                .to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
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
        let said = warning(&["tcp", "udp", "quic-quinn"]).expect("a warning");
        assert!(
            said.starts_with("`tcp` is not encrypted and `quic-quinn` is"),
            "{said}"
        );
        assert_eq!(warning(&["tcp", "tcp-tls", "quic-quinn"]), None);
        assert_eq!(warning(&["tcp", "udp", "sctp"]), None);
        assert_eq!(warning(&["udp", "quic-quinn"]), None);
    }

    #[test]
    fn every_built_in_study_with_tcp_and_quic_has_tls_over_tcp() {
        for builtin in BUILTIN {
            let file = StudyFile::parse(builtin.text, builtin.name).expect("a study");
            assert_eq!(file.study.encryption_warning(), None, "{}", builtin.name);
        }
    }
}
