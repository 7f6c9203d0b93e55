//! Axes, the same for every panel, so that panels of one figure can be compared.

use std::ops::Range;

use plotters::{
    coord::{
        ranged1d::{Ranged, ValueFormatter},
        types::RangedCoordf64,
    },
    prelude::*,
};

use super::canvas::{
    Align, Area, Drawn, Ink, PX, heading, line, mark, spread, text_style, width_of, write,
};
use crate::format::{number, shorten};

/// Longest label beside a panel, in characters.
pub const LABEL_CHARACTERS: usize = 16;

/// Heading, axis titles and margins of a plot.
pub struct Frame<'a> {
    /// Heading above the panel: the condition.
    pub heading: &'a str,
    /// Title of the vertical axis, with its unit; written above the axis.
    pub y_title: &'a str,
    /// Title of the horizontal axis, with its unit; written below the axis.
    pub x_title: &'a str,
    /// Margin left of the plot, in CSS pixels.
    pub left: i32,
    /// Margin right of the plot, in CSS pixels.
    pub right: i32,
    /// Whether the vertical axis has ticks.
    pub y_ticks: bool,
}

pub type Chart<'a, Y> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<RangedCoordf64, Y>>;

impl Frame<'_> {
    /// Margin above the plot for a heading and the vertical axis's title, in CSS pixels.
    pub const TOP: i32 = 44;
    /// Margin above the plot for a heading only, in CSS pixels.
    pub const HEADING: i32 = 24;
    /// Margin below the plot, in CSS pixels.
    pub const BOTTOM: i32 = 40;

    /// Draws axes and grid; the chart maps values to drawing units.
    pub fn draw<'a, Y>(
        &self,
        area: &Area<'a>,
        x: Range<f64>,
        y: impl Into<Y> + plotters::coord::ranged1d::AsRangedCoord<CoordDescType = Y, Value = f64>,
        y_text: impl Fn(&f64) -> String,
    ) -> Result<Chart<'a, Y>, super::canvas::DrawError>
    where
        Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let (width, height) = area.dim_in_pixel();
        let mut chart = ChartBuilder::on(area)
            .margin_top(
                PX * if self.y_title.is_empty() {
                    Self::HEADING
                } else {
                    Self::TOP
                },
            )
            .margin_right(self.right * PX)
            .set_label_area_size(LabelAreaPosition::Left, self.left * PX)
            .set_label_area_size(LabelAreaPosition::Bottom, Self::BOTTOM * PX)
            .build_cartesian_2d(x, y)?;
        let hair = |ink: Ink| ShapeStyle {
            color: ink.key().to_rgba(),
            filled: false,
            stroke_width: PX as u32,
        };
        let tick_text = text_style(11.0, Ink::Muted, Align::Middle, false);
        let x_text = |value: &f64| tick(*value);
        let mut mesh = chart.configure_mesh();
        mesh.axis_style(hair(Ink::Axis))
            .bold_line_style(hair(Ink::Grid))
            .light_line_style(TRANSPARENT)
            .x_labels(6)
            .y_labels(5)
            .x_label_style(tick_text.clone())
            .y_label_style(tick_text)
            .x_label_formatter(&x_text)
            .y_label_formatter(&y_text)
            .set_all_tick_mark_size(4 * PX);
        if self.y_ticks {
            mesh.disable_x_mesh();
        } else {
            mesh.disable_y_mesh().disable_y_axis();
        }
        mesh.draw()?;
        heading(area, (0, 9 * PX), self.heading)?;
        write(area, (0, 29 * PX), self.y_title, Ink::Muted, Align::Left)?;
        write(
            area,
            (width as i32 - self.right * PX, height as i32 - 8 * PX),
            self.x_title,
            Ink::Muted,
            Align::Right,
        )?;
        Ok(chart)
    }
}

/// Formats a tick in the axis's own unit, without needless decimals.
pub fn tick(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let text = if value.abs() >= 1.0 {
        let text = format!("{value:.2}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        number(value)
    };
    text.replace('-', "−")
}

/// Returns the end of an axis that starts at zero and shows `largest` with some space above.
pub fn axis_end(largest: f64) -> f64 {
    if largest.is_finite() && largest > 0.0 {
        largest * 1.06
    } else {
        1.0
    }
}

/// Label for the end of a line.
pub struct EndLabel<'a> {
    /// Position of the transport in the study.
    pub series: usize,
    /// Label of the transport.
    pub text: &'a str,
    /// End of the line, in drawing units.
    pub at: (i32, i32),
}

/// Returns the width that the labels of some transports need right of a plot, in CSS pixels.
pub fn room_for_labels<'a>(labels: impl Iterator<Item = &'a str>) -> i32 {
    labels
        .map(|label| width_of(&shorten(label, LABEL_CHARACTERS)) / PX + 26)
        .max()
        .unwrap_or(0)
        .clamp(40, 150)
}

/// Writes labels right of the plot at the height where their lines end, moved apart where they
/// would collide, each with the transport's mark and a thin line from where its line ends.
pub fn end_labels(
    area: &Area<'_>,
    right_edge: i32,
    top: i32,
    bottom: i32,
    labels: &[EndLabel<'_>],
) -> Drawn {
    let wanted: Vec<i32> = labels.iter().map(|label| label.at.1).collect();
    let placed = spread(&wanted, 15 * PX, top, bottom);
    for (label, y) in labels.iter().zip(placed) {
        let (x_end, y_end) = label.at;
        let elbow = (right_edge - 2 * PX).max(x_end);
        line(
            area,
            vec![(x_end, y_end), (elbow, y_end), (right_edge + 4 * PX, y)],
            Ink::Leader,
            0.8,
        )?;
        mark(area, label.series, (right_edge + 10 * PX, y), 4.0, false)?;
        write(
            area,
            (right_edge + 18 * PX, y),
            &shorten(label.text, LABEL_CHARACTERS),
            Ink::Text,
            Align::Left,
        )?;
    }
    Ok(())
}
