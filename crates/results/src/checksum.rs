//! Checksums of stored records, which detect a changed bit that leaves the file a sound database.

use std::{cmp::Ordering, ops::Range};

use crc32fast::Hasher;
use rusqlite::{
    Connection, Row, fallible_streaming_iterator::FallibleStreamingIterator as _, types::ValueRef,
};

use crate::schema;

/// Kind of record that is stored once and has a checksum.
#[derive(Debug)]
pub(crate) struct Stored {
    table: &'static str,
    key: &'static str,
    /// Condition on the rows of `table` that are records of this kind.
    which: &'static str,
    /// Version of the tables since which records of this kind have checksums.
    pub(crate) since: i32,
    /// Rows of the record in all tables.
    pub(crate) rows: &'static [Rows],
}

/// Rows of one table that are part of a record.
#[derive(Debug)]
pub(crate) struct Rows {
    /// Columns that are summed.
    columns: &'static str,
    /// Version of the tables that added a column to them, and that column.
    added: Option<(i32, &'static str)>,
    pub(crate) table: &'static str,
    /// Column with the record's key.
    key: &'static str,
    /// Columns by which the rows of one record are ordered.
    pub(crate) order: &'static str,
}

impl Rows {
    /// Returns the summed columns of tables of a version.
    pub(crate) fn columns(&self, version: i32) -> String {
        let mut columns = self.columns.to_owned();
        if let Some((_, added)) = self.added.filter(|(since, _)| version >= *since) {
            columns.push_str(", ");
            columns.push_str(added);
        }
        columns
    }

    /// Returns the query for the rows of one record, by its key.
    fn of_one(&self) -> String {
        let columns = self.columns(schema::VERSION);
        let (table, key, order) = (self.table, self.key, self.order);
        format!("SELECT {columns} FROM {table} WHERE {key} = ?1 ORDER BY {order}")
    }

