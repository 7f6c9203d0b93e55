//! Random impairments of single packets: one row for each, from which studies, checks and the emulator know them.

use super::Link;
use crate::{metric::PacketCounter, units::Ratio};

/// Defines the impairments, one entry each: the field of [`Link`] with its probability, the number of its stream of random draws,
/// the counter of such packets, its name in errors, and whether the packets of an idle link `arrive` otherwise or have another
/// `field` alone. A stored seed names draws as long as the number of a stream stays.
macro_rules! impairments {
    ($($(#[$meaning:meta])* $impairment:ident = $field:ident [$stream:literal] $counter:ident $name:literal $changes:ident;)*) => {
        /// Random impairment of single packets.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Impairment {
            $($(#[$meaning])* $impairment,)*
        }

        impl Impairment {
            /// All impairments.
            pub const ALL: [Self; [$($stream),*].len()] = [$(Self::$impairment),*];

            /// Returns the probability with which a packet of a link has it.
            #[must_use]
            pub const fn of(self, link: &Link) -> Ratio {
                match self { $(Self::$impairment => link.$field,)* }
            }

            /// Returns the place of [`Self::of`].
            pub const fn of_mut(self, link: &mut Link) -> &mut Ratio {
                match self { $(Self::$impairment => &mut link.$field,)* }
            }

            /// Returns the number of its stream of random draws.
            #[must_use]
            pub const fn stream(self) -> u64 {
                match self { $(Self::$impairment => $stream,)* }
            }

            /// Returns the counter of the packets that have it.
            #[must_use]
            pub const fn counter(self) -> PacketCounter {
                match self { $(Self::$impairment => PacketCounter::$counter,)* }
            }

            /// Returns the name in errors.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$impairment => $name,)* }
            }

            /// Whether it decides if, when and how often a packet arrives, and whether it is whole.
            #[must_use]
            pub const fn changes_arrival(self) -> bool {
                match self { $(Self::$impairment => impairments!(@ $changes),)* }
            }
        }
    };
    (@ arrive) => { true };
    (@ field) => { false };
}

impairments! {
    /// The packet is lost.
    Loss = loss [0] Loss "loss" arrive;
    /// The packet skips the propagation delay.
    Reordering = reorder_ratio [3] Reordered "reordering" arrive;
    /// The packet arrives twice.
    Duplication = duplicate_ratio [4] Duplicated "duplication" arrive;
    /// One of the packet's bits is flipped.
    Corruption = corrupt_ratio [5] Corrupted "corruption" arrive;
    /// The packet is lost if its sender asks for ECN.
    EctLoss = ect_loss_ratio [7] EctLoss "ECT loss" arrive;
    /// The packet's ECN field is cleared.
    Bleaching = ecn_bleach_ratio [8] Bleached "ECN bleaching" field;
    /// The packet has ECT(1) in the place of ECT(0).
    Remarking = ecn_remark_ratio [9] Remarked "ECN re-marking" field;
}
