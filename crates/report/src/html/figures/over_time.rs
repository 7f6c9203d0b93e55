//! Figures of quantities over the time of a trial: the median over the rounds, with a band of
//! quartiles.

use std::collections::BTreeSet;

use regatta_model::{TrialRecord, metric, metric::series_id};

use super::{
    Datum, Figure, Place, anchor,
    columns::{Columns, columns},
    drawn,
    frame::{Chart, Curve, Marks, Panel, YAxis, axis_end, largest, room_for_labels, tick},
    labels, panels,
    steps::{self, Step, steps},
    svg::{Ink, Point, Svg},
};
use crate::{
    RunData,
    format::{Scale, capital},
    language::{self, tr},
};

const HEIGHT: f64 = 290.0;
/// Height where each end has panels of its own, so that two figures fit on a page of paper.
const HEIGHT_OF_EACH: f64 = 215.0;

/// Quantity drawn over time.
pub struct What {
    series: &'static str,
    ends: Ends,
    title: &'static str,
    how: &'static str,
}

/// Ends whose values a figure shows.
enum Ends {
    /// The sum over these ends.
    Sum(&'static [&'static str]),
    /// Sender and receiver, in panels of their own.
    Each,
}

/// Quantities of the transfer and its hosts.
pub const TRANSFER: [What; 4] = [
    What {
        series: series_id::GOODPUT_BPS,
        ends: Ends::Sum(&["receiver"]),
        title: "Goodput over the time of a trial",
        how: "Bits delivered to the receiving application. Where a transport delivers in order, what arrives after a lost packet is held back and then delivered at once, in a sample that can lie above the path's rate.",
    },
    What {
        series: series_id::RECEIVED_BPS,
        ends: Ends::Sum(&["receiver"]),
        title: "Bits received over the time of a trial",
        how: "Bits of the IP packets that the receiving host's interface got, headers and retransmissions included, whatever was delivered of them by then.",
    },
    What {
        series: series_id::ROUND_TRIP_DELAY_NS,
        ends: Ends::Sum(&["sender"]),
        title: "Round-trip delay under load over the time of a trial",
        how: "Each probe message counts at its scheduled departure.",
    },
    What {
        series: series_id::CPU_RATIO,
        ends: Ends::Sum(&["sender", "receiver"]),
        title: "CPU of both ends over the time of a trial",
        how: "CPU time of the sending and the receiving process together, all threads; 100 % is one core.",
    },
];

/// Quantities of the transport's internal state.
pub const INSIDE: [What; 2] = [
    What {
        series: series_id::CONGESTION_WINDOW_BYTES,
        ends: Ends::Sum(&["sender"]),
        title: "Congestion window over the time of a trial",
        how: "As the sending stack itself reports it.",
    },
    What {
        series: series_id::RETRANSMITTED_PACKETS,
        ends: Ends::Sum(&["sender"]),
        title: "Retransmissions over the time of a trial",
        how: "Retransmitted segments, or packets declared lost, in each interval between samples.",
    },
];

/// Quantities of interfaces and system at both ends.
pub const BOTH_ENDS: [What; 7] = [
    What {
        series: series_id::PACKETS_SENT_PER_SECOND,
        ends: Ends::Each,
        title: "Packets sent by each end",
        how: "IP packets that left the end's interface; those of the receiver are mostly acknowledgements.",
    },
    What {
        series: series_id::PACKETS_RECEIVED_PER_SECOND,
        ends: Ends::Each,
        title: "Packets received by each end",
        how: "IP packets that the end's interface got.",
    },
    What {
        series: series_id::MEAN_PACKET_BYTES,
        ends: Ends::Each,
        title: "Size of the packets sent by each end",
        how: "Mean over each interval between samples. With TSO or GSO an interface counts one large packet for several on the wire.",
    },
    What {
        series: series_id::INTERFACE_ERRORS,
        ends: Ends::Each,
        title: "Errors of each end's interface",
        how: "Errors of reception and transmission in each interval between samples.",
    },
    What {
        series: series_id::INTERFACE_DROPS,
        ends: Ends::Each,
        title: "Drops of each end's interface",
        how: "Received packets and packets to send that the interface dropped, in each interval between samples. What the path drops is not in it.",
    },
    What {
        series: series_id::CPU_HOST_RATIO,
        ends: Ends::Each,
        title: "System load of each end",
        how: "Time of all cores of the end's host that was not idle, whatever used it. Two ends on one machine have the same.",
    },
    What {
        series: series_id::MEMORY_BYTES,
        ends: Ends::Each,
        title: "Memory of each end's process",
        how: "Resident set of the process that runs the end.",
    },
];

