//! Figures of quantities over the time of a trial: the median over the rounds, with a band of
//! quartiles.

use std::collections::BTreeSet;

use itertools::Itertools as _;
use regatta_model::{
    Direction, TrialRecord, Unit, WorkloadKind, metric, metric::series_id, script::SentBy,
};

use super::{
    Figure, Group, LABEL_CHARACTERS, PanelData, Source, anchor,
    axis::{XAxis, YAxis, axis_end, largest, tick, time_scale},
    columns::columns,
    marks::{Level, Line, Look, Mark, Sample},
    panels_of_groups,
    plot::{Axes, Panel, Plot},
    steps,
};
use crate::{
    RunData,
    format::{CommonUnit, capital},
    labels::Labels,
    language::{self, tr},
};

const HEIGHT: f64 = 290.0;
/// Height where each end has panels of its own, so that two figures fit on a page of paper.
const HEIGHT_OF_EACH: f64 = 215.0;

/// Share of the link rate by which a sample may lie above it without an explanation: samples are as long as a timer
/// makes them.
const MAX_EXCESS: f64 = 0.02;

/// Multiple of the largest link rate at which an axis ends that would be longer: data held behind a lost packet, which
/// are delivered at once, can make one sample of tens of times the rate.
const MAX_RATES: f64 = 2.0;

/// Quantity drawn over time.
pub struct Quantity {
    series: &'static str,
    ends: Ends,
    title: &'static str,
    definition: &'static str,
    /// Reason for samples above the link rate; empty for quantities that are no rate of the path.
    above: &'static str,
}

/// Ends whose values a figure shows.
enum Ends {
    /// The sum over these ends.
    Sum(&'static [&'static str]),
    /// Sender and receiver, in panels of their own.
    Each,
}

impl Quantity {
    /// Returns a quantity that is no rate of the path, with the title of its figure and how it is measured.
    const fn new(
        series: &'static str,
        ends: Ends,
        title: &'static str,
        definition: &'static str,
    ) -> Self {
        let above = "";
        Self {
            series,
            ends,
            title,
            definition,
            above,
        }
    }
}

/// Quantities of the transfer and its hosts.
pub const TRANSFER: [Quantity; 6] = [
    Quantity {
        above: "where a transport delivers in order, what arrives after a lost packet is held back and then delivered at once, so that one sample holds the bits of several",
        ..Quantity::new(
            series_id::GOODPUT_BPS,
            Ends::Sum(&["receiver"]),
            "Goodput over the time of a trial",
            "Bits delivered to the receiving application.",
        )
    },
    Quantity {
        above: "packets that waited for a busy emulator or host arrive together, so that one sample holds the bits of several",
        ..Quantity::new(
            series_id::RECEIVED_BPS,
            Ends::Sum(&["receiver"]),
            "Bits received over the time of a trial",
            "Bits of the IP packets that the receiving host's interface got, headers and retransmissions included, whatever was delivered of them by then.",
        )
    },
    Quantity::new(
        series_id::GOODPUT_SHARE_RATIO,
        Ends::Sum(&["receiver"]),
        "Share of the goodput over the time of a competition",
        "Bytes delivered to the flow's receiver in each second over those of all flows that sent during the whole of it. Lines begin and end where flows do.",
    ),
    Quantity::new(
        series_id::FAIRNESS_RATIO,
        Ends::Sum(&["receiver"]),
        "Jain's fairness index over the time of a competition",
        "Of all flows that sent during the whole second: 1 where all got the same. The line is that of the first flow, and of all.",
    ),
    Quantity::new(
        series_id::ROUND_TRIP_DELAY_NS,
        Ends::Sum(&["sender"]),
        "Round-trip delay under load over the time of a trial",
        "Each probe message counts at its scheduled departure.",
    ),
    Quantity::new(
        series_id::CPU_RATIO,
        Ends::Sum(&["sender", "receiver"]),
        "CPU of both ends over the time of a trial",
        "CPU time of the sending and the receiving process together, all threads; 100 % is one core.",
    ),
];

/// Quantities of the transport's internal state.
pub const INSIDE: [Quantity; 2] = [
    Quantity::new(
        series_id::CONGESTION_WINDOW_BYTES,
        Ends::Sum(&["sender"]),
        "Congestion window over the time of a trial",
        "As the sending stack itself reports it.",
    ),
    Quantity::new(
        series_id::RETRANSMITTED_PACKETS,
        Ends::Sum(&["sender"]),
        "Retransmissions over the time of a trial",
        "Retransmitted segments, or packets declared lost, in each interval between samples.",
    ),
];

