//! A finished panel, and the values that it shows.

use serde::{Serialize, Serializer};

/// Value that a panel shows, in the units of its axes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Datum {
    /// Label of the transport, or of the line.
    pub label: String,
    /// Kind of the value: `mean`, `trial`, `published`, `line`.
    pub kind: &'static str,
    /// Place on the horizontal axis, if values go upwards.
    pub x: Option<f64>,
    /// The value.
    pub value: Option<f64>,
    /// Interval or band around the value.
    pub interval: Option<[f64; 2]>,
    /// Number of trials behind the value.
    pub n: Option<u64>,
}

/// Panel as an `svg` element. It serialises as that element.
#[derive(Debug, Clone)]
pub struct DrawnPanel {
    /// The element.
    pub svg: String,
    /// Width and height, in CSS pixels.
    pub size: [f64; 2],
    /// Heading: the condition.
    pub heading: String,
    /// Titles of the horizontal axis and of the values, with their units.
    pub axes: [String; 2],
    /// Values in the order in which they were drawn.
    pub data: Vec<Datum>,
}

impl Serialize for DrawnPanel {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.svg)
    }
}
