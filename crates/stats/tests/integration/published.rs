//! The estimators against worked figures from named sources.

use regatta_stats::*;

/// Student's sleep data: hours of sleep gained with drug 1 and with drug 2, by patient.
/// Source: Student 1908, Biometrika 6, 1–25; R's data set `sleep`.
const SLEEP: [(f64, f64); 10] = [
    (0.7, 1.9),
    (-1.6, 0.8),
    (-0.2, 1.1),
    (-1.2, 0.1),
    (-0.1, -0.1),
    (3.4, 4.4),
    (3.7, 5.5),
    (0.8, 1.6),
    (0.0, 4.6),
    (2.0, 3.4),
];

/// Miles per gallon of 32 cars. Source: Motor Trend 1974; R's data set `mtcars`.
const MPG: [f64; 32] = [
    21.0, 21.0, 22.8, 21.4, 18.7, 18.1, 14.3, 24.4, 22.8, 19.2, 17.8, 16.4, 17.3, 15.2, 10.4, 10.4,
    14.7, 32.4, 30.4, 33.9, 21.5, 15.5, 15.2, 13.3, 19.2, 27.3, 26.0, 30.4, 15.8, 19.7, 15.0, 21.4,
];

#[track_caller]
fn close(got: f64, expected: f64, within: f64) {
    assert!(
        (got - expected).abs() <= within,
        "{got} is not {expected} ± {within}"
    );
}

#[track_caller]
fn ends(got: Option<[f64; 2]>, expected: [f64; 2], within: f64) {
    let got = got.expect("an interval");
    close(got[0], expected[0], within);
    close(got[1], expected[1], within);
}

/// Source: R, `summary(mtcars$mpg)` (10.40 15.43 19.20 20.09 22.80 33.90), `sd`, `quantile` with
/// type 1; the interval computed with SciPy 1.17 (`t.interval`).
#[test]
fn description_of_mtcars() {
    let d = describe(&MPG).unwrap();
    assert_eq!((d.n, d.min, d.max), (32, 10.4, 33.9));
    close(d.mean, 20.090625, 1e-9);
    close(d.sd.unwrap(), 6.026948052089104, 1e-9);
    close(d.cv.unwrap(), 6.026948052089104 / 20.090625, 1e-9);
    close(d.q1, 15.2, 1e-9);
    close(d.median, 19.2, 1e-9);
    close(d.q3, 22.8, 1e-9);
    ends(d.ci95, [17.917678508746246, 22.26357149125376], 1e-8);
    assert_eq!(mean_interval(&d, 0.95), d.ci95);
}

/// Source: NIST StRD, univariate summary statistics, sets NumAcc1 to NumAcc4 (certified mean and
/// standard deviation): values whose spread is far below their size.
#[test]
fn certified_means_and_deviations() {
    let d = describe(&[10_000_001.0, 10_000_003.0, 10_000_002.0]).unwrap();
    assert_eq!((d.mean, d.sd), (10_000_002.0, Some(1.0)));
    for (middle, tolerance) in [(1.2, 1e-14), (1_000_000.2, 1e-9), (10_000_000.2, 1e-8)] {
        let values: Vec<f64> = std::iter::once(middle)
            .chain((0..1000).map(|i| {
                if i % 2 == 0 {
                    middle - 0.1
                } else {
                    middle + 0.1
                }
            }))
            .collect();
        let d = describe(&values).unwrap();
        close(d.mean, middle, tolerance);
        close(d.sd.unwrap(), 0.1, tolerance);
    }
}

/// Source: NIST/SEMATECH e-Handbook, 1.3.5.2, ZARR13.DAT: N = 195, mean 9.261460, standard
/// deviation 0.022789, 95 % limits 9.258242 and 9.264679.
#[test]
fn confidence_limits_for_the_mean() {
    let d = Description {
        n: 195,
        mean: 9.261460,
        sd: Some(0.022789),
        ..describe(&[9.0]).unwrap()
    };
    ends(mean_interval(&d, 0.95), [9.258242, 9.264679], 1e-6);
}

/// Source: R, `quantile(mtcars$mpg, p, type = 1)`.
#[test]
fn quantiles_of_mtcars() {
    let of = |probability| quantile(&MPG, probability).unwrap();
    assert_eq!(
        [0.0, 0.1, 0.5, 0.9, 1.0].map(of),
        [10.4, 14.3, 19.2, 30.4, 33.9]
    );
}

