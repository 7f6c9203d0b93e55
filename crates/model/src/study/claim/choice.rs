//! Cells that a claim chooses: by names of transports, conditions and workloads, by swept values, along a parameter.

use std::{collections::BTreeSet, ops::Range};

use toml::{Spanned, de::DeValue};

use super::ClaimedCell;
use crate::{
    metric::Unit,
    named::Named as _,
    study::{
        Study,
        error::Result,
        message::{message, setting},
        names::nearest,
        section::{Scalar, Section, toml_text},
        sweep::{Part, Sweep, Sweeps, SweptValue, number_in, shown},
    },
};

/// Maximum number of cells of one claim.
const MAX_CELLS: usize = 20_000;

/// Parts of a cell, in the order of a [`ClaimedCell`].
const PARTS: [Part; 3] = [Part::Transport, Part::Condition, Part::Workload];

/// Transport, condition or workload of the study.
#[derive(Debug, Clone)]
pub struct Entry<'s> {
    pub name: &'s str,
    /// Name in the file.
    base: &'s str,
    /// Swept values, by the full keys of their sweeps.
    at: Vec<(String, &'s SweptValue)>,
}

impl Entry<'_> {
    /// Whether no key is swept in both entries with different values.
    fn agrees(&self, other: &Self) -> bool {
        let differs = |(key, value): &(String, &SweptValue)| {
            let mut at = other.at.iter();
            at.any(|(of_other, it)| of_other == key && it.text != value.text)
        };
        !self.at.iter().any(differs)
    }
}

/// Side of a relation: the parts of a cell that it names, with their spans.
#[derive(Debug, Clone, Default)]
pub struct Side {
    pub parts: [Option<(String, Range<usize>)>; 3],
    pub span: Range<usize>,
}

/// Entries of one part along a parameter.
pub struct Along<'s> {
    pub part: Part,
    /// Lines: entries, each with the text of its value.
    pub lines: Vec<Vec<(&'s str, String)>>,
}

/// Cells of a place: by side, and by step along a parameter.
pub type Place = Vec<Vec<ClaimedCell>>;

/// Names by side and step; of one step where they do not change.
type Combination<'s> = Vec<Vec<&'s str>>;

/// Values of a sweep that a claim keeps.
struct Filter {
    /// Full key of the sweep.
    key: String,
    part: Part,
    /// Texts of the values.
    kept: BTreeSet<String>,
}

/// Choice of cells of one claim.
pub struct Choice<'s> {
    entries: &'s [Vec<Entry<'s>>; 3],
    sweeps: &'s Sweeps,
    names: [Option<Vec<Scalar>>; 3],
    filters: Vec<Filter>,
}

/// Returns the entries of a study by part.
pub fn entries(study: &Study) -> [Vec<Entry<'_>>; 3] {
    let entry = |part: Part, name| {
        let swept = study.sweeps.entry(part, name);
        let at = swept.into_iter().flat_map(|it| study.sweeps.parameters(it));
        Entry {
            name,
            base: swept.map_or(name, |it| &it.base),
            at: at.map(|(sweep, value)| (sweep.full_key(), value)).collect(),
        }
    };
    let transports = study.transports.iter().map(|it| it.label.as_str());
    let conditions = study.conditions.iter().map(|it| it.name.as_str());
    let workloads = study.workloads.iter().map(|it| it.name.as_str());
    [
        transports.map(|it| entry(Part::Transport, it)).collect(),
        conditions.map(|it| entry(Part::Condition, it)).collect(),
        workloads.map(|it| entry(Part::Workload, it)).collect(),
    ]
}

