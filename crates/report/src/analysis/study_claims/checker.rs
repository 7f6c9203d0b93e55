//! Check of one claim.

use std::collections::HashMap;

use itertools::Itertools as _;
use regatta_model::{
    Better, MetricDefinition, Outcome, Study, Unit, metric,
    study::{Bounds, ClaimedCell, Relation, StudyClaim, Trend, TrendLine},
};

use super::{
    key,
    ratio::{Ratio, along, pairs},
};
use crate::{
    analysis::{
        better,
        claim_result::{ClaimCheck, ClaimOutcome, ClaimResult},
        claims::CellPair,
        comparison::Conclusion,
        summary::Cell,
    },
    data::CellKey,
    format::Scale,
    language::{self, tr},
};

/// Outcome of a comparison with a claim: for certain, for certain not, or neither.
fn outcome(holds: bool, is_contradicted: bool) -> ClaimOutcome {
    match (holds, is_contradicted) {
        (true, _) => ClaimOutcome::ComesOut,
        (false, true) => ClaimOutcome::DoesNot,
        (false, false) => ClaimOutcome::Undecided,
    }
}

/// Outcome of a claim about most places: that of more than half of them. If half of them do not come out, no more than half do.
fn in_most(outcomes: &[ClaimOutcome]) -> Option<ClaimOutcome> {
    let number = |outcome| outcomes.iter().filter(|it| **it == outcome).count();
    if 2 * number(ClaimOutcome::ComesOut) > outcomes.len() {
        Some(ClaimOutcome::ComesOut)
    } else if 2 * number(ClaimOutcome::DoesNot) >= outcomes.len().max(1) {
        Some(ClaimOutcome::DoesNot)
    } else {
        let open = outcomes.iter().copied();
        open.filter(|it| *it != ClaimOutcome::DoesNot).max()
    }
}

/// Outcome of a value with this interval and these bounds.
fn within(interval: Option<[f64; 2]>, bounds: [f64; 2]) -> ClaimOutcome {
    let Some([low, high]) = interval else {
        return ClaimOutcome::Undecided;
    };
    // Bounds and means are rounded on different ways.
    let [least, most] = [bounds[0] * (1.0 - 1e-9), bounds[1] * (1.0 + 1e-9)];
    outcome(least <= low && high <= most, high < least || most < low)
}

/// Checker of one claim.
pub struct Checker<'a> {
    pub study: &'a Study,
    pub cells: &'a HashMap<CellKey<'a>, &'a Cell>,
    pub ratios: &'a HashMap<CellPair<'a>, Ratio>,
    pub claim: &'a StudyClaim,
}