    /// Returns the query for the rows of all records of tables of a version, with the key first.
    fn of_all(&self, version: i32) -> String {
        let columns = self.columns(version);
        let (table, key, order) = (self.table, self.key, self.order);
        format!(
            "SELECT {key}, {columns} FROM {table} WHERE {key} IS NOT NULL ORDER BY {key}, {order}"
        )
    }
}

/// Defines kinds of records, one entry each: the constant, the name for messages, the table with the column of the
/// record's key, the condition on its rows unless all are records of the kind, the version of the tables since which they
/// have checksums; then the rows of a record: table, column with the record's key, order, columns that are summed, and a
/// column that a later version of the tables added.
macro_rules! kinds {
    ($($(#[$meaning:meta])* $kind:ident = $name:literal: $table:literal by $key:literal $(where $which:literal)?
        since $since:literal { $($rows:literal by $of:literal order $order:literal: $columns:literal
            $(since $added_since:literal $added:literal)?;)+ })+) => {
        $($(#[$meaning])* pub(crate) const $kind: Stored = Stored {
            table: $table,
            key: $key,
            which: [$($which,)? "TRUE"][0],
            since: $since,
            rows: &[$(Rows {
                columns: $columns,
                added: [$(Some(($added_since, $added)),)? None][0],
                table: $rows,
                key: $of,
                order: $order,
            }),+],
        };)+

        /// Every kind of record, with its name for messages.
        pub(crate) const ALL: &[(Stored, &str)] = &[$(($kind, $name)),+];
    };
}

kinds! {
    /// Record of the run.
    RUN = "run": "run" by "id" since 2 {
        "run" by "id" order "id":
            "run_id, regatta_version, started_unix_ns, study, study_json, study_text, bed, state, state_reason";
        "host_fact" by "1" order "host, name": "host, name, value";
    }
    /// Record of a trial.
    TRIAL = "trial": "trial" by "trial" since 2 {
        "trial" by "trial" order "trial":
            "trial, round, transport, condition, workload, started_unix_ns, seed, outcome, hint, attempt";
        "reason" by "trial" order "position": "position, reason";
        "metric" by "trial" order "name": "name, value";
        "series" by "trial" order "position": "position, side, name, samples, t_ns, value";
        "histogram" by "trial" order "position": "position, side, name, hdr_v2_base64";
        "fact" by "trial" order "name": "name, value";
        "warning" by "trial" order "id": "code, message, hint" since 7 "content_json";
    }
    /// Record of a check of the path.
    PATH_CHECK = "path check": "path_check" by "id" since 2 {
        "path_check" by "id" order "id": "id, condition, checked_unix_ns, within, step_at_ns, spoiled";
        "path_quantity" by "path_check" order "position":
            "position, name, asked, achieved, lowest, highest, n, within";
    }
    /// Record of a warning about the run; a trial's warnings belong to the trial.
    WARNING = "warning": "warning" by "id" where "trial IS NULL" since 2 {
        "warning" by "id" order "id": "code, message, hint" since 7 "content_json";
    }
    /// Samples of a host.
    HOST_SAMPLES = "row of `host_samples`": "host_samples" by "id" since 3 {
        "host_samples" by "id" order "id": "id, host, trial, names, samples, unix_ns, monotonic_ns, value_zlib";
    }
    /// Names of the values of samples.
    HOST_SAMPLE_NAMES = "row of `host_sample_names`": "host_sample_names" by "id" since 3 {
        "host_sample_names" by "id" order "id": "id, names";
    }
    /// Value of a sweep.
    PARAMETER = "row of `parameter`": "parameter" by "id" since 4 {
        "parameter" by "id" order "id": "id, part, name, key, value, unit, text";
    }
    /// Phrase of a text.
    PHRASE = "row of `phrase`": "phrase" by "id" since 8 {
        "phrase" by "id" order "id": "id, text, content_json";
    }
    /// Run that the file is made of.
    PART = "row of `part`": "part" by "id" since 5 {
        "part" by "id" order "id":
            "id, run_id, plan_sha256, shard, shards, trials, node, regatta_version, started_unix_ns, bed";
        "part_fact" by "part" order "host, name": "host, name, value";
        "part_trial" by "part" order "trial": "trial";
    }
}

impl Stored {
    /// Stores the checksum of the record with this key, whose rows must all be stored in tables of this version.
    pub(crate) fn seal(&self, connection: &Connection, key: i64) -> rusqlite::Result<()> {
        let checksum = self.checksum(connection, key)?;
        let (table, name) = (self.table, self.key);
        let update = format!("UPDATE {table} SET checksum = ?2 WHERE {name} = ?1");
        let mut update = connection.prepare_cached(&update)?;
        update.execute((key, checksum)).map(|_| ())
    }

    /// Stores the checksums of all records of this kind, as they are now.
    pub(crate) fn seal_all(&self, connection: &Connection) -> rusqlite::Result<()> {
        let (table, key, which) = (self.table, self.key, self.which);
        let keys: Vec<i64> = connection
            .prepare(&format!("SELECT {key} FROM {table} WHERE {which}"))?
            .query_map([], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        keys.into_iter()
            .try_for_each(|key| self.seal(connection, key))
    }

    /// Returns the key of the first record that differs from its checksum, or has none, in tables of a version.
    ///
    /// All tables are read once, in the order of the keys: looking up each record takes several times as
    /// long.
    pub(crate) fn changed(
        &self,
        connection: &Connection,
        version: i32,
    ) -> rusqlite::Result<Option<i64>> {
        let (table, key, which) = (self.table, self.key, self.which);
        let mut stored = connection.prepare(&format!(
            "SELECT {key}, checksum FROM {table} WHERE {which} ORDER BY {key}"
        ))?;
        let queries = self
            .rows
            .iter()
            .map(|rows| connection.prepare(&rows.of_all(version)));
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
            let key: i64 = record.get(0)?;
            let mut hasher = Hasher::new();
            for (number, (columns, rows)) in tables.iter_mut().enumerate() {
                while let Some(row) = rows.get() {
                    match row.get::<_, i64>(0)?.cmp(&key) {
                        Ordering::Greater => break,
                        Ordering::Equal => add_row(&mut hasher, number, row, 1..*columns)?,
                        // Of no record, or of one of another kind.
                        Ordering::Less => {}
                    }
                    rows.advance()?;
                }
            }
            if record.get::<_, Option<i64>>(1)? != Some(i64::from(hasher.finalize())) {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }

    fn checksum(&self, connection: &Connection, key: i64) -> rusqlite::Result<i64> {
        let mut hasher = Hasher::new();
        for (number, rows) in self.rows.iter().enumerate() {
            let mut statement = connection.prepare_cached(&rows.of_one())?;
            let columns = statement.column_count();
            let mut rows = statement.query([key])?;
            while let Some(row) = rows.next()? {
                add_row(&mut hasher, number, row, 0..columns)?;
            }
        }
        Ok(i64::from(hasher.finalize()))
    }
}

/// Adds columns of a row of the `table`-th table of a record.
fn add_row(
    hasher: &mut Hasher,
    table: usize,
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
        let mut head = [table as u8, kind, 0, 0, 0, 0, 0, 0, 0, 0];
        head[2..].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
        hasher.update(&head);
        hasher.update(bytes);
    }
    Ok(())
}
