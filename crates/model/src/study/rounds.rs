//! The keys `rounds`, `every`, `for`, `rank_by` and `equivalence` of a study file.

use std::time::Duration;

use super::{
    CellEnd, Study, Until,
    error::Result,
    message::{key, text_setting},
    parts::find_metric,
    section::{Section, refuse},
};
use crate::{
    metric::Better,
    units::{Ratio, UnitError, format_duration, parse_duration},
};

/// Number of rounds, and the rule that ends a run or a cell before it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Rounds {
    pub rounds: u32,
    pub until: Option<Until>,
    /// Time after which a run with `until` begins no further round.
    pub time_limit: Option<Duration>,
    pub cell_end: Option<CellEnd>,
    /// Time from the beginning of a round to that of the next.
    pub every: Option<Duration>,
}

/// Reads `rounds`, and `every` with `rounds` or `for`.
pub(super) fn read(root: &mut Section<'_>) -> Result<Rounds> {
    root.not_both("rounds", "for")?;
    let every = root.duration("every", "150s")?;
    let every = root.time(every, "150s")?;
    let Some((length, span)) = root.quantity_such_as("for", "6h", parse_duration)? else {
        let rounds = read_number(root)?;
        return Ok(Rounds { every, ..rounds });
    };
    let every = root.required("every", "\"150s\"", every)?;
    let rounds = length.as_nanos() / every.as_nanos();
    let most = u128::from(Study::MAX_ROUNDS);
    let shown = format_duration(every);
    refuse! { root;
        !(1..=most).contains(&rounds) => span,
            "a round every {shown} for this long is not 1 to {most} rounds",
            ["write a longer time than ", key("every"), ", such as ", text_setting("for", "6h")];
    }
    Ok(Rounds {
        rounds: rounds as u32,
        every: Some(every),
        ..Rounds::default()
    })
}

/// Reads the number of rounds: `rounds = 20`, `rounds = { until = "3%", at_most = 60 }`,
/// `rounds = { until = "decided", at_most = 60, for = "2h" }`, `rounds = { successes = 3, at_most = 5 }` or
/// `rounds = { deadlines = 1, at_most = 5 }`.
fn read_number(root: &mut Section<'_>) -> Result<Rounds> {
    const USUAL: u32 = 5;
    let most = u64::from(Study::MAX_ROUNDS);
    if !root.is_table("rounds") {
        let rounds = root.number("rounds", 1, most)?;
        return Ok(Rounds {
            rounds: rounds.map_or(USUAL, |rounds| rounds as u32),
            ..Rounds::default()
        });
    }
    let table = root.section("rounds", "`rounds`")?;
    let mut table = root.required("rounds", "5", table)?;
    table.not_both("until", "successes")?;
    table.not_both("until", "deadlines")?;
    table.not_both("successes", "deadlines")?;
    for (key, cell_end) in CellEnd::RULES {
        let Some(enough) = table.number(key, 1, most)? else {
            continue;
        };
        let at_most = table.number("at_most", enough, most)?;
        let at_most = table.required("at_most", "5", at_most)?;
        table.end()?;
        return Ok(Rounds {
            cell_end: Some(cell_end(enough as u32)),
            rounds: at_most as u32,
            ..Rounds::default()
        });
    }
    let until = table.parsed::<Until>("until", "3%")?;
    let (until, span) = table.required("until", "\"decided\"", until)?;
    let least = u64::from(until.min_rounds());
    let at_most = table.number("at_most", least, most)?;
    let at_most = table.required("at_most", "60", at_most)?;
    let time_limit = table.duration("for", "2h")?;
    let time_limit = table.time(time_limit, "2h")?;
    table.end()?;
    refuse! { table;
        matches!(until, Until::Narrow(width) if !(0.0005..=0.5).contains(&width.0)) => span,
            "intervals of this width end no run sensibly",
            ["write a half-width from \"0.05%\" to \"50%\", such as ", text_setting("until", "3%")];
    }
    Ok(Rounds {
        until: Some(until),
        time_limit,
        rounds: at_most as u32,
        ..Rounds::default()
    })
}

/// Reads `rank_by`: the name of a metric that has a better direction.
pub(super) fn read_rank_by(root: &mut Section<'_>) -> Result<Option<String>> {
    let Some((name, span)) = root.text_such_as("rank_by", "goodput_bps")? else {
        return Ok(None);
    };
    match ranking_metric(&name) {
        Ok(metric) => Ok(Some(metric.to_owned())),
        Err(error) => Err(root.error(span, error.message, error.hint)),
    }
}

/// Checks that transports can be ranked by a metric, and returns its name.
///
/// # Errors
/// There is no such metric, or more of it is neither better nor worse.
pub fn ranking_metric(name: &str) -> Result<&'static str, UnitError> {
    let metric = find_metric(name)?;
    match metric.better {
        Better::Neither => Err(UnitError::new(
            format!("more of `{name}` is neither better nor worse, so that it ranks nothing"),
            "write a metric such as `transfer_time_ns` or `goodput_bps`",
        )),
        Better::Higher | Better::Lower => Ok(metric.name),
    }
}

/// Reads `equivalence`: the largest difference that counts as none.
pub(super) fn read_equivalence(root: &mut Section<'_>) -> Result<Ratio> {
    let taken = root.quantity("equivalence", "3%", |text| match text.parse::<Ratio>() {
        Ok(ratio) if (0.0001..=1.0).contains(&ratio.0) => Ok(ratio),
        _ => Err(UnitError::new(
            format!("`{text}` is no difference up to which two sides are the same"),
            "write a difference from `0.01%` to `100%`, such as `3%`",
        )),
    })?;
    Ok(taken.map_or(Study::EQUIVALENCE, |(equivalence, _)| equivalence))
}
