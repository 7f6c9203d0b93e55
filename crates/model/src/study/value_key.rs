//! Definition of a key of a workload or of its probe, of which `work_keys.rs` has one in each row.

use std::{collections::BTreeMap, ops::Range, time::Duration};

use super::{error::StudyError, key::KeyKind, section::Section};
use crate::{
    units::{Bytes, parse_duration},
    words::Words,
    workload::Arrivals,
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
    /// Place of the value; `None` if this `T` has no such key.
    pub(super) field: for<'t> fn(&'t mut T) -> Option<Field<'t>>,
}

/// Place of a value.
pub(super) enum Field<'t> {
    /// Size, with its bounds in bytes, both allowed.
    Size(&'t mut Bytes, [u64; 2]),
    /// Whole number, whose bounds are those of the key.
    Number(&'t mut dyn Number),
    /// Time.
    Time(&'t mut Duration),
    /// Time that need not be set.
    SomeTime(&'t mut Option<Duration>),
    /// One of several words.
    Word(&'t mut dyn Word),
    /// `true` or `false`.
    Flag(&'t mut bool),
    /// Requests per second, of an open loop.
    OpenLoop(&'t mut Arrivals),
    /// Outstanding requests, of a closed loop.
    ClosedLoop(&'t mut Arrivals),
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

/// Value of a type with words.
pub(super) trait Word {
    /// Reads the word, if it is there, and returns its place.
    fn read(
        &mut self,
        section: &mut Section<'_>,
        key: &'static str,
    ) -> Result<Option<Range<usize>>, StudyError>;
}

impl<T: Words> Word for T {
    fn read(
        &mut self,
        section: &mut Section<'_>,
        key: &'static str,
    ) -> Result<Option<Range<usize>>, StudyError> {
        Ok(section.choice_at(key)?.map(|(value, place)| {
            *self = value;
            place
        }))
    }
}

impl<T> ValueKey<T> {
    pub(super) const fn new(
        name: &'static str,
        kind: KeyKind,
        example: &'static str,
        field: for<'t> fn(&'t mut T) -> Option<Field<'t>>,
    ) -> Self {
        Self {
            name,
            kind,
            example,
            help: "",
            doc: "",
            instead_of: None,
            field,
        }
    }

    pub(super) const fn help(mut self, help: &'static str) -> Self {
        self.help = help;
        self
    }

    pub(super) const fn doc(mut self, doc: &'static str) -> Self {
        self.doc = doc;
        self
    }

    pub(super) const fn instead_of(mut self, other: &'static str) -> Self {
        self.instead_of = Some(other);
        self
    }

    /// Whether this `T` has the key.
    pub fn is_of(&self, of: &mut T) -> bool {
        (self.field)(of).is_some()
    }

    /// Reads a whole number within the bounds of the key.
    fn number(
        &self,
        section: &mut Section<'_>,
        into: &mut dyn Number,
    ) -> Result<Option<Range<usize>>, StudyError> {
        let [least, most] = match self.kind {
            KeyKind::Number { least, most } => [least, most],
            _ => [0, u64::MAX],
        };
        let taken = section.number_at(self.name, least, most)?;
        Ok(taken.map(|(number, place)| {
            into.store(number);
            place
        }))
    }

    /// Reads the value into its field; returns its place if the key is there.
    fn read(
        &self,
        section: &mut Section<'_>,
        field: Field<'_>,
    ) -> Result<Option<Range<usize>>, StudyError> {
        Ok(match field {
            Field::Size(into, bounds) => {
                let taken = section.amount(self.name, self.example, bounds)?;
                taken.map(|(size, place)| {
                    *into = size;
                    place
                })
            }
            Field::Number(into) => self.number(section, into)?,
            Field::Time(into) => {
                let taken = section.quantity(self.name, self.example, parse_duration)?;
                section.time(taken.clone())?;
                taken.map(|(time, place)| {
                    *into = time;
                    place
                })
            }
            Field::SomeTime(into) => {
                let mut time = Duration::ZERO;
                let place = self.read(section, Field::Time(&mut time))?;
                if place.is_some() {
                    *into = Some(time);
                }
                place
            }
            Field::Word(into) => into.read(section, self.name)?,
            Field::Flag(into) => section.flag(self.name)?.map(|(flag, place)| {
                *into = flag;
                place
            }),
            Field::OpenLoop(into) => {
                let mut requests_per_second = 0.0_f64;
                let place = self.number(section, &mut requests_per_second)?;
                if place.is_some() {
                    *into = Arrivals::Open {
                        requests_per_second,
                    };
                }
                place
            }
            Field::ClosedLoop(into) => {
                let mut outstanding = 0_u32;
                let place = self.number(section, &mut outstanding)?;
                if place.is_some() {
                    *into = Arrivals::Closed { outstanding };
                }
                place
            }
        })
    }
}

/// Reads the keys of a table that are present over the values that `of` has; returns their places. A key that this `of`
/// does not have is left in the table.
pub(super) fn read_keys<T>(
    keys: &'static [ValueKey<T>],
    section: &mut Section<'_>,
    of: &mut T,
) -> Result<BTreeMap<&'static str, Range<usize>>, StudyError> {
    let mut places = BTreeMap::new();
    for key in keys {
        if let Some(other) = key.instead_of {
            section.not_both(other, key.name)?;
        }
    }
    for key in keys {
        if let Some(field) = (key.field)(of)
            && let Some(place) = key.read(section, field)?
        {
            places.insert(key.name, place);
        }
    }
    Ok(places)
}
