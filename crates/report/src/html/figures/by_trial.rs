//! Figure of every trial in the order in which they ran, which shows drift of the machine.

use regatta_model::metric;

use super::{
    Figure, anchor,
    canvas::{Area, Drawn, Ink, PX, Panel, line, mark},
    capital,
    frame::{EndLabel, Frame, axis_end, end_labels, room_for_labels, tick},
    places,
};
use crate::{ReportError, RunData, format::Scale};

const WIDTH: i32 = 420;
const HEIGHT: i32 = 270;

/// One transport in one panel: `(seconds since the run began, value)`.
struct Line<'a> {
    series: usize,
    label: &'a str,
    points: Vec<(f64, f64)>,
}

/// Draws the figure of one metric, or nothing if fewer than two trials of any cell have it.
pub fn draw(data: &RunData, name: &str) -> Result<Option<Figure>, ReportError> {
    let Some(definition) = metric::find(name) else {
        return Ok(None);
    };
    let places = places(data);
    let panels: Vec<(&str, Vec<Line<'_>>)> = places
        .iter()
        .map(|(condition, workload, heading)| {
            (heading.as_str(), lines(data, name, condition, workload))
        })
        .collect();
    let points = || {
        panels
            .iter()
            .flat_map(|(_, lines)| lines)
            .flat_map(|line| &line.points)
    };
    if !panels
        .iter()
        .flat_map(|(_, lines)| lines)
        .any(|line| line.points.len() > 1)
    {
        return Ok(None);
    }
    let scale = Scale::for_largest(definition.unit, points().map(|p| p.1).fold(0.0, f64::max));
    let y_end = axis_end(points().map(|p| scale.apply(p.1)).fold(0.0, f64::max));
    let elapsed = points().map(|p| p.0).fold(0.0, f64::max);
    let (divisor, unit) = match elapsed {
        s if s >= 7200.0 => (3600.0, "h"),
        s if s >= 180.0 => (60.0, "min"),
        _ => (1.0, "s"),
    };
    let x_end = axis_end(elapsed / divisor);
    let x_title = format!("time since the run began, {unit}");
    let y_title = scale.heading(definition.title);
    let labels = data
        .header
        .study
        .transports
        .iter()
        .map(|t| t.label.as_str());
    let right = room_for_labels(labels);

    let mut drawn = Vec::new();
    for (number, (heading, lines)) in panels.iter().enumerate() {
        if lines.is_empty() {
            continue;
        }
        drawn.push(
            Panel {
                id: &format!("trial-{}-{number}", anchor(name)),
                title: &format!("{}: every trial under {heading}", capital(definition.title)),
                description: &format!("One mark for each measured trial, over {}.", x_title),
                width: WIDTH,
                height: HEIGHT,
            }
            .draw(|area| {
                let frame = Frame {
                    heading,
                    y_title: &y_title,
                    x_title: &x_title,
                    left: 44,
                    right,
                    y_ticks: true,
                };
                panel(area, &frame, lines, scale, divisor, [x_end, y_end])
            })?,
        );
    }
    Ok(Some(Figure {
        id: format!("figure-trial-{}", anchor(name)),
        title: format!(
            "{}: every trial, in the order in which they ran",
            capital(definition.title)
        ),
        caption: format!(
            "One mark for each measured trial at the time of its start. Within each round the \
             order is random. A slope that all transports share is drift of the machine. {}",
            definition.definition
        ),
        panels: drawn,
    }))
}

fn lines<'a>(
    data: &'a RunData,
    name: &str,
    condition: &'a str,
    workload: &'a str,
) -> Vec<Line<'a>> {
    let began = data
        .trials
        .iter()
        .map(|trial| trial.started_unix_ns)
        .min()
        .unwrap_or(data.header.started_unix_ns);
    data.header
        .study
        .transports
        .iter()
        .enumerate()
        .filter_map(|(series, transport)| {
            let mut points: Vec<(f64, f64)> = data
                .measured(&transport.label, condition, workload)
                .filter_map(|trial| {
                    let value = *trial.metrics.get(name)?;
                    let at = trial.started_unix_ns.saturating_sub(began) as f64 / 1e9;
                    value.is_finite().then_some((at, value))
                })
                .collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            (!points.is_empty()).then_some(Line {
                series,
                label: &transport.label,
                points,
            })
        })
        .collect()
}

fn panel(
    area: &Area<'_>,
    frame: &Frame<'_>,
    lines: &[Line<'_>],
    scale: Scale,
    divisor: f64,
    [x_end, y_end]: [f64; 2],
) -> Drawn {
    let chart = frame.draw(area, 0.0..x_end, 0.0..y_end, |value| tick(*value))?;
    let mut labels = Vec::new();
    for Line {
        series,
        label,
        points,
    } in lines
    {
        let path: Vec<(i32, i32)> = points
            .iter()
            .map(|(t, value)| {
                chart.backend_coord(&(t / divisor, scale.apply(*value).clamp(0.0, y_end)))
            })
            .collect();
        line(area, path.clone(), Ink::Dashed(*series), 1.0)?;
        // With very many trials the marks would hide one another.
        for point in path.iter().step_by(path.len().div_ceil(150).max(1)) {
            mark(area, *series, *point, 3.2, false)?;
        }
        if let Some(end) = path.last() {
            labels.push(EndLabel {
                series: *series,
                text: label,
                at: *end,
            });
        }
    }
    let (right_edge, bottom) = chart.backend_coord(&(x_end, 0.0));
    end_labels(
        area,
        right_edge,
        (Frame::TOP + 4) * PX,
        bottom - 4 * PX,
        &labels,
    )
}
