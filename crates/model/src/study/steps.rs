//! `steps`: a quantity of the path that rises or falls evenly, written in one line.

use std::{ops::Range, time::Duration};

use super::{
    error::Result,
    key::Quantity,
    keys::PATH_KEYS,
    message::key as name_of,
    section::{Section, refuse},
};
use crate::condition::{Condition, Link};

/// Maximum number of steps in one schedule.
const MAX_STEPS: f64 = 10_000.0;

/// Quantity that goes from one value to another by equal steps at equal times.
pub(super) struct Staircase {
    pub key: &'static str,
    pub every: Duration,
    /// Number of steps after the first value.
    pub steps: u32,
    pub span: Range<usize>,
    from: f64,
    to: f64,
    by: f64,
    set: fn(&mut Link, f64),
}

impl Staircase {
    /// Sets the quantity to its value after `steps` steps; the last step ends at `to`, even if it
    /// is smaller than the others.
    pub fn apply(&self, link: &mut Link, steps: u32) {
        let value = if steps == self.steps {
            self.to
        } else {
            let change = self.by * f64::from(steps);
            self.from + change.copysign(self.to - self.from)
        };
        (self.set)(link, value);
    }
}

/// Returns twice a whole number with a unit; a text that begins with none as it is.
pub(super) fn doubled(quantity: &str) -> String {
    let unit_at = quantity.find(|c: char| !c.is_ascii_digit());
    let (number, unit) = quantity.split_at(unit_at.unwrap_or(quantity.len()));
    let doubled = number
        .parse()
        .map(|number: u64| format!("{}{unit}", 2 * number));
    doubled.unwrap_or_else(|_| quantity.to_owned())
}

pub(super) fn read_staircase(mut section: Section<'_>) -> Result<Staircase> {
    let span = section.span();
    let quantities = PATH_KEYS.iter();
    let quantities = quantities.filter_map(|key| Some((key.name, (key.name, key.quantity?))));
    let quantity = section.choice_of("key", &quantities.collect::<Vec<_>>())?;
    let ((key, Quantity { example, unit, set }), _) =
        section.required("key", "\"rtt\"", quantity)?;
    // The hint about the last value must not be that about the first one.
    let double = doubled(example);
    let mut value = |name, example: &str| -> Result<(f64, Range<usize>)> {
        let taken = section.quantity(name, example, |text| unit.read(text))?;
        section.required(name, &format!("\"{example}\""), taken)
    };
    let (from, _) = value("from", example)?;
    let (to, to_span) = value("to", &double)?;
    let (by, by_span) = value("by", example)?;
    let every = section.duration("every", "20s")?;
    let (every, every_span) = section.required("every", "\"20s\"", every)?;
    section.end()?;
    // Rounding must not make a tiny last step.
    let steps = ((to - from).abs() / by - 1e-9).ceil();
    refuse! { section;
        by <= 0.0 => by_span,
            "steps of nothing lead nowhere",
            "write by how much each step rises or falls, without a sign";
        from == to => to_span,
            [name_of("from"), " and ", name_of("to"), " are the same, so nothing changes"], ["leave ", name_of("steps"), " out"];
        every.is_zero() || every > Condition::LONGEST_TIME => every_span,
            "this time must be longer than zero and at most 30 days", "write a time such as `20s`";
        steps > MAX_STEPS => by_span, "these are more than {MAX_STEPS} steps", ["write a larger ", name_of("by")];
    }
    Ok(Staircase {
        key,
        every,
        steps: steps as u32,
        span,
        from,
        to,
        by,
        set,
    })
}
