//! Checksums of stored records, which detect a changed bit that leaves the file a sound database.

use std::{cmp::Ordering, collections::HashMap, ops::Range};

use crc32fast::Hasher;
use rusqlite::{
    Connection, Row, fallible_streaming_iterator::FallibleStreamingIterator as _, types::ValueRef,
};

use crate::{
    ResultsError,
    run_file::RunFile,
    schema::{
        FactTable, HistogramTable, HostFactTable, HostSampleNamesTable, HostSamplesTable,
        MetricTable, ParameterTable, PartFactTable, PartTable, PartTrialTable, PathCheckTable,
        PathQuantityTable, PhraseTable, ReasonTable, RunTable, SeriesTable, TrialTable,
        WarningTable,
    },
    stored::{Stored, Table, names},
};

/// Kind of record that is stored once and has a checksum.
#[derive(Debug)]
pub(crate) struct Kind {
    /// Table with a row for each record, which has the checksum.
    table: Table,
    /// Condition on the rows of `table` that are records of this kind.
    which: &'static str,
    /// Rows of the record in other tables.
    pub(crate) rows: &'static [Rows],
}

/// Rows of one table that are part of a record of another one.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) table: Table,
    /// Column with the record's key.
    key: &'static str,
}

impl Rows {
    /// Returns the columns that are summed: those of the table, without the key of the record and the number of the row, which
    /// a merged file changes.
    fn columns(&self) -> String {
        let columns = self.table.columns().into_iter();
        let summed = columns.filter(|it| it.name != self.key && !it.is_row_number);
        names(&summed.collect::<Vec<_>>())
    }

    /// Returns the query for the rows of all records, with the key first.
    fn of_all(&self) -> String {
        let (columns, table, key) = (self.columns(), self.table.name, self.key);
        // The order of an index, or SQLite would sort the rows.
        let order = match self.table.key {
            order if order.starts_with(key) => order.to_owned(),
            order => format!("{key}, {order}"),
        };
        format!("SELECT {key}, {columns} FROM {table} WHERE {key} IS NOT NULL ORDER BY {order}")
    }

    /// Returns the query for the rows of one record, by its key.
    fn of_one(&self) -> String {
        let (columns, table, key, order) =
            (self.columns(), self.table.name, self.key, self.table.key);
        format!("SELECT {columns} FROM {table} WHERE {key} = ?1 ORDER BY {order}")
    }
}

