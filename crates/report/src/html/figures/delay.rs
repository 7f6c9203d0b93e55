//! Figure of the share of messages that took longer than a given delay.

use base64::{Engine, engine::general_purpose::STANDARD};
use hdrhistogram::{Histogram, serialization::Deserializer};
use regatta_model::{
    Unit, Workload,
    metric::{self, DelayMetrics, id},
};

use super::{
    Figure, Source, anchor,
    axis::{PLAIN, XAxis, YAxis, YRange, largest},
    defined, line_labels,
    marks::{Line, Look, Mark},
    panels,
    plot::{Axes, Panel, Plot},
    svg::Point,
};
use crate::{
    RunData,
    data::CellKey,
    format::{Scale, quantity},
    language::{self, tr},
};

const HEIGHT: f64 = 300.0;

/// Histogram that is drawn: its name, the title of the axis and that of the figure.
type HistogramSpec = (&'static str, &'static str, &'static str);

/// Histograms in the order of the page.
const HISTOGRAMS: [HistogramSpec; 7] = [
    (
        DelayMetrics::ROUND_TRIP.distribution,
        "round-trip delay",
        "Round-trip delay of the messages under load",
    ),
    (
        DelayMetrics::STREAM_ROUND_TRIP.distribution,
        "round-trip delay",
        "Round-trip delay of the messages under load, on a stream of the transfer's connection",
    ),
    (
        DelayMetrics::ONE_WAY.distribution,
        "one-way delay",
        "One-way delay of the messages",
    ),
    (
        DelayMetrics::MESSAGE.distribution,
        "message delay",
        "Delay of the messages",
    ),
    (
        DelayMetrics::STEP.distribution,
        "step time",
        "Time of the measured steps",
    ),
    (
        DelayMetrics::FIRST_BYTE.distribution,
        "time to first byte",
        "Time to the first byte of the answer, of each connection",
    ),
    (
        DelayMetrics::COMPLETION.distribution,
        "time to completion",
        "Time to the whole answer, of each connection",
    ),
];

/// Draws every histogram.
pub fn all(source: &Source<'_>) -> Vec<Figure> {
    let drawn = HISTOGRAMS.iter().filter_map(|it| draw(source.data, it));
    drawn.collect()
}

/// Draws the figure of one histogram, or nothing if no trial has it.
fn draw(data: &RunData, &(name, axis, title): &HistogramSpec) -> Option<Figure> {
    // Number of messages, and the line of delays in nanoseconds with the share that took longer.
    let panels = panels(data, |series, cell| {
        let sum = total(data, name, cell)?;
        Some((sum.len(), Line::of(series, cell[0], exceedance(&sum))?))
    });
    let points = || {
        let lines = panels.iter().flat_map(|panel| &panel.rows);
        lines.flat_map(|(_, line)| &line.samples).map(|it| it.at)
    };
    points().next()?;
    let longest = largest(points().map(|(delay, _)| delay));
    let shares = points().map(|(_, share)| share);
    let smallest = shares.filter(|share| *share > 0.0).fold(1.0, f64::min);
    // Whole decades, so that every panel ends on a tick.
    let floor = smallest.log10().floor().clamp(-6.0, -1.0) as i32;
    let scale = Scale::for_largest(Unit::Nanoseconds, longest);
    let panels = panels.into_iter().map(|panel| {
        let (panel, rows) = panel.split();
        let counts = rows.iter();
        let counts = counts.map(|(number, line)| tr!("{}: {} messages", line.label, number));
        let counts = Vec::from_iter(counts);
        let lines = rows.into_iter().map(|(_, line)| line);
        Panel {
            title: tr!(
                "Share of messages that took longer, under {}",
                panel.heading
            ),
            description: format!("{}.", counts.join("; ")),
            marks: vec![Mark::Lines(lines.collect(), Look::Series, 1.6)],
            ..panel
        }
    });
    Plot {
        id: format!("ccdf-{}", anchor(name)),
        title: tr!(
            "{}: how many took longer than how long",
            language::text(title)
        ),
        caption: tr!(
            "All messages of all measured trials of a cell together, from their HDR histograms. The vertical axis is logarithmic: where a line crosses 1 % stands the 99th percentile. A line ends at its longest message.{}",
            of_clocks(data, name)
        ),
        definition: definition_of(name),
        labels: line_labels(data),
        panels: panels.collect(),
        axes: Axes::Values {
            x: XAxis::to(scale.heading(axis), scale, scale.apply(longest)),
            y: YAxis {
                title: tr!("share of messages that took longer, %"),
                scale: PLAIN,
                range: YRange::Logarithmic(floor),
            },
            height: HEIGHT,
        },
    }
    .draw()
}

/// Returns the definition of the messages and of their delay: that of the mean of the histogram's metrics.
fn definition_of(name: &str) -> String {
    let stem = name.strip_suffix("_ns").unwrap_or(name);
    let mean = metric::find(&format!("{stem}_mean_ns"));
    mean.map_or_else(String::new, defined)
}

/// Returns the sentence of a caption for the largest error from the hosts' clocks; empty where there is none.
fn of_clocks(data: &RunData, name: &str) -> String {
    let is_one_way = |workload: &Workload| {
        let mut delays = workload.kind.one_way_delays().into_iter();
        delays.any(|family| family.distribution == name)
    };
    let workloads = data.header.study.workloads.iter();
    let workloads = workloads.filter(|workload| is_one_way(workload));
    let workloads: Vec<&str> = workloads.map(|workload| &*workload.name).collect();
    let trials = data.trials.iter().filter(|trial| {
        let mut histograms = trial.measurements.histograms.iter();
        workloads.contains(&&*trial.workload) && histograms.any(|it| it.name == name)
    });
    let metrics = trials.map(|trial| &trial.measurements.metrics);
    let bounds = metrics.filter_map(|metrics| metrics.get(id::CLOCK_OFFSET_BOUND_NS));
    let Some(bound) = bounds.copied().reduce(f64::max) else {
        return String::new();
    };
    tr!(
        " The offset between the hosts' clocks shifts a line by ± {} at most.",
        quantity(Unit::Nanoseconds, bound)
    )
}

/// Returns the sum of a cell's histograms of this name.
fn total<'a>(data: &'a RunData, name: &str, cell: CellKey<'a>) -> Option<Histogram<u64>> {
    let mut sum = Histogram::<u64>::new(3).ok()?;
    let parts = data
        .measured(cell)
        .flat_map(|it| &it.measurements.histograms);
    let parts = parts.filter(|part| part.name == name);
    for part in parts.filter_map(|part| decode(&part.hdr_v2_base64)) {
        // A growing histogram takes in any value.
        sum.add(&part).ok()?;
    }
    Some(sum)
}

/// Reads a stored histogram; one that cannot be read is left out of the figure.
fn decode(base64: &str) -> Option<Histogram<u64>> {
    let bytes = STANDARD.decode(base64).ok()?;
    Deserializer::new().deserialize(&mut bytes.as_slice()).ok()
}

/// Returns the steps of the complementary distribution, from all messages to the longest one.
fn exceedance(histogram: &Histogram<u64>) -> Vec<Point> {
    let total = histogram.len();
    if total == 0 {
        return Vec::new();
    }
    let mut points = vec![(histogram.min() as f64, 1.0)];
    let mut counted = 0;
    let mut last = 1.0;
    for step in histogram.iter_recorded() {
        counted += step.count_since_last_iteration();
        let share = (total - counted.min(total)) as f64 / total as f64;
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
