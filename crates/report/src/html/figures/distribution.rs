//! Figure of every trial as a point beside its box, relative to the median of its cell, which shows
//! how steady a transport is.
//!
//! On an axis from zero the boxes of a steady run are thinner than their lines; the figure is about
//! spread, so spread is the axis.

use plotters::prelude::*;
use regatta_model::metric;

use super::{
    Figure, anchor,
    canvas::{Align, Area, Drawn, Ink, PX, Panel, line, mark, text_style, width_of, write},
    frame::{Frame, LABEL_CHARACTERS, axis_end},
    places,
};
use crate::{
    ReportError, RunData,
    format::{Scale, number, shorten},
};

const WIDTH: i32 = 420;
const ROW: i32 = 40;

/// One transport in one panel.
struct Row<'a> {
    series: usize,
    label: &'a str,
    /// Median in the metric's unit.
    median: f64,
    /// Deviations from the median, in per cent.
    deviations: Vec<f64>,
}

fn row<'a>(series: usize, label: &'a str, values: &[f64]) -> Option<Row<'a>> {
    let median = regatta_stats::describe(values)?.median;
    (median > 0.0).then(|| Row {
        series,
        label,
        median,
        deviations: values
            .iter()
            .map(|value| (value / median - 1.0) * 100.0)
            .collect(),
    })
}

/// Draws the figure of one metric, or nothing if no trial has it.
pub fn draw(data: &RunData, name: &str) -> Result<Option<Figure>, ReportError> {
    let Some(definition) = metric::find(name) else {
        return Ok(None);
    };
    let places = places(data);
    let panels: Vec<(&str, Vec<Row<'_>>)> = places
        .iter()
        .map(|(condition, workload, heading)| {
            let rows = data
                .header
                .study
                .transports
                .iter()
                .enumerate()
                .filter_map(|(series, transport)| {
                    let values: Vec<f64> = data
                        .measured(&transport.label, condition, workload)
                        .filter_map(|trial| trial.metrics.get(name).copied())
                        .filter(|value| value.is_finite())
                        .collect();
                    row(series, &transport.label, &values)
                })
                .collect();
            (heading.as_str(), rows)
        })
        .collect();
    let all = || panels.iter().flat_map(|(_, rows)| rows);
    if !all().any(|row| row.deviations.len() > 1) {
        return Ok(None);
    }
    let widest = all()
        .flat_map(|row| &row.deviations)
        .fold(1.0_f64, |widest, deviation| widest.max(deviation.abs()));
    let end = axis_end(widest);
    let scale = Scale::for_largest(
        definition.unit,
        all().map(|row| row.median).fold(0.0, f64::max),
    );
    let x_title = format!("{} against the median of its cell, %", definition.title);

    let mut drawn = Vec::new();
    for (position, (heading, rows)) in panels.iter().enumerate() {
        if rows.is_empty() {
            continue;
        }
        let said: Vec<String> = rows
            .iter()
            .filter_map(|row| {
                let d = regatta_stats::describe(&row.deviations)?;
                Some(format!(
                    "{}: median {}, quartiles at {} % and {} % of it",
                    row.label,
                    scale.text(row.median),
                    number(d.q1),
                    number(d.q3)
                ))
            })
            .collect();
        drawn.push(
            Panel {
                id: &format!("box-{}-{position}", anchor(name)),
                title: &format!("Spread of {x_title}, under {heading}"),
                description: &format!("{}.", said.join("; ")),
                width: WIDTH,
                height: Frame::HEADING + Frame::BOTTOM + ROW * rows.len() as i32,
            }
            .draw(|area| panel(area, heading, &x_title, rows, scale, end))?,
        );
    }
    Ok(Some(Figure {
        id: format!("figure-box-{}", anchor(name)),
        title: format!(
            "How steady: every trial beside its box, {}",
            definition.title
        ),
        caption: format!(
            "Box: lower to upper quartile, with the median as a thick line; whiskers: smallest and \
             largest trial; below it every trial. All against the median of the same transport \
             under the same condition, which stands at the right ({}). {}",
            if scale.unit.is_empty() {
                "a count"
            } else {
                scale.unit
            },
            definition.definition
        ),
        panels: drawn,
    }))
}

fn panel(
    area: &Area<'_>,
    heading: &str,
    x_title: &str,
    rows: &[Row<'_>],
    scale: Scale,
    end: f64,
) -> Drawn {
    let left = rows
        .iter()
        .map(|row| width_of(&shorten(row.label, LABEL_CHARACTERS)) / PX + 22)
        .max()
        .unwrap_or(60)
        .clamp(60, 150);
    let frame = Frame {
        heading,
        y_title: "",
        x_title,
        left,
        right: 54,
        y_ticks: false,
    };
    let chart = frame.draw(area, -end..end, 0.0..rows.len() as f64, |_| String::new())?;
    for (position, row) in rows.iter().enumerate() {
        let Some(d) = regatta_stats::describe(&row.deviations) else {
            continue;
        };
        let x = |value: f64| chart.backend_coord(&(value.clamp(-end, end), 0.0)).0;
        let top = chart
            .backend_coord(&(0.0, (rows.len() - position) as f64))
            .1;
        let ink = Ink::Series(row.series);
        let box_y = top + 14 * PX;
        let (upper, lower) = (box_y - 6 * PX, box_y + 6 * PX);
        mark(area, row.series, (7 * PX, box_y + 4 * PX), 4.5, false)?;
        write(
            area,
            (17 * PX, box_y + 4 * PX),
            &shorten(row.label, LABEL_CHARACTERS),
            Ink::Text,
            Align::Left,
        )?;
        let (width, _) = area.dim_in_pixel();
        area.draw_text(
            &scale.text(row.median),
            &text_style(12.0, Ink::Text, Align::Right, true),
            (width as i32 - PX, box_y + 4 * PX),
        )?;
        if row.deviations.len() > 1 {
            let (q1, q3) = (x(d.q1), x(d.q3));
            area.draw(&Rectangle::new(
                [(q1, upper), (q3, lower)],
                ink.key().mix(0.2).filled(),
            ))?;
            line(
                area,
                vec![
                    (q1, upper),
                    (q3, upper),
                    (q3, lower),
                    (q1, lower),
                    (q1, upper),
                    (q1 + PX, upper),
                ],
                ink,
                1.2,
            )?;
            line(area, vec![(x(d.min), box_y), (q1, box_y)], ink, 1.2)?;
            line(area, vec![(q3, box_y), (x(d.max), box_y)], ink, 1.2)?;
            line(
                area,
                vec![(x(d.median), upper), (x(d.median), lower)],
                ink,
                3.0,
            )?;
        }
        for (number, value) in row.deviations.iter().enumerate() {
            // Points alternate between three heights, so that equal trials stay visible.
            let y = box_y + (11 + 3 * (number as i32 % 3)) * PX;
            area.draw(&Circle::new(
                (x(*value), y),
                2 * PX,
                ink.key().mix(0.7).filled(),
            ))?;
        }
    }
    Ok(())
}
