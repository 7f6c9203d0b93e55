//! Figures of quantities over the time of a trial: the median over the rounds, with a band of
//! quartiles.

use std::collections::{BTreeMap, BTreeSet};

use plotters::prelude::*;
use regatta_model::{TrialRecord, metric};

use super::{
    Figure, anchor,
    canvas::{Area, Drawn, Ink, PX, Panel, line, mark},
    capital,
    frame::{EndLabel, Frame, axis_end, end_labels, room_for_labels, tick},
    places,
    steps::{self, Step, steps},
};
use crate::{ReportError, RunData, format::Scale};

const WIDTH: i32 = 420;
const HEIGHT: i32 = 290;
/// Maximum number of points on a panel; more would not be visible.
const MOST_POINTS: f64 = 300.0;

/// Quantity drawn over time.
pub struct What {
    series: &'static str,
    /// Ends whose values are added up; `any` is the end that has the series.
    sides: &'static [&'static str],
    title: &'static str,
    how: &'static str,
}

/// Goodput.
pub const GOODPUT: What = What {
    series: "goodput_bps",
    sides: &["receiver"],
    title: "Goodput over the time of a trial",
    how: "Bits delivered to the receiving application. Where a transport delivers in order, what arrives after a lost packet is held back and then delivered at once, in a sample that can lie above the path's rate.",
};
/// Bits received on the receiver's interface.
pub const RECEIVED: What = What {
    series: "received_bps",
    sides: &["receiver"],
    title: "Bits received over the time of a trial",
    how: "Bits of the IP packets that the receiving host's interface got, headers and retransmissions included, whatever was delivered of them by then.",
};
/// Message round-trip delay under load.
pub const DELAY: What = What {
    series: "round_trip_delay_ns",
    sides: &["sender"],
    title: "Round-trip delay under load over the time of a trial",
    how: "Each probe message counts at its scheduled departure.",
};
/// CPU usage of both ends.
pub const CPU: What = What {
    series: "cpu_ratio",
    sides: &["sender", "receiver"],
    title: "CPU of both ends over the time of a trial",
    how: "CPU time of the sending and the receiving process together, all threads; 100 % is one core.",
};
/// The sender's congestion window.
pub const WINDOW: What = What {
    series: "congestion_window_bytes",
    sides: &["sender"],
    title: "Congestion window over the time of a trial",
    how: "As the sending stack itself reports it.",
};
/// Retransmissions.
pub const RETRANSMISSIONS: What = What {
    series: "retransmitted_packets",
    sides: &["sender"],
    title: "Retransmissions over the time of a trial",
    how: "Retransmitted segments, or packets declared lost, in each interval between samples.",
};
/// Packets sent by the sending host.
pub const PACKETS: What = What {
    series: "packets_sent_per_second",
    sides: &["sender"],
    title: "Packets sent over the time of a trial",
    how: "IP packets that left the sending host's interface.",
};

/// One transport in one panel: `(seconds, lower quartile, median, upper quartile)`.
struct Line<'a> {
    series: usize,
    label: &'a str,
    points: Vec<[f64; 4]>,
}

