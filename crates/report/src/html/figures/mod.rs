//! Figures of the report, one file each, and their common code.

mod by_trial;
mod canvas;
mod delay;
mod distribution;
mod frame;
mod means;
mod over_time;
mod steps;

use serde::Serialize;

use crate::{ReportError, RunData, Summary};
pub use canvas::escape;

/// Figure with its panels.
#[derive(Debug, Serialize)]
pub struct Figure {
    /// Anchor on the page.
    pub id: String,
    /// Title: the finding of the figure.
    pub title: String,
    /// Caption: the method of the measurement, and how to read the figure.
    pub caption: String,
    /// Panels, one `svg` element each.
    pub panels: Vec<String>,
}

/// Figures by their place on the page.
#[derive(Debug, Serialize)]
pub struct Figures {
    /// Figures on the first screen.
    pub headline: Vec<Figure>,
    /// Figures of other means, with published values.
    pub means: Vec<Figure>,
    /// Figures of quantities over the time of a trial.
    pub over_time: Vec<Figure>,
    /// Figures of every trial.
    pub trials: Vec<Figure>,
    /// Figures of the distributions of message delay.
    pub delay: Vec<Figure>,
    /// Figures of the transports' internal state.
    pub inside: Vec<Figure>,
}

/// Draws every figure for which there are values.
pub fn all(data: &RunData, summary: &Summary) -> Result<Figures, ReportError> {
    let collect = |figures: Vec<Result<Option<Figure>, ReportError>>| {
        figures
            .into_iter()
            .filter_map(Result::transpose)
            .collect::<Result<Vec<Figure>, ReportError>>()
    };
    // What each kind of work is ranked by, each once.
    let mut primary: Vec<&str> = Vec::new();
    for workload in &data.header.study.workloads {
        let name = workload.kind.primary_metric();
        if !primary.contains(&name) {
            primary.push(name);
        }
    }
    Ok(Figures {
        headline: collect(
            primary
                .iter()
                .map(|name| means::draw(data, summary, name))
                .chain([means::draw_spread(data, summary, "message_delay_p95_ns")])
                .collect(),
        )?,
        means: collect(vec![
            means::draw(data, summary, "time_to_first_byte_p50_ns"),
            means::draw(data, summary, "round_trip_delay_ns"),
            means::draw(data, summary, "cpu_host_ratio"),
            means::draw(data, summary, "goodput_per_core_percent_bps"),
        ])?,
        over_time: collect(
            [
                &over_time::GOODPUT,
                &over_time::RECEIVED,
                &over_time::DELAY,
                &over_time::CPU,
            ]
            .map(|what| over_time::draw(data, what))
            .into(),
        )?,
        trials: collect(vec![
            distribution::draw(data, "goodput_bps"),
            distribution::draw(data, "message_delay_p95_ns"),
            distribution::draw(data, "time_to_completion_p50_ns"),
            distribution::draw(data, "round_trip_delay_ns"),
            distribution::draw(data, "goodput_per_core_percent_bps"),
            by_trial::draw(data, "goodput_bps"),
            by_trial::draw(data, "round_trip_delay_ns"),
            by_trial::draw(data, "cpu_host_ratio"),
        ])?,
        delay: collect(vec![
            delay::draw(data, "round_trip_delay_ns"),
            delay::draw(data, "stream_round_trip_delay_ns"),
            delay::draw(data, "one_way_delay_ns"),
            delay::draw(data, "message_delay_ns"),
            delay::draw(data, "time_to_first_byte_ns"),
            delay::draw(data, "time_to_completion_ns"),
        ])?,
        inside: collect(
            [
                &over_time::WINDOW,
                &over_time::RETRANSMISSIONS,
                &over_time::PACKETS,
            ]
            .map(|what| over_time::draw(data, what))
            .into(),
        )?,
    })
}

/// Returns the panels of a figure: one for each condition and workload of the study, as
/// `(condition, workload, heading)`.
fn places(data: &RunData) -> Vec<(&str, &str, String)> {
    let study = &data.header.study;
    let several = study.workloads.len() > 1;
    let mut places = Vec::new();
    for workload in &study.workloads {
        for condition in &study.conditions {
            let heading = if several {
                format!("{}, {}", condition.name, workload.name)
            } else {
                condition.name.clone()
            };
            places.push((
                condition.name.as_str(),
                workload.name.as_str(),
                crate::format::shorten(&heading, 44),
            ));
        }
    }
    places
}

/// Converts a name such as `goodput_bps` to a part of an anchor.
fn anchor(name: &str) -> String {
    name.replace('_', "-")
}

/// Capitalises a title for the beginning of a sentence.
fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(characters).collect()
    })
}
