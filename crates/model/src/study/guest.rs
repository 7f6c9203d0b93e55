//! The bed `uml`: its clock and its kernel.

use std::{ops::Range, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::{
    BedKind, Study, StudyError,
    section::{File, Section},
};
use crate::condition::Condition;

/// Which clock a study runs by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// The machine's.
    #[default]
    Real,
    /// A guest's own, which stands still while the guest works and jumps over every wait: a run is
    /// the same each time, whatever else the machine does.
    Virtual,
}

/// What a study says of the guest that it runs in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestSetup {
    /// Its clock.
    #[serde(default)]
    pub clock: Clock,
    /// File of its kernel; the one that is found if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<PathBuf>,
}

/// A study that its bed cannot run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GuestMistake {
    /// Only a guest has a clock of its own.
    #[error("time is virtual in the bed `uml` alone")]
    ClockWithoutGuest,
    /// Only a guest has a kernel of its own.
    #[error("a kernel is named, and the bed is not `uml`")]
    KernelWithoutGuest,
    /// While the guest works its clock stands still, so an unlimited link carries any amount of
    /// data in no time, and the transfer never ends.
    #[error(
        "the path `{condition}` has no rate {direction}, and in virtual time nothing else limits a transfer"
    )]
    NoRate {
        /// Name of the condition.
        condition: String,
        /// `forward` or `in reverse`.
        direction: &'static str,
    },
}

impl GuestMistake {
    /// What to write instead.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::ClockWithoutGuest => "write `bed = \"uml\"` too, or `--bed uml`",
            Self::KernelWithoutGuest => {
                "write `bed = \"uml\"` too, or `--bed uml`, or leave the kernel out"
            }
            Self::NoRate { .. } => {
                "give the path a rate, such as `rate = \"100Mbit/s\"` or `--rate 100Mbit/s`"
            }
        }
    }
}

impl GuestSetup {
    /// Reads `clock` and `kernel`, and says where they stand.
    pub(super) fn read(root: &mut Section<'_>) -> Result<(Self, Places), StudyError> {
        const CLOCKS: [(&str, Clock); 2] = [("real", Clock::Real), ("virtual", Clock::Virtual)];
        let clock = root.choice_at("clock", &CLOCKS)?;
        let kernel = root.text("kernel")?;
        let places = Places {
            clock: clock.as_ref().map(|(_, span)| span.clone()),
            kernel: kernel.as_ref().map(|(_, span)| span.clone()),
        };
        let setup = Self {
            clock: clock.map(|(clock, _)| clock).unwrap_or_default(),
            kernel: kernel.map(|(path, _)| path.into()),
        };
        Ok((setup, places))
    }
}

/// Where a study file says something of the guest.
pub(super) struct Places {
    clock: Option<Range<usize>>,
    kernel: Option<Range<usize>>,
}

impl Places {
    /// The mistake as an error in the file.
    pub fn error(&self, source: &File<'_>, mistake: &GuestMistake) -> StudyError {
        let place = match mistake {
            GuestMistake::ClockWithoutGuest | GuestMistake::NoRate { .. } => &self.clock,
            GuestMistake::KernelWithoutGuest => &self.kernel,
        };
        source.error(
            place.clone().unwrap_or(0..0),
            mistake.to_string(),
            mistake.hint(),
        )
    }
}

impl Study {
    /// Whether its bed can run it.
    ///
    /// # Errors
    /// [`GuestMistake`], the first that is found.
    pub fn check_guest(&self) -> Result<(), GuestMistake> {
        if self.bed != BedKind::Uml {
            if self.guest.clock == Clock::Virtual {
                return Err(GuestMistake::ClockWithoutGuest);
            }
            if self.guest.kernel.is_some() {
                return Err(GuestMistake::KernelWithoutGuest);
            }
        }
        if self.guest.clock == Clock::Real {
            return Ok(());
        }
        match self.conditions.iter().find_map(unlimited) {
            Some((condition, direction)) => Err(GuestMistake::NoRate {
                condition: condition.name.clone(),
                direction,
            }),
            None => Ok(()),
        }
    }
}

/// The direction in which a path has neither a rate nor a trace of one.
fn unlimited(condition: &Condition) -> Option<(&Condition, &'static str)> {
    [
        (&condition.forward, "forward"),
        (&condition.reverse, "in reverse"),
    ]
    .into_iter()
    .find(|(link, _)| link.rate.is_none() && link.trace.is_none())
    .map(|(_, direction)| (condition, direction))
}