/// By hand: 1 and 3 have the mean 2, the standard deviation √2 and the standard error 1; Student's t of one degree of
/// freedom is 12.7062.
#[test]
fn two_values_have_an_interval() {
    let d = describe(&[1.0, 3.0]).unwrap();
    ends(d.ci95, [2.0 - 12.706204736, 2.0 + 12.706204736], 1e-8);
    assert_eq!(d.median, 2.0);
    assert_eq!(mean_interval(&d, 1.0), None);
    assert_eq!(mean_interval(&d, 0.0), None);
}

/// The mean of 2⁵³ + (0, 0, 4), 2⁵³ + 4/3, is rounded to 2⁵³ + 2, the next number of 53 bits. The sum of the squared
/// distances from the mean is 32/3 all the same.
#[test]
fn rounding_of_the_mean_does_not_widen_the_deviation() {
    let large = 9_007_199_254_740_992.0;
    let d = describe(&[large, large, large + 4.0]).unwrap();
    close(d.sd.unwrap(), (16.0_f64 / 3.0).sqrt(), 1e-12);
}

fn differences(pairs: &[(f64, f64)]) -> Vec<f64> {
    pairs.iter().map(|(a, b)| a - b).collect()
}

/// Source: R, `t.test(Pair(extra[group == 1], extra[group == 2]) ~ 1, data = sleep)`:
/// t = −4.0621, df = 9, p = 0.002833, −2.4598858 to −0.7001142, mean difference −1.58.
#[test]
fn paired_comparison_of_the_sleep_data() {
    let c = Estimate::of(&differences(&SLEEP), 0.0).unwrap();
    assert_eq!(c.n, 10);
    close(c.mean, -1.58, 1e-12);
    close(c.p_value().unwrap(), 0.002832890197384273, 1e-12);
    ends(c.interval(0.95), [-2.4598858, -0.7001142], 1e-7);
    // Of logarithms, these are a ratio and its limits.
    ends(c.interval_of_ratio(0.95), [0.08544471, 0.4965286], 1e-7);
    // R, `sd(differences)`.
    close(c.deviation().unwrap(), 1.2299954832798732, 1e-12);
}

#[test]
fn a_detectable_effect_needs_a_level_and_a_power() {
    let sleep = Estimate::of(&differences(&SLEEP), 0.0).unwrap();
    assert_eq!(sleep.detectable(0.95, 0.0), None);
    assert_eq!(sleep.detectable(0.95, 1.0), None);
    assert_eq!(sleep.detectable(0.0, 0.8), None);
    assert_eq!(sleep.interval(0.0), None);
}

#[test]
fn what_is_no_effect_level_or_power_takes_no_number_of_rounds() {
    assert_eq!(rounds_to_detect(-1.0, 1.0, 0.95, 0.8, 1000), None);
    assert_eq!(rounds_to_detect(1.0, -1.0, 0.95, 0.8, 1000), None);
    // A test at a level of 5 % finds with a probability of 5 % what is not there.
    assert_eq!(rounds_to_detect(1.0, 0.0, 0.95, 0.04, 1000), None);
    assert_eq!(rounds_to_detect(1.0, 1.0, 0.0, 0.8, 1000), None);
    assert_eq!(rounds_to_detect(1.0, 1.0, 0.95, 0.0, 1000), None);
}

/// Source: SciPy 1.17, power of the two-sided t-test of 20 and 21 values with mean 1.3 and standard
/// deviation 2 from its `nct`: 0.787 and 0.809. Three more make up for the autocorrelation that so few show by chance.
#[test]
fn rounds_and_effects_are_those_of_the_power_of_the_t_test() {
    assert_eq!(rounds_to_detect(2.0, 1.3, 0.95, 0.8, 1000), Some(24));
    assert_eq!(rounds_to_detect(2.0, 1e-9, 0.95, 0.8, 1000), None);
    assert_eq!(rounds_to_detect(0.0, 0.1, 0.95, 0.8, 1000), Some(2));
    // The smallest effect that ten rounds without autocorrelation detect takes three more.
    let sleep = Estimate::of(&differences(&SLEEP), 0.0).unwrap();
    let effect = sleep.detectable(0.95, 0.8).unwrap();
    let sd = describe(&differences(&SLEEP)).unwrap().sd.unwrap();
    assert_eq!(
        rounds_to_detect(sd, effect * 1.001, 0.95, 0.8, 1000),
        Some(13)
    );
    assert_eq!(
        rounds_to_detect(sd, effect * 0.999, 0.95, 0.8, 1000),
        Some(13)
    );
}

