//! What stands in the tables of the page.

use std::collections::{BTreeMap, BTreeSet};

use regatta_model::{
    Condition, Link, MetricDefinition, Outcome, Ratio,
    metric::{self, Unit},
    units::format_duration,
};
use serde::Serialize;

use crate::{
    RunData, Summary,
    analysis::{Cell, HEADLINE_METRICS, MetricSummary},
    format::{Scale, number, p_value, quantity, signed_percent},
};

/// A table under a caption.
#[derive(Debug, Serialize)]
pub struct Table {
    caption: String,
    head: Vec<String>,
    rows: Vec<Row>,
    /// Whether the first screen's reader needs it; others are folded.
    folded: bool,
}

/// A row: its heading and its cells.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Position of the transport in the study, for its mark; `-1` for rows of other things.
    series: i64,
    heading: String,
    cells: Vec<Entry>,
}

/// One cell of a table.
#[derive(Debug, Default, Serialize)]
pub struct Entry {
    text: String,
    /// Smaller, beneath: an interval.
    sub: String,
    /// Words instead of a figure.
    words: bool,
}

fn figure(text: impl Into<String>) -> Entry {
    Entry {
        text: text.into(),
        ..Entry::default()
    }
}

fn words(text: impl Into<String>) -> Entry {
    Entry {
        text: text.into(),
        words: true,
        ..Entry::default()
    }
}

fn none() -> Entry {
    figure("–")
}

/// The columns of the table of means.
pub const COLUMNS: [&str; 5] = [
    "goodput_bps",
    "round_trip_delay_ns",
    "cpu_host_ratio",
    "goodput_per_core_percent_bps",
    "message_loss_ratio",
];

fn definitions(names: &[&str]) -> Vec<&'static MetricDefinition> {
    names.iter().filter_map(|name| metric::find(name)).collect()
}

/// The scale of a metric over the whole report, so that tables can be read against each other.
fn scale(summary: &Summary, definition: &MetricDefinition) -> Scale {
    let largest = summary
        .cells
        .iter()
        .filter_map(|cell| cell.mean(definition.name))
        .fold(0.0, f64::max);
    Scale::for_largest(definition.unit, largest)
}

fn series(data: &RunData, label: &str) -> i64 {
    data.header
        .study
        .transports
        .iter()
        .position(|transport| transport.label == label)
        .map_or(-1, |position| position as i64)
}

fn places(data: &RunData) -> Vec<(String, &str, &str)> {
    let study = &data.header.study;
    let several = study.workloads.len() > 1;
    let mut places = Vec::new();
    for workload in &study.workloads {
        for condition in &study.conditions {
            let heading = if several {
                format!("`{}` with `{}`", condition.name, workload.name)
            } else {
                format!("`{}`", condition.name)
            };
            places.push((heading, condition.name.as_str(), workload.name.as_str()));
        }
    }
    places
}

fn cells_of<'a>(
    summary: &'a Summary,
    condition: &'a str,
    workload: &'a str,
) -> impl Iterator<Item = &'a Cell> {
    summary
        .cells
        .iter()
        .filter(move |cell| cell.condition == condition && cell.workload == workload)
}

/// What stands in the place of figures that a cell does not have.
fn outcome_words(cell: &Cell) -> String {
    let parts: Vec<String> = Outcome::ALL
        .into_iter()
        .filter(|outcome| *outcome != Outcome::Measured && cell.outcome(*outcome) > 0)
        .map(|outcome| outcome.name().replace('_', " "))
        .collect();
    if parts.is_empty() {
        "not run".to_owned()
    } else {
        parts.join(", ")
    }
}

fn mean_entry(metric: &MetricSummary, scale: Scale) -> Entry {
    Entry {
        text: scale.text(metric.mean),
        sub: metric.ci95.map_or_else(
            || "no interval: one trial".to_owned(),
            |[low, high]| format!("[{}, {}]", scale.text(low), scale.text(high)),
        ),
        words: false,
    }
}

