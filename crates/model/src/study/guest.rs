//! Settings of the bed `uml`: number of guests, their clock and their kernel.

use std::{collections::BTreeMap, ops::Range, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::named::{is_default, named};

use super::{
    BedKind, Emulator, LossBy, Offloads, Placement, Study, StudyError,
    error::Result,
    message::{Message, key, message, setting, setting_or_option, text_setting},
    section::Section,
    source::File,
};
use crate::condition::Condition;

/// Clock that a study runs by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Clock {
    /// Clock of the machine.
    #[default]
    Real,
    /// Clock of a guest, which stands still while the guest works and jumps over every wait: a run
    /// is the same each time, independent of the machine's load.
    Virtual,
}

named!(Clock: "real" => Real, "virtual" => Virtual);

/// Number of guests that hold the two hosts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Guests {
    /// Both hosts are namespaces of one guest.
    #[default]
    One,
    /// Each host is a guest of its own; a virtual Ethernet connects them.
    Two,
}

named!(Guests: "one" => One, "two" => Two);

/// Settings of the guest that a study runs in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestSetup {
    /// Number of guests.
    #[serde(default, skip_serializing_if = "is_default")]
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
#[error("{message}")]
pub struct GuestMistake {
    message: Message,
    /// Suggestion of a valid setting.
    pub hint: Message,
    /// Key that asks for it.
    key: &'static str,
}

/// Returns the first of some mistakes whose condition holds: key, message and hint, as [`message!`] takes them.
macro_rules! refuse {
    ($($is:expr => $key:literal, $message:tt, $hint:tt;)+) => {
        $(if $is {
            return Err(GuestMistake {
                message: message!($message),
                hint: message!($hint),
                key: $key,
            });
        })+
    };
}

impl GuestSetup {
    /// Reads `guests`, `clock` and `kernel`, and the spans of the keys that a [`GuestMistake`] can be about. To be called
    /// before any of these keys is read.
    pub(super) fn read(root: &mut Section<'_>) -> Result<(Self, Spans)> {
        let spans =
            ["guests", "clock", "kernel", "emulator"].map(|key| Some((key, root.span_of(key)?)));
        let spans = Spans(spans.into_iter().flatten().collect());
        let setup = Self {
            guests: match root.number("guests", 1, 2)? {
                Some(2) => Guests::Two,
                _ => Guests::One,
            },
            clock: root.choice("clock")?.unwrap_or_default(),
            kernel: root.text("kernel")?.map(|(path, _)| path.into()),
        };
        Ok((setup, spans))
    }
}

