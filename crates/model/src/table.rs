//! Tables of records: each record says its columns, so that a new field of one is declared in one place.
//!
//! [`record!`] defines a struct whose fields are columns, with the names, types, units and meanings that the tables of a
//! results file, its checksums, its exports and their data dictionary have.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use serde::Serialize;

use crate::{
    Outcome, Phrase, Text, Unit,
    named::{Named as _, named},
};

/// Type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// 64-bit signed integer.
    Integer,
    /// 64-bit unsigned integer, which the results file has as decimal text.
    Unsigned,
    /// 64-bit floating-point number.
    Real,
    /// 32-bit floating-point number, in exports alone.
    Single,
    /// Text in UTF-8.
    Text,
    /// `true` or `false`, in the results file 1 or 0.
    Boolean,
    /// Bytes, in the results file alone.
    Bytes,
}

named!(Kind:
    "int64" => Integer, "uint64" => Unsigned, "float64" => Real, "float32" => Single, "text" => Text,
    "boolean" => Boolean, "blob" => Bytes);

/// Column of a table.
#[derive(Debug, Clone, Serialize)]
pub struct Column {
    /// Name.
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
    /// Only values that a text may have; empty if it may have any.
    #[serde(skip)]
    pub values: Vec<&'static str>,
    /// Constraint of SQL on the values, or empty.
    #[serde(skip)]
    pub constraint: &'static str,
    /// Whether this is the number of a row in its file alone: in a merged file the row has another one.
    #[serde(skip)]
    pub is_row_number: bool,
    /// Name in exports; `None` for a column that they do not have.
    #[serde(skip)]
    pub exported: Option<Cow<'static, str>>,
}

impl Column {
    /// Creates a column.
    #[must_use]
    pub fn new(
        kind: Kind,
        name: impl Into<Cow<'static, str>>,
        meaning: impl Into<Cow<'static, str>>,
    ) -> Self {
        let name = name.into();
        Self {
            exported: Some(name.clone()),
            name,
            kind,
            unit: None,
            nullable: false,
            meaning: meaning.into(),
            values: Vec::new(),
            constraint: "",
            is_row_number: false,
        }
    }

    /// Creates a column of the values of a type.
    #[must_use]
    pub fn of<T: Cell>(name: &'static str, meaning: &'static str) -> Self {
        Self {
            nullable: T::NULLABLE,
            values: T::names(),
            ..Self::new(T::KIND, name, meaning)
        }
    }

    /// Sets the name of a column that has not that of its field.
    #[must_use]
    pub fn named(mut self, name: &'static str) -> Self {
        self.name = name.into();
        self.exported_as(name)
    }

    /// Sets the unit.
    #[must_use]
    pub fn in_unit(mut self, unit: Unit) -> Self {
        self.unit = Some(unit);
        self
    }

    /// Permits absent values.
    #[must_use]
    pub fn nullable(mut self) -> Self {
        self.nullable = true;
        self
    }

    /// Stores an unsigned number as decimal text: it may be larger than the largest signed one.
    #[must_use]
    pub fn decimal(mut self) -> Self {
        self.kind = Kind::Unsigned;
        self
    }

