//! Drawing primitives of all figures: colours that follow the page's theme, marks, labels.
//!
//! Figures are laid out by `plotters` with one colour per *role*; afterwards each role becomes a
//! CSS variable, so that one drawing serves the light page, the dark one and paper. Drawing units
//! are tenths of a CSS pixel, because the library rounds coordinates to whole units.

use plotters::{
    coord::Shift,
    drawing::DrawingAreaErrorKind,
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use crate::ReportError;

/// Drawing units per CSS pixel.
pub const PX: i32 = 10;
/// Number of colours before they repeat; markers and dashes repeat with other periods, so that
/// transports stay distinct.
const COLOURS: usize = 8;
/// Dash patterns in drawing units; the first is a solid line.
const DASHES: [&str; 5] = ["", "70 40", "20 35", "110 35 20 35", "160 60"];

pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub type DrawError = DrawingAreaErrorKind<std::io::Error>;
pub type Drawn = Result<(), DrawError>;

/// Colour by its role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ink {
    /// Main text.
    Text,
    /// Secondary text: ticks, units.
    Muted,
    /// Lines of the grid.
    Grid,
    /// Axes.
    Axis,
    /// Line from the end of a curve to its label: dotted and grey, so that nobody takes it for
    /// data.
    Leader,
    /// Background of the page.
    Paper,
    /// Transport, by its position in the study.
    Series(usize),
    /// Transport, drawn as a line with its dash.
    Dashed(usize),
}

impl Ink {
    /// Returns the placeholder colour of this role until the drawing is finished.
    pub fn key(self) -> RGBColor {
        match self {
            Self::Series(i) => RGBColor(1, (i % COLOURS) as u8, 0),
            Self::Dashed(i) => RGBColor(2, (i % COLOURS) as u8, (i % DASHES.len()) as u8),
            Self::Text => RGBColor(3, 0, 0),
            Self::Muted => RGBColor(3, 1, 0),
            Self::Grid => RGBColor(3, 2, 0),
            Self::Axis => RGBColor(3, 3, 0),
            Self::Paper => RGBColor(3, 4, 0),
            Self::Leader => RGBColor(3, 5, 0),
        }
    }

    /// Returns the value that replaces `"#RRGGBB"` of this placeholder, with the dash if there is
    /// one.
    fn value(key: [u8; 3]) -> Option<String> {
        Some(match key {
            [1, colour, 0] => format!("\"var(--c{colour})\""),
            [2, colour, dash] => {
                let dash = *DASHES.get(usize::from(dash))?;
                if dash.is_empty() {
                    format!("\"var(--c{colour})\"")
                } else {
                    format!("\"var(--c{colour})\" stroke-dasharray=\"{dash}\"")
                }
            }
            [3, 0, 0] => "\"var(--text)\"".to_owned(),
            [3, 1, 0] => "\"var(--muted)\"".to_owned(),
            [3, 2, 0] => "\"var(--grid)\"".to_owned(),
            [3, 3, 0] => "\"var(--axis)\"".to_owned(),
            [3, 4, 0] => "\"var(--paper)\"".to_owned(),
            [3, 5, 0] => "\"var(--axis)\" stroke-dasharray=\"10 20\"".to_owned(),
            _ => return None,
        })
    }
}

/// Panel of a figure, a drawing of its own.
pub struct Panel<'a> {
    /// Identifier, unique on the page; letters, digits, hyphens.
    pub id: &'a str,
    /// Title for readers who do not see the panel.
    pub title: &'a str,
    /// Description for readers who do not see the panel.
    pub description: &'a str,
    /// Width in CSS pixels.
    pub width: i32,
    /// Height in CSS pixels.
    pub height: i32,
}

