//! Counters of what a path does to the packets of one direction.

use std::ops::{Index, IndexMut};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{IgnoredAny, MapAccess, Visitor},
    ser::SerializeMap as _,
};

/// Fate of the packets that a [`PacketCounter`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Lost on the wire.
    Lost,
    /// Dropped before the wire, or at the end of it.
    Dropped,
    /// Carried, with an impairment.
    Carried,
}

/// Defines the counters, one entry each: its name, in JSON and in the names of its metrics; the fate of the packets; what is
/// said of such a packet after the number of them, and in a capture; and, unless `path_other_drops` has it, the beginning and the
/// end of the title of its metric, what is said of `IP packets`, the end of the definition, and where reports show that of the data's direction. Links that ask for it are those of
/// [`Link::asks_for`](crate::Link::asks_for).
macro_rules! packet_counters {
    ($($(#[$meaning:meta])* $counter:ident = $name:literal [$fate:ident] $said:literal, $captured:literal
        $(($title:literal, $of:literal) => $what:literal, $rest:literal
            $({$rank:literal: $($place:ident($of_place:expr)),+})?)?;)*) => {
        /// Counter of packets of one direction of a path.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum PacketCounter {
            $($(#[$meaning])* $counter,)*
        }

        impl PacketCounter {
            /// All counters.
            pub const ALL: &'static [Self] = &[$(Self::$counter),*];

            /// Returns the name in JSON.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$counter => $name,)* }
            }

            /// Returns the fate of the packets.
            #[must_use]
            pub const fn fate(self) -> Fate {
                match self { $(Self::$counter => Fate::$fate,)* }
            }

            /// Returns the words that follow a number of packets in a sentence: `lost at random`.
            #[must_use]
            pub const fn said(self) -> &'static str {
                match self { $(Self::$counter => $said,)* }
            }

            /// Returns the comment on a packet in a capture file.
            #[must_use]
            pub const fn captured(self) -> &'static str {
                match self { $(Self::$counter => $captured,)* }
            }

            /// Returns the names of the metrics of the data's direction and of the other one; `None` for what is part of
            /// `path_other_drops`.
            #[must_use]
            pub const fn metrics(self) -> Option<[&'static str; 2]> {
                match self {
                    $(Self::$counter => {
                        let all: &[(&str, [&str; 2])] = &[
                            $(($title, [concat!("path_", $name), concat!("path_reverse_", $name)]))?
                        ];
                        match all { [(_, names)] => Some(*names), _ => None }
                    })*
                }
            }
        }

        /// The metrics of the counters: those of the direction of the data, then those of the other one.
        pub(super) const METRICS: &[super::MetricDefinition] = &[
            $($(packet_counters!(@metric concat!("path_", $name), concat!($title, $of),
                concat!("IP packets ", $what, ", sender to receiver, in the whole trial (see `path_packets`)", $rest, "."),
                [$($rank,)? u8::MAX][0], &[$($(super::Place::$place($of_place)),+)?]),)?)*
            $($(packet_counters!(@metric concat!("path_reverse_", $name), concat!($title, ", reverse", $of),
                concat!("IP packets ", $what, ", receiver to sender, in the whole trial (see `path_packets`)", $rest, "."),
                u8::MAX, &[]),)?)*
        ];
    };
    (@metric $name:expr, $title:expr, $definition:expr, $rank:expr, $places:expr) => {
        super::MetricDefinition {
            name: $name,
            unit: super::Unit::Count,
            title: $title,
            better: super::Better::Neither,
            combination: super::Combination::Sender,
            rank: $rank,
            places: $places,
            definition: $definition,
        }
    };
}

