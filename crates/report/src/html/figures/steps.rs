//! Steps of a path's schedule, drawn as lines across a panel over time.

use regatta_model::{Condition, Setting, units::format_duration};

use super::{
    frame::Chart,
    svg::{Ink, Svg, Text, width_of},
};
use crate::language::{decimal, quantity, tr};

/// Step of a schedule, and the change that it makes.
pub struct Step {
    pub at_s: f64,
    label: String,
}

/// Returns the steps of a condition's schedule.
pub fn steps(condition: &Condition) -> Vec<Step> {
    let settings: Vec<Setting<'_>> = condition.settings().collect();
    settings
        .windows(2)
        .map(|pair| Step {
            at_s: pair[1].at.as_secs_f64(),
            label: difference(&pair[0], &pair[1]),
        })
        .collect()
}

/// Describes the change between two settings, in a few characters for each quantity.
fn difference(before: &Setting<'_>, after: &Setting<'_>) -> String {
    let both = |of: &dyn Fn(&Setting<'_>) -> String| {
        let (before, after) = (of(before), of(after));
        (before != after).then_some(after)
    };
    let changes: Vec<String> = [
        both(&|s| quantity(format_duration(s.round_trip_delay()))),
        both(&|s| quantity(s.forward.rate_in_words())),
        both(&|s| quantity(format!("{} loss", s.forward.loss))),
        both(&|s| quantity(format!("± {}", format_duration(s.forward.jitter)))),
    ]
    .into_iter()
    .flatten()
    .collect();
    if changes.is_empty() {
        tr!("other settings")
    } else {
        changes.join(", ")
    }
}

/// Maximum number of steps that a caption lists; longer schedules are read from the labels.
const MOST_LISTED: usize = 12;

/// Describes the steps of a condition by number, time and change in a sentence; empty without
/// steps.
pub fn in_words(condition: &str, steps: &[Step]) -> String {
    if steps.is_empty() || steps.len() > MOST_LISTED {
        return String::new();
    }
    let each: Vec<String> = (steps.iter().enumerate())
        .map(|(number, step)| {
            tr!(
                "{} at {} s: {}",
                number + 1,
                decimal(step.at_s.to_string()),
                step.label
            )
        })
        .collect();
    tr!(" Steps of `{}`: {}.", condition, each.join("; "))
}

/// Draws the steps from the panel's top to its axis: dotted and grey, so that nobody takes them for
/// data, with labels, or with numbers where a label does not fit before the next step.
pub fn draw(svg: &mut Svg, chart: &Chart, steps: &[Step], end_s: f64) {
    for (number, step) in steps.iter().enumerate() {
        if step.at_s >= end_s {
            break;
        }
        let x = chart.x(step.at_s);
        svg.line(&[(x, chart.top), (x, chart.bottom)], Ink::Leader, 1.0);
        let next = steps.get(number + 1).map_or(end_s, |next| next.at_s);
        let from = x + 3.0;
        // That is how wide it is in 12 CSS pixels.
        let fits = |text: &str| from + width_of(text) * 10.0 / 12.0 <= chart.x(next);
        let texts = [step.label.clone(), (number + 1).to_string()];
        if let Some(text) = texts.iter().find(|text| fits(text)) {
            let style = Text {
                size: 10.0,
                ..Text::NOTE
            };
            svg.text((from, chart.top + 6.0), text, style);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use regatta_model::{BitRate, Link, Ratio};

    use super::*;

    #[test]
    fn a_step_says_what_becomes_different() {
        let link = |ms, loss| Link {
            delay: Duration::from_millis(ms),
            rate: Some(BitRate(10_000_000)),
            loss: Ratio(loss),
            ..Link::default()
        };
        let step = |s, link: Link| regatta_model::Step {
            at: Duration::from_secs(s),
            forward: link.clone(),
            reverse: link,
        };
        let condition = Condition {
            name: "c".into(),
            forward: link(150, 0.0),
            reverse: link(150, 0.0),
            mtu_bytes: 1500,
            schedule: vec![
                step(20, link(125, 0.0)),
                step(40, link(125, 0.01)),
                step(60, link(100, 0.0)),
            ],
        };
        assert_eq!(
            in_words("c", &steps(&condition)),
            " Steps of `c`: 1 at 20 s: 250 ms; 2 at 40 s: 1 % loss; 3 at 60 s: 200 ms, 0 % loss."
        );
        assert_eq!(in_words("c", &[]), "");
    }
}
