//! Settings of one direction of a path for a part of the schedule, in the emulator's units.

use std::time::Duration;

use regatta_model::{Condition, Impairment, Link, Ratio};

use crate::{bottleneck::Bottleneck, delay::Propagation};

/// Direction of a link; the two directions of a path draw from different random streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Direction from the connecting host to the listening one.
    Forward = 0,
    /// Direction from the listening host to the connecting one.
    Reverse = 1,
}

/// Reasons why a link cannot be emulated.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LinkError {
    /// The link rate is 0, so that nothing would ever arrive.
    #[error("a link rate of `0 bit/s` carries nothing")]
    NoRate,
    /// A ratio is not a probability.
    #[error("a {what} ratio of `{value}` is not between 0 and 1")]
    Ratio {
        /// Name of the ratio.
        what: &'static str,
        /// Value of the ratio.
        value: f64,
    },
    /// A time is too long to count in nanoseconds.
    #[error("a time of `{0:?}` is too long to emulate")]
    Delay(Duration),
    /// The discipline is one of the kernel's alone.
    #[error("the emulator in user space has no discipline `{0}`")]
    Discipline(&'static str),
    /// The times of a trace do not rise.
    #[error("the times of the trace `{0}` do not rise")]
    Trace(String),
}

/// Settings of a direction from a certain time on.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Time since the beginning of the schedule at which these settings begin, in nanoseconds.
    pub(crate) at: u64,
    /// Link settings, without the trace.
    pub(crate) link: Link,
    /// The bottleneck, unused.
    pub(crate) bottleneck: Bottleneck,
    pub(crate) propagation: Propagation,
    /// Time after which the propagation delay is independent of its earlier value, in nanoseconds,
    /// where it changes in time and not from packet to packet.
    pub(crate) jitter_span: Option<u64>,
    pub(crate) queue_bytes: u64,
    /// Rate at which the queue is served, of a trace its mean; 0 without a bottleneck.
    pub(crate) rate_bps: u64,
}

impl Settings {
    /// Returns all settings of one direction: those at the beginning, then those of the schedule.
    pub(crate) fn all(condition: &Condition, direction: Direction) -> Result<Vec<Self>, LinkError> {
        condition
            .settings()
            .map(|setting| {
                let link = [setting.forward, setting.reverse][direction as usize];
                Self::new(condition, setting.at, link)
            })
            .collect()
    }

    fn new(condition: &Condition, at: Duration, link: &Link) -> Result<Self, LinkError> {
        ratios(link)?;
        if link.discipline.needs_kernel() {
            return Err(LinkError::Discipline(link.discipline.name()));
        }
        let mut untraced = link.clone();
        // It is long, and held in another form below.
        untraced.trace = None;
        Ok(Self {
            at: nanoseconds(at)?,
            bottleneck: bottleneck(link)?,
            propagation: Propagation::new(
                nanoseconds(link.delay)?,
                nanoseconds(link.jitter)?,
                link.jitter_distribution,
            ),
            jitter_span: link.jitter_span().map(nanoseconds).transpose()?,
            queue_bytes: condition.queue_limit(link).0,
            rate_bps: link.mean_rate().map_or(0, |rate| rate.0),
            link: untraced,
        })
    }

    /// Whether packets may leave in an order other than that of their arrival.
    pub(crate) fn reorders(&self) -> bool {
        (self.link.jitter_reorders && self.propagation.varies()) || self.link.reorder_ratio.0 > 0.0
    }
}

fn bottleneck(link: &Link) -> Result<Bottleneck, LinkError> {
    if let Some(trace) = &link.trace {
        if trace.period_ms() == 0 || !trace.opportunities_ms.is_sorted() {
            return Err(LinkError::Trace(trace.name.clone()));
        }
        let nanoseconds = |at: &u32| u64::from(*at) * 1_000_000;
        let opportunities_ns = trace.opportunities_ms.iter().map(nanoseconds);
        return Ok(Bottleneck::trace(opportunities_ns.collect()));
    }
    Ok(match (link.rate, link.burst_bytes) {
        (Some(rate), _) if rate.0 == 0 => return Err(LinkError::NoRate),
        (Some(rate), None) => Bottleneck::rate(rate.0),
        (Some(rate), Some(depth)) => Bottleneck::bucket(rate.0, depth.0),
        (None, _) => Bottleneck::Unlimited,
    })
}

fn ratios(link: &Link) -> Result<(), LinkError> {
    let bursts = link.loss_bursts.iter().flat_map(|bursts| {
        [
            bursts.to_bad_ratio,
            bursts.to_good_ratio,
            bursts.bad_loss_ratio,
            bursts.good_loss_ratio,
        ]
        .map(|ratio| ("loss in bursts", ratio))
    });
    let single = Impairment::ALL
        .into_iter()
        .map(|it| (it.name(), it.of(link)));
    let mut all = single.chain(bursts);
    match all.find(|(_, ratio)| !(0.0..=1.0).contains(&ratio.0)) {
        Some((what, Ratio(value))) => Err(LinkError::Ratio { what, value }),
        None => Ok(()),
    }
}

/// Converts a time to whole nanoseconds, with room for sums.
fn nanoseconds(value: Duration) -> Result<u64, LinkError> {
    u64::try_from(value.as_nanos())
        .ok()
        .filter(|ns| *ns <= u64::MAX / 8)
        .ok_or(LinkError::Delay(value))
}