    /// Sets the only values that a text may have.
    #[must_use]
    pub fn one_of(mut self, values: &[&'static str]) -> Self {
        self.values = values.to_vec();
        self
    }

    /// Sets a constraint of SQL.
    #[must_use]
    pub fn constraint(mut self, sql: &'static str) -> Self {
        self.constraint = sql;
        self
    }

    /// Makes the column the number of the row in its file, which exports leave out.
    #[must_use]
    pub fn row_number(mut self) -> Self {
        (self.is_row_number, self.nullable, self.exported) = (true, false, None);
        self
    }

    /// Sets the name in exports.
    #[must_use]
    pub fn exported_as(mut self, name: &'static str) -> Self {
        self.exported = Some(name.into());
        self
    }
}

/// Value of one column in one row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// No value.
    Null,
    /// Value of a column of [`Kind::Integer`].
    Integer(i64),
    /// Value of a column of [`Kind::Unsigned`], or one of [`Kind::Integer`] that is never negative.
    Unsigned(u64),
    /// Value of a column of [`Kind::Real`].
    Real(f64),
    /// Value of a column of [`Kind::Single`].
    Single(f32),
    /// Value of a column of [`Kind::Text`].
    Text(&'a str),
    /// Value of a column of [`Kind::Boolean`].
    Boolean(bool),
    /// Value of a column of [`Kind::Bytes`].
    Bytes(&'a [u8]),
    /// Value of a column of [`Kind::Text`] with the phrase that it is made of, to be stored.
    WithPhrase(&'a Text),
    /// Phrase to be stored as JSON in a column of [`Kind::Text`].
    Phrase(&'a Phrase),
}

/// Phrases of the texts of a results file, by the texts in English.
#[derive(Debug, Clone, Default)]
pub struct Phrases(BTreeMap<String, Arc<Phrase>>);

impl Phrases {
    /// Returns a text with its phrase, if there is one.
    #[must_use]
    pub fn text(&self, english: &str) -> Text {
        Text::new(english.to_owned(), self.0.get(english).cloned())
    }
}

impl FromIterator<(String, Phrase)> for Phrases {
    fn from_iter<I: IntoIterator<Item = (String, Phrase)>>(phrases: I) -> Self {
        let shared = phrases.into_iter().map(|(text, it)| (text, Arc::new(it)));
        Self(shared.collect())
    }
}

/// Type of the values of a column.
pub trait Cell {
    /// Type of the column.
    const KIND: Kind;

    /// Whether a value may be absent.
    const NULLABLE: bool = false;

    /// Returns the only values that a text may have; empty if it may have any.
    #[must_use]
    fn names() -> Vec<&'static str> {
        Vec::new()
    }

    /// Returns the value to be stored.
    fn value(&self) -> Value<'_>;
}

/// Type of values that are read from a column.
pub trait FromCell<'a>: Cell + Sized {
    /// Converts a stored value; `None` for one of another type or range.
    fn from_cell(value: Value<'a>, phrases: &Phrases) -> Option<Self>;
}

/// Struct or tuple whose fields are columns of one or more tables.
pub trait Columns {
    /// Adds the columns in the order of the fields.
    fn columns(to: &mut Vec<Column>);

    /// Adds the values of the columns in their order.
    fn values<'v>(&'v self, to: &mut Vec<Value<'v>>);
}

/// Reader of one row, cell by cell.
pub trait Cells<'a> {
    /// Error of a value that has another type than its column.
    type Error;

    /// Reads the next value.
    ///
    /// # Errors
    /// The value has another type.
    fn next<T: FromCell<'a>>(&mut self) -> Result<T, Self::Error>;
}

/// Struct or tuple that can be read from the cells of its columns.
pub trait FromRow<'a>: Columns + Sized {
    /// Reads the values of the columns, in the order of [`Columns::columns`].
    ///
    /// # Errors
    /// A value has another type than its column.
    fn from_row<C: Cells<'a>>(cells: &mut C) -> Result<Self, C::Error>;
}

/// Columns of one after those of the other.
impl<A: Columns, B: Columns> Columns for (A, B) {
    fn columns(to: &mut Vec<Column>) {
        A::columns(to);
        B::columns(to);
    }

    fn values<'v>(&'v self, to: &mut Vec<Value<'v>>) {
        self.0.values(to);
        self.1.values(to);
    }
}

impl<'a, A: FromRow<'a>, B: FromRow<'a>> FromRow<'a> for (A, B) {
    fn from_row<C: Cells<'a>>(cells: &mut C) -> Result<Self, C::Error> {
        Ok((A::from_row(cells)?, B::from_row(cells)?))
    }
}

/// Implements [`Cell`] and [`FromCell`] for types, one entry each: the type, the type of its column, its value, and how it
/// is read.
macro_rules! cells {
    ($($ty:ty: $kind:ident, $stored:expr, $($read:pat $(if $guard:expr)? => $result:expr),+;)+) => {$(
        impl Cell for $ty {
            const KIND: Kind = Kind::$kind;

            fn value(&self) -> Value<'_> {
                let stored: fn(&Self) -> Value<'_> = $stored;
                stored(self)
            }
        }

        impl<'a> FromCell<'a> for $ty {
            #[inline]
            fn from_cell(value: Value<'a>, _: &Phrases) -> Option<Self> {
                match value {
                    $($read $(if $guard)? => $result,)+
                    _ => None,
                }
            }
        }
    )+};
}

cells! {
    i64: Integer, |it| Value::Integer(*it), Value::Integer(value) => Some(value);
    u32: Integer, |it| Value::Integer((*it).into()), Value::Integer(value) => value.try_into().ok();
    u64: Integer, |it| Value::Unsigned(*it),
        Value::Unsigned(value) => Some(value), Value::Integer(value) => value.try_into().ok();
    // SQLite has no NaN: it is stored as an absent value, where that is permitted.
    f64: Real, |it| Value::Real(*it), Value::Real(value) => Some(value), Value::Null => Some(f64::NAN);
    bool: Boolean, |it| Value::Boolean(*it), Value::Boolean(value) => Some(value);
    String: Text, |it| Value::Text(it), Value::Text(value) => Some(value.to_owned());
    Phrase: Text, |it| Value::Phrase(it), Value::Text(json) => serde_json::from_str(json).ok();
}

impl Cell for &str {
    const KIND: Kind = Kind::Text;

    fn value(&self) -> Value<'_> {
        Value::Text(self)
    }
}

impl<'a> FromCell<'a> for &'a str {
    #[inline]
    fn from_cell(value: Value<'a>, _: &Phrases) -> Option<Self> {
        match value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl Cell for &[u8] {
    const KIND: Kind = Kind::Bytes;

    fn value(&self) -> Value<'_> {
        Value::Bytes(self)
    }
}

