//! Order of the transports in one group of cells, and the pairs without a detected difference.

use itertools::Itertools as _;
use regatta_model::{
    Better, MetricDefinition,
    metric::{self, id},
};
use regatta_stats::compact_letters;

use super::{
    failures,
    summary::{Cell, Claim, Comparison, Conclusion, Failure, NotRanked, Ranked},
    summary_index::SummaryIndex,
};
use crate::{data::CellGroup, language::tr};

/// Returns the reasons for which a cell is not ranked; empty if it is, or was not run at all.
pub fn reasons(cell: &Cell) -> Vec<String> {
    let gives_up = (!cell.retransmits && cell.n > 0).then(|| tr!("does not retransmit"));
    let failed = (cell.failures.iter())
        .filter(|f| f.ratio() > failures::TOLERATED || f.kind.is_of_measured_trials());
    (gives_up.into_iter())
        .chain(failed.map(Failure::text))
        .collect()
}

/// Transports under one condition with one workload.
pub struct RankedGroup<'a> {
    /// Condition and workload.
    pub cell_group: CellGroup<'a>,
    /// Metric by which this workload is ranked.
    pub metric: &'static MetricDefinition,
    /// Largest difference between two transports that are the same, as a ratio less 1.
    pub equivalence: f64,
    /// Cells, in the order of the study.
    pub cells: Vec<&'a Cell>,
    /// Comparisons of the pairs, by the metric of the ranking.
    comparisons: Vec<&'a Comparison>,
    /// Transports that did their work, best first.
    pub ranking: Vec<Ranked>,
    /// Other transports that were measured or failed, in the order of the study.
    pub not_ranked: Vec<NotRanked>,
}

impl<'a> RankedGroup<'a> {
    /// Ranks the transports; `None` for a workload whose metric is not in the table, which a test
    /// rules out.
    pub fn new(index: &SummaryIndex<'a>, cell_group: CellGroup<'a>) -> Option<Self> {
        let usual = cell_group.workload.primary_metric();
        let metric = metric::find(index.rank_by.unwrap_or(usual))?;
        let mut group = Self {
            cell_group,
            metric,
            equivalence: index.equivalence,
            cells: index.cells(cell_group).to_vec(),
            comparisons: index.comparisons(cell_group).to_vec(),
            ranking: Vec::new(),
            not_ranked: Vec::new(),
        };
        group.comparisons.retain(|c| c.metric == metric.name);
        let mut ranked: Vec<(f64, &Cell)> = Vec::new();
        for &cell in &group.cells {
            match (group.reasons(cell), group.value(cell)) {
                (reasons, Some(_)) if reasons.is_empty() => ranked.push((0.0, cell)),
                (reasons, value) if !reasons.is_empty() => group.not_ranked.push(NotRanked {
                    transport: cell.transport.clone(),
                    value,
                    reasons,
                }),
                _ => {}
            }
        }
        // The mean of a transport's log ratios to all others is its position on the scale that fits all
        // pairs best by least squares; where every round is complete, it is its geometric mean. Source:
        // Jiang, Lim, Yao and Ye 2011, Math. Program. 127, 203–244.
        for position in 0..ranked.len() {
            let own = ranked[position].1;
            let ratios: Vec<f64> = (ranked.iter())
                .filter(|(_, other)| other.transport != own.transport)
                .filter_map(|(_, other)| Some(group.ratio(&own.transport, &other.transport)?.ln()))
                .collect();
            ranked[position].0 = ratios.iter().sum::<f64>() / ratios.len().max(1) as f64;
        }
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
        let name = |position: usize| ranked[position].1.transport.as_str();
        let letters = compact_letters(ranked.len(), |a, b| group.differ(name(a), name(b)));
        group.ranking = (ranked.iter().zip(letters))
            .map(|((_, cell), letters)| Ranked {
                transport: cell.transport.clone(),
                letters,
                value: group.value(cell).unwrap_or(0.0),
                ratio_to_leader: None,
                leader_interval: None,
            })
            .collect();
        if let Some(lead) = group.leaders().first().map(|lead| lead.transport.clone()) {
            let mut ranking = std::mem::take(&mut group.ranking);
            for ranked in ranking.iter_mut().filter(|it| it.transport != lead) {
                if let Some((claim, turned)) = group.comparison(&ranked.transport, &lead) {
                    let turn = |ratio: f64| if turned { 1.0 / ratio } else { ratio };
                    ranked.ratio_to_leader = claim.ratio.map(turn);
                    ranked.leader_interval = claim.interval.map(|[low, high]| match turned {
                        true => [1.0 / high, 1.0 / low],
                        false => [low, high],
                    });
                }
            }
            group.ranking = ranking;
        }
        Some(group)
    }

    /// Returns the mean of the metric of the ranking over every trial that was started; of transfers that arrived whole
    /// their share.
    fn value(&self, cell: &Cell) -> Option<f64> {
        let metric = cell.metrics.get(self.metric.name)?;
        let of_all = metric.of_all.as_ref().map(|all| all.mean);
        match self.metric.name {
            id::WHOLE_TRANSFER_RATIO => Some(metric.mean),
            _ => of_all.or(metric.geometric_mean),
        }
    }

