//! Tables in CSV.

use std::{
    fmt::Write as _,
    io::{self, Write},
};

use super::{
    column::{Column, Value},
    rows::RowWriter,
};
use crate::cell::is_like_a_formula;

/// Writer of a table in CSV: a head with the names, an empty field for an absent value, `.` before decimals.
pub(super) struct CsvTable<W: Write> {
    csv: csv::Writer<W>,
    /// Text of the present value.
    text: String,
}

impl<W: Write> CsvTable<W> {
    /// Writes the head.
    ///
    /// # Errors
    /// Errors of writing.
    pub(super) fn new(out: W, columns: &[Column]) -> io::Result<Self> {
        let mut csv = csv::Writer::from_writer(out);
        csv.write_record(columns.iter().map(|column| column.name.as_bytes()))?;
        Ok(Self {
            csv,
            text: String::new(),
        })
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
                Value::Text(text) if is_like_a_formula(text) => write!(self.text, "'{text}"),
                Value::Text(text) => {
                    self.csv.write_field(text)?;
                    continue;
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
