//! Columns and values of exported tables.

use std::borrow::Cow;

use regatta_model::{Unit, named::named};
use serde::Serialize;

/// Type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// 64-bit signed integer.
    Integer,
    /// 64-bit unsigned integer, which the results file has as decimal text.
    Unsigned,
    /// 64-bit floating-point number.
    Real,
    /// 32-bit floating-point number.
    Single,
    /// Text in UTF-8.
    Text,
    /// `true` or `false`.
    Boolean,
}

named!(Kind:
    "int64" => Integer, "uint64" => Unsigned, "float64" => Real, "float32" => Single, "text" => Text,
    "boolean" => Boolean);

/// Column of an exported table.
#[derive(Debug, Clone, Serialize)]
pub struct Column {
    /// Name in the file.
    pub name: Cow<'static, str>,
    /// Type of the values.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// Unit of the values; `None` for texts, numbers of rows and the like, and where another column has it.
    pub unit: Option<Unit>,
    /// Whether a value may be absent.
    pub nullable: bool,
    /// Meaning, one sentence or less without a full stop.
    pub meaning: Cow<'static, str>,
    /// Expression that reads the value from the results file; the name if empty.
    #[serde(skip)]
    sql: &'static str,
    /// First version of the results file with this column, and the expression for older ones.
    #[serde(skip)]
    since: (i32, &'static str),
    /// Whether the values are names of metrics, of which older files have earlier ones.
    #[serde(skip)]
    pub(super) names_metrics: bool,
}

impl Column {
    /// Creates a column that never lacks a value.
    pub(super) const fn new(kind: Kind, name: &'static str, meaning: &'static str) -> Self {
        Self {
            name: Cow::Borrowed(name),
            kind,
            unit: None,
            nullable: false,
            meaning: Cow::Borrowed(meaning),
            sql: "",
            since: (0, ""),
            names_metrics: false,
        }
    }

    /// Creates a column for one quantity of the samples of a host.
    pub(super) fn of_host(name: String, unit: Option<Unit>, meaning: String) -> Self {
        Self::of_run(Kind::Single, name, unit, meaning)
    }

    /// Creates a column that some runs have.
    pub(super) fn of_run(kind: Kind, name: String, unit: Option<Unit>, meaning: String) -> Self {
        Self {
            name: Cow::Owned(name),
            unit,
            nullable: true,
            meaning: Cow::Owned(meaning),
            ..Self::new(kind, "", "")
        }
    }

    pub(super) const fn in_unit(mut self, unit: Unit) -> Self {
        self.unit = Some(unit);
        self
    }

    pub(super) const fn nullable(mut self) -> Self {
        self.nullable = true;
        self
    }

    pub(super) const fn sql(mut self, expression: &'static str) -> Self {
        self.sql = expression;
        self
    }

    pub(super) const fn since(mut self, version: i32, older: &'static str) -> Self {
        self.since = (version, older);
        self
    }

    pub(super) const fn names_metrics(mut self) -> Self {
        self.names_metrics = true;
        self
    }

    /// Returns the expression that reads the column from a results file of this version.
    pub(super) fn expression(&self, version: i32) -> &str {
        match self.since {
            (since, older) if version < since => older,
            _ if self.sql.is_empty() => &self.name,
            _ => self.sql,
        }
    }
}

/// Value of one column in one row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// No value.
    Null,
    /// Value of a column of [`Kind::Integer`].
    Integer(i64),
    /// Value of a column of [`Kind::Unsigned`].
    Unsigned(u64),
    /// Value of a column of [`Kind::Real`].
    Real(f64),
    /// Value of a column of [`Kind::Single`].
    Single(f32),
    /// Value of a column of [`Kind::Text`].
    Text(&'a str),
    /// Value of a column of [`Kind::Boolean`].
    Boolean(bool),
}
