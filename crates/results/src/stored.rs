//! Tables of the results file: their definition and the statements that create them.

use regatta_model::table::{Column, FromRow, Kind};

/// Table of the results file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Table {
    /// Name in the file and in exports.
    pub name: &'static str,
    /// Contents of a row, without a full stop.
    pub meaning: &'static str,
    columns: fn(&mut Vec<Column>),
    /// Columns of the primary key, with commas between: the order of the rows.
    pub key: &'static str,
    constraint: &'static str,
    is_stored_by_key: bool,
    /// Whether each row has the checksum of the record that it begins.
    pub has_checksum: bool,
}

/// Table with records of one type as its rows.
pub(crate) trait Stored {
    /// Row, which may borrow from the file.
    type Row<'r>: FromRow<'r>;

    /// The table.
    const TABLE: Table;
}

impl Table {
    /// Creates a table that has the columns of `R`.
    pub(crate) const fn new<'r, R: FromRow<'r>>(
        name: &'static str,
        key: &'static str,
        meaning: &'static str,
    ) -> Self {
        Self {
            name,
            meaning,
            columns: R::columns,
            key,
            constraint: "",
            is_stored_by_key: false,
            has_checksum: false,
        }
    }

    /// Adds a constraint of SQL on several columns.
    pub(crate) const fn constraint(mut self, sql: &'static str) -> Self {
        self.constraint = sql;
        self
    }

    /// Stores the rows in the order of the key, without numbers of their own.
    pub(crate) const fn by_key(mut self) -> Self {
        self.is_stored_by_key = true;
        self
    }

    /// Adds the column `checksum`.
    pub(crate) const fn with_checksum(mut self) -> Self {
        self.has_checksum = true;
        self
    }

    /// Returns the columns but `checksum`, in their order.
    pub(crate) fn columns(&self) -> Vec<Column> {
        let mut columns = Vec::new();
        (self.columns)(&mut columns);
        columns
    }

    /// Returns the names of the columns that are the same in every file with the record, with commas between.
    pub(crate) fn copied_columns(&self) -> String {
        let columns = self.columns().into_iter();
        names(&Vec::from_iter(
            columns.filter(|column| !column.is_row_number),
        ))
    }

    /// Returns the statement that creates the table.
    pub(crate) fn create(&self) -> String {
        let mut lines: Vec<String> = self.columns().iter().map(declaration).collect();
        if self.has_checksum {
            lines.push("checksum INTEGER".to_owned());
        }
        lines.push(format!("PRIMARY KEY ({})", self.key));
        if !self.constraint.is_empty() {
            lines.push(self.constraint.to_owned());
        }
        let options = match self.is_stored_by_key {
            true => "STRICT, WITHOUT ROWID",
            false => "STRICT",
        };
        let lines = lines.join(",\n    ");
        format!("CREATE TABLE {} (\n    {lines}\n) {options};\n", self.name)
    }
}

/// Returns the type of SQL of a column.
pub(crate) const fn sql_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Integer | Kind::Boolean => "INTEGER",
        Kind::Real | Kind::Single => "REAL",
        Kind::Text | Kind::Unsigned => "TEXT",
        Kind::Bytes => "BLOB",
    }
}

/// Returns the declaration of a column in SQL.
fn declaration(column: &Column) -> String {
    let (name, kind) = (&column.name, sql_type(column.kind));
    let mut declaration = format!("{name} {kind}");
    if !column.nullable {
        declaration.push_str(" NOT NULL");
    }
    if column.kind == Kind::Boolean {
        declaration.push_str(&format!(" CHECK ({name} IN (0, 1))"));
    }
    if !column.values.is_empty() {
        let values = column.values.join("', '");
        declaration.push_str(&format!(" CHECK ({name} IN ('{values}'))"));
    }
    if !column.constraint.is_empty() {
        declaration.push(' ');
        declaration.push_str(column.constraint);
    }
    declaration
}

/// Returns the names of columns with commas between.
pub(crate) fn names(columns: &[Column]) -> String {
    let names: Vec<&str> = columns.iter().map(|column| &*column.name).collect();
    names.join(", ")
}