packet_counters! {
    /// Lost at random, each on its own.
    Loss = "loss_drops" [Lost] "lost at random", "lost at random"
        ("path drops", ": random loss")
        => "that the path lost at random, each on its own", "";
    /// Lost in bursts.
    Burst = "burst_drops" [Lost] "lost in bursts", "lost in a burst"
        ("path drops", ": bursts")
        => "that the path lost in bursts (Gilbert and Elliott)", "; of conditions that ask for them";
    /// Lost because the condition names them.
    List = "list_drops" [Lost] "lost by list", "lost by list"
        ("path drops", ": list")
        => "that the path lost because the condition names them", "; of conditions that do";
    /// Lost because its sender asks for ECN, on a path that such packets do not pass.
    EctLoss = "ect_drops" [Lost] "lost for their ECN field", "lost for its ECN field"
        ("path drops", ": ECN field")
        => "that the path lost because their senders ask for ECN", "; of conditions with `ect_loss`";
    /// Dropped because the bottleneck's queue had no room.
    Queue = "queue_drops" [Dropped] "dropped by the full queue", "dropped: the queue was full"
        ("path drops", ": queue full")
        => "that the bottleneck's full queue dropped", "" {20: Loss(7)};
    /// Dropped by the queue's discipline, so that the queue becomes shorter; without those that were to be lost on the wire,
    /// which are counted as such.
    Discipline = "aqm_drops" [Dropped] "dropped by the queue's discipline", "dropped by the queue's discipline"
        ("path drops", ": AQM")
        => "that the queue's discipline (active queue management) dropped from the bottleneck's queue",
        "; of conditions that have one" {20: Loss(8)};
    /// Carried with a mark of the queue's discipline: congestion experienced.
    Marked = "ecn_marks" [Carried] "marked by the queue's discipline", "marked: congestion experienced"
        ("ECN marks on the path", "")
        => "that the queue's discipline marked (RFC 3168) and did not drop", "; of conditions with `ecn`";
    /// Carried with a cleared ECN field.
    Bleached = "ecn_bleached" [Carried] "with a cleared ECN field", "its ECN field was cleared by the path; here it is as it was sent"
        ("ECN fields cleared on the path", "")
        => "whose ECN field the path cleared", "; of conditions with `ecn_bleach`";
    /// Carried with ECT(1) instead of ECT(0).
    Remarked = "ecn_remarked" [Carried] "re-marked from ECT(0) to ECT(1)",
        "re-marked from ECT(0) to ECT(1) by the path; here it is as it was sent"
        ("ECN fields changed on the path", "")
        => "that the path changed from ECT(0) to ECT(1)", "; of conditions with `ecn_remark`";
    /// Dropped because they are larger than the path's largest packet.
    Mtu = "mtu_drops" [Dropped] "larger than the path's largest", "dropped: larger than the path's largest packet";
    /// Never reached the path or its other end: the sending host's device was full because the emulator did not keep up, or
    /// the receiving host's device refused them. They are no part of the requested condition.
    Refused = "refused_drops" [Dropped] "dropped because this machine did not keep up",
        "dropped: the receiving host's device did not take it";
    /// Carried with a flipped bit.
    Corrupted = "corrupted" [Carried] "with a flipped bit", "with one bit flipped by the path; here it is as it was sent"
        ("corrupted on the path", "")
        => "of which the path flipped one bit",
        "; of conditions that ask for it. Their checksums are wrong, so that the receiving host drops nearly all";
    /// Delivered once more than they were offered.
    Duplicated = "duplicated" [Carried] "sent on twice", "a copy that the path made"
        ("duplicated on the path", "")
        => "that the path delivered twice", "; of conditions that ask for it";
    /// Carried without the propagation delay.
    Reordered = "reordered" [Carried] "sent ahead of others", "ahead of others: reordered by the path"
        ("reordered on the path", "")
        => "that skipped the path's propagation delay and so overtook others", "; of conditions that ask for it";
}

/// Names of the metrics that code reads.
pub mod id {
    /// Packets that found the queue full, in the direction of the data.
    pub const PATH_QUEUE_DROPS: &str = "path_queue_drops";
}

/// A value for each [`PacketCounter`]; in JSON an object of their names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PacketCounters<T>([T; PacketCounter::ALL.len()]);

impl<T> Index<PacketCounter> for PacketCounters<T> {
    type Output = T;

    #[inline]
    fn index(&self, counter: PacketCounter) -> &T {
        &self.0[counter as usize]
    }
}

impl<T> IndexMut<PacketCounter> for PacketCounters<T> {
    #[inline]
    fn index_mut(&mut self, counter: PacketCounter) -> &mut T {
        &mut self.0[counter as usize]
    }
}

impl<T: Default, const N: usize> From<[(PacketCounter, T); N]> for PacketCounters<T>
where
    Self: Default,
{
    fn from(values: [(PacketCounter, T); N]) -> Self {
        let mut all = Self::default();
        for (counter, value) in values {
            all[counter] = value;
        }
        all
    }
}

impl PacketCounters<u64> {
    /// Returns the number of packets with this fate. A packet with several impairments counts for each.
    #[must_use]
    pub fn with_fate(&self, fate: Fate) -> u64 {
        let with_fate = PacketCounter::ALL.iter().filter(|it| it.fate() == fate);
        with_fate.map(|&counter| self[counter]).sum()
    }
}

impl<T: Serialize> Serialize for PacketCounters<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for &counter in PacketCounter::ALL {
            map.serialize_entry(counter.name(), &self[counter])?;
        }
        map.end()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for PacketCounters<T>
where
    Self: Default,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfNames<T>(PacketCounters<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for OfNames<T> {
            type Value = PacketCounters<T>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("counters by their names")
            }

            fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self::Value, A::Error> {
                while let Some(name) = map.next_key::<String>()? {
                    match PacketCounter::ALL.iter().find(|it| it.name() == name) {
                        Some(&counter) => self.0[counter] = map.next_value()?,
                        // Where they are part of an object, its other fields.
                        None => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(self.0)
            }
        }

        deserializer.deserialize_map(OfNames(Self::default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_fields_of_the_object_that_has_them() {
        #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
        struct Link {
            offered: u64,
            #[serde(flatten)]
            counters: PacketCounters<u64>,
        }
        let link = Link {
            offered: 5,
            counters: PacketCounters::from([(PacketCounter::Queue, 3)]),
        };
        let value = serde_json::to_value(&link).expect("an object");
        assert_eq!(
            (&value["offered"], &value["queue_drops"]),
            (&5.into(), &3.into())
        );
        assert_eq!(value["loss_drops"], 0);
        let again: Link = serde_json::from_value(value).expect("the same");
        assert_eq!(again, link);
    }

    #[test]
    fn fates_add_up() {
        use PacketCounter::{Burst, List, Loss, Queue, Reordered};
        let counters = [
            (Loss, 1),
            (Burst, 2),
            (List, 4),
            (Queue, 8),
            (Reordered, 16),
        ];
        let counters = PacketCounters::from(counters);
        let by_fate = [Fate::Lost, Fate::Dropped, Fate::Carried].map(|it| counters.with_fate(it));
        assert_eq!(by_fate, [7, 8, 16]);
    }
}
