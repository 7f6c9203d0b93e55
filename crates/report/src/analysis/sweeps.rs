//! Sweeps: a metric against the parameters that a study varies, and where transports cross.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools as _;
use regatta_model::{
    MetricDefinition, Spacing, Sweep, Sweeps,
    metric::{self, Place, names_in},
};

use super::{
    index::Index,
    percentiles,
    ranking::reasons,
    summary::{Cell, Comparison, Conclusion, Summary},
    sweep_crossings,
    sweep_family::{Family, families, order},
    sweep_places::{self, Position},
    sweep_result::{SweepAxis, SweepCell, SweepCrossing, SweepResult, SweepValue},
};
use crate::{
    RunData,
    data::CellKey,
    format::{difference, grouped, percent},
    language::{self, plural, tr},
};

/// Returns each metric against the parameters, for each family of cells that differ in these only.
pub fn all(index: &Index<'_>, cells: &[Cell], comparisons: &[Comparison]) -> Vec<SweepResult> {
    let data = index.data;
    let study = &data.header.study;
    if study.sweeps.is_empty() {
        return Vec::new();
    }
    let by_name = cells.iter().map(|cell| (cell.key(), cell)).collect();
    let ranked = cells.iter().filter(|cell| reasons(cell).is_empty());
    let ranked: BTreeSet<CellKey<'_>> = ranked.map(Cell::key).collect();
    let mut results = Vec::new();
    for family in families(data) {
        let kind = study.workloads.iter().find(|it| it.name == family.kind);
        let Some(primary) = kind.map(|it| study.primary_metric(it)) else {
            continue;
        };
        let further = names_in(Place::Sweeps).filter(|name| *name != primary);
        for name in [primary].into_iter().chain(further) {
            let Some(definition) = metric::find(name) else {
                continue;
            };
            let mut result = result(data, &family, definition, &by_name);
            // A loss of nothing everywhere needs no figure.
            let is_shown = |value: f64| name == primary || value > 0.0;
            let is_there = |cell: &SweepCell| cell.value.is_some_and(is_shown);
            if !result.cells.iter().any(is_there) {
                continue;
            }
            if name == primary {
                result.is_primary = true;
                result.crossings = sweep_crossings::all(index, &family, definition, &ranked);
                result.sentences = sentences(data, &family, &result, comparisons, &ranked);
                let apart = percentiles_apart(&study.sweeps, &family, &result, &by_name, &ranked);
                result.sentences.extend(apart);
            }
            results.push(result);
        }
    }
    results
}

fn result(
    data: &RunData,
    family: &Family<'_>,
    definition: &MetricDefinition,
    by_name: &BTreeMap<CellKey<'_>, &Cell>,
) -> SweepResult {
    let sweeps = &data.header.study.sweeps;
    let rounds = u64::from(data.rounds());
    let trials = |cell: &&Cell| match data.header.study.cell_end {
        Some(_) => cell.trials(),
        None => rounds,
    };
    let orders: Vec<Vec<usize>> = (family.axes.iter())
        .map(|axis| order(&sweeps.sweeps[*axis]))
        .collect();
    let axes = (family.axes.iter().zip(&orders)).map(|(axis, order)| {
        let sweep = &sweeps.sweeps[*axis];
        let together = (sweeps.sweeps.iter())
            .filter(|other| other.zip.is_some() && other.zip == sweep.zip)
            .filter(|other| other.key != sweep.key);
        SweepAxis {
            key: sweep.full_key(),
            zipped: together.map(Sweep::full_key).collect(),
            title: sweep.title(),
            unit: sweep.unit.map(|unit| unit.name().to_owned()),
            logarithmic: sweep.scale == Spacing::Log,
            values: (order.iter())
                .map(|value| SweepValue {
                    text: sweep.values[*value].text.clone(),
                    value: sweep.values[*value].value,
                })
                .collect(),
        }
    });
    let mut cells = Vec::new();
    for line in &family.lines {
        for (at, name) in &line.cells {
            let cell = by_name.get(name);
            let shown = cell.and_then(|cell| cell.shown(definition.name));
            let described = cell.and_then(|cell| cell.metrics.get(definition.name));
            let values = at.iter().zip(&orders);
            cells.push(SweepCell {
                line: line.label.clone(),
                at: values
                    .filter_map(|(value, order)| order.iter().position(|it| it == value))
                    .map(|position| position as u32)
                    .collect(),
                transport: name[0].to_owned(),
                condition: name[1].to_owned(),
                workload: name[2].to_owned(),
                n: described.map_or(0, |it| it.n),
                trials: cell.map_or(0, trials),
                value: shown.map(|(value, _)| value),
                ci95: shown.and_then(|(_, interval)| interval),
            });
        }
    }
    SweepResult {
        condition: family.condition.to_owned(),
        workload: family.workload.to_owned(),
        metric: definition.name.to_owned(),
        unit: definition.unit.name().to_owned(),
        is_primary: false,
        axes: axes.collect(),
        lines: family.lines.iter().map(|it| it.label.clone()).collect(),
        cells,
        crossings: Vec::new(),
        sentences: Vec::new(),
    }
}

