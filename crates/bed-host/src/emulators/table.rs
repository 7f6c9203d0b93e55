//! Tables in Markdown.

use std::fmt;

/// A table with a title.
#[derive(Debug)]
pub(super) struct Table {
    title: String,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(title: &str, columns: &[&str]) -> Self {
        Self {
            title: title.to_owned(),
            rows: vec![columns.iter().map(|&column| column.to_owned()).collect()],
        }
    }

    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "**{}**\n", self.title)?;
        for (number, cells) in self.rows.iter().enumerate() {
            writeln!(f, "| {} |", cells.join(" | "))?;
            if number == 0 {
                let figures = cells.len().saturating_sub(1);
                writeln!(f, "|---|{}", "---:|".repeat(figures))?;
            }
        }
        Ok(())
    }
}