impl Panel<'_> {
    /// Draws the panel and returns it as an `svg` element.
    pub fn draw(&self, paint: impl FnOnce(&Area<'_>) -> Drawn) -> Result<String, ReportError> {
        let mut drawing = String::new();
        let size = ((self.width * PX) as u32, (self.height * PX) as u32);
        {
            let area = SVGBackend::with_string(&mut drawing, size).into_drawing_area();
            paint(&area)
                .and_then(|()| area.present())
                .map_err(|error| ReportError::Figure {
                    figure: self.id.to_owned(),
                    message: error.to_string(),
                })?;
        }
        let body = drawing.split_once(">\n").map_or("", |(_, body)| body);
        let (id, title, description) = (self.id, escape(self.title), escape(self.description));
        Ok(format!(
            "<svg class=\"panel\" viewBox=\"0 0 {} {}\" role=\"img\" \
             aria-labelledby=\"{id}-t {id}-d\"><title id=\"{id}-t\">{title}</title>\
             <desc id=\"{id}-d\">{description}</desc>\n{}",
            size.0,
            size.1,
            themed(body)
        ))
    }
}

/// Replaces placeholder colours by CSS variables, and drops attributes that the style sheet sets.
fn themed(body: &str) -> String {
    let mut out = String::with_capacity(body.len());
    let mut rest = body;
    while let Some(at) = rest.find("\"#") {
        let (before, key) = rest.split_at(at);
        out.push_str(before);
        let value = key
            .get(2..8)
            .filter(|_| key.as_bytes().get(8) == Some(&b'"'))
            .and_then(|hex| u32::from_str_radix(hex, 16).ok())
            .and_then(|number| {
                let [_, red, green, blue] = number.to_be_bytes();
                Ink::value([red, green, blue])
            });
        match value {
            Some(value) => {
                out.push_str(&value);
                rest = &key[9..];
            }
            None => {
                out.push_str("\"#");
                rest = &key[2..];
            }
        }
    }
    out.push_str(rest);
    out.replace(" opacity=\"1\"", "")
        .replace(" font-family=\"sans-serif\"", "")
        .replace(" stroke=\"none\"", "")
}

/// Escapes text for an element or a quoted attribute.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}

/// Alignment of a text relative to its point.
#[derive(Debug, Clone, Copy)]
pub enum Align {
    Left,
    Middle,
    Right,
}

/// Returns a text style with a size of `pixels` CSS pixels, vertically centred.
pub fn text_style(pixels: f64, ink: Ink, align: Align, bold: bool) -> TextStyle<'static> {
    let h_pos = match align {
        Align::Left => HPos::Left,
        Align::Middle => HPos::Center,
        Align::Right => HPos::Right,
    };
    // The library writes font sizes divided by 1.24.
    let font = ("sans-serif", pixels * f64::from(PX) * 1.24).into_font();
    let font = if bold {
        font.style(FontStyle::Bold)
    } else {
        font
    };
    let mut style = TextStyle::from(font).pos(Pos::new(h_pos, VPos::Center));
    style.color = ink.key().to_backend_color();
    style
}

/// Writes a text of 12 CSS pixels.
pub fn write(area: &Area<'_>, at: (i32, i32), text: &str, ink: Ink, align: Align) -> Drawn {
    area.draw_text(text, &text_style(12.0, ink, align, false), at)
}

/// Writes the panel's own heading.
pub fn heading(area: &Area<'_>, at: (i32, i32), text: &str) -> Drawn {
    area.draw_text(text, &text_style(13.0, Ink::Text, Align::Left, true), at)
}

/// Estimates the width of a text of 12 CSS pixels, in drawing units. Fonts differ; the estimate is
/// on the wide side.
pub fn width_of(text: &str) -> i32 {
    text.chars()
        .map(|c| match c {
            'i' | 'l' | 'j' | 't' | 'f' | '.' | ',' | '-' | ' ' | '\'' => 50,
            'm' | 'w' | 'M' | 'W' | '%' => 105,
            c if c.is_ascii_uppercase() => 85,
            c if c.is_ascii() => 77,
            _ => 120,
        })
        .sum()
}

/// Draws a line through points in drawing units.
pub fn line(area: &Area<'_>, points: Vec<(i32, i32)>, ink: Ink, pixels: f64) -> Drawn {
    let style = ShapeStyle {
        color: ink.key().to_rgba(),
        filled: false,
        stroke_width: (pixels * f64::from(PX)) as u32,
    };
    area.draw(&PathElement::new(points, style))
}

