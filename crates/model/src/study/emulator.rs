//! Emulator of the path between the two hosts of a bed, and its settings.

use super::message::{Message, message, text_setting};
use serde::{Deserialize, Serialize};

use crate::{
    condition::Condition,
    named::{Named as _, is_default, named},
};

/// Emulator that delays, drops and queues the packets of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Emulator {
    /// The kernel's netem where the bed's kernel has it and can carry every condition of the study,
    /// else Regatta's own.
    #[default]
    Auto,
    /// Queueing disciplines of the kernel: netem, tbf, CoDel.
    Netem,
    /// Regatta's own emulator in user space.
    Userspace,
    /// A direct link, which nothing slows down: an emulator carries less than the fastest transports send.
    None,
    /// Both ends on one host, and its loopback between them.
    Loopback,
}

named!(Emulator: "auto" => Auto, "netem" => Netem, "userspace" => Userspace, "none" => None, "loopback" => Loopback);

impl Emulator {
    /// Whether there is no emulator: nothing delays, drops, queues or counts the packets of the path.
    #[must_use]
    pub fn is_absent(self) -> bool {
        matches!(self, Self::None | Self::Loopback)
    }

    /// Returns the largest IP packet of a condition that names none, in bytes.
    #[must_use]
    pub fn default_mtu_bytes(self) -> u32 {
        match self {
            Self::Loopback => Condition::LARGEST_MTU_BYTES,
            _ => Condition::DEFAULT_MTU_BYTES,
        }
    }
}

/// Placement of netem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Placement {
    /// On routers between the hosts, each part of the path on an interface of its own.
    #[default]
    Between,
    /// On the hosts' own interfaces, as in some published experiments: there TCP's small queues and
    /// the delayed packets of the sending host interact.
    Ends,
}

named!(Placement: "between" => Between, "ends" => Ends);

/// Source of the random losses of a path that netem carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LossBy {
    /// The emulator itself.
    #[default]
    Emulator,
    /// The `statistic` match of iptables, as in some published experiments; it draws from the
    /// kernel's own random numbers, so that no seed reproduces the losses.
    Iptables,
}

named!(LossBy: "emulator" => Emulator, "iptables" => Iptables);

/// Setting for the offloads of the hosts: packets that are larger than those of the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Offloads {
    /// Segmentation and aggregation off: loss, queue and rate act on each packet of the wire.
    #[default]
    Off,
    /// Offloads left on, as on hosts with default settings: loss drops whole super-packets of up to
    /// 64 KiB, and a queue in packets counts them.
    On,
}

named!(Offloads: "off" => Off, "on" => On);

/// Settings of the path's emulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PathSetup {
    /// Emulator that delays, drops and queues.
    pub emulator: Emulator,
    /// Placement of netem.
    pub placement: Placement,
    /// Source of the random losses.
    pub loss_by: LossBy,
    /// Setting for the interfaces' offloads.
    #[serde(skip_serializing_if = "is_default")]
    pub offloads: Offloads,
}

impl PathSetup {
    /// Regatta's own emulator.
    pub const USERSPACE: Self = Self {
        emulator: Emulator::Userspace,
        placement: Placement::Between,
        loss_by: LossBy::Emulator,
        offloads: Offloads::Off,
    };

    /// Returns key and value of a setting that only netem supports, if there is one.
    #[must_use]
    pub fn needs_netem(&self) -> Option<(&'static str, &'static str)> {
        if self.placement == Placement::Ends {
            Some(("placement", "ends"))
        } else if self.loss_by == LossBy::Iptables {
            Some(("loss_by", "iptables"))
        } else if self.offloads == Offloads::On {
            Some(("offloads", "on"))
        } else {
            (self.emulator == Emulator::Netem).then_some(("emulator", "netem"))
        }
    }

    /// Returns this setup with Regatta's own emulator: netem, of which `lack` says what it cannot do, is not chosen where the
    /// choice is free.
    ///
    /// # Errors
    /// The setting that asks for netem, or for no emulator.
    pub fn without_netem(self, lack: &str) -> Result<Self, Message> {
        match self.needs_netem() {
            _ if self.emulator.is_absent() => Err(message!([
                "with ",
                text_setting("emulator", self.emulator.as_str()),
                " no emulator carries the packets",
            ])),
            Some((key, value)) => Err(message!([
                text_setting(key, value),
                format!(" asks for netem, which {lack}"),
            ])),
            None => Ok(Self {
                emulator: Emulator::Userspace,
                ..self
            }),
        }
    }

    /// Returns the reason for which the settings exclude one another, if they do.
    #[must_use]
    pub fn contradiction(&self) -> Option<Message> {
        let (key, value) = self.needs_netem()?;
        // The interfaces of a direct link have offloads, and so has the loopback.
        let is_possible = match self.emulator {
            Emulator::Userspace => false,
            Emulator::None | Emulator::Loopback => {
                self.placement != Placement::Ends && self.loss_by != LossBy::Iptables
            }
            Emulator::Auto | Emulator::Netem => true,
        };
        (!is_possible).then(|| {
            message!([
                text_setting(key, value),
                " is netem's, and ",
                text_setting("emulator", self.emulator.as_str()),
                " is not netem",
            ])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_settings_are_read_again() {
        let read = |text| serde_json::from_str::<PathSetup>(text);
        let ends = PathSetup {
            emulator: Emulator::Netem,
            placement: Placement::Ends,
            loss_by: LossBy::Iptables,
            offloads: Offloads::Off,
        };
        let with = PathSetup {
            offloads: Offloads::On,
            ..PathSetup::default()
        };
        let stored = serde_json::to_string(&with).expect("JSON");
        assert_eq!(read(&stored).ok(), Some(with));
        assert_eq!(with.needs_netem(), Some(("offloads", "on")));
        let text = serde_json::to_string(&ends).expect("JSON");
        assert_eq!(
            text,
            r#"{"emulator":"netem","placement":"ends","loss_by":"iptables"}"#
        );
        assert_eq!(read(&text).ok(), Some(ends));
        assert_eq!(read("{}").ok(), Some(PathSetup::default()));
        assert_eq!(ends.contradiction(), None);
        assert!(
            PathSetup {
                emulator: Emulator::Userspace,
                ..ends
            }
            .contradiction()
            .is_some()
        );
        assert_eq!(PathSetup::USERSPACE.contradiction(), None);
    }
}
