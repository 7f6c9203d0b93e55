//! Tables of the measurement's circumstances: outcomes, path, transports, hosts.

use std::{collections::BTreeSet, time::Duration};

use itertools::Itertools as _;
use regatta_model::{
    Condition, Link, Outcome, PathCheck, Ratio, STACK_FACTS, Text, Unit, units::format_duration,
};

use super::{Entry, Row, Table, after_transport, figure, row, text_cell, transport_row};
use crate::{
    RunData, Summary,
    analysis::{StackRow, SummaryIndex, path_quantity},
    format::{Scale, list},
    html::figures::Styles,
    language::{self, tr},
};

/// Returns the table of the outcomes of each cell's trials.
pub fn outcomes(data: &RunData, summary: &Summary) -> Table {
    let outcomes = Outcome::ALL.map(|outcome| language::text(&outcome.label()).to_owned());
    let head = after_transport([tr!("condition")]);
    let tail = [tr!("at the deadline"), tr!("why not measured")];
    let index = SummaryIndex::of(summary);
    let cells = data
        .groups()
        .flat_map(|group| index.cells(group).iter().map(move |cell| (group, *cell)))
        // Of a sweep only what needs an explanation.
        .filter(|(group, cell)| {
            let all = cell.outcome(Outcome::Measured) == summary.trials_of(cell);
            !group.is_swept || !all || cell.deadline_reached > 0
        });
    let styles = Styles::of(data);
    let rows = cells.map(|(group, cell)| {
        let counts = Outcome::ALL.map(|outcome| figure(cell.outcome(outcome).to_string()));
        let mut reasons = cell.reasons.iter().map(|reason| {
            let hint = match reason.hint.as_str() {
                "" => String::new(),
                hint => tr!(" (hint: {})", hint),
            };
            let (outcome, causes) = (reason.outcome_text(), reason.causes_text());
            format!("{outcome}: {causes}{hint}")
        });
        let deadline = figure(cell.deadline_reached.to_string());
        let cells = [text_cell(group.heading())].into_iter().chain(counts);
        let cells = cells.chain([deadline, text_cell(reasons.join("; "))]);
        transport_row(&styles, &cell.transport, cells)
    });
    let caption = match data.groups().any(|group| group.is_swept) {
        true => tr!(
            "How the trials of each cell ended; cells of a sweep of which all trials were measured are left out"
        ),
        false => tr!("How the trials of each cell ended"),
    };
    Table::new(caption, head.chain(outcomes).chain(tail), rows)
}

/// Maximum number of path checks that are all listed; a long run checks its path many times.
const MAX_CHECKS: usize = 12;

/// Returns the checks that the table lists: all, or the first of each condition (of a sweep: of its
/// first condition) and those out of tolerance.
fn listed<'a>(data: &RunData, summary: &'a Summary) -> Vec<&'a PathCheck> {
    let checks = &summary.path_checks;
    let conditions = data.listed_conditions();
    let mut seen = BTreeSet::new();
    let is_listed = |check: &&'a PathCheck| {
        let condition = check.condition.as_str();
        let is_first = seen.insert(condition) && conditions.contains(condition);
        checks.len() <= MAX_CHECKS || !check.within || is_first
    };
    checks.iter().filter(is_listed).collect()
}

/// Returns the number of checks that the table does not list; all of them are within tolerance.
pub fn unlisted_path_checks(data: &RunData, summary: &Summary) -> usize {
    summary.path_checks.len() - listed(data, summary).len()
}

