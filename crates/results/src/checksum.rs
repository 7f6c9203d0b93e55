//! Checksums of stored records, which detect a changed bit that leaves the file a sound database.

use std::{cmp::Ordering, ops::Range};

use crc32fast::Hasher;
use rusqlite::{
    Connection, Row, fallible_streaming_iterator::FallibleStreamingIterator as _, types::ValueRef,
};

/// Kind of record that is stored once and has a checksum. A column that a later version adds does
/// not belong here: the checksums of older files would change.
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
    pub(crate) columns: &'static str,
    pub(crate) table: &'static str,
    /// Column with the record's key.
    key: &'static str,
    /// Columns by which the rows of one record are ordered.
    pub(crate) order: &'static str,
}

impl Rows {
    /// Defines rows of a table with the column of the record's key, the columns by which they are ordered, and those
    /// that are summed.
    const fn new(
        table: &'static str,
        [key, order]: [&'static str; 2],
        columns: &'static str,
    ) -> Self {
        Self {
            columns,
            table,
            key,
            order,
        }
    }

    /// Returns the query for the rows of one record, by its key.
    fn of_one(&self) -> String {
        let Self {
            columns,
            table,
            key,
            order,
        } = self;
        format!("SELECT {columns} FROM {table} WHERE {key} = ?1 ORDER BY {order}")
    }

    /// Returns the query for the rows of all records, with the key first.
    fn of_all(&self) -> String {
        let Self {
            columns,
            table,
            key,
            order,
        } = self;
        format!(
            "SELECT {key}, {columns} FROM {table} WHERE {key} IS NOT NULL ORDER BY {key}, {order}"
        )
    }
}

/// Record of the run.
pub(crate) const RUN: Stored = Stored::new(
    "run",
    2,
    &[
        Rows::new(
            "run",
            ["id", "id"],
            "run_id, regatta_version, started_unix_ns, study, study_json, study_text, bed, state, state_reason",
        ),
        Rows::new("host_fact", ["1", "host, name"], "host, name, value"),
    ],
);

/// Record of a trial.
pub(crate) const TRIAL: Stored = Stored {
    key: "trial",
    ..Stored::new(
        "trial",
        2,
        &[
            Rows::new(
                "trial",
                ["trial", "trial"],
                "trial, round, transport, condition, workload, started_unix_ns, seed, outcome, hint, attempt",
            ),
            Rows::new("reason", ["trial", "position"], "position, reason"),
            Rows::new("metric", ["trial", "name"], "name, value"),
            Rows::new(
                "series",
                ["trial", "position"],
                "position, side, name, samples, t_ns, value",
            ),
            Rows::new(
                "histogram",
                ["trial", "position"],
                "position, side, name, hdr_v2_base64",
            ),
            Rows::new("fact", ["trial", "name"], "name, value"),
            Rows::new("warning", ["trial", "id"], "code, message, hint"),
        ],
    )
};

/// Record of a check of the path.
pub(crate) const PATH_CHECK: Stored = Stored::new(
    "path_check",
    2,
    &[
        Rows::new(
            "path_check",
            ["id", "id"],
            "id, condition, checked_unix_ns, within, step_at_ns, spoiled",
        ),
        Rows::new(
            "path_quantity",
            ["path_check", "position"],
            "position, name, asked, achieved, lowest, highest, n, within",
        ),
    ],
);

/// Record of a warning about the run; a trial's warnings belong to the trial.
pub(crate) const WARNING: Stored = Stored {
    which: "trial IS NULL",
    ..Stored::new(
        "warning",
        2,
        &[Rows::new("warning", ["id", "id"], "code, message, hint")],
    )
};

/// Samples of a host.
pub(crate) const HOST_SAMPLES: Stored = Stored::new(
    "host_samples",
    3,
    &[Rows::new(
        "host_samples",
        ["id", "id"],
        "id, host, trial, names, samples, unix_ns, monotonic_ns, value_zlib",
    )],
);

/// Names of the values of samples.
pub(crate) const HOST_SAMPLE_NAMES: Stored = Stored::new(
    "host_sample_names",
    3,
    &[Rows::new("host_sample_names", ["id", "id"], "id, names")],
);

/// Value of a sweep.
pub(crate) const PARAMETER: Stored = Stored::new(
    "parameter",
    4,
    &[Rows::new(
        "parameter",
        ["id", "id"],
        "id, part, name, key, value, unit, text",
    )],
);

/// Run that the file is made of.
pub(crate) const PART: Stored = Stored::new(
    "part",
    5,
    &[
        Rows::new(
            "part",
            ["id", "id"],
            "id, run_id, plan_sha256, shard, shards, trials, node, regatta_version, started_unix_ns, bed",
        ),
        Rows::new("part_fact", ["part", "host, name"], "host, name, value"),
        Rows::new("part_trial", ["part", "trial"], "trial"),
    ],
);

/// Every kind of record, with its name for a message.
pub(crate) const ALL: [(Stored, &str); 8] = [
    (RUN, "run"),
    (TRIAL, "trial"),
    (PATH_CHECK, "path check"),
    (WARNING, "warning"),
    (HOST_SAMPLES, "row of `host_samples`"),
    (HOST_SAMPLE_NAMES, "row of `host_sample_names`"),
    (PARAMETER, "row of `parameter`"),
    (PART, "row of `part`"),
];

impl Stored {
    /// Defines the rows of a table as records with the key `id`, which have checksums since this version of the tables.
    const fn new(table: &'static str, since: i32, rows: &'static [Rows]) -> Self {
        Self {
            table,
            key: "id",
            which: "TRUE",
            since,
            rows,
        }
    }

    /// Stores the checksum of the record with this key, whose rows must all be stored.
    pub(crate) fn seal(&self, connection: &Connection, key: i64) -> rusqlite::Result<()> {
        let checksum = self.checksum(connection, key)?;
        let Self {
            table, key: name, ..
        } = self;
        let update = format!("UPDATE {table} SET checksum = ?2 WHERE {name} = ?1");
        let mut update = connection.prepare_cached(&update)?;
        update.execute((key, checksum)).map(|_| ())
    }

    /// Stores the checksums of all records of this kind, as they are now.
    pub(crate) fn seal_all(&self, connection: &Connection) -> rusqlite::Result<()> {
        let Self {
            table, key, which, ..
        } = self;
        let keys: Vec<i64> = connection
            .prepare(&format!("SELECT {key} FROM {table} WHERE {which}"))?
            .query_map([], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        keys.into_iter()
            .try_for_each(|key| self.seal(connection, key))
    }

    /// Returns the key of the first record that differs from its checksum, or has none.
    ///
    /// All tables are read once, in the order of the keys: looking up each record takes several times as
    /// long.
    pub(crate) fn changed(&self, connection: &Connection) -> rusqlite::Result<Option<i64>> {
        let Self {
            table, key, which, ..
        } = self;
        let mut stored = connection.prepare(&format!(
            "SELECT {key}, checksum FROM {table} WHERE {which} ORDER BY {key}"
        ))?;
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
