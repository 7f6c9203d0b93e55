//! Writing of rows of the tables.

use std::marker::PhantomData;

use regatta_model::{
    Text,
    table::{Column, Columns as _, Kind, Value},
};
use rusqlite::{
    CachedStatement, Connection, params_from_iter,
    types::{ToSqlOutput, Value as Owned, ValueRef},
};

use crate::{
    checksum,
    schema::{PhraseRow, PhraseTable, RowNumber},
    stored::{Stored, names},
};

/// Statement that stores rows of a table.
pub(crate) struct Insert<'c, T> {
    connection: &'c Connection,
    columns: Vec<Column>,
    statement: CachedStatement<'c>,
    table: PhantomData<T>,
}

impl<'c, T: Stored> Insert<'c, T> {
    /// Prepares the statement, which begins with `INSERT`.
    pub(crate) fn new(connection: &'c Connection, verb: &str) -> rusqlite::Result<Self> {
        let columns = T::TABLE.columns();
        let placeholders = vec!["?"; columns.len()].join(", ");
        let (table, names) = (T::TABLE.name, names(&columns));
        let sql = format!("{verb} INTO {table} ({names}) VALUES ({placeholders})");
        Ok(Self {
            connection,
            columns,
            statement: connection.prepare_cached(&sql)?,
            table: PhantomData,
        })
    }

    /// Inserts a row; returns how many rows were inserted: 0 if `INSERT OR IGNORE` found its key. SQLite chooses the
    /// row ID of a row without one.
    pub(crate) fn put(&mut self, row: &T::Row<'_>) -> rusqlite::Result<usize> {
        let mut values = Vec::with_capacity(self.columns.len());
        row.values(&mut values);
        let values = self.columns.iter().zip(values);
        let values = values.map(|(column, value)| stored_form(self.connection, column, value));
        let values: Vec<ToSqlOutput<'_>> = values.collect::<Result<_, _>>()?;
        self.statement.execute(params_from_iter(values))
    }
}

/// Inserts a row; returns its row ID, which means something only in tables with an integer key.
pub(crate) fn insert<T: Stored>(
    connection: &Connection,
    row: &T::Row<'_>,
) -> rusqlite::Result<i64> {
    Insert::<T>::new(connection, "INSERT")?.put(row)?;
    Ok(connection.last_insert_rowid())
}

/// Inserts a row unless one with the same key exists; returns its row ID if it was inserted.
pub(crate) fn insert_new<T: Stored>(
    connection: &Connection,
    row: &T::Row<'_>,
) -> rusqlite::Result<Option<i64>> {
    let count = Insert::<T>::new(connection, "INSERT OR IGNORE")?.put(row)?;
    Ok((count > 0).then(|| connection.last_insert_rowid()))
}

/// Converts a value to its form in SQLite; stores the phrase of a text.
fn stored_form<'v>(
    connection: &Connection,
    column: &Column,
    value: Value<'v>,
) -> rusqlite::Result<ToSqlOutput<'v>> {
    let borrowed = ToSqlOutput::Borrowed;
    Ok(match value {
        Value::Null => borrowed(ValueRef::Null),
        Value::Integer(value) => borrowed(ValueRef::Integer(value)),
        Value::Unsigned(value) if column.kind == Kind::Unsigned => {
            ToSqlOutput::Owned(Owned::Text(value.to_string()))
        }
        Value::Unsigned(value) => {
            borrowed(ValueRef::Integer(i64::try_from(value).unwrap_or(i64::MAX)))
        }
        Value::Real(value) => borrowed(ValueRef::Real(value)),
        Value::Single(value) => borrowed(ValueRef::Real(value.into())),
        Value::Text(text) => borrowed(ValueRef::Text(text.as_bytes())),
        Value::Boolean(value) => borrowed(ValueRef::Integer(value.into())),
        Value::Bytes(bytes) => borrowed(ValueRef::Blob(bytes)),
        Value::WithPhrase(text) => {
            keep_phrase(connection, text)?;
            borrowed(ValueRef::Text(text.as_bytes()))
        }
        Value::Phrase(phrase) => {
            let json = serde_json::to_string(phrase);
            let json =
                json.map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
            ToSqlOutput::Owned(Owned::Text(json))
        }
    })
}

/// Stores the phrase of a text, unless the same text was stored with one.
pub(crate) fn keep_phrase(connection: &Connection, text: &Text) -> rusqlite::Result<()> {
    let Some(phrase) = text.phrase() else {
        return Ok(());
    };
    let row = PhraseRow {
        text,
        content: phrase.clone(),
    };
    match insert_new::<PhraseTable>(connection, &(RowNumber::NEXT, row))? {
        Some(number) => checksum::PHRASE.seal(connection, number).map(drop),
        None => Ok(()),
    }
}