/// Returns the sentence about the cells in which the percentiles of the delay that work is ranked by disagree.
fn percentiles_apart(
    sweeps: &Sweeps,
    family: &Family<'_>,
    result: &SweepResult,
    by_name: &BTreeMap<CellKey<'_>, &Cell>,
    ranked: &BTreeSet<CellKey<'_>>,
) -> Option<String> {
    let cells = result.cells.iter().filter_map(|it| {
        let name = [&it.transport, &it.condition, &it.workload].map(String::as_str);
        let cell = by_name.get(&name).filter(|_| ranked.contains(&name))?;
        Some((&it.at, *cell))
    });
    let mut at = grouped(cells);
    at.retain(|(_, cells)| percentiles::disagreement(&result.metric, cells).is_some());
    let at: BTreeSet<Position> = at.into_iter().map(|(at, _)| at.clone()).collect();
    (!at.is_empty()).then(|| {
        tr!(
            "the median and the 99th percentile are lowest of different transports at {}",
            sweep_places::text(sweeps, &family.axes, &at)
        )
    })
}

/// Cells of a sweep in groups, by the claim about two of its lines in each cell.
#[derive(Default)]
struct Standing {
    /// Cells in which the first line is ahead, and those in which the second is.
    ahead: [BTreeSet<Position>; 2],
    /// Cells in which both lines are the same, within the equivalence margin.
    same: BTreeSet<Position>,
    /// Cells in which nothing is decided.
    undecided: BTreeSet<Position>,
    /// Largest ratio, over the undecided cells, that their rounds would have detected; infinite where the rounds are
    /// too few.
    detectable_ratio: f64,
}

impl Standing {
    /// Returns the standing of two lines by the claims of the run; `lines` are those of the cells by their names, with their
    /// positions.
    fn of(
        metric: &str,
        comparisons: &[Comparison],
        lines: &BTreeMap<CellKey<'_>, Vec<(&str, &Position)>>,
        [a, b]: [&str; 2],
    ) -> Self {
        let mut standing = Self::default();
        for it in comparisons.iter().filter(|it| it.metric == metric) {
            let names = [&it.a, &it.b].map(|transport| [transport, &it.condition, &it.workload]);
            let [of_a, of_b] = names.map(|name| lines.get(&name.map(String::as_str)));
            let (Some(of_a), Some(of_b)) = (of_a, of_b) else {
                continue;
            };
            // A transport that the sweep does not vary has one cell at all values.
            let pairs = of_a.iter().cartesian_product(of_b);
            let together = pairs.filter(|(first, second)| first.1 == second.1);
            let of_pair = together.filter_map(|(first, second)| match [first.0, second.0] {
                lines if lines == [a, b] => Some((it.claim.conclusion, first.1)),
                lines if lines == [b, a] => Some((it.claim.conclusion.turned(), first.1)),
                _ => None,
            });
            for (conclusion, at) in of_pair {
                let cells = match conclusion {
                    Conclusion::Faster => &mut standing.ahead[0],
                    Conclusion::Slower => &mut standing.ahead[1],
                    Conclusion::Same => &mut standing.same,
                    Conclusion::Undecided => {
                        let detectable = it.claim.detectable_ratio.unwrap_or(f64::INFINITY);
                        standing.detectable_ratio = standing.detectable_ratio.max(detectable);
                        &mut standing.undecided
                    }
                };
                cells.insert(at.clone());
            }
        }
        standing
    }

    /// Returns the conclusion of all cells, if it is *same* in all or *undecided* in all.
    fn alike(&self) -> Option<Conclusion> {
        let is_ahead = self.ahead.iter().any(|cells| !cells.is_empty());
        match (is_ahead, self.same.is_empty(), self.undecided.is_empty()) {
            (false, false, true) => Some(Conclusion::Same),
            (false, true, false) => Some(Conclusion::Undecided),
            _ => None,
        }
    }

    /// Returns the clause about the difference that the rounds of the undecided cells would have detected.
    fn would_find(&self) -> String {
        match self.detectable_ratio < TOO_FEW {
            true => tr!(
                "these rounds would find {}",
                difference(self.detectable_ratio)
            ),
            false => tr!("too few rounds"),
        }
    }

