//! Tails and quantiles of the distributions that the intervals need.
//!
//! Quantiles are found from the distribution function itself, by Newton's method or bisection: slower than
//! the published approximations by a microsecond or two, and right at every level and every number of degrees
//! of freedom (statrs's own inverse of the beta function is off in places, see its tests).

use std::cell::RefCell;

use statrs::function::{
    erf::erfc,
    gamma::{gamma_lr, ln_gamma},
};

/// Returns the regularised incomplete beta function I_x(a, b), for a, b > 0 and x in [0, 1].
///
/// Continued fraction, evaluated by Lentz's method as modified by Thompson and Barnett, with as
/// many terms as large arguments need (their number grows as √max(a, b)).
///
/// Source: NIST Digital Library of Mathematical Functions, 8.17.22.
pub(crate) fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    incomplete_beta_of(a, b, x, 1.0 - x)
}

/// Regularised incomplete beta function as [`incomplete_beta`], with `complement`, 1 − x, given by
/// the caller, who may know it more exactly.
pub(crate) fn incomplete_beta_of(a: f64, b: f64, x: f64, complement: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if complement <= 0.0 {
        return 1.0;
    }
    // The fraction converges fast on this side of the mean only; the other is its mirror image.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - front(b, a, complement, x) * fraction(b, a, complement);
    }
    front(a, b, x, complement) * fraction(a, b, x)
}

/// Returns x^a (1−x)^b / (a B(a, b)).
fn front(a: f64, b: f64, x: f64, complement: f64) -> f64 {
    (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * complement.ln()).exp() / a
}

fn fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let keep = |value: f64| if value.abs() < TINY { TINY } else { value };
    let terms = 200 + (20.0 * a.max(b).sqrt()).min(1e6) as u32;
    let mut c = 1.0;
    let mut d = 1.0 / keep(1.0 - (a + b) * x / (a + 1.0));
    let mut value = d;
    for m in 1..=terms {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / keep(1.0 + even * d);
        c = keep(1.0 + even / c);
        value *= c * d;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / keep(1.0 + odd * d);
        c = keep(1.0 + odd / c);
        let step = c * d;
        value *= step;
        if (step - 1.0).abs() < f64::EPSILON {
            break;
        }
    }
    value
}

/// Returns the probability that Student's t with `df` degrees of freedom lies further from 0 than
/// `t`.
pub(crate) fn t_two_sided(t: f64, df: f64) -> f64 {
    let square = t * t;
    if square.is_infinite() {
        return 0.0;
    }
    incomplete_beta_of(df / 2.0, 0.5, df / (df + square), square / (df + square)).clamp(0.0, 1.0)
}

/// Returns the t that a Student's t with `df` degrees of freedom exceeds in absolute value with
/// probability 1 − `confidence`.
pub(crate) fn t_critical(confidence: f64, df: f64) -> f64 {
    thread_local!(static KNOWN: Known<2> = const { Known::new() });
    KNOWN.with(|known| {
        known.get([confidence, df], || {
            let tail = 1.0 - confidence;
            let mut high = 1.0;
            while t_two_sided(high, df) > tail {
                high *= 2.0;
            }
            newton(tail, df, high)
                .unwrap_or_else(|| bisect(0.0, high, |t| t_two_sided(t, df) > tail))
        })
    })
}

/// Returns the t at which the two-sided tail of Student's t is `tail`, with `high` the first power of two, from 1 on, that
/// is not below it. `None` where rounding keeps the steps from coming to an end.
///
/// Newton's method from the left: the tail is convex, so that it never overshoots.
fn newton(tail: f64, df: f64, high: f64) -> Option<f64> {
    let log_front =
        ln_gamma((df + 1.0) / 2.0) - ln_gamma(df / 2.0) - (df * std::f64::consts::PI).ln() / 2.0;
    let mut t = if high > 1.0 { high / 2.0 } else { 0.0 };
    for _ in 0..60 {
        let density = (log_front - (df + 1.0) / 2.0 * (t * t / df).ln_1p()).exp();
        let step = (t_two_sided(t, df) - tail) / (2.0 * density);
        t += step;
        if step.abs() <= 1e-13 * t {
            return Some(t);
        }
    }
    None
}