/// Means with their interval, one table for each condition.
pub fn means(data: &RunData, summary: &Summary) -> Vec<Table> {
    let columns = definitions(&COLUMNS);
    let present: Vec<(&MetricDefinition, Scale)> = columns
        .into_iter()
        .filter(|column| {
            summary
                .cells
                .iter()
                .any(|cell| cell.metrics.contains_key(column.name))
        })
        .map(|column| (column, scale(summary, column)))
        .collect();
    places(data)
        .into_iter()
        .map(|(heading, condition, workload)| {
            let mut head = vec!["transport".to_owned()];
            head.extend(
                present
                    .iter()
                    .map(|(column, scale)| scale.heading(column.title)),
            );
            head.push("trials".to_owned());
            Table {
                caption: format!("Means under {heading}, with their 95 % confidence interval"),
                head,
                rows: cells_of(summary, condition, workload)
                    .map(|cell| {
                        let mut entries: Vec<Entry> = present
                            .iter()
                            .enumerate()
                            .map(
                                |(number, (column, scale))| match cell.metrics.get(column.name) {
                                    Some(metric) => mean_entry(metric, *scale),
                                    None if cell.n == 0 && number == 0 => {
                                        figure(outcome_words(cell))
                                    }
                                    None => none(),
                                },
                            )
                            .collect();
                        entries.push(Entry {
                            text: format!("{} of {}", cell.n, summary.rounds),
                            sub: if cell.deadline_reached > 0 {
                                format!("{} at the deadline", cell.deadline_reached)
                            } else {
                                String::new()
                            },
                            words: false,
                        });
                        Row {
                            series: series(data, &cell.transport),
                            heading: cell.transport.clone(),
                            cells: entries,
                        }
                    })
                    .collect(),
                folded: false,
            }
        })
        .collect()
}

/// The whole description of the headline metrics and of host CPU.
pub fn descriptions(data: &RunData, summary: &Summary) -> Vec<Table> {
    let mut tables = Vec::new();
    let names = [
        HEADLINE_METRICS[0],
        HEADLINE_METRICS[1],
        "cpu_host_ratio",
        HEADLINE_METRICS[2],
    ];
    for definition in definitions(&names) {
        let scale = scale(summary, definition);
        for (heading, condition, workload) in places(data) {
            let rows: Vec<Row> = cells_of(summary, condition, workload)
                .filter_map(|cell| {
                    let m = cell.metrics.get(definition.name)?;
                    let optional =
                        |value: Option<f64>| value.map_or_else(none, |v| figure(scale.text(v)));
                    Some(Row {
                        series: series(data, &cell.transport),
                        heading: cell.transport.clone(),
                        cells: vec![
                            figure(m.n.to_string()),
                            figure(scale.text(m.mean)),
                            optional(m.sd),
                            m.cv.map_or_else(none, |cv| {
                                figure(format!("{} %", number(cv * 100.0)))
                            }),
                            m.ci95.map_or_else(none, |[low, high]| {
                                figure(format!("{} to {}", scale.text(low), scale.text(high)))
                            }),
                            figure(scale.text(m.median)),
                            figure(format!("{} to {}", scale.text(m.q1), scale.text(m.q3))),
                            figure(format!("{} to {}", scale.text(m.min), scale.text(m.max))),
                        ],
                    })
                })
                .collect();
            if rows.is_empty() {
                continue;
            }
            tables.push(Table {
                caption: format!("{} under {heading}", scale.heading(definition.title)),
                head: [
                    "transport",
                    "n",
                    "mean",
                    "standard deviation",
                    "coefficient of variation",
                    "95 % interval of the mean",
                    "median",
                    "quartiles",
                    "range",
                ]
                .map(str::to_owned)
                .to_vec(),
                rows,
                folded: true,
            });
        }
    }
    tables
}

/// What was lost, and where.
pub fn loss(data: &RunData, summary: &Summary) -> Vec<Table> {
    let columns = definitions(&[
        "message_loss_ratio",
        "messages_duplicated",
        "messages_reordered",
        "messages_corrupted",
        "receive_buffer_errors",
        "path_loss_ratio",
        "path_queue_drops",
        "retransmit_ratio",
    ]);
    grid(data, summary, &columns, "Loss under", false)
}