/// Returns the table of the path's configured and achieved values.
pub fn path(data: &RunData, summary: &Summary) -> Table {
    // Only a path that is used as it is has two clocks.
    let mut quantities = (summary.path_checks.iter()).flat_map(|check| &check.quantities);
    let [title, asked, achieved] =
        match quantities.any(|quantity| quantity.name == "clock_offset_ns") {
            true => [
                tr!("The path between the hosts, as it was found"),
                tr!("first check"),
                tr!("this check"),
            ],
            false => [
                tr!("The emulated path: asked for and achieved"),
                tr!("asked"),
                tr!("achieved"),
            ],
        };
    let head = [
        tr!("quantity"),
        tr!("condition"),
        asked,
        achieved,
        tr!("tolerance"),
        "n".to_owned(),
        tr!("verdict"),
    ];
    let quantities = listed(data, summary).into_iter().flat_map(|check| {
        let quantities = check.quantities.iter();
        quantities.map(move |quantity| (check, quantity))
    });
    let quantities: Vec<_> = quantities.collect();
    // One scale for all quantities of a unit, so that a column has no `ns` beside `ms`.
    let scale_of = |unit: Unit| {
        let alike = quantities.iter().map(|(_, quantity)| *quantity);
        let alike = alike.filter(|quantity| path_quantity(&quantity.name).0 == unit);
        let largest = alike.map(|quantity| quantity.asked.max(quantity.achieved));
        Scale::for_largest(unit, largest.fold(0.0, f64::max))
    };
    let rows = quantities.iter().map(|(check, quantity)| {
        let (unit, name) = path_quantity(&quantity.name);
        let scale = scale_of(unit);
        let show = |value: f64| figure(format!("{} {}", scale.text(value), scale.unit));
        let from = match check.step_at_ns {
            0 => String::new(),
            at => tr!(" from {} on", duration(Duration::from_nanos(at))),
        };
        let [lowest, highest] = [quantity.lowest, quantity.highest].map(|v| scale.text(v));
        let verdict = match (&check.spoiled, quantity.within) {
            (Some(_), _) => tr!("spoiled by the machine"),
            (None, true) => tr!("✓ within"),
            (None, false) => tr!("✗ outside"),
        };
        let cells = [
            text_cell(format!("{}{from}", check.condition)),
            show(quantity.asked),
            show(quantity.achieved),
            figure(tr!("{} to {} {}", lowest, highest, scale.unit)),
            figure(quantity.n.to_string()),
            text_cell(verdict),
        ];
        row(name, cells)
    });
    Table::new(title, head, rows)
}

fn duration(time: Duration) -> String {
    language::quantity(format_duration(time))
}

/// Returns the table of the conditions' settings.
pub fn conditions(data: &RunData) -> Table {
    const HEAD: [&str; 9] = [
        "condition",
        "direction",
        "delay",
        "jitter",
        "loss",
        "link rate",
        "queue limit",
        "largest packet",
        "further",
    ];
    let listed = data.listed_conditions();
    let conditions = data.header.study.conditions.iter();
    let conditions: Vec<&Condition> = conditions
        .filter(|condition| listed.contains(condition.name.as_str()))
        .collect();
    let mut links = conditions.iter().flat_map(|condition| condition.links());
    let is_further = links.any(|link| !link.particulars().is_empty());
    let columns = HEAD.len() - usize::from(!is_further);
    let of_link = |condition: &Condition, at: Duration, direction: &str, link: &Link| {
        let from = match at.is_zero() {
            true => String::new(),
            false => tr!(", from {} on", duration(at)),
        };
        let jitter = format!("± {}", format_duration(link.jitter));
        let jitter = (!link.jitter.is_zero()).then(|| language::quantity(jitter));
        let loss = (link.loss != Ratio::ZERO).then(|| language::quantity(link.loss));
        let or_none = |text: Option<String>| figure(text.unwrap_or_else(|| tr!("none")));
        let queue = condition.queue_text(link);
        let mtu = format!("{} B", condition.mtu_bytes);
        let further = link
            .particulars()
            .iter()
            .map(language::particular)
            .join("; ");
        let cells = [
            text_cell(format!("{direction}{from}")),
            figure(duration(link.delay)),
            or_none(jitter),
            or_none(loss),
            figure(language::render(&link.rate_text())),
            figure(language::render(&queue)),
            figure(language::quantity(mtu)),
            text_cell(further),
        ];
        row(&*condition.name, cells.into_iter().take(columns - 1))
    };
    let [there, back] = [tr!("sender to receiver"), tr!("receiver to sender")];
    let rows = conditions.into_iter().flat_map(|c| {
        let of_setting = |at, forward, reverse| {
            [
                of_link(c, at, &there, forward),
                of_link(c, at, &back, reverse),
            ]
        };
        let rows = (c.settings()).flat_map(|it| of_setting(it.at, it.forward, it.reverse));
        rows.collect::<Vec<Row>>()
    });
    Table::new(
        match listed.len() < data.header.study.conditions.len() {
            true => tr!("The conditions, as the study asks for them; of each sweep the first"),
            false => tr!("The conditions, as the study asks for them"),
        },
        HEAD.into_iter().take(columns).map(language::text),
        rows,
    )
}

