//! Tables of the measurement's circumstances: outcomes, path, transports, hosts.

use std::{collections::BTreeSet, time::Duration};

use regatta_model::{
    Condition, Link, Outcome, PathCheck, Ratio, STACK_FACTS, StackFact, metric::Unit,
    units::format_duration,
};

use super::{Row, Table, figure, series, words};
use crate::{RunData, Summary, analysis::StackRow, format::Scale};

/// Returns the table of the outcomes of each cell's trials.
pub fn outcomes(data: &RunData, summary: &Summary) -> Table {
    let mut head = vec!["transport".to_owned(), "condition".to_owned()];
    head.extend(Outcome::ALL.map(|outcome| outcome.name().replace('_', " ")));
    head.push("at the deadline".to_owned());
    head.push("why not measured".to_owned());
    Table {
        caption: "How the trials of each cell ended".to_owned(),
        head,
        rows: summary
            .cells
            .iter()
            .map(|cell| {
                let place = if data.header.study.workloads.len() > 1 {
                    format!("{}, {}", cell.condition, cell.workload)
                } else {
                    cell.condition.clone()
                };
                let mut entries = vec![words(place)];
                entries
                    .extend(Outcome::ALL.map(|outcome| figure(cell.outcome(outcome).to_string())));
                entries.push(figure(cell.deadline_reached.to_string()));
                let why: Vec<String> = cell
                    .reasons
                    .iter()
                    .map(|reason| {
                        let hint = if reason.hint.is_empty() {
                            String::new()
                        } else {
                            format!(" (hint: {})", reason.hint)
                        };
                        format!(
                            "{}: {}{hint}",
                            reason.outcome.replace('_', " "),
                            reason.reasons.join(": ")
                        )
                    })
                    .collect();
                entries.push(words(why.join("; ")));
                Row {
                    series: series(data, &cell.transport),
                    heading: cell.transport.clone(),
                    cells: entries,
                }
            })
            .collect(),
        folded: false,
    }
}

/// Returns the unit of a quantity of the path, by the suffix of its name.
fn path_unit(name: &str) -> Unit {
    match name {
        name if name.ends_with("_ns") => Unit::Nanoseconds,
        name if name.ends_with("_bps") => Unit::BitsPerSecond,
        name if name.ends_with("_bytes") => Unit::Bytes,
        name if name.ends_with("_ratio") => Unit::Ratio,
        _ => Unit::Count,
    }
}

/// Maximum number of path checks that are all listed; a long run checks its path many times.
const MOST_CHECKS: usize = 12;

/// Returns the checks that the table lists: all, or the first of each condition and those out of
/// tolerance.
fn listed(summary: &Summary) -> Vec<&PathCheck> {
    let checks = &summary.path_checks;
    let first = |position: usize| {
        !checks[..position]
            .iter()
            .any(|check| check.condition == checks[position].condition)
    };
    checks
        .iter()
        .enumerate()
        .filter(|(position, check)| {
            checks.len() <= MOST_CHECKS || !check.within || first(*position)
        })
        .map(|(_, check)| check)
        .collect()
}

/// Returns the number of checks that the table does not list; all of them are within tolerance.
pub fn path_left_out(summary: &Summary) -> usize {
    summary.path_checks.len() - listed(summary).len()
}