/// Every metric that was measured, by condition: metrics down, transports across.
pub fn every_metric(data: &RunData, summary: &Summary) -> Vec<Table> {
    let metrics = data.metrics_that_occur();
    places(data)
        .into_iter()
        .filter_map(|(heading, condition, workload)| {
            let cells: Vec<&Cell> = cells_of(summary, condition, workload)
                .filter(|c| c.n > 0)
                .collect();
            if cells.is_empty() {
                return None;
            }
            let mut head = vec!["metric".to_owned()];
            head.extend(cells.iter().map(|cell| cell.transport.clone()));
            Some(Table {
                caption: format!(
                    "Every metric under {heading}: means with their 95 % confidence interval"
                ),
                head,
                rows: metrics
                    .iter()
                    .filter(|m| cells.iter().any(|cell| cell.metrics.contains_key(m.name)))
                    .map(|m| {
                        let scale = scale(summary, m);
                        Row {
                            series: -1,
                            heading: scale.heading(m.title),
                            cells: cells
                                .iter()
                                .map(|cell| {
                                    cell.metrics
                                        .get(m.name)
                                        .map_or_else(none, |metric| mean_entry(metric, scale))
                                })
                                .collect(),
                        }
                    })
                    .collect(),
                folded: true,
            })
        })
        .collect()
}

/// Transports down, some metrics across.
fn grid(
    data: &RunData,
    summary: &Summary,
    columns: &[&'static MetricDefinition],
    caption: &str,
    folded: bool,
) -> Vec<Table> {
    let present: Vec<(&MetricDefinition, Scale)> = columns
        .iter()
        .filter(|column| {
            summary
                .cells
                .iter()
                .any(|cell| cell.metrics.contains_key(column.name))
        })
        .map(|column| (*column, scale(summary, column)))
        .collect();
    if present.is_empty() {
        return Vec::new();
    }
    places(data)
        .into_iter()
        .map(|(heading, condition, workload)| {
            let mut head = vec!["transport".to_owned()];
            head.extend(
                present
                    .iter()
                    .map(|(column, scale)| scale.heading(column.title)),
            );
            Table {
                caption: format!("{caption} {heading}"),
                head,
                rows: cells_of(summary, condition, workload)
                    .filter(|cell| cell.n > 0)
                    .map(|cell| Row {
                        series: series(data, &cell.transport),
                        heading: cell.transport.clone(),
                        cells: present
                            .iter()
                            .map(|(column, scale)| {
                                cell.metrics
                                    .get(column.name)
                                    .map_or_else(none, |metric| mean_entry(metric, *scale))
                            })
                            .collect(),
                    })
                    .collect(),
                folded,
            }
        })
        .collect()
}

/// What each further condition does to each transport.
pub fn differences(data: &RunData, summary: &Summary) -> Vec<Table> {
    let study = &data.header.study;
    let mut tables = Vec::new();
    for workload in &study.workloads {
        for condition in study.conditions.iter().skip(1) {
            let of = |transport: &str, metric: &str| {
                summary.differences.iter().find(|d| {
                    d.transport == transport
                        && d.metric == metric
                        && d.to == condition.name
                        && d.workload == workload.name
                })
            };
            let columns: Vec<&MetricDefinition> = definitions(&[
                "goodput_bps",
                "round_trip_delay_ns",
                "cpu_host_ratio",
                "goodput_per_core_percent_bps",
            ])
            .into_iter()
            .filter(|c| {
                study
                    .transports
                    .iter()
                    .any(|t| of(&t.label, c.name).is_some())
            })
            .collect();
            if columns.is_empty() {
                continue;
            }
            let mut head = vec!["transport".to_owned()];
            head.extend(columns.iter().map(|column| column.title.to_owned()));
            let with = if study.workloads.len() > 1 {
                format!(" with `{}`", workload.name)
            } else {
                String::new()
            };
            tables.push(Table {
                caption: format!(
                    "Change of the means from `{}` to `{}`{with}, with its 95 % confidence interval",
                    study.conditions[0].name, condition.name
                ),
                head,
                rows: study
                    .transports
                    .iter()
                    .filter(|t| columns.iter().any(|c| of(&t.label, c.name).is_some()))
                    .map(|t| Row {
                        series: series(data, &t.label),
                        heading: t.label.clone(),
                        cells: columns
                            .iter()
                            .map(|column| {
                                let Some(d) = of(&t.label, column.name) else {
                                    return none();
                                };
                                Entry {
                                    text: d.relative.map_or_else(|| "–".to_owned(), signed_percent),
                                    sub: d.interval.map_or_else(String::new, |[low, high]| {
                                        format!("[{}, {}]", signed_percent(low), signed_percent(high))
                                    }),
                                    words: false,
                                }
                            })
                            .collect(),
                    })
                    .collect(),
                folded: false,
            });
        }
    }
    tables
}

/// Every pair.
pub fn comparisons(data: &RunData, summary: &Summary) -> Vec<Table> {
    let mut tables = Vec::new();
    for name in HEADLINE_METRICS {
        let Some(definition) = metric::find(name) else {
            continue;
        };
        let scale = scale(summary, definition);
        for (heading, condition, workload) in places(data) {
            let rows: Vec<Row> = summary
                .comparisons
                .iter()
                .filter(|c| c.metric == name && c.condition == condition && c.workload == workload)
                .map(|c| {
                    let lossy = |label: &str, loss: Option<f64>| {
                        loss.map(|loss| format!("{label} lost {}", quantity(Unit::Ratio, loss)))
                    };
                    let losses: Vec<String> = [lossy(&c.a, c.loss_a), lossy(&c.b, c.loss_b)]
                        .into_iter()
                        .flatten()
                        .collect();
                    Row {
                        series: -1,
                        heading: format!("{} against {}", c.a, c.b),
                        cells: vec![
                            Entry {
                                text: c
                                    .ratio
                                    .map_or_else(|| "–".to_owned(), |r| format!("{}×", number(r))),
                                sub: c.ratio_interval.map_or_else(String::new, |[low, high]| {
                                    format!("[{}, {}]", number(low), number(high))
                                }),
                                words: false,
                            },
                            Entry {
                                text: c
                                    .difference
                                    .map_or_else(|| "–".to_owned(), |d| signed(scale, d)),
                                sub: c.difference_interval.map_or_else(
                                    String::new,
                                    |[low, high]| {
                                        format!("[{}, {}]", signed(scale, low), signed(scale, high))
                                    },
                                ),
                                words: false,
                            },
                            figure(c.p_holm.map_or_else(|| "–".to_owned(), p_value)),
                            figure(c.n.to_string()),
                            Entry {
                                text: c.conclusion.name().to_owned(),
                                sub: losses.join("; "),
                                words: true,
                            },
                        ],
                    }
                })
                .collect();
            if rows.is_empty() {
                continue;
            }
            let level = summary
                .comparisons
                .iter()
                .find(|c| c.metric == name && c.condition == condition && c.workload == workload)
                .map_or(0.0, |c| c.confidence);
            tables.push(Table {
                caption: format!(
                    "{} of every pair under {heading}; each interval at {} %, all of them together at 95 %",
                    capital(definition.title),
                    number(level * 100.0)
                ),
                head: vec![
                    "pair".to_owned(),
                    "ratio".to_owned(),
                    scale.heading("difference"),
                    "p (Holm)".to_owned(),
                    "rounds".to_owned(),
                    "the first is".to_owned(),
                ],
                rows,
                folded: name != HEADLINE_METRICS[0],
            });
        }
    }
    tables
}

fn signed(scale: Scale, value: f64) -> String {
    let text = scale.text(value.abs());
    format!("{}{text}", if value < 0.0 { "−" } else { "+" })
}

fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(characters).collect()
    })
}

