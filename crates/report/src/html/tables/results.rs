//! Tables of the measured values.

use std::collections::BTreeSet;

use regatta_model::{MetricDefinition, metric};

use super::{
    Entry, Row, Table, cells_of, definitions, figure, mean_entry, none, outcome_words, places,
    scale, series,
};
use crate::{
    RunData, Summary,
    analysis::{Cell, DIFFERENCE_METRICS, Failure, HEADLINE_METRICS},
    format::{Scale, list, number, p_value, signed_percent},
};

/// Metrics in the columns of the table of means.
const COLUMNS: [&str; 10] = [
    "goodput_bps",
    "requests_per_second",
    "message_delay_p95_ns",
    "time_to_first_byte_p50_ns",
    "time_to_completion_p50_ns",
    "round_trip_delay_ns",
    "stream_round_trip_delay_ns",
    "cpu_host_ratio",
    "goodput_per_core_percent_bps",
    "message_loss_ratio",
];

/// Returns tables of means with their interval, one for each condition.
pub fn means(data: &RunData, summary: &Summary) -> Vec<Table> {
    places(data)
        .into_iter()
        .map(|(heading, condition, workload)| {
            // The columns of this work, the same under every condition.
            let present: Vec<(&MetricDefinition, Scale)> = definitions(&COLUMNS)
                .into_iter()
                .filter(|column| {
                    summary.cells.iter().any(|cell| {
                        cell.workload == workload && cell.metrics.contains_key(column.name)
                    })
                })
                .map(|column| (column, scale(summary, column)))
                .collect();
            let place = (summary.verdict.conditions.iter())
                .find(|place| place.condition == condition && place.workload == workload);
            let letters = |cell: &Cell| place.and_then(|place| place.letters(&cell.transport));
            let cells: Vec<&Cell> = cells_of(summary, condition, workload).collect();
            let grouped = cells.iter().any(|cell| letters(cell).is_some());
            let mut head = vec!["transport".to_owned()];
            if grouped {
                head.push("group".to_owned());
            }
            head.extend(
                present
                    .iter()
                    .map(|(column, scale)| scale.heading(column.title)),
            );
            head.push("trials".to_owned());
            let of_groups = if grouped {
                "; transports of a group cannot be told apart"
            } else {
                ""
            };
            Table {
                caption: format!(
                    "Geometric means under {heading} (of loss the means), with their 95 % confidence \
                     interval{of_groups}"
                ),
                head,
                rows: (cells.into_iter())
                    .map(|cell| {
                        let mut entries: Vec<Entry> = present
                            .iter()
                            .enumerate()
                            .map(
                                |(number, (column, scale))| match cell.metrics.get(column.name) {
                                    Some(metric) => mean_entry(column.name, metric, *scale),
                                    None if cell.n == 0 && number == 0 => {
                                        figure(outcome_words(cell))
                                    }
                                    None => none(),
                                },
                            )
                            .collect();
                        if grouped {
                            entries.insert(0, letters(cell).map_or_else(none, figure));
                        }
                        entries.push(trials(summary, cell));
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

/// How many trials of a cell were measured, and what is to be known of them.
fn trials(summary: &Summary, cell: &Cell) -> Entry {
    let doubts = [
        (cell.deadline_reached, "at the deadline"),
        (cell.path_doubted, "over a doubtful path"),
    ];
    Entry {
        text: format!("{} of {}", cell.n, summary.rounds),
        sub: (doubts.into_iter())
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect::<Vec<_>>()
            .join(", "),
        words: false,
    }
}

/// The whole description of the headline metrics and of host CPU.
pub fn descriptions(data: &RunData, summary: &Summary) -> Vec<Table> {
    let mut tables = Vec::new();
    let [before @ .., last] = HEADLINE_METRICS;
    let names: Vec<&str> = before.into_iter().chain(["cpu_host_ratio", last]).collect();
    for definition in definitions(&names) {
        let scale = scale(summary, definition);
        for (heading, condition, workload) in places(data) {
            let rows: Vec<Row> = cells_of(summary, condition, workload)
                .filter_map(|cell| {
                    let m = cell.metrics.get(definition.name)?;
                    let optional =
                        |value: Option<f64>| value.map_or_else(none, |v| figure(scale.text(v)));
                    let interval = |interval: Option<[f64; 2]>| {
                        interval.map_or_else(none, |[low, high]| {
                            figure(format!("{} to {}", scale.text(low), scale.text(high)))
                        })
                    };
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
                            interval(m.ci95),
                            optional(m.geometric_mean),
                            interval(m.geometric_ci95),
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
                    "geometric mean",
                    "95 % interval of the geometric mean",
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

/// Returns the tables of losses, by the place where they occurred.
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

/// Returns tables of all measured metrics, by condition: metrics down, transports across.
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
                                    cell.metrics.get(m.name).map_or_else(none, |metric| {
                                        mean_entry(m.name, metric, scale)
                                    })
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

/// Returns tables with transports down, some metrics across.
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
                                cell.metrics.get(column.name).map_or_else(none, |metric| {
                                    mean_entry(column.name, metric, *scale)
                                })
                            })
                            .collect(),
                    })
                    .collect(),
                folded,
            }
        })
        .collect()
}

/// Returns the tables of each transport's differences under each further condition.
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
            let columns: Vec<&MetricDefinition> = definitions(&DIFFERENCE_METRICS)
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
                    "Change of the geometric means from `{}` to `{}`{with}, with its interval at the level \
                     of the run's correction",
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
                                    text: (d.claim.ratio)
                                        .map_or_else(|| "–".to_owned(), |r| signed_percent(r - 1.0)),
                                    sub: d.claim.interval.map_or_else(String::new, |ends| {
                                        let [low, high] = ends.map(|end| signed_percent(end - 1.0));
                                        format!("[{low}, {high}]")
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

/// Returns the tables of all pairs.
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
                    let claim = &c.claim;
                    let lossy = |label: &str| {
                        let cell = summary.cell(label, condition, workload)?;
                        let failures = cell.failures.iter().map(Failure::in_words);
                        let failures: Vec<String> = failures.collect();
                        (!failures.is_empty()).then(|| format!("{label} {}", list(&failures)))
                    };
                    let failures: Vec<String> =
                        [lossy(&c.a), lossy(&c.b)].into_iter().flatten().collect();
                    let mean =
                        |mean: Option<f64>| mean.map_or_else(none, |m| figure(scale.text(m)));
                    Row {
                        series: -1,
                        heading: format!("{} against {}", c.a, c.b),
                        cells: vec![
                            Entry {
                                text: claim
                                    .ratio
                                    .map_or_else(|| "–".to_owned(), |r| format!("{}×", number(r))),
                                sub: claim.interval.map_or_else(String::new, |[low, high]| {
                                    format!(
                                        "[{}, {}] at {} %",
                                        number(low),
                                        number(high),
                                        level(claim.confidence)
                                    )
                                }),
                                words: false,
                            },
                            mean(c.geometric_mean_a),
                            mean(c.geometric_mean_b),
                            figure(claim.p_holm.map_or_else(|| "–".to_owned(), p_value)),
                            figure(claim.n.to_string()),
                            claim
                                .detectable_ratio
                                .map_or_else(none, |r| figure(format!("{}×", number(r)))),
                            Entry {
                                text: claim.conclusion.name().to_owned(),
                                sub: failures.join("; "),
                                words: true,
                            },
                        ],
                    }
                })
                .collect();
            if rows.is_empty() {
                continue;
            }
            tables.push(Table {
                caption: format!("{}: every pair under {heading}", capital(definition.title)),
                head: vec![
                    "pair".to_owned(),
                    "ratio".to_owned(),
                    scale.heading("first"),
                    scale.heading("second"),
                    "p (Holm)".to_owned(),
                    "rounds".to_owned(),
                    "detectable".to_owned(),
                    "the first is".to_owned(),
                ],
                rows,
                folded: !data.is_primary(name, workload),
            });
        }
    }
    tables
}

