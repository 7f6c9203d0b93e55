//! Phase plots of competitions of two flows: the goodput of one against that of the other, second by second.
//!
//! Source of the form: Chiu and Jain 1989, Computer Networks and ISDN Systems 17, 1–14.

use regatta_model::{
    TrialRecord, Unit,
    metric::{self, id, series_id},
};

use super::{
    Figure, Group, Source,
    axis::{XAxis, YAxis, axis_end, largest},
    defined,
    marks::{Line, Look, Mark},
    over_time::LinkRate,
    plot::{Axes, Panel, Plot},
    svg::Point,
};
use crate::{labels::Labels, language::tr};

/// Height of a panel, in CSS pixels.
const HEIGHT: f64 = 290.0;

/// Maximum number of panels.
const MAX_PANELS: usize = 6;

/// Trajectory of one competition.
struct Trajectory<'a> {
    group: &'a Group<'a>,
    /// Labels of both flows, and the style of the first.
    labels: [&'a str; 2],
    style: usize,
    /// Goodput of both in each second, in bits per second.
    points: Vec<Point>,
    /// Rate of the link in the direction of the data, in bits per second.
    rate: Option<f64>,
}

/// Draws the first round of each competition of two flows.
pub fn all(source: &Source<'_>) -> Vec<Figure> {
    let Some(definition) = metric::find(id::COMPETING_GOODPUT_BPS) else {
        return Vec::new();
    };
    let trajectories = source
        .plain
        .iter()
        .filter_map(|group| trajectory(source, group));
    let trajectories: Vec<Trajectory<'_>> = trajectories.take(MAX_PANELS).collect();
    let highest = largest(trajectories.iter().flat_map(|it| {
        let points = it
            .points
            .iter()
            .flat_map(|(first, second)| [*first, *second]);
        points.chain(it.rate)
    }));
    let y = YAxis::from_zero(Unit::BitsPerSecond, "goodput of the second flow", highest);
    let scale = y.scale;
    let end = axis_end(scale.apply(highest)) * scale.divisor;
    let title = tr!("goodput of the first flow, {}", scale.unit);
    let x = XAxis::to(title, scale, scale.apply(highest));
    let (equal, link) = (tr!("equal"), tr!("link rate"));
    let panels = trajectories.iter().map(|it| {
        let mut plain = vec![Line::of(0, &equal, [(0.0, 0.0), (end, end)])];
        plain.extend(
            it.rate
                .map(|rate| Line::of(1, &link, [(0.0, rate), (rate, 0.0)])),
        );
        let [first, second] = it.labels;
        let line = Line::of(it.style, first, it.points.iter().copied());
        Panel {
            condition: Some(&it.group.condition.name),
            heading: it.group.heading.clone(),
            title: tr!("Goodput of `{}` against that of `{}`", second, first),
            description: tr!("{} seconds of the first round.", it.points.len()),
            marks: vec![
                Mark::PlainLines(plain.into_iter().flatten().collect()),
                Mark::Lines(line.into_iter().collect(), Look::Points, 1.2),
            ],
            ..Panel::default()
        }
    });
    let labels = trajectories.iter().map(|it| it.labels[0]);
    let plot = Plot {
        id: "phase".to_owned(),
        title: tr!("Two flows against one another"),
        caption: tr!(
            "Goodput of the second flow over that of the first, a point for each second of the first round in which both send, joined in their order. On the solid line both have the same, on the dashed one they fill the link."
        ),
        definition: defined(definition),
        labels: Labels::new(labels, super::LABEL_CHARACTERS),
        panels: panels.collect(),
        axes: Axes::Values {
            x,
            y,
            height: HEIGHT,
        },
    };
    plot.draw().into_iter().collect()
}

/// Returns the trajectory of the first round of a competition of two flows that was measured.
fn trajectory<'a>(source: &'a Source<'a>, group: &'a Group<'a>) -> Option<Trajectory<'a>> {
    let [first, second] = &group.workload.competition.as_ref()?.flows[..] else {
        return None;
    };
    let line_of = |label: &str| group.lines.iter().find(|line| line.1 == label);
    let lines = [line_of(&first.transport)?, line_of(&second.transport)?];
    let trials_of = |line: usize| source.data.measured(lines[line].2);
    let ours = trials_of(0).min_by_key(|trial| trial.round)?;
    let theirs = trials_of(1).find(|trial| trial.round == ours.round)?;
    let [one, other] = [ours, theirs].map(bits_by_second);
    let begun = (start_ns(ours).max(start_ns(theirs)) / 1e9).ceil() as usize;
    // The last second is one in which a flow ends.
    let ended = one.len().min(other.len()).saturating_sub(1);
    let points: Vec<Point> = (begun..ended).map(|at| (one[at], other[at])).collect();
    let rate = LinkRate::of(group).values().next();
    (points.len() > 1).then(|| Trajectory {
        group,
        labels: lines.map(|line| line.1),
        style: lines[0].0,
        points,
        rate,
    })
}

fn start_ns(trial: &TrialRecord) -> f64 {
    let start = trial.measurements.metrics.get(id::FLOW_START_NS);
    start.copied().unwrap_or_default()
}

/// Returns the bits that were delivered in each second since the first connect call of the competition.
fn bits_by_second(trial: &TrialRecord) -> Vec<f64> {
    let mut series = trial.measurements.series.iter();
    let Some(goodput) = series.find(|it| it.name == series_id::GOODPUT_BPS) else {
        return Vec::new();
    };
    let mut seconds = Vec::new();
    let mut from = start_ns(trial);
    for (end, rate) in goodput.t_ns.iter().zip(&goodput.values) {
        let end = *end as f64;
        while from < end {
            let second = (from / 1e9) as usize;
            let until = end.min((second + 1) as f64 * 1e9);
            seconds.resize(seconds.len().max(second + 1), 0.0);
            seconds[second] += (until - from) / 1e9 * rate;
            from = until;
        }
    }
    seconds
}