impl<'a> Checker<'a> {
    /// Returns the outcome of the claim with its checks.
    pub fn result(&self) -> ClaimResult {
        let claim = self.claim;
        let metric = metric::find(&claim.metric);
        let (relation, checks) = match (&claim.relation, metric) {
            (Relation::NotSeen { .. }, _) | (_, None) => ("not_seen", Vec::new()),
            (Relation::Order { .. }, Some(_)) => ("order", self.order()),
            (Relation::Crossing { .. }, Some(_)) => ("crossing", self.order()),
            (Relation::Same { within, .. }, Some(_)) => ("same", self.same(within.0)),
            (Relation::Ratio { bounds, .. }, Some(_)) => ("ratio", self.ratio(*bounds)),
            (
                Relation::Value {
                    cells,
                    bounds,
                    every_trial,
                },
                Some(metric),
            ) => {
                let check = |cell| self.value(metric, cell, *bounds, *every_trial);
                ("value", cells.iter().map(check).collect())
            }
            (Relation::Trend { is, within, lines }, Some(_)) => {
                let check = |line| self.trend(line, *is, within.0);
                ("trend", lines.iter().map(check).collect())
            }
        };
        let places = self.places(&checks);
        let outcomes = places.iter();
        let outcomes = outcomes.filter_map(|place| place.iter().map(|check| check.outcome).max());
        let outcomes: Vec<ClaimOutcome> = outcomes.collect();
        let decided = match claim.in_most {
            true => in_most(&outcomes),
            false => outcomes.iter().copied().max(),
        };
        let outcome = decided.unwrap_or(ClaimOutcome::NotSeen);
        let (alike, others): (Vec<_>, Vec<_>) =
            (places.iter().zip(&outcomes)).partition(|(_, of_place)| **of_place == outcome);
        // The first check that decides a place with this outcome.
        let first = |found: &[(&&[ClaimCheck], &ClaimOutcome)]| {
            let (place, of_place) = found.first()?;
            let check = place.iter().find(|check| check.outcome == **of_place)?;
            Some(check.text.clone())
        };
        let found = match (&claim.relation, first(&alike)) {
            (Relation::NotSeen { why }, _) => language::text(why).to_owned(),
            (_, Some(first)) if places.len() > 1 => {
                tr!("{} of {}, such as {}", alike.len(), places.len(), first)
            }
            (_, first) => first.unwrap_or_default(),
        };
        let found = match first(&others).filter(|_| claim.in_most) {
            Some(other) => tr!("{}; but {}", found, other),
            None => found,
        };
        ClaimResult {
            text: claim.text.clone(),
            place: claim.place.clone(),
            note: claim.note.clone(),
            relation: relation.to_owned(),
            metric: metric.map(|it| it.name.to_owned()),
            in_most: claim.in_most,
            outcome,
            found,
            checks,
        }
    }

