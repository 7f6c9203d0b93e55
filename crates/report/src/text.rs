//! Text for a terminal: wrapped lines, and tables.

use comfy_table::{Cell, CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use regatta_model::shell::printable;

/// Minimum width at which lines are broken; narrower text would be unreadable.
const NARROWEST: u16 = 40;

/// Style of the tables: a line under the header and nothing else.
const STYLE: TableStyle =
    TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// Options for terminal output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalOptions {
    /// Width of the terminal in columns.
    pub width: u16,
    /// Whether to use colour, which is never the only carrier of meaning.
    pub color: bool,
    /// Whether everything is shown, and not only what fits on one screen.
    pub details: bool,
}

impl Default for TerminalOptions {
    fn default() -> Self {
        Self {
            width: 80,
            color: false,
            details: false,
        }
    }
}

/// Text under construction.
pub struct TerminalText {
    pub out: String,
    pub width: usize,
    pub color: bool,
}

impl TerminalText {
    pub fn new(options: &TerminalOptions) -> Self {
        Self {
            out: String::new(),
            width: usize::from(options.width.max(NARROWEST)),
            color: options.color,
        }
    }

    /// Returns a text in a colour or style, given as the number of its escape sequence.
    pub fn paint(&self, text: &str, code: &str) -> String {
        match self.color {
            true => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            false => text.to_owned(),
        }
    }

    /// Adds a text after a first word, wrapped; its further lines are indented.
    pub fn line(&mut self, first: &str, text: &str, indent: usize) {
        let text = wrap(&printable(text), self.width, indent);
        self.out += &format!("{first}{text}\n");
    }

    /// Adds a wrapped text in a style after an empty line.
    pub fn paragraph(&mut self, text: &str, code: &str) {
        let text = wrap(&printable(text), self.width, 0);
        self.out += &format!("\n{}\n", self.paint(&text, code));
    }

    /// Adds a heading in bold, on one line, after an empty line.
    pub fn heading(&mut self, text: &str) {
        self.out += &format!("\n{}\n", self.paint(&printable(text), "1"));
    }

    pub fn table(&mut self, table: &Table) {
        for line in table.to_string().lines() {
            self.out += &format!("{}\n", line.trim_end());
        }
    }
}

/// Creates a table without colours.
pub fn new_table() -> Table {
    let mut table = Table::new();
    table.load_style(STYLE).force_no_tty();
    table
}

/// Returns the width of a table whose cells are not broken.
pub fn natural_width(table: &Table) -> usize {
    let text = table.to_string();
    let widths = text.lines().map(|line| line.chars().count());
    widths.max().unwrap_or(0)
}

/// Breaks the cells of a table so that it has this width.
pub fn fit(table: &mut Table, width: usize) {
    table
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::try_from(width).unwrap_or(u16::MAX));
}

/// Sets the padding left and right of each column.
pub fn pad(table: &mut Table, padding: (u16, u16)) {
    for column in table.column_iter_mut() {
        column.set_padding(padding);
    }
}

/// Creates a cell that is aligned to the right.
pub fn right(text: impl Into<String>) -> Cell {
    Cell::new(text.into()).set_alignment(CellAlignment::Right)
}

/// Cuts a text to `width` characters, at a space where one is near the end.
pub fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    let at_space = kept.rfind(' ').filter(|at| *at >= kept.len() * 2 / 3);
    let kept = at_space.map_or(&*kept, |at| kept[..at].trim_end());
    format!("{kept}…")
}

/// Breaks a text at spaces so that no line is wider than `width`. The first line begins at column
/// `indent`, after the caller's text; the others are indented as far.
pub fn wrap(text: &str, width: usize, indent: usize) -> String {
    let mut out = String::new();
    let mut column = indent;
    for (position, word) in text.split(' ').enumerate() {
        let length = word.chars().count();
        if position > 0 && column + 1 + length > width {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            column = indent;
        } else if position > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out
}