impl<'s> Choice<'s> {
    /// Reads `transport`, `condition`, `workload` and `where` of a claim.
    pub fn read(
        section: &mut Section<'_>,
        entries: &'s [Vec<Entry<'s>>; 3],
        sweeps: &'s Sweeps,
    ) -> Result<Self> {
        let example = |part: Part| {
            let first = entries[part as usize].first();
            toml_text(first.map_or("…", |entry| entry.base))
        };
        let transports = names(section, "transport", &example(Part::Transport))?;
        let conditions = names(section, "condition", &example(Part::Condition))?;
        let workloads = names(section, "workload", &example(Part::Workload))?;
        Ok(Self {
            entries,
            sweeps,
            names: [transports, conditions, workloads],
            filters: read_filters(section, sweeps)?,
        })
    }

    /// Returns the names of transports that the claim chooses, for a relation that compares one with the others.
    pub fn take_transports(&mut self, section: &Section<'_>) -> Result<Vec<&'s str>> {
        let entries = self.of_part(section, Part::Transport)?;
        self.names[0] = None;
        Ok(entries.into_iter().map(|entry| entry.name).collect())
    }

    fn keeps(&self, part: Part, entry: &Entry<'_>) -> bool {
        let mut filters = self.filters.iter().filter(|filter| filter.part == part);
        filters.all(|filter| {
            let mut at = entry.at.iter();
            at.any(|(key, value)| *key == filter.key && filter.kept.contains(&value.text))
        })
    }

    /// Returns the entries of a name: the one of this full name, or those that sweeps made of the one in the file.
    fn named(
        &self,
        section: &Section<'_>,
        part: Part,
        name: &str,
        span: &Range<usize>,
    ) -> Result<Vec<Entry<'s>>> {
        let all = &self.entries[part as usize];
        if let Some(entry) = all.iter().find(|entry| entry.name == name) {
            // It is chosen whatever its values are.
            return Ok(vec![Entry {
                at: Vec::new(),
                ..entry.clone()
            }]);
        }
        let of_name = all.iter().filter(|entry| entry.base == name);
        let kept: Vec<Entry<'s>> = of_name
            .clone()
            .filter(|entry| self.keeps(part, entry))
            .cloned()
            .collect();
        if !kept.is_empty() {
            return Ok(kept);
        }
        if of_name.count() > 0 {
            return Err(section.error(
                span.clone(),
                format!("`where` leaves nothing of `{name}`"),
                "write other values in `where`, or another name here",
            ));
        }
        let bases: BTreeSet<&str> = all.iter().map(|entry| entry.base).collect();
        let known: Vec<&str> = bases
            .iter()
            .copied()
            .chain(all.iter().map(|it| it.name))
            .collect();
        let hint = match nearest(name, &known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("write one of: {}", Vec::from_iter(bases).join(", ")),
        };
        let message = format!("this study has no {} `{name}`", part.as_str());
        Err(section.error(span.clone(), message, hint))
    }

    /// Returns the entries of a part that the claim chooses: those that it names, or all.
    fn of_part(&self, section: &Section<'_>, part: Part) -> Result<Vec<Entry<'s>>> {
        let Some(names) = &self.names[part as usize] else {
            let all = self.entries[part as usize].iter();
            return Ok(all.filter(|it| self.keeps(part, it)).cloned().collect());
        };
        let mut chosen = Vec::new();
        for name in names {
            chosen.extend(self.named(section, part, &name.shown, &name.span)?);
        }
        Ok(chosen)
    }

    /// Reads `over`: the key of a sweep, or a list of names of one part.
    pub fn read_over(&self, section: &mut Section<'_>) -> Result<Along<'s>> {
        if let Some((key, span)) = section.peek("over") {
            section.text("over")?;
            return self.along_key(section, &key, &span);
        }
        let example = self.over_example();
        let names = section.scalars("over", &example)?;
        let names = section.required("over", &example, names)?;
        self.along_names(section, &names)
    }

    /// Returns a value of `over` for messages: a swept key of the study, or names of its conditions.
    fn over_example(&self) -> String {
        if let Some(sweep) = self.sweeps.sweeps.first() {
            return toml_text(&sweep.full_key());
        }
        let conditions = self.entries[Part::Condition as usize].iter().take(2);
        let names: Vec<String> = conditions.map(|entry| toml_text(entry.name)).collect();
        format!("[{}]", names.join(", "))
    }

    fn along_key(
        &self,
        section: &Section<'_>,
        key: &str,
        span: &Range<usize>,
    ) -> Result<Along<'s>> {
        let part = swept_part(section, self.sweeps, key, span)?;
        // Lines by name in the file and the values of the other sweeps.
        let mut lines: Vec<(String, Vec<(&'s str, &'s SweptValue)>)> = Vec::new();
        for entry in self.of_part(section, part)? {
            // A name that is given in full has lost its values.
            let all = self.entries[part as usize].iter();
            let entry = all
                .clone()
                .find(|it| it.name == entry.name)
                .unwrap_or(&entry)
                .clone();
            let Some(position) = entry.at.iter().position(|(of, _)| of == key) else {
                continue;
            };
            let (_, value) = entry.at[position];
            let others = entry.at.iter().enumerate();
            let others = others.filter(|(other, _)| *other != position);
            let others = others.map(|(_, (key, value))| format!("\n{key} {}", value.text));
            let line = others.fold(entry.base.to_owned(), |line, other| line + &other);
            match lines.iter_mut().find(|(known, _)| *known == line) {
                Some((_, values)) => values.push((entry.name, value)),
                None => lines.push((line, vec![(entry.name, value)])),
            }
        }
        let mut lines: Vec<Vec<(&'s str, &'s SweptValue)>> =
            lines.into_iter().map(|(_, values)| values).collect();
        for line in &mut lines {
            let value = |it: &(_, &SweptValue)| it.1.value.unwrap_or(0.0);
            line.sort_by(|a, b| value(a).total_cmp(&value(b)));
        }
        if lines.is_empty() || lines.iter().any(|line| line.len() < 2) {
            return Err(section.error(
                span.clone(),
                format!("this claim chooses fewer than two values of `{key}`"),
                "choose more with `where`, or the name of the file that the sweep multiplies",
            ));
        }
        let with_text = |(name, value): (&'s str, &SweptValue)| (name, value.text.clone());
        Ok(Along {
            part,
            lines: (lines.into_iter())
                .map(|line| line.into_iter().map(with_text).collect())
                .collect(),
        })
    }

    fn along_names(&self, section: &Section<'_>, names: &[Scalar]) -> Result<Along<'s>> {
        let is_known = |part: Part, name: &str| {
            let mut entries = self.entries[part as usize].iter();
            entries.any(|entry| entry.name == name || entry.base == name)
        };
        let order = [Part::Condition, Part::Workload, Part::Transport];
        let first = names.first().map_or("", |name| &name.shown);
        let part = order.into_iter().find(|part| is_known(*part, first));
        let part = part.unwrap_or(Part::Condition);
        let steps = names.iter();
        let steps = steps.map(|name| self.named(section, part, &name.shown, &name.span));
        let steps = steps.collect::<Result<Vec<_>>>()?;
        let lines = matched(&steps);
        if names.len() < 2 || lines.is_empty() {
            let span = names
                .first()
                .map_or_else(|| section.span(), |it| it.span.clone());
            return Err(section.error(
                span,
                "a parameter has two values or more, with the same values of other sweeps",
                message!([
                    "list several names of one kind, or write ",
                    setting("over", self.over_example())
                ]),
            ));
        }
        let labels = names.iter().map(|name| name.shown.clone());
        let labelled = |line: Vec<Entry<'s>>| {
            let names = line.into_iter().map(|entry| entry.name);
            names.zip(labels.clone()).collect()
        };
        Ok(Along {
            part,
            lines: lines.into_iter().map(labelled).collect(),
        })
    }

    /// Returns the cells of all places: every combination of what the sides name, of a parameter, and of what the claim
    /// chooses of the other parts.
    pub fn places(
        &self,
        section: &Section<'_>,
        sides: &[Side],
        along: Option<&Along<'s>>,
    ) -> Result<Vec<Place>> {
        let mut of_parts = Vec::new();
        for part in PARTS {
            of_parts.push(self.combinations(section, part, sides, along)?);
        }
        let [transports, conditions, workloads] = &of_parts[..] else {
            return Ok(Vec::new());
        };
        let steps = along.map_or(1, |it| it.lines.iter().map(Vec::len).max().unwrap_or(1));
        let combinations = of_parts.iter().map(Vec::len).product::<usize>();
        let cells = combinations.saturating_mul(sides.len() * steps);
        if cells > MAX_CELLS {
            return Err(section.error(
                section.span(),
                format!("this claim is about {cells} cells, and the largest is about {MAX_CELLS}"),
                "choose fewer with `transport`, `condition`, `workload` or `where`",
            ));
        }
        let at = |names: &[&str], step: usize| -> String {
            let name = names.get(step).or(names.first());
            name.map_or_else(String::new, |name| (*name).to_owned())
        };
        let mut places = Vec::new();
        for transport in transports {
            for condition in conditions {
                for workload in workloads {
                    let side = |side: usize| {
                        let parts = [transport, condition, workload].map(|it| &it[side]);
                        let steps = parts.iter().map(|names| names.len()).max().unwrap_or(1);
                        let cell = |step| parts.map(|names| at(names, step));
                        (0..steps).map(cell).collect()
                    };
                    places.push((0..sides.len()).map(side).collect());
                }
            }
        }
        Ok(places)
    }

    fn combinations(
        &self,
        section: &Section<'_>,
        part: Part,
        sides: &[Side],
        along: Option<&Along<'s>>,
    ) -> Result<Vec<Combination<'s>>> {
        let key = part.as_str();
        let named: Vec<_> = sides
            .iter()
            .filter_map(|side| side.parts[part as usize].as_ref())
            .collect();
        let along = along.filter(|along| along.part == part);
        let by_claim = self.names[part as usize]
            .as_ref()
            .and_then(|names| names.first());
        if let (Some((_, span)), Some(_)) = (named.first(), along) {
            let message = format!("the {key} is what `over` varies");
            return Err(section.error(span.clone(), message, format!("leave out the {key} here")));
        }
        if let (Some(_), Some(chosen)) = (named.first(), by_claim) {
            let message = format!("the sides of this relation name their {key} themselves");
            let hint = format!("leave out `{key}` here, or in the sides");
            return Err(section.error(chosen.span.clone(), message, hint));
        }
        if let Some(along) = along {
            let steps = along.lines.iter();
            let steps = steps.map(|line| line.iter().map(|(name, _)| *name).collect::<Vec<_>>());
            return Ok(steps.map(|steps| vec![steps; sides.len()]).collect());
        }
        if named.is_empty() {
            let entries = self.of_part(section, part)?;
            if entries.is_empty() {
                let message = format!("`where` leaves no {key}");
                return Err(section.error(
                    section.span(),
                    message,
                    "write other values in `where`",
                ));
            }
            let same = entries
                .iter()
                .map(|entry| vec![vec![entry.name]; sides.len()]);
            return Ok(same.collect());
        }
        if let Some(without) = sides
            .iter()
            .find(|side| side.parts[part as usize].is_none())
        {
            return Err(section.error(
                without.span.clone(),
                format!("this side names no {key}, and another one does"),
                format!("write `{{ {key} = \"…\" }}` in all sides, or `{key}` once for the claim"),
            ));
        }
        let candidates = named.iter();
        let candidates = candidates.map(|(name, span)| self.named(section, part, name, span));
        let candidates = candidates.collect::<Result<Vec<_>>>()?;
        let combinations = matched(&candidates);
        if combinations.is_empty() {
            return Err(section.error(
                named[0].1.clone(),
                format!("these {key}s share no values of their sweeps"),
                "name entries that were made of the same values",
            ));
        }
        let names = |combination: Vec<Entry<'s>>| -> Combination<'s> {
            combination.into_iter().map(|it| vec![it.name]).collect()
        };
        Ok(combinations.into_iter().map(names).collect())
    }
}

