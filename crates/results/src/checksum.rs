//! Checksums of stored records, which detect a changed bit that leaves the file a sound database.

use crc32fast::Hasher;
use rusqlite::{Connection, types::ValueRef};

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
    /// Queries for the record's rows in all tables, by its key.
    rows: &'static [&'static str],
}

/// Record of the run.
pub(crate) const RUN: Stored = Stored {
    table: "run",
    key: "id",
    which: "TRUE",
    since: 2,
    rows: &[
        "SELECT run_id, regatta_version, started_unix_ns, study, study_json, study_text, bed,
             state, state_reason
         FROM run WHERE id = ?1",
        "SELECT host, name, value FROM host_fact WHERE ?1 ORDER BY host, name",
    ],
};

/// Record of a trial.
pub(crate) const TRIAL: Stored = Stored {
    table: "trial",
    key: "trial",
    which: "TRUE",
    since: 2,
    rows: &[
        "SELECT trial, round, transport, condition, workload, started_unix_ns, seed, outcome, hint, attempt
         FROM trial WHERE trial = ?1",
        "SELECT position, reason FROM reason WHERE trial = ?1 ORDER BY position",
        "SELECT name, value FROM metric WHERE trial = ?1 ORDER BY name",
        "SELECT position, side, name, samples, t_ns, value FROM series WHERE trial = ?1
         ORDER BY position",
        "SELECT position, side, name, hdr_v2_base64 FROM histogram WHERE trial = ?1 ORDER BY position",
        "SELECT name, value FROM fact WHERE trial = ?1 ORDER BY name",
        "SELECT code, message, hint FROM warning WHERE trial = ?1 ORDER BY id",
    ],
};

/// Record of a check of the path.
pub(crate) const PATH_CHECK: Stored = Stored {
    table: "path_check",
    key: "id",
    which: "TRUE",
    since: 2,
    rows: &[
        "SELECT id, condition, checked_unix_ns, within, step_at_ns, spoiled
         FROM path_check WHERE id = ?1",
        "SELECT position, name, asked, achieved, lowest, highest, n, within FROM path_quantity
         WHERE path_check = ?1 ORDER BY position",
    ],
};

/// Record of a warning about the run; a trial's warnings belong to the trial.
pub(crate) const WARNING: Stored = Stored {
    table: "warning",
    key: "id",
    which: "trial IS NULL",
    since: 2,
    rows: &["SELECT code, message, hint FROM warning WHERE id = ?1"],
};

/// Samples of a host.
pub(crate) const HOST_SAMPLES: Stored = Stored {
    table: "host_samples",
    key: "id",
    which: "TRUE",
    since: 3,
    rows: &[
        "SELECT id, host, trial, names, samples, unix_ns, monotonic_ns, value_zlib
         FROM host_samples WHERE id = ?1",
    ],
};

/// Names of the values of samples.
pub(crate) const HOST_SAMPLE_NAMES: Stored = Stored {
    table: "host_sample_names",
    key: "id",
    which: "TRUE",
    since: 3,
    rows: &["SELECT id, names FROM host_sample_names WHERE id = ?1"],
};

/// Value of a sweep.
pub(crate) const PARAMETER: Stored = Stored {
    table: "parameter",
    key: "id",
    which: "TRUE",
    since: 4,
    rows: &["SELECT id, part, name, key, value, unit, text FROM parameter WHERE id = ?1"],
};

/// Every kind of record, with its name for a message.
pub(crate) const ALL: [(Stored, &str); 7] = [
    (RUN, "run"),
    (TRIAL, "trial"),
    (PATH_CHECK, "path check"),
    (WARNING, "warning"),
    (HOST_SAMPLES, "row of `host_samples`"),
    (HOST_SAMPLE_NAMES, "row of `host_sample_names`"),
    (PARAMETER, "row of `parameter`"),
];

impl Stored {
    /// Stores the checksum of the record with this key, whose rows must all be stored.
    pub(crate) fn seal(&self, connection: &Connection, key: i64) -> rusqlite::Result<()> {
        let checksum = self.checksum(connection, key)?;
        let Self {
            table, key: name, ..
        } = self;
        connection
            .prepare_cached(&format!(
                "UPDATE {table} SET checksum = ?2 WHERE {name} = ?1"
            ))?
            .execute((key, checksum))
            .map(|_| ())
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
    pub(crate) fn changed(&self, connection: &Connection) -> rusqlite::Result<Option<i64>> {
        let Self {
            table, key, which, ..
        } = self;
        let mut stored = connection.prepare(&format!(
            "SELECT {key}, checksum FROM {table} WHERE {which} ORDER BY {key}"
        ))?;
        let mut rows = stored.query([])?;
        while let Some(row) = rows.next()? {
            let key = row.get(0)?;
            if row.get::<_, Option<i64>>(1)? != Some(self.checksum(connection, key)?) {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }

    fn checksum(&self, connection: &Connection, key: i64) -> rusqlite::Result<i64> {
        let mut hasher = Hasher::new();
        for (table, sql) in self.rows.iter().enumerate() {
            let mut statement = connection.prepare_cached(sql)?;
            let columns = statement.column_count();
            let mut rows = statement.query([key])?;
            while let Some(row) = rows.next()? {
                for column in 0..columns {
                    let value = row.get_ref(column)?;
                    let number;
                    let (kind, bytes): (u8, &[u8]) = match value {
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
                    hasher.update(&[table as u8, kind]);
                    hasher.update(&(bytes.len() as u64).to_le_bytes());
                    hasher.update(bytes);
                }
            }
        }
        Ok(i64::from(hasher.finalize()))
    }
}
