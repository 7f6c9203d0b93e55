//! Limits of a gate: changes of metrics by which a cell misses it.

use std::str::FromStr;

use regatta_model::{
    Better, Named as _, Ratio, UnitError,
    metric::{self, Place, shown_in},
    study::nearest,
};
use serde::Serialize;

use crate::{analysis::better, format::grouped};

/// Returns the short names of metrics in limits, each with those metrics of which a cell has any.
fn short_names() -> Vec<(&'static str, Vec<&'static str>)> {
    let named = shown_in(|place| match place {
        Place::Limit(name) => Some(name),
        _ => None,
    });
    grouped(named.map(|(metric, name)| (name, metric.name)))
}

/// Names of limits by the metric of the workload's ranking.
const OF_RANKING: [(&str, Direction); 2] =
    [("slower", Direction::Worse), ("faster", Direction::Better)];

/// Direction of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// To what is worse by the metric.
    Worse,
    /// To what is better by the metric.
    Better,
    /// To larger values.
    Higher,
    /// To smaller values.
    Lower,
}

regatta_model::named!(Direction:
    "worse" => Worse, "better" => Better, "higher" => Higher, "lower" => Lower);

/// Change of a metric by which a cell misses a gate: [`FromStr`] reads `slower:5%`, `delay-worse:10%`,
/// `packets_sent-higher:20%`, and a name of a metric alone as its worsening.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Limit {
    /// The limit as it was written.
    pub name: String,
    /// Metrics to compare, as far as a cell has them; empty for the metric of the workload's ranking.
    pub metrics: Vec<&'static str>,
    /// Direction of the change.
    pub direction: Direction,
    /// Smallest change, as a share of the value in the first run.
    #[serde(rename = "least_ratio")]
    pub least: Ratio,
}

impl Limit {
    /// Returns the names that a limit can begin with, before its colon: those for the metric of the ranking, and
    /// `NAME-worse` and `NAME-better` for each metric with a short name.
    #[must_use]
    pub fn names() -> Vec<String> {
        let of_ranking = OF_RANKING.iter().map(|(name, _)| (*name).to_owned());
        let of_metrics = short_names()
            .into_iter()
            .flat_map(|(name, _)| [format!("{name}-worse"), format!("{name}-better")]);
        of_ranking.chain(of_metrics).collect()
    }
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, least) = text.split_once(':').ok_or_else(|| {
            format!("{}a limit and a percentage are asked for, such as `slower:5%` or `delay-worse:10%`, or `failed` alone", meant(text))
        })?;
        let limit = |metrics: Vec<&'static str>, direction| {
            let wrong = |error: UnitError| format!("{error}; write a limit such as `{name}:5%`");
            Ok(Self {
                name: text.to_owned(),
                metrics,
                direction,
                least: least.parse::<Ratio>().map_err(wrong)?,
            })
        };
        if let Some((_, direction)) = OF_RANKING.iter().find(|(known, _)| *known == name) {
            return limit(Vec::new(), *direction);
        }
        let (metric, direction) = match name.rsplit_once('-') {
            Some((metric, direction)) => match Direction::from_name(direction) {
                Some(direction) => (metric, direction),
                None => (name, Direction::Worse),
            },
            None => (name, Direction::Worse),
        };
        let known = short_names();
        let short = known.iter().find(|(short, _)| *short == metric);
        let metrics = match (short, metric::find(metric)) {
            (Some((_, metrics)), _) => metrics.clone(),
            (None, Some(known)) => vec![known.name],
            (None, None) => {
                let known: Vec<&str> = known.iter().map(|(short, _)| *short).collect();
                return Err(format!(
                    "{}the metrics are `{}`, and all of `regatta list metrics`; `slower` and `faster` are by the metric of the ranking",
                    meant(name),
                    known.join("`, `")
                ));
            }
        };
        let is_of_neither = metrics.iter().any(|it| better(it) == Better::Neither);
        if is_of_neither && matches!(direction, Direction::Worse | Direction::Better) {
            return Err(format!(
                "neither direction of `{metric}` is better: write `{metric}-higher` or `{metric}-lower`"
            ));
        }
        limit(metrics, direction)
    }
}

/// Returns the beginning of a hint that names the limit which somebody who wrote `name` may mean.
fn meant(name: &str) -> String {
    let mut known = Limit::names();
    known.extend(["failed".to_owned()]);
    known.extend(short_names().into_iter().map(|(short, _)| short.to_owned()));
    known.extend(metric::METRICS.iter().map(|metric| metric.name.to_owned()));
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    nearest(name, &known).map_or_else(String::new, |near| format!("did you mean `{near}`? "))
}

#[cfg(test)]
mod tests {
    use regatta_model::metric::id;

    use super::*;

    fn read(text: &str) -> Result<(Vec<&'static str>, Direction, f64), String> {
        let limit: Limit = text.parse()?;
        assert_eq!(limit.name, text);
        Ok((limit.metrics, limit.direction, limit.least.0))
    }

    #[test]
    fn limits_name_any_metric_and_direction() {
        let cpu = vec![id::CPU_PER_BYTE_NS];
        for (text, metrics, direction, least) in [
            ("slower:5%", vec![], Direction::Worse, 0.05),
            ("faster:10%", vec![], Direction::Better, 0.1),
            ("cpu-worse:20%", cpu.clone(), Direction::Worse, 0.2),
            ("cpu:20%", cpu.clone(), Direction::Worse, 0.2),
            ("cpu-better:20%", cpu, Direction::Better, 0.2),
            (
                "set-up:1%",
                vec![id::SET_UP_TIME_MEAN_NS],
                Direction::Worse,
                0.01,
            ),
            (
                "host-cpu-better:1%",
                vec![id::CPU_HOST_RATIO],
                Direction::Better,
                0.01,
            ),
            (
                "packets_sent-higher:3%",
                vec![id::PACKETS_SENT],
                Direction::Higher,
                0.03,
            ),
            (
                "min_rtt_ns-lower:3%",
                vec![id::MIN_RTT_NS],
                Direction::Lower,
                0.03,
            ),
        ] {
            assert_eq!(read(text), Ok((metrics, direction, least)), "{text}");
        }
    }

    #[test]
    fn a_limit_that_is_none_is_told_what_may_be_meant() {
        for (text, expected) in [
            ("slowr:5%", "did you mean `slower`?"),
            ("dealy-worse:5%", "did you mean `delay-worse`?"),
            ("retransmision:5%", "did you mean `retransmissions`?"),
            ("fialed", "did you mean `failed`?"),
            ("xyz:5%", "the metrics are `goodput`, `share`"),
            ("slower", "a limit and a percentage are asked for"),
            ("slower:fast", "write a limit such as `slower:5%`"),
            ("xyz:fast", "the metrics are `goodput`, `share`"),
            ("packets_sent:5%", "write `packets_sent-higher`"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
