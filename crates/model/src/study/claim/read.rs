//! Reader of `[[claim]]`.

use std::{collections::BTreeSet, ops::Range};

use toml::{Spanned, de::DeValue};

use super::{
    Bounds, ClaimedCell, Relation, StudyClaim, Trend, TrendLine,
    choice::{Along, Choice, Entry, Place, Side, entries},
};
use crate::{
    metric::{self, MetricDefinition},
    study::{
        Study,
        error::Result,
        message::{message, setting, text_setting},
        parts::{example_in, known_metric},
        section::{Section, refuse, toml_text},
        sweep::shown,
    },
    units::Ratio,
};

/// Keys of relations, of which a claim has one.
const RELATIONS: [&str; 9] = [
    "order", "first", "last", "same", "ratio", "value", "trend", "crossing", "not_seen",
];

/// Reads the claims of a study, whose other parts are read.
pub fn read_claims(sections: Vec<Section<'_>>, study: &Study) -> Result<Vec<StudyClaim>> {
    let entries = entries(study);
    let mut texts = BTreeSet::new();
    let mut claims = Vec::new();
    for mut section in sections {
        let (text, span) = section.required_text("text", "\"UDP is the fastest\"")?;
        refuse! { section;
            text.trim().is_empty() => span, "this claim states nothing",
                ["write the statement in a sentence: ", text_setting("text", "UDP is the fastest")];
            !texts.insert(text.clone()) => span, "this claim is in the study twice",
                "leave one of the two out";
        }
        let place = section.text("place")?.map(|(place, _)| place);
        let note = section.text("note")?.map(|(note, _)| note);
        let (relation, metric) = read_relation(&mut section, study, &entries)?;
        let in_most = match relation {
            Relation::NotSeen { .. } => false,
            _ => section.flag("in_most")?.is_some_and(|(flag, _)| flag),
        };
        section.end()?;
        claims.push(StudyClaim {
            text,
            place,
            note,
            in_most,
            metric: metric.map_or_else(String::new, |it| it.name.to_owned()),
            relation,
        });
    }
    Ok(claims)
}

