//! Short form of a study, at a part of its cost.

use std::time::Duration;

use super::{Part, Study};
use crate::{
    phrase,
    units::{Ratio, nanos},
    warning::{self, Warning},
};
use serde::{Deserialize, Serialize};

/// Scaling of a study from its whole form.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Scaled {
    /// Requested part of the whole study's cost.
    pub scale: Ratio,
    /// Rounds of the whole study.
    pub rounds_of: u32,
    /// Part of its volume that each trial of a scaled workload has; 1 where the rounds sufficed.
    pub volume: Ratio,
    /// Time of the whole series, for a study that is one.
    #[serde(rename = "series_of_ns", with = "nanos")]
    pub series_of: Duration,
}

impl Scaled {
    /// Returns the warning about the scaling.
    #[must_use]
    pub fn warning(&self, study: &Study) -> Warning {
        let rounds = phrase::run_has_rounds(study.rounds.into(), self.rounds_of.into());
        let is_part = self.volume.0 < 1.0;
        let volume = is_part.then(|| phrase::trials_have_volume(self.volume.rounded(1)));
        let exceeds = self.exceeds_request(study);
        let effects = [
            Some(rounds),
            volume,
            exceeds.then(phrase::swept_volumes_are_whole),
            (is_part && study.changes_in_time()).then(phrase::path_may_change_later),
        ];
        warning::scaled(self.scale, effects.into_iter().flatten().collect())
    }

    /// Whether the rounds are too many for the scale and a sweep varies the volume of some trials, which
    /// therefore stay whole.
    fn exceeds_request(&self, study: &Study) -> bool {
        let requested = f64::from(self.rounds_of) * self.scale.0;
        let mut workloads = study.workloads.iter();
        requested < f64::from(study.rounds) * Study::MIN_ROUNDED_VOLUME
            && workloads.any(|it| study.has_swept_volume(&it.name))
    }
}

impl Study {
    /// Minimum number of rounds of a scaled study, unless it has fewer itself: with less there are no intervals.
    pub const MIN_SCALED_ROUNDS: u32 = 3;

    /// Part of its volume from which on a trial stays whole: rounding to whole rounds is no reason to
    /// change what a trial does.
    const MIN_ROUNDED_VOLUME: f64 = 0.8;

    /// Makes this study the short form of itself whose trials take `scale` of the whole one's time.
    ///
    /// The rounds are scaled first, and with them the length of a series, but not below
    /// [`Study::MIN_SCALED_ROUNDS`]. What is then left is taken from the volume of each trial: sizes,
    /// durations with their warm-ups, and numbers of requests, connections and messages. Workloads of
    /// which a sweep varies one of these keep their volume, and durations are kept where a path changes in time.
    /// A workload whose volume is scaled has another name, and no published figures.
    pub fn scale(&mut self, scale: Ratio) {
        let (rounds_of, series_of) = (self.rounds, self.every.unwrap_or_default() * self.rounds);
        let exact = f64::from(self.rounds) * scale.0;
        let least = Self::MIN_SCALED_ROUNDS.min(self.rounds);
        self.rounds = (exact.round() as u32).max(least);
        if let Some(until) = self.until {
            self.rounds = self.rounds.max(until.min_rounds());
        }
        self.cell_end = self.cell_end.map(|it| it.within(self.rounds));
        let volume = (exact / f64::from(self.rounds)).min(1.0);
        let suffix = format!(" at {volume:.3}");
        let mut renamed = Vec::new();
        let is_rounding = volume > Self::MIN_ROUNDED_VOLUME;
        let changes_in_time = self.changes_in_time();
        let is_swept: Vec<bool> = (self.workloads.iter())
            .map(|workload| self.has_swept_volume(&workload.name))
            .collect();
        for (workload, is_swept) in self.workloads.iter_mut().zip(is_swept) {
            if is_rounding || is_swept {
                continue;
            }
            let kinds = workload.kinds_mut();
            let scaled = kinds.filter_map(|kind| kind.scale(volume, changes_in_time).then_some(()));
            if scaled.count() == 0 {
                continue;
            }
            let name = format!("{}{suffix}", workload.name);
            renamed.push((std::mem::replace(&mut workload.name, name.clone()), name));
        }
        self.published.retain(|published| {
            let is_scaled = |(name, _): &(String, String)| published.is_of_workload(name);
            !renamed.iter().any(is_scaled)
        });
        for (from, to) in &renamed {
            let entries = self.sweeps.entries.iter_mut();
            for entry in entries.filter(|it| it.part == Part::Workload && it.name == *from) {
                entry.name.clone_from(to);
                // Titles of figures have this name.
                entry.base.push_str(&suffix);
            }
        }
        self.scaled = Some(Scaled {
            scale,
            rounds_of,
            volume: Ratio(if renamed.is_empty() { 1.0 } else { volume }),
            series_of,
        });
    }