/// Defines kinds of records, one entry each: the constant, the name for messages, the table, the condition on its rows unless
/// all are records of the kind; then the other tables with rows of the record, and their columns with its key.
macro_rules! kinds {
    ($($(#[$meaning:meta])* $kind:ident = $name:literal: $table:ident $(where $which:literal)?
        { $($rows:ident by $of:literal;)* })+) => {
        $($(#[$meaning])* pub(crate) const $kind: Kind = Kind {
            table: $table::TABLE,
            which: [$($which,)? "TRUE"][0],
            rows: &[$(Rows { table: $rows::TABLE, key: $of }),*],
        };)+

        /// Every kind of record, with its name for messages.
        pub(crate) const ALL: &[(Kind, &str)] = &[$(($kind, $name)),+];
    };
}

kinds! {
    /// Record of the run.
    RUN = "run": RunTable { HostFactTable by "1"; }
    /// Record of a trial.
    TRIAL = "trial": TrialTable {
        ReasonTable by "trial";
        MetricTable by "trial";
        SeriesTable by "trial";
        HistogramTable by "trial";
        FactTable by "trial";
        WarningTable by "trial";
    }
    /// Record of a check of the path.
    PATH_CHECK = "path check": PathCheckTable { PathQuantityTable by "path_check"; }
    /// Record of a warning about the run; a trial's warnings belong to the trial.
    WARNING = "warning": WarningTable where "trial IS NULL" {}
    /// Samples of a host.
    HOST_SAMPLES = "row of `host_samples`": HostSamplesTable {}
    /// Names of the values of samples.
    HOST_SAMPLE_NAMES = "row of `host_sample_names`": HostSampleNamesTable {}
    /// Value of a sweep.
    PARAMETER = "row of `parameter`": ParameterTable {}
    /// Phrase of a text.
    PHRASE = "row of `phrase`": PhraseTable {}
    /// Run that the file is made of.
    PART = "row of `part`": PartTable { PartFactTable by "part"; PartTrialTable by "part"; }
}

impl Kind {
    /// Stores the checksum of the record with this key, whose rows must all be stored.
    pub(crate) fn seal(&self, connection: &Connection, key: i64) -> rusqlite::Result<Sealed> {
        let checksum = self.checksum(connection, key)?;
        let (table, name) = (self.table.name, self.table.key);
        let update = format!("UPDATE {table} SET checksum = ?2 WHERE {name} = ?1");
        let mut update = connection.prepare_cached(&update)?;
        update.execute((key, checksum))?;
        Ok(Sealed {
            table,
            key,
            checksum,
        })
    }

    /// Stores the checksums of all records of this kind, as they are now.
    pub(crate) fn seal_all(&self, connection: &Connection) -> rusqlite::Result<()> {
        let (table, key, which) = (self.table.name, self.table.key, self.which);
        let keys: Vec<i64> = connection
            .prepare(&format!("SELECT {key} FROM {table} WHERE {which}"))?
            .query_map([], |row| row.get(key))?
            .collect::<Result<_, _>>()?;
        keys.into_iter()
            .try_for_each(|key| self.seal(connection, key).map(drop))
    }

    /// Returns the key of the first record that differs from its checksum, or has none.
    ///
    /// All tables are read once, in the order of the keys: looking up each record takes several times as
    /// long.
    pub(crate) fn changed(&self, connection: &Connection) -> rusqlite::Result<Option<i64>> {
        let (table, key, which) = (self.table.name, self.table.key, self.which);
        let columns = names(&self.table.columns());
        let mut stored = connection.prepare(&format!(
            "SELECT {columns}, checksum FROM {table} WHERE {which} ORDER BY {key}"
        ))?;
        let summed = 0..stored.column_count() - 1;
        let queries = self
            .rows
            .iter()
            .map(|rows| connection.prepare(&rows.of_all()));
        let mut statements = queries.collect::<rusqlite::Result<Vec<_>>>()?;
        let mut tables = Vec::new();
        for statement in &mut statements {
            let columns = statement.column_count();
            let mut rows = statement.query([])?;
            rows.advance()?;
            tables.push((columns, rows));
        }
        let mut records = stored.query([])?;
        while let Some(record) = records.next()? {
            let key: i64 = record.get(key)?;
            let mut hasher = Hasher::new();
            add_row(&mut hasher, 0, record, summed.clone())?;
            for (number, (columns, rows)) in (1..).zip(tables.iter_mut()) {
                while let Some(row) = rows.get() {
                    match row.get::<_, i64>(RECORD_KEY)?.cmp(&key) {
                        Ordering::Greater => break,
                        Ordering::Equal => {
                            add_row(&mut hasher, number, row, RECORD_KEY + 1..*columns)?;
                        }
                        // Of no record, or of one of another kind.
                        Ordering::Less => {}
                    }
                    rows.advance()?;
                }
            }
            let checksum: Option<i64> = record.get("checksum")?;
            if checksum != Some(i64::from(hasher.finalize())) {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }

    /// Whether the records of this kind are rows of this table.
    pub(crate) fn has_table(&self, table: &str) -> bool {
        self.table.name == table
    }

    /// Returns the stored checksums of all records of this kind, by their keys.
    pub(crate) fn checksums(&self, file: &RunFile) -> Result<HashMap<i64, u32>, ResultsError> {
        let (table, key, which) = (self.table.name, self.table.key, self.which);
        let query = format!("SELECT {key}, checksum FROM {table} WHERE {which}");
        let mut checksums = HashMap::new();
        file.each(&query, [], |row| {
            checksums.insert(row.get(0)?, row.get(1)?);
            Ok(())
        })?;
        Ok(checksums)
    }

    fn checksum(&self, connection: &Connection, key: i64) -> rusqlite::Result<u32> {
        let (table, of) = (self.table.name, self.table.key);
        let columns = names(&self.table.columns());
        let mut hasher = Hasher::new();
        let record = format!("SELECT {columns} FROM {table} WHERE {of} = ?1");
        let queries = self.rows.iter().map(Rows::of_one);
        for (number, query) in (0..).zip(std::iter::once(record).chain(queries)) {
            let mut statement = connection.prepare_cached(&query)?;
            let columns = statement.column_count();
            let mut rows = statement.query([key])?;
            while let Some(row) = rows.next()? {
                add_row(&mut hasher, number, row, 0..columns)?;
            }
        }
        Ok(hasher.finalize())
    }
}

/// Record whose checksum has been stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sealed {
    /// Name of the table of the record.
    pub(crate) table: &'static str,
    pub(crate) key: i64,
    pub(crate) checksum: u32,
}

/// Position of the record's key in the rows of [`Rows::of_all`].
const RECORD_KEY: usize = 0;

/// Adds columns of a row of the `table`-th table of a record.
fn add_row(
    hasher: &mut Hasher,
    table: u8,
    row: &Row<'_>,
    columns: Range<usize>,
) -> rusqlite::Result<()> {
    for column in columns {
        let number;
        let (kind, bytes): (u8, &[u8]) = match row.get_ref(column)? {
            ValueRef::Null => (0, &[]),
            ValueRef::Integer(value) => {
                number = value.to_le_bytes();
                (1, &number)
            }
            ValueRef::Real(value) => {
                number = value.to_bits().to_le_bytes();
                (2, &number)
            }
            ValueRef::Text(text) => (3, text),
            ValueRef::Blob(blob) => (4, blob),
        };
        // Where a value ends is part of what is summed.
        let mut head = [table, kind, 0, 0, 0, 0, 0, 0, 0, 0];
        head[2..].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
        hasher.update(&head);
        hasher.update(bytes);
    }
    Ok(())
}
