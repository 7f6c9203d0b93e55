//! Builds of the program at the hosts, and warnings about builds that are not release builds.

use regatta_model::{Clock, HostFacts, RunHeader, Warning};

use super::summary::Build;
use crate::{
    format::{grouped, list},
    language::tr,
};

/// Returns the builds of a run's hosts, equal ones once; empty for a run without build facts.
pub fn all(header: &RunHeader) -> Vec<Build> {
    let hosts = header.hosts.iter();
    let builds = hosts.filter_map(|(host, facts)| Some((build(facts)?, host.clone())));
    let builds = grouped(builds).into_iter();
    builds
        .map(|(build, hosts)| Build { hosts, ..build })
        .collect()
}

fn build(facts: &HostFacts) -> Option<Build> {
    let known = |name: &str| {
        let value = facts.0.get(&format!("build.{name}"))?;
        (value != "unknown").then(|| value.clone())
    };
    let mut names = facts.0.keys();
    names.any(|name| name.starts_with("build.")).then(|| Build {
        hosts: Vec::new(),
        commit: known("commit"),
        dirty: known("dirty").map(|dirty| dirty == "yes"),
        profile: known("profile"),
        opt_level: known("opt_level"),
        debug_assertions: known("debug_assertions").map(|on| on == "on"),
        lockfile_sha256: known("lockfile_sha256"),
        compiler: known("compiler"),
    })
}

impl Build {
    /// Returns the reason for which the build's figures are not those of a release build.
    fn debug(&self) -> Option<String> {
        let assertions = (self.debug_assertions == Some(true)).then(|| tr!("debug assertions"));
        let level = self.opt_level.as_deref();
        let level = level.filter(|level| ["0", "1"].contains(level));
        let level = level.map(|level| format!("`opt-level = {level}`"));
        let parts = list(assertions.into_iter().chain(level));
        (!parts.is_empty()).then_some(parts)
    }

    /// Describes the build on one line.
    #[must_use]
    pub fn text(&self) -> String {
        let or_unknown = |value: &Option<String>| value.clone().unwrap_or_else(|| tr!("unknown"));
        let state = match self.dirty {
            Some(true) => tr!(" with changes"),
            Some(false) => String::new(),
            None => tr!(" (whether with changes is unknown)"),
        };
        let commit = match &self.commit {
            Some(commit) => tr!("commit `{}`{}", commit, state),
            None => tr!("commit unknown"),
        };
        let assertions = match self.debug_assertions {
            Some(true) => tr!(", debug assertions on"),
            _ => String::new(),
        };
        tr!(
            "{}; profile `{}`, `opt-level = {}`{}; `Cargo.lock` SHA-256 `{}`; {}",
            commit,
            or_unknown(&self.profile),
            or_unknown(&self.opt_level),
            assertions,
            or_unknown(&self.lockfile_sha256),
            or_unknown(&self.compiler),
        )
    }
}

/// Returns warnings about builds whose figures are not those of a release build, and about hosts
/// whose builds differ.
pub fn warnings(header: &RunHeader) -> Vec<Warning> {
    let builds = all(header);
    let mut warnings = Vec::new();
    if let Some(why) = builds.iter().find_map(Build::debug) {
        let effect = match header.study.guest.clock {
            Clock::Virtual => {
                tr!("the run takes longer, though no figure in virtual time depends on it")
            }
            Clock::Real => tr!("its own work slows the transports down"),
        };
        warnings.push(Warning::of_texts(
            "debug_build",
            tr!("Regatta was built with {}, so that {}", why, effect),
            tr!("build it with `make build` or `cargo build --release`, and run the study again"),
        ));
    }
    if builds.len() > 1 {
        warnings.push(Warning::of_texts(
            "builds_differ",
            tr!("the hosts ran different builds of Regatta"),
            tr!("put the same binary on both hosts; the report tells the builds"),
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_with_changes_says_so() {
        let text = |dirty| {
            let build = Build {
                hosts: Vec::new(),
                commit: Some("c".into()),
                dirty,
                profile: None,
                opt_level: None,
                debug_assertions: None,
                lockfile_sha256: None,
                compiler: None,
            };
            build.text()
        };
        for (dirty, begin) in [
            (Some(true), "commit `c` with changes; "),
            (Some(false), "commit `c`; "),
            (None, "commit `c` (whether with changes is unknown); "),
        ] {
            assert!(text(dirty).starts_with(begin), "{}", text(dirty));
        }
    }

    #[test]
    fn assertions_are_told_where_they_are_on() {
        for (debug_assertions, is_told) in [(Some(true), true), (Some(false), false), (None, false)]
        {
            let build = Build {
                hosts: Vec::new(),
                commit: None,
                dirty: None,
                profile: None,
                opt_level: None,
                debug_assertions,
                lockfile_sha256: None,
                compiler: None,
            };
            assert_eq!(build.text().contains(", debug assertions on;"), is_told);
        }
    }
}