/// Quantities of interfaces and system at both ends.
pub const BOTH_ENDS: [Quantity; 8] = [
    Quantity::new(
        series_id::PACKETS_SENT_PER_SECOND,
        Ends::Each,
        "Packets sent by each end",
        "IP packets that left the end's interface; those of the receiver are mostly acknowledgements.",
    ),
    Quantity::new(
        series_id::PACKETS_RECEIVED_PER_SECOND,
        Ends::Each,
        "Packets received by each end",
        "IP packets that the end's interface got.",
    ),
    Quantity::new(
        series_id::MEAN_PACKET_BYTES,
        Ends::Each,
        "Size of the packets sent by each end",
        "Mean over each interval between samples. With TSO or GSO an interface counts one large packet for several on the wire.",
    ),
    Quantity::new(
        series_id::INTERFACE_ERRORS,
        Ends::Each,
        "Errors of each end's interface",
        "Errors of reception and transmission in each interval between samples.",
    ),
    Quantity::new(
        series_id::INTERFACE_COLLISIONS,
        Ends::Each,
        "Collisions of each end's interface",
        "Collisions in each interval between samples. A medium that is not shared, such as every emulated path, has none.",
    ),
    Quantity::new(
        series_id::INTERFACE_DROPS,
        Ends::Each,
        "Drops of each end's interface",
        "Received packets and packets to send that the interface dropped, in each interval between samples. What the path drops is not in it.",
    ),
    Quantity::new(
        series_id::CPU_HOST_RATIO,
        Ends::Each,
        "System load of each end",
        "Time of all cores of the end's host that was not idle, whatever used it. Two ends on one machine have the same.",
    ),
    Quantity::new(
        series_id::MEMORY_BYTES,
        Ends::Each,
        "Memory of each end's process",
        "Resident set of the process that runs the end.",
    ),
];

/// Quantities that are shown for some cells of a sweep, too.
const SWEPT: [&str; 3] = [
    series_id::GOODPUT_BPS,
    series_id::GOODPUT_SHARE_RATIO,
    series_id::CONGESTION_WINDOW_BYTES,
];

/// Draws quantities.
pub fn all(source: &Source<'_>, quantities: &[Quantity]) -> Vec<Figure> {
    let drawn = quantities.iter().filter_map(|it| draw(source, it));
    drawn.collect()
}

/// Draws the figure of one series, or nothing if no trial has it.
fn draw(source: &Source<'_>, what: &Quantity) -> Option<Figure> {
    let data = source.data;
    let definition = metric::find_series(what.series)?;
    let study = &data.header.study;
    let is_shown = |group: &&Group<'_>| {
        let mut trials = group.lines.iter().flat_map(|line| data.measured(line.2));
        trials.any(|trial| has(trial, what))
    };
    let swept = source.swept.iter().filter(|_| SWEPT.contains(&what.series));
    let swept: Vec<&Group<'_>> = swept.filter(is_shown).collect();
    let groups: Vec<&Group<'_>> = source.plain.iter().chain(swept.iter().copied()).collect();
    let panels = panels_of(data, &groups, what);
    let lines = || panels.iter().flat_map(|panel| &panel.rows);
    let extremes = || lines().flat_map(|line| &line.extremes);
    let is_thinned = extremes().next().is_some();
    let quartiles = lines().flat_map(|line| &line.samples);
    let quartiles = quartiles.filter_map(|sample| Some(sample.interval?[1]));
    let highest = largest(quartiles.chain(extremes().map(|[.., high]| *high)));
    let rates: Vec<LinkRate> = match what.above {
        "" => Vec::new(),
        _ => groups.iter().map(|group| LinkRate::of(group)).collect(),
    };
    // The axis has room for a link rate that is near, and does not end far beyond the largest.
    let link_rates = || rates.iter().flat_map(LinkRate::values);
    let near = link_rates().filter(|rate| *rate < highest * 1.25);
    let mut shown_highest = highest.max(largest(near));
    if !rates.is_empty() && rates.iter().all(LinkRate::is_limited) {
        shown_highest = shown_highest.min(MAX_RATES * largest(link_rates()));
    }
    let y = YAxis::from_zero(definition.unit, definition.title, shown_highest);
    let y_end = axis_end(y.scale.apply(shown_highest)) * y.scale.divisor;
    let end_of = |panel: &PanelData<'_, Line<'_>>| {
        let samples = panel.rows.iter().flat_map(|line| &line.samples);
        largest(samples.map(|sample| sample.at.0))
    };
    let longest = largest(panels.iter().map(end_of));
    let scale = time_scale(longest);
    // One axis for all, unless that would squeeze a panel into its left half.
    let own_axes = (panels.iter().map(end_of)).any(|end| end > 0.0 && end < longest / 2.0);
    let condition = |name: &str| study.conditions.iter().find(|c| c.name == name);
    let steps_of = |name: &str| condition(name).map_or_else(Vec::new, steps::steps);
    let has_steps = (panels.iter()).any(|panel| !steps_of(panel.condition).is_empty());
    // Each condition once, though it be there with several workloads.
    let listed = panels.iter().filter_map(|panel| condition(panel.condition));
    let listed: BTreeSet<String> = listed.map(steps::description).collect();
    let listed = String::from_iter(listed);
    let labels = Labels::new(lines().map(|line| line.label).unique(), LABEL_CHARACTERS);
    let x = |end: f64| {
        let title = tr!("time since the first connect call, {}", scale.unit);
        XAxis::to(title, scale, scale.apply(end))
    };
    let mut caption = caption(has_steps.then_some(&listed), own_axes, is_thinned);
    caption += &about_rates(what, &panels, &rates, y_end);
    if highest > y_end {
        caption += &tr!(" What lies beyond the vertical axis is drawn at its upper end.");
    }
    if swept.iter().any(|group| group.is_selected) {
        caption += &tr!(
            " Of a sweep, the first and the last values are shown, and some between them; the samples of all are in series.csv."
        );
    }
    let panels = panels.into_iter().enumerate().map(|(number, panel)| {
        let (end, steps) = (end_of(&panel), steps_of(panel.condition));
        let (panel, lines) = panel.split();
        let names = lines.iter().map(|line| line.label).join(", ");
        let steps = steps.into_iter();
        let steps = steps.map(|step| (step.at.as_secs_f64(), step.label));
        let mut marks = vec![Mark::Steps(steps.collect())];
        marks.extend(rates.get(number).map_or_else(Vec::new, LinkRate::marks));
        marks.push(Mark::Lines(lines, Look::Series, 1.8));
        Panel {
            title: tr!("{} under {}", language::text(what.title), panel.heading),
            description: tr!(
                "Median and quartiles over the rounds of {}, from 0 to {} {}.",
                names,
                tick(scale.apply(end)),
                scale.unit
            ),
            x: own_axes.then(|| x(end)),
            marks,
            ..panel
        }
    });
    let panels = panels.collect();
    Plot {
        id: format!("time-{}", anchor(what.series)),
        title: capital(language::text(what.title)),
        caption,
        definition: language::text(what.definition).to_owned(),
        labels,
        panels,
        axes: Axes::Values {
            x: x(longest),
            y,
            height: match what.ends {
                Ends::Sum(_) => HEIGHT,
                Ends::Each => HEIGHT_OF_EACH,
            },
        },
    }
    .draw()
}