/// One transport in one panel: `(seconds, lower quartile, median, upper quartile)`.
struct Row<'a> {
    series: usize,
    label: &'a str,
    /// Number of trials with this quantity.
    n: usize,
    points: Vec<[f64; 4]>,
    /// `(seconds, smallest, largest)` sample, where a point is of several samples.
    extremes: Vec<[f64; 3]>,
}

/// Draws the figure of one series, or nothing if no trial has it.
pub fn draw(data: &RunData, what: &What) -> Option<Figure> {
    let definition = metric::find_series(what.series)?;
    let study = &data.header.study;
    let panels: Vec<Place<'_, Row<'_>>> = match what.ends {
        Ends::Sum(ends) => places(data, what, ends),
        Ends::Each => ["sender", "receiver"]
            .iter()
            .flat_map(|end| {
                let mut places = places(data, what, std::slice::from_ref(end));
                for place in &mut places {
                    place.heading = format!("{}, {}", place.heading, language::text(end));
                }
                places
            })
            .collect(),
    };
    let points = || {
        let rows = panels.iter().flat_map(|panel| &panel.rows);
        rows.flat_map(|row| &row.points)
    };
    points().next()?;
    let extremes = || {
        let rows = panels.iter().flat_map(|panel| &panel.rows);
        rows.flat_map(|row| &row.extremes)
    };
    let is_thinned = extremes().next().is_some();
    let highest = largest(points().map(|p| p[3]).chain(extremes().map(|p| p[2])));
    let scale = Scale::for_largest(definition.unit, highest);
    let y_end = axis_end(scale.apply(highest));
    let end_of = |panel: &Place<'_, Row<'_>>| {
        let points = panel.rows.iter().flat_map(|row| &row.points);
        largest(points.map(|p| p[0]))
    };
    let longest = largest(panels.iter().map(end_of));
    // One axis for all, unless that would squeeze a panel into its left half.
    let own_axes = (panels.iter().map(end_of)).any(|end| end > 0.0 && end < longest / 2.0);
    let steps_of = |condition: &str| -> Vec<Step> {
        let found = study.conditions.iter().find(|c| c.name == condition);
        found.map(steps).unwrap_or_default()
    };
    let has_steps = (panels.iter()).any(|panel| !steps_of(panel.condition).is_empty());
    // Each condition once, though it be there with several workloads.
    let listed: BTreeSet<String> = (panels.iter())
        .map(|panel| steps::in_words(panel.condition, &steps_of(panel.condition)))
        .collect();
    let listed = String::from_iter(listed);

    let drawn = drawn(&panels, |number, panel| {
        let end = end_of(panel);
        let names: Vec<&str> = panel.rows.iter().map(|row| row.label).collect();
        let x_end = axis_end(if own_axes { end } else { longest });
        Panel {
            id: &format!("time-{}-{number}", anchor(what.series)),
            title: &tr!("{} under {}", language::text(what.title), panel.heading),
            description: &tr!(
                "Median and quartiles over the rounds of {}, from 0 to {} seconds.",
                names.join(", "),
                tick(end)
            ),
            heading: &panel.heading,
            y_title: &scale.heading(definition.title),
            x_title: &tr!("time since the first connect call, s"),
            height: match what.ends {
                Ends::Sum(_) => HEIGHT,
                Ends::Each => HEIGHT_OF_EACH,
            },
            left: Panel::LEFT,
            right: room_for_labels(labels(data)),
        }
        .draw(0.0..x_end, YAxis::Linear(y_end), |svg, chart| {
            steps::draw(svg, chart, &steps_of(panel.condition), x_end);
            plot(svg, chart, &panel.rows, scale);
        })
    });
    Some(Figure {
        id: format!("figure-time-{}", anchor(what.series)),
        title: capital(language::text(what.title)),
        caption: caption(what, has_steps.then_some(&listed), own_axes, is_thinned),
        panels: drawn,
    })
}

