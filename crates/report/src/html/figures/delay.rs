//! Figure of the share of messages that took longer than a given delay.

use base64::{Engine, engine::general_purpose::STANDARD};
use hdrhistogram::{Histogram, serialization::Deserializer};
use plotters::prelude::*;
use regatta_model::Unit;

use super::{
    Figure, anchor,
    canvas::{Area, Drawn, Ink, PX, Panel, line, mark},
    frame::{EndLabel, Frame, axis_end, end_labels, room_for_labels, tick},
    places,
};
use crate::{ReportError, RunData, format::Scale};

const WIDTH: i32 = 420;
const HEIGHT: i32 = 300;

/// One transport in one panel: `(delay in nanoseconds, share that took longer)`.
struct Line<'a> {
    series: usize,
    label: &'a str,
    messages: u64,
    points: Vec<(f64, f64)>,
}

/// Draws the figure of one histogram, or nothing if no trial has it.
pub fn draw(data: &RunData, name: &str) -> Result<Option<Figure>, ReportError> {
    let places = places(data);
    let panels: Vec<(&str, Vec<Line<'_>>)> = places
        .iter()
        .map(|(condition, workload, heading)| {
            (heading.as_str(), lines(data, name, condition, workload))
        })
        .collect();
    let all = || panels.iter().flat_map(|(_, lines)| lines);
    if all().next().is_none() {
        return Ok(None);
    }
    let largest = all()
        .flat_map(|l| &l.points)
        .map(|p| p.0)
        .fold(0.0, f64::max);
    let smallest = all()
        .flat_map(|l| &l.points)
        .map(|p| p.1)
        .filter(|share| *share > 0.0)
        .fold(1.0, f64::min);
    // Whole decades, so that every panel ends on a tick.
    let floor = 10f64.powf(smallest.log10().floor().clamp(-6.0, -1.0));
    let scale = Scale::for_largest(Unit::Nanoseconds, largest);
    let x_end = axis_end(scale.apply(largest));
    let (what, title) = match name {
        "one_way_delay_ns" => ("one-way delay", "One-way delay of the messages"),
        "message_delay_ns" => ("message delay", "Delay of the messages"),
        "time_to_first_byte_ns" => (
            "time to first byte",
            "Time to the first byte of the answer, of each connection",
        ),
        "time_to_completion_ns" => (
            "time to completion",
            "Time to the whole answer, of each connection",
        ),
        "stream_round_trip_delay_ns" => (
            "round-trip delay",
            "Round-trip delay of the messages under load, on a stream of the transfer's connection",
        ),
        _ => (
            "round-trip delay",
            "Round-trip delay of the messages under load",
        ),
    };
    let x_title = scale.heading(what);
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
        let said: Vec<String> = lines
            .iter()
            .map(|line| format!("{}: {} messages", line.label, line.messages))
            .collect();
        drawn.push(
            Panel {
                id: &format!("ccdf-{}-{number}", anchor(name)),
                title: &format!("Share of messages that took longer, under {heading}"),
                description: &format!("{}.", said.join("; ")),
                width: WIDTH,
                height: HEIGHT,
            }
            .draw(|area| {
                let frame = Frame {
                    heading,
                    y_title: "share of messages that took longer, %",
                    x_title: &x_title,
                    left: 44,
                    right,
                    y_ticks: true,
                };
                panel(area, &frame, lines, scale, [x_end, floor])
            })?,
        );
    }
    Ok(Some(Figure {
        id: format!("figure-ccdf-{}", anchor(name)),
        title: format!("{title}: how many took longer than how long"),
        caption: "All messages of all measured trials of a cell together, from their HDR \
                  histograms. The vertical axis is logarithmic: where a line crosses 1 % stands \
                  the 99th percentile. A line ends at its longest message."
            .to_owned(),
        panels: drawn,
    }))
}

