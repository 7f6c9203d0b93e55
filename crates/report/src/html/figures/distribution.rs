//! Every trial as a point beside its box.

use plotters::prelude::*;
use regatta_model::metric;

use super::{
    Figure, anchor,
    canvas::{Align, Area, Drawn, Ink, PX, Panel, line, mark, width_of, write},
    frame::{Frame, LABEL_CHARACTERS, axis_end},
    places,
};
use crate::{
    ReportError, RunData,
    format::{Scale, shorten},
};

const WIDTH: i32 = 420;
const ROW: i32 = 40;

/// One transport in one panel.
struct Row<'a> {
    series: usize,
    label: &'a str,
    values: Vec<f64>,
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
                .map(|(series, transport)| Row {
                    series,
                    label: &transport.label,
                    values: data
                        .measured(&transport.label, condition, workload)
                        .filter_map(|trial| trial.metrics.get(name).copied())
                        .filter(|value| value.is_finite())
                        .collect(),
                })
                .filter(|row| !row.values.is_empty())
                .collect();
            (heading.as_str(), rows)
        })
        .collect();
    let values = || panels.iter().flat_map(|(_, rows)| rows).flat_map(|row| &row.values);
    if values().next().is_none() {
        return Ok(None);
    }
    let largest = values().copied().fold(0.0, f64::max);
    let scale = Scale::for_largest(definition.unit, largest);
    let end = axis_end(scale.apply(largest));
    let x_title = scale.heading(definition.title);

    let mut drawn = Vec::new();
    for (number, (heading, rows)) in panels.iter().enumerate() {
        if rows.is_empty() {
            continue;
        }
        let said: Vec<String> = rows
            .iter()
            .filter_map(|row| {
                let d = regatta_stats::describe(&row.values)?;
                Some(format!(
                    "{}: median {}, quartiles {} and {}",
                    row.label,
                    scale.text(d.median),
                    scale.text(d.q1),
                    scale.text(d.q3)
                ))
            })
            .collect();
        drawn.push(
            Panel {
                id: &format!("box-{}-{number}", anchor(name)),
                title: &format!("Distribution of {x_title} under {heading}"),
                description: &format!("{}.", said.join("; ")),
                width: WIDTH,
                height: Frame::TOP + Frame::BOTTOM + ROW * rows.len() as i32,
            }
            .draw(|area| panel(area, heading, &x_title, rows, scale, end))?,
        );
    }
    Ok(Some(Figure {
        id: format!("figure-box-{}", anchor(name)),
        title: format!("Every trial's {} beside its box", definition.title),
        caption: format!(
            "Box: lower to upper quartile, with the median as a thick line; whiskers: smallest and \
             largest trial; below it every trial. {}",
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
    let frame = Frame { heading, y_title: "", x_title, left, right: 12, y_ticks: false };
    let chart = frame.draw(area, 0.0..end, 0.0..rows.len() as f64, |_| String::new())?;
    for (position, row) in rows.iter().enumerate() {
        let Some(d) = regatta_stats::describe(&row.values) else {
            continue;
        };
        let x = |value: f64| chart.backend_coord(&(scale.apply(value).clamp(0.0, end), 0.0)).0;
        let top = chart.backend_coord(&(0.0, (rows.len() - position) as f64)).1;
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
        if row.values.len() > 1 {
            let (q1, q3) = (x(d.q1), x(d.q3));
            area.draw(&Rectangle::new([(q1, upper), (q3, lower)], ink.key().mix(0.2).filled()))?;
            line(
                area,
                vec![(q1, upper), (q3, upper), (q3, lower), (q1, lower), (q1, upper), (q1 + PX, upper)],
                ink,
                1.2,
            )?;
            line(area, vec![(x(d.min), box_y), (q1, box_y)], ink, 1.2)?;
            line(area, vec![(q3, box_y), (x(d.max), box_y)], ink, 1.2)?;
            line(area, vec![(x(d.median), upper), (x(d.median), lower)], ink, 3.0)?;
        }
        for (number, value) in row.values.iter().enumerate() {
            // Points alternate between three heights, so that equal trials stay visible.
            let y = box_y + (11 + 3 * (number as i32 % 3)) * PX;
            area.draw(&Circle::new((x(*value), y), 2 * PX, ink.key().mix(0.7).filled()))?;
        }
    }
    Ok(())
}