/// Sources: R documentation of `binom.test` (Conover 1971, Mendelian inheritance: 682 of 925,
/// 95 %: 0.7076683 to 0.7654066); NIST/SEMATECH e-Handbook, 7.2.4.1 (4 of 20, 90 %: 0.071354 to
/// 0.401029); the others computed with SciPy 1.17
/// (`binomtest(...).proportion_ci(method="exact")`).
#[test]
fn exact_binomial_intervals() {
    for (successes, trials, confidence, expected, within) in [
        (682, 925, 0.95, [0.7076683, 0.7654066], 5e-8),
        (4, 20, 0.90, [0.071354, 0.401029], 1e-6),
        (0, 10, 0.95, [0.0, 0.30849710781876294], 1e-12),
        (10, 10, 0.95, [0.6915028921812371, 1.0], 1e-12),
        (
            1,
            10,
            0.95,
            [0.0025285785444625728, 0.44501611702819543],
            1e-12,
        ),
        (
            50,
            1000,
            0.99,
            [0.03392666271022023, 0.0705043752014578],
            1e-11,
        ),
        (0, 1_000_000, 0.99, [0.0, 5.2983033643494575e-06], 1e-12),
        (
            50_123,
            1_000_000,
            0.99,
            [0.04956259863629029, 0.050687686425221666],
            1e-10,
        ),
    ] {
        ends(
            Some(binomial_interval(successes, trials, confidence)),
            expected,
            within,
        );
    }
    assert_eq!(binomial_interval(0, 0, 0.95), [0.0, 1.0]);
    assert_eq!(binomial_interval(1, 2, f64::NAN), [0.0, 1.0]);
}

/// Source: Holm 1979, the procedure by hand: p = 0.01, 0.04, 0.03, 0.005 gives 4 · 0.005,
/// 3 · 0.01, 2 · 0.03 and, never less than the one before, 0.06. The two claims have the level of four tests, the others
/// that of two.
#[test]
fn holm_adjusts_step_by_step() {
    let decisions = simultaneous(&[0.01, 0.04, 0.03, 0.005], 0.05);
    for (got, expected) in decisions.iter().zip([0.03, 0.06, 0.06, 0.02]) {
        close(got.adjusted, expected, 1e-15);
        assert_eq!(got.significant, expected <= 0.05);
        let confidence = if got.significant { 0.9875 } else { 0.975 };
        close(got.confidence, confidence, 1e-15);
    }
    // One claim of four tests: the level of the others is that of three.
    let one = simultaneous(&[0.001, 0.2, 0.3, 0.4], 0.05);
    close(one[0].confidence, 0.9875, 1e-15);
    close(one[1].confidence, 1.0 - 0.05 / 3.0, 1e-15);
    // 2 · 0.025 is the level itself, and claimed: the level of the other is that of one.
    let at_the_level = simultaneous(&[0.025, 0.6], 0.05);
    assert!(at_the_level[0].significant);
    close(at_the_level[1].confidence, 0.95, 1e-15);
    let none = simultaneous(&[0.6, f64::NAN], 0.05);
    assert!(none.iter().all(|d| d.adjusted == 1.0 && !d.significant));
    assert!(simultaneous(&[], 0.05).is_empty());
}

/// R 4.5, `p.adjust(c(0.01, 0.04, 0.03, 0.005), "BY")`: 0.04166667, 0.08333333, 0.08333333, 0.04166667. Two claims of four
/// tests: their intervals are at 1 − 2 · 0.05 / (4 · (1 + 1/2 + 1/3 + 1/4)).
#[test]
fn false_discoveries_are_few_under_any_dependence() {
    let decisions = false_discoveries(&[0.01, 0.04, 0.03, 0.005], 0.05);
    let adjusted = [0.041_666_67, 0.083_333_33, 0.083_333_33, 0.041_666_67];
    for (got, expected) in decisions.iter().zip(adjusted) {
        close(got.adjusted, expected, 1e-8);
        close(got.confidence, 1.0 - 0.1 / (25.0 / 3.0), 1e-15);
        assert_eq!(got.significant, expected <= 0.05);
    }
    // Without a claim the level is that of one.
    let none = false_discoveries(&[0.5, f64::NAN], 0.05);
    assert!(none.iter().all(|it| it.adjusted == 1.0 && !it.significant));
    close(none[0].confidence, 1.0 - 0.05 / 3.0, 1e-15);
    assert!(false_discoveries(&[], 0.05).is_empty());
}