fn lines<'a>(
    data: &'a RunData,
    name: &str,
    condition: &'a str,
    workload: &'a str,
) -> Vec<Line<'a>> {
    data.header
        .study
        .transports
        .iter()
        .enumerate()
        .filter_map(|(series, transport)| {
            let mut sum = Histogram::<u64>::new(3).ok()?;
            for trial in data.measured(&transport.label, condition, workload) {
                for histogram in trial.histograms.iter().filter(|h| h.name == name) {
                    if let Some(part) = decode(&histogram.hdr_v2_base64) {
                        // A growing histogram takes in any value.
                        sum.add(&part).ok()?;
                    }
                }
            }
            let points = exceedance(&sum);
            (!points.is_empty()).then_some(Line {
                series,
                label: &transport.label,
                messages: sum.len(),
                points,
            })
        })
        .collect()
}

/// Reads a stored histogram; one that cannot be read is left out of the figure.
pub fn decode(base64: &str) -> Option<Histogram<u64>> {
    let bytes = STANDARD.decode(base64).ok()?;
    Deserializer::new().deserialize(&mut bytes.as_slice()).ok()
}

/// Returns the steps of the complementary distribution, from all messages to the longest one.
fn exceedance(histogram: &Histogram<u64>) -> Vec<(f64, f64)> {
    let total = histogram.len();
    if total == 0 {
        return Vec::new();
    }
    let mut points = vec![(histogram.min() as f64, 1.0)];
    let mut seen = 0;
    let mut last = 1.0;
    for step in histogram.iter_recorded() {
        seen += step.count_since_last_iteration();
        let share = (total - seen.min(total)) as f64 / total as f64;
        // Steps too small to be seen are joined.
        if share == 0.0 || last / share > 1.02 {
            let delay = step.value_iterated_to() as f64;
            points.push((delay, last));
            if share > 0.0 {
                points.push((delay, share));
            }
            last = share;
        }
    }
    points
}

fn panel(
    area: &Area<'_>,
    frame: &Frame<'_>,
    lines: &[Line<'_>],
    scale: Scale,
    [x_end, floor]: [f64; 2],
) -> Drawn {
    let chart = frame.draw(area, 0.0..x_end, (floor..1.0).log_scale(), |share| {
        tick(share * 100.0)
    })?;
    let mut labels = Vec::new();
    for Line {
        series,
        label,
        points,
        ..
    } in lines
    {
        let path: Vec<(i32, i32)> = points
            .iter()
            .map(|(delay, share)| {
                chart.backend_coord(&(
                    scale.apply(*delay).clamp(0.0, x_end),
                    share.clamp(floor, 1.0),
                ))
            })
            .collect();
        let Some(end) = path.last().copied() else {
            continue;
        };
        line(area, path.clone(), Ink::Dashed(*series), 1.6)?;
        let every = path.len().div_ceil(4).max(1);
        for point in path
            .iter()
            .skip((every * (2 * series + 1) / 10) % every)
            .step_by(every)
        {
            mark(area, *series, *point, 3.2, false)?;
        }
        labels.push(EndLabel {
            series: *series,
            text: label,
            at: end,
        });
    }
    let (right_edge, bottom) = chart.backend_coord(&(x_end, floor));
    end_labels(
        area,
        right_edge,
        (Frame::TOP + 4) * PX,
        bottom - 4 * PX,
        &labels,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_falls_from_all_to_the_longest() {
        let mut histogram = Histogram::<u64>::new(3).expect("three digits are allowed");
        for value in [30, 30, 40, 50] {
            histogram
                .record(value)
                .expect("a growing histogram takes any value");
        }
        assert_eq!(
            exceedance(&histogram),
            [
                (30.0, 1.0),
                (30.0, 1.0),
                (30.0, 0.5),
                (40.0, 0.5),
                (40.0, 0.25),
                (50.0, 0.25)
            ]
        );
        assert!(decode("not base64!").is_none());
        assert!(decode("AAAA").is_none());
    }
}
