//! Transports that send at once over one path.

use std::{collections::BTreeSet, time::Duration};

use serde::{Deserialize, Serialize};

use super::{Workload, WorkloadKind};
use crate::{
    metric::id,
    units::{nanos, optional_nanos},
};

/// Flow of a [`Competition`]: one transport with its work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CompetitionFlow {
    /// Label of the transport, which no other flow of the competition has.
    pub transport: String,
    /// Label of the transport of which this one is a copy, for a second flow of one transport.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_of: Option<String>,
    /// Time from the beginning of the competition to this flow's connect call.
    #[serde(rename = "start_ns", with = "nanos")]
    pub start: Duration,
    /// Round-trip delay of this flow's path, where its hosts are farther from the bottleneck than the others'.
    #[serde(
        default,
        rename = "rtt_ns",
        skip_serializing_if = "Option::is_none",
        with = "optional_nanos"
    )]
    pub rtt: Option<Duration>,
    /// Work of this flow, where it differs from that of the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<Box<Workload>>,
}

/// Transports that send at once over one path, in one trial each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Competition {
    /// Flows: at least two.
    pub flows: Vec<CompetitionFlow>,
}

impl Competition {
    /// Maximum number of flows of a competition: each is two processes.
    pub const MAX_FLOWS: usize = 64;

    /// Returns the flow of a transport.
    #[must_use]
    pub fn flow(&self, transport: &str) -> Option<&CompetitionFlow> {
        self.flows.iter().find(|flow| flow.transport == transport)
    }
}

impl Workload {
    /// Returns the work of one transport: in a competition that of its flow.
    #[must_use]
    pub fn of_transport(&self, transport: &str) -> &Self {
        let flow = self
            .competition
            .as_ref()
            .and_then(|all| all.flow(transport));
        flow.and_then(|flow| flow.workload.as_deref())
            .unwrap_or(self)
    }

    /// Returns the metric by which transports are ranked: that of the kind of work; for flows of a competition that do not
    /// all send from the beginning to the end, the goodput over the time in which they do.
    #[must_use]
    pub fn primary_metric(&self) -> &'static str {
        let flows = self.competition.iter().flat_map(|it| &it.flows);
        let times: Option<BTreeSet<(Duration, Option<Duration>)>> = flows
            .map(|flow| match &self.of_transport(&flow.transport).kind {
                WorkloadKind::Bulk { amount, .. } => Some((flow.start, amount.time())),
                _ => None,
            })
            .collect();
        match times {
            Some(times) if times.len() > 1 => id::COMPETING_GOODPUT_BPS,
            _ => self.kind.primary_metric(),
        }
    }

    /// Whether the workload is run under a condition.
    #[must_use]
    pub fn is_under(&self, condition: &str) -> bool {
        self.conditions.is_empty() || self.conditions.iter().any(|name| name == condition)
    }

    /// Returns every kind of work in it.
    pub fn kinds_mut(&mut self) -> impl Iterator<Item = &mut WorkloadKind> {
        let flows = self.competition.iter_mut().flat_map(|it| &mut it.flows);
        let of_flows = flows.filter_map(|flow| flow.workload.as_deref_mut());
        [&mut self.kind]
            .into_iter()
            .chain(of_flows.map(|work| &mut work.kind))
    }
}
