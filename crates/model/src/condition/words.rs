//! Descriptions of a link in words, for plans and reports.

use super::{DelayDistribution, Link, QueueDiscipline, RateOf};
use crate::{
    units::{Bytes, format_duration},
    words::Words as _,
};

impl Link {
    /// Describes the link's rate: a rate, a trace, or no limit.
    #[must_use]
    pub fn rate_in_words(&self) -> String {
        match (&self.trace, self.rate) {
            (Some(trace), _) => format!("trace `{}`, {} on average", trace.name, trace.mean_rate()),
            (None, Some(rate)) => match self.rate_of {
                RateOf::Ip => rate.to_string(),
                RateOf::Ethernet => format!("{rate} of Ethernet"),
            },
            (None, None) => "unlimited".to_owned(),
        }
    }

    /// Describes the queue's limit; `bytes` is [`super::Condition::queue_limit`].
    #[must_use]
    pub fn queue_in_words(&self, bytes: Bytes) -> String {
        self.queue_packets
            .map_or_else(|| bytes.to_string(), |packets| format!("{packets} packets"))
    }

    /// Describes each setting other than delay, jitter, independent loss, rate and queue, in a few
    /// words.
    #[must_use]
    pub fn particulars(&self) -> Vec<String> {
        let mut parts = Vec::new();
        if !self.jitter.is_zero() && self.jitter_distribution != DelayDistribution::Uniform {
            parts.push(format!("{} jitter", self.jitter_distribution.word()));
        }
        if !self.jitter.is_zero() && self.jitter_reorders {
            parts.push("jitter lets packets overtake".to_owned());
        }
        if let Some(span) = self
            .jitter_span()
            .filter(|_| self.jitter_correlation.is_some())
        {
            let span = format_duration(span);
            parts.push(format!("jitter independent after {span}"));
        } else if !self.jitter.is_zero() && !self.jitter_reorders && self.jitter_span().is_none() {
            parts.push("jitter drawn for each packet, in order".to_owned());
        }
        if let Some(bursts) = &self.loss_bursts {
            parts.push(format!("{} loss in bursts", bursts.mean_loss()));
        }
        match self.loss_list.len() {
            0 => {}
            1 => parts.push(format!("packet {} lost", self.loss_list[0])),
            count => parts.push(format!("{count} packets lost by list")),
        }
        for (ratio, what) in [
            (self.reorder_ratio, "reordered"),
            (self.duplicate_ratio, "duplicated"),
            (self.corrupt_ratio, "corrupted"),
        ] {
            if ratio.0 > 0.0 {
                parts.push(format!("{ratio} {what}"));
            }
        }
        if let Some(burst) = self.burst_bytes {
            parts.push(format!("bursts of {burst}"));
        }
        if let QueueDiscipline::Codel { target, interval } = self.discipline {
            parts.push(format!(
                "CoDel with target {} and interval {}",
                format_duration(target),
                format_duration(interval)
            ));
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        condition::{DeliveryTrace, GilbertElliott},
        units::{BitRate, Ratio},
    };

    #[test]
    fn what_is_there_is_said_and_nothing_else() {
        let plain = Link {
            rate: Some(BitRate(10_000_000)),
            ..Link::default()
        };
        assert_eq!(plain.rate_in_words(), "10 Mbit/s");
        assert_eq!(plain.queue_in_words(Bytes(1500)), "1.5 kB");
        assert_eq!(plain.particulars(), Vec::<String>::new());
        let link = Link {
            jitter: Duration::from_millis(2),
            jitter_reorders: true,
            jitter_distribution: DelayDistribution::Pareto,
            loss_bursts: Some(GilbertElliott {
                to_bad_ratio: Ratio(0.01),
                to_good_ratio: Ratio(0.24),
                bad_loss_ratio: Ratio(1.0),
                good_loss_ratio: Ratio(0.0),
            }),
            loss_list: vec![3, 17],
            reorder_ratio: Ratio(0.1),
            duplicate_ratio: Ratio(0.02),
            corrupt_ratio: Ratio(0.001),
            burst_bytes: Some(Bytes(15_000)),
            queue_packets: Some(50),
            discipline: QueueDiscipline::Codel {
                target: Duration::from_millis(5),
                interval: Duration::from_millis(100),
            },
            trace: Some(DeliveryTrace {
                name: "lte".into(),
                opportunities_ms: vec![1],
            }),
            ..Link::default()
        };
        assert_eq!(link.rate_in_words(), "trace `lte`, 12 Mbit/s on average");
        assert_eq!(link.queue_in_words(Bytes(75_000)), "50 packets");
        assert_eq!(
            link.particulars(),
            [
                "pareto jitter",
                "jitter lets packets overtake",
                "4 % loss in bursts",
                "2 packets lost by list",
                "10 % reordered",
                "2 % duplicated",
                "0.1 % corrupted",
                "bursts of 15 kB",
                "CoDel with target 5 ms and interval 100 ms",
            ]
        );
    }
}
