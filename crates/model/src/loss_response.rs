//! Response of each stack's congestion control to random loss, measured, beside the published function of the
//! controller of that name.
//!
//! `make conformance` measures the table: docs/conformance.md describes the paths.

use std::{sync::LazyLock, time::Duration};

use crate::{
    fact_value::{NOT_APPLICABLE, NOT_KNOWN},
    units::{self, Ratio},
    warning::{Argument, Text, fact},
};

/// Name of the fact, one of [`STACK_FACTS`](crate::STACK_FACTS).
pub const LOSS_RESPONSE: &str = "loss_response.sender";

/// Table as `make conformance` writes it: driver, congestion control, stack with its version, and the goodput over the
/// published function at each of the losses and round trips of the header (`0.1 % at 30 ms`).
const TABLE: &str = include_str!("loss_response.tsv");

/// Returns the RFC with the response function of the congestion control of this name; `None` for one without such a
/// function.
#[must_use]
pub fn source(control: &str) -> Option<&'static str> {
    match control {
        "cubic" => Some("RFC 9438"),
        "reno" => Some("RFC 5681"),
        // SCTP's, which follows RFC 5681 (RFC 9260 §7.2).
        "rfc9260" => Some("RFC 9260"),
        _ => None,
    }
}

/// Row of the table: one driver with one congestion control.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredResponse {
    /// Name of the driver.
    pub driver: &'static str,
    /// Congestion control, as the fact `congestion_control.sender` has it.
    pub control: &'static str,
    /// Stack that was measured, with its version: `Linux 6.12.117`, `quiche 0.30.0`.
    pub stack: &'static str,
    /// Goodput over the published function by the round-trip time of the path, the shortest first.
    pub responses: Vec<(Duration, LossResponse)>,
}

impl MeasuredResponse {
    /// Returns the response over the shortest round trip, which the fact states.
    #[must_use]
    pub fn shortest(&self) -> &LossResponse {
        &self.responses[0].1
    }

    /// Whether a running stack is the one that was measured. Of a kernel the patch release is not compared.
    fn is_of(&self, running: &str) -> bool {
        let release = |stack: &str| match stack.split_once("Linux ") {
            Some((before, release)) => {
                let numbers: Vec<&str> = release.split(['.', '-']).take(2).collect();
                format!("{before}{}", numbers.join("."))
            }
            None => stack.to_owned(),
        };
        release(self.stack) == release(running)
    }
}

/// Returns the table, in the order of drivers.
#[must_use]
pub fn measured() -> &'static [MeasuredResponse] {
    static ROWS: LazyLock<Vec<MeasuredResponse>> = LazyLock::new(|| {
        let mut lines = TABLE.lines().filter(|line| !line.starts_with('#'));
        let head = lines.next().unwrap_or_default();
        let column = |head: &str| {
            let (loss, round_trip) = head.split_once(" at ")?;
            Some((units::parse_duration(round_trip).ok()?, loss.parse().ok()?))
        };
        let columns: Vec<(Duration, Ratio)> = head.split('\t').skip(3).filter_map(column).collect();
        let row = |line: &'static str| {
            let mut cells = line.split('\t');
            let [driver, control, stack] = [cells.next()?, cells.next()?, cells.next()?];
            let ratios: Option<Vec<f64>> = cells.map(|it| it.parse().ok()).collect();
            let cells: Vec<_> = columns.iter().zip(ratios?).collect();
            let of_one = cells.chunk_by(|one, next| one.0.0 == next.0.0);
            let response = |cells: &[(&(Duration, Ratio), f64)]| {
                let ratios = cells.iter().map(|((_, loss), ratio)| (*loss, *ratio));
                let ratios = ratios.collect();
                (cells[0].0.0, LossResponse { ratios })
            };
            Some(MeasuredResponse {
                driver,
                control,
                stack,
                responses: of_one.map(response).collect(),
            })
        };
        lines.filter_map(row).collect()
    });
    &ROWS
}

/// Returns the value of the fact [`LOSS_RESPONSE`] for a driver with this congestion control. `running` is the stack that
/// runs, with its version, where it is no part of this program; if the table has another version, the value says so.
#[must_use]
pub fn fact(driver: &str, control: &Text, running: Option<&str>) -> Text {
    if [NOT_APPLICABLE, NOT_KNOWN]
        .iter()
        .any(|it| control.starts_with(it))
    {
        return control.clone();
    }
    if control == "none" {
        return fact::not_applicable(fact::no_congestion_control()).into();
    }
    if source(control).is_none() {
        return fact::not_applicable(fact::no_published_function()).into();
    }
    let mut rows = measured().iter();
    let Some(row) = rows.find(|row| row.driver == driver && *control == row.control) else {
        return fact::not_known(fact::not_measured().into()).into();
    };
    let ratios = row.shortest().argument();
    match running.filter(|running| !row.is_of(running)) {
        Some(running) => fact::loss_response_of_other(ratios, row.stack, running),
        None => fact::loss_response(ratios),
    }
    .into()
}

