//! Definition of a key of a workload or of its probe, of which `work_keys.rs` has one in each row.

use std::{collections::BTreeMap, ops::Range, time::Duration};

use super::{
    error::Result,
    key::KeyKind,
    section::{Section, Taken, set},
};
use crate::{
    named::Named,
    units::Bytes,
    workload::{Amount, Arrivals},
};

/// Key of a `T`: a kind of workload, or a probe.
#[derive(Debug)]
pub struct ValueKey<T> {
    /// Name in a study; with hyphens that of the command line's option.
    pub name: &'static str,
    /// Values that the key takes.
    pub kind: KeyKind,
    /// Value for messages, as in a study without quotes.
    pub example: &'static str,
    /// Help of the command line's option.
    pub help: &'static str,
    /// Default and meaning in `docs/workloads.md`: the cells of the table's row, with a bar between them.
    pub doc: &'static str,
    /// Key that cannot be given beside this one.
    pub instead_of: Option<&'static str>,
    /// Field of the value; `None` if this `T` has no such key.
    pub(super) field: for<'t> fn(&'t mut T) -> Option<Field<'t>>,
}

/// Field that a value is read into.
pub(super) enum Field<'t> {
    /// Size, with its bounds in bytes, both allowed.
    Size(&'t mut Bytes, [u64; 2]),
    /// Whole number, whose bounds are those of the key.
    Number(&'t mut dyn Number),
    /// Time.
    Time(&'t mut Duration),
    /// Amount as a size, with its bounds in bytes, both allowed.
    Amount(&'t mut Amount, [u64; 2]),
    /// Amount as a time.
    AmountOfTime(&'t mut Amount),
    /// Value of an enumeration.
    NamedValue(&'t mut dyn NamedValue),
    /// `true` or `false`.
    Flag(&'t mut bool),
    /// Requests per second of an open loop, or outstanding requests of a closed one.
    Arrivals(&'t mut Arrivals, fn(u64) -> Arrivals),
}

/// Number that is read as a whole one.
pub(super) trait Number {
    /// Stores a number within the bounds of its key.
    fn store(&mut self, number: u64);
}

impl Number for u32 {
    fn store(&mut self, number: u64) {
        *self = number as u32;
    }
}

impl Number for u64 {
    fn store(&mut self, number: u64) {
        *self = number;
    }
}

impl Number for f64 {
    fn store(&mut self, number: u64) {
        *self = number as f64;
    }
}

/// Value of a type with [`Named`] values.
pub(super) trait NamedValue {
    /// Reads the value by its name, if the key is there, and returns its span.
    fn read(
        &mut self,
        section: &mut Section<'_>,
        key: &'static str,
    ) -> Result<Option<Range<usize>>>;
}

impl<T: Named> NamedValue for T {
    fn read(
        &mut self,
        section: &mut Section<'_>,
        key: &'static str,
    ) -> Result<Option<Range<usize>>> {
        Ok(set(section.choice_at(key)?, self))
    }
}

impl<T> ValueKey<T> {
    /// Whether this `T` has the key.
    pub fn is_of(&self, of: &mut T) -> bool {
        (self.field)(of).is_some()
    }

    /// Reads a whole number within the bounds of the key.
    fn number(&self, section: &mut Section<'_>) -> Result<Taken<u64>> {
        let [least, most] = match self.kind {
            KeyKind::Number { least, most } => [least, most],
            _ => [0, u64::MAX],
        };
        section.number_at(self.name, least, most)
    }

    fn time(&self, section: &mut Section<'_>) -> Result<Taken<Duration>> {
        let taken = section.duration(self.name, self.example)?;
        section.time(taken.clone(), self.example)?;
        Ok(taken)
    }

    /// Reads the value into its field; returns its span if the key is there.
    fn read(&self, section: &mut Section<'_>, field: Field<'_>) -> Result<Option<Range<usize>>> {
        Ok(match field {
            Field::Size(into, bounds) => {
                set(section.amount(self.name, self.example, bounds)?, into)
            }
            Field::Number(into) => self.number(section)?.map(|(number, span)| {
                into.store(number);
                span
            }),
            Field::Time(into) => set(self.time(section)?, into),
            Field::Amount(into, bounds) => {
                let size = section.amount(self.name, self.example, bounds)?;
                set(size.map(|(size, span)| (Amount::Bytes(size), span)), into)
            }
            Field::AmountOfTime(into) => {
                let time = self.time(section)?;
                set(time.map(|(time, span)| (Amount::Time(time), span)), into)
            }
            Field::NamedValue(into) => into.read(section, self.name)?,
            Field::Flag(into) => set(section.flag(self.name)?, into),
            Field::Arrivals(into, of) => {
                let number = self.number(section)?;
                set(number.map(|(number, span)| (of(number), span)), into)
            }
        })
    }
}

/// Reads the keys of a table that are present over the values that `of` has; returns their spans. A key that this `of`
/// does not have is left in the table.
pub(super) fn read_keys<T>(
    keys: &'static [ValueKey<T>],
    section: &mut Section<'_>,
    of: &mut T,
) -> Result<BTreeMap<&'static str, Range<usize>>> {
    let mut spans = BTreeMap::new();
    for key in keys {
        if let Some(other) = key.instead_of {
            section.not_both(other, key.name)?;
        }
    }
    for key in keys {
        if let Some(field) = (key.field)(of)
            && let Some(span) = key.read(section, field)?
        {
            spans.insert(key.name, span);
        }
    }
    Ok(spans)
}