/// By hand: 1, 2, 3, 2, 1, 2, 3, 2 has a lag-1 autocorrelation of 0 about its mean 2, corrected (8 · 0 + 1) / 4; of three
/// values 1, 2, 3 it is 0, corrected (0 + 1/3) · 3 / 0.5, which is cut, and of 1, 2, 3, 2 it is 0, corrected (0 + 1/4) · 4 / 1.5.
#[test]
fn the_shared_autocorrelation_is_corrected_for_short_series() {
    let eight = vec![1.0, 2.0, 3.0, 2.0, 1.0, 2.0, 3.0, 2.0];
    close(
        shared_autocorrelation(std::slice::from_ref(&eight)),
        0.25,
        1e-12,
    );
    close(shared_autocorrelation(&[vec![1.0, 2.0, 3.0]]), 0.9, 1e-12);
    let four = vec![1.0, 2.0, 3.0, 2.0];
    close(
        shared_autocorrelation(std::slice::from_ref(&four)),
        2.0 / 3.0,
        1e-12,
    );
    // The mean of both, (1/4 + 2/3) / 2, and of what varies only.
    close(
        shared_autocorrelation(&[eight.clone(), four]),
        11.0 / 24.0,
        1e-12,
    );
    let other = vec![1.0, 3.0, 1.0, 3.0, 1.0, 3.0, 1.0, 3.0];
    // −7/8, corrected (−7 + 1) / 4 = −1.5: the mean is below zero.
    assert_eq!(shared_autocorrelation(&[eight.clone(), other]), 0.0);
    close(shared_autocorrelation(&[eight, vec![5.0; 8]]), 0.25, 1e-12);
    assert_eq!(shared_autocorrelation(&[]), 0.0);
}

#[test]
fn a_p_value_that_is_no_probability_shows_nothing() {
    for p_value in [-0.5, 1.5] {
        let [decision] = simultaneous(&[p_value], 0.05)[..] else {
            panic!("one decision");
        };
        assert_eq!((decision.adjusted, decision.significant), (1.0, false));
    }
}

#[test]
fn values_without_spread_are_not_certainty() {
    let same = Estimate::of(&[0.0; 10], 0.0).unwrap();
    assert_eq!(same.p_value(), Some(1.0));
    assert_eq!(same.interval(0.95), Some([0.0, 0.0]));
    assert_eq!(same.detectable(0.95, 0.8), None);

    // Two rounds that differ by the same can be chance; ten cannot.
    let two = Estimate::of(&[1.0; 2], 0.0).unwrap();
    assert_eq!((two.p_value(), two.interval(0.95)), (Some(0.5), None));
    let ten = Estimate::of(&[1.0; 10], 0.0).unwrap();
    assert_eq!(ten.p_value(), Some(0.5_f64.powi(9)));
    assert_eq!(ten.interval(0.95), Some([1.0, 1.0]));

    // 0.3 − 0.1 and 0.2 − 0.0 differ in their last bit only.
    let rounded = Estimate::of(&[0.3 - 0.1, 0.2], 0.0).unwrap();
    assert_eq!(rounded.p_value(), Some(0.5));

    // The same at a hundred million: what is rounding grows with the values.
    let rounded = Estimate::of(&[(0.3 - 0.1) * 1e8, 0.2 * 1e8], 0.0).unwrap();
    assert_eq!(rounded.p_value(), Some(0.5));

    let one = Estimate::of(&[2.0], 0.0).unwrap();
    assert_eq!((one.p_value(), one.interval(0.95)), (None, None));
    assert!(!one.is_constant());
}

/// By hand: two values of a simulation can be the same by chance, 1/2, and three cannot.
#[test]
fn equal_values_of_a_simulation_are_no_chance() {
    let p_value = |values: &[f64]| {
        let estimate = Estimate::of(values, 0.0).expect("a mean");
        estimate.of_simulation().p_value()
    };
    assert_eq!(p_value(&[1.0; 2]), Some(0.5));
    assert_eq!(p_value(&[1.0; 3]), Some(0.0));
    assert_eq!(p_value(&[0.0; 3]), Some(1.0));
}

/// By hand: the distances of 1 and three times 1 − 16 ε from their mean are 12, −4, −4 and −4 ε, their standard deviation
/// 8 ε, as much as rounding may make of equal values. 17 ε are more.
#[test]
fn variation_above_that_of_rounding_counts() {
    let values = |steps: f64| [0.0, steps, steps, steps].map(|steps| 1.0 - steps * f64::EPSILON);
    let constant = |steps| Estimate::of(&values(steps), 0.0).unwrap().is_constant();
    assert!(constant(16.0));
    assert!(!constant(17.0));
}