/// Returns the shift, in standard errors, at which t with `df` degrees of freedom exceeds
/// `critical` in absolute value with probability `power`; infinite if that is above a million.
pub(crate) fn noncentrality(critical: f64, df: f64, power: f64) -> f64 {
    thread_local!(static KNOWN: Known<3> = const { Known::new() });
    KNOWN.with(|known| {
        known.get([critical, df, power], || {
            let short_of = |shift: f64| power_of_t(critical, df, shift) - power;
            let (mut low, mut high) = ((0.0, short_of(0.0)), (critical, short_of(critical)));
            while high.1 < 0.0 {
                low = high;
                let further = 2.0 * high.0 + 1.0;
                high = (further, short_of(further));
                if high.0 > 1e6 {
                    return f64::INFINITY;
                }
            }
            // Regula falsi with the Illinois rule: the power rises smoothly between the two.
            for _ in 0..60 {
                let middle = (low.0 * high.1 - high.0 * low.1) / (high.1 - low.1);
                let at = (middle, short_of(middle));
                if at.1.abs() < 1e-9 || !middle.is_finite() {
                    return middle;
                }
                if at.1 < 0.0 {
                    low = at;
                    high.1 /= 2.0;
                } else {
                    high = at;
                    low.1 /= 2.0;
                }
            }
            high.0
        })
    })
}

/// Cache of computed values of a function: the pairs of a run mostly have the same number of rounds and the same level.
struct Known<const N: usize>(RefCell<Vec<([f64; N], f64)>>);

impl<const N: usize> Known<N> {
    const MAX: usize = 64;

    const fn new() -> Self {
        Self(RefCell::new(Vec::new()))
    }

    fn get(&self, arguments: [f64; N], compute: impl FnOnce() -> f64) -> f64 {
        let mut known = self.0.borrow_mut();
        if let Some((_, value)) = known.iter().find(|(of, _)| *of == arguments) {
            return *value;
        }
        let value = compute();
        if known.len() == Self::MAX {
            known.clear();
        }
        known.push((arguments, value));
        value
    }
}

/// Returns the probability that t with `df` degrees of freedom lies further from 0 than `critical`
/// where the truth is `shift` standard errors away: 1 less the noncentral t distribution between
/// the two critical values.
///
/// The integral over the estimated standard error s, whose square times `df` is chi-squared, by
/// Simpson's rule: P(Z > critical · s − shift) + P(Z < −critical · s − shift).
pub(crate) fn power_of_t(critical: f64, df: f64, shift: f64) -> f64 {
    let above = |z: f64| 0.5 * erfc(z / std::f64::consts::SQRT_2);
    // s is near 1 with a deviation of 1/√(2 df): nothing is left eight of them away.
    let half = 8.0 / (2.0 * df).sqrt();
    let (low, high) = ((1.0 - half).max(1e-9), 1.0 + half);
    // The tails rise within 1 / critical, which takes a few steps.
    let width = high - low;
    let steps = 2 * (critical * width).clamp(32.0, 4000.0) as u32;
    let log_front = df / 2.0 * (df / 2.0).ln() - ln_gamma(df / 2.0) + 2.0_f64.ln();
    let at = |s: f64| {
        let density = (log_front + (df - 1.0) * s.ln() - df * s * s / 2.0).exp();
        // Where the shift is large, nothing lies on the other side.
        let other = if shift < 6.0 {
            above(critical * s + shift)
        } else {
            0.0
        };
        density * (above(critical * s - shift) + other)
    };
    let step = width / f64::from(steps);
    let inner: f64 = (1..steps)
        .map(|i| f64::from(2 + 2 * (i % 2)) * at(low + f64::from(i) * step))
        .sum();
    ((at(low) + inner + at(high)) * step / 3.0).clamp(0.0, 1.0)
}

/// Returns the value that a chi-squared variable with `df` degrees of freedom is below with probability `p`.
pub(crate) fn chi_squared(p: f64, df: f64) -> f64 {
    let below = |x: f64| gamma_lr(df / 2.0, x / 2.0);
    let mut high = df.max(1.0);
    while below(high) < p {
        high *= 2.0;
    }
    bisect(0.0, high, |x| below(x) < p)
}

