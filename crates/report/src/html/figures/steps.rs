//! The steps of a path's schedule, as lines across a panel over time.

use regatta_model::{Condition, Setting, units::format_duration};

use super::canvas::{Align, Area, Drawn, Ink, PX, line, text_style, width_of};

/// A step, and what became different with it.
pub struct Step {
    pub at_s: f64,
    label: String,
}

/// The steps of a condition's schedule.
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

/// The one thing that is different in a few characters, or that several are.
fn difference(before: &Setting<'_>, after: &Setting<'_>) -> String {
    let both = |of: &dyn Fn(&Setting<'_>) -> String| {
        let (before, after) = (of(before), of(after));
        (before != after).then_some(after)
    };
    let changes: Vec<String> = [
        both(&|s| format_duration(s.round_trip_delay())),
        both(&|s| s.forward.rate_in_words()),
        both(&|s| format!("{} loss", s.forward.loss)),
        both(&|s| format!("± {}", format_duration(s.forward.jitter))),
    ]
    .into_iter()
    .flatten()
    .collect();
    match &changes[..] {
        [only] => only.clone(),
        _ => "…".to_owned(),
    }
}

/// Draws them from the panel's top to its axis: dotted and grey, so that nobody takes them for
/// data, with labels where there is room for them before the next.
pub fn draw(
    area: &Area<'_>,
    steps: &[Step],
    end_s: f64,
    at: impl Fn(f64) -> i32,
    [top, bottom]: [i32; 2],
) -> Drawn {
    for (number, step) in steps.iter().enumerate() {
        if step.at_s >= end_s {
            break;
        }
        let x = at(step.at_s);
        line(area, vec![(x, top), (x, bottom)], Ink::Leader, 1.0)?;
        let next = steps.get(number + 1).map_or(end_s, |next| next.at_s);
        let from = x + 3 * PX;
        // That is how wide it is in 12 CSS pixels.
        let width = width_of(&step.label) * 10 / 12;
        if from + width <= at(next.min(end_s)) {
            let style = text_style(10.0, Ink::Muted, Align::Left, false);
            area.draw_text(&step.label, &style, (from, top + 6 * PX))?;
        }
    }
    Ok(())
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
        let found: Vec<_> = steps(&condition)
            .into_iter()
            .map(|step| (step.at_s, step.label))
            .collect();
        let expected = [(20.0, "250 ms"), (40.0, "1 % loss"), (60.0, "…")];
        assert_eq!(found, expected.map(|(at, label)| (at, label.to_owned())));
    }
}