/// Source: R 4, `t.test(extra ~ group, data = sleep)`, which is Welch's; two samples without variation
/// by hand: 2 of the 20 ways to divide six values into three and three.
#[test]
fn two_independent_samples() {
    let side = |of: fn(&(f64, f64)) -> f64| SLEEP.iter().map(of).collect::<Vec<f64>>();
    let [a, b] = [side(|pair| pair.0), side(|pair| pair.1)].map(|v| Estimate::of(&v, 0.0).unwrap());
    let less = a.less(&b);
    assert_eq!(less.n, 20);
    close(less.mean, -1.58, 1e-12);
    close(less.p_value().unwrap(), 0.07939414, 1e-7);
    let [low, high] = less.interval(0.95).unwrap();
    close(low, -3.3654832, 1e-6);
    close(high, 0.2054832, 1e-6);

    let [same, other] = [2.0, 3.0].map(|value| Estimate::of(&[value; 3], 0.0).unwrap());
    let constant = same.less(&other);
    assert!(constant.is_constant());
    close(constant.p_value().unwrap(), 0.1, 1e-12);
    assert_eq!(constant.interval(0.95), None);
    assert_eq!(same.less(&same).p_value(), Some(1.0));
    // 0.3 − 0.1 is not 0.2 in its last bit.
    let [difference, fifth] = [0.3 - 0.1, 0.2].map(|v| Estimate::of(&[v; 3], 0.0).unwrap());
    assert_eq!(difference.less(&fifth).p_value(), Some(1.0));
}

/// Source: Bayley and Hammersley 1946 by hand: n = 3, ρ = 0.5 gives
/// 1 + 2 (2/3 · 0.5 + 1/3 · 0.25) = 11/6.
#[test]
fn correlated_values_widen_the_interval() {
    let values = [1.0, 2.0, 3.0];
    let [free, bound] = [0.0, 0.5].map(|rho| Estimate::of(&values, rho).unwrap());
    let width = |e: &Estimate| e.interval(0.95).map(|[low, high]| high - low).unwrap();
    // 11/6 · 2 / (3 − 11/6) times the variance. Of two degrees of freedom (1 − 0.25) / (1 + 0.25) would remain; 1.5 do.
    let factor = (11.0_f64 / 6.0 * 2.0 / (3.0 - 11.0 / 6.0)).sqrt();
    // Student's t of 1.5 degrees of freedom, by integration of its density.
    close(
        width(&bound) / width(&free),
        factor * 6.016_663_2 / 4.302_652_730,
        1e-4,
    );
    assert_eq!(free.mean, bound.mean);
}

/// By hand: six values at ρ = 0.1 have an inflation of 1 + 2 (5 · 0.1 + 4 · 0.01 + 3 · 0.001 + 2 · 0.0001 + 0.00001) / 6 =
/// 1.18107, and the variance 38.3; within two blocks it is 10 / 4. The deviation is √(38.3 · 1.18107 · 5 / 4.81893), the
/// degrees of freedom are 5 · 0.99 / 1.01 = 4.90099, within blocks √(2.5 · 1.18107 · 5 / 4.81893) and 4 · 0.99 / 1.01 =
/// 3.920792. Student's t of these was computed by integration of its density.
#[test]
fn correlated_values_in_blocks_widen_the_interval() {
    let values = [1.0, 2.0, 3.0, 11.0, 13.0, 15.0];
    let plain = Estimate::of(&values, 0.1).unwrap();
    let blocked = Estimate::of_blocks(&values, &[0, 0, 0, 1, 1, 1], 0.1).unwrap();
    for (estimate, deviation, t) in [
        (plain, 6.850888501307065, 2.5862803),
        (blocked, 1.750320247783345, 2.7987063),
    ] {
        close(estimate.deviation().unwrap(), deviation, 1e-12);
        let half = t * deviation / 6.0_f64.sqrt();
        ends(estimate.interval(0.95), [7.5 - half, 7.5 + half], 1e-6);
    }
}

/// Source: the lag-1 coefficient by hand; Mann–Kendall's S of ten rising values is 45, its variance
/// 125, so that z = 44 / √125 = 3.94 and p = 8.3e-5.
#[test]
fn autocorrelation_and_trend_are_detected() {
    close(lag1(&[1.0, 2.0, 3.0, 4.0]).unwrap(), 0.25, 1e-12);
    assert_eq!(lag1(&[5.0; 9]), None);
    let rising: Vec<f64> = (0..10).map(f64::from).collect();
    close(trend_p_value(&rising).unwrap(), 8.303e-5, 1e-7);
    close(sen_slope(&rising).unwrap(), 1.0, 1e-12);
    assert!(autocorrelation(&[rising], 1, 0.05) > 0.5);
    assert_eq!(
        autocorrelation(&[vec![1.0, -1.0, 1.0, -1.0, 1.0, -1.0]], 1, 0.05),
        0.0
    );
    assert_eq!(trend_p_value(&[1.0, 2.0, 3.0]), None);
    close(trend_p_value(&[2.0; 6]).unwrap(), 1.0, 1e-12);
}