/// Returns the point of [low, high] up to which `before` holds, to the last bits of a double.
pub(crate) fn bisect(mut low: f64, mut high: f64, before: impl Fn(f64) -> bool) -> f64 {
    // 200 halvings leave nothing between the ends of any interval used here.
    for _ in 0..200 {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            break;
        }
        if before(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low + (high - low) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn close(got: f64, expected: f64, relative: f64) {
        assert!(
            (got - expected).abs() <= relative * expected.abs(),
            "{got} is not {expected}"
        );
    }

    /// Source: NIST/SEMATECH e-Handbook, 1.3.6.7.2 (critical values of Student's t, three
    /// decimals); the further digits and the far tails were computed with SciPy 1.17.
    #[test]
    fn critical_values_of_student() {
        for (df, confidence, t) in [
            (1.0, 0.90, 6.313751514675037),
            (1.0, 0.95, 12.706204736174694),
            (2.0, 0.60, 1.0606601717798212),
            (2.0, 0.95, 4.302652729749462),
            (2.0, 0.9995, 44.70458729293313),
            (4.0, 0.95, 2.7764451051977934),
            (4.0, 0.99, 4.604094871349992),
            (9.0, 0.95, 2.262157162798205),
            (30.0, 0.95, 2.0422724563012378),
            (194.0, 0.95, 1.9722675325821355),
            (2.5, 0.99, 7.163728138948783),
            (1e6, 0.95, 1.959966356814107),
        ] {
            close(t_critical(confidence, df), t, 1e-9);
        }
        close(t_critical(0.999_999, 9.0), 11.636782027441653, 1e-9);
        close(t_critical(0.01, 30.0), 0.012638348785835, 1e-9);
        // The Cauchy distribution: cot(π/2 · tail), with a tail of 2⁻⁴⁰.
        let far = (std::f64::consts::PI * 2.0_f64.powi(-41)).tan().recip();
        close(t_critical(1.0 - 2.0_f64.powi(-40), 1.0), far, 1e-9);
    }

    /// Source: tables of Student's t.
    #[test]
    fn newton_s_method_needs_no_bisection() {
        for (confidence, df, high, t) in [
            (0.95, 9.0, 4.0, 2.2621571628),
            (0.95, 1.0, 16.0, 12.7062047364),
            (0.99, 30.0, 4.0, 2.7499956536),
            (0.5, 2.0, 1.0, 0.8164965809),
            (0.999, 3.0, 16.0, 12.9239786365),
        ] {
            close(newton(1.0 - confidence, df, high).expect("an end"), t, 1e-9);
        }
    }

    /// Source: computed with SciPy 1.17 (`nct.sf(c, df, d) + nct.cdf(-c, df, d)`); for 9 degrees of freedom by Simpson's
    /// rule with 6000 steps, which gives the same for the others. Without a shift the power is the level.
    #[test]
    fn power_is_that_of_the_noncentral_distribution() {
        for (df, confidence, shift, power) in [
            (2.0, 0.95, 0.0, 0.05),
            (4.0, 0.95, 3.0, 0.6192614594023306),
            (4.0, 0.995, 8.0, 0.8926166795985312),
            (2.0, 0.95, 6.0, 0.8357381198228694),
            (39.0, 0.999, 4.0, 0.6671128879854364),
            (1.0, 0.95, 20.0, 0.8833944429330353),
            (9.0, 0.95, 3.0, 0.761156620426326),
        ] {
            let got = power_of_t(t_critical(confidence, df), df, shift);
            assert!((got - power).abs() < 1e-5, "{got} is not {power}");
        }
    }

    /// Source: the shifts at which Simpson's rule with 1500 steps gives this power.
    #[test]
    fn a_shift_of_the_noncentrality_has_the_power_that_was_asked_for() {
        for (df, confidence, power, shift) in [
            (9.0, 0.95, 0.8, 3.14963289),
            (9.0, 0.95, 0.99, 4.84905822),
            (9.0, 0.95, 0.1, 0.72699781),
            (1.0, 0.95, 0.9, 20.9644734),
            (4.0, 0.99, 0.5, 4.24910025),
            (30.0, 0.90, 0.95, 3.36709605),
        ] {
            close(
                noncentrality(t_critical(confidence, df), df, power),
                shift,
                1e-4,
            );
        }
        // The critical value is above a million.
        let far = t_critical(1.0 - 1e-9, 1.0);
        assert_eq!(noncentrality(far, 1.0, 0.8), f64::INFINITY);
    }

    /// Source: computed with SciPy 1.17 (`2 * scipy.stats.t.sf(t, df)`).
    #[test]
    fn tails_of_student_keep_their_digits() {
        for (t, df, p) in [
            (1e3, 4.0, 5.999960000209998e-12),
            (50.0, 4.0, 9.57445365696969e-07),
            (1e12, 1.0, 6.366197723675813e-13),
            (40.0, 100.0, 2.462107602140071e-63),
            (1e-9, 4.0, 0.99999999925),
        ] {
            close(t_two_sided(t, df), p, 1e-9);
            close(t_two_sided(-t, df), p, 1e-9);
        }
        assert_eq!(t_two_sided(f64::MAX, 4.0), 0.0);
        assert_eq!(t_two_sided(0.0, 4.0), 1.0);
    }
}