    /// Whether a path of this study changes during a transfer.
    fn changes_in_time(&self) -> bool {
        self.conditions.iter().any(|it| !it.schedule.is_empty())
    }

    /// Whether a sweep varies the volume of a workload.
    fn has_swept_volume(&self, workload: &str) -> bool {
        const VOLUME: [&str; 5] = ["size", "duration", "requests", "connections", "messages"];
        let entry = self.sweeps.entry(Part::Workload, workload);
        let mut parameters = entry.into_iter().flat_map(|it| self.sweeps.parameters(it));
        parameters.any(|(sweep, _)| VOLUME.contains(&sweep.key.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Amount, WorkloadKind};

    fn study(head: &str, workload: &str) -> Study {
        let text = format!(
            "{head}\n[[transport]]\ndriver = \"tcp\"\n[[condition]]\nname = \"c\"\nrate = \"1Mbit/s\"\n\
             [[workload]]\nname = \"w\"\n{workload}\n[[published]]\ntransport = \"tcp\"\ncondition = \"c\"\n\
             metric = \"goodput_bps\"\nvalue = \"1Mbit/s\"\n"
        );
        Study::parse(&text, "study.toml").unwrap_or_else(|error| panic!("{error}"))
    }

    fn scaled(head: &str, workload: &str, scale: f64) -> Study {
        let mut study = study(head, workload);
        study.scale(Ratio(scale));
        study
    }

    #[test]
    fn scaling_shortens_a_series_but_not_its_trials() {
        let study = scaled("every = \"150s\"\nfor = \"6h\"", "size = \"10MB\"", 0.1);
        assert_eq!(
            (study.rounds, study.every),
            (14, Some(Duration::from_secs(150)))
        );
        assert_eq!(study.workloads[0].name, "w");
        assert_eq!(study.workloads[0].kind.bytes(), 10_000_000);
        assert_eq!(study.published.len(), 1);
        let scaled = study.scaled.expect("it is scaled");
        assert_eq!(
            scaled.warning(&study).message,
            "a scale of 10 % was asked for: the run has 14 of the study's 144 rounds"
        );
    }

    #[test]
    fn scaling_keeps_the_rounds_after_which_a_rule_looks() {
        for (until, least) in [("decided", 3), ("3%", 10)] {
            let rounds = format!("rounds = {{ until = \"{until}\", at_most = 60 }}");
            assert_eq!(scaled(&rounds, "size = \"10MB\"", 0.01).rounds, least);
        }
    }

    #[test]
    fn scaling_few_rounds_reduces_volumes_and_renames_workloads() {
        let study = scaled("rounds = 5", "size = \"60MB\"", 0.1);
        assert_eq!(study.rounds, 3);
        assert_eq!(study.workloads[0].name, "w at 0.167");
        assert_eq!(study.workloads[0].kind.bytes(), 10_000_000);
        assert_eq!(study.published, [], "its figures are of the whole volume");
        let text = study.scaled.expect("it is scaled").warning(&study).message;
        assert!(
            text.ends_with("3 of the study's 5 rounds; each trial has 16.7 % of its volume"),
            "{text}"
        );
    }

    #[test]
    fn every_kind_of_work_is_scaled() {
        for (workload, bytes) in [
            (
                "kind = \"stop-and-wait\"\nsize = \"1MB\"\nmessage = \"1B\"",
                100_000,
            ),
            (
                "kind = \"request-response\"\nrequests = 100\nrequest = \"10B\"\nresponse = \"10B\"",
                200,
            ),
            (
                "kind = \"short-connections\"\nconnections = 20\nrequest = \"50B\"\nresponse = \"50B\"",
                200,
            ),
            (
                "kind = \"multi-stream\"\nmessages = 1000\nmessage = \"1kB\"",
                100_000,
            ),
            // No less than a message.
            ("size = \"20kB\"\nmessage = \"10kB\"", 10_000),
        ] {
            let study = scaled("rounds = 3", workload, 0.1);
            assert_eq!(
                (study.rounds, study.workloads[0].kind.bytes()),
                (3, bytes),
                "{workload}"
            );
        }
        let by_time = scaled("rounds = 3", "duration = \"40s\"\nwarm_up = \"5s\"", 0.1);
        let WorkloadKind::Bulk {
            amount, options, ..
        } = by_time.workloads[0].kind
        else {
            panic!("bulk")
        };
        assert_eq!(amount, Amount::Time(Duration::from_secs(4)));
        assert_eq!(options.warm_up, Duration::from_millis(500));
    }

    #[test]
    fn swept_volumes_are_not_scaled() {
        let sweep = "[[sweep]]\nkey = \"workload.size\"\nvalues = [\"1MB\", \"10MB\"]\n";
        let text = format!(
            "rounds = 3\n[[transport]]\ndriver = \"tcp\"\n[[condition]]\nname = \"c\"\n[[workload]]\nname = \"w\"\n{sweep}"
        );
        let mut study = Study::parse(&text, "study.toml").unwrap_or_else(|error| panic!("{error}"));
        study.scale(Ratio(0.1));
        let sizes: Vec<u64> = study.workloads.iter().map(|it| it.kind.bytes()).collect();
        assert_eq!((study.rounds, sizes), (3, vec![1_000_000, 10_000_000]));
        let scaled = study.scaled.expect("it is scaled");
        assert_eq!(scaled.volume, Ratio(1.0));
        let text = scaled.warning(&study).message;
        assert!(
            text.ends_with("whole, so that the run takes a larger part of the study's time"),
            "{text}"
        );
    }

    #[test]
    fn scaled_transfer_over_a_changing_path_is_described() {
        let steps = "steps = { key = \"rtt\", from = \"300ms\", to = \"50ms\", by = \"50ms\", every = \"20s\" }";
        let text = format!(
            "rounds = 3\n[[transport]]\ndriver = \"tcp\"\n[[condition]]\nname = \"c\"\nrate = \"1Gbit/s\"\n{steps}\n\
             [[workload]]\nname = \"w\"\nsize = \"15GB\"\n"
        );
        let mut study = Study::parse(&text, "study.toml").unwrap_or_else(|error| panic!("{error}"));
        study.scale(Ratio(0.1));
        let text = study.scaled.expect("it is scaled").warning(&study).message;
        assert!(
            text.ends_with("; a transfer may end before its path has made all its changes"),
            "{text}"
        );
    }

    #[test]
    fn a_sweep_of_a_scaled_workload_has_its_new_name() {
        let sweep = "[[sweep]]\nkey = \"workload.message\"\nvalues = [\"1kB\", \"10kB\"]\n";
        let text = format!(
            "rounds = 3\n[[transport]]\ndriver = \"tcp\"\n[[condition]]\nname = \"c\"\n[[workload]]\nname = \"w\"\n\
             size = \"10MB\"\n{sweep}"
        );
        let mut study = Study::parse(&text, "study.toml").unwrap_or_else(|error| panic!("{error}"));
        study.scale(Ratio(0.1));
        let bases: Vec<&str> = (study.sweeps.entries.iter())
            .map(|entry| entry.base.as_str())
            .collect();
        assert_eq!(bases, ["w at 0.100", "w at 0.100"]);
        let name = &study.sweeps.entries[0].name;
        assert!(study.workloads.iter().any(|it| it.name == *name), "{name}");
    }
}
