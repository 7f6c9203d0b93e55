//! Response of each stack's congestion control to random loss, measured, beside the published function of the
//! controller of that name.
//!
//! `make loss-response` measures the table: docs/stacks.md describes the path.

use std::{fmt::Write as _, sync::LazyLock, time::Duration};

use crate::{
    stack::{NOT_APPLICABLE, NOT_KNOWN},
    units::{BitRate, Ratio},
};

/// Name of the fact, one of [`STACK_FACTS`](crate::STACK_FACTS).
pub const LOSS_RESPONSE: &str = "loss_response.sender";

/// Round-trip delay of the path of the table.
pub const ROUND_TRIP: Duration = Duration::from_millis(30);

/// Payload of a full segment on the path of the table, in bytes: 1500 less headers of IPv4 and TCP with time stamps.
/// Packets of QUIC and SCTP carry up to 2 % less or more.
const SEGMENT_BYTES: f64 = 1448.0;

/// Table as `make loss-response` writes it: driver, congestion control, stack with its version, and the goodput in
/// Mbit/s at each of the losses of the header.
const TABLE: &str = include_str!("loss_response.tsv");

/// Published function of a congestion control: its mean window at a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseFunction {
    /// CUBIC's: RFC 9438 §5.1, or Reno's where that is larger (the Reno-friendly region, §4.3).
    Cubic,
    /// Reno's, of RFC 5681: √(3 / 2p), Mathis, Semke, Mahdavi and Ott, CCR 27 (1997).
    Reno,
    /// SCTP's, which follows RFC 5681 (RFC 9260 §7.2), and so its function.
    Sctp,
}

impl ResponseFunction {
    /// Returns the function of the controller of this name; `None` for one without a published function of the loss.
    #[must_use]
    pub fn of(control: &str) -> Option<Self> {
        match control {
            "cubic" => Some(Self::Cubic),
            "reno" | "newreno" => Some(Self::Reno),
            "rfc9260" => Some(Self::Sctp),
            _ => None,
        }
    }

    /// Returns the RFC of the controller.
    #[must_use]
    pub const fn source(self) -> &'static str {
        match self {
            Self::Cubic => "RFC 9438",
            Self::Reno => "RFC 5681",
            Self::Sctp => "RFC 9260",
        }
    }

    /// Returns the mean window in segments at this probability of loss.
    fn window(self, loss: Ratio) -> f64 {
        let reno = (1.5 / loss.0).sqrt();
        match self {
            Self::Reno | Self::Sctp => reno,
            // C = 0.4 and β = 0.7.
            Self::Cubic => {
                let by_time = (ROUND_TRIP.as_secs_f64() / loss.0).powf(0.75);
                reno.max((0.4_f64 * 3.7 / 1.2).powf(0.25) * by_time)
            }
        }
    }

    /// Returns the goodput on the path of the table at this probability of loss.
    #[must_use]
    pub fn goodput(self, loss: Ratio) -> BitRate {
        let bits = self.window(loss) * SEGMENT_BYTES * 8.0;
        BitRate((bits / ROUND_TRIP.as_secs_f64()).round() as u64)
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
    /// Goodput of one connection at each loss, losses ascending.
    pub goodput: Vec<(Ratio, BitRate)>,
}

impl MeasuredResponse {
    /// Returns the goodput at each loss over the published function; `None` for a controller without one.
    #[must_use]
    pub fn ratios(&self) -> Option<Vec<(Ratio, f64)>> {
        let function = ResponseFunction::of(self.control)?;
        let ratio = |(loss, goodput): &(Ratio, BitRate)| {
            (*loss, goodput.0 as f64 / function.goodput(*loss).0 as f64)
        };
        Some(self.goodput.iter().map(ratio).collect())
    }

    /// Whether a running stack is the one that was measured. Of a kernel the patch release is not compared.
    fn is_of(&self, running: &str) -> bool {
        let release = |stack: &str| match stack.strip_prefix("Linux ") {
            Some(release) => release.split(['.', '-']).take(2).collect::<Vec<_>>().join("."),
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
        let losses: Vec<Ratio> = head.split('\t').skip(3).filter_map(|it| it.parse().ok()).collect();
        let row = |line: &'static str| {
            let mut cells = line.split('\t');
            let [driver, control, stack] = [cells.next()?, cells.next()?, cells.next()?];
            let goodput = cells.map(|it| Some(BitRate((it.parse::<f64>().ok()? * 1e6).round() as u64)));
            let goodput: Option<Vec<BitRate>> = goodput.collect();
            Some(MeasuredResponse {
                driver,
                control,
                stack,
                goodput: losses.iter().copied().zip(goodput?).collect(),
            })
        };
        lines.filter_map(row).collect()
    });
    &ROWS
}

