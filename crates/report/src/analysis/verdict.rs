//! The answer in sentences: which is faster, by how much, how sure.

mod overall;

use regatta_model::{Better, MetricDefinition, Unit, Workload, metric};

use super::summary::{Cell, Comparison, Conclusion, ConditionVerdict, Summary, Verdict};
use crate::{
    RunData,
    format::{list, number, quantity},
};

/// The verdict of each condition and workload, and the one over all.
pub fn all(data: &RunData, summary: &Summary) -> Verdict {
    let study = &data.header.study;
    let mut fields = Vec::new();
    for workload in &study.workloads {
        for condition in &study.conditions {
            fields.extend(Field::new(summary, &condition.name, workload));
        }
    }
    let several = study.workloads.len() > 1;
    Verdict {
        overall: overall::text(summary, &fields),
        conditions: fields
            .iter()
            .map(|field| ConditionVerdict {
                condition: field.condition.to_owned(),
                workload: field.workload.to_owned(),
                text: field.sentence(several),
                notes: field.notes(),
            })
            .collect(),
    }
}

/// All that ran under one condition with one workload.
struct Field<'a> {
    condition: &'a str,
    workload: &'a str,
    /// What this work is ranked by.
    metric: &'static MetricDefinition,
    /// Whether the sender closed without waiting for delivery.
    abandoned: bool,
    cells: Vec<&'a Cell>,
    comparisons: Vec<&'a Comparison>,
    /// Measured, fastest first: those that send again what was lost, and did not close on it.
    whole: Vec<&'a Cell>,
    /// Those of them that delivered nothing.
    idle: Vec<&'a Cell>,
    /// Measured, fastest first: those that do not.
    lossy: Vec<&'a Cell>,
}

/// One comparison seen from the transport that a sentence is about.
struct Seen {
    conclusion: Conclusion,
    ratio: Option<(f64, [f64; 2])>,
}

impl<'a> Field<'a> {
    /// `None` for a workload whose metric is not in the table, which a test rules out.
    fn new(summary: &'a Summary, condition: &'a str, workload: &'a Workload) -> Option<Self> {
        let metric = metric::find(workload.kind.primary_metric())?;
        let abandoned = workload.kind.abandons();
        let workload = workload.name.as_str();
        let cells: Vec<&Cell> = summary
            .cells
            .iter()
            .filter(|cell| cell.condition == condition && cell.workload == workload)
            .collect();
        let mut ranked: Vec<&Cell> = cells
            .iter()
            .copied()
            .filter(|cell| cell.mean(metric.name).is_some())
            .collect();
        let value = |cell: &Cell| cell.mean(metric.name).unwrap_or(0.0);
        ranked.sort_by(|a, b| match metric.better {
            Better::Lower => value(a).total_cmp(&value(b)),
            _ => value(b).total_cmp(&value(a)),
        });
        let (lossy, whole): (Vec<_>, Vec<_>) = (ranked.into_iter())
            .partition(|cell| !cell.retransmits || (abandoned && cell.loss() > 0.0));
        // Who delivered nothing in any trial is not the fastest, be it alone.
        let (whole, idle) = whole
            .into_iter()
            .partition(|cell| metric.better == Better::Lower || value(cell) > 0.0);
        Some(Self {
            condition,
            workload,
            metric,
            abandoned,
            cells,
            comparisons: summary
                .comparisons
                .iter()
                .filter(|c| {
                    c.condition == condition && c.workload == workload && c.metric == metric.name
                })
                .collect(),
            whole,
            idle,
            lossy,
        })
    }

    fn is_goodput(&self) -> bool {
        self.metric.name == "goodput_bps"
    }

    /// The mean of the ranking metric, with its unit: `91.2 Mbit/s`.
    fn rate(&self, cell: &Cell) -> String {
        quantity(self.metric.unit, cell.mean(self.metric.name).unwrap_or(0.0))
    }

    /// The same where a sentence begins with it: what it is stands beside it, unless it is goodput.
    fn rate_named(&self, cell: &Cell) -> String {
        if self.is_goodput() {
            self.rate(cell)
        } else {
            format!("{} of {}", self.rate(cell), self.metric.title)
        }
    }

    /// `` `tcp` (91.2 Mbit/s) ``.
    fn delivered(&self, cell: &Cell) -> String {
        format!("`{}` ({})", cell.transport, self.rate(cell))
    }

