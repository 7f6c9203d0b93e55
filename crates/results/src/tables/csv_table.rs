//! Tables in CSV.

use std::{
    fmt::Write as _,
    io::{self, Write},
};

use regatta_model::table::Value;

use super::rows::RowWriter;
use crate::cell::is_like_a_formula;

/// Writer of a table in CSV: an empty field for an absent value, `.` before decimals.
pub(crate) struct CsvTable<W: Write> {
    csv: csv::Writer<W>,
    /// Text of the present value.
    text: String,
}

impl<W: Write> CsvTable<W> {
    /// Begins without a head.
    pub(crate) fn new(out: W) -> Self {
        Self {
            csv: csv::Writer::from_writer(out),
            text: String::new(),
        }
    }

    /// Writes the head.
    ///
    /// # Errors
    /// Errors of writing.
    pub(crate) fn with_head(
        out: W,
        names: impl IntoIterator<Item = impl AsRef<[u8]>>,
    ) -> io::Result<Self> {
        let mut table = Self::new(out);
        table.csv.write_record(names)?;
        Ok(table)
    }

    /// Writes a text that no spreadsheet takes for a formula.
    fn write_text(&mut self, text: &str) -> io::Result<()> {
        match is_like_a_formula(text) {
            true => self.csv.write_field(format!("'{text}"))?,
            false => self.csv.write_field(text)?,
        }
        Ok(())
    }

    /// Writes what is left, and returns the output.
    ///
    /// # Errors
    /// Errors of writing.
    pub(crate) fn into_inner(self) -> io::Result<W> {
        self.csv
            .into_inner()
            .map_err(csv::IntoInnerError::into_error)
    }
}

impl<W: Write> RowWriter for CsvTable<W> {
    fn write(&mut self, row: &[Value<'_>]) -> io::Result<()> {
        for value in row {
            self.text.clear();
            // Writing to a string cannot fail.
            let _ = match *value {
                Value::Null => Ok(()),
                Value::Integer(value) => write!(self.text, "{value}"),
                Value::Unsigned(value) => write!(self.text, "{value}"),
                Value::Real(value) => write!(self.text, "{value}"),
                Value::Single(value) => write!(self.text, "{value}"),
                // In capitals, as R, pandas and DuckDB all know them.
                Value::Boolean(true) => write!(self.text, "TRUE"),
                Value::Boolean(false) => write!(self.text, "FALSE"),
                Value::Text(text) => {
                    self.write_text(text)?;
                    continue;
                }
                Value::WithPhrase(text) => {
                    self.write_text(text)?;
                    continue;
                }
                Value::Bytes(_) | Value::Phrase(_) => {
                    return Err(io::Error::other("a column of this type is in no CSV file"));
                }
            };
            self.csv.write_field(&self.text)?;
        }
        Ok(self.csv.write_record(None::<&[u8]>)?)
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.csv.flush()
    }
}