/// Formats a confidence in per cent with as many digits as distinguish it from 100.
fn level(confidence: f64) -> String {
    let percent = format!("{:.4}", confidence * 100.0);
    percent
        .trim_end_matches('0')
        .trim_end_matches('.')
        .to_owned()
}

fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(characters).collect()
    })
}

/// Returns the notes on published figures, each once with the figures that it is about.
pub fn published_notes(summary: &Summary) -> Vec<String> {
    let mut notes: Vec<(&str, &str, Vec<String>)> = Vec::new();
    for figure in &summary.published {
        let Some(note) = figure.note.as_deref() else {
            continue;
        };
        let about = format!("`{}` under `{}`", figure.metric, figure.condition);
        let known = notes
            .iter_mut()
            .find(|(transport, known, _)| *transport == figure.transport && *known == note);
        match known {
            Some((_, _, figures)) => figures.push(about),
            None => notes.push((&figure.transport, note, vec![about])),
        }
    }
    notes
        .into_iter()
        .map(|(transport, note, figures)| {
            let all = summary
                .published
                .iter()
                .filter(|p| p.transport == transport)
                .count();
            if figures.len() == all {
                format!("`{transport}`: {note}")
            } else {
                format!("`{transport}`, {}: {note}", list(&figures))
            }
        })
        .collect()
}

/// Returns tables of published figures beside the measured ones, one for each condition and
/// workload.
pub fn published(data: &RunData, summary: &Summary) -> Vec<Table> {
    let study = &data.header.study;
    let mut tables = Vec::new();
    // Figures that name no workload stand before those that do.
    let workloads: Vec<Option<&str>> = std::iter::once(None)
        .chain(
            study
                .workloads
                .iter()
                .map(|workload| Some(workload.name.as_str())),
        )
        .collect();
    for (condition, workload) in study
        .conditions
        .iter()
        .flat_map(|condition| workloads.iter().map(move |workload| (condition, *workload)))
    {
        let here: Vec<_> = summary
            .published
            .iter()
            .filter(|p| p.condition == condition.name && p.workload.as_deref() == workload)
            .collect();
        if here.is_empty() {
            continue;
        }
        let names: BTreeSet<&str> = here.iter().map(|p| p.metric.as_str()).collect();
        let columns: Vec<&MetricDefinition> = metric::METRICS
            .iter()
            .filter(|m| names.contains(m.name))
            .collect();
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
            caption: match workload {
                None => format!("Published beside measured, under `{}`", condition.name),
                Some(workload) => format!(
                    "Published beside measured, under `{}` with `{workload}`",
                    condition.name
                ),
            },
            head,
            rows,
            folded: false,
        });
    }
    tables
}