/// Rate of a path in the direction of a workload's data: from which time on, in seconds, and in bits per second where
/// it is limited.
pub(super) struct LinkRate(Vec<(f64, Option<f64>)>);

impl LinkRate {
    pub(super) fn of(group: &Group<'_>) -> Self {
        let direction = group.workload.kind.payload_direction();
        let rates = group.condition.settings().map(|setting| {
            let link = match direction {
                Direction::Forward => Some(setting.forward),
                Direction::Reverse => Some(setting.reverse),
                // The sum of two directions has no link.
                Direction::Both => None,
            };
            let rate = link.and_then(|link| link.rate);
            (setting.at.as_secs_f64(), rate.map(|rate| rate.0 as f64))
        });
        Self(rates.collect())
    }

    pub(super) fn values(&self) -> impl Iterator<Item = f64> {
        self.0.iter().filter_map(|(_, rate)| *rate)
    }

    /// Whether the link has a rate at all times.
    fn is_limited(&self) -> bool {
        self.0.iter().all(|(_, rate)| rate.is_some())
    }

    /// Returns the largest rate that the link has from shortly before a time on until then.
    fn at(&self, seconds: f64) -> Option<f64> {
        let mut before = self.0.iter().rev().filter(|(at, _)| *at <= seconds);
        let current = before.next()?;
        // A sample may begin before a step.
        let recent = before.next().filter(|_| seconds - current.0 < 1.0);
        let mut rates = [Some(current), recent].into_iter().flatten();
        rates.try_fold(0.0_f64, |most, (_, rate)| Some(most.max((*rate)?)))
    }

    /// Returns the dotted lines of the rate.
    fn marks<'a>(&self) -> Vec<Mark<'a>> {
        let ends = self.0.iter().skip(1).map(|(at, _)| *at);
        let ends = ends.chain([f64::INFINITY]);
        // Steps have labels of their own, at the same height.
        let label = match self.0.len() {
            1 => tr!("link rate"),
            _ => String::new(),
        };
        let levels = self.0.iter().zip(ends).filter_map(|((at, rate), end)| {
            Some(Mark::Level(Level {
                x: [*at, end],
                y: (*rate)?,
                label: label.clone(),
            }))
        });
        levels.collect()
    }
}

