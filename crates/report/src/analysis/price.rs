//! Prices of a lead: what else the faster of two transports, or the slower one, has more of.

use regatta_model::{
    MetricDefinition,
    metric::{Place, shown_in},
};

use super::summary::{Comparison, Conclusion};
use crate::{
    format::{is_narrow, list, times_form, two_digits},
    language::{self, plural, tr},
};

/// Iterates over the metrics of prices, each with the quantity of which the side that is worse by the metric has more, and
/// its short name.
pub fn metrics() -> impl Iterator<Item = (&'static MetricDefinition, [&'static str; 2])> {
    shown_in(|place| match place {
        Place::Price(quantity, short) => Some([quantity, short]),
        _ => None,
    })
}

/// Minimum ratio of a price that is mentioned.
const LEAST: f64 = 1.1;

/// Ratio by which one transport needs more of something than another, as the run claims it.
#[derive(Debug, Clone, Copy)]
struct Price {
    /// Name of the quantity in English.
    quantity: &'static str,
    /// Its short name.
    short: &'static str,
    /// Ratio above 1; `None` where its interval is too wide to show it.
    ratio: Option<f64>,
}

impl Price {
    fn text(self, quantity: &str) -> String {
        let quantity = language::text(quantity);
        match self.ratio {
            None => tr!("more {}", quantity),
            Some(ratio) if ratio >= 2.0 => plural!(
                times_form(ratio),
                "{1} times the {2}",
                "{1} times the {2}",
                two_digits(ratio),
                quantity
            ),
            Some(ratio) => tr!("{} % more {}", two_digits((ratio - 1.0) * 100.0), quantity),
        }
    }
}

/// Prices of two transports, the larger ones first.
#[derive(Debug, Clone, Default)]
pub struct Prices {
    /// Prices of the first: quantities of which it has more.
    of_first: Vec<Price>,
    /// Prices of the second.
    of_second: Vec<Price>,
}

impl Prices {
    /// Returns the prices of two transports among the comparisons of their condition and workload.
    pub fn of(comparisons: &[&Comparison], [first, second]: [&str; 2]) -> Self {
        let mut found: [Vec<(f64, Price)>; 2] = Default::default();
        for (metric, [quantity, short]) in metrics() {
            let pair = comparisons.iter().find_map(|c| {
                let sides = [c.a.as_str(), c.b.as_str()];
                let turned = sides == [second, first];
                (c.metric == metric.name && (turned || sides == [first, second]))
                    .then_some((c, turned))
            });
            let Some((comparison, turned)) = pair else {
                continue;
            };
            let claim = &comparison.claim;
            let (Some(ratio), true) = (claim.ratio, claim.conclusion.is_difference()) else {
                continue;
            };
            let ratio = ratio.max(1.0 / ratio);
            if ratio < LEAST {
                continue;
            }
            let price = Price {
                quantity,
                short,
                ratio: claim.interval.is_some_and(is_narrow).then_some(ratio),
            };
            let is_of_first = (claim.conclusion == Conclusion::Slower) != turned;
            found[usize::from(!is_of_first)].push((ratio, price));
        }
        let [of_first, of_second] = found.map(|mut prices| {
            prices.sort_by(|a, b| b.0.total_cmp(&a.0));
            prices.into_iter().map(|(_, price)| price).collect()
        });
        Self {
            of_first,
            of_second,
        }
    }

    /// Returns the largest price that is known as a number, of the first transport or else of the second, with the short
    /// name of its quantity. It is worded as the end of a sentence about both, "`first` is … than `second`", or, if `same`,
    /// that both are the same.
    pub fn clause(&self, [first, second]: [&str; 2], same: bool) -> Option<String> {
        let known = |prices: &[Price]| {
            prices
                .iter()
                .find(|it| it.ratio.is_some())
                .map(|it| it.text(it.short))
        };
        Some(match (known(&self.of_first), same) {
            (Some(price), false) => tr!(", with {}", price),
            (Some(price), true) => format!("; {}", tr!("`{}` has {}", first, price)),
            (None, false) => tr!(", which has {}", known(&self.of_second)?),
            (None, true) => {
                let price = known(&self.of_second)?;
                format!("; {}", tr!("`{}` has {}", second, price))
            }
        })
    }