/// Draws the figure of one series, or nothing if no trial has it.
pub fn draw(data: &RunData, what: &What) -> Result<Option<Figure>, ReportError> {
    let Some(definition) = metric::find_series(what.series) else {
        return Ok(None);
    };
    let places = places(data);
    let panels: Vec<(&str, Vec<Line<'_>>)> = places
        .iter()
        .map(|(condition, workload, heading)| {
            (heading.as_str(), lines(data, what, condition, workload))
        })
        .collect();
    let points = || {
        panels
            .iter()
            .flat_map(|(_, lines)| lines)
            .flat_map(|line| &line.points)
    };
    if points().next().is_none() {
        return Ok(None);
    }
    let scale = Scale::for_largest(definition.unit, points().map(|p| p[3]).fold(0.0, f64::max));
    let y_end = axis_end(points().map(|p| scale.apply(p[3])).fold(0.0, f64::max));
    let ends: Vec<f64> = panels
        .iter()
        .map(|(_, lines)| {
            lines
                .iter()
                .flat_map(|line| &line.points)
                .map(|p| p[0])
                .fold(0.0, f64::max)
        })
        .collect();
    let longest = ends.iter().copied().fold(0.0, f64::max);
    // One axis for all, unless that would squeeze a panel into its left half.
    let own_axes = ends.iter().any(|end| *end > 0.0 && *end < longest / 2.0);
    let labels = data
        .header
        .study
        .transports
        .iter()
        .map(|t| t.label.as_str());
    let right = room_for_labels(labels);
    let y_title = scale.heading(definition.title);

    let schedules: Vec<Vec<Step>> = places
        .iter()
        .map(|(condition, _, _)| {
            let conditions = &data.header.study.conditions;
            let found = conditions.iter().find(|c| c.name == *condition);
            found.map(steps).unwrap_or_default()
        })
        .collect();
    let has_steps = schedules.iter().any(|steps| !steps.is_empty());
    // Each condition once, though it be there with several workloads.
    let listed: BTreeSet<String> = (places.iter().zip(&schedules))
        .map(|((condition, _, _), schedule)| steps::in_words(condition, schedule))
        .collect();
    let listed = String::from_iter(listed);

    let mut drawn = Vec::new();
    for (number, (((heading, lines), end), schedule)) in
        panels.iter().zip(ends).zip(&schedules).enumerate()
    {
        if lines.is_empty() {
            continue;
        }
        let x_end = axis_end(if own_axes { end } else { longest });
        let names: Vec<&str> = lines.iter().map(|line| line.label).collect();
        drawn.push(
            Panel {
                id: &format!("time-{}-{number}", anchor(what.series)),
                title: &format!("{} under {heading}", what.title),
                description: &format!(
                    "Median and quartiles over the rounds of {}, from 0 to {} seconds.",
                    names.join(", "),
                    tick(end)
                ),
                width: WIDTH,
                height: HEIGHT,
            }
            .draw(|area| {
                let lines = (&lines[..], &schedule[..]);
                panel(area, heading, &y_title, right, lines, scale, [x_end, y_end])
            })?,
        );
    }
    Ok(Some(Figure {
        id: format!("figure-time-{}", anchor(what.series)),
        title: capital(what.title),
        caption: caption(what, has_steps.then_some(&listed), own_axes),
        panels: drawn,
    }))
}

/// Returns the text below a figure. `steps` are those of the schedules, in words; `own_axes` is whether
/// each panel has a time axis of its own.
fn caption(what: &What, steps: Option<&String>, own_axes: bool) -> String {
    let mut text = format!(
        "Line: median over the measured trials of each transport; band: lower to upper quartile. \
         Time runs from the first connect call; a line ends where fewer than half of the trials were \
         still going on. {}",
        what.how
    );
    if let Some(steps) = steps {
        text += " Dotted: steps of the path's schedule, with the round-trip delay, rate, loss or jitter \
                 from then on.";
        text += steps;
    }
    if own_axes {
        text += " The panels have the same vertical axis but times of their own.";
    }
    text
}

fn lines<'a>(
    data: &'a RunData,
    what: &What,
    condition: &'a str,
    workload: &'a str,
) -> Vec<Line<'a>> {
    data.header
        .study
        .transports
        .iter()
        .enumerate()
        .filter_map(|(series, transport)| {
            let trials: Vec<&TrialRecord> = data
                .measured(&transport.label, condition, workload)
                .collect();
            let points = quartiles(
                &trials,
                what,
                data.header.study.sample_interval.as_secs_f64(),
            );
            (!points.is_empty()).then_some(Line {
                series,
                label: &transport.label,
                points,
            })
        })
        .collect()
}