/// Relation that was read, and its metric.
type Read = (Relation, Option<&'static MetricDefinition>);

fn read_relation(
    section: &mut Section<'_>,
    study: &Study,
    entries: &[Vec<Entry<'_>>; 3],
) -> Result<Read> {
    let present = RELATIONS
        .iter()
        .filter(|key| section.span_of(key).is_some());
    let present: Vec<&'static str> = present.copied().collect();
    let relation = match present[..] {
        [relation] => relation,
        [] => {
            return Err(section.error(
                section.span(),
                "this claim has no relation that could be checked",
                message!([
                    "write one of `order`, `first`, `last`, `same`, `ratio`, `value`, `trend` and `crossing`, or ",
                    text_setting("not_seen", "the reason why no run shows it"),
                ]),
            ));
        }
        [first, second, ..] => {
            return Err(section.error(
                section.span_of(second).unwrap_or_else(|| section.span()),
                format!("a claim has one relation, and this one has `{first}` and `{second}`"),
                "write a second `[[claim]]`",
            ));
        }
    };
    if relation == "not_seen" {
        let (why, _) = section.required_text("not_seen", "\"a judgement\"")?;
        return Ok((Relation::NotSeen { why }, None));
    }
    let metric = section.text_such_as("metric", "goodput_bps")?;
    let metric = metric.map(|(name, span)| known_metric(section, &name, span));
    let mut reader = Reader {
        metric: metric.transpose()?,
        choice: Choice::read(section, entries, &study.sweeps)?,
        study,
    };
    match relation {
        "order" => reader.order(section),
        "first" | "last" => reader.extreme(section, relation),
        "same" => reader.same(section),
        "ratio" => reader.ratio(section),
        "value" => reader.value(section),
        "trend" => reader.trend(section),
        _ => reader.crossing(section),
    }
}

/// Reader of the relation of one claim.
struct Reader<'s> {
    study: &'s Study,
    /// Metric that the claim names.
    metric: Option<&'static MetricDefinition>,
    choice: Choice<'s>,
}

impl Reader<'_> {
    /// Returns two transports of the study as the sides of a relation, for messages.
    fn two_sides(&self) -> String {
        let labels = self.study.transports.iter().take(2);
        let labels: Vec<String> = labels.map(|it| toml_text(&it.label)).collect();
        format!("[{}]", labels.join(", "))
    }

    /// Returns a transport of the study, for messages.
    fn one_label(&self) -> String {
        let first = self.study.transports.first();
        toml_text(first.map_or("tcp", |it| &it.label))
    }

    /// Reads one side under a key.
    fn one_side(&self, table: &mut Section<'_>, key: &'static str) -> Result<Side> {
        let value = table.take(key);
        let value = table.required(key, &self.one_label(), value)?;
        self.side(table, (key, false), &value)
    }

    /// Reads one side, or a list of sides.
    fn sides_of(
        &self,
        section: &Section<'_>,
        key: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Vec<Side>> {
        match value.get_ref() {
            DeValue::Array(items) => items
                .iter()
                .map(|item| self.side(section, (key, true), item))
                .collect(),
            _ => Ok(vec![self.side(section, (key, true), value)?]),
        }
    }

    /// Reads a side: the label of a transport, or a table with the names of parts of a cell. `is_listed` is whether the key
    /// has several.
    fn side(
        &self,
        section: &Section<'_>,
        (key, is_listed): (&str, bool),
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Side> {
        let span = value.span();
        match value.get_ref() {
            DeValue::String(label) => Ok(Side {
                parts: [Some((label.to_string(), span.clone())), None, None],
                span,
            }),
            DeValue::Table(table) => {
                let name = format!("a side of `{key}`");
                let mut table = Section::new(section.source(), &name, span.clone(), table.clone());
                let parts = [
                    table.text("transport")?,
                    table.text("condition")?,
                    table.text("workload")?,
                ];
                table.end()?;
                if parts.iter().all(Option::is_none) {
                    return Err(self.no_sides(section, (key, is_listed), value));
                }
                Ok(Side { parts, span })
            }
            _ => Err(self.no_sides(section, (key, is_listed), value)),
        }
    }

    /// Returns the error for a value that is no side, or, for an order, no list of sides.
    fn no_sides(
        &self,
        section: &Section<'_>,
        (key, is_listed): (&str, bool),
        value: &Spanned<DeValue<'_>>,
    ) -> crate::study::StudyError {
        let example = match is_listed {
            true => self.two_sides(),
            false => self.one_label(),
        };
        let hint = message!(["write ", setting(key, example)]);
        section.error(
            value.span(),
            format!(
                "the sides of `{key}` are labels of transports, or tables with parts of a cell"
            ),
            hint,
        )
    }

    /// Returns the places of a claim at which the study has every cell.
    fn places(
        &self,
        section: &Section<'_>,
        sides: &[Side],
        along: Option<&Along<'_>>,
    ) -> Result<Vec<Place>> {
        let mut places = self.choice.places(section, sides, along)?;
        places.retain(|place| place.iter().flatten().all(|cell| self.study.has(cell)));
        Ok(places)
    }

    fn order(&self, section: &mut Section<'_>) -> Result<Read> {
        let value = section.take("order");
        let value = section.required("order", &self.two_sides(), value)?;
        let DeValue::Array(groups) = value.get_ref() else {
            return Err(self.no_sides(section, ("order", true), &value));
        };
        let groups = groups
            .iter()
            .map(|group| self.sides_of(section, "order", group));
        let groups = groups.collect::<Result<Vec<Vec<Side>>>>()?;
        refuse! { section;
            groups.len() < 2 || groups.iter().any(Vec::is_empty) => value.span(),
                "an order has two sides or more, the best first",
                ["write ", setting("order", self.two_sides())];
        }
        self.ordered(section, &groups)
    }

    /// Returns the order of groups of sides.
    fn ordered(&self, section: &Section<'_>, groups: &[Vec<Side>]) -> Result<Read> {
        let places = self.places(section, &groups.concat(), None)?;
        let metric = self.metric_of(section, &places)?;
        let grouped = |place: Place| {
            let mut cells = first_cells(place).into_iter();
            let group = |group: &Vec<Side>| cells.by_ref().take(group.len()).collect();
            groups.iter().map(group).collect()
        };
        let places = places.into_iter().map(grouped).collect();
        Ok((Relation::Order { places }, Some(metric)))
    }

    /// Reads `first` or `last`: the transport that is better, or worse, than the others.
    fn extreme(&mut self, section: &mut Section<'_>, key: &'static str) -> Result<Read> {
        let labels = self.study.transports.iter().map(|it| it.label.as_str());
        let label = section.known_text(key, "transport", labels)?;
        let (label, span) = section.required(key, &self.one_label(), label)?;
        let mut others = self.choice.take_transports(section)?;
        others.retain(|other| *other != label);
        refuse! { section;
            others.is_empty() => span, "there is no other transport to compare this one with",
                "name more with `transport`, or leave that out for all of the study";
        }
        let side = |label: &str| Side {
            parts: [Some((label.to_owned(), span.clone())), None, None],
            span: span.clone(),
        };
        let mut groups = [vec![side(&label)], others.into_iter().map(side).collect()];
        if key == "last" {
            groups.reverse();
        }
        self.ordered(section, &groups)
    }

    fn same(&self, section: &mut Section<'_>) -> Result<Read> {
        let mut table = relation_table(section, "same")?;
        let value = table.take("of");
        let value = table.required("of", &self.two_sides(), value)?;
        let sides = self.sides_of(&table, "of", &value)?;
        refuse! { table;
            sides.len() < 2 => value.span(), "what is the same has two sides or more",
                ["write ", setting("of", self.two_sides())];
        }
        let within = self.within(&mut table)?;
        table.end()?;
        let places = self.places(section, &sides, None)?;
        let metric = self.metric_of(section, &places)?;
        let places = places.into_iter().map(first_cells).collect();
        Ok((Relation::Same { places, within }, Some(metric)))
    }

    /// Reads `within`: the largest difference that counts as none.
    fn within(&self, table: &mut Section<'_>) -> Result<Ratio> {
        let Some((within, span)) = table.quantity_such_as("within", "10%", str::parse::<Ratio>)?
        else {
            return Ok(self.study.equivalence);
        };
        refuse! { table;
            within.0 <= 0.0 => span, "no two means are exactly the same",
                ["write a difference above zero, such as ", text_setting("within", "10%")];
        }
        Ok(within)
    }

    fn ratio(&self, section: &mut Section<'_>) -> Result<Read> {
        let mut table = relation_table(section, "ratio")?;
        let sides = [
            self.one_side(&mut table, "of")?,
            self.one_side(&mut table, "to")?,
        ];
        let bounds = Bounds {
            at_least: table.factor("at_least")?,
            at_most: table.factor("at_most")?,
        };
        check_bounds(&table, bounds, "at_least = 2")?;
        table.end()?;
        let places = self.places(section, &sides, None)?;
        let metric = self.metric_of(section, &places)?;
        let places = places.into_iter().filter_map(pair_of).collect();
        Ok((Relation::Ratio { places, bounds }, Some(metric)))
    }

    fn value(&self, section: &mut Section<'_>) -> Result<Read> {
        let mut table = relation_table(section, "value")?;
        let places = self.places(section, &[Side::default()], None)?;
        let metric = self.metric_of(section, &places)?;
        let example = example_in(metric.unit);
        let mut bound = |key| {
            let read = table.quantity(key, example, |text| metric.unit.read(text))?;
            Ok(read.map(|(value, _)| value))
        };
        let bounds = Bounds {
            at_least: bound("at_least")?,
            at_most: bound("at_most")?,
        };
        check_bounds(&table, bounds, &format!("at_least = \"{example}\""))?;
        let every_trial = table.flag("every_trial")?.is_some_and(|(flag, _)| flag);
        table.end()?;
        let relation = Relation::Value {
            cells: places.into_iter().flat_map(first_cells).collect(),
            bounds,
            every_trial,
        };
        Ok((relation, Some(metric)))
    }

    fn trend(&self, section: &mut Section<'_>) -> Result<Read> {
        let mut table = relation_table(section, "trend")?;
        let is = table.choice::<Trend>("is")?;
        let is = table.required("is", "\"rises\"", is)?;
        let sides = match table.span_of("of").or_else(|| table.span_of("to")) {
            None => vec![Side::default()],
            Some(_) => vec![
                self.one_side(&mut table, "of")?,
                self.one_side(&mut table, "to")?,
            ],
        };
        let along = self.choice.read_over(&mut table)?;
        let within = self.within(&mut table)?;
        table.end()?;
        let places = self.places(section, &sides, Some(&along))?;
        let metric = self.metric_of(section, &places)?;
        let line = |place: Place| {
            let mut sides = place.into_iter();
            Some(TrendLine {
                of: sides.next()?,
                to: sides.next().unwrap_or_default(),
            })
        };
        let lines = places.into_iter().filter_map(line).collect();
        Ok((Relation::Trend { is, within, lines }, Some(metric)))
    }

    fn crossing(&self, section: &mut Section<'_>) -> Result<Read> {
        let mut table = relation_table(section, "crossing")?;
        let sides = [
            self.one_side(&mut table, "of")?,
            self.one_side(&mut table, "past")?,
        ];
        let along = self.choice.read_over(&mut table)?;
        let labels = along.lines.first().into_iter().flatten();
        let mut labels = labels.map(|(_, label)| label.replace('\u{a0}', " "));
        let first = labels.next().unwrap_or_default();
        let last = labels.next_back().unwrap_or_default();
        let mut end = |key, example: &str| {
            let text = table.text_such_as(key, example)?;
            table.required(key, &toml_text(example), text)
        };
        let (from, from_span) = end("from", &first)?;
        let (to, to_span) = end("to", &last)?;
        table.end()?;
        let is_early = |line: usize, at: usize| at + 1 < along.lines[line].len();
        let before = along.positions(&table, (&from, &from_span), is_early)?;
        let is_late = |line: usize, at: usize| at > before[line];
        let after = along.positions(&table, (&to, &to_span), is_late)?;
        refuse! { table;
            before.iter().zip(&after).any(|(before, after)| before >= after) => to_span,
                "the crossing ends before it begins",
                ["write a later value of the parameter than ", text_setting("from", &from)];
        }
        let places = self.places(section, &sides, Some(&along))?;
        let metric = self.metric_of(section, &places)?;
        let mut pairs = Vec::new();
        for place in places {
            let [of, past] = &place[..] else { continue };
            let step = |name: &str| {
                let lines = along.lines.iter().zip(before.iter().zip(&after));
                let mut ends = lines.filter(|(line, _)| line.iter().any(|(it, _)| *it == name));
                ends.next().map(|(_, (before, after))| [*before, *after])
            };
            let name = |cell: &ClaimedCell| cell[along.part as usize].clone();
            let ends = of.first().and_then(|cell| step(&name(cell)));
            let [before, after] = ends.unwrap_or_default();
            let cells = of.iter().zip(past).enumerate();
            pairs.extend(cells.filter_map(|(position, (of, past))| match position {
                position if position <= before => Some([past.clone(), of.clone()]),
                position if position >= after => Some([of.clone(), past.clone()]),
                _ => None,
            }));
        }
        Ok((Relation::Crossing { places: pairs }, Some(metric)))
    }

    /// Returns the metric of a claim: the one that it names, or that of the ranking of all its workloads.
    fn metric_of(
        &self,
        section: &Section<'_>,
        places: &[Place],
    ) -> Result<&'static MetricDefinition> {
        if let Some(metric) = self.metric {
            return Ok(metric);
        }
        let cells = places.iter().flatten().flatten();
        let workloads: BTreeSet<&str> = cells.map(|[_, _, workload]| workload.as_str()).collect();
        let chosen = self.study.workloads.iter();
        let chosen = chosen.filter(|workload| workloads.contains(workload.name.as_str()));
        let metrics: BTreeSet<&str> = chosen.map(|it| self.study.primary_metric(it)).collect();
        let single = metrics.first().filter(|_| metrics.len() == 1);
        single.and_then(|name| metric::find(name)).ok_or_else(|| {
            let names = Vec::from_iter(metrics).join("`, `");
            section.error(
                section.span(),
                format!("the workloads of this claim are ranked by different metrics: `{names}`"),
                message!(["name one, such as ", text_setting("metric", "goodput_bps")]),
            )
        })
    }
}

impl Along<'_> {
    /// Returns the position of a value in each line. `fits` tells whether a hint may name the value at a position of a line.
    fn positions(
        &self,
        table: &Section<'_>,
        (text, span): (&str, &Range<usize>),
        fits: impl Fn(usize, usize) -> bool,
    ) -> Result<Vec<usize>> {
        let is = |label: &String| *label == text || *label == shown(text);
        let position = |line: &Vec<(_, String)>| line.iter().position(|(_, label)| is(label));
        let positions: Option<Vec<usize>> = self.lines.iter().map(position).collect();
        positions.ok_or_else(|| {
            let fits = &fits;
            let labels = self.lines.iter().enumerate().flat_map(|(line, values)| {
                let values = values.iter().enumerate();
                let fitting = values.filter(move |(at, _)| fits(line, *at));
                fitting.map(|(_, (_, label))| label.as_str())
            });
            let mut known: Vec<&str> = Vec::new();
            for label in labels {
                if !known.contains(&label) {
                    known.push(label);
                }
            }
            table.error(
                span.clone(),
                format!("`{text}` is no value of the parameter"),
                format!("write one of: {}", known.join(", ")),
            )
        })
    }
}

/// Returns the cells of a place that has no parameter.
fn first_cells(place: Place) -> Vec<ClaimedCell> {
    let first = |steps: Vec<ClaimedCell>| steps.into_iter().next();
    place.into_iter().filter_map(first).collect()
}

fn pair_of(place: Place) -> Option<[ClaimedCell; 2]> {
    first_cells(place).try_into().ok()
}

/// Reads the table of a relation.
fn relation_table<'a>(section: &mut Section<'a>, key: &'static str) -> Result<Section<'a>> {
    let table = section.section(key, &format!("`{key}`"))?;
    section.required(key, "{ … }", table)
}

fn check_bounds(table: &Section<'_>, bounds: Bounds, example: &str) -> Result<()> {
    let [least, most] = bounds.ends();
    let hint = format!("write `{example}`, `at_most`, or both");
    refuse! { table;
        least == f64::NEG_INFINITY && most == f64::INFINITY => table.span(),
            "this relation has no bound", hint;
        least > most => table.span(),
            "nothing is within these bounds: `at_least` is above `at_most`", "exchange the two";
    }
    Ok(())
}
