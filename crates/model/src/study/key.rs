//! Definition of a key of a condition, of which `keys.rs` has one in each row.

use std::ops::Range;

use super::{draft::Draft, error::Result, message::Message, section::Section};
use crate::{
    condition::{Impairment, Link},
    metric::Unit,
    warning::Phrase,
};

/// Key of a condition.
#[derive(Debug)]
pub struct PathKey {
    /// Name in a study; with hyphens that of the command line's option.
    pub name: &'static str,
    /// Values that the key takes.
    pub kind: KeyKind,
    /// Help of the command line's option.
    pub help: &'static str,
    /// Meaning and default in `docs/conditions.md`: the cells of the table's row, with a bar between them.
    /// [`PathKey::QUANTITIES`] stands for the names of the keys that `steps` can change.
    pub doc: &'static str,
    /// Text in the name of a condition of the command line; `{}` stands for the value.
    pub in_name: &'static str,
    /// Position of this text in the name.
    pub name_position: u32,
    /// Key that cannot be given beside this one.
    pub instead_of: Option<&'static str>,
    /// Reads the key of a link, if it is there, and returns its span; `None` for the keys of a whole path,
    /// and for those that another row reads.
    pub(super) read: Option<Read>,
    /// Describes the setting of a link, unless it is the default or is described elsewhere.
    pub(super) describe: Option<fn(&Link) -> Option<Phrase>>,
    /// Finds a setting that no path can have, with the largest packet in bytes.
    pub(super) fault: Option<fn(&Link, u64) -> Option<Fault>>,
    /// The quantity that `steps` can change, if the key is one.
    pub(super) quantity: Option<Quantity>,
    /// The impairment whose probability is the key's value, with an example of it: it is read, described as in the name of a
    /// condition unless there is a text of its own, and checked.
    pub(super) impairment: Option<(Impairment, &'static str)>,
}

/// Quantity of a link that can rise or fall by steps.
#[derive(Debug, Clone, Copy)]
pub(super) struct Quantity {
    /// Value for messages.
    pub example: &'static str,
    /// Unit of the values that `set` takes.
    pub unit: Unit,
    pub set: fn(&mut Link, f64),
}

pub(super) type Read =
    fn(&mut Section<'_>, &mut Draft, &'static str) -> Result<Option<Range<usize>>>;

/// Message and hint.
pub(super) type Fault = (Message, Message);

/// Kind of values that a key of a condition or of a workload takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// A time with its unit.
    Time,
    /// A ratio with its unit.
    Ratio,
    /// A rate with its unit, or `unlimited`.
    Rate,
    /// A size with its unit.
    Size,
    /// The size of a packet, or a number of bytes.
    PacketSize,
    /// A size, a number of packets or of bandwidth-delay products.
    Queue,
    /// Placeholder of the value in help, and the names that it can have.
    Enum(&'static str, &'static [&'static str]),
    /// `true` or `false`.
    Flag,
    /// A whole number between two bounds, both allowed.
    Number {
        /// Lowest value.
        least: u64,
        /// Highest value.
        most: u64,
    },
    /// Numbers, or the name of a file with one on each line.
    Numbers,
    /// Name of a file.
    File,
    /// Table of further keys: its form in help; the key of a first value that is written without one, if that is allowed;
    /// an example of the other keys, for messages.
    Table(&'static str, Option<&'static str>, &'static str),
}

impl PathKey {
    /// Placeholder in [`Self::doc`].
    pub const QUANTITIES: &'static str = "{quantities}";

    pub(super) const fn new(name: &'static str, kind: KeyKind) -> Self {
        Self {
            name,
            kind,
            help: "",
            doc: "",
            in_name: "{}",
            name_position: 0,
            instead_of: None,
            read: None,
            describe: None,
            fault: None,
            quantity: None,
            impairment: None,
        }
    }

    pub(super) const fn help(self, help: &'static str) -> Self {
        Self { help, ..self }
    }

    pub(super) const fn doc(self, doc: &'static str) -> Self {
        Self { doc, ..self }
    }

    /// Sets the text for a value in the name of a condition, and its position there.
    pub(super) const fn in_name(self, name_position: u32, in_name: &'static str) -> Self {
        Self {
            in_name,
            name_position,
            ..self
        }
    }

    pub(super) const fn instead_of(mut self, other: &'static str) -> Self {
        self.instead_of = Some(other);
        self
    }

    pub(super) const fn read(mut self, read: Read) -> Self {
        self.read = Some(read);
        self
    }

    /// Makes the key that of an impairment's probability.
    pub(super) const fn impairment(
        mut self,
        impairment: Impairment,
        example: &'static str,
    ) -> Self {
        self.impairment = Some((impairment, example));
        self
    }

    pub(super) const fn describe(mut self, describe: fn(&Link) -> Option<Phrase>) -> Self {
        self.describe = Some(describe);
        self
    }

    pub(super) const fn fault(mut self, fault: fn(&Link, u64) -> Option<Fault>) -> Self {
        self.fault = Some(fault);
        self
    }

    /// Lets `steps` change the quantity.
    pub(super) const fn stepped(
        mut self,
        example: &'static str,
        unit: Unit,
        set: fn(&mut Link, f64),
    ) -> Self {
        self.quantity = Some(Quantity { example, unit, set });
        self
    }

    /// Whether `steps` can change the key.
    #[must_use]
    pub const fn is_stepped(&self) -> bool {
        self.quantity.is_some()
    }
}
