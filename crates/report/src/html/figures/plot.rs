//! A figure in the units of its values, and its drawing: every figure is drawn and recorded here.

use super::{
    Figure,
    axis::{XAxis, YAxis, largest},
    chart::{BOTTOM, Chart, HEADING, TOP, WIDTH},
    drawing::DrawnPanel,
    marks::{CellAxis, Mark, draw_cells},
    svg::{Svg, escape, width_of},
};
use crate::labels::Labels;

/// Margin left of a plot with ticks, in CSS pixels.
const LEFT: f64 = 44.0;

/// Figure before it is drawn. Values are stored ones.
pub struct Plot<'a> {
    /// Identifier, unique on the page; letters, digits, hyphens.
    pub id: String,
    /// Title of the figure.
    pub title: String,
    /// Caption: how to read the figure.
    pub caption: String,
    /// Definition of what is shown.
    pub definition: String,
    /// Labels of the lines or rows of all panels.
    pub labels: Labels,
    /// Axes of all panels.
    pub axes: Axes,
    /// Panels; those without values are left out.
    pub panels: Vec<Panel<'a>>,
}

/// Axes of the panels of a figure. Sizes are in CSS pixels.
pub enum Axes {
    /// Lines or bars, whose labels stand at the right.
    Values {
        /// Horizontal axis.
        x: XAxis,
        /// Vertical axis.
        y: YAxis,
        /// Height of a panel.
        height: f64,
    },
    /// Rows, whose labels stand at the left and their values at the right.
    Rows {
        /// Horizontal axis.
        x: XAxis,
        /// Height of a row.
        height: f64,
        /// Maximum width of the labels; infinite for labels that are never shortened.
        labels: f64,
        /// Width of the values.
        values: f64,
    },
    /// Cells of a map: axes across and up.
    Cells([CellAxis; 2]),
}

/// Panel of a figure.
#[derive(Default)]
pub struct Panel<'a> {
    /// Condition, with which a reader switches the panel off; `None` for a panel that stays.
    pub condition: Option<&'a str>,
    /// Heading above the panel.
    pub heading: String,
    /// Title for readers who do not see the panel.
    pub title: String,
    /// Description for readers who do not see the panel.
    pub description: String,
    /// Horizontal axis, if it is another one than the figure's.
    pub x: Option<XAxis>,
    /// Contents, from the back to the front.
    pub marks: Vec<Mark<'a>>,
}

impl Plot<'_> {
    /// Draws the figure; `None` if no panel has values.
    pub fn draw(self) -> Option<Figure> {
        let panels = self.panels.iter().enumerate();
        let panels = panels.filter(|(_, panel)| panel.marks.iter().any(Mark::is_content));
        let panels: Vec<DrawnPanel> = panels
            .map(|(number, panel)| self.panel(number, panel))
            .collect();
        (!panels.is_empty()).then(|| Figure {
            id: format!("figure-{}", self.id),
            title: self.title,
            caption: self.caption,
            definition: self.definition,
            panels,
        })
    }

    fn panel(&self, number: usize, panel: &Panel<'_>) -> DrawnPanel {
        let rows = panel.marks.iter().filter(|mark| mark.is_row()).count();
        let widths = || self.labels.texts().map(width_of);
        let (x, y, [left, right, height]) = match &self.axes {
            Axes::Cells(axes) => {
                let (svg, height) = draw_cells(axes, &panel.heading, &panel.marks);
                return self.element(number, panel, svg, height, ["", &panel.title], "");
            }
            Axes::Values { x, y, height } => {
                let right = largest(widths().map(|width| width + 26.0)).clamp(40.0, 150.0);
                let key = largest(panel.marks.iter().map(Mark::key));
                (x, Some(y), [LEFT, right + key, *height])
            }
            Axes::Rows {
                x,
                height,
                labels,
                values,
            } => {
                let left = largest(widths().map(|width| width + 22.0)).max(60.0);
                let height = HEADING + BOTTOM + height * rows as f64;
                (x, None, [left.min(*labels), *values, height])
            }
        };
        let x = panel.x.as_ref().unwrap_or(x);
        let chart = Chart {
            left,
            right: WIDTH - right,
            top: y.map_or(HEADING, |_| TOP),
            bottom: height - BOTTOM,
            labels: &self.labels,
            x,
            y,
            rows,
        };
        let mut svg = Svg::default();
        chart.draw_axes(&mut svg, &panel.heading);
        svg.group("plot", |svg| chart.draw(svg, &panel.marks));
        // Values of rows go along the horizontal axis.
        let titles = match y {
            None => ["", &*x.title],
            Some(y) => [&*x.title, &*y.title],
        };
        self.element(number, panel, svg, height, titles, &chart.scales())
    }

    /// Returns a drawing as a panel; `axes` are the titles of its axes, `scales` their attributes.
    fn element(
        &self,
        number: usize,
        panel: &Panel<'_>,
        svg: Svg,
        height: f64,
        axes: [&str; 2],
        scales: &str,
    ) -> DrawnPanel {
        let condition = panel.condition.map_or_else(String::new, |condition| {
            format!(" data-c=\"{}\"", escape(condition))
        });
        DrawnPanel {
            heading: panel.heading.clone(),
            axes: axes.map(str::to_owned),
            ..svg.into_element(
                &format!("{}-{number}", self.id),
                &panel.title,
                &panel.description,
                [WIDTH, height],
                &(condition + scales),
            )
        }
    }
}