/// Source: Moran 1948 by hand. For 0 to 9 the deviations from 4.5 give r₁ = 57.75 / 82.5 = 0.7, and 0.7 + 1/10 without
/// its bias; for 1 to 4 it is 0.25 + 1/4. The deviation of the latter is 2 / (4 √3), so that z = √3, p = 0.0416; of the
/// former 8 / (10 · 3), z = 3.
#[test]
fn autocorrelation_is_the_mean_coefficient_without_its_bias() {
    let ten: Vec<f64> = (0..10).map(f64::from).collect();
    let four = vec![1.0, 2.0, 3.0, 4.0];
    close(lag1(&ten).unwrap(), 0.7, 1e-12);
    close(
        autocorrelation(std::slice::from_ref(&ten), 1, 0.05),
        0.8,
        1e-12,
    );
    // P(Z > 3) = 0.001350.
    assert_eq!(autocorrelation(std::slice::from_ref(&ten), 1, 0.00134), 0.0);
    assert!(autocorrelation(std::slice::from_ref(&ten), 1, 0.00136) > 0.0);
    let of_four = |degrees, level| autocorrelation(std::slice::from_ref(&four), degrees, level);
    close(of_four(1, 0.0417), 0.5, 1e-12);
    assert_eq!(of_four(1, 0.0416), 0.0);
    // Of several independent series the mean z is multiplied by the root of their number: p = P(Z > √6) = 0.00715.
    close(of_four(2, 0.0072), 0.5, 1e-12);
    assert_eq!(of_four(2, 0.0071), 0.0);
    // z of both is (3 + √3) / 2 · √2, P(Z > 3.346) = 0.0004098.
    let both = [ten.clone(), four.clone()];
    close(autocorrelation(&both, 2, 0.00041), 0.65, 1e-12);
    assert_eq!(autocorrelation(&both, 2, 0.0004), 0.0);
    // Constant series say nothing.
    let series = [ten, vec![5.0; 6], four];
    close(autocorrelation(&series, 2, 0.05), 0.65, 1e-12);
}

/// By hand: 1 to 3 have the deviations −1, 0 and 1, so that r₁ = 0. S of four rising values is 6, its variance 26/3:
/// z = 5 / 2.944, p = 0.0894.
#[test]
fn the_shortest_series_have_coefficient_trend_and_slope() {
    assert_eq!(lag1(&[1.0, 2.0, 3.0]), Some(0.0));
    assert_eq!(lag1(&[1.0, 2.0]), None);
    close(
        trend_p_value(&[1.0, 2.0, 3.0, 4.0]).unwrap(),
        0.089429,
        1e-6,
    );
    assert_eq!(sen_slope(&[1.0, 4.0]), Some(3.0));
    assert_eq!(sen_slope(&[1.0]), None);
    assert_eq!(sen_slope(&[1.0, f64::NAN]), None);
}

/// By hand: values that lie alternately 9 ε above and below their mean have r₁ = −3/4; 8 ε are rounding, of values of any
/// size.
#[test]
fn values_that_differ_by_rounding_have_no_autocorrelation() {
    let values = |scale: f64, steps: f64| {
        [0.0, steps, 0.0, steps].map(|steps| scale - scale * steps * f64::EPSILON)
    };
    for scale in [1.0, 1024.0] {
        assert_eq!(lag1(&values(scale, 16.0)), None);
        assert_eq!(lag1(&values(scale, 18.0)), Some(-0.75));
    }
    assert_eq!(lag1(&[1e200, -1e200, 1e200]), None);
}

/// The sum and the slopes over all pairs, one by one.
#[test]
fn trends_of_many_values_are_those_of_all_pairs() {
    let value = |i: u32| f64::from(i.wrapping_mul(2_654_435_761) >> 29) / 8.0;
    for n in [37_u32, 2500] {
        let values: Vec<f64> = (0..n).map(|i| value(i) + f64::from(i / 9) * 0.05).collect();
        let mut slopes = Vec::new();
        let mut sum = 0.0;
        for (i, a) in values.iter().enumerate() {
            for (j, b) in values.iter().enumerate().skip(i + 1) {
                sum += f64::from(u8::from(b > a)) - f64::from(u8::from(b < a));
                slopes.push((b - a) / (j - i) as f64);
            }
        }
        slopes.sort_by(f64::total_cmp);
        let middle = slopes[(slopes.len() - 1) / 2].midpoint(slopes[slopes.len() / 2]);
        close(sen_slope(&values).unwrap(), middle, 1e-9);
        let part = |n: f64| n * (n - 1.0) * (2.0 * n + 5.0);
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let ties: f64 = sorted
            .chunk_by(|a, b| a == b)
            .map(|it| part(it.len() as f64))
            .sum();
        assert!(ties > 0.0);
        let z = (f64::abs(sum) - 1.0) / ((part(f64::from(n)) - ties) / 18.0).sqrt();
        let p_value = statrs::function::erf::erfc(z / std::f64::consts::SQRT_2);
        close(trend_p_value(&values).unwrap(), p_value, 1e-9);
    }
}