/// Returns the values that the trials of a transport read back for a fact, shortened if there are
/// many.
fn read_back(data: &RunData, transport: &str, fact: &str) -> Option<String> {
    let trials = data.trials.iter().filter(|it| it.transport == transport);
    let values = trials.filter_map(|trial| trial.measurements.facts.get(fact));
    let values: BTreeSet<&Text> = values.collect();
    let more = if values.len() > 3 { ", …" } else { "" };
    let mut shown = values.iter().take(3).map(|value| language::fact(value));
    (!values.is_empty()).then(|| shown.join(", ") + more)
}

/// Returns the values of a fact that the trials of each transport read back.
fn across(data: &RunData, fact: &str) -> impl Iterator<Item = Entry> {
    let transports = data.header.study.transports.iter();
    transports.map(move |transport| {
        let value = read_back(data, &transport.label, fact);
        text_cell(value.unwrap_or_else(|| "–".to_owned()))
    })
}

/// Returns the labels of the transports after the titles of the first columns.
fn with_labels<'a>(first: &'a [&'a str], data: &'a RunData) -> impl Iterator<Item = &'a str> {
    let transports = data.header.study.transports.iter();
    let labels = transports.map(|transport| transport.label.as_str());
    first.iter().copied().map(language::text).chain(labels)
}

/// Returns the table of transports: driver and options.
pub fn transports(data: &RunData) -> Table {
    let styles = Styles::of(data);
    let rows = data.header.study.transports.iter().map(|transport| {
        let mut options = transport.options.iter().map(|(name, value)| {
            let value = serde_json::to_string(value).unwrap_or_default();
            format!("{name} = {value}")
        });
        let options = match options.join(", ") {
            options if options.is_empty() => tr!("defaults"),
            options => options,
        };
        let cells = [text_cell(&*transport.driver), text_cell(options)];
        transport_row(&styles, &transport.label, cells)
    });
    Table::new(
        tr!("The transports"),
        after_transport([tr!("driver"), tr!("options")]),
        rows,
    )
}

/// Returns the table of facts that show whether transports were compared on equal terms: facts
/// down, transports across.
pub fn stacks(data: &RunData, summary: &Summary) -> Table {
    let rows = STACK_FACTS.iter().filter_map(|fact| {
        let of_fact = summary.stacks.iter().filter(|row| row.fact == fact.name);
        let of_fact: Vec<&StackRow> = of_fact.collect();
        let alike = match of_fact.iter().any(|row| row.differs) {
            true => tr!("≠ differs"),
            false => "=".to_owned(),
        };
        let cells = [text_cell(alike)]
            .into_iter()
            .chain(across(data, fact.name));
        (!of_fact.is_empty()).then(|| row(language::text(fact.title), cells))
    });
    Table::new(
        tr!("What the stacks did, as their drivers state it"),
        with_labels(&["fact", "alike"], data),
        rows,
    )
}

/// Returns the table of all facts that were read back: facts down, transports across.
pub fn facts(data: &RunData) -> Table {
    let trials = data.trials.iter();
    let names: BTreeSet<&str> = trials
        .flat_map(|trial| trial.measurements.facts.keys().map(String::as_str))
        .collect();
    let rows = names.into_iter().map(|name| row(name, across(data, name)));
    let head = with_labels(&["fact"], data);
    Table::new(tr!("All that was read back in the trials"), head, rows).folded(true)
}

/// Returns the table of facts about the hosts; facts that are the same on all hosts are listed
/// once.
pub fn hosts(data: &RunData) -> Table {
    let hosts = &data.header.hosts;
    let names = hosts.values().flat_map(|facts| facts.0.keys());
    let names: BTreeSet<&String> = names.collect();
    let same = |name: &str| {
        let mut values = hosts.values().map(|facts| facts.0.get(name));
        let first = values.next().flatten();
        values.all(|value| value == first)
    };
    let labels = hosts.keys().map(|host| data.header.host_label(host));
    let labels = labels.map(|label| language::text(&label).to_owned());
    let columns = match names.iter().all(|name| same(name)) && hosts.len() > 1 {
        true => vec![list(labels)],
        false => labels.collect(),
    };
    let rows = names.into_iter().map(|name| {
        let values = hosts.values().take(columns.len());
        let values = values.map(|facts| facts.0.get(name).map_or("–", String::as_str));
        row(name, values.map(text_cell))
    });
    let rows: Vec<Row> = rows.collect();
    let head = [tr!("fact")].into_iter().chain(columns);
    Table::new(tr!("Facts about the hosts"), head, rows).folded(true)
}