    fn had(&self) -> &'static str {
        if self.is_goodput() {
            "delivered"
        } else {
            "had"
        }
    }

    /// Why messages of a transport are lost.
    fn lossy_because(&self, cell: &Cell) -> &'static str {
        if self.abandoned && cell.retransmits {
            "closed without waiting for delivery"
        } else {
            "which does not retransmit"
        }
    }

    /// `` `udp`, which does not retransmit, delivered 91.2 Mbit/s ``.
    fn unreliably(&self, cell: &Cell) -> String {
        format!(
            "`{}`, {}, {} {}",
            cell.transport,
            self.lossy_because(cell),
            self.had(),
            self.rate_named(cell)
        )
    }

    fn lossy_phrases(&self) -> Vec<String> {
        self.lossy
            .iter()
            .map(|cell| {
                format!(
                    "{}{}",
                    self.unreliably(cell),
                    match cell.loss() {
                        lost if lost > 0.0 => {
                            format!(" and lost {} of its messages", quantity(Unit::Ratio, lost))
                        }
                        _ => " and lost nothing here".to_owned(),
                    }
                )
            })
            .collect()
    }

    fn compare(&self, a: &Cell, b: &Cell) -> Seen {
        let not_enough = Seen {
            conclusion: Conclusion::NotEnoughRounds,
            ratio: None,
        };
        for comparison in &self.comparisons {
            // Above one is faster, whichever way the metric goes.
            let ratio = comparison.ratio.zip(comparison.ratio_interval);
            let ratio = match self.metric.better {
                Better::Lower => ratio.map(|(r, [low, high])| (1.0 / r, [1.0 / high, 1.0 / low])),
                _ => ratio,
            };
            if comparison.a == a.transport && comparison.b == b.transport {
                return Seen {
                    conclusion: comparison.conclusion,
                    ratio,
                };
            }
            if comparison.b == a.transport && comparison.a == b.transport {
                return Seen {
                    conclusion: match comparison.conclusion {
                        Conclusion::Faster => Conclusion::Slower,
                        Conclusion::Slower => Conclusion::Faster,
                        same => same,
                    },
                    ratio: ratio.map(|(r, [low, high])| (1.0 / r, [1.0 / high, 1.0 / low])),
                };
            }
        }
        not_enough
    }

    /// The fastest of the reliable ones, with those behind it that cannot be told apart from it, up
    /// to the first that can; and those that cannot behind that one. Whose rounds differ much cannot
    /// be told apart from anything, and is not among the fastest for that.
    fn front(&self) -> (Vec<&'a Cell>, Vec<&'a Cell>) {
        let Some(first) = self.whole.first() else {
            return Default::default();
        };
        let slower = |cell: &Cell| self.compare(first, cell).conclusion == Conclusion::Faster;
        let decided = !(self.whole.iter().skip(1))
            .any(|cell| self.compare(first, cell).conclusion == Conclusion::NotEnoughRounds);
        let end = match self.whole.iter().skip(1).position(|cell| slower(cell)) {
            Some(position) if decided => position + 1,
            _ => self.whole.len(),
        };
        let (front, behind) = self.whole.split_at(end);
        let together = |cells: &[&'a Cell]| {
            let cells = cells.iter().copied();
            cells.filter(|cell| !slower(cell)).collect()
        };
        (together(front), together(behind))
    }

    /// The fastest of the reliable ones; see [`Field::front`].
    fn leaders(&self) -> Vec<&'a Cell> {
        self.front().0
    }

    /// Those far behind that cannot be told apart from the fastest; see [`Field::front`].
    fn scattered(&self) -> Vec<&'a Cell> {
        self.front().1
    }

    /// Those that are slower than the fastest for sure.
    fn slower(&self) -> Vec<&'a Cell> {
        let Some(first) = self.whole.first() else {
            return Vec::new();
        };
        let cells = self.whole.iter().copied();
        cells
            .filter(|cell| self.compare(first, cell).conclusion == Conclusion::Faster)
            .collect()
    }

    /// Whether no two of some transports can be told apart. Two that cannot be told apart from a
    /// third may well differ from one another.
    fn all_equal(&self, cells: &[&Cell]) -> bool {
        cells.iter().enumerate().all(|(position, a)| {
            cells[position + 1..]
                .iter()
                .all(|b| self.compare(a, b).conclusion == Conclusion::NoDifferenceDetected)
        })
    }

    fn place(&self, several: bool) -> String {
        if several {
            format!("Under `{}` with `{}`", self.condition, self.workload)
        } else {
            format!("Under `{}`", self.condition)
        }
    }

    fn sentence(&self, several: bool) -> String {
        let place = self.place(several);
        let mut parts = Vec::new();
        if !self.lossy.is_empty() {
            parts.push(list(&self.lossy_phrases()));
        }
        if let Some(first) = self.whole.first() {
            parts.extend(self.about_leaders(first));
            parts.extend(self.also_equal(first));
        }
        if !self.idle.is_empty() {
            let names: Vec<String> = (self.idle.iter())
                .map(|cell| format!("`{}`", cell.transport))
                .collect();
            parts.push(format!("{} delivered nothing", list(&names)));
        }
        if parts.is_empty() {
            parts.push("nothing was measured".to_owned());
        }
        format!("{place}, {}.", parts.join("; "))
    }

    fn about_leaders(&self, first: &Cell) -> Vec<String> {
        let among = if self.lossy.is_empty() {
            ""
        } else {
            " of the reliable transports"
        };
        let leaders = self.leaders();
        let rest = self.slower();
        let undecided = leaders
            .iter()
            .skip(1)
            .any(|cell| self.compare(first, cell).conclusion == Conclusion::NotEnoughRounds);
        let mut parts = Vec::new();
        if undecided {
            let all: Vec<String> = self.whole.iter().map(|cell| self.delivered(cell)).collect();
            parts.push(format!(
                "{}; there are not enough rounds to say which is faster",
                list(&all)
            ));
            return parts;
        }
        if self.whole.len() == 1 {
            parts.push(format!(
                "`{}` {} {}{}",
                first.transport,
                self.had(),
                self.rate_named(first),
                if among.is_empty() {
                    ", and nothing else was measured to compare it with"
                } else {
                    ", the only reliable transport that was measured"
                }
            ));
            return parts;
        }
        if leaders.len() == 1 {
            let lead = format!(
                "`{}` was the fastest{among} with {}",
                first.transport,
                self.rate_named(first)
            );
            let next = rest[0];
            let mut margin = self.margin(first, next);
            if rest.len() > 1 {
                margin.push_str(", the next");
                let last = rest[rest.len() - 1];
                if let (Some((ratio, _)), Some((next_ratio, _))) = (
                    self.compare(first, last).ratio,
                    self.compare(first, next).ratio,
                ) && ratio > 1.2 * next_ratio
                {
                    margin.push_str(&format!(
                        ", and {} as `{}`, the last",
                        times(ratio),
                        last.transport
                    ));
                }
            }
            parts.push(format!("{lead}, {margin}"));
            parts.extend(self.about_scattered());
            return parts;
        }
        let named: Vec<String> = leaders.iter().map(|cell| self.delivered(cell)).collect();
        let what = match (rest.is_empty(), among.is_empty()) {
            (true, true) => "no difference was detected".to_owned(),
            (true, false) => {
                "no difference was detected between the reliable transports".to_owned()
            }
            (false, _) => format!("no difference was detected between the fastest{among}"),
        };
        parts.push(if self.all_equal(&leaders) {
            format!("{what}: {}", list(&named))
        } else {
            format!(
                "`{}` {}{among} with {}; no difference from it was detected for {}",
                first.transport,
                if self.is_goodput() {
                    "delivered the most"
                } else {
                    "was ahead"
                },
                self.rate_named(first),
                list(&named[1..])
            )
        });
        if let (Some(next), Some(last)) = (rest.first(), rest.last()) {
            let mut margin = format!("`{}` was {}", first.transport, self.margin(first, next));
            if rest.len() > 1
                && let Some((ratio, _)) = self.compare(first, last).ratio
            {
                margin.push_str(&format!(
                    ", the next, and {} as `{}`, the last",
                    times(ratio),
                    last.transport
                ));
            }
            parts.push(margin);
        }
        parts.extend(self.about_scattered());
        parts
    }

    fn about_scattered(&self) -> Option<String> {
        let scattered = self.scattered();
        let named: Vec<String> = scattered.iter().map(|cell| self.delivered(cell)).collect();
        (!named.is_empty()).then(|| {
            format!(
                "{} differed too much between rounds to be told apart from the fastest",
                list(&named)
            )
        })
    }

    /// Neighbours behind the leaders that cannot be told apart.
    fn also_equal(&self, first: &Cell) -> Option<String> {
        let leaders = self.leaders();
        let rest = self.slower();
        if leaders.iter().any(|cell| {
            cell.transport != first.transport
                && self.compare(first, cell).conclusion == Conclusion::NotEnoughRounds
        }) {
            return None;
        }
        let pairs: Vec<String> = rest
            .windows(2)
            .filter(|pair| {
                self.compare(pair[0], pair[1]).conclusion == Conclusion::NoDifferenceDetected
            })
            .map(|pair| format!("`{}` and `{}`", pair[0].transport, pair[1].transport))
            .collect();
        (!pairs.is_empty()).then(|| {
            format!(
                "between {} no difference was detected",
                pairs.join(" and between ")
            )
        })
    }

    /// `3.1 times as fast as `b` (95 % CI 2.9–3.3, 5 rounds)`; where several pairs share the 5 %,
    /// it is said that the interval is a simultaneous one.
    fn margin(&self, a: &Cell, b: &Cell) -> String {
        let rounds = self
            .comparisons
            .iter()
            .find(|c| {
                (c.a == a.transport && c.b == b.transport)
                    || (c.b == a.transport && c.a == b.transport)
            })
            .map_or(0, |c| c.n);
        match self.compare(a, b).ratio {
            Some((ratio, [low, high])) => {
                let several = if self.comparisons.len() > 1 {
                    "simultaneous "
                } else {
                    ""
                };
                let (low, high) = interval_numbers(low, high);
                format!(
                    "{} as `{}` ({several}95 % CI {low}–{high}, {rounds} rounds)",
                    times(ratio),
                    b.transport,
                )
            }
            None => format!("faster than `{}` with {}", b.transport, self.rate(b)),
        }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let counted = |count: fn(&Cell) -> u64| -> Vec<String> {
            (self.cells.iter())
                .filter(|cell| count(cell) > 0)
                .map(|cell| {
                    let count = count(cell);
                    format!("`{}` in {count} of {} trials", cell.transport, cell.n)
                })
                .collect()
        };
        let doubted = counted(|cell| cell.path_doubted);
        if !doubted.is_empty() {
            notes.push(format!(
                "Measured over a path that was not what was asked for, see the warnings: {}",
                list(&doubted)
            ));
        }
        let stopped = counted(|cell| cell.deadline_reached);
        if !stopped.is_empty() {
            notes.push(format!(
                "Reached the deadline and measured on what had been delivered by then: {}",
                list(&stopped)
            ));
        }
        for cell in &self.cells {
            for reason in &cell.reasons {
                let trials = if reason.count == 1 { "trial" } else { "trials" };
                notes.push(format!(
                    "`{}`: {} {trials} {}{}",
                    cell.transport,
                    reason.count,
                    reason.outcome.replace('_', " "),
                    match reason.reasons.as_slice() {
                        [] => String::new(),
                        reasons => format!(" ({})", reasons.join(": ")),
                    }
                ));
            }
        }
        notes
    }
}

/// A ratio near one needs its decimals: `1.02`; a large one does not: `3.1`, `94`.
fn ratio_number(ratio: f64) -> String {
    match ratio {
        r if r >= 100.0 => format!("{r:.0}"),
        r if r >= 2.0 => format!("{r:.1}"),
        r if r >= 0.1 => format!("{r:.2}"),
        r => number(r),
    }
}

/// The ends of an interval, with as many decimals as it takes to tell them apart, up to four.
fn interval_numbers(low: f64, high: f64) -> (String, String) {
    let (mut low_text, mut high_text) = (ratio_number(low), ratio_number(high));
    for decimals in 2..=4 {
        if low_text != high_text {
            break;
        }
        (low_text, high_text) = (format!("{low:.decimals$}"), format!("{high:.decimals$}"));
    }
    (low_text, high_text)
}

fn times(ratio: f64) -> String {
    format!("{} times as fast", ratio_number(ratio))
}