/// Returns the table of the path's configured and achieved values.
pub fn path(summary: &Summary) -> Table {
    let rows = listed(summary)
        .into_iter()
        .flat_map(|check| {
            check.quantities.iter().map(|quantity| {
                let unit = path_unit(&quantity.name);
                let scale = Scale::for_largest(unit, quantity.asked.max(quantity.achieved));
                let show = |value: f64| figure(format!("{} {}", scale.text(value), scale.unit));
                let name = quantity
                    .name
                    .trim_end_matches("_ns")
                    .trim_end_matches("_bps");
                Row {
                    series: -1,
                    heading: name.trim_end_matches("_ratio").replace('_', " "),
                    cells: vec![
                        words(match check.step_at_ns {
                            0 => check.condition.clone(),
                            at => format!(
                                "{} from {} on",
                                check.condition,
                                format_duration(Duration::from_nanos(at))
                            ),
                        }),
                        show(quantity.asked),
                        show(quantity.achieved),
                        figure(format!(
                            "{} to {} {}",
                            scale.text(quantity.lowest),
                            scale.text(quantity.highest),
                            scale.unit
                        )),
                        figure(quantity.n.to_string()),
                        words(match (&check.spoiled, quantity.within) {
                            (Some(_), _) => "spoiled by the machine",
                            (None, true) => "✓ within",
                            (None, false) => "✗ outside",
                        }),
                    ],
                }
            })
        })
        .collect();
    Table {
        caption: "The emulated path: asked for and achieved".to_owned(),
        head: [
            "quantity",
            "condition",
            "asked",
            "achieved",
            "tolerance",
            "n",
            "verdict",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows,
        folded: false,
    }
}

/// Returns the table of the conditions' settings.
pub fn conditions(data: &RunData) -> Table {
    let conditions = &data.header.study.conditions;
    let is_further = conditions
        .iter()
        .any(|condition| condition.links().any(|link| !link.particulars().is_empty()));
    let row = |condition: &Condition, at: Duration, direction: &str, link: &Link| {
        let mut cells = vec![
            words(if at.is_zero() {
                direction.to_owned()
            } else {
                format!("{direction}, from {} on", format_duration(at))
            }),
            figure(format_duration(link.delay)),
            figure(if link.jitter.is_zero() {
                "none".to_owned()
            } else {
                format!("± {}", format_duration(link.jitter))
            }),
            figure(if link.loss == Ratio(0.0) {
                "none".to_owned()
            } else {
                link.loss.to_string()
            }),
            figure(link.rate_in_words()),
            figure(link.queue_in_words(condition.queue_limit(link))),
            figure(format!("{} B", condition.mtu_bytes)),
        ];
        if is_further {
            cells.push(words(link.particulars().join("; ")));
        }
        Row {
            series: -1,
            heading: condition.name.clone(),
            cells,
        }
    };
    let mut head = vec![
        "condition",
        "direction",
        "delay",
        "jitter",
        "loss",
        "link rate",
        "queue limit",
        "largest packet",
    ];
    if is_further {
        head.push("further");
    }
    Table {
        caption: "The conditions, as the study asks for them".to_owned(),
        head: head.into_iter().map(str::to_owned).collect(),
        rows: conditions
            .iter()
            .flat_map(|c| {
                c.settings().flat_map(move |setting| {
                    [
                        row(c, setting.at, "sender to receiver", setting.forward),
                        row(c, setting.at, "receiver to sender", setting.reverse),
                    ]
                })
            })
            .collect(),
        folded: false,
    }
}

/// Returns the values that the trials of a transport read back for a fact, shortened if there are
/// many.
fn read_back(data: &RunData, transport: &str, fact: &str) -> Option<String> {
    let values: BTreeSet<&str> = data
        .trials
        .iter()
        .filter(|trial| trial.transport == transport)
        .filter_map(|trial| trial.facts.get(fact).map(String::as_str))
        .collect();
    let shown: Vec<&str> = values.iter().take(3).copied().collect();
    let more = if values.len() > 3 { ", …" } else { "" };
    (!shown.is_empty()).then(|| format!("{}{more}", shown.join(", ")))
}

/// Returns the table of transports: driver and options.
pub fn transports(data: &RunData) -> Table {
    let transports = &data.header.study.transports;
    let rows = transports
        .iter()
        .map(|transport| {
            let options: Vec<String> = transport
                .options
                .iter()
                .map(|(name, value)| {
                    let value = serde_json::to_string(value).unwrap_or_default();
                    format!("{name} = {value}")
                })
                .collect();
            let cells = vec![
                words(transport.driver.clone()),
                words(if options.is_empty() {
                    "defaults".to_owned()
                } else {
                    options.join(", ")
                }),
            ];
            Row {
                series: series(data, &transport.label),
                heading: transport.label.clone(),
                cells,
            }
        })
        .collect();
    Table {
        caption: "The transports".to_owned(),
        head: ["transport", "driver", "options"]
            .map(str::to_owned)
            .to_vec(),
        rows,
        folded: false,
    }
}

/// Returns the table of facts that tell whether transports were compared on equal terms: facts
/// down, transports across.
pub fn stacks(data: &RunData, summary: &Summary) -> Table {
    let transports = &data.header.study.transports;
    let mut head = vec!["fact".to_owned(), "alike".to_owned()];
    head.extend(transports.iter().map(|transport| transport.label.clone()));
    let of = |fact: &StackFact| -> Vec<&StackRow> {
        let rows = summary.stacks.iter();
        rows.filter(|row| row.fact == fact.name).collect()
    };
    Table {
        caption: "What the stacks did, as their drivers state it".to_owned(),
        head,
        rows: (STACK_FACTS.iter())
            .filter(|fact| !of(fact).is_empty())
            .map(|fact| {
                let alike = if of(fact).iter().any(|row| row.differs) {
                    "≠ differs"
                } else {
                    "="
                };
                let values = transports.iter().map(|t| {
                    words(read_back(data, &t.label, fact.name).unwrap_or_else(|| "–".to_owned()))
                });
                Row {
                    series: -1,
                    heading: fact.title.to_owned(),
                    cells: [words(alike)].into_iter().chain(values).collect(),
                }
            })
            .collect(),
        folded: false,
    }
}

/// Returns the table of all facts that were read back: facts down, transports across.
pub fn facts(data: &RunData) -> Table {
    let transports = &data.header.study.transports;
    let names: BTreeSet<&str> = data
        .trials
        .iter()
        .flat_map(|trial| trial.facts.keys().map(String::as_str))
        .collect();
    let mut head = vec!["fact".to_owned()];
    head.extend(transports.iter().map(|transport| transport.label.clone()));
    Table {
        caption: "All that was read back in the trials".to_owned(),
        head,
        rows: names
            .into_iter()
            .map(|name| Row {
                series: -1,
                heading: name.to_owned(),
                cells: transports
                    .iter()
                    .map(|t| {
                        words(read_back(data, &t.label, name).unwrap_or_else(|| "–".to_owned()))
                    })
                    .collect(),
            })
            .collect(),
        folded: true,
    }
}

/// Returns the table of facts about the hosts; facts that are the same on all hosts are listed
/// once.
pub fn hosts(data: &RunData) -> Table {
    let hosts = &data.header.hosts;
    let names: BTreeSet<&str> = hosts
        .values()
        .flat_map(|facts| facts.0.keys().map(String::as_str))
        .collect();
    let mut head = vec!["fact".to_owned()];
    let same = |name: &str| {
        let mut values = hosts.values().map(|facts| facts.0.get(name));
        let first = values.next().flatten();
        values.all(|value| value == first)
    };
    let all_same = names.iter().all(|name| same(name));
    if all_same && hosts.len() > 1 {
        let hosts: Vec<&str> = hosts.keys().map(String::as_str).collect();
        head.push(hosts.join(" and "));
    } else {
        head.extend(hosts.keys().cloned());
    }
    let columns = head.len() - 1;
    Table {
        caption: "Facts about the hosts".to_owned(),
        head,
        rows: names
            .into_iter()
            .map(|name| Row {
                series: -1,
                heading: name.to_owned(),
                cells: hosts
                    .values()
                    .take(columns)
                    .map(|facts| words(facts.0.get(name).map_or("–", String::as_str)))
                    .collect(),
            })
            .collect(),
        folded: true,
    }
}