/// Returns the combinations of one entry of each list whose swept values agree.
fn matched<'s>(lists: &[Vec<Entry<'s>>]) -> Vec<Vec<Entry<'s>>> {
    let mut combinations: Vec<Vec<Entry<'s>>> = vec![Vec::new()];
    for list in lists {
        let mut longer = Vec::new();
        for before in &combinations {
            let fits = list
                .iter()
                .filter(|it| before.iter().all(|other| other.agrees(it)));
            longer.extend(fits.map(|it| [&before[..], std::slice::from_ref(it)].concat()));
        }
        combinations = longer;
    }
    combinations
}

/// Reads a name or a list of names.
fn names(
    section: &mut Section<'_>,
    key: &'static str,
    example: &str,
) -> Result<Option<Vec<Scalar>>> {
    match section.is_list(key) {
        true => section.scalars(key, example),
        false => Ok(section.scalar(key, example)?.map(|name| vec![name])),
    }
}

/// Returns the part of a swept key.
fn swept_part(
    section: &Section<'_>,
    sweeps: &Sweeps,
    key: &str,
    span: &Range<usize>,
) -> Result<Part> {
    let keys: Vec<String> = sweeps.sweeps.iter().map(Sweep::full_key).collect();
    if let Some(position) = keys.iter().position(|known| known == key) {
        return Ok(sweeps.sweeps[position].part);
    }
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let hint = match (nearest(key, &keys), &keys[..]) {
        (Some(near), _) => format!("did you mean `{near}`?"),
        (None, []) => {
            "this study has no `[[sweep]]`: list names of conditions or workloads".to_owned()
        }
        (None, keys) => format!("the swept keys are: {}", keys.join(", ")),
    };
    Err(section.error(
        span.clone(),
        format!("no `[[sweep]]` of this study is of `{key}`"),
        hint,
    ))
}