/// Returns the value of the fact [`LOSS_RESPONSE`] of a driver that runs this congestion control, with the `running`
/// stack and its version where they are not those that the program was built with.
#[must_use]
pub fn fact(driver: &str, control: &str, running: Option<&str>) -> String {
    if [NOT_APPLICABLE, NOT_KNOWN].iter().any(|it| control.starts_with(it)) {
        return control.to_owned();
    }
    if control == "none" {
        return format!("{NOT_APPLICABLE}: no congestion control");
    }
    if ResponseFunction::of(control).is_none() {
        return format!("{NOT_APPLICABLE}: no published function of the loss");
    }
    let mut rows = measured().iter();
    let row = rows.find(|row| row.driver == driver && row.control == control);
    let Some((row, ratios)) = row.and_then(|row| Some((row, row.ratios()?))) else {
        return format!("{NOT_KNOWN}: not measured");
    };
    let mut value = LossResponse { ratios }.to_string();
    if let Some(running) = running.filter(|running| !row.is_of(running)) {
        let _ = write!(value, "; measured with `{}`, this is `{running}`", row.stack);
    }
    value
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
            other.at(*loss).is_some_and(|(_, its)| {
                own.max(its) > Self::TOLERATED * own.min(its)
            })
        })
    }
}

impl std::fmt::Display for LossResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (position, (loss, ratio)) in self.ratios.iter().enumerate() {
            let separator = if position == 0 { "" } else { ", " };
            write!(f, "{separator}{ratio:.2} at {loss}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(fact: &str) -> LossResponse {
        LossResponse::read(fact).expect("figures")
    }

    #[test]
    fn functions_are_those_of_the_rfcs() {
        let window = |control: &str, loss: f64| {
            let function = ResponseFunction::of(control).expect("published");
            (function.window(Ratio(loss)) * 100.0).round() / 100.0
        };
        // √150.
        assert_eq!(window("reno", 0.01), 12.25);
        assert_eq!(window("rfc9260", 0.01), 12.25);
        // The Reno-friendly region: 1.054 · 3^¾ = 2.4 segments would be less.
        assert_eq!(window("cubic", 0.01), 12.25);
        // 1.0538 · (0.03 / 10⁻⁶)^¾.
        assert_eq!(window("cubic", 1e-6), 2402.09);
        assert_eq!(ResponseFunction::of("bbr"), None);
        let goodput = ResponseFunction::Reno.goodput(Ratio(0.001));
        assert_eq!(goodput, BitRate(14_954_880));
    }

    #[test]
    fn facts_are_read_as_they_are_written() {
        let quiche = fact("quic-quiche", "cubic", None);
        let read = response(&quiche);
        assert_eq!(read.to_string(), quiche);
        assert_eq!(read.ratios.len(), 5);
        let (loss, ratio) = read.at(Ratio(0.0008)).expect("a loss");
        assert_eq!(loss, Ratio(0.001));
        assert!(ratio > 3.0, "{ratio}");
    }

    #[test]
    fn another_version_than_the_measured_one_is_named() {
        let of = |running: &str| fact("tcp", "cubic", Some(running));
        let row = measured().iter().find(|row| row.driver == "tcp").expect("tcp");
        assert!(!of(row.stack).contains("measured"));
        assert!(!of("Linux 6.12.1-amd64").contains("measured"));
        let other = of("Linux 5.10.0");
        let note = format!("; measured with `{}`, this is `Linux 5.10.0`", row.stack);
        assert!(other.ends_with(&note), "{other}");
        assert_eq!(response(&other), response(&of(row.stack)));
    }

    #[test]
    fn what_has_no_response_says_why() {
        let of = |driver: &str, control: &str| fact(driver, control, None);
        assert_eq!(of("tcp", "bbr"), "not applicable: no published function of the loss");
        assert_eq!(of("udp", "not applicable: UDP has none"), "not applicable: UDP has none");
        assert_eq!(of("udp-reliable", "none"), "not applicable: no congestion control");
        assert_eq!(of("external", "cubic"), "not known: not measured");
        assert_eq!(LossResponse::read("not known: not measured"), None);
    }

    #[test]
    fn responses_differ_from_half_as_much_again_on() {
        let one = response("1.00 at 0.1 %, 0.80 at 1 %");
        assert!(!one.differs_from(&response("0.70 at 0.1 %, 1.19 at 1 %")));
        assert!(one.differs_from(&response("1.00 at 0.1 %, 1.21 at 1 %")));
        assert!(one.differs_from(&response("0.66 at 0.1 %, 0.80 at 1 %")));
        let differ = |facts: [&str; 2]| crate::stack::differ(LOSS_RESPONSE, facts.into_iter());
        assert!(!differ(["1.00 at 0.1 %", "0.99 at 0.1 %"]));
        assert!(differ(["1.00 at 0.1 %", "4.83 at 0.1 %"]));
        assert!(!differ(["1.00 at 0.1 %", "not known: not measured"]));
    }
}
