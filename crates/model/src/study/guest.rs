//! The bed `uml`: how many guests, their clock and their kernel.

use std::{ops::Range, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::{
    BedKind, Emulator, LossBy, Offloads, Placement, Study, StudyError,
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

/// In how many guests the two hosts are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Guests {
    /// Both hosts are namespaces of one guest.
    #[default]
    One,
    /// Each host is a guest of its own, and a virtual Ethernet joins them.
    Two,
}

impl Guests {
    /// Whether it is what a study has that says nothing of it.
    #[must_use]
    pub fn is_one(&self) -> bool {
        *self == Self::One
    }
}

/// What a study says of the guest that it runs in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestSetup {
    /// How many there are.
    #[serde(default, skip_serializing_if = "Guests::is_one")]
    pub guests: Guests,
    /// Its clock.
    #[serde(default)]
    pub clock: Clock,
    /// File of its kernel; the one that is found if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<PathBuf>,
}

/// Largest IP packet on the wire between two guests.
const LARGEST_ON_WIRE_BYTES: u32 = 1500;

/// A study that its bed cannot run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GuestMistake {
    /// Only a guest has a clock of its own.
    #[error("time is virtual in the bed `uml` alone")]
    ClockWithoutGuest,
    /// Only a guest has a kernel of its own.
    #[error("a kernel is named, and the bed is not `uml`")]
    KernelWithoutGuest,
    /// Only the bed `uml` has guests.
    #[error("two guests are asked for, and the bed is not `uml`")]
    GuestsWithoutGuest,
    /// Each of them would jump over its own waits, and nothing keeps them in step.
    #[error("two guests have no virtual clock in common")]
    TwoClocks,
    /// There is no third guest in which routers could stand.
    #[error("between two guests there is only a wire: netem stands on both ends of it")]
    NothingBetween,
    /// The forwarder reads and writes the devices of both hosts.
    #[error("the user-space emulator needs both hosts in one guest")]
    UserspaceEmulator,
    /// The rule that drops stands on another host than the netem whose counters it completes.
    #[error("losses by iptables need both hosts in one guest")]
    IptablesLoss,
    /// The wire between guests carries single frames.
    #[error("offloads that stay on need both hosts in one guest")]
    Offloads,
    /// The wire's frames are Ethernet's.
    #[error(
        "the path `{condition}` has packets of up to {mtu_bytes} bytes, and the wire between two guests carries at most {LARGEST_ON_WIRE_BYTES}"
    )]
    LargestPacket {
        /// Name of the condition.
        condition: String,
        /// What it asks for.
        mtu_bytes: u32,
    },
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
            Self::GuestsWithoutGuest => {
                "write `bed = \"uml\"` too, or `--bed uml`, or leave the guests out"
            }
            Self::TwoClocks => {
                "run both hosts in one guest with `guests = 1`, or by the machine's clock with `clock = \"real\"`"
            }
            Self::NothingBetween => {
                "write `placement = \"ends\"`, which is the default with two guests, or `guests = 1`"
            }
            Self::UserspaceEmulator => {
                "write `emulator = \"netem\"`, or `--emulator netem`, or ask for one guest"
            }
            Self::LargestPacket { .. } => "write `mtu = 1500`, or `guests = 1`",
            Self::IptablesLoss => "leave `loss_by` out, or write `guests = 1`",
            Self::Offloads => "leave `offloads` out, or write `guests = 1`",
            Self::NoRate { .. } => {
                "give the path a rate, such as `rate = \"100Mbit/s\"` or `--rate 100Mbit/s`"
            }
        }
    }
}

impl GuestSetup {
    /// Reads `guests`, `clock` and `kernel`, and says where they stand.
    pub(super) fn read(root: &mut Section<'_>) -> Result<(Self, Places), StudyError> {
        const CLOCKS: [(&str, Clock); 2] = [("real", Clock::Real), ("virtual", Clock::Virtual)];
        let guests = match root.number("guests", 1, 2)? {
            Some(2) => Guests::Two,
            _ => Guests::One,
        };
        let clock = root.choice_at("clock", &CLOCKS)?;
        let kernel = root.text("kernel")?;
        let places = Places {
            clock: clock.as_ref().map(|(_, span)| span.clone()),
            kernel: kernel.as_ref().map(|(_, span)| span.clone()),
        };
        let setup = Self {
            guests,
            clock: clock.map(|(clock, _)| clock).unwrap_or_default(),
            kernel: kernel.map(|(path, _)| path.into()),
        };
        Ok((setup, places))
    }
}

/// Where a study file says something of the guest.
pub(super) struct Places {
    clock: Option<Range<usize>>,
    pub kernel: Option<Range<usize>>,
}

impl Places {
    /// The mistake as an error in the file.
    pub fn error(&self, source: &File<'_>, mistake: &GuestMistake) -> StudyError {
        let place = match mistake {
            GuestMistake::ClockWithoutGuest | GuestMistake::NoRate { .. } => &self.clock,
            GuestMistake::KernelWithoutGuest => &self.kernel,
            GuestMistake::TwoClocks => &self.clock,
            GuestMistake::GuestsWithoutGuest
            | GuestMistake::NothingBetween
            | GuestMistake::UserspaceEmulator
            | GuestMistake::LargestPacket { .. }
            | GuestMistake::IptablesLoss
            | GuestMistake::Offloads => &None,
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
            if self.guest.guests == Guests::Two {
                return Err(GuestMistake::GuestsWithoutGuest);
            }
        }
        if self.guest.guests == Guests::Two {
            self.check_two_guests()?;
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

    fn check_two_guests(&self) -> Result<(), GuestMistake> {
        if self.guest.clock == Clock::Virtual {
            Err(GuestMistake::TwoClocks)
        } else if self.path.emulator == Emulator::Userspace {
            Err(GuestMistake::UserspaceEmulator)
        } else if self.path.placement == Placement::Between {
            Err(GuestMistake::NothingBetween)
        } else if self.path.loss_by == LossBy::Iptables {
            Err(GuestMistake::IptablesLoss)
        } else if self.path.offloads == Offloads::On {
            Err(GuestMistake::Offloads)
        } else if let Some(condition) = self
            .conditions
            .iter()
            .find(|condition| condition.mtu_bytes > LARGEST_ON_WIRE_BYTES)
        {
            Err(GuestMistake::LargestPacket {
                condition: condition.name.clone(),
                mtu_bytes: condition.mtu_bytes,
            })
        } else {
            Ok(())
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
