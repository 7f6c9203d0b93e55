//! Properties of the estimators that hold for any numbers.

use proptest::prelude::*;
use regatta_stats::*;

proptest! {
    #[test]
    fn nothing_panics_and_order_holds(values in prop::collection::vec(any::<f64>(), 0..12)) {
        if let Some(d) = describe(&values) {
            prop_assert!(d.min <= d.q1 && d.q1 <= d.median && d.median <= d.q3 && d.q3 <= d.max);
            prop_assert!(d.min <= d.mean && d.mean <= d.max);
            if let Some([low, high]) = d.ci95 {
                prop_assert!(low <= d.mean && d.mean <= high);
            }
        }
        for rho in [0.0, 0.4, 0.9] {
            if let Some(estimate) = Estimate::of(&values, rho) {
                let _ = (estimate.p_value(), estimate.interval_of_ratio(0.95));
                let _ = estimate.detectable(0.95, 0.8);
                let _ = (estimate.sequential_detectable(0.95, 0.8), estimate.interval_of_deviation(0.5));
                if let Some(p_value) = estimate.sequential_p_value() {
                    prop_assert!((0.0..=1.0).contains(&p_value));
                    // Another look costs evidence.
                    prop_assert!(p_value >= estimate.p_value().unwrap() - 1e-12);
                }
                let _ = estimate.sequential_interval_of_ratio(0.95);
            }
        }
        let _ = (trend_p_value(&values), sen_slope(&values));
        let _ = (lag1(&values), autocorrelation(std::slice::from_ref(&values), 1, 0.05));
        let rho = shared_autocorrelation(std::slice::from_ref(&values));
        prop_assert!((0.0..=0.9).contains(&rho));
        for decision in [simultaneous(&values, 0.05), false_discoveries(&values, 0.05)].concat() {
            prop_assert!((0.0..=1.0).contains(&decision.adjusted));
        }
    }

    #[test]
    fn an_interval_of_any_stop_excludes_zero_where_its_test_does(
        values in prop::collection::vec(-10..10_i32, 2..12), rho in 0.0..0.9
    ) {
        let values: Vec<f64> = values.into_iter().map(f64::from).collect();
        let estimate = Estimate::of(&values, rho).unwrap();
        let p_value = estimate.sequential_p_value().unwrap();
        for confidence in [0.5, 0.95, 0.999] {
            if (p_value - (1.0 - confidence)).abs() > 1e-9 {
                let interval = estimate.sequential_interval(confidence);
                let is_outside = interval.is_some_and(|[low, high]| low > 0.0 || high < 0.0);
                prop_assert_eq!(is_outside, p_value < 1.0 - confidence);
            }
        }
    }

    #[test]
    fn an_interval_excludes_zero_when_the_difference_is_significant(
        series in prop::collection::vec(prop::collection::vec(-10..10_i32, 2..9), 1..6)
    ) {
        let estimates: Vec<Estimate> = series
            .iter()
            .map(|values| values.iter().map(|&v| f64::from(v)).collect::<Vec<_>>())
            .filter_map(|values| Estimate::of(&values, 0.0))
            .collect();
        let tests: Vec<f64> = estimates.iter().map(|e| e.p_value().unwrap()).collect();
        let holm = simultaneous(&tests, 0.05);
        for (estimate, decision) in estimates.iter().zip(&holm).filter(|(_, it)| !it.significant) {
            let interval = estimate.interval(decision.confidence);
            prop_assert!(interval.is_none_or(|[low, high]| low <= 1e-9 && high >= -1e-9));
        }
        for (estimate, decision) in estimates.iter().zip(false_discoveries(&tests, 0.05)) {
            let p = estimate.p_value().unwrap();
            if (p - (1.0 - decision.confidence)).abs() > 1e-9 {
                let interval = estimate.interval(decision.confidence);
                let outside = interval.is_some_and(|[low, high]| low > 0.0 || high < 0.0);
                prop_assert_eq!(outside, decision.significant);
            }
        }
    }

    #[test]
    fn binomial_intervals_hold_the_estimate_and_mirror(n in 1..5_000_u64, part in 0.0..=1.0_f64) {
        let k = (n as f64 * part) as u64;
        let [low, high] = binomial_interval(k, n, 0.95);
        let estimate = k as f64 / n as f64;
        prop_assert!(0.0 <= low && low <= estimate && estimate <= high && high <= 1.0);
        let mirror = binomial_interval(n - k, n, 0.95);
        prop_assert!((mirror[0] - (1.0 - high)).abs() < 1e-9);
    }
}