/// Published figures beside the measured ones, one table for each condition.
pub fn published(data: &RunData, summary: &Summary) -> Vec<Table> {
    let study = &data.header.study;
    let names: BTreeSet<&str> = summary
        .published
        .iter()
        .map(|p| p.metric.as_str())
        .collect();
    let columns: Vec<&MetricDefinition> = metric::METRICS
        .iter()
        .filter(|m| names.contains(m.name))
        .collect();
    let mut tables = Vec::new();
    for condition in &study.conditions {
        let here: Vec<_> = summary
            .published
            .iter()
            .filter(|p| p.condition == condition.name)
            .collect();
        if here.is_empty() {
            continue;
        }
        let mut labels: Vec<&str> = Vec::new();
        for p in &here {
            if !labels.contains(&p.transport.as_str()) {
                labels.push(&p.transport);
            }
        }
        let mut head = vec!["transport".to_owned()];
        let scales: Vec<Scale> = columns
            .iter()
            .map(|column| {
                let largest = here
                    .iter()
                    .filter(|p| p.metric == column.name)
                    .map(|p| p.published.max(p.measured.unwrap_or(0.0)))
                    .fold(0.0, f64::max);
                Scale::for_largest(column.unit, largest)
            })
            .collect();
        for (column, scale) in columns.iter().zip(&scales) {
            head.push(format!("{}: published", scale.heading(column.title)));
            head.push("measured".to_owned());
        }
        let rows = labels
            .into_iter()
            .map(|label| Row {
                series: series(data, label),
                heading: label.to_owned(),
                cells: columns
                    .iter()
                    .zip(&scales)
                    .flat_map(|(column, scale)| {
                        let found = here
                            .iter()
                            .find(|p| p.transport == label && p.metric == column.name);
                        let measured = found.and_then(|p| {
                            Some(Entry {
                                text: scale.text(p.measured?),
                                sub: p.measured_ci95.map_or_else(String::new, |[low, high]| {
                                    format!("[{}, {}]", scale.text(low), scale.text(high))
                                }),
                                words: false,
                            })
                        });
                        [
                            found.map_or_else(none, |p| figure(scale.text(p.published))),
                            measured.unwrap_or_else(none),
                        ]
                    })
                    .collect(),
            })
            .collect();
        tables.push(Table {
            caption: format!("Published beside measured, under `{}`", condition.name),
            head,
            rows,
            folded: false,
        });
    }
    tables
}