    /// Groups the checks of a claim about most places by the place that they are of: an order and what is the same have a check
    /// for each pair there. Of other claims each check decides by itself.
    fn places<'c>(&self, checks: &'c [ClaimCheck]) -> Vec<&'c [ClaimCheck]> {
        let places = match &self.claim.relation {
            Relation::Order { places } if self.claim.in_most => places.len(),
            Relation::Same { places, .. } if self.claim.in_most => places.len(),
            _ => checks.len(),
        };
        let of_place = checks.len() / places.max(1);
        checks.chunks(of_place.max(1)).collect()
    }

    fn better(&self) -> Better {
        better(&self.claim.metric)
    }

    /// Returns the ratio of two cells, both of which have been measured. Where all trials of each have one value, it is certain.
    fn ratio_of(&self, [a, b]: [&ClaimedCell; 2]) -> Ratio {
        let pair = CellPair {
            a: key(a),
            b: key(b),
            metric: &self.claim.metric,
        };
        let turned = || Some(self.ratios.get(&pair.turned())?.turned());
        let found = self.ratios.get(&pair).copied().or_else(turned);
        let has_width = |cell| {
            let ends = self.interval(cell);
            ends.is_none_or(|[low, high]| low < high)
        };
        match found.filter(|ratio| ratio.value.is_some()) {
            Some(ratio) if ratio.interval.is_some() || has_width(a) || has_width(b) => ratio,
            of_equal => {
                let value = of_equal.and_then(|ratio| ratio.value);
                Ratio {
                    value,
                    interval: value.map(|value| [value; 2]),
                    conclusion: self.by_intervals(a, b),
                }
            }
        }
    }

    /// Compares cells by the intervals of both: those that have no ratio, as one of their means is zero, or none with an
    /// interval.
    fn by_intervals(&self, a: &ClaimedCell, b: &ClaimedCell) -> Conclusion {
        let (Some(a), Some(b)) = (self.interval(a), self.interval(b)) else {
            return Conclusion::Undecided;
        };
        let is_higher_better = self.better() != Better::Lower;
        match (a[0] > b[1], a[1] < b[0]) {
            (false, false) if a == b && a[0] == a[1] => Conclusion::Same,
            (false, false) => Conclusion::Undecided,
            (above, _) if above == is_higher_better => Conclusion::Faster,
            _ => Conclusion::Slower,
        }
    }

    fn shown(&self, cell: &ClaimedCell) -> Option<(f64, Option<[f64; 2]>)> {
        self.cells.get(&key(cell))?.shown(&self.claim.metric)
    }

    /// Returns a check of some cells, if all have a value of the metric: outcome and text are then those of `decide`.
    fn check(
        &self,
        cells: &[&ClaimedCell],
        decide: impl FnOnce() -> (ClaimOutcome, String),
    ) -> ClaimCheck {
        let missing = cells.iter().find(|cell| self.shown(cell).is_none());
        let (outcome, text) = match missing {
            Some(cell) => (ClaimOutcome::NotMeasured, self.missing_text(cell)),
            None => decide(),
        };
        ClaimCheck {
            outcome,
            text,
            cells: cells.iter().map(|cell| (*cell).clone()).collect(),
        }
    }

    /// Says why a cell has no value of the metric.
    fn missing_text(&self, cell: &ClaimedCell) -> String {
        let name = self.name(cell);
        let title = metric::find(&self.claim.metric).map_or("", |it| language::text(it.title));
        match self.cells.get(&key(cell)) {
            None => tr!("{} is not in this run", name),
            Some(found) if found.n == 0 => format!("{name}: {}", found.outcomes_text()),
            Some(_) => tr!("{} has no figure of {}", name, title),
        }
    }

    /// Whether the study has several entries of a part of a cell.
    fn varies(&self) -> [bool; 3] {
        let study = self.study;
        [
            study.transports.len(),
            study.conditions.len(),
            study.workloads.len(),
        ]
        .map(|it| it > 1)
    }

    /// Names a cell by the parts of which the study has several.
    fn name(&self, cell: &ClaimedCell) -> String {
        let parts = cell.iter().zip(self.varies());
        let mut names = parts
            .filter(|(_, varies)| *varies)
            .map(|(name, _)| format!("`{name}`"));
        match names.join(", ") {
            name if name.is_empty() => format!("`{}`", cell[0]),
            name => name,
        }
    }

    /// Divides the names of cells into the part that all have in common, for the beginning of a text, and the rest of
    /// each.
    fn names(&self, cells: &[&ClaimedCell]) -> (String, Vec<String>) {
        let is_common = |part: usize| cells.iter().map(|cell| &cell[part]).all_equal();
        let quoted = |cell: &ClaimedCell, parts: &mut dyn Iterator<Item = usize>| {
            parts.map(|part| format!("`{}`", cell[part])).join(", ")
        };
        let varies = self.varies();
        let common = cells.first().map_or_else(String::new, |first| {
            quoted(
                first,
                &mut (0..3).filter(|part| is_common(*part) && varies[*part]),
            )
        });
        let own = cells.iter();
        let own = own.map(|cell| quoted(cell, &mut (0..3).filter(|part| !is_common(*part))));
        let prefix = match common.is_empty() {
            true => common,
            false => format!("{common}: "),
        };
        (prefix, own.collect())
    }

    /// Formats the value of a cell with an interval.
    fn value_text(&self, cell: &ClaimedCell, ends: Option<[f64; 2]>) -> String {
        let unit = metric::find(&self.claim.metric).map_or(Unit::Count, |it| it.unit);
        let Some((value, _)) = self.shown(cell) else {
            return "–".to_owned();
        };
        let scale = Scale::for_largest(unit, value);
        let text = scale.quantity(value);
        match ends.filter(|[low, high]| low < high) {
            Some(ends) => {
                let [low, high] = scale.ends(value, ends);
                format!("{text} [{low}, {high}]")
            }
            None => text,
        }
    }

    /// Formats the values of two cells whose ratio is not shown: with their intervals, if these decide. Those of values that
    /// have a ratio do not: it is of the rounds that both have, and one of many that hold together.
    fn values_text(&self, pair: [&ClaimedCell; 2], ratio: Ratio) -> String {
        let values = pair.map(|cell| match ratio.value {
            None => self.value_text(cell, self.interval(cell)),
            Some(_) => self.value_text(cell, None),
        });
        let values = tr!("{} against {}", values[0], values[1]);
        match (ratio.value, ratio.conclusion) {
            (Some(_), Conclusion::Undecided) => tr!("{}, too few rounds", values),
            _ => values,
        }
    }

    fn interval(&self, cell: &ClaimedCell) -> Option<[f64; 2]> {
        self.shown(cell).and_then(|(_, ends)| ends)
    }

    /// Checks that the first cell of each pair is better than the second.
    fn order(&self) -> Vec<ClaimCheck> {
        let check = |[a, b]: [&'a ClaimedCell; 2]| {
            self.check(&[a, b], || {
                let ratio = self.ratio_of([a, b]);
                let is_lower_better = self.better() == Better::Lower;
                let better = if is_lower_better {
                    ratio.turned()
                } else {
                    ratio
                };
                let margin = |ratio: Ratio| {
                    let text = ratio.lead_text();
                    let text = text.unwrap_or_else(|| self.values_text([a, b], ratio));
                    format!(": {text}")
                };
                let (prefix, names) = self.names(&[a, b]);
                let [a, b] = [0, 1].map(|side| names.get(side).map_or("", String::as_str));
                let (outcome, text) = match ratio.conclusion {
                    Conclusion::Faster => (
                        ClaimOutcome::ComesOut,
                        tr!("{} is ahead of {}", a, b) + &margin(better),
                    ),
                    Conclusion::Slower => (
                        ClaimOutcome::DoesNot,
                        tr!("{} is behind {}", a, b) + &margin(better.turned()),
                    ),
                    Conclusion::Same => {
                        (ClaimOutcome::DoesNot, tr!("{} and {} are the same", a, b))
                    }
                    Conclusion::Undecided => (
                        ClaimOutcome::Undecided,
                        tr!("{} against {}", a, b) + &margin(better),
                    ),
                };
                (outcome, prefix + &text)
            })
        };
        pairs(&self.claim.relation).into_iter().map(check).collect()
    }

    /// Checks ratios by their bounds.
    fn ratios_within(&self, bounds: [f64; 2]) -> Vec<ClaimCheck> {
        let check = |[a, b]: [&'a ClaimedCell; 2]| {
            self.check(&[a, b], || {
                let ratio = self.ratio_of([a, b]);
                let (prefix, names) = self.names(&[a, b]);
                let names = names.join(" / ");
                let text = self.ratio_text([a, b], ratio, &names);
                let outcome = match (ratio.value, ratio.conclusion) {
                    (None, Conclusion::Same) => within(Some([1.0; 2]), bounds),
                    _ => within(ratio.interval, bounds),
                };
                (outcome, format!("{prefix}{text}"))
            })
        };
        pairs(&self.claim.relation).into_iter().map(check).collect()
    }

    fn ratio_text(&self, pair: [&ClaimedCell; 2], ratio: Ratio, names: &str) -> String {
        let text = ratio.text(names);
        text.unwrap_or_else(|| format!("{names} = {}", self.values_text(pair, ratio)))
    }

    fn ratio(&self, bounds: Bounds) -> Vec<ClaimCheck> {
        self.ratios_within(bounds.ends())
    }

    fn same(&self, margin: f64) -> Vec<ClaimCheck> {
        self.ratios_within(margin_of(margin))
    }

    fn value(
        &self,
        metric: &MetricDefinition,
        cell: &'a ClaimedCell,
        bounds: Bounds,
        every_trial: bool,
    ) -> ClaimCheck {
        self.check(&[cell], || {
            let interval = self.interval(cell);
            let text = format!("{}: {}", self.name(cell), self.value_text(cell, interval));
            if !every_trial {
                return (within(interval, bounds.ends()), text);
            }
            let found = self.cells.get(&key(cell));
            let described = found.and_then(|it| it.metrics.get(metric.name));
            let (Some(found), Some(described)) = (found, described) else {
                return (ClaimOutcome::NotMeasured, text);
            };
            let failed = [Outcome::Failed, Outcome::TimedOut].map(|it| found.outcome(it));
            let failed: u64 = failed.into_iter().sum();
            let scale = Scale::for_largest(metric.unit, described.max);
            let [least, most] = [described.min, described.max].map(|it| scale.quantity(it));
            let range = tr!(
                "{}: from {} to {} in {} trials",
                self.name(cell),
                least,
                most,
                described.n
            );
            // What one trial shows is shown: an extreme needs no interval.
            let holds = within(Some([described.min, described.max]), bounds.ends());
            match (failed, holds) {
                (0, ClaimOutcome::ComesOut) => (ClaimOutcome::ComesOut, range),
                (0, _) => (ClaimOutcome::DoesNot, range),
                (failed, _) => (
                    ClaimOutcome::DoesNot,
                    tr!("{}, and {} failed", range, failed),
                ),
            }
        })
    }

    fn trend(&self, line: &'a TrendLine, is: Trend, margin: f64) -> ClaimCheck {
        let cells: Vec<&ClaimedCell> = line.of.iter().chain(&line.to).collect();
        self.check(&cells, || match (is, line.to.is_empty()) {
            (Trend::Steady, true) => self.steady(line, margin),
            (_, true) => self.directed(line, is == Trend::Rises),
            (_, false) => self.ratio_trend(line, is, margin),
        })
    }

    /// Decides a trend of ratios by their intervals.
    fn ratio_trend(&self, line: &TrendLine, is: Trend, margin: f64) -> (ClaimOutcome, String) {
        let pairs = along(line, is);
        let ratios: Vec<Ratio> = pairs.iter().map(|pair| self.ratio_of(*pair)).collect();
        let text = match (pairs.first(), pairs.last(), ratios.first(), ratios.last()) {
            (Some(first), Some(last), Some(of_first), Some(of_last)) => {
                let (prefix, names) = self.names(&[first[0], first[1], last[0], last[1]]);
                format!(
                    "{prefix}{}, {}",
                    self.ratio_text(*first, *of_first, &names[..2].join(" / ")),
                    self.ratio_text(*last, *of_last, &names[2..].join(" / "))
                )
            }
            _ => String::new(),
        };
        let intervals: Option<Vec<[f64; 2]>> = ratios.iter().map(|ratio| ratio.interval).collect();
        let ends = intervals
            .as_ref()
            .and_then(|all| all.first().zip(all.last()));
        let (Some(intervals), Some((&first, &last))) = (&intervals, ends) else {
            return (ClaimOutcome::Undecided, text);
        };
        let falls = |before: [f64; 2], after: [f64; 2]| after[1] < before[0];
        let steps = || intervals.iter().copied().tuple_windows();
        let found = match is {
            Trend::Rises => outcome(
                falls(last, first) && !steps().any(|(before, after)| falls(before, after)),
                steps().any(|(before, after)| falls(before, after)) || falls(first, last),
            ),
            Trend::Falls => outcome(
                falls(first, last) && !steps().any(|(before, after)| falls(after, before)),
                steps().any(|(before, after)| falls(after, before)) || falls(last, first),
            ),
            Trend::Steady => {
                let low = intervals
                    .iter()
                    .map(|it| it[0])
                    .fold(f64::INFINITY, f64::min);
                let high = intervals.iter().map(|it| it[1]).fold(0.0, f64::max);
                let least = intervals
                    .iter()
                    .map(|it| it[1])
                    .fold(f64::INFINITY, f64::min);
                let most = intervals.iter().map(|it| it[0]).fold(0.0, f64::max);
                outcome(high <= low * (1.0 + margin), most > least * (1.0 + margin))
            }
        };
        (found, text)
    }

    /// Decides that no two values of a line differ by more than a margin.
    fn steady(&self, line: &TrendLine, margin: f64) -> (ClaimOutcome, String) {
        let pairs = along(line, Trend::Steady).into_iter().map(|pair| {
            let ratio = self.ratio_of(pair);
            (within(ratio.interval, margin_of(margin)), pair, ratio)
        });
        // The first of the gravest.
        let gravest = pairs.reduce(|gravest, next| if next.0 > gravest.0 { next } else { gravest });
        gravest.map_or(
            (ClaimOutcome::Undecided, String::new()),
            |(found, pair, ratio)| (found, self.step_text(pair, ratio)),
        )
    }

    /// Decides that a line rises, or else falls: its end differs from its beginning, and no step goes the other way.
    fn directed(&self, line: &TrendLine, rises: bool) -> (ClaimOutcome, String) {
        let direction = |ratio: Ratio| {
            let is_above =
                (ratio.conclusion == Conclusion::Faster) == (self.better() != Better::Lower);
            ratio
                .conclusion
                .is_difference()
                .then_some(is_above == rises)
        };
        let pairs = along(line, Trend::Rises).into_iter();
        let mut pairs = pairs.map(|pair| (pair, self.ratio_of(pair)));
        let Some((ends, of_ends)) = pairs.next() else {
            return (ClaimOutcome::Undecided, String::new());
        };
        let text = self.step_text(ends, of_ends);
        if let Some((pair, ratio)) = pairs.find(|(_, ratio)| direction(*ratio) == Some(false)) {
            let step = self.step_text(pair, ratio);
            return (ClaimOutcome::DoesNot, format!("{text}; {step}"));
        }
        let is_same = of_ends.conclusion == Conclusion::Same;
        let found = outcome(
            direction(of_ends) == Some(true),
            direction(of_ends) == Some(false) || is_same,
        );
        (found, text)
    }

    /// Formats the change of a pair, whose second cell is before the first.
    fn step_text(&self, [after, before]: [&ClaimedCell; 2], ratio: Ratio) -> String {
        let (prefix, names) = self.names(&[before, after]);
        let change = ratio.change_text();
        let change = change.unwrap_or_else(|| self.values_text([after, before], ratio));
        let [before, after] = [0, 1].map(|it| names.get(it).map_or("", String::as_str));
        prefix + &tr!("from {} to {}: {}", before, after, change)
    }
}

