//! Table of the answer, on a terminal and on a page: the metric of the ranking, how far the first is ahead, and the
//! metrics in which transports differ; of many conditions and workloads, the most telling comparisons.

use itertools::Itertools as _;
use regatta_model::{
    Better, MetricDefinition,
    metric::{self, shown_in},
};

use crate::{
    Summary,
    analysis::{Cell, ConditionVerdict, Ranked},
    format::{Scale, ahead, quantity},
    language::tr,
};

/// Ratio of two values of a column from which they differ to a reader.
const DIFFERENT: f64 = 1.05;

/// Column of the table.
pub struct Column {
    /// Name of the metric.
    pub metric: &'static str,
    /// Unit of its values.
    pub scale: Scale,
    /// Heading, in English.
    pub heading: &'static str,
}

impl Column {
    /// Returns the text of a cell; of the metric of the ranking, `primary`, that of one without figures says why.
    pub fn text(&self, cell: &Cell, primary: &str) -> String {
        match cell.shown(self.metric) {
            Some((value, _)) => cell.text(self.metric, value, self.scale),
            None if cell.n == 0 && self.metric == primary => cell.outcomes_text(),
            None => "–".to_owned(),
        }
    }
}

/// Returns the columns in which cells differ, that of the ranking first.
pub fn columns(cells: &[&Cell], primary: &str) -> Vec<Column> {
    let Some(definition) = metric::find(primary) else {
        return Vec::new();
    };
    let listed = || {
        shown_in(|place| match place {
            metric::Place::Answer(heading) => Some(heading),
            _ => None,
        })
    };
    let heading = listed().find(|(metric, _)| metric.name == primary);
    let own = heading.unwrap_or((definition, definition.title));
    let others = listed().filter(|(metric, _)| metric.name != primary);
    let column = |(metric, heading): (&MetricDefinition, &'static str)| {
        let values = cells
            .iter()
            .filter_map(|cell| Some(cell.shown(metric.name)?.0));
        let (least, most) = values.minmax().into_option()?;
        let is_alone = cells.iter().map(|cell| &cell.transport).all_equal();
        let differs = is_alone || metric.name == definition.name || most > least * DIFFERENT;
        differs.then(|| Column {
            metric: metric.name,
            scale: Scale::for_largest(metric.unit, most),
            heading,
        })
    };
    [own].into_iter().chain(others).filter_map(column).collect()
}

/// Returns the lead of a group's first transport over another one, with its interval: the first's value divided by the
/// other's for rates, the other's divided by the first's for times. `None` for the first itself.
pub fn lead_over(verdict: &ConditionVerdict, other: &Ranked) -> Option<String> {
    let is_time = metric::find(&verdict.metric).is_some_and(|it| it.better == Better::Lower);
    let turn = |ratio: f64| if is_time { ratio } else { 1.0 / ratio };
    let interval = other.leader_interval.map(|ends| {
        let [a, b] = ends.map(turn);
        [a.min(b), a.max(b)]
    });
    Some(ahead(turn(other.ratio_to_leader?), interval))
}

/// Returns the entry of a cell about how far the first of its group is ahead.
pub fn lead_over_cell(verdict: Option<&ConditionVerdict>, cell: &Cell) -> String {
    let ranked = verdict.map(|verdict| {
        let mut ranking = verdict.ranking.iter();
        (verdict, ranking.find(|it| it.transport == cell.transport))
    });
    match ranked {
        Some((_, None)) if cell.n > 0 => tr!("not ranked"),
        Some((verdict, Some(ranked))) => {
            lead_over(verdict, ranked).unwrap_or_else(|| "–".to_owned())
        }
        _ => "–".to_owned(),
    }
}

/// Comparison of a condition and workload: the first leader, and the best that it is compared with.
pub struct Place<'a> {
    /// Name of the condition, with that of the workload where there are several.
    pub name: String,
    /// The group's comparison.
    pub verdict: &'a ConditionVerdict,
    lead: &'a Ranked,
    next: &'a Ranked,
    /// Ratio of the second to the first.
    ratio: f64,
}

impl<'a> Place<'a> {
    fn of(verdict: &'a ConditionVerdict) -> Option<Self> {
        let lead = verdict.leaders.first()?;
        let lead = verdict.ranking.iter().find(|it| it.transport == *lead)?;
        let others = || {
            verdict
                .ranking
                .iter()
                .filter(|it| it.ratio_to_leader.is_some())
        };
        let beaten = others().find(|it| !verdict.leaders.contains(&it.transport));
        let next = beaten.or_else(|| others().next())?;
        Some(Self {
            name: verdict.condition.clone(),
            verdict,
            lead,
            next,
            ratio: next.ratio_to_leader?,
        })
    }

    /// Whether several transports lead.
    fn is_open(&self) -> bool {
        self.verdict.leaders.len() > 1
    }

    /// Returns the first transport, its value, the second, and how far the first is ahead: see [`place_head`].
    pub fn texts(&self) -> [String; 4] {
        let unit = metric::find(&self.verdict.metric).map(|it| it.unit);
        [
            self.lead.transport.clone(),
            unit.map_or_else(String::new, |unit| quantity(unit, self.lead.value)),
            self.next.transport.clone(),
            lead_over(self.verdict, self.next).unwrap_or_default(),
        ]
    }
}

/// Returns the headings of [`Place::texts`].
pub fn place_head() -> [String; 4] {
    [
        tr!("first"),
        String::new(),
        tr!("ahead of"),
        tr!("[95 % for all]"),
    ]
}

/// Returns the most telling comparisons of a run with many conditions and workloads, and the number of the others: the largest
/// margin of one transport, that of another one, and the smallest margin or what is open.
pub fn most_telling(summary: &Summary) -> (Vec<Place<'_>>, usize) {
    let verdicts = summary.verdict.conditions.iter();
    let mut places: Vec<Place<'_>> = verdicts.filter_map(Place::of).collect();
    let all = places.len();
    places.sort_by(|a, b| {
        let [margin_a, margin_b] = [a, b].map(|it| it.ratio.ln().abs());
        (a.is_open().cmp(&b.is_open())).then(margin_b.total_cmp(&margin_a))
    });
    let Some(last) = places.pop() else {
        return (Vec::new(), 0);
    };
    let by_lead = places
        .into_iter()
        .unique_by(|it| it.lead.transport.as_str());
    let mut shown: Vec<Place<'_>> = by_lead.take(2).chain([last]).collect();
    if !summary.cells.iter().map(|it| &it.workload).all_equal() {
        for place in &mut shown {
            place.name = format!("{}, {}", place.name, place.verdict.workload);
        }
    }
    let further = all - shown.len();
    (shown, further)
}