    /// Returns the clauses about the lines `a` and `b`, each with its cells.
    fn clauses(
        &self,
        [a, b]: [&str; 2],
        equivalence: f64,
        at: impl Fn(&BTreeSet<Position>) -> String,
    ) -> Vec<String> {
        let Self {
            ahead: [of_a, of_b],
            same,
            undecided,
            ..
        } = self;
        let groups = [of_a, of_b, same, undecided];
        let is_only = groups.iter().filter(|cells| !cells.is_empty()).count() == 1;
        let place = |cells: &BTreeSet<Position>| match is_only {
            true => tr!("everywhere"),
            false => tr!("at {}", at(cells)),
        };
        let clause = |cells: &BTreeSet<Position>, text: &dyn Fn(String) -> String| {
            (!cells.is_empty()).then(|| text(place(cells)))
        };
        let clauses = [
            clause(of_a, &|at| tr!("`{}` is ahead of `{}` {}", a, b, at)),
            clause(of_b, &|at| tr!("`{}` is ahead of `{}` {}", b, a, at)),
            clause(same, &|at| {
                tr!("both are the same within {} {}", percent(equivalence), at)
            }),
            clause(undecided, &|at| {
                tr!("it is undecided {} ({})", at, self.would_find())
            }),
        ];
        clauses.into_iter().flatten().collect()
    }
}

/// Ratio that rounds would find from which they are called too few.
const TOO_FEW: f64 = 3.0;

/// Maximum number of sentences about one sweep.
const MAX_SENTENCES: usize = 12;

/// Returns the sentences about a sweep: the crossings, and the pairs without any.
fn sentences(
    data: &RunData,
    family: &Family<'_>,
    result: &SweepResult,
    comparisons: &[Comparison],
    ranked: &BTreeSet<CellKey<'_>>,
) -> Vec<String> {
    let sweeps = &data.header.study.sweeps;
    let equivalence = data.header.study.equivalence.0;
    let cells = result.cells.iter().map(|cell| {
        let name = [&cell.transport, &cell.condition, &cell.workload];
        (name.map(String::as_str), (cell.line.as_str(), &cell.at))
    });
    let lines: BTreeMap<CellKey<'_>, Vec<(&str, &Position)>> =
        grouped(cells.filter(|(cell, _)| ranked.contains(cell)))
            .into_iter()
            .collect();
    let mut sentences = sweep_crossings::sentences(sweeps, family, result);
    let mut axes = family.axes.iter();
    let is_numeric = axes.any(|axis| sweeps.sweeps[*axis].unit.is_some());
    // Pairs that are the same everywhere, or undecided, in one sentence each.
    let (mut same, mut undecided) = (Vec::new(), Vec::new());
    for (a, b) in result.lines.iter().tuple_combinations() {
        let is_pair = |crossing: &SweepCrossing| {
            let pair = [&crossing.above, &crossing.below];
            pair == [a, b] || pair == [b, a]
        };
        if !is_numeric || result.crossings.iter().any(is_pair) {
            continue;
        }
        let standing = Standing::of(&result.metric, comparisons, &lines, [a, b]);
        match standing.alike() {
            Some(Conclusion::Same) => same.push(tr!("`{}` and `{}`", a, b)),
            Some(_) => undecided.push(tr!("`{}` and `{}` ({})", a, b, standing.would_find())),
            None => {}
        }
        if standing.alike().is_some() {
            continue;
        }
        let at = |cells: &BTreeSet<Position>| sweep_places::text(sweeps, &family.axes, cells);
        let clauses = standing.clauses([a, b], equivalence, at);
        if !clauses.is_empty() {
            sentences.push(tr!(
                "no crossing of `{}` and `{}` was found: {}",
                a,
                b,
                clauses.join("; ")
            ));
        }
    }
    if !same.is_empty() {
        let within = percent(equivalence);
        sentences.push(tr!(
            "the same within {} everywhere: {}",
            within,
            same.join("; ")
        ));
    }
    if !undecided.is_empty() {
        sentences.push(tr!("undecided everywhere: {}", undecided.join("; ")));
    }
    if sentences.len() > MAX_SENTENCES {
        let more = sentences.len() - MAX_SENTENCES;
        sentences.truncate(MAX_SENTENCES);
        sentences.push(plural!(
            more as u64,
            "{} further sentence is in `summary.json`, as `sweeps`",
            "{} further sentences are in `summary.json`, as `sweeps`"
        ));
    }
    sentences
}

impl SweepResult {
    /// Returns the name for a heading: what was varied, and where.
    #[must_use]
    pub fn heading(&self, summary: &Summary) -> String {
        let several = |of: fn(&SweepResult) -> &str| {
            let first = summary.sweeps.first().map(of);
            summary.sweeps.iter().any(|other| Some(of(other)) != first)
        };
        let mut axes = self.axes.iter().map(|axis| language::text(&axis.title));
        let mut text = tr!("{} under {}", axes.join(" × "), self.condition);
        if several(|it| &it.workload) {
            text += &format!(", {}", self.workload);
        }
        text
    }
}
