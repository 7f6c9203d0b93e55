//! Settling time of a quantity after a step.

/// Half the width of the band around the final value, as a part of it.
pub const SETTLING_BAND: f64 = 0.1;

/// Smallest number of samples between two steps from which a settling time is computed.
const FEWEST_SAMPLES: usize = 10;

/// Outcome of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Settling {
    /// The quantity settled after this time from the step, in the unit of the samples' times.
    After(f64),
    /// The quantity still left the band in the second half of the time until the next step.
    Not,
}

/// Returns the settling time after a step at `step`, from `samples` of the time between it and the
/// next step: pairs of time and value, in the order of time. A sample describes the time up to its
/// own.
///
/// The final value is the mean of the second half of the samples. Settled is the quantity after
/// the last sample that lies further than [`SETTLING_BAND`] from it. Of three neighbours the median
/// is taken first, so that one stray sample unsettles nothing; a response shorter than two samples
/// is not seen for the same reason.
///
/// `None` for fewer than ten samples, or one that is not finite.
///
/// Sources: the settling time of control engineering, Ogata, *Modern Control Engineering*, 5-3,
/// there with bands of 2 % and 5 %, which the sawtooth of a loss-based congestion control leaves for
/// ever; response to changes as a metric, RFC 5166 §2.2.1.
#[must_use]
pub fn settling_time(samples: &[(f64, f64)], step: f64) -> Option<Settling> {
    let n = samples.len();
    let finite = |sample: &(f64, f64)| sample.0.is_finite() && sample.1.is_finite();
    if n < FEWEST_SAMPLES || !samples.iter().all(finite) {
        return None;
    }
    let half = n / 2;
    let last = &samples[half..];
    let end = last.iter().map(|sample| sample.1).sum::<f64>() / last.len() as f64;
    let median = |index: usize| {
        let first = index.saturating_sub(1).min(n - 3);
        let mut three = [first, first + 1, first + 2].map(|index| samples[index].1);
        three.sort_by(f64::total_cmp);
        three[1]
    };
    let outside = |index: &usize| (median(*index) - end).abs() > SETTLING_BAND * end.abs();
    Some(match (0..n).rev().find(outside) {
        None => Settling::After(0.0),
        Some(index) if index >= half => Settling::Not,
        Some(index) => Settling::After((samples[index].0 - step).max(0.0)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples every 100 ms from 20 s on.
    fn samples(value: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        (1..=200)
            .map(|number| {
                let t = f64::from(number) * 0.1;
                (20.0 + t, value(t))
            })
            .collect()
    }

    fn after(found: Option<Settling>) -> f64 {
        match found {
            Some(Settling::After(time)) => time,
            other => panic!("it settles: {other:?}"),
        }
    }

    /// A first-order lag reaches 90 % after its time constant times ln 10: with 0.5 s after 1.151 s,
    /// so that 1.1 s is the last sample outside.
    #[test]
    fn a_first_order_lag_settles_at_its_analytic_time() {
        let lag = samples(|t| 100.0 * (1.0 - (-t / 0.5).exp()));
        assert!((after(settling_time(&lag, 20.0)) - 1.1).abs() < 1e-9);
    }

    #[test]
    fn a_constant_series_settles_at_once_despite_an_outlier() {
        let still = samples(|t| if (t - 7.0).abs() < 0.01 { 3.0 } else { 80.0 });
        assert_eq!(settling_time(&still, 20.0), Some(Settling::After(0.0)));
        let wobble = samples(|t| 80.0 + 7.0 * (t * 10.0).sin());
        assert_eq!(settling_time(&wobble, 20.0), Some(Settling::After(0.0)));
    }

    #[test]
    fn a_late_excursion_is_not_settled() {
        let late = samples(|t| if t > 12.0 && t < 12.5 { 40.0 } else { 80.0 });
        assert_eq!(settling_time(&late, 20.0), Some(Settling::Not));
        let climbing = samples(|t| 10.0 * t);
        assert_eq!(settling_time(&climbing, 20.0), Some(Settling::Not));
    }

    /// A step up of what the path carries, which is found three seconds later, and a step down.
    #[test]
    fn a_step_settles_when_the_new_value_is_reached() {
        let up = samples(|t| if t <= 3.0 { 20.0 } else { 100.0 });
        assert!((after(settling_time(&up, 20.0)) - 3.0).abs() < 1e-9);
        let down = samples(|t| if t <= 3.0 { 100.0 } else { 20.0 });
        assert!((after(settling_time(&down, 20.0)) - 3.0).abs() < 1e-9);
        let at_once = samples(|_| 20.0);
        assert_eq!(settling_time(&at_once, 20.0), Some(Settling::After(0.0)));
    }

    /// The band around zero has no width.
    #[test]
    fn a_quantity_that_stops_settles_with_its_last_value_above_zero() {
        let stops = samples(|t| if t <= 3.0 { 20.0 } else { 0.0 });
        assert!((after(settling_time(&stops, 20.0)) - 3.0).abs() < 1e-9);
    }

    /// A ramp from 10 to 80 within 4 s: 72 is reached after 3.54 s.
    #[test]
    fn a_ramp_settles_where_it_enters_the_band() {
        let ramp = samples(|t| 10.0 + 70.0 * (t / 4.0).min(1.0));
        assert!((after(settling_time(&ramp, 20.0)) - 3.5).abs() < 1e-9);
    }

    /// A period of 4 s. An oscillation that dies away settles with its last sample outside the band.
    #[test]
    fn an_oscillation_wider_than_the_band_never_settles() {
        let wave = |t: f64| (t * std::f64::consts::FRAC_PI_2).sin();
        let lasting = samples(|t| 80.0 + 30.0 * wave(t));
        assert_eq!(settling_time(&lasting, 20.0), Some(Settling::Not));
        // The peaks, at odd seconds, are 80 exp(−t / 2): 8 is passed after the one at 3 s.
        let dying = samples(|t| 80.0 + 80.0 * (-t / 2.0).exp() * wave(t));
        let found = after(settling_time(&dying, 20.0));
        assert!((3.0..4.0).contains(&found), "{found}");
    }

    #[test]
    fn too_few_samples_have_no_settling_time() {
        assert_eq!(settling_time(&samples(|_| 1.0)[..9], 20.0), None);
        let ten = &samples(|_| 1.0)[..10];
        assert_eq!(settling_time(ten, 20.0), Some(Settling::After(0.0)));
        assert_eq!(settling_time(&[], 20.0), None);
        assert_eq!(settling_time(&samples(|_| f64::NAN), 20.0), None);
    }
}
