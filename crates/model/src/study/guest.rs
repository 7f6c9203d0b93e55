//! Settings of the bed `uml`: number of guests, their clock and their kernel.

use std::{ops::Range, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::words::words;

use super::{
    BedKind, Emulator, LossBy, Offloads, Placement, Study, StudyError,
    section::{File, Section},
};
use crate::condition::Condition;

/// Clock that a study runs by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// Clock of the machine.
    #[default]
    Real,
    /// Clock of a guest, which stands still while the guest works and jumps over every wait: a run
    /// is the same each time, independent of the machine's load.
    Virtual,
}

words!(Clock: "real" => Real, "virtual" => Virtual);

/// Number of guests that hold the two hosts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Guests {
    /// Both hosts are namespaces of one guest.
    #[default]
    One,
    /// Each host is a guest of its own; a virtual Ethernet connects them.
    Two,
}

impl Guests {
    /// Whether this is the default.
    #[must_use]
    pub fn is_one(&self) -> bool {
        *self == Self::One
    }
}

/// Settings of the guest that a study runs in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestSetup {
    /// Number of guests.
    #[serde(default, skip_serializing_if = "Guests::is_one")]
    pub guests: Guests,
    /// Clock of the guests.
    #[serde(default)]
    pub clock: Clock,
    /// Kernel file of the guests; if absent, the kernel that is found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<PathBuf>,
}

/// Largest IP packet on the wire between two guests, in bytes.
const LARGEST_ON_WIRE_BYTES: u32 = 1500;

/// Reason for which a bed cannot run a study.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GuestMistake {
    /// Virtual clock without a guest: only a guest has a clock of its own.
    #[error("time is virtual in the bed `uml` alone")]
    ClockWithoutGuest,
    /// Kernel without a guest: only a guest has a kernel of its own.
    #[error("a kernel is named, and the bed is not `uml`")]
    KernelWithoutGuest,
    /// Number of guests for another bed: only the bed `uml` has guests.
    #[error("two guests are asked for, and the bed is not `uml`")]
    GuestsWithoutGuest,
    /// Virtual clock with two guests: each would jump over its own waits, and nothing synchronises
    /// them.
    #[error("two guests have no virtual clock in common")]
    TwoClocks,
    /// netem between two guests: there is no third guest for the routers.
    #[error("between two guests there is only a wire: netem stands on both ends of it")]
    NothingBetween,
    /// User-space emulator with two guests: the forwarder reads and writes the devices of both
    /// hosts.
    #[error("the user-space emulator needs both hosts in one guest")]
    UserspaceEmulator,
    /// Losses by iptables with two guests: the rule that drops is on another host than the netem
    /// whose counters it completes.
    #[error("losses by iptables need both hosts in one guest")]
    IptablesLoss,
    /// Offloads with two guests: the wire between guests carries single frames.
    #[error("offloads that stay on need both hosts in one guest")]
    Offloads,
    /// Packets larger than the frames of the wire, which are Ethernet's.
    #[error(
        "the path `{condition}` has packets of up to {mtu_bytes} bytes, and the wire between two guests carries at most {LARGEST_ON_WIRE_BYTES}"
    )]
    LargestPacket {
        /// Name of the condition.
        condition: String,
        /// Packet size that the condition asks for, in bytes.
        mtu_bytes: u32,
    },
    /// Unlimited link in virtual time: while the guest works its clock stands still, so the link
    /// carries any amount of data in no time, and the transfer never ends.
    #[error(
        "the path `{condition}` has no rate {direction}, and in virtual time nothing else limits a transfer"
    )]
    NoRate {
        /// Name of the condition.
        condition: String,
        /// Direction: `forward` or `in reverse`.
        direction: &'static str,
    },
}

impl GuestMistake {
    /// Returns a suggestion of a valid setting.
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
    /// Reads `guests`, `clock` and `kernel`, and their places in the file.
    pub(super) fn read(root: &mut Section<'_>) -> Result<(Self, Places), StudyError> {
        let guests = match root.number("guests", 1, 2)? {
            Some(2) => Guests::Two,
            _ => Guests::One,
        };
        let clock = root.choice_at("clock")?;
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

/// Places of the guest's keys in a study file.
pub(super) struct Places {
    clock: Option<Range<usize>>,
    pub kernel: Option<Range<usize>>,
}

impl Places {
    /// Converts the mistake to an error in the file.
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
    /// Checks that the study's bed can run it.
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

/// Returns a path with a direction that has neither a rate nor a trace, and that direction.
fn unlimited(condition: &Condition) -> Option<(&Condition, &'static str)> {
    [
        (&condition.forward, "forward"),
        (&condition.reverse, "in reverse"),
    ]
    .into_iter()
    .find(|(link, _)| link.rate.is_none() && link.trace.is_none())
    .map(|(_, direction)| (condition, direction))
}