/// Spans, in a study file, of the keys that a [`GuestMistake`] can be about.
pub(super) struct Spans(BTreeMap<&'static str, Range<usize>>);

impl Spans {
    /// Returns the span of the key `kernel`, if it is there.
    pub fn kernel(&self) -> Option<Range<usize>> {
        self.0.get("kernel").cloned()
    }

    /// Converts the mistake to an error in the file.
    pub fn error(&self, source: &File<'_>, mistake: GuestMistake) -> StudyError {
        let span = self.0.get(mistake.key).cloned();
        source.error(span.unwrap_or(0..0), mistake.message, mistake.hint)
    }
}

impl Study {
    /// Checks that the study's bed can run it.
    ///
    /// # Errors
    /// [`GuestMistake`], the first that is found.
    pub fn check_guest(&self) -> Result<(), GuestMistake> {
        let GuestSetup {
            guests,
            clock,
            kernel,
        } = &self.guest;
        let (is_two, is_virtual) = (*guests == Guests::Two, *clock == Clock::Virtual);
        let has_guest = self.bed == BedKind::Uml;
        let path = &self.path;
        // Only a guest has a clock and a kernel of its own.
        refuse! {
            !has_guest && is_virtual => "clock",
                "time is virtual in the bed `uml` alone", ["write ", setting_or_option("bed", "uml"), " too"];
            !has_guest && kernel.is_some() => "kernel",
                "a kernel is named, and the bed is not `uml`",
                ["write ", setting_or_option("bed", "uml"), " too, or leave the kernel out"];
            !has_guest && is_two => "guests",
                "two guests are asked for, and the bed is not `uml`",
                ["write ", setting_or_option("bed", "uml"), " too, or leave the guests out"];
        }
        refuse! {
            self.bed == BedKind::Hosts && path.emulator == Emulator::Loopback => "emulator",
                "the loopback joins two ends on one host, and the bed is `hosts`",
                ["leave ", key("emulator"), " out, or write ", setting_or_option("bed", "netns")];
        }
        // Each guest would jump over its own waits, and nothing synchronises them; the user-space emulator reads and
        // writes the devices of both hosts; there is no third guest for routers; the rule of iptables is on another
        // host than the netem whose counters it completes; the wire between guests carries single frames.
        refuse! {
            is_two && is_virtual => "clock",
                "two guests have no virtual clock in common",
                ["run both hosts in one guest with ", setting("guests", 1), ", or by the machine's clock with ", text_setting("clock", "real")];
            is_two && path.emulator == Emulator::Userspace => "guests",
                "the user-space emulator needs both hosts in one guest",
                ["write ", setting_or_option("emulator", "netem"), ", or ask for one guest"];
            is_two && path.emulator.is_absent() => "guests",
                "a direct link and the loopback need both hosts in one guest",
                ["leave ", key("emulator"), " out, or write ", setting("guests", 1)];
            is_two && path.placement == Placement::Between => "guests",
                "between two guests there is only a wire: netem stands on both ends of it",
                ["write ", text_setting("placement", "ends"), ", which is the default with two guests, or ", setting("guests", 1)];
            is_two && path.loss_by == LossBy::Iptables => "guests",
                "losses by iptables need both hosts in one guest",
                ["leave ", key("loss_by"), " out, or write ", setting("guests", 1)];
            is_two && path.offloads == Offloads::On => "guests",
                "offloads that stay on need both hosts in one guest",
                ["leave ", key("offloads"), " out, or write ", setting("guests", 1)];
        }
        let is_changed = |condition: &&Condition| !condition.changes_nothing();
        if let Some(Condition { name, .. }) = self.conditions.iter().find(is_changed) {
            refuse! {
                path.emulator == Emulator::Loopback => "emulator",
                    "nothing shapes the packets of the loopback, and `{name}` has an impairment or a rate",
                    ["leave ", key("emulator"), " out, or leave the condition without delay, loss, rate and the like; only an ", key("mtu"), " is possible"];
                path.emulator == Emulator::None => "emulator",
                    "without an emulator the path is a direct link, and `{name}` has an impairment or a rate",
                    ["leave ", key("emulator"), " out, or leave the condition without delay, loss, rate and the like; only an ", key("mtu"), " is possible"];
            }
        }
        let large = |condition: &&Condition| condition.mtu_bytes > LARGEST_ON_WIRE_BYTES;
        if let Some(Condition {
            name, mtu_bytes, ..
        }) = self.conditions.iter().find(large)
        {
            refuse! {
                is_two => "guests",
                    "the path `{name}` has packets of up to {mtu_bytes} bytes, and the wire between two guests carries at most {LARGEST_ON_WIRE_BYTES}",
                    ["write ", setting("mtu", 1500), ", or ", setting("guests", 1)];
            }
        }
        // While a guest works its virtual clock stands still, so that an unlimited link carries any amount of data in
        // no time, and the transfer never ends.
        if let Some((Condition { name, .. }, direction)) =
            self.conditions.iter().find_map(unlimited)
        {
            refuse! {
                is_virtual => "clock",
                    "the path `{name}` has no rate {direction}, and in virtual time nothing else limits a transfer",
                    ["give the path a rate, such as ", setting_or_option("rate", "100Mbit/s")];
            }
        }
        Ok(())
    }
}

/// Returns a path with a direction that has neither a rate nor a trace, and that direction.
fn unlimited(condition: &Condition) -> Option<(&Condition, &'static str)> {
    let links = [
        (&condition.forward, "forward"),
        (&condition.reverse, "in reverse"),
    ];
    let mut unlimited = links.into_iter().filter(|(link, _)| !link.has_bottleneck());
    unlimited
        .next()
        .map(|(_, direction)| (condition, direction))
}