#[test]
fn undefined_statistics_are_none() {
    assert_eq!(describe(&[]), None);
    assert_eq!(describe(&[1.0, f64::NAN]), None);
    assert_eq!(describe(&[f64::INFINITY]), None);
    assert_eq!(Estimate::of(&[], 0.0), None);
    assert_eq!(Estimate::of(&[1.0, 2.0], 0.0).unwrap().interval(1.0), None);
    assert_eq!(Estimate::of(&[1.0, f64::NAN], 0.0), None);
    assert_eq!(quantile(&[1.0], 1.5), None);
    assert_eq!(quantile(&[], 0.5), None);
    assert_eq!(quantile(&[1.0, f64::NAN], 0.5), None);
    let one = describe(&[3.0]).unwrap();
    assert_eq!((one.sd, one.cv, one.ci95), (None, None, None));
    assert_eq!(describe(&[-1.0, 1.0]).unwrap().cv, None);
    assert_eq!(describe(&[0.1; 7]).unwrap().sd, Some(0.0));
}

/// Penicillin yields of Box, Hunter and Hunter 2005, table 4.4: five blends as blocks of four treatments.
/// Between blends 264 with 4 degrees of freedom, within 296 with 15: F = 3.345, p = 0.038.
#[test]
fn blocks_of_the_penicillin_yields_differ() {
    let yields = [
        89.0, 88.0, 97.0, 94.0, 84.0, 77.0, 92.0, 79.0, 81.0, 87.0, 87.0, 85.0, 87.0, 92.0, 89.0,
        84.0, 79.0, 81.0, 80.0, 88.0,
    ];
    let blocks: Vec<usize> = (0..20).map(|i| i / 4).collect();
    let p = regatta_stats::blocks_differ(&yields, &blocks).unwrap();
    assert!((p - 0.0380).abs() < 5e-4, "{p}");
    let ungrouped = Estimate::of(&yields, 0.0).unwrap();
    let blocked = Estimate::of_blocks(&yields, &blocks, 0.0).unwrap();
    assert_eq!(blocked.mean, ungrouped.mean);
    // Within blocks: √(296 / 15 / 20) = 0.9933; t of 15 degrees of freedom 2.1314.
    let [low, high] = blocked.interval(0.95).unwrap();
    assert!(
        ((high - low) / 2.0 - 2.1314 * 0.9933).abs() < 1e-3,
        "{low} {high}"
    );
    // One block, or blocks of one value, are no blocks.
    assert_eq!(Estimate::of_blocks(&yields, &[0; 20], 0.0), Some(ungrouped));
    let single: Vec<usize> = (0..20).collect();
    assert_eq!(Estimate::of_blocks(&yields, &single, 0.0), Some(ungrouped));
    assert_eq!(regatta_stats::blocks_differ(&yields, &single), None);
    assert_eq!(regatta_stats::blocks_differ(&yields, &[0; 20]), None);
}

/// By hand: the squares are 10 within the blocks, with 4 degrees of freedom, and 181.5 between them: F = 72.6. With one
/// degree of freedom p is that of Student's t for √72.6.
#[test]
fn two_blocks_differ() {
    let values = [1.0, 2.0, 3.0, 11.0, 13.0, 15.0];
    let p = blocks_differ(&values, &[0, 0, 0, 1, 1, 1]).unwrap();
    close(p, 0.0010409126, 1e-9);
    // Without variation within blocks there is no F.
    assert_eq!(blocks_differ(&[1.0, 1.0, 2.0, 2.0], &[0, 0, 1, 1]), None);
}

/// By hand: the slopes of the pairs are 1, 1, 2, 2.5, 2.5 and 4, without the last value 1, 2.5 and 4.
#[test]
fn the_slope_is_the_median_of_all_pairs() {
    assert_eq!(sen_slope(&[0.0, 1.0, 5.0, 6.0]), Some(2.25));
    assert_eq!(sen_slope(&[0.0, 1.0, 5.0]), Some(2.5));
    // Seven of fifteen slopes are smaller, up to 2.5.
    assert_eq!(
        sen_slope(&[0.0, 1.0, 5.0, 6.0, 9.0, 17.0]),
        Some(2.6666666666666665)
    );
}

/// Numbers of 1000 have neighbours 1e-13 apart.
#[test]
fn values_that_differ_by_rounding_are_constant() {
    let is_constant = |other: f64| {
        let estimate = Estimate::of(&[1000.0, other, 1000.0], 0.0);
        estimate.expect("a mean").is_constant()
    };
    assert!(is_constant(1000.0_f64.next_up()));
    assert!(!is_constant(1000.0 + 1e-9));
}

