//! Rules that end a run before its number of rounds.

use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::units::{Ratio, UnitError};

/// Rule of `rounds = { until = …, at_most = … }`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Until {
    /// The intervals of the metric of the ranking have this relative half-width, or a smaller one, in every cell.
    Narrow(Ratio),
    /// Every pair that contains the leader of its condition and workload is decided.
    Decided,
}

impl Until {
    /// Name of [`Until::Decided`] in study files and on the command line.
    pub const DECIDED: &str = "decided";

    /// Maximum number of rounds where nothing names one.
    pub const AT_MOST: u32 = 60;

    /// Returns the number of rounds after which the rule looks at the run for the first time: below ten, intervals that
    /// chance made narrow would end a run.
    #[must_use]
    pub const fn min_rounds(self) -> u32 {
        match self {
            Self::Narrow(_) => 10,
            Self::Decided => 3,
        }
    }
}

impl FromStr for Until {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        if text == Self::DECIDED {
            return Ok(Self::Decided);
        }
        let hint = "write `decided`, or a half-width of the intervals such as `3%`";
        let width = text.parse().map(Self::Narrow);
        width.map_err(|error: UnitError| UnitError::new(error.message, hint))
    }
}

/// Form in which results files store the rule: a ratio, or a name.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Stored {
    Width(Ratio),
    Name(Name),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Name {
    Decided,
}

impl Serialize for Until {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let stored = match self {
            Self::Narrow(width) => Stored::Width(*width),
            Self::Decided => Stored::Name(Name::Decided),
        };
        stored.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Until {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Stored::deserialize(deserializer)? {
            Stored::Width(width) => Self::Narrow(width),
            Stored::Name(Name::Decided) => Self::Decided,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_stored_as_a_ratio_or_a_name() {
        for (until, text) in [
            (Until::Narrow(Ratio(0.03)), "0.03"),
            (Until::Decided, "\"decided\""),
        ] {
            assert_eq!(serde_json::to_string(&until).expect("JSON"), text);
            assert_eq!(serde_json::from_str::<Until>(text).expect("a rule"), until);
        }
        assert!(serde_json::from_str::<Until>("\"pleased\"").is_err());
    }
}
