//! Types of the sweeps in `summary.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A metric against the parameters of sweeps, in cells that differ in these and in the transport only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepResult {
    /// Name of the condition in the study file.
    pub condition: String,
    /// Name of the workload in the study file.
    pub workload: String,
    /// Name of the metric.
    pub metric: String,
    /// Unit of the metric's values.
    pub unit: String,
    /// Whether the metric is that of the ranking. Crossings are of this metric only.
    pub is_primary: bool,
    /// Axes in the order of the study; the first one is horizontal in figures.
    pub axes: Vec<SweepAxis>,
    /// Labels of the lines: transports as the study file names them.
    pub lines: Vec<String>,
    /// Cells, line by line.
    pub cells: Vec<SweepCell>,
    /// Values of an axis at which one line overtakes another.
    pub crossings: Vec<SweepCrossing>,
    /// Sentences about the crossings.
    pub sentences: Vec<String>,
}

/// Axis of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepAxis {
    /// Key in the study: `condition.loss`.
    pub key: String,
    /// Keys whose values go together with those of this one.
    pub zipped: Vec<String>,
    /// Title in figures, without the unit.
    pub title: String,
    /// Unit of the values; absent if they are no quantities of one unit.
    pub unit: Option<String>,
    /// Whether the axis is logarithmic.
    pub logarithmic: bool,
    /// Values, ascending if they are quantities.
    pub values: Vec<SweepValue>,
}

/// Value on the axis of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepValue {
    /// The value in names of cells.
    pub text: String,
    /// The value in the unit of the axis.
    pub value: Option<f64>,
}

/// Cell of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepCell {
    /// Label of the line.
    pub line: String,
    /// Position of the cell's value on each axis.
    pub at: Vec<u32>,
    /// Label of the transport.
    pub transport: String,
    /// Name of the condition.
    pub condition: String,
    /// Name of the workload.
    pub workload: String,
    /// Number of measured trials that have the metric.
    pub n: u64,
    /// Number of trials: the rounds, unless a rule ends cells before.
    #[serde(default)]
    pub trials: u64,
    /// Figure of the tables, as in the cell's summary.
    pub value: Option<f64>,
    /// Its 95 % interval.
    pub ci95: Option<[f64; 2]>,
}

/// Value at which one line overtakes another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepCrossing {
    /// Label of the line that is better above the value.
    pub above: String,
    /// Label of the line that is better below the value.
    pub below: String,
    /// Position of the axis along which the lines cross.
    #[serde(default)]
    pub axis: u32,
    /// Positions of the values on the other axes.
    pub others: Vec<u32>,
    /// The value, in the unit of the axis.
    pub value: f64,
    /// Ends of its 95 % interval; absent where the interval reaches beyond the values of the sweep.
    pub ci95: [Option<f64>; 2],
    /// Sentence.
    pub text: String,
}

impl SweepAxis {
    /// Returns the text of the value at a position; empty for none.
    #[must_use]
    pub fn text_of(&self, position: u32) -> &str {
        let value = self.values.get(position as usize);
        value.map_or("", |value| &value.text)
    }
}

impl SweepResult {
    /// Returns the cells by their positions on the axes and the label of their line.
    #[must_use]
    pub fn by_position(&self) -> BTreeMap<(&[u32], &str), &SweepCell> {
        let cells = self.cells.iter();
        let by_position = cells.map(|cell| ((&cell.at[..], cell.line.as_str()), cell));
        by_position.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_beyond_the_axis_has_no_text() {
        let axis = SweepAxis {
            key: "condition.loss".into(),
            zipped: Vec::new(),
            title: "loss".into(),
            unit: None,
            logarithmic: false,
            values: vec![SweepValue {
                text: "1 %".into(),
                value: None,
            }],
        };
        assert_eq!([axis.text_of(0), axis.text_of(1)], ["1 %", ""]);
    }
}
