//! Open results file, and the reading of rows of its tables.

use std::path::{Path, PathBuf};

use regatta_model::table::{Cells, Column, FromCell, FromRow as _, Kind, Phrases, Value};
use rusqlite::{
    Connection, Params, Row,
    types::{FromSql, ValueRef},
};

use crate::{
    ResultsError,
    explain::explain,
    stored::{Stored, names},
};

/// Open results file of a run that is read.
#[derive(Debug)]
pub struct RunFile {
    pub(crate) connection: Connection,
    pub(crate) path: PathBuf,
}

impl RunFile {
    /// Returns the path of the results file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn damaged(&self, what: impl Into<String>) -> ResultsError {
        ResultsError::Damaged {
            path: self.path.clone(),
            what: what.into(),
        }
    }

    /// Returns the one value of a query.
    pub(crate) fn one<T: FromSql>(&self, sql: &str) -> Result<T, ResultsError> {
        let value = self.connection.query_one(sql, [], |row| row.get(0));
        value.map_err(|e| explain(e, "read", &self.path))
    }

    /// Passes each row of a query to `take`, in order.
    pub(crate) fn each(
        &self,
        sql: &str,
        parameters: impl Params,
        mut take: impl FnMut(&Row<'_>) -> Result<(), RowError>,
    ) -> Result<(), ResultsError> {
        let all = || -> Result<(), RowError> {
            let mut statement = self.connection.prepare_cached(sql)?;
            let mut rows = statement.query(parameters)?;
            while let Some(row) = rows.next()? {
                take(row)?;
            }
            Ok(())
        };
        all().map_err(|error| match error {
            RowError::Sqlite(error) => explain(error, "read", &self.path),
            RowError::Results(error) => error,
            RowError::OtherType(column) => {
                self.damaged(format!("a value of `{column}` is of another type"))
            }
        })
    }

    /// Passes the rows of a table to `take`, in the order of the key: those for which `condition` holds, or all of them if
    /// it is empty. Texts get their phrases.
    pub(crate) fn each_row<T: Stored>(
        &self,
        condition: &str,
        parameters: impl Params,
        phrases: &Phrases,
        take: impl for<'r> FnMut(T::Row<'r>) -> Result<(), RowError>,
    ) -> Result<(), ResultsError> {
        self.each_row_by::<T>(T::TABLE.key, condition, parameters, phrases, take)
    }

    /// Passes rows of a table to `take` as [`RunFile::each_row`] does, in another order.
    pub(crate) fn each_row_by<T: Stored>(
        &self,
        order: &str,
        condition: &str,
        parameters: impl Params,
        phrases: &Phrases,
        mut take: impl for<'r> FnMut(T::Row<'r>) -> Result<(), RowError>,
    ) -> Result<(), ResultsError> {
        let columns = T::TABLE.columns();
        let (selected, table) = (names(&columns), T::TABLE.name);
        let filter = match condition {
            "" => String::new(),
            condition => format!(" WHERE {condition}"),
        };
        let sql = format!("SELECT {selected} FROM {table}{filter} ORDER BY {order}");
        self.each(&sql, parameters, |row| {
            let mut cells = RowCells {
                row,
                columns: &columns,
                next: 0,
                phrases,
            };
            take(T::Row::from_row(&mut cells)?)
        })
    }

    /// Returns what `read` makes of each row of a table, in the order of the key.
    pub(crate) fn all<T: Stored, R>(
        &self,
        phrases: &Phrases,
        mut read: impl for<'r> FnMut(T::Row<'r>) -> R,
    ) -> Result<Vec<R>, ResultsError> {
        let mut all = Vec::new();
        self.each_row::<T>("", [], phrases, |row| {
            all.push(read(row));
            Ok(())
        })?;
        Ok(all)
    }
}

/// Converts a stored value; `None` if it is not of the type of its column.
#[inline]
pub(crate) fn value<'r>(column: &Column, stored: ValueRef<'r>) -> Option<Value<'r>> {
    match (column.kind, stored) {
        (_, ValueRef::Null) => column.nullable.then_some(Value::Null),
        (Kind::Integer, ValueRef::Integer(value)) => Some(Value::Integer(value)),
        (Kind::Real, ValueRef::Real(value)) => Some(Value::Real(value)),
        (Kind::Boolean, ValueRef::Integer(value)) => Some(Value::Boolean(value != 0)),
        (Kind::Text, ValueRef::Text(_)) => Some(Value::Text(stored.as_str().ok()?)),
        (Kind::Unsigned, ValueRef::Text(_)) => {
            Some(Value::Unsigned(stored.as_str().ok()?.parse().ok()?))
        }
        (Kind::Bytes, ValueRef::Blob(bytes)) => Some(Value::Bytes(bytes)),
        _ => None,
    }
}

/// Reader of the cells of a row, which has the values of these columns in their order.
struct RowCells<'r, 's> {
    row: &'r Row<'s>,
    columns: &'r [Column],
    next: usize,
    phrases: &'r Phrases,
}

impl<'r> Cells<'r> for RowCells<'r, '_> {
    type Error = RowError;

    #[inline]
    fn next<T: FromCell<'r>>(&mut self) -> Result<T, RowError> {
        let position = self.next;
        self.next += 1;
        let column = &self.columns[position];
        let stored = value(column, self.row.get_ref(position)?);
        let read = stored.and_then(|value| T::from_cell(value, self.phrases));
        read.ok_or_else(|| RowError::other_type(column))
    }
}

/// Error of a row.
pub(crate) enum RowError {
    Sqlite(rusqlite::Error),
    Results(ResultsError),
    /// Value of another type than its column, with the name of this.
    OtherType(String),
}

impl RowError {
    pub(crate) fn other_type(column: &Column) -> Self {
        Self::OtherType(column.name.to_string())
    }
}

impl From<rusqlite::Error> for RowError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<ResultsError> for RowError {
    fn from(error: ResultsError) -> Self {
        Self::Results(error)
    }
}
