//! Samples of the hosts: rows of `host_samples`, whose values are compressed.

use std::io::{Read, Write};

use flate2::{Compression, read::ZlibDecoder, write::ZlibEncoder};
use regatta_model::{HostSample, HostSamples};
use rusqlite::{OptionalExtension as _, Row, Transaction, params};

use crate::{
    ResultsError, checksum,
    insert::{put, signed},
    query::{RowError, RunFile},
};

/// Most bytes of values in one row: a row has the samples of seconds, or of one trial. A file with
/// more was not written by Regatta.
const MAX_BYTES: usize = 1 << 30;

/// Stores samples as one row. Samples with another number of values than names are left out.
pub(crate) fn insert(transaction: &Transaction<'_>, batch: &HostSamples) -> rusqlite::Result<()> {
    let complete = |sample: &&HostSample| sample.values.len() == batch.names.len();
    let samples: Vec<&HostSample> = batch.samples.iter().filter(complete).collect();
    if samples.is_empty() {
        return Ok(());
    }
    let names = names_id(transaction, &batch.names)?;
    let times = |time: fn(&HostSample) -> i64| -> Vec<u8> {
        let times = samples.iter().map(|sample| time(sample));
        times.flat_map(i64::to_le_bytes).collect()
    };
    let values = compressed(batch.names.len(), &samples)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    put(
        transaction,
        "host_samples (host, trial, names, samples, unix_ns, monotonic_ns, value_zlib)",
        params![
            batch.host,
            batch.trial,
            names,
            signed(samples.len()),
            times(|sample| sample.unix_ns),
            times(|sample| sample.monotonic_ns),
            values,
        ],
    )?;
    checksum::HOST_SAMPLES.seal(transaction, transaction.last_insert_rowid())
}

/// Returns the row of a list of names, which is stored with its first samples.
fn names_id(transaction: &Transaction<'_>, names: &[String]) -> rusqlite::Result<i64> {
    let text = serde_json::to_string(names)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    let known = "SELECT id FROM host_sample_names WHERE names = ?1";
    let known = transaction.query_row(known, [&text], |row| row.get(0));
    if let Some(known) = known.optional()? {
        return Ok(known);
    }
    put(transaction, "host_sample_names (names)", params![text])?;
    let id = transaction.last_insert_rowid();
    checksum::HOST_SAMPLE_NAMES.seal(transaction, id)?;
    Ok(id)
}

/// Returns the values, all of one name after all of another, which compresses best; absent values are
/// NaN.
fn compressed(names: usize, samples: &[&HostSample]) -> std::io::Result<Vec<u8>> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    for name in 0..names {
        for sample in samples {
            let value = sample.values[name].unwrap_or(f32::NAN);
            encoder.write_all(&value.to_le_bytes())?;
        }
    }
    encoder.finish()
}

impl RunFile {
    /// Passes the samples of the hosts to `take`, in the order in which they were stored.
    ///
    /// # Errors
    /// As [`RunFile::header`].
    pub fn host_samples(&self, take: &mut dyn FnMut(HostSamples)) -> Result<(), ResultsError> {
        self.each_host_samples(|batch| {
            take(batch);
            Ok(())
        })
    }

    /// Passes all rows to `take`, in the order in which they were stored. A file of version 2 or
    /// older has none.
    pub(crate) fn each_host_samples(
        &self,
        mut take: impl FnMut(HostSamples) -> Result<(), ResultsError>,
    ) -> Result<(), ResultsError> {
        if self.version()? < 3 {
            return Ok(());
        }
        let sql = "SELECT host_samples.id, host, trial, host_sample_names.names, unix_ns, monotonic_ns, value_zlib
             FROM host_samples JOIN host_sample_names
             ON host_samples.names = host_sample_names.id ORDER BY host_samples.id";
        // Row by row: the samples of a run of days need not fit into memory.
        self.each(sql, [], |row| Ok(take(self.batch(row)?)?))
    }

    /// Returns the names of the quantities of all rows, in the order in which they occurred.
    pub(crate) fn host_sample_names(&self) -> Result<Vec<String>, ResultsError> {
        let mut names = Vec::new();
        if self.version()? >= 3 {
            let sql = "SELECT names FROM host_sample_names ORDER BY id";
            for list in self.rows(sql, |row| row.get::<_, String>(0))? {
                add_new(&mut names, &self.names(&list)?);
            }
        }
        Ok(names)
    }

    fn names(&self, text: &str) -> Result<Vec<String>, ResultsError> {
        serde_json::from_str(text)
            .map_err(|e| self.damaged(format!("the names of host samples cannot be read: {e}")))
    }

    /// Reads the samples of a row.
    fn batch(&self, row: &Row<'_>) -> Result<HostSamples, RowError> {
        let names = self.names(row.get_ref(3)?.as_str()?)?;
        let times = |column| -> Result<Vec<i64>, RowError> {
            let chunks = row.get_ref(column)?.as_blob()?.as_chunks::<8>().0.iter();
            Ok(chunks.map(|chunk| i64::from_le_bytes(*chunk)).collect())
        };
        let (unix_ns, monotonic_ns) = (times(4)?, times(5)?);
        let value_zlib = row.get_ref(6)?.as_blob()?;
        let length = (names.len().checked_mul(unix_ns.len()))
            .and_then(|values| values.checked_mul(4))
            .filter(|length| *length <= MAX_BYTES);
        let mut bytes = Vec::new();
        let unpacked = length.is_some_and(|length| {
            let limit = length as u64 + 1;
            let read = ZlibDecoder::new(value_zlib)
                .take(limit)
                .read_to_end(&mut bytes);
            read.is_ok() && bytes.len() == length
        });
        if !unpacked || unix_ns.len() != monotonic_ns.len() {
            let id: i64 = row.get(0)?;
            let what =
                format!("row {id} of `host_samples` has other values than its names and times");
            return Err(self.damaged(what).into());
        }
        let values: Vec<f32> = (bytes.as_chunks::<4>().0.iter())
            .map(|chunk| f32::from_le_bytes(*chunk))
            .collect();
        let count = unix_ns.len();
        let samples = unix_ns.iter().zip(&monotonic_ns).enumerate();
        let samples = samples.map(|(position, (unix_ns, monotonic_ns))| HostSample {
            unix_ns: *unix_ns,
            monotonic_ns: *monotonic_ns,
            values: (0..names.len())
                .map(|name| Some(values[name * count + position]).filter(|v| v.is_finite()))
                .collect(),
        });
        Ok(HostSamples {
            host: row.get(1)?,
            trial: row.get(2)?,
            samples: samples.collect(),
            names,
        })
    }
}

/// Adds those names that are not among the known ones yet.
pub(crate) fn add_new(known: &mut Vec<String>, names: &[String]) {
    for name in names {
        if !known.contains(name) {
            known.push(name.clone());
        }
    }
}