/// Draws a transport's mark, whose shape identifies the transport besides its colour.
pub fn mark(area: &Area<'_>, series: usize, at: (i32, i32), radius: f64, hollow: bool) -> Drawn {
    let r = (radius * f64::from(PX)) as i32;
    let (x, y) = at;
    let corners: Vec<(i32, i32)> = match series % 7 {
        0 => {
            // A circle as many corners, so that hollow and filled marks are drawn alike.
            (0..20)
                .map(|step| {
                    let angle = f64::from(step) * std::f64::consts::TAU / 20.0;
                    let r = f64::from(r);
                    (x + (r * angle.cos()) as i32, y + (r * angle.sin()) as i32)
                })
                .collect()
        }
        1 => {
            let r = r * 9 / 10;
            vec![
                (x - r, y - r),
                (x + r, y - r),
                (x + r, y + r),
                (x - r, y + r),
            ]
        }
        2 => vec![
            (x, y - r * 12 / 10),
            (x + r * 11 / 10, y + r * 8 / 10),
            (x - r * 11 / 10, y + r * 8 / 10),
        ],
        3 => {
            let r = r * 13 / 10;
            vec![(x, y - r), (x + r, y), (x, y + r), (x - r, y)]
        }
        4 => vec![
            (x, y + r * 12 / 10),
            (x + r * 11 / 10, y - r * 8 / 10),
            (x - r * 11 / 10, y - r * 8 / 10),
        ],
        5 => {
            let (r, t) = (r * 12 / 10, r * 4 / 10);
            vec![
                (x - t, y - r),
                (x + t, y - r),
                (x + t, y - t),
                (x + r, y - t),
                (x + r, y + t),
                (x + t, y + t),
                (x + t, y + r),
                (x - t, y + r),
                (x - t, y + t),
                (x - r, y + t),
                (x - r, y - t),
                (x - t, y - t),
            ]
        }
        _ => vec![
            (x - r * 14 / 10, y - r * 6 / 10),
            (x + r * 14 / 10, y - r * 6 / 10),
            (x + r * 14 / 10, y + r * 6 / 10),
            (x - r * 14 / 10, y + r * 6 / 10),
        ],
    };
    let fill = if hollow {
        Ink::Paper
    } else {
        Ink::Series(series)
    };
    area.draw(&Polygon::new(corners.clone(), fill.key().filled()))?;
    let mut outline = corners;
    outline.push(outline[0]);
    outline.push(outline[1]);
    let ink = if hollow {
        Ink::Series(series)
    } else {
        Ink::Paper
    };
    line(area, outline, ink, if hollow { 1.5 } else { 0.7 })
}

/// Moves positions apart until neighbours are `gap` apart, within `low..=high` where there is
/// room, keeping their order. Returns the new positions in the order of the old ones.
pub fn spread(positions: &[i32], gap: i32, low: i32, high: i32) -> Vec<i32> {
    let mut order: Vec<usize> = (0..positions.len()).collect();
    order.sort_by_key(|&i| positions[i]);
    let mut placed = vec![0; positions.len()];
    let mut next = low;
    for &i in &order {
        placed[i] = positions[i].max(next);
        next = placed[i] + gap;
    }
    let mut last = high;
    for &i in order.iter().rev() {
        placed[i] = placed[i].min(last);
        last = placed[i] - gap;
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_do_not_collide() {
        assert_eq!(spread(&[50, 50, 52], 10, 0, 100), [50, 60, 70]);
        assert_eq!(spread(&[99, 98, 10], 10, 0, 100), [100, 90, 10]);
    }

    #[test]
    fn every_role_has_a_variable_and_text_is_left_alone() {
        let themed = themed("<line stroke=\"#020301\" opacity=\"1\"/>&quot;#030000&quot; \"#zz\"");
        assert_eq!(
            themed,
            "<line stroke=\"var(--c3)\" stroke-dasharray=\"70 40\"/>&quot;#030000&quot; \"#zz\""
        );
        for ink in [
            Ink::Text,
            Ink::Muted,
            Ink::Grid,
            Ink::Axis,
            Ink::Paper,
            Ink::Leader,
            Ink::Series(9),
            Ink::Dashed(14),
        ] {
            let RGBColor(r, g, b) = ink.key();
            assert!(Ink::value([r, g, b]).is_some(), "{ink:?}");
        }
    }
}