    /// Returns the sentence about all prices of two transports.
    pub fn sentence(&self, [first, second]: [&str; 2]) -> Option<String> {
        let side = |name: &str, prices: &[Price]| {
            let prices = list(prices.iter().map(|it| it.text(it.quantity)));
            (!prices.is_empty()).then(|| tr!("`{}` has {}", name, prices))
        };
        let sides = [side(first, &self.of_first), side(second, &self.of_second)];
        let sides: Vec<String> = sides.into_iter().flatten().collect();
        (!sides.is_empty()).then(|| sides.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use regatta_model::metric::id;

    use super::*;
    use crate::analysis::{comparison::Unsaved, mean::MeanKind, summary::Claim};
    use Conclusion::{Faster, Slower, Undecided};

    /// Returns the comparison of `a` with `b` by a metric.
    fn compared(
        metric: &str,
        ratio: f64,
        interval: [f64; 2],
        conclusion: Conclusion,
    ) -> Comparison {
        Comparison {
            condition: String::new(),
            workload: String::new(),
            metric: metric.to_owned(),
            a: "a".to_owned(),
            b: "b".to_owned(),
            mean_a: None,
            mean_b: None,
            claim: Claim {
                n: 5,
                mean_kind: MeanKind::Geometric,
                ratio: Some(ratio),
                interval: Some(interval),
                confidence: 0.95,
                p_value: None,
                p_adjusted: None,
                detectable_ratio: None,
                estimate: Unsaved(None),
                autocorrelation: 0.0,
                conclusion,
            },
        }
    }

    fn near(metric: &str, ratio: f64, conclusion: Conclusion) -> Comparison {
        compared(metric, ratio, [ratio * 0.9, ratio * 1.1], conclusion)
    }

    fn sentence(comparisons: &[Comparison], pair: [&str; 2]) -> Option<String> {
        let comparisons: Vec<&Comparison> = comparisons.iter().collect();
        Prices::of(&comparisons, pair).sentence(pair)
    }

    /// Half the goodput per CPU time is twice the CPU time; a delay of 1.5 times is one of 50 % more.
    #[test]
    fn the_worse_side_has_more_and_the_larger_prices_come_first() {
        let all = [
            near(id::GOODPUT_PER_CORE_PERCENT_BPS, 0.5, Slower),
            near(id::ROUND_TRIP_DELAY_P50_NS, 1.5, Slower),
            near(id::RETRANSMIT_RATIO, 3.0, Slower),
            near(id::PEAK_MEMORY_SENDER_BYTES, 0.8, Faster),
        ];
        let text = "`a` has 3.0 times the retransmitted packets, 2.0 times the CPU time and 50 % more delay under load; \
                    `b` has 25 % more memory";
        assert_eq!(sentence(&all, ["a", "b"]).as_deref(), Some(text));
        let text = "`b` has 25 % more memory; `a` has 3.0 times the retransmitted packets, 2.0 times the CPU time and 50 % \
                    more delay under load";
        assert_eq!(sentence(&all, ["b", "a"]).as_deref(), Some(text));
        assert_eq!(sentence(&all, ["a", "c"]), None);
        assert_eq!(sentence(&all, ["c", "b"]), None);
    }

    #[test]
    fn a_price_is_a_difference_of_a_tenth_at_least() {
        let of = |ratio, conclusion| {
            sentence(
                &[near(id::SET_UP_TIME_MEAN_NS, ratio, conclusion)],
                ["a", "b"],
            )
        };
        assert_eq!(of(1.09, Slower), None);
        assert_eq!(
            of(1.1, Slower).as_deref(),
            Some("`a` has 10 % more set-up time")
        );
        assert_eq!(of(3.0, Undecided), None);
    }

    #[test]
    fn a_price_with_a_wide_interval_has_no_number() {
        let wide = compared(id::ROUND_TRIP_DELAY_P50_NS, 5.0, [1.1, 30.0], Slower);
        let memory = near(id::PEAK_MEMORY_SENDER_BYTES, 1.3, Slower);
        let pair = ["a", "b"];
        let text = "`a` has more delay under load and 30 % more memory";
        let all = [wide.clone(), memory.clone()];
        assert_eq!(sentence(&all, pair).as_deref(), Some(text));
        let prices = Prices::of(&[&wide, &memory], pair);
        assert_eq!(
            prices.clause(pair, false).as_deref(),
            Some(", with 30 % more memory")
        );
        assert_eq!(Prices::of(&[&wide], pair).clause(pair, false), None);
        assert_eq!(Prices::of(&[&wide], pair).clause(pair, true), None);
    }

    /// The price of the first comes before that of the second.
    #[test]
    fn a_clause_has_one_price() {
        let delay = |conclusion| near(id::ROUND_TRIP_DELAY_P50_NS, 2.5, conclusion);
        let memory = near(id::PEAK_MEMORY_SENDER_BYTES, 0.5, Faster);
        let pair = ["a", "b"];
        let of =
            |comparisons: &[&Comparison], same| Prices::of(comparisons, pair).clause(pair, same);
        let both = [&delay(Slower), &memory];
        assert_eq!(
            of(&both, false).as_deref(),
            Some(", with 2.5 times the delay")
        );
        assert_eq!(
            of(&both, true).as_deref(),
            Some("; `a` has 2.5 times the delay")
        );
        assert_eq!(
            of(&[&memory], false).as_deref(),
            Some(", which has 2.0 times the memory")
        );
        assert_eq!(
            of(&[&memory], true).as_deref(),
            Some("; `b` has 2.0 times the memory")
        );
        assert_eq!(of(&[], false), None);
        assert_eq!(of(&[], true), None);
    }
}