/// Source: the Bayes factor's two integrals over the standard deviation and the effect, computed numerically for the ten
/// differences of `sleep`: 1 / 16.6088; the ends by the formula of the interval, computed with Python.
#[test]
fn a_test_that_holds_at_any_stop_is_that_of_the_bayes_factor() {
    let sleep = Estimate::of(&differences(&SLEEP), 0.0).unwrap();
    close(sleep.sequential_p_value().unwrap(), 0.060_209_088_317, 1e-9);
    let sign = sleep.mean.signum();
    let at = |confidence| {
        let [a, b] = sleep.sequential_interval(confidence).unwrap();
        Some([(sign * a).min(sign * b), (sign * a).max(sign * b)])
    };
    ends(at(0.95), [-0.046_886_699_8, 3.206_886_699_8], 1e-9);
    ends(at(0.9), [0.125_822_197_8, 3.034_177_802_2], 1e-9);
    // 5.236 488 498 standard errors: there noncentral t of nine degrees of freedom, integrated numerically over the
    // chi-squared distribution of its variance, exceeds the critical 4.182 671 836 with probability 0.8.
    close(
        sleep.sequential_detectable(0.95, 0.8).unwrap(),
        2.036_777_884,
        1e-6,
    );
    for (confidence, power) in [
        (0.95, 0.0),
        (0.95, 1.0),
        (0.95, 1.5),
        (0.0, 0.8),
        (1.5, 0.8),
    ] {
        let detectable = sleep.sequential_detectable(confidence, power);
        assert_eq!(detectable, None, "{confidence}, {power}");
    }
    let [low, high] = sleep.sequential_interval(0.9).unwrap();
    let ratio = sleep.sequential_interval_of_ratio(0.9);
    ends(ratio, [low.exp(), high.exp()], 1e-12);
    // Wider than an interval that holds at one stop only.
    let [fixed_low, fixed_high] = sleep.interval(0.9).unwrap();
    assert!(low < fixed_low && fixed_high < high);
}

#[test]
fn few_values_exclude_nothing_at_any_stop() {
    let two = Estimate::of(&[1.0, 1.001], 0.0).unwrap();
    assert_eq!(two.sequential_interval(0.95), None);
    assert_eq!(two.sequential_detectable(0.95, 0.8), None);
    assert!(two.sequential_p_value().unwrap() > 0.05);
    let one = Estimate::of(&[1.0], 0.0).unwrap();
    assert_eq!(one.sequential_p_value(), None);
    assert_eq!(one.sequential_interval(0.95), None);
}

/// Values that are all the same are tested by their signs, at any stop as at one.
#[test]
fn constant_values_are_tested_alike_at_any_stop() {
    let same = Estimate::of(&[0.1; 6], 0.0).unwrap();
    assert_eq!(same.sequential_p_value(), same.p_value());
    assert_eq!(same.sequential_interval(0.95), Some([0.1; 2]));
    assert_eq!(same.sequential_detectable(0.95, 0.8), None);
}

/// Source: R, `qchisq(c(0.25, 0.75), 9)`: 5.898826, 11.38875.
#[test]
fn the_interval_of_a_deviation_is_that_of_chi_squared() {
    let sleep = Estimate::of(&differences(&SLEEP), 0.0).unwrap();
    let sd = sleep.deviation().unwrap();
    let expected = [11.38875, 5.898826].map(|quantile: f64| sd * (9.0 / quantile).sqrt());
    ends(sleep.interval_of_deviation(0.5), expected, 1e-6);
    assert_eq!(sleep.interval_of_deviation(1.0), None);
    let same = Estimate::of(&[0.1; 6], 0.0).unwrap();
    assert_eq!(same.interval_of_deviation(0.5), None);
}

/// By hand: t is about √(2 (ln 20 + ½ ln 551)) = 3.5, and (3.5 + 0.84)² · (2 / 1.3)² = 45; the rest is that few degrees of
/// freedom take a larger t, and the autocorrelation that chance shows.
#[test]
fn a_test_that_holds_at_any_stop_takes_more_rounds() {
    let needed = |sd, effect| sequential_rounds_to_detect(sd, effect, 0.95, 0.8, 1000);
    let once = |sd, effect| rounds_to_detect(sd, effect, 0.95, 0.8, 1000);
    assert_eq!((once(2.0, 1.3), needed(2.0, 1.3)), (Some(24), Some(55)));
    assert_eq!(needed(2.0, 1e-9), None);
    assert!(needed(0.0, 0.1) > Some(2));
}