/// Returns the ratios that differ from 1 by no more than a margin.
fn margin_of(margin: f64) -> [f64; 2] {
    [(1.0 + margin).recip(), 1.0 + margin]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends of the bounds belong to them, with the rounding of both.
    #[test]
    fn an_interval_decides_where_it_lies_on_one_side_of_the_bounds() {
        use ClaimOutcome::{ComesOut, DoesNot, Undecided};
        for (interval, outcome) in [
            ([1.0, 2.0], ComesOut),
            ([1.0 - 1e-10, 2.0 + 1e-10], ComesOut),
            ([0.99, 1.5], Undecided),
            ([1.5, 2.01], Undecided),
            ([0.5, 2.5], Undecided),
            ([0.5, 1.0 - 1e-9], Undecided),
            ([2.0 * (1.0 + 1e-9), 3.0], Undecided),
            ([0.5, 0.99], DoesNot),
            ([2.01, 3.0], DoesNot),
        ] {
            assert_eq!(within(Some(interval), [1.0, 2.0]), outcome, "{interval:?}");
        }
        assert_eq!(within(None, [1.0, 2.0]), Undecided);
    }

    #[test]
    fn a_margin_is_a_factor_either_way() {
        assert_eq!(margin_of(0.25), [0.8, 1.25]);
    }
}