/// Returns quartiles over trials in equal steps of time.
fn quartiles(trials: &[&TrialRecord], what: &What, interval: f64) -> Vec<[f64; 4]> {
    let longest = trials
        .iter()
        .flat_map(|trial| &trial.series)
        .filter(|series| series.name == what.series)
        .filter_map(|series| series.t_ns.last())
        .fold(0.0_f64, |longest, t| longest.max(*t as f64 / 1e9));
    let step = interval.max(longest / MOST_POINTS).max(1e-6);
    let binned: Vec<BTreeMap<i64, f64>> = trials
        .iter()
        .map(|trial| bins(trial, what, step))
        .filter(|bins| !bins.is_empty())
        .collect();
    let mut by_bin: BTreeMap<i64, Vec<f64>> = BTreeMap::new();
    for (bin, value) in binned.iter().flatten() {
        by_bin.entry(*bin).or_default().push(*value);
    }
    by_bin
        .into_iter()
        .filter(|(_, values)| values.len() * 2 >= binned.len())
        .filter_map(|(bin, values)| {
            let description = regatta_stats::describe(&values)?;
            Some([
                bin as f64 * step,
                description.q1,
                description.median,
                description.q3,
            ])
        })
        .collect()
}

/// Returns one trial in steps: the mean within a step, added up over the ends.
fn bins(trial: &TrialRecord, what: &What, step: f64) -> BTreeMap<i64, f64> {
    let mut total: BTreeMap<i64, f64> = BTreeMap::new();
    let mut ends = 0;
    for series in &trial.series {
        if series.name != what.series || !what.sides.contains(&series.side.as_str()) {
            continue;
        }
        let mut sums: BTreeMap<i64, (f64, f64)> = BTreeMap::new();
        for (t, value) in series.t_ns.iter().zip(&series.values) {
            if *t >= 0 && value.is_finite() {
                let bin = (*t as f64 / 1e9 / step).round() as i64;
                let sum = sums.entry(bin).or_default();
                sum.0 += value;
                sum.1 += 1.0;
            }
        }
        ends += 1;
        if ends == 1 {
            total = sums.iter().map(|(bin, (sum, n))| (*bin, sum / n)).collect();
        } else {
            // A sum over both ends exists only where both were sampled.
            total = total
                .into_iter()
                .filter_map(|(bin, value)| {
                    let (sum, n) = sums.get(&bin)?;
                    Some((bin, value + sum / n))
                })
                .collect();
        }
    }
    total
}

fn panel(
    area: &Area<'_>,
    heading: &str,
    y_title: &str,
    right: i32,
    (lines, schedule): (&[Line<'_>], &[Step]),
    scale: Scale,
    [x_end, y_end]: [f64; 2],
) -> Drawn {
    let frame = Frame {
        heading,
        y_title,
        x_title: "time since the first connect call, s",
        left: 44,
        right,
        y_ticks: true,
    };
    let chart = frame.draw(area, 0.0..x_end, 0.0..y_end, |value| tick(*value))?;
    let at = |x: f64, y: f64| chart.backend_coord(&(x, scale.apply(y).clamp(0.0, y_end)));
    let [top, bottom] = [y_end, 0.0].map(|y| chart.backend_coord(&(0.0, y)).1);
    steps::draw(area, schedule, x_end, |x| at(x, 0.0).0, [top, bottom])?;
    for Line { series, points, .. } in lines {
        let band: Vec<(i32, i32)> = points
            .iter()
            .map(|p| at(p[0], p[3]))
            .chain(points.iter().rev().map(|p| at(p[0], p[1])))
            .collect();
        area.draw(&Polygon::new(
            band,
            Ink::Series(*series).key().mix(0.16).filled(),
        ))?;
    }
    let mut labels = Vec::new();
    for Line {
        series,
        label,
        points,
    } in lines
    {
        let path: Vec<(i32, i32)> = points.iter().map(|p| at(p[0], p[2])).collect();
        let Some(end) = path.last().copied() else {
            continue;
        };
        // Marks at other places on each line, so that lines that lie together can be told apart.
        let every = path.len().div_ceil(4).max(1);
        let first = (every * (2 * series + 1) / 10) % every;
        line(area, path.clone(), Ink::Dashed(*series), 1.8)?;
        for point in path.iter().skip(first).step_by(every) {
            mark(area, *series, *point, 3.2, false)?;
        }
        labels.push(EndLabel {
            series: *series,
            text: label,
            at: end,
        });
    }
    let right_edge = at(x_end, 0.0).0;
    end_labels(
        area,
        right_edge,
        (Frame::TOP + 4) * PX,
        at(0.0, 0.0).1 - 4 * PX,
        &labels,
    )
}
