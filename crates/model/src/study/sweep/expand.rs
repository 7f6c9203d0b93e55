//! Expansion of the tables of a study: one for each value of the sweeps that apply to it.

use std::ops::Range;

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{Part, Sweeps, SweptEntry, example::name_keys, read::Written};
use crate::{
    named::Named as _,
    study::{error::Result, section::Section},
};

/// Maximum number of entries that the sweeps of one part make.
const MAX_ENTRIES: usize = 100_000;

/// Sweeps of a study during the expansion of its tables.
pub(in crate::study) struct Expansion<'w> {
    written: &'w [Written],
    sweeps: Sweeps,
}

/// Position of a sweep, and position of one of its values.
type At = [usize; 2];

impl<'w> Expansion<'w> {
    pub fn new(written: &'w [Written]) -> Self {
        Self {
            written,
            sweeps: Sweeps {
                sweeps: written.iter().map(|it| it.sweep.clone()).collect(),
                entries: Vec::new(),
            },
        }
    }

    /// Returns the sweeps and the entries that were made.
    pub fn finish(self) -> Sweeps {
        self.sweeps
    }

    /// Returns the tables of a part, those with sweeps once for each combination of their values.
    pub fn expand<'s>(&mut self, part: Part, sections: Vec<Section<'s>>) -> Result<Vec<Section<'s>>>
    where
        'w: 's,
    {
        let names = sections.iter().map(|section| base_name(part, section));
        let names: Vec<(String, Range<usize>)> = names.collect();
        if let Some(first) = sections.first() {
            self.check_names(part, first, &names)?;
        }
        let mut all = Vec::new();
        for (section, (base, span)) in sections.into_iter().zip(names) {
            let combinations = self.combinations(part, &base);
            if combinations.iter().all(Vec::is_empty) {
                all.push(section);
                continue;
            }
            if all.len().saturating_add(combinations.len()) > MAX_ENTRIES {
                return Err(section.error(
                    section.span(),
                    format!(
                        "the sweeps make more than {MAX_ENTRIES} of this {}",
                        part.as_str()
                    ),
                    "write fewer values, or zip sweeps whose values go together",
                ));
            }
            for at in combinations {
                let mut copy = section.clone();
                for [sweep, value] in &at {
                    self.set(&mut copy, *sweep, *value)?;
                }
                let name = self.name(part, &base, &at);
                rename(part, &mut copy, &name, &span);
                self.sweeps.entries.push(SweptEntry {
                    part,
                    name,
                    base: base.clone(),
                    at: at
                        .iter()
                        .map(|at| at.map(|position| position as u32))
                        .collect(),
                });
                all.push(copy);
            }
        }
        Ok(all)
    }

    /// Checks that the entries which sweeps name exist.
    fn check_names(
        &self,
        part: Part,
        section: &Section<'_>,
        names: &[(String, Range<usize>)],
    ) -> Result<()> {
        let of_part = self.written.iter().filter(|it| it.sweep.part == part);
        of_part.flat_map(|written| &written.of).try_for_each(|of| {
            let known = names.iter().map(|(name, _)| name.as_str());
            section.known(part.as_str(), &of.shown, &of.span, known)
        })
    }

    /// Returns all combinations of the values of the sweeps that apply to an entry, the last sweep
    /// changing fastest; one empty combination if none applies.
    fn combinations(&self, part: Part, base: &str) -> Vec<Vec<At>> {
        let applies = |sweep: &usize| {
            let Written { sweep, of, .. } = &self.written[*sweep];
            sweep.part == part && (of.is_empty() || of.iter().any(|name| name.shown == base))
        };
        let mut combinations: Vec<Vec<At>> = vec![Vec::new()];
        for axis in self.sweeps.axes() {
            let axis: Vec<usize> = axis.into_iter().filter(applies).collect();
            let Some(first) = axis.first() else {
                continue;
            };
            let values = self.sweeps.sweeps[*first].values.len();
            let with_values = |before: &Vec<At>| -> Vec<Vec<At>> {
                let with = |value| {
                    let here = axis.iter().map(|sweep| [*sweep, value]);
                    before.iter().copied().chain(here).collect()
                };
                (0..values).map(with).collect()
            };
            // One more than is allowed is enough to be refused.
            let before = combinations.iter().take(MAX_ENTRIES + 1);
            combinations = before.flat_map(with_values).collect();
        }
        combinations
    }

    /// Sets the key of a sweep in a table; mistakes in it are shown in the sweep.
    fn set<'s>(&self, section: &mut Section<'s>, sweep: usize, value: usize) -> Result<()>
    where
        'w: 's,
    {
        let written: &'w Written = &self.written[sweep];
        let scalar = &written.values[value];
        let parsed = DeValue::parse(&scalar.source).map_err(|_| {
            let message = format!("`{}` is no value of TOML", scalar.shown);
            let hint = "write it as in the section itself";
            section.error(scalar.span.clone(), message, hint)
        })?;
        let parsed = Spanned::new(scalar.span.clone(), parsed.into_inner());
        let key = &written.sweep.key;
        insert(section.table_mut(), key, &written.key_span, parsed).map_err(|span| {
            let full_key = written.sweep.full_key();
            section.error(
                span,
                format!("`{key}` is said here and by a `[[sweep]]` of `{full_key}`"),
                format!("leave `{key}` out here, or name other entries with `of` in the sweep"),
            )
        })
    }

    /// Returns the name of an entry, made from its name in the file and its values.
    fn name(&self, part: Part, base: &str, at: &[At]) -> String {
        let values = at.iter().map(|[sweep, value]| {
            let sweep = &self.sweeps.sweeps[*sweep];
            sweep.in_name(&sweep.values[*value].text)
        });
        let separator = match part {
            Part::Transport => ":",
            Part::Condition | Part::Workload => ", ",
        };
        let parts: Vec<String> = std::iter::once(base.to_owned()).chain(values).collect();
        parts.join(separator)
    }
}

/// Returns the name of a table in the file, and its span.
pub(in crate::study) fn base_name(part: Part, section: &Section<'_>) -> (String, Range<usize>) {
    name_keys(part)
        .iter()
        .find_map(|key| section.peek(key))
        .unwrap_or_else(|| ("bulk".to_owned(), section.span()))
}

fn rename(part: Part, section: &mut Section<'_>, name: &str, span: &Range<usize>) {
    let key = part.name_key();
    let table = section.table_mut();
    table.remove(key);
    table.insert(
        Spanned::new(span.clone(), key.into()),
        Spanned::new(span.clone(), DeValue::String(name.to_owned().into())),
    );
}

/// Inserts a value under a key with dots.
///
/// # Errors
/// The span of the value that is already there.
fn insert<'s>(
    table: &mut DeTable<'s>,
    key: &str,
    span: &Range<usize>,
    value: Spanned<DeValue<'s>>,
) -> Result<(), Range<usize>> {
    let (first, rest) = key.split_once('.').unwrap_or((key, ""));
    let named = || Spanned::new(span.clone(), first.to_owned().into());
    if rest.is_empty() {
        if let Some(there) = table.get(first) {
            return Err(there.span());
        }
        table.insert(named(), value);
        return Ok(());
    }
    if !table.contains_key(first) {
        let empty = Spanned::new(span.clone(), DeValue::Table(DeTable::new()));
        table.insert(named(), empty);
    }
    let Some(inner) = table.get_mut(first) else {
        return Ok(());
    };
    let there = inner.span();
    match inner.get_mut() {
        DeValue::Table(inner) => insert(inner, rest, span, value),
        _ => Err(there),
    }
}
