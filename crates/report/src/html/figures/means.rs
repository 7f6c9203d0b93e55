//! Figure of means with their interval, every trial, and published values, one row for each
//! transport.

use std::borrow::Cow;

use plotters::prelude::*;
use regatta_model::{MetricDefinition, Outcome, WorkloadKind, metric};

use super::{
    Figure, anchor,
    canvas::{Align, Area, Drawn, Ink, PX, Panel, line, mark, text_style, width_of, write},
    capital,
    frame::{Frame, LABEL_CHARACTERS, axis_end},
    places,
};
use crate::{
    ReportError, RunData, Summary,
    analysis::Cell,
    format::{Scale, shorten},
};

const WIDTH: i32 = 420;
const ROW: i32 = 34;

/// Longest label of a transport and a workload, in characters.
const SPREAD_LABEL_CHARACTERS: usize = 27;

/// One transport in one panel.
struct Row<'a> {
    label: Cow<'a, str>,
    /// Position in the study; `None` for a transport that is only in the publication.
    series: Option<usize>,
    cell: Option<&'a Cell>,
    trials: Vec<f64>,
    published: Option<f64>,
}

/// Draws the figure of one metric, or nothing if no trial has it.
pub fn draw(data: &RunData, summary: &Summary, name: &str) -> Result<Option<Figure>, ReportError> {
    let Some(definition) = metric::find(name) else {
        return Ok(None);
    };
    let places = places(data);
    // A workload that has other metrics has no panel here.
    let panels: Vec<(String, Vec<Row<'_>>)> = places
        .iter()
        .map(|(condition, workload, heading)| {
            (
                heading.clone(),
                rows(data, summary, name, condition, workload),
            )
        })
        .filter(|(_, rows)| rows.iter().any(|row| !row.trials.is_empty()))
        .collect();
    let title = format!(
        "{}: each transport under each condition",
        capital(definition.title)
    );
    let id = format!("mean-{}", anchor(name));
    figure(definition, &panels, &id, title, LABEL_CHARACTERS)
}

/// Draws one metric of every workload that spreads messages, side by side, which shows the cost of
/// blocking by the loss of another message. `None` if the study has fewer than two of them.
pub fn draw_spread(
    data: &RunData,
    summary: &Summary,
    name: &str,
) -> Result<Option<Figure>, ReportError> {
    let Some(definition) = metric::find(name) else {
        return Ok(None);
    };
    let study = &data.header.study;
    let spread: Vec<&str> = study
        .workloads
        .iter()
        .filter(|workload| matches!(workload.kind, WorkloadKind::MultiStream { .. }))
        .map(|workload| workload.name.as_str())
        .collect();
    if spread.len() < 2 {
        return Ok(None);
    }
    let panels: Vec<(String, Vec<Row<'_>>)> = study
        .conditions
        .iter()
        .map(|condition| {
            let mut beside = Vec::new();
            for series in 0..study.transports.len() {
                for workload in &spread {
                    let of_workload = rows(data, summary, name, &condition.name, workload);
                    beside.extend(of_workload.into_iter().filter_map(|mut row| {
                        if row.series != Some(series) || row.trials.is_empty() {
                            return None;
                        }
                        row.label = format!("{}, {workload}", row.label).into();
                        Some(row)
                    }));
                }
            }
            (condition.name.clone(), beside)
        })
        .filter(|(_, rows)| !rows.is_empty())
        .collect();
    let title = format!("{}: the same messages, spread", capital(definition.title));
    let id = format!("spread-{}", anchor(name));
    figure(definition, &panels, &id, title, SPREAD_LABEL_CHARACTERS)
}

fn figure(
    definition: &MetricDefinition,
    panels: &[(String, Vec<Row<'_>>)],
    id: &str,
    title: String,
    longest_label: usize,
) -> Result<Option<Figure>, ReportError> {
    let name = definition.name;
    if panels.is_empty() {
        return Ok(None);
    }
    let largest = panels
        .iter()
        .flat_map(|(_, rows)| rows)
        .flat_map(|row| {
            let interval = mean(row, name).and_then(|(_, ci)| ci);
            row.trials
                .iter()
                .copied()
                .chain(row.published)
                .chain(interval.map(|[_, high]| high))
        })
        .fold(0.0, f64::max);
    // An interval of very few trials can be far wider than anything that was measured; the axis
    // follows the values and lets such an interval run out of the panel.
    let values = panels
        .iter()
        .flat_map(|(_, rows)| rows)
        .flat_map(|row| row.trials.iter().copied().chain(row.published))
        .fold(0.0, f64::max);
    let largest = largest.min(values * 1.5);
    let scale = Scale::for_largest(definition.unit, largest);
    let axis = scale.heading(definition.title);
    let end = axis_end(scale.apply(largest));
    let published = panels
        .iter()
        .any(|(_, rows)| rows.iter().any(|row| row.published.is_some()));

    let mut drawn = Vec::new();
    for (number, (heading, rows)) in panels.iter().enumerate() {
        let id = format!("{id}-{number}");
        let said: Vec<String> = rows
            .iter()
            .filter_map(|row| Some(format!("{} {}", row.label, scale.text(mean(row, name)?.0))))
            .collect();
        drawn.push(
            Panel {
                id: &id,
                title: &format!("Mean {axis} under {heading}"),
                description: &format!("{}.", said.join("; ")),
                width: WIDTH,
                height: Frame::HEADING + Frame::BOTTOM + ROW * rows.len() as i32,
            }
            .draw(|area| {
                panel(
                    area,
                    heading,
                    &axis,
                    rows,
                    (name, longest_label),
                    scale,
                    end,
                )
            })?,
        );
    }
    Ok(Some(Figure {
        id: format!("figure-{id}"),
        title,
        caption: format!(
            "Large mark and bar: geometric mean and its 95 % confidence interval (Student's t). Small dots: \
             every measured trial.{} {}",
            if published {
                " Hollow mark: published value, see the notes below its table."
            } else {
                ""
            },
            definition.definition
        ),
        panels: drawn,
    }))
}

fn rows<'a>(
    data: &'a RunData,
    summary: &'a Summary,
    name: &str,
    condition: &'a str,
    workload: &'a str,
) -> Vec<Row<'a>> {
    let transports = &data.header.study.transports;
    let published = |label: &str| {
        data.header
            .study
            .published
            .iter()
            .find(|p| {
                p.transport == label
                    && p.condition == condition
                    && p.is_of_workload(workload)
                    && p.metric == name
            })
            .map(|p| p.value)
    };
    let mut rows: Vec<Row<'a>> = transports
        .iter()
        .enumerate()
        .map(|(series, transport)| Row {
            label: transport.label.as_str().into(),
            series: Some(series),
            cell: summary.cell(&transport.label, condition, workload),
            trials: data
                .measured(&transport.label, condition, workload)
                .filter_map(|trial| trial.metrics.get(name).copied())
                .filter(|value| value.is_finite())
                .collect(),
            published: published(&transport.label),
        })
        .collect();
    rows.extend(
        data.header
            .study
            .published
            .iter()
            .filter(|p| p.condition == condition && p.is_of_workload(workload) && p.metric == name)
            .filter(|p| !transports.iter().any(|t| t.label == p.transport))
            .map(|p| Row {
                label: p.transport.as_str().into(),
                series: None,
                cell: None,
                trials: Vec::new(),
                published: Some(p.value),
            }),
    );
    rows
}

fn mean(row: &Row<'_>, name: &str) -> Option<(f64, Option<[f64; 2]>)> {
    let metric = row.cell?.metrics.get(name)?;
    Some(metric.shown(name))
}

/// Returns the reason for which a row has no value.
fn absence(cell: &Cell) -> &'static str {
    [
        Outcome::Unsupported,
        Outcome::Failed,
        Outcome::TimedOut,
        Outcome::Invalid,
    ]
    .into_iter()
    .find(|outcome| cell.outcome(*outcome) > 0)
    .map_or("not measured", |outcome| match outcome {
        Outcome::Unsupported => "unsupported here",
        Outcome::Failed => "failed",
        Outcome::TimedOut => "timed out",
        _ => "invalid",
    })
}

fn panel(
    area: &Area<'_>,
    heading: &str,
    axis: &str,
    rows: &[Row<'_>],
    (name, longest_label): (&str, usize),
    scale: Scale,
    end: f64,
) -> Drawn {
    let left = rows
        .iter()
        .map(|row| width_of(&shorten(&row.label, longest_label)) / PX + 22)
        .max()
        .unwrap_or(60)
        .clamp(60, 54 + 6 * longest_label as i32);
    let frame = Frame {
        heading,
        y_title: "",
        x_title: axis,
        left,
        right: 54,
        y_ticks: false,
    };
    let chart = frame.draw(area, 0.0..end, 0.0..rows.len() as f64, |_| String::new())?;
    let at = |value: f64, row: f64| {
        chart.backend_coord(&(scale.apply(value).clamp(0.0, end), rows.len() as f64 - row))
    };
    for (position, row) in rows.iter().enumerate() {
        let middle = position as f64 + 0.5;
        let y = at(0.0, middle).1;
        let ink = row.series.map_or(Ink::Muted, Ink::Series);
        if let Some(series) = row.series {
            mark(area, series, (7 * PX, y), 4.5, false)?;
        }
        write(
            area,
            (17 * PX, y),
            &shorten(&row.label, longest_label),
            Ink::Text,
            Align::Left,
        )?;
        for value in &row.trials {
            let (x, _) = at(*value, middle);
            area.draw(&Circle::new(
                (x, y + 9 * PX),
                2 * PX,
                ink.key().mix(0.65).filled(),
            ))?;
        }
        if let Some(value) = row.published {
            match row.series {
                Some(series) => mark(area, series, at(value, middle), 7.0, true)?,
                None => area.draw(&Circle::new(
                    at(value, middle),
                    6 * PX,
                    ink.key().stroke_width(15),
                ))?,
            }
        }
        match (mean(row, name), row.series, row.cell) {
            (Some((value, interval)), Some(series), _) => {
                if let Some([low, high]) = interval {
                    let ends = [low, high].map(|value| at(value, middle).0);
                    line(area, ends.map(|x| (x, y)).to_vec(), ink, 2.0)?;
                    // An interval that runs out of the panel has no cap there.
                    let inside = |value: f64| (0.0..=end).contains(&scale.apply(value));
                    for (x, _) in ends
                        .into_iter()
                        .zip([low, high])
                        .filter(|(_, v)| inside(*v))
                    {
                        line(area, vec![(x, y - 8 * PX), (x, y + 8 * PX)], ink, 2.0)?;
                    }
                }
                mark(area, series, at(value, middle), 5.0, false)?;
                let (width, _) = area.dim_in_pixel();
                area.draw_text(
                    &scale.text(value),
                    &text_style(12.0, Ink::Text, Align::Right, true),
                    (width as i32 - PX, y),
                )?;
            }
            (None, _, Some(cell)) => {
                write(
                    area,
                    (at(0.0, middle).0 + 6 * PX, y),
                    absence(cell),
                    Ink::Muted,
                    Align::Left,
                )?;
            }
            _ => {}
        }
    }
    Ok(())
}