/// Returns the sentences of a caption about the link rate: where it is drawn, and why samples lie above it. `most` is
/// the end of the axis, in bits per second.
fn about_rates(
    what: &Quantity,
    panels: &[PanelData<'_, Line<'_>>],
    rates: &[LinkRate],
    most: f64,
) -> String {
    let mut text = String::new();
    let mut values = rates.iter().flat_map(LinkRate::values);
    if values.any(|rate| rate <= most) {
        text += &tr!(" Dotted across: the link rate.");
    }
    let mut furthest: Option<(f64, f64, f64, String)> = None;
    for (panel, rate) in panels.iter().zip(rates) {
        for line in &panel.rows {
            let quartiles = line.samples.iter();
            let quartiles = quartiles.filter_map(|it| Some((it.at.0, it.interval?[1])));
            let extremes = line.extremes.iter().map(|[t, _, high]| (*t, *high));
            for (seconds, value) in quartiles.chain(extremes) {
                let Some(rate) = rate.at(seconds) else {
                    continue;
                };
                let share = value / rate;
                let is_furthest = furthest.as_ref().is_none_or(|known| share > known.0);
                if share > 1.0 + MAX_EXCESS && is_furthest {
                    let name = tr!("`{}` under `{}`", line.label, panel.condition);
                    furthest = Some((share, value, rate, name));
                }
            }
        }
    }
    if let Some((_, value, rate, name)) = furthest {
        let common_unit = CommonUnit::of(Unit::BitsPerSecond, [value, rate]);
        text += &tr!(
            " Samples above the link rate (at most {} over a link of {}, {}): {}.",
            common_unit.quantity(value),
            common_unit.quantity(rate),
            name,
            language::text(what.above)
        );
    }
    text
}

/// Returns the panels of a quantity.
fn panels_of<'a>(
    data: &'a RunData,
    groups: &[&Group<'a>],
    what: &Quantity,
) -> Vec<PanelData<'a, Line<'a>>> {
    let of_end = |end: &&'static str| {
        let mut panels = panels_of_ends(data, groups, what, std::slice::from_ref(end));
        for panel in &mut panels {
            panel.heading = format!("{}, {}", panel.heading, language::text(end));
        }
        panels
    };
    match what.ends {
        Ends::Sum(ends) => panels_of_ends(data, groups, what, ends),
        Ends::Each => ["sender", "receiver"].iter().flat_map(of_end).collect(),
    }
}

/// Returns the ends whose values of a quantity are summed for a workload; `ends` are those of one direction.
fn ends_of<'e>(kind: &WorkloadKind, series: &str, ends: &'e [&'e str]) -> &'e [&'e str] {
    match series {
        _ if kind.direction() != Direction::Both => ends,
        series_id::GOODPUT_BPS | series_id::RECEIVED_BPS | series_id::RETRANSMITTED_PACKETS => {
            &["sender", "receiver"]
        }
        series_id::CONGESTION_WINDOW_BYTES if kind.main_sender() == SentBy::Server => &["receiver"],
        _ => ends,
    }
}

/// Returns the panels of a quantity, added up over `ends`.
fn panels_of_ends<'a>(
    data: &'a RunData,
    groups: &[&Group<'a>],
    what: &Quantity,
    ends: &[&str],
) -> Vec<PanelData<'a, Line<'a>>> {
    let interval = data.header.study.sample_interval.as_secs_f64();
    panels_of_groups(groups.iter().copied(), |series, label, cell| {
        let trials: Vec<&TrialRecord> = data.measured(cell).collect();
        let work = data
            .header
            .study
            .workloads
            .iter()
            .find(|it| it.name == cell[2]);
        let ends = work.map_or(ends, |work| ends_of(&work.kind, what.series, ends));
        let columns = columns(&trials, what.series, ends, interval);
        let n = trials.iter().filter(|trial| has(trial, what)).count() as u64;
        let samples = columns.quartiles.iter();
        let samples = samples.map(|&[seconds, lower, median, upper]| Sample {
            interval: Some([lower, upper]),
            n: Some(n),
            ..Sample::from((seconds, median))
        });
        let samples: Vec<Sample> = samples.collect();
        (!samples.is_empty()).then_some(Line {
            style: series,
            label,
            samples,
            extremes: columns.extremes,
        })
    })
}

/// Returns the text below a figure. `steps` describes those of the schedules; `own_axes` is whether
/// each panel has a time axis of its own, `is_thinned` whether a point is of several samples.
fn caption(steps: Option<&String>, own_axes: bool, is_thinned: bool) -> String {
    let mut text = tr!(
        "Line: median over the measured trials of each transport; band: lower to upper quartile. Time runs from the first connect call; a line ends where fewer than half of the trials were still going on."
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
fn has(trial: &TrialRecord, what: &Quantity) -> bool {
    let mut series = trial.measurements.series.iter();
    series.any(|series| series.name == what.series)
}
