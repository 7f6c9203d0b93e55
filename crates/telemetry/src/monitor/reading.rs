//! Readings of all instruments at one moment, and the difference of two.

use regatta_model::{HostSample, host_sample::ELAPSED};

/// Shortest time of which ratios are given: the kernel counts in steps of mostly 10 ms.
const MIN_NS: i64 = 50_000_000;

/// One instrument at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value {
    /// State, in the unit of its name.
    State(f64),
    /// Events or bytes since the host began.
    Count(u64),
    /// Nanoseconds since the host began; the value of a sample is their share of the elapsed time.
    Time(i64),
    /// Nanoseconds since the host began; the value of a sample is the share of the elapsed time without them.
    Remaining(i64),
}

/// Names with the values read under them.
pub(super) type Values = Vec<(String, Value)>;

/// Parser that adds the values in the text of a file, and skips what it does not understand.
pub(super) type Parse<'a> = &'a dyn Fn(&[u8], &mut Values);

/// All instruments at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Reading {
    pub(super) monotonic_ns: i64,
    pub(super) unix_ns: i64,
    pub(super) values: Values,
}

impl Reading {
    /// Returns the names of the values of [`Reading::since`].
    pub(super) fn names(&self) -> Vec<String> {
        let names = self.values.iter().map(|(name, _)| name.clone());
        std::iter::once(ELAPSED.to_owned()).chain(names).collect()
    }

    /// Returns the sample of the time between `earlier` and this reading. A counter that went
    /// backwards, or was not read earlier, has no value.
    pub(super) fn since(&self, earlier: &Self) -> HostSample {
        let elapsed_ns = (self.monotonic_ns - earlier.monotonic_ns).max(0);
        let values = self.values.iter().enumerate().map(|(position, value)| {
            let (name, now) = value;
            let same = |other: &&(String, Value)| other.0 == *name;
            // Mostly the names are those of the reading before.
            let before = (earlier.values.get(position).filter(same))
                .or_else(|| earlier.values.iter().find(same))
                .map(|(_, before)| *before);
            difference(*now, before, elapsed_ns).map(|value| value as f32)
        });
        HostSample {
            unix_ns: self.unix_ns,
            monotonic_ns: self.monotonic_ns,
            values: std::iter::once(Some(elapsed_ns as f32))
                .chain(values)
                .collect(),
        }
    }
}

fn difference(now: Value, before: Option<Value>, elapsed_ns: i64) -> Option<f64> {
    let share = |now: i64, before: i64| {
        let share = (now - before) as f64 / elapsed_ns as f64;
        (elapsed_ns >= MIN_NS).then(|| share.clamp(0.0, 1.0))
    };
    // Digits below a tick carry no information, and take space.
    let rounded = |share: f64| (share * 1e4).round() / 1e4;
    match (now, before) {
        (Value::State(value), _) => value.is_finite().then_some(value),
        (Value::Count(now), Some(Value::Count(before))) => {
            now.checked_sub(before).map(|count| count as f64)
        }
        (Value::Time(now), Some(Value::Time(before))) => share(now, before).map(rounded),
        (Value::Remaining(now), Some(Value::Remaining(before))) => {
            share(now, before).map(|share| rounded(1.0 - share))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(at_ns: i64, values: &[(&str, Value)]) -> Reading {
        Reading {
            monotonic_ns: at_ns,
            unix_ns: 0,
            values: values.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect(),
        }
    }

    #[test]
    fn values_cover_the_time_between_two_readings() {
        let second = 1_000_000_000;
        let before = reading(
            0,
            &[
                ("gone", Value::Count(1)),
                ("count", Value::Count(40)),
                ("time", Value::Time(0)),
                ("free", Value::Remaining(0)),
                ("back", Value::Count(9)),
            ],
        );
        let after = reading(
            2 * second,
            &[
                ("count", Value::Count(42)),
                ("time", Value::Time(second / 2)),
                ("free", Value::Remaining(second / 2)),
                ("back", Value::Count(3)),
                ("new", Value::Count(7)),
                ("state", Value::State(0.5)),
            ],
        );
        let sample = after.since(&before);
        let expected = [
            Some(2e9),
            Some(2.0),
            Some(0.25),
            Some(0.75),
            None,
            None,
            Some(0.5),
        ];
        assert_eq!(sample.values, expected);
        assert_eq!(after.names().len(), expected.len());
    }

    #[test]
    fn ratios_over_less_than_a_few_ticks_are_absent() {
        let at = |ns| reading(ns, &[("time", Value::Time(ns)), ("count", Value::Count(1))]);
        let sample = at(49_000_000).since(&at(0));
        assert_eq!(sample.values, [Some(49e6), None, Some(0.0)]);
        let sample = at(0).since(&at(0));
        assert_eq!(sample.values, [Some(0.0), None, Some(0.0)]);
    }
}