/// Returns the panels of a quantity, added up over `ends`.
fn places<'a>(data: &'a RunData, what: &What, ends: &[&str]) -> Vec<Place<'a, Row<'a>>> {
    let interval = data.header.study.sample_interval.as_secs_f64();
    panels(data, |series, label, condition, workload| {
        let trials: Vec<&TrialRecord> = data.measured(label, condition, workload).collect();
        let Columns {
            quartiles: points,
            extremes,
        } = columns(&trials, what.series, ends, interval);
        (!points.is_empty()).then_some(Row {
            series,
            label,
            n: trials.iter().filter(|trial| has(trial, what)).count(),
            points,
            extremes,
        })
    })
}

/// Returns the text below a figure. `steps` are those of the schedules, in words; `own_axes` is whether
/// each panel has a time axis of its own, `is_thinned` whether a point is of several samples.
fn caption(what: &What, steps: Option<&String>, own_axes: bool, is_thinned: bool) -> String {
    let mut text = tr!(
        "Line: median over the measured trials of each transport; band: lower to upper quartile. Time runs from the first connect call; a line ends where fewer than half of the trials were still going on. {}",
        language::text(what.how)
    );
    if let Some(steps) = steps {
        text += &tr!(
            " Dotted: steps of the path's schedule, with the round-trip delay, rate, loss or jitter from then on."
        );
        text += steps;
    }
    if is_thinned {
        text += &tr!(
            " The series are longer than the figure is wide: a point is the mean of several samples, and the pale area reaches from the smallest to the largest of them in any trial (min–max decimation)."
        );
    }
    if own_axes {
        text += &tr!(" The panels have the same vertical axis but times of their own.");
    }
    text
}

/// Whether a trial has a quantity.
fn has(trial: &TrialRecord, what: &What) -> bool {
    let mut series = trial.measurements.series.iter();
    series.any(|series| series.name == what.series)
}

/// Draws bands and lines of one panel.
fn plot(svg: &mut Svg, chart: &Chart, rows: &[Row<'_>], scale: Scale) {
    let shown = |point: &[f64; 4], value: usize| (point[0], scale.apply(point[value]));
    for row in rows {
        let highest = row
            .extremes
            .iter()
            .map(|&[t, _, high]| (t, scale.apply(high)));
        let lowest = row
            .extremes
            .iter()
            .rev()
            .map(|&[t, low, _]| (t, scale.apply(low)));
        let extremes: Vec<Point> = highest.chain(lowest).map(|point| chart.at(point)).collect();
        if !extremes.is_empty() {
            svg.polygon(&extremes, Ink::Series(row.series), 0.07);
        }
        let upper = row.points.iter().map(|point| shown(point, 3));
        let lower = row.points.iter().rev().map(|point| shown(point, 1));
        let band: Vec<Point> = upper.chain(lower).map(|point| chart.at(point)).collect();
        for point in &row.points {
            svg.record(Datum {
                label: row.label.to_owned(),
                kind: "line",
                x: Some(point[0]),
                interval: Some([1, 3].map(|quartile| scale.apply(point[quartile]))),
                n: Some(row.n as u64),
                value: None,
            });
        }
        svg.band(row.label, row.n, &band, Ink::Series(row.series));
    }
    let medians: Vec<Curve<'_>> = (rows.iter())
        .map(|row| Curve {
            series: row.series,
            label: row.label,
            points: row.points.iter().map(|point| shown(point, 2)).collect(),
        })
        .collect();
    chart.curves(svg, &medians, 1.8, Marks::Four);
}
