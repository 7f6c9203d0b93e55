//! Figures as files of their own, to take into a paper: SVG, values as CSV, caption as text.
//!
//! PDF and PNG are made of the SVG by the typesetter, whose job is here, too.

use std::fmt::Write as _;

use itertools::Itertools as _;
use regatta_model::shell::printable;
use serde_json::{Value, json};

use crate::{
    RunData, Summary,
    html::{
        self,
        figures::{DrawnPanel, Figure, escape},
    },
    pdf,
};

/// Width of a column, in millimetres: that of one panel.
const COLUMN_MM: f64 = 85.0;

/// Gap between two columns, and between two panels, in millimetres.
const GAP_MM: f64 = 5.0;

/// Height above which the panels of a figure stand in two columns, in millimetres.
const PAGE_MM: f64 = 230.0;

/// Millimetres of a point.
const POINT_MM: f64 = 25.4 / 72.0;

/// Smallest size of a text, in points.
const MIN_POINTS: f64 = 7.0;

/// Name of the list of all figures.
pub const INDEX_FILE_NAME: &str = "figures.csv";

/// Figure with its files.
#[derive(Debug, Clone)]
pub struct FigureFiles {
    /// Names of the files without their extension.
    pub name: String,
    /// Title of the figure.
    pub title: String,
    /// The figure as a document in SVG.
    pub svg: String,
    /// Values of the figure as CSV.
    pub csv: String,
    /// Title, caption and columns of the values as text.
    pub caption: String,
    /// Width and height, in millimetres.
    pub size_mm: [f64; 2],
}

/// Returns every figure of the report of a run, in the order of the page.
#[must_use]
pub fn figure_files(data: &RunData, summary: &Summary) -> Vec<FigureFiles> {
    let mut figures = html::figures::all(data, summary);
    figures.each_panel(html::with_literal_colours);
    figures.all().map(files).collect()
}

/// Returns the list of all figures as CSV: file name, title, number of panels, size.
#[must_use]
pub fn index(files: &[FigureFiles]) -> String {
    let mut text = String::from("name,width_mm,height_mm,title\n");
    for file in files {
        let [width, height] = file.size_mm;
        let (name, title) = (&file.name, csv_text(&file.title));
        let _ = writeln!(text, "{name},{width},{height},{title}");
    }
    text
}

fn files(figure: &Figure) -> FigureFiles {
    let (svg, size_mm) = document(figure);
    let id = figure.id.as_str();
    // XML, fonts and terminals cannot have every character of a text of a program's.
    FigureFiles {
        name: id.strip_prefix("figure-").unwrap_or(id).to_owned(),
        title: printable(&figure.title),
        svg: printable(&svg),
        csv: printable(&csv(&figure.panels)),
        caption: printable(&caption(figure)),
        size_mm,
    }
}

/// Returns a figure as a document, with its size in millimetres.
fn document(figure: &Figure) -> (String, [f64; 2]) {
    let scale = |panel: &DrawnPanel| COLUMN_MM / panel.size[0];
    let heights = figure.panels.iter().map(|it| it.size[1] * scale(it));
    let heights: Vec<f64> = heights.collect();
    let column: f64 = heights.iter().sum::<f64>() + GAP_MM * heights.len() as f64;
    let columns = if column > PAGE_MM { 2 } else { 1 };
    let mut panels = String::new();
    let mut y = 0.0;
    let rows = figure.panels.chunks(columns).zip(heights.chunks(columns));
    for (panels_of_row, heights_of_row) in rows {
        for (position, (panel, height)) in panels_of_row.iter().zip(heights_of_row).enumerate() {
            let x = position as f64 * (COLUMN_MM + GAP_MM);
            let [x, y, height] = [x, y, *height].map(hundredths);
            let opening_tag =
                format!("<svg x=\"{x}\" y=\"{y}\" width=\"{COLUMN_MM}\" height=\"{height}\" ");
            let svg = with_legible_text(&panel.svg, scale(panel));
            panels += &svg.replacen("<svg ", &opening_tag, 1);
        }
        y += heights_of_row.iter().copied().fold(0.0, f64::max) + GAP_MM;
    }
    let width = columns as f64 * (COLUMN_MM + GAP_MM) - GAP_MM;
    let height = hundredths(y - GAP_MM);
    let text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}mm\" height=\"{height}mm\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"Noto Sans, DejaVu Sans, sans-serif\">\n\
         <title>{}</title>\n<desc>{}</desc>\n{panels}</svg>\n",
        escape(&figure.title),
        escape(&whole_caption(figure))
    );
    (text, [width, height])
}

