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
/// its default type 7; the interval computed with SciPy 1.17 (`t.interval`).
#[test]
fn description_of_mtcars() {
    let d = describe(&MPG).unwrap();
    assert_eq!((d.n, d.min, d.max), (32, 10.4, 33.9));
    close(d.mean, 20.090625, 1e-9);
    close(d.sd.unwrap(), 6.026948052089104, 1e-9);
    close(d.cv.unwrap(), 6.026948052089104 / 20.090625, 1e-9);
    close(d.q1, 15.425, 1e-9);
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

/// Source: R, `t.test(Pair(extra[group == 1], extra[group == 2]) ~ 1, data = sleep)`:
/// t = −4.0621, df = 9, p = 0.002833, −2.4598858 to −0.7001142, mean difference −1.58.
#[test]
fn paired_comparison_of_the_sleep_data() {
    let c = compare_paired(&SLEEP, 0.95).unwrap();
    assert_eq!(c.n, 10);
    close(c.mean_difference, -1.58, 1e-12);
    close(c.mean_a, 0.75, 1e-12);
    close(c.mean_b, 2.33, 1e-12);
    close(c.p_value.unwrap(), 0.002832890197384273, 1e-12);
    ends(c.difference_interval, [-2.4598858, -0.7001142], 1e-7);
    assert_eq!(c.ratio, None, "some gains are negative");
}

/// Source: R, `t.test(extra ~ group, data = sleep)`: df = 17.776, p = 0.07939, −3.3654832 to
/// 0.2054832 (group 1 − group 2).
#[test]
fn welch_comparison_of_the_sleep_data() {
    let first = describe(&SLEEP.map(|pair| pair.0)).unwrap();
    let second = describe(&SLEEP.map(|pair| pair.1)).unwrap();
    let w = welch_difference(&second, &first, 0.95).unwrap();
    close(w.difference, -1.58, 1e-12);
    close(w.degrees_of_freedom.unwrap(), 17.776473516178488, 1e-9);
    close(w.p_value.unwrap(), 0.0793941401873583, 1e-10);
    ends(w.interval, [-3.3654832, 0.2054832], 1e-7);
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
/// 3 · 0.01, 2 · 0.03 and, never less than the one before, 0.06.
#[test]
fn holm_adjusts_step_by_step() {
    let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
    for (got, expected) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
        close(*got, expected, 1e-15);
    }
    assert_eq!(holm(&[0.6, f64::NAN]), [1.0, 1.0]);
    assert!(holm(&[]).is_empty());
    close(bonferroni_confidence(0.95, 10), 0.995, 1e-15);
    assert_eq!(bonferroni_confidence(0.95, 0), 0.95);
}

/// Source: STUDIES.md, S0, the published means and Table 3 (TCP from baseline to 5 % loss).
#[test]
fn relative_difference_as_published() {
    let about = |mean: f64| describe(&[mean - 1.0, mean, mean + 1.0]).unwrap();
    for (from, to, published) in [(91.8, 82.8, -9.8), (52.6, 56.9, 8.2), (20.4, 21.8, 6.9)] {
        let r = relative_difference(&about(from), &about(to), 0.95).unwrap();
        close(r.relative * 100.0, published, 0.05);
    }
    // Fieller's interval is the set of ratios that Welch's test does not reject: at its ends the
    // scaled means differ just significantly.
    let (from, to) = (describe(&MPG[..16]).unwrap(), describe(&MPG[16..]).unwrap());
    let r = relative_difference(&from, &to, 0.95).unwrap();
    for end in r.interval.unwrap() {
        let scale = 1.0 + end;
        let square_from = (scale * from.sd.unwrap()).powi(2) / 16.0;
        let square_to = to.sd.unwrap().powi(2) / 16.0;
        let t = (to.mean - scale * from.mean) / (square_from + square_to).sqrt();
        // t(0.975) lies between those of 15 and 30 degrees of freedom; the degrees of freedom are
        // taken at the estimate, the same for both ends.
        assert!((2.0422..2.1315).contains(&t.abs()), "{t}");
    }
    // A mean that may well be zero has no relative difference with bounds.
    let vague = describe(&[-10.0, 11.0]).unwrap();
    assert_eq!(
        relative_difference(&vague, &to, 0.95).unwrap().interval,
        None
    );
    assert_eq!(
        relative_difference(&describe(&[0.0]).unwrap(), &to, 0.95),
        None
    );
}

#[test]
fn pairs_without_spread_are_not_certainty() {
    let same = compare_paired(&[(5.0, 5.0); 10], 0.95).unwrap();
    assert_eq!(same.p_value, Some(1.0));
    assert_eq!(same.difference_interval, Some([0.0, 0.0]));
    assert_eq!(same.ratio.unwrap().interval, Some([1.0, 1.0]));

    // Two rounds that differ by the same can be chance; ten cannot.
    let two = compare_paired(&[(1.0, 0.0), (1.0, 0.0)], 0.95).unwrap();
    assert_eq!((two.p_value, two.difference_interval), (Some(0.5), None));
    let ten = compare_paired(&[(1.0, 0.0); 10], 0.95).unwrap();
    assert_eq!(ten.p_value, Some(0.5_f64.powi(9)));
    assert_eq!(ten.difference_interval, Some([1.0, 1.0]));

    // 0.3 − 0.1 and 0.2 − 0.0 differ in their last bit only.
    let rounded = compare_paired(&[(0.3, 0.1), (0.2, 0.0)], 0.95).unwrap();
    assert_eq!(rounded.p_value, Some(0.5));

    let one = compare_paired(&[(2.0, 1.0)], 0.95).unwrap();
    assert_eq!((one.p_value, one.difference_interval), (None, None));
    assert_eq!(one.ratio.unwrap().ratio, 2.0);
}

#[test]
fn what_has_no_answer_is_refused() {
    assert_eq!(describe(&[]), None);
    assert_eq!(describe(&[1.0, f64::NAN]), None);
    assert_eq!(describe(&[f64::INFINITY]), None);
    assert_eq!(compare_paired(&[], 0.95), None);
    assert_eq!(compare_paired(&[(1.0, 2.0)], 1.0), None);
    assert_eq!(compare_paired(&[(1.0, f64::NAN)], 0.95), None);
    assert_eq!(quantile(&[1.0], 1.5), None);
    let one = describe(&[3.0]).unwrap();
    assert_eq!((one.sd, one.cv, one.ci95), (None, None, None));
    assert_eq!(describe(&[-1.0, 1.0]).unwrap().cv, None);
    assert_eq!(describe(&[0.1; 7]).unwrap().sd, Some(0.0));
}