/// Value of the fact [`LOSS_RESPONSE`]: goodput over the published function at each loss.
#[derive(Debug, Clone, PartialEq)]
pub struct LossResponse {
    ratios: Vec<(Ratio, f64)>,
}

impl LossResponse {
    /// Ratio from which two responses are said to differ.
    pub const TOLERATED: f64 = 1.5;

    /// Reads the value of a fact; `None` for one without figures.
    #[must_use]
    pub fn read(fact: &str) -> Option<Self> {
        let ratios = fact.split(';').next()?.split(", ").map(|part| {
            let (ratio, loss) = part.split_once(" at ")?;
            Some((loss.parse().ok()?, ratio.parse().ok()?))
        });
        let ratios = ratios.collect::<Option<Vec<(Ratio, f64)>>>()?;
        Some(Self { ratios })
    }

    /// Returns the losses and ratios as the argument of a phrase.
    fn argument(&self) -> Argument {
        let ratios = self.ratios.iter();
        let at =
            |(loss, ratio): &(Ratio, f64)| fact::response_at(Argument::decimal(*ratio, 2), *loss);
        Argument::List(ratios.map(at).collect())
    }

    /// Returns the losses with the goodput over the published function at each.
    #[must_use]
    pub fn ratios(&self) -> &[(Ratio, f64)] {
        &self.ratios
    }

    /// Returns the measured loss that is nearest to `loss` by ratio, and the goodput over the function at it.
    #[must_use]
    pub fn at(&self, loss: Ratio) -> Option<(Ratio, f64)> {
        let distance = |other: Ratio| (other.0 / loss.0).ln().abs();
        let nearest = self.ratios.iter().copied();
        nearest.min_by(|a, b| distance(a.0).total_cmp(&distance(b.0)))
    }

    /// Whether two responses differ by more than [`TOLERATED`](Self::TOLERATED) at any loss.
    #[must_use]
    pub fn differs_from(&self, other: &Self) -> bool {
        self.ratios.iter().any(|(loss, own)| {
            other
                .at(*loss)
                .is_some_and(|(_, its)| own.max(its) > Self::TOLERATED * own.min(its))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(fact: &str) -> LossResponse {
        LossResponse::read(fact).expect("figures")
    }

    #[test]
    fn facts_are_read_as_they_are_written() {
        let quiche = fact("quic-quiche", &"cubic".into(), None);
        let read = response(&quiche);
        assert_eq!(read.ratios.len(), 5);
        let (loss, ratio) = read.at(Ratio(0.0008)).expect("a loss");
        assert_eq!(loss, Ratio(0.001));
        assert!(ratio > 3.0, "{ratio}");
    }

    #[test]
    fn another_version_than_the_measured_one_is_named() {
        let of = |running: &str| fact("tcp", &"cubic".into(), Some(running));
        let row = measured()
            .iter()
            .find(|row| row.driver == "tcp")
            .expect("tcp");
        assert!(!of(row.stack).contains("measured"));
        assert!(!of("Linux 6.12.1-amd64").contains("measured"));
        let other = of("Linux 5.10.0");
        let note = format!("; measured with `{}`, this is `Linux 5.10.0`", row.stack);
        assert!(other.ends_with(&note), "{other}");
        assert_eq!(response(&other), response(&of(row.stack)));
    }

    #[test]
    fn what_has_no_response_says_why() {
        let of = |driver: &str, control: &str| fact(driver, &control.into(), None);
        assert_eq!(
            of("tcp", "bbr"),
            "not applicable: no published function of the loss"
        );
        assert_eq!(
            of("udp", "not applicable: UDP has none"),
            "not applicable: UDP has none"
        );
        assert_eq!(
            of("udp-reliable", "none"),
            "not applicable: no congestion control"
        );
        assert_eq!(of("external", "cubic"), "not known: not measured");
        assert_eq!(LossResponse::read("not known: not measured"), None);
    }

    #[test]
    fn responses_differ_from_half_as_much_again_on() {
        let one = response("1.00 at 0.1 %, 0.80 at 1 %");
        assert!(!one.differs_from(&response("0.70 at 0.1 %, 1.19 at 1 %")));
        assert!(one.differs_from(&response("1.00 at 0.1 %, 1.21 at 1 %")));
        assert!(one.differs_from(&response("0.66 at 0.1 %, 0.80 at 1 %")));
    }
}
