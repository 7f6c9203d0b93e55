//! Clause of a verdict about stacks with one name of a congestion control that respond differently to losses.

use itertools::Itertools as _;
use regatta_model::{
    Condition, Ratio,
    loss_response::{self, LOSS_RESPONSE, LossResponse},
    stack,
};

use super::summary::StackRow;
use crate::{
    format::ratio_number,
    language::{quantity, tr},
};

/// Fact of the congestion control.
const CONTROL: &str = "congestion_control.sender";

/// Two stacks with one name of a congestion control whose responses to the losses of a path differ.
#[derive(Debug, Clone, PartialEq)]
pub struct Apart<'a> {
    /// Name of the congestion control.
    control: &'a str,
    /// Measured loss that is nearest to the path's.
    loss: Ratio,
    /// Label of the stack that yields most to losses, and its goodput over the published function.
    low: (String, f64),
    /// Label of the stack that yields least to losses, and its goodput over the published function.
    high: (String, f64),
}

impl Apart<'_> {
    /// Returns the ratio of the two responses.
    pub fn ratio(&self) -> f64 {
        self.high.1 / self.low.1
    }

    /// Returns the clause of a group's sentence.
    pub fn text(&self) -> String {
        let source = loss_response::source(self.control).unwrap_or_default();
        tr!(
            "in separate measurements of long transfers at a loss of {}, `{}` of `{}` reached {} times the goodput of that of `{}` ({} and {} times that of {}): this compares congestion controls",
            quantity(self.loss),
            self.control,
            self.high.0,
            ratio_number(self.ratio()),
            self.low.0,
            ratio_number(self.high.1),
            ratio_number(self.low.1),
            source
        )
    }

    /// Returns the sentence over all groups.
    pub fn sentence(&self) -> String {
        tr!(
            " This compares congestion controls: in separate measurements of long transfers at a loss of {}, `{}` of `{}` reached {} times the goodput of that of `{}`.",
            quantity(self.loss),
            self.control,
            self.high.0,
            ratio_number(self.ratio()),
            self.low.0
        )
    }
}

/// Stack of a comparison, by what its trials tell.
#[derive(Debug, Clone, PartialEq)]
pub struct Stack<'a> {
    /// Name for the sentence.
    pub label: String,
    /// Fact of its congestion control.
    control: &'a str,
    /// Fact of its response to losses.
    response: &'a str,
}

impl<'a> Stack<'a> {
    /// Finds the stack of a transport among the facts of a condition; `None` if they do not tell both.
    pub fn find(rows: &[&'a StackRow], transport: &str, label: String) -> Option<Self> {
        let value = |fact: &str| {
            let row = rows.iter().find(|row| row.fact == fact)?;
            row.values.get(transport).map(String::as_str)
        };
        Some(Self {
            label,
            control: value(CONTROL)?,
            response: value(LOSS_RESPONSE).filter(|fact| stack::is_comparable(fact))?,
        })
    }
}

/// Returns the largest difference for each name of a congestion control among these stacks; empty where the path of the
/// condition has no losses.
pub fn apart<'a>(
    condition: &Condition,
    stacks: impl IntoIterator<Item = Stack<'a>>,
) -> Vec<Apart<'a>> {
    let losses = condition.links().map(|link| link.mean_loss());
    let Some(loss) = losses
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|loss| loss.0 > 0.0)
    else {
        return Vec::new();
    };
    let measured = stacks.into_iter().filter_map(|stack| {
        let (nearest, ratio) = LossResponse::read(stack.response)?.at(loss)?;
        Some((stack.control, (nearest, (stack.label, ratio))))
    });
    let by_control = measured
        .into_group_map()
        .into_iter()
        .sorted_by_key(|it| it.0);
    by_control
        .filter_map(|(control, stacks)| {
            let by_ratio = |a: &&(_, (_, f64)), b: &&(_, (_, f64))| a.1.1.total_cmp(&b.1.1);
            let (low, high) = stacks.iter().minmax_by(by_ratio).into_option()?;
            let found = Apart {
                control,
                loss: high.0,
                low: low.1.clone(),
                high: high.1.clone(),
            };
            (found.ratio() > LossResponse::TOLERATED).then_some(found)
        })
        .collect()
}
