//! Shards: parts of a plan that are run separately, and whose results are merged.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// One of several equal parts of a plan: `3/100`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Shard {
    /// Number of the part, from 1 to `of`.
    pub number: u32,
    /// Number of parts of the plan.
    pub of: u32,
}

/// Text that names no shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a shard is its number and the number of shards, such as `3/100`; the first is `1/100`")]
pub struct ShardError;

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Self, ShardError> {
        let (number, of) = text.split_once('/').ok_or(ShardError)?;
        let read = |number: &str| number.parse().map_err(|_| ShardError);
        let (number, of) = (read(number)?, read(of)?);
        match number {
            1.. if number <= of => Ok(Self { number, of }),
            _ => Err(ShardError),
        }
    }
}

/// Identity of a run as a part of its plan, by which runs are merged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunPart {
    /// SHA-256 of the plan, in hexadecimal; empty if it is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub plan_sha256: String,
    /// Shard of the plan that the run is; `None` for a run of the whole plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// Number of trials of this part of the plan.
    #[serde(default)]
    pub trials: u32,
    /// Name of the machine that started the run; empty if it is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
}

impl RunPart {
    /// Whether nothing is known of it.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.plan_sha256.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_read_as_they_are_written() {
        let shard = Shard { number: 3, of: 100 };
        assert_eq!("3/100".parse(), Ok(shard));
        assert_eq!(shard.to_string(), "3/100");
        for wrong in ["", "3", "0/5", "6/5", "1/0", "-1/5", "1/5/2", "a/b", "1 /5"] {
            assert_eq!(wrong.parse::<Shard>(), Err(ShardError), "{wrong}");
        }
    }
}