/// How the trials of each cell ended.
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

/// The unit of a quantity of the path, by its name's end.
fn path_unit(name: &str) -> Unit {
    match name {
        name if name.ends_with("_ns") => Unit::Nanoseconds,
        name if name.ends_with("_bps") => Unit::BitsPerSecond,
        name if name.ends_with("_bytes") => Unit::Bytes,
        name if name.ends_with("_ratio") => Unit::Ratio,
        _ => Unit::Count,
    }
}

/// What was asked of the path, and what it did.
pub fn path(summary: &Summary) -> Table {
    let rows = summary
        .path_checks
        .iter()
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
                        words(check.condition.clone()),
                        show(quantity.asked),
                        show(quantity.achieved),
                        figure(format!(
                            "{} to {} {}",
                            scale.text(quantity.lowest),
                            scale.text(quantity.highest),
                            scale.unit
                        )),
                        figure(quantity.n.to_string()),
                        words(if quantity.within {
                            "✓ within"
                        } else {
                            "✗ outside"
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

/// What the study asks of each condition's path.
pub fn conditions(data: &RunData) -> Table {
    let row = |condition: &Condition, direction: &str, link: &Link| Row {
        series: -1,
        heading: condition.name.clone(),
        cells: vec![
            words(direction),
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
            figure(
                link.rate
                    .map_or_else(|| "unlimited".to_owned(), |rate| rate.to_string()),
            ),
            figure(condition.queue_limit(link).to_string()),
            figure(format!("{} B", condition.mtu_bytes)),
        ],
    };
    Table {
        caption: "The conditions, as the study asks for them".to_owned(),
        head: [
            "condition",
            "direction",
            "delay",
            "jitter",
            "loss",
            "link rate",
            "queue limit",
            "largest packet",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows: data
            .header
            .study
            .conditions
            .iter()
            .flat_map(|c| {
                [
                    row(c, "sender to receiver", &c.forward),
                    row(c, "receiver to sender", &c.reverse),
                ]
            })
            .collect(),
        folded: false,
    }
}

/// The transports: driver, options, and what was read back in their trials.
pub fn transports(data: &RunData) -> Table {
    let rows = data
        .header
        .study
        .transports
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
            let mut facts: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
            for trial in data
                .trials
                .iter()
                .filter(|t| t.transport == transport.label)
            {
                for (name, value) in &trial.facts {
                    facts.entry(name).or_default().insert(value);
                }
            }
            let facts: Vec<String> = facts
                .into_iter()
                .map(|(name, values)| {
                    let shown: Vec<&str> = values.iter().take(3).copied().collect();
                    let more = if values.len() > 3 { ", …" } else { "" };
                    format!("{name}: {}{more}", shown.join(", "))
                })
                .collect();
            Row {
                series: series(data, &transport.label),
                heading: transport.label.clone(),
                cells: vec![
                    words(transport.driver.clone()),
                    words(if options.is_empty() {
                        "defaults".to_owned()
                    } else {
                        options.join(", ")
                    }),
                    words(facts.join("; ")),
                ],
            }
        })
        .collect();
    Table {
        caption: "The transports: what was asked for and what was read back".to_owned(),
        head: ["transport", "driver", "options", "read back in its trials"]
            .map(str::to_owned)
            .to_vec(),
        rows,
        folded: false,
    }
}

/// Facts about the hosts; where all hosts say the same, once.
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