    /// Returns the reasons for which a cell is not ranked in this group.
    fn reasons(&self, cell: &Cell) -> Vec<String> {
        let early = self.cell_group.workload.kind.abandons() && cell.retransmits;
        let mut reasons = reasons(cell);
        if early && !reasons.is_empty() {
            reasons.push(tr!("closed without waiting for delivery"));
        }
        reasons
    }

    /// Returns the comparison of two transports, and whether it is seen from `b`.
    fn comparison(&self, a: &str, b: &str) -> Option<(&'a Claim, bool)> {
        self.comparisons.iter().find_map(|c| {
            let turned = (c.a == b && c.b == a).then_some(true);
            let turned = turned.or((c.a == a && c.b == b).then_some(false))?;
            Some((&c.claim, turned))
        })
    }

    /// Returns the conclusion of the comparison of two transports, seen from `a`.
    pub fn conclusion(&self, a: &str, b: &str) -> Conclusion {
        match self.comparison(a, b) {
            None => Conclusion::Undecided,
            Some((claim, true)) => claim.conclusion.turned(),
            Some((claim, false)) => claim.conclusion,
        }
    }

    /// Whether one of two transports is better.
    fn differ(&self, a: &str, b: &str) -> bool {
        self.conclusion(a, b).is_difference()
    }

    /// Whether a ratio of the metric has to be inverted so that a value above one is better.
    fn invert(&self, turned: bool) -> bool {
        turned != (self.metric.better == Better::Lower)
    }

    /// Returns the ratio of `a` to `b` over the rounds that both have; above 1, `a` is better.
    fn ratio(&self, a: &str, b: &str) -> Option<f64> {
        let (claim, turned) = self.comparison(a, b)?;
        let ratio = claim.ratio?;
        Some(match self.invert(turned) {
            true => 1.0 / ratio,
            false => ratio,
        })
    }

    /// Returns the ratio of `a` to `b` with its interval and the number of rounds.
    pub fn margin(&self, a: &str, b: &str) -> Option<(f64, [f64; 2], u64)> {
        let (claim, turned) = self.comparison(a, b)?;
        let [low, high] = claim.interval?;
        let interval = match self.invert(turned) {
            true => [1.0 / high, 1.0 / low],
            false => [low, high],
        };
        Some((self.ratio(a, b)?, interval, claim.n))
    }

    /// Returns the transports that no other is better than: the first, and all without a detected
    /// difference from it.
    pub fn leaders(&self) -> Vec<&Ranked> {
        let is_beaten =
            |ranked: &Ranked| (self.ranking.iter()).any(|other| self.is_ahead(other, ranked));
        let Some(first) = self.ranking.iter().find(|ranked| !is_beaten(ranked)) else {
            return Vec::new();
        };
        let leads = |it: &&Ranked| {
            it.transport == first.transport || !self.differ(&first.transport, &it.transport)
        };
        self.ranking.iter().filter(leads).collect()
    }

    /// Returns the best transport in the ranking that `lead` is detectably faster than.
    pub fn next_after(&self, lead: &Ranked) -> Option<&Ranked> {
        self.ranking.iter().find(|other| self.is_ahead(lead, other))
    }

    /// Whether one transport is detectably faster than another.
    fn is_ahead(&self, a: &Ranked, b: &Ranked) -> bool {
        self.conclusion(&a.transport, &b.transport) == Conclusion::Faster
    }

    /// Whether the first of some transports may differ from one of the others.
    pub fn is_undecided(&self, transports: &[&Ranked]) -> bool {
        transports.split_first().is_some_and(|(lead, others)| {
            let mut conclusions =
                (others.iter()).map(|other| self.conclusion(&lead.transport, &other.transport));
            conclusions.any(|it| it == Conclusion::Undecided)
        })
    }

    /// Whether every pair that contains the leader is decided, or there is no pair.
    pub fn is_decided(&self) -> bool {
        let leaders = self.leaders();
        leaders.is_empty() == self.ranking.is_empty() && !self.is_undecided(&leaders)
    }

    /// Returns the undecided claims about the leader and another transport.
    pub fn undecided_claims(&self) -> Vec<&'a Claim> {
        let leaders = self.leaders();
        let (lead, others) = match leaders.split_first() {
            Some(parts) => parts,
            None => return Vec::new(),
        };
        let claims = others.iter().filter_map(|other| {
            let (claim, _) = self.comparison(&lead.transport, &other.transport)?;
            Some(claim)
        });
        claims
            .filter(|claim| claim.conclusion == Conclusion::Undecided)
            .collect()
    }

    /// Returns the largest of the ratios that the pairs of these transports could have detected;
    /// `None` if one of them is not known.
    pub fn detectable_ratio(&self, transports: &[&Ranked]) -> Option<f64> {
        let mut largest: Option<f64> = None;
        for (a, b) in transports.iter().tuple_combinations() {
            let (claim, _) = self.comparison(&a.transport, &b.transport)?;
            if claim.conclusion == Conclusion::Undecided {
                let ratio = claim.detectable_ratio?;
                largest = Some(largest.map_or(ratio, |l| l.max(ratio)));
            }
        }
        largest
    }
}