/// Enlarges the texts of a panel that would be smaller than [`MIN_POINTS`] at this scale, in millimetres per pixel.
fn with_legible_text(svg: &str, scale: f64) -> String {
    let least = MIN_POINTS * POINT_MM / scale;
    let mut parts = svg.split("font-size=\"");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (size, rest) = part.split_once('"').unwrap_or((part, ""));
        let size: f64 = size.parse().unwrap_or(least);
        let size = hundredths(size.max(least + 0.005));
        let _ = write!(text, "font-size=\"{size}\"{rest}");
    }
    text
}

fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// Returns how to read the figure, and the definition of what it shows: a file is read without the report.
fn whole_caption(figure: &Figure) -> String {
    format!("{} {}", figure.caption, figure.definition)
        .trim_end()
        .to_owned()
}

/// Returns title, caption and the meaning of the columns.
fn caption(figure: &Figure) -> String {
    let mut text = format!("{}\n\n{}\n\n", figure.title, whole_caption(figure));
    for [x, value] in figure.panels.iter().map(|panel| &panel.axes).unique() {
        if !x.is_empty() {
            let _ = writeln!(text, "x: {x}");
        }
        let _ = writeln!(text, "value, low, high: {value}");
    }
    text
}

/// Returns the values of panels.
fn csv(panels: &[DrawnPanel]) -> String {
    let mut text = String::from("panel,label,kind,x,value,low,high,n\n");
    for panel in panels {
        for datum in &panel.data {
            let number = |value: Option<f64>| value.map_or_else(String::new, digits);
            let _ = writeln!(
                text,
                "{},{},{},{},{},{},{},{}",
                csv_text(&panel.heading),
                csv_text(&datum.label),
                datum.kind,
                number(datum.x),
                number(datum.value),
                number(datum.interval.map(|[low, _]| low)),
                number(datum.interval.map(|[_, high]| high)),
                datum.n.map_or_else(String::new, |n| n.to_string())
            );
        }
    }
    text
}

/// Formats a value with at most nine significant digits, without those that are zero.
fn digits(value: f64) -> String {
    let rounded: f64 = format!("{value:.8e}").parse().unwrap_or(value);
    rounded.to_string()
}

/// Formats a text as a cell that no spreadsheet takes for a formula, with quotes where CSV needs them.
fn csv_text(text: &str) -> String {
    let text = regatta_results::cell(text.to_owned());
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}

/// Template of a document that has nothing but a figure.
const TEMPLATE: &str = "#let figure = json(\"page.json\")\n\
    #set document(title: figure.title)\n\
    #set page(width: figure.width * 1mm, height: figure.height * 1mm, margin: 0pt)\n\
    #image(bytes(figure.svg), format: \"svg\", width: 100%, alt: figure.title)\n";

/// Formats that the typesetter makes of a figure, in the order of its output: extensions of file names.
pub const TYPESET_FORMATS: [&str; 2] = ["pdf", "png"];

/// Returns the job of the typesetter for figures of a run, as JSON: each in all of [`TYPESET_FORMATS`].
#[must_use]
pub fn typeset_job(figures: &[FigureFiles], data: &RunData) -> String {
    let document = |figure: &FigureFiles| {
        let [width, height] = figure.size_mm;
        let page =
            json!({ "title": figure.title, "svg": figure.svg, "width": width, "height": height });
        pdf::document(TEMPLATE, &page, data, &TYPESET_FORMATS)
    };
    let documents: Vec<Value> = figures.iter().map(document).collect();
    pdf::job_of(&documents).to_string()
}