/// Reads `where`: swept keys with the values that are kept.
fn read_filters(section: &mut Section<'_>, sweeps: &Sweeps) -> Result<Vec<Filter>> {
    let Some(mut table) = section.section("where", "`where`")? else {
        return Ok(Vec::new());
    };
    let hint = match sweeps
        .sweeps
        .first()
        .map(|it| (it.full_key(), it.values.first()))
    {
        Some((key, Some(value))) => message!([
            "write ",
            setting(&toml_text(&key), toml_text(&value.text)),
            ", or a list of values",
        ]),
        _ => "leave `where` out: this study has no `[[sweep]]`".into(),
    };
    let mut filters = Vec::new();
    for (key, value) in table.rest() {
        let name = key.get_ref().to_string();
        let wrong = |value: &Spanned<DeValue<'_>>| {
            let message = format!("the values of `{name}` are a text or a list of texts");
            table.error(value.span(), message, hint.clone())
        };
        let texts: Vec<&Spanned<DeValue<'_>>> = match value.get_ref() {
            DeValue::Array(items) => items.iter().collect(),
            DeValue::String(_) => vec![&value],
            _ => return Err(wrong(&value)),
        };
        let part = swept_part(&table, sweeps, &name, &key.span())?;
        let of_key = sweeps
            .sweeps
            .iter()
            .filter(|sweep| sweep.full_key() == name);
        let values: Vec<(&Sweep, &SweptValue)> = of_key
            .flat_map(|sweep| sweep.values.iter().map(move |value| (sweep, value)))
            .collect();
        let mut kept = BTreeSet::new();
        for item in texts {
            let text = item.get_ref().as_str().ok_or_else(|| wrong(item))?;
            let before = kept.len();
            let fitting = values
                .iter()
                .filter(|(sweep, value)| fits(text, sweep.unit, value));
            kept.extend(fitting.map(|(_, value)| value.text.clone()));
            if kept.len() == before {
                let known: BTreeSet<&str> = values.iter().map(|(_, it)| it.text.as_str()).collect();
                return Err(table.error(
                    item.span(),
                    format!("no value of `{name}` is `{text}`, or all of them are kept already"),
                    format!("its values are: {}", Vec::from_iter(known).join(", ")),
                ));
            }
        }
        filters.push(Filter {
            key: name,
            part,
            kept,
        });
    }
    Ok(filters)
}

/// Whether a swept value is this one, or within this range, such as `1%..`, with its ends.
fn fits(text: &str, unit: Option<Unit>, value: &SweptValue) -> bool {
    let number = |text: &str| number_in(unit, text);
    let Some((from, to)) = text.split_once("..") else {
        return shown(text) == value.text || value.value.is_some() && number(text) == value.value;
    };
    let end = |text: &str, open: f64| match text.trim() {
        "" => Some(open),
        text => number(text),
    };
    let ends = end(from, f64::NEG_INFINITY).zip(end(to, f64::INFINITY));
    ends.zip(value.value)
        .is_some_and(|((from, to), value)| (from..=to).contains(&value))
}