impl<'a> FromCell<'a> for &'a [u8] {
    #[inline]
    fn from_cell(value: Value<'a>, _: &Phrases) -> Option<Self> {
        match value {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}

impl Cell for Text {
    const KIND: Kind = Kind::Text;

    fn value(&self) -> Value<'_> {
        Value::WithPhrase(self)
    }
}

impl<'a> FromCell<'a> for Text {
    #[inline]
    fn from_cell(value: Value<'a>, phrases: &Phrases) -> Option<Self> {
        match value {
            Value::Text(english) => Some(phrases.text(english)),
            _ => None,
        }
    }
}

impl Cell for Outcome {
    const KIND: Kind = Kind::Text;

    fn names() -> Vec<&'static str> {
        Self::NAMES.iter().map(|(name, _)| *name).collect()
    }

    fn value(&self) -> Value<'_> {
        Value::Text(self.as_str())
    }
}

impl<'a> FromCell<'a> for Outcome {
    #[inline]
    fn from_cell(value: Value<'a>, _: &Phrases) -> Option<Self> {
        match value {
            Value::Text(name) => Self::from_name(name),
            _ => None,
        }
    }
}

impl<T: Cell> Cell for Option<T> {
    const KIND: Kind = T::KIND;
    const NULLABLE: bool = true;

    fn names() -> Vec<&'static str> {
        T::names()
    }

    fn value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, T::value)
    }
}

impl<'a, T: FromCell<'a>> FromCell<'a> for Option<T> {
    #[inline]
    fn from_cell(value: Value<'a>, phrases: &Phrases) -> Option<Self> {
        match value {
            Value::Null => Some(None),
            value => T::from_cell(value, phrases).map(Some),
        }
    }
}

/// Defines a struct whose fields are columns. A field with a meaning is one, of its name; the functions of [`Column`] that
/// follow the meaning change it. A field without a meaning is none: it has its default when the row is read.
///
/// ```
/// use regatta_model::{Unit, table::{Column, Columns as _}};
///
/// regatta_model::record! {
///     /// One visit.
///     struct Visit {
///         started_unix_ns: i64 = "start, since the Unix epoch", in_unit(Unit::Nanoseconds);
///         note: String = "what was seen", named("remark");
///         pictures: Vec<String>;
///     }
/// }
///
/// let mut columns = Vec::new();
/// Visit::columns(&mut columns);
/// let names: Vec<&str> = columns.iter().map(|column| &*column.name).collect();
/// assert_eq!(names, ["started_unix_ns", "remark"]);
/// # let visit = Visit { started_unix_ns: 1, note: String::new(), pictures: Vec::new() };
/// # let mut values = Vec::new();
/// # visit.values(&mut values);
/// # assert_eq!((values.len(), visit.pictures.len()), (2, 0));
/// ```
#[macro_export]
macro_rules! record {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $($fields:tt)* }) => {
        $crate::record! { @define [$(#[$meta])*] [$vis] [$name] ['row] { $($fields)* } }
    };
    ($(#[$meta:meta])* $vis:vis struct $name:ident<$lifetime:lifetime> { $($fields:tt)* }) => {
        $crate::record! {
            @define [$(#[$meta])*] [$vis] [$name<$lifetime>] [$lifetime] { $($fields)* }
        }
    };
    (@define [$($meta:tt)*] [$vis:vis] [$($name:tt)*] [$lifetime:lifetime] {
        $(
            $(#[$about:meta])* $of:vis $field:ident: $ty:ty
            $(= $meaning:literal $(, $modifier:ident($($argument:expr),*))*)?;
        )*
    }) => {
        $($meta)*
        $vis struct $($name)* {
            $(
                $(#[doc = concat!("Column: ", $meaning, ".")])?
                $(#[$about])*
                $of $field: $ty,
            )*
        }

        impl<$lifetime> $crate::table::Columns for $($name)* {
            fn columns(to: &mut Vec<$crate::table::Column>) {
                $($(
                    let column = $crate::table::Column::of::<$ty>(stringify!($field), $meaning);
                    to.push(column$(.$modifier($($argument),*))*);
                )?)*
            }

            fn values<'v>(&'v self, to: &mut Vec<$crate::table::Value<'v>>) {
                $($crate::record! { @value to, self.$field $(, $meaning)? })*
            }
        }

        impl<$lifetime> $crate::table::FromRow<$lifetime> for $($name)* {
            fn from_row<C: $crate::table::Cells<$lifetime>>(cells: &mut C) -> Result<Self, C::Error> {
                Ok(Self {
                    $($field: $crate::record!(@read cells $(, $meaning)?),)*
                })
            }
        }
    };
    (@value $to:ident, $value:expr, $meaning:literal) => {
        $to.push($crate::table::Cell::value(&$value));
    };
    (@value $to:ident, $value:expr) => {};
    (@read $cells:ident, $meaning:literal) => {
        $cells.next()?
    };
    (@read $cells:ident) => {
        Default::default()
    };
}
pub use record;
